# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCE_DIR=... -D WORK=... -P architectures_test.cmake: checks shampoo_cuda_architectures(), which finds the
# architectures of the machine's GPUs. Scripts in the folder WORK replace nvidia-smi.
include(${SOURCE_DIR}/cmake/cuda_architectures.cmake)

# Checks that shampoo_cuda_architectures() changes <wanted> to <expected> if nvidia-smi prints <prints> and exits with
# <status>.
function(check wanted expected prints status)
  file(WRITE ${WORK}/nvidia-smi "#!/bin/sh\nprintf '${prints}'\nexit ${status}\n")
  file(CHMOD ${WORK}/nvidia-smi PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  shampoo_cuda_architectures(found "${wanted}")
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "shampoo_cuda_architectures(${wanted}) returned ${found}, not ${expected}, with an nvidia-smi "
                        "that prints '${prints}'")
  endif()
endfunction()

set(ENV{PATH} ${WORK}:$ENV{PATH})
check("80-real;100-virtual" "80-real;100-virtual" "9.0\\n" 0)
check(native 90-real "9.0\\n" 0)
check(native 100-real "10.0\\n" 0)
check(native "80-real;120-real" "8.0\\n12.0\\n8.0\\n" 0)
check(native 90-real "No devices were found\\n" 6)
check(native 90-real "" 0)
check(native 90-real "8.0\\n" 9)
