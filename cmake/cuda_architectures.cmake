# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# shampoo_cuda_architectures(<result> <wanted>): sets <result> to <wanted>. If <wanted> is "native", sets <result> to
# the architectures of this machine's GPUs, or to 90-real if the machine has no GPU. CMake itself accepts "native", but
# without a GPU it prints a warning and uses its default architecture.
function(shampoo_cuda_architectures result wanted)
  if(NOT wanted STREQUAL "native")
    set(${result} "${wanted}" PARENT_SCOPE)
    return()
  endif()
  set(architectures "")
  find_program(smi nvidia-smi NO_CACHE)
  if(smi)
    execute_process(COMMAND ${smi} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status TIMEOUT 60)
    if(status EQUAL 0)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
      foreach(capability IN LISTS capabilities)
        string(REPLACE "." "" number ${capability})
        list(APPEND architectures ${number}-real)
      endforeach()
      list(REMOVE_DUPLICATES architectures)
    endif()
  endif()
  if(NOT architectures)
    set(architectures 90-real)
  endif()
  set(${result} "${architectures}" PARENT_SCOPE)
endfunction()
