# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# libshampoo.a, for programs that must be a single file. The archive contains one object file, in which only the
# functions of the header are global symbols. The private BLAS, the core and the instances of templates are local, so
# that they do not conflict with symbols of the program that have the same names.
if(SHAMPOO_SYSTEM_BLAS OR SHAMPOO_SANITIZE)
  message(FATAL_ERROR "SHAMPOO_STATIC is ON: libshampoo.a contains the private BLAS and cannot be combined with "
                      "SHAMPOO_SYSTEM_BLAS or SHAMPOO_SANITIZE")
endif()

# The linker joins all objects into one (-r) and dissolves section groups. If a group remained and the program had a
# group of the same name, linking the program would drop the archive's group and the local symbols in it. By default,
# GCC gives constants of templates a symbol that is unique in the process. objcopy cannot make such a symbol local.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(shampoo_core PRIVATE -fno-gnu-unique)
  target_compile_options(shampoo_capi PRIVATE -fno-gnu-unique)
endif()
add_executable(shampoo_joined $<TARGET_OBJECTS:shampoo_capi>)
target_link_libraries(shampoo_joined PRIVATE shampoo_core)
target_link_options(shampoo_joined PRIVATE -r -nostdlib LINKER:--force-group-allocation)
set_target_properties(shampoo_joined PROPERTIES LINKER_LANGUAGE CXX SUFFIX .o)

set(archive ${CMAKE_CURRENT_BINARY_DIR}/libshampoo.a)
add_custom_command(OUTPUT ${archive}
  COMMAND ${CMAKE_OBJCOPY} --strip-debug --wildcard --keep-global-symbol=shampoo_* $<TARGET_FILE:shampoo_joined> shampoo.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
  COMMAND ${CMAKE_AR} rcs ${archive} shampoo.o
  DEPENDS shampoo_joined COMMENT "libshampoo.a" VERBATIM)
add_custom_target(shampoo_archive ALL DEPENDS ${archive})

add_library(shampoo_static STATIC IMPORTED GLOBAL)
add_library(shampoo::shampoo_static ALIAS shampoo_static)
add_dependencies(shampoo_static shampoo_archive)
set_target_properties(shampoo_static PROPERTIES IMPORTED_LOCATION ${archive})
target_include_directories(shampoo_static INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/include)
target_link_libraries(shampoo_static INTERFACE ${SHAMPOO_STATIC_NEEDS})
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
