# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Defines the target shampoo_warnings, which turns on warnings. If SHAMPOO_WARNINGS_AS_ERRORS is set, as in development
# builds, warnings are errors. The target also sets the other compiler flags that all targets share, such as those of
# sanitizers.
add_library(shampoo_warnings INTERFACE)
target_compile_options(shampoo_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${SHAMPOO_WARNINGS_AS_ERRORS}>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
target_compile_options(shampoo_warnings INTERFACE -ffunction-sections -fdata-sections)
# Prevents the compiler from contracting a multiplication and an addition into one instruction, so that all builds give
# the same results on one kind of CPU.
target_compile_options(shampoo_warnings INTERFACE -ffp-contract=off)
if(SHAMPOO_SANITIZE)
  target_compile_options(shampoo_warnings INTERFACE
    -fsanitize=${SHAMPOO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shampoo_warnings INTERFACE -fsanitize=${SHAMPOO_SANITIZE})
endif()
