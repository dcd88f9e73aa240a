# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=FOLDER -DLIBRARIES=FILE=NAME;... -DSTRIP=PROGRAM -P pack_libraries.cmake
#
# Copies each library FILE to FOLDER/NAME, for the jar. Removes debug information and paths of the build machine.
file(MAKE_DIRECTORY ${OUT})
foreach(library ${LIBRARIES})
  string(REPLACE "=" ";" pair ${library})
  list(GET pair 0 file)
  list(GET pair 1 name)
  configure_file(${file} ${OUT}/${name} COPYONLY)
  execute_process(COMMAND ${STRIP} --strip-unneeded ${OUT}/${name} COMMAND_ERROR_IS_FATAL ANY)
  if(NOT name MATCHES "java") # libshampoo_java.so needs its RPATH $ORIGIN to find libshampoo.so
    file(RPATH_REMOVE FILE ${OUT}/${name})
  endif()
endforeach()
