# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Adds tests of checkpoints. One run of shampoo_replay saves a checkpoint after every step of a trajectory except the
# last. Another run, usually with another number of ranks, resumes from each of these checkpoints. The results must be
# bit-identical to those of uninterrupted training. A set is a list of runs that replay the same cases and must write
# the same result files. The short tier consists of the tests that do not have the label "long". The sets are:
#   sample            ten cases of data/trajectory, in the short tier
#   all               all cases of data/trajectory
#   local_<shard>3    all cases of data/trajectory on three shards with shard_mode=local; <shard> is flat (ranges of the
#                     flattened parameter) or rect (slices along dim 0); a run with other shards cannot load these
#                     checkpoints
#   rules_sample      four cases of data/rules, in the short tier
#   rules             all cases of data/rules
#   elementwise       all cases of data/elementwise, in the short tier
#   norms             all cases of data/norms, in the short tier
#   eigenbasis_sample eight cases of data/eigenbasis, in the short tier
#   eigenbasis        all cases of data/eigenbasis
#   muon              all cases of data/muon
#   later_release     all cases of data/later_release
set(resume_out ${CMAKE_CURRENT_BINARY_DIR}/out/resume)

# golden_sample(<set> <suite> <case>...): sets the variable <set>_cases to the files of these cases of data/<suite>.
function(golden_sample set suite)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/data/${suite}/)
  list(TRANSFORM ARGN APPEND .safetensors)
  set(${set}_cases ${ARGN} PARENT_SCOPE)
endfunction()
golden_sample(sample trajectory
  bf16_params_wd_mom betas_0.9_1_bc0 empty_param_no_merge f16_params f32_all_states_f16 lr_schedule_zero_two_groups
  nesterov_wd_graftphase none_partial_beta1_mom none_whole_group random_p031)
golden_sample(rules_sample rules merged short_spread_async_late short_two_groups zeros_newton)
golden_sample(eigenbasis_sample eigenbasis
  kl_shampoo_freq2 kl_shampoo_missing_gradients kl_soap_order3 nemo_soap_missing soap_freq3 soap_h_missing
  soap_two_groups soap_zero_first)

# golden_resume(<set> <run> [FROM <run>] [SAVES] [COMMAND <words>] [RANKS <ranks>] [OPTIONS <options>]): adds a test
# that makes one run. The run starts at the first step or, with FROM, resumes from the checkpoints of another run.
# SAVES: the run saves checkpoints. COMMAND: the command to use instead of shampoo_replay. RANKS: if ranks are
# processes, all ranks except rank 0, such as 1 2. The results of these ranks are compared, too. OPTIONS: further
# options of the command.
function(golden_resume set run)
  cmake_parse_arguments(PARSE_ARGV 2 arg SAVES FROM "COMMAND;RANKS;OPTIONS")
  set(name golden.resume.${set}.${run})
  set(out ${resume_out}/${set}/${run})
  set(cases ${trajectory_cases})
  if(DEFINED ${set}_cases)
    set(cases ${${set}_cases})
  endif()
  if(NOT arg_COMMAND)
    set(arg_COMMAND shampoo_replay)
  endif()
  set(command ${arg_COMMAND} --threads 1 ${arg_OPTIONS} --out ${out}/answers)
  if(arg_SAVES)
    list(APPEND command --save-every ${out}/checkpoints)
    set_property(GLOBAL APPEND PROPERTY resume_${set}_checkpoints ${out}/checkpoints)
  endif()
  if(arg_FROM)
    list(APPEND command --resume-from ${resume_out}/${set}/${arg_FROM}/checkpoints)
  endif()
  add_test(NAME ${name} COMMAND ${command} ${cases})
  # The timeout is long because these tests mostly wait for the disk.
  set_tests_properties(${name} PROPERTIES FIXTURES_SETUP ${name} TIMEOUT 300)
  if(arg_FROM)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED golden.resume.${set}.${arg_FROM})
  endif()
  if(NOT set MATCHES "sample$|^(elementwise|norms)$")
    set_tests_properties(${name} PROPERTIES LABELS long)
  endif()
  if(set STREQUAL rules) # the longest case has 88 steps
    set_tests_properties(${name} PROPERTIES TIMEOUT 900)
  endif()
  set_property(GLOBAL APPEND PROPERTY resume_${set}_runs ${name})
  set_property(GLOBAL APPEND PROPERTY resume_${set}_answers ${out}/answers)
  foreach(rank IN LISTS arg_RANKS)
    set_property(GLOBAL APPEND PROPERTY resume_${set}_answers ${out}/answers.rank${rank})
  endforeach()
endfunction()

# golden_resume_same_bits(<set> <number of cases> [<folder> <test that writes the folder>]): adds a test that compares
# the results of all runs of a set and, if a folder is passed, the results in this folder. Adds another test that
# removes the checkpoints.
function(golden_resume_same_bits set expected)
  get_property(runs GLOBAL PROPERTY resume_${set}_runs)
  get_property(answers GLOBAL PROPERTY resume_${set}_answers)
  get_property(checkpoints GLOBAL PROPERTY resume_${set}_checkpoints)
  set(name golden.resume.${set})
  list(PREPEND answers ${ARGV2})
  golden_same_bits(${name}.same_bits ${expected} "${answers}" "${runs};${ARGV3}")
  add_test(NAME ${name}.clean COMMAND ${CMAKE_COMMAND} -E rm -rf ${checkpoints})
  set_tests_properties(${name}.clean PROPERTIES FIXTURES_CLEANUP "${runs}")
  if(NOT set MATCHES "sample$|^(elementwise|norms)$")
    set_tests_properties(${name}.same_bits ${name}.clean PROPERTIES LABELS long)
  endif()
endfunction()

# golden_resume_pairs(<set> <numbers of ranks>...): adds runs that save checkpoints with each number of ranks, and runs
# that resume from these checkpoints with each number of ranks.
function(golden_resume_pairs set)
  foreach(from ${ARGN})
    golden_resume(${set} ranks${from} SAVES OPTIONS --ranks ${from})
    foreach(to ${ARGN})
      golden_resume(${set} ranks${from}_to_ranks${to} FROM ranks${from} OPTIONS --ranks ${to})
    endforeach()
  endforeach()
endfunction()

set(gathered_flat --shard-mode gather --shard flat --shards)
set(gathered_rect --shard-mode gather --shard rect --shards)

golden_resume_pairs(sample 1 2)
golden_resume(sample flat2 SAVES OPTIONS ${gathered_flat} 2)
golden_resume(sample flat2_to_rect2x2 FROM flat2 OPTIONS ${gathered_rect} 2 --ranks 2)
golden_resume_same_bits(sample 10)

golden_resume_pairs(all 1 2 3 4 8)
# Except the first, these runs resume from checkpoints that were saved with another number of threads.
golden_resume(all threads5 SAVES OPTIONS --threads 5)
golden_resume(all threads5_to_threads1 FROM threads5)
golden_resume(all threads5_to_ranks2_threads2 FROM threads5 OPTIONS --threads 2 --ranks 2)
golden_resume(all ranks1_to_threads2 FROM ranks1 OPTIONS --threads 2)
golden_resume(all ranks1_to_threads5 FROM ranks1 OPTIONS --threads 5)
# For flat and for rect shards, there are two chains of runs. Each run except the first of a chain resumes from the
# checkpoints of the run before it. The first chain has runs with gathered shards (FSDP), replicas (DDP), replicas of
# gathered shards (HSDP), and one rank. The second chain has runs with HSDP, DDP and FSDP.
foreach(shard flat rect)
  golden_resume(all ${shard}3 SAVES OPTIONS ${gathered_${shard}} 3)
  golden_resume(all ${shard}3_to_ranks2 FROM ${shard}3 SAVES OPTIONS --ranks 2)
  golden_resume(all ${shard}3_to_ranks2_to_${shard}2x2 FROM ${shard}3_to_ranks2 SAVES
                OPTIONS ${gathered_${shard}} 2 --ranks 2)
  golden_resume(all ${shard}2x2_to_one FROM ${shard}3_to_ranks2_to_${shard}2x2)
  golden_resume(all ${shard}2x3 SAVES OPTIONS ${gathered_${shard}} 3 --ranks 2)
  golden_resume(all ${shard}2x3_to_ranks4 FROM ${shard}2x3 SAVES OPTIONS --ranks 4)
  golden_resume(all ${shard}2x3_to_ranks4_to_${shard}8 FROM ${shard}2x3_to_ranks4 OPTIONS ${gathered_${shard}} 8)
endforeach()
golden_resume(all flat3_to_rect4 FROM flat3 OPTIONS ${gathered_rect} 4)
golden_resume(all rect3_to_flat2 FROM rect3 OPTIONS ${gathered_flat} 2)
# In these runs, the ranks are processes.
if(TARGET shampoo_replay_mpi)
  foreach(to 2 3)
    set(others 1)
    if(to EQUAL 3)
      set(others 1 2)
    endif()
    set(mpi ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe ${MPIEXEC_NUMPROC_FLAG} ${to}
            $<TARGET_FILE:shampoo_replay_mpi>)
    golden_resume(all mpi${to} SAVES COMMAND ${mpi} RANKS ${others})
    math(EXPR from "5 - ${to}")
    golden_resume(all mpi${from}_to_mpi${to} FROM mpi${from} COMMAND ${mpi} RANKS ${others}
                  OPTIONS --shard flat --shard-mode gather)
  endforeach()
endif()
golden_resume_same_bits(all 153 ${one_rank} golden.trajectory.threads1)

golden_resume(rules_sample ranks1 SAVES)
golden_resume(rules_sample ranks1_to_ranks2 FROM ranks1 OPTIONS --ranks 2)
golden_resume(rules_sample flat2 SAVES OPTIONS ${gathered_flat} 2)
golden_resume(rules_sample flat2_to_rect2x2 FROM flat2 OPTIONS ${gathered_rect} 2 --ranks 2)
golden_resume_same_bits(rules_sample 4)

foreach(suite elementwise norms eigenbasis_sample eigenbasis muon later_release)
  golden_resume(${suite} ranks1 SAVES)
  golden_resume(${suite} ranks1_to_ranks4_threads2 FROM ranks1 OPTIONS --ranks 4 --threads 2)
  golden_resume(${suite} flat3 SAVES OPTIONS ${gathered_flat} 3)
  golden_resume(${suite} flat3_to_rect2x2 FROM flat3 OPTIONS ${gathered_rect} 2 --ranks 2)
  golden_resume(${suite} ranks3 SAVES OPTIONS --ranks 3)
  golden_resume(${suite} ranks3_to_flat2 FROM ranks3 OPTIONS ${gathered_flat} 2)
endforeach()
golden_resume_same_bits(elementwise 16 ${CMAKE_CURRENT_BINARY_DIR}/out/elementwise/1 golden.elementwise.threads1)
golden_resume_same_bits(norms 2 ${CMAKE_CURRENT_BINARY_DIR}/out/norms/1 golden.norms.threads1)
golden_resume_same_bits(muon 87 ${CMAKE_CURRENT_BINARY_DIR}/out/muon/1 golden.muon.threads1)
golden_resume_same_bits(later_release 64 ${CMAKE_CURRENT_BINARY_DIR}/out/later_release/1 golden.later_release.threads1)
golden_resume_same_bits(eigenbasis_sample 8)
golden_resume_same_bits(eigenbasis 73 ${CMAKE_CURRENT_BINARY_DIR}/out/eigenbasis/1 golden.eigenbasis.threads1)

foreach(from 1 2 3 4)
  golden_resume(rules ranks${from} SAVES OPTIONS --ranks ${from})
endforeach()
foreach(pair 1_to_1 1_to_4 2_to_3 3_to_2 4_to_1)
  string(REPLACE "_to_" ";" both ${pair})
  list(GET both 0 from)
  list(GET both 1 to)
  golden_resume(rules ranks${from}_to_ranks${to} FROM ranks${from} OPTIONS --ranks ${to})
endforeach()
golden_resume(rules threads5 SAVES OPTIONS --threads 5)
golden_resume(rules threads5_to_ranks2_threads2 FROM threads5 OPTIONS --threads 2 --ranks 2)
foreach(shard flat rect)
  golden_resume(rules ${shard}3 SAVES OPTIONS ${gathered_${shard}} 3)
  golden_resume(rules ${shard}3_to_ranks2 FROM ${shard}3 SAVES OPTIONS --ranks 2)
  golden_resume(rules ${shard}3_to_ranks2_to_${shard}2x2 FROM ${shard}3_to_ranks2
                OPTIONS ${gathered_${shard}} 2 --ranks 2)
endforeach()
golden_resume(rules flat3_to_rect4 FROM flat3 OPTIONS ${gathered_rect} 4)
golden_resume_same_bits(rules 64 ${CMAKE_CURRENT_BINARY_DIR}/out/rules/1 golden.rules.threads1)

# With shard_mode=local, runs with one or two replicas of the shards resume from checkpoints of one or two replicas.
foreach(shard flat rect)
  set(set local_${shard}3)
  foreach(from 1 2)
    golden_resume(${set} copies${from} SAVES OPTIONS --shard ${shard} --shards 3 --ranks ${from})
    foreach(to 1 2)
      golden_resume(${set} copies${from}_to_copies${to} FROM copies${from}
                    OPTIONS --shard ${shard} --shards 3 --ranks ${to})
    endforeach()
  endforeach()
  golden_resume_same_bits(${set} 153 ${CMAKE_CURRENT_BINARY_DIR}/out/shards/${shard}1 golden.shards.${shard}1)
endforeach()
