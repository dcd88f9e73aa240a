# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Adds a test that computes the cases of data/rules again and compares them with the files (rules/make_cases.py). Also
# adds tests that replay other cases, whose gradients are scaled (rules/scale_cases.py).
set(rules ${CMAKE_CURRENT_SOURCE_DIR}/rules)
add_test(NAME golden.rules.cases
         COMMAND ${SHAMPOO_TEST_PYTHON} ${rules}/make_cases.py --check ${CMAKE_CURRENT_SOURCE_DIR}/data/rules)
set_tests_properties(golden.rules.cases PROPERTIES PASS_REGULAR_EXPRESSION "(^|\n)64 cases, 0 failed" TIMEOUT 300 LABELS long)

# rules/scale_cases.py writes the cases for three scales of the gradients, and explains why the replays of all three
# must be bit-identical.
add_test(NAME golden.rules.scale_cases
         COMMAND ${SHAMPOO_TEST_PYTHON} ${rules}/scale_cases.py ${CMAKE_CURRENT_BINARY_DIR}/scaled)
set_tests_properties(golden.rules.scale_cases PROPERTIES FIXTURES_SETUP golden.rules.scale_cases)
# golden_scaled(<prefix of the tests> <environment> <command>...): adds tests that replay the scaled cases. The command
# has the interface of shampoo_replay.
function(golden_scaled name environment)
  set(cases ${PROJECT_BINARY_DIR}/tests/golden/scaled)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/out/scaled)
  set(folders "")
  set(fixtures "")
  foreach(scale as_is up down)
    add_test(NAME ${name}.${scale}
             COMMAND sh -c "exec \"$@\" ${cases}/${scale}/*.safetensors" sh ${ARGN} --out ${out}/${scale})
    set_tests_properties(${name}.${scale} PROPERTIES
      FIXTURES_REQUIRED golden.rules.scale_cases FIXTURES_SETUP ${name}.${scale} ENVIRONMENT "${environment}")
    list(APPEND folders ${out}/${scale})
    list(APPEND fixtures ${name}.${scale})
  endforeach()
  golden_same_bits(${name}.same_bits 14 "${folders}" "${fixtures}")
endfunction()
golden_scaled(golden.rules.scaled "" $<TARGET_FILE:shampoo_replay> --threads 2)
