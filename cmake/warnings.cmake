# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# shampoo_warnings: warnings are errors where we develop, and none of a user's business; sanitizers go along, so that all
# of it agrees.
add_library(shampoo_warnings INTERFACE)
target_compile_options(shampoo_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${SHAMPOO_WARNINGS_AS_ERRORS}>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
target_compile_options(shampoo_warnings INTERFACE -ffunction-sections -fdata-sections)
# One result on every build of one kind of CPU: a product and a sum are never contracted behind our back.
target_compile_options(shampoo_warnings INTERFACE -ffp-contract=off)
if(SHAMPOO_SANITIZE)
  target_compile_options(shampoo_warnings INTERFACE
    -fsanitize=${SHAMPOO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shampoo_warnings INTERFACE -fsanitize=${SHAMPOO_SANITIZE})
endif()
