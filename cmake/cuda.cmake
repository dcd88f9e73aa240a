# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# The CUDA backend is a separate library, libshampoo_cuda.so. If this library is installed, libshampoo.so can load it.
# Building the backend does not change libshampoo.so. This file sets two variables:
#
#   SHAMPOO_BUILD_CUDA          whether the backend is built
#   SHAMPOO_CUDA_INCLUDE_DIRS   folders of the CUDA headers, for tests of the backend on a CPU; empty if no headers of
#                               CUDA 12.6 or later were found
set(SHAMPOO_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if a CUDA toolkit is found), ON or OFF")
set_property(CACHE SHAMPOO_CUDA PROPERTY STRINGS AUTO ON OFF)
option(SHAMPOO_CUDA_FROM_PYPI "If there is no CUDA toolkit, make one in the build folder from packages of PyPI" OFF)
option(SHAMPOO_CUDA_FAST_COMPILE "With CUDA 13.0 or later: compile in less time; the compiled kernels are slower" OFF)
# By default, the backend has binaries for three generations of GPUs, and PTX, which the driver compiles for later
# generations.
set(SHAMPOO_CUDA_ARCHITECTURES "80-real;90-real;100-real;100-virtual" CACHE STRING
    "The GPUs for which the CUDA backend is compiled, as in CMAKE_CUDA_ARCHITECTURES; the value native selects the GPUs of this machine, or 90-real if it has none")
set(SHAMPOO_CUDA_HEADERS "" CACHE PATH
    "Folder of the headers of CUDA, for the tests of the CUDA backend on a machine without a CUDA toolkit")

include(${CMAKE_CURRENT_LIST_DIR}/cuda_architectures.cmake)
shampoo_cuda_architectures(cuda_architectures "${SHAMPOO_CUDA_ARCHITECTURES}")

set(SHAMPOO_BUILD_CUDA OFF)
set(SHAMPOO_CUDA_INCLUDE_DIRS)

# cuda_unavailable_reason(<result> <nvcc>): sets <result> to the reason why nvcc cannot be used, or to "" if nvcc works.
# Call it before enable_language(CUDA), which ends the configuration with an error if nvcc cannot be used.
function(cuda_unavailable_reason result nvcc)
  set(${result} "" PARENT_SCOPE)
  set(compilers "${nvcc} ${CMAKE_CXX_COMPILER}")
  if(NOT nvcc)
    set(${result} "no nvcc was found" PARENT_SCOPE)
  elseif(NOT compilers STREQUAL "${SHAMPOO_NVCC_WORKS}")
    execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT output MATCHES "release ([0-9]+\\.[0-9]+)")
      set(${result} "${nvcc} --version prints no version" PARENT_SCOPE)
      return()
    elseif(CMAKE_MATCH_1 VERSION_LESS 12.8)
      set(${result} "${nvcc} belongs to CUDA ${CMAKE_MATCH_1}; expected 12.8 or later" PARENT_SCOPE)
      return()
    endif()
    # Each release of CUDA supports host compilers up to some version, so nvcc may reject CMAKE_CXX_COMPILER.
    file(WRITE ${PROJECT_BINARY_DIR}/nvcc_works.cu "#include <string>\n__global__ void Nothing() {}\n")
    execute_process(COMMAND ${nvcc} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -c nvcc_works.cu -o nvcc_works.o
                    WORKING_DIRECTORY ${PROJECT_BINARY_DIR} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
      set(${result} "${nvcc} cannot compile with ${CMAKE_CXX_COMPILER}: ${output}" PARENT_SCOPE)
      return()
    endif()
    set(SHAMPOO_NVCC_WORKS "${compilers}" CACHE INTERNAL "")
  endif()
endfunction()

if(NOT SHAMPOO_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SHAMPOO_CUDA is ${SHAMPOO_CUDA}: expected AUTO, ON or OFF")
elseif(SHAMPOO_CUDA STREQUAL "ON" AND SHAMPOO_SANITIZE)
  message(FATAL_ERROR
    "SHAMPOO_CUDA is ON: the CUDA backend cannot be built with SHAMPOO_SANITIZE. Set SHAMPOO_CUDA to AUTO")
endif()

# Searches for nvcc in the order of FindCUDAToolkit: first where variables of the user point, such as CUDACXX or
# CUDAToolkit_ROOT, then in the PATH, then in /usr/local/cuda.
if(CMAKE_CUDA_COMPILER)
  set(cuda_nvcc ${CMAKE_CUDA_COMPILER})
elseif(NOT "$ENV{CUDACXX}" STREQUAL "")
  set(cuda_nvcc $ENV{CUDACXX})
else()
  find_program(SHAMPOO_NVCC nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDA_PATH ENV CUDA_HOME PATH_SUFFIXES bin
               PATHS /usr/local/cuda/bin DOC "nvcc, the CUDA compiler")
  mark_as_advanced(SHAMPOO_NVCC)
  set(cuda_nvcc ${SHAMPOO_NVCC})
endif()

if(SHAMPOO_CUDA STREQUAL "OFF")
  message(STATUS "The CUDA backend is not built: SHAMPOO_CUDA is OFF")
elseif(SHAMPOO_SANITIZE)
  message(STATUS "The CUDA backend is not built, because SHAMPOO_SANITIZE is set. If CUDA headers are found, "
                 "the tests of the backend on the CPU are still built")
else()
  cuda_unavailable_reason(cuda_unavailable_reason "${cuda_nvcc}")
  if(SHAMPOO_CUDA_FROM_PYPI AND NOT "${cuda_unavailable_reason}" STREQUAL "")
    set(cuda_folder ${PROJECT_BINARY_DIR}/cuda_toolkit)
    message(STATUS "Installing a CUDA toolkit from PyPI in ${cuda_folder}: the first time, about 730 MB are downloaded")
    execute_process(COMMAND bash ${PROJECT_SOURCE_DIR}/cmake/cuda_from_pypi.sh toolkit ${cuda_folder}
                    RESULT_VARIABLE cuda_status)
    if(NOT cuda_status EQUAL 0)
      message(FATAL_ERROR "SHAMPOO_CUDA_FROM_PYPI is ON, and the packages of cmake/cuda_packages.txt could not be "
                          "installed: the messages of pip are above")
    endif()
    set(cuda_nvcc ${cuda_folder}/bin/nvcc)
    cuda_unavailable_reason(cuda_unavailable_reason "${cuda_nvcc}")
  endif()

  if("${cuda_unavailable_reason}" STREQUAL "")
    set(SHAMPOO_BUILD_CUDA ON)
    set(CMAKE_CUDA_COMPILER ${cuda_nvcc} CACHE FILEPATH "nvcc, the CUDA compiler")
    if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER}) # host code and device code must lay out structs alike
    set(CMAKE_CUDA_ARCHITECTURES ${cuda_architectures})
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static) # so that the host program may use another version of the runtime
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20) # after enable_language: CMake 3.25 could not select C++20 for the compiler test
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    if("${CMAKE_CUDA20_STANDARD_COMPILE_OPTION}" STREQUAL "") # CMake 3.25 lacks the C++20 flag of CUDA 12 and later
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit REQUIRED)
    foreach(library cublas cusolver)
      if(NOT TARGET CUDA::${library})
        set(SHAMPOO_BUILD_CUDA OFF)
        set(cuda_unavailable_reason "the CUDA toolkit of ${cuda_nvcc} has no ${library}")
      endif()
    endforeach()
  endif()

  if(SHAMPOO_BUILD_CUDA)
    message(STATUS "The CUDA backend is built by CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${cuda_architectures}")
  else()
    string(APPEND cuda_unavailable_reason ". Set CMAKE_CUDA_COMPILER to the nvcc of a CUDA toolkit, or SHAMPOO_CUDA_FROM_PYPI to ON")
    if(SHAMPOO_CUDA STREQUAL "ON")
      message(FATAL_ERROR "SHAMPOO_CUDA is ON, and ${cuda_unavailable_reason}")
    endif()
    message(STATUS "The CUDA backend is not built: ${cuda_unavailable_reason}")
  endif()
endif()

# Searches SHAMPOO_CUDA_HEADERS and the toolkit for the CUDA headers, which the tests of the backend on a CPU need.
set(cuda_include_hint)
if(cuda_nvcc)
  cmake_path(GET cuda_nvcc PARENT_PATH cuda_include_hint)
  cmake_path(GET cuda_include_hint PARENT_PATH cuda_include_hint)
endif()
find_path(SHAMPOO_CUDA_INCLUDE_DIR NAMES cusolverDn.h HINTS ${SHAMPOO_CUDA_HEADERS} ${CUDAToolkit_INCLUDE_DIRS}
          ${cuda_include_hint}/include PATHS /usr/local/cuda/include
          DOC "Folder of cusolverDn.h and the other headers of CUDA")
mark_as_advanced(SHAMPOO_CUDA_INCLUDE_DIR)
set(cuda_version 0)
if(SHAMPOO_CUDA_INCLUDE_DIR AND EXISTS ${SHAMPOO_CUDA_INCLUDE_DIR}/cuda_runtime_api.h)
  file(STRINGS ${SHAMPOO_CUDA_INCLUDE_DIR}/cuda_runtime_api.h cuda_version REGEX "^#define CUDART_VERSION ")
  string(REGEX REPLACE "[^0-9]" "" cuda_version "0${cuda_version}")
endif()
if(cuda_version GREATER_EQUAL 12060)
  set(SHAMPOO_CUDA_INCLUDE_DIRS ${SHAMPOO_CUDA_INCLUDE_DIR})
  if(EXISTS ${SHAMPOO_CUDA_INCLUDE_DIR}/cccl) # in CUDA 13, this folder has the header nv/target
    list(APPEND SHAMPOO_CUDA_INCLUDE_DIRS ${SHAMPOO_CUDA_INCLUDE_DIR}/cccl)
  endif()
endif()

# shampoo_cuda_library(<target> <version script>): sets the link options and properties of <target>. The CUDA backend
# and its variant for tests, which is linked with the fake CUDA, both use this function.
function(shampoo_cuda_library target exports)
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  # nodelete: dlclose must not unload the library, because the CUDA runtime runs code at the end of the process.
  target_link_options(${target} PRIVATE
    LINKER:--version-script=${exports} LINKER:-z,nodelete LINKER:-z,defs LINKER:--gc-sections)
  if(SHAMPOO_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,undefs)
  endif()
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME shampoo_cuda VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
endfunction()
