# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Defines the target shampoo_blas, which has the headers and libraries of BLAS and LAPACKE.
#
# The default is a private copy: the serial static archives of OpenBLAS and LAPACKE. The version script of libshampoo.so
# hides their symbols, so the private copy does not affect the BLAS, threads or environment of the host program. The
# serial OpenBLAS has one allocator of scratch memory for all threads, and gives wrong results if several threads use
# this allocator. The linker option --wrap replaces this allocator by the one of core/blas/scratch.cc.
add_library(shampoo_blas INTERFACE)

set(SHAMPOO_SCIPY_OPENBLAS "" CACHE PATH
    "Folder of the Python package scipy_openblas32, whose OpenBLAS is newer than Debian's")
if(SHAMPOO_SCIPY_OPENBLAS)
  set(scipy_library ${SHAMPOO_SCIPY_OPENBLAS}/lib/libscipy_openblas.so)
  if(NOT EXISTS ${scipy_library})
    message(FATAL_ERROR "SHAMPOO_SCIPY_OPENBLAS: ${scipy_library} does not exist: expected the folder "
                        "that python3 -c 'import scipy_openblas32 as b; print(b.__path__[0])' prints")
  endif()
  target_include_directories(shampoo_blas SYSTEM INTERFACE ${SHAMPOO_SCIPY_OPENBLAS}/include)
  target_link_libraries(shampoo_blas INTERFACE ${scipy_library})
  # All symbols of libscipy_openblas.so begin with scipy_, but its headers declare them without this prefix.
  foreach(name gemm gemv symm symv syr2k syrk trsm)
    target_compile_definitions(shampoo_blas INTERFACE
      cblas_s${name}=scipy_cblas_s${name} cblas_d${name}=scipy_cblas_d${name})
  endforeach()
  foreach(name dgelqf dgesvd dorglq dstedc dsyev dsyevd dsyevr dsytrd sgelqf sorglq sstedc ssyevd ssytrd)
    target_compile_definitions(shampoo_blas INTERFACE LAPACKE_${name}_work=scipy_LAPACKE_${name}_work)
  endforeach()
  foreach(name get_config get_corename get_parallel)
    target_compile_definitions(shampoo_blas INTERFACE openblas_${name}=scipy_openblas_${name})
  endforeach()
  # Like the system's BLAS, scipy_openblas32 has its own threads and scratch memory, so SHAMPOO_SYSTEM_BLAS is set.
  set(SHAMPOO_SYSTEM_BLAS ON)
  target_compile_definitions(shampoo_blas INTERFACE SHAMPOO_SYSTEM_BLAS=1)
elseif(SHAMPOO_SYSTEM_BLAS)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(SYSTEM_BLAS REQUIRED IMPORTED_TARGET openblas)
  pkg_check_modules(SYSTEM_LAPACKE REQUIRED IMPORTED_TARGET lapacke)
  target_link_libraries(shampoo_blas INTERFACE PkgConfig::SYSTEM_LAPACKE PkgConfig::SYSTEM_BLAS)
  target_compile_definitions(shampoo_blas INTERFACE SHAMPOO_SYSTEM_BLAS=1)
else()
  set(arch_dir ${CMAKE_LIBRARY_ARCHITECTURE})
  find_path(SHAMPOO_CBLAS_INCLUDE_DIR cblas.h
            PATHS /usr/include/${arch_dir}/openblas-serial NO_DEFAULT_PATH)
  find_library(SHAMPOO_OPENBLAS_ARCHIVE libopenblas.a
               PATHS /usr/lib/${arch_dir}/openblas-serial NO_DEFAULT_PATH)
  find_path(SHAMPOO_LAPACKE_INCLUDE_DIR lapacke.h)
  find_library(SHAMPOO_LAPACKE_ARCHIVE liblapacke.a)
  foreach(piece SHAMPOO_CBLAS_INCLUDE_DIR SHAMPOO_OPENBLAS_ARCHIVE SHAMPOO_LAPACKE_INCLUDE_DIR SHAMPOO_LAPACKE_ARCHIVE)
    if(NOT ${piece})
      message(FATAL_ERROR "${piece} was not found: install libopenblas-serial-dev and liblapacke-dev, "
                          "or configure with -DSHAMPOO_SYSTEM_BLAS=ON")
    endif()
  endforeach()
  target_include_directories(shampoo_blas SYSTEM INTERFACE
    ${SHAMPOO_CBLAS_INCLUDE_DIR} ${SHAMPOO_LAPACKE_INCLUDE_DIR})
  target_link_libraries(shampoo_blas INTERFACE ${SHAMPOO_LAPACKE_ARCHIVE} ${SHAMPOO_OPENBLAS_ARCHIVE})
  target_link_options(shampoo_blas INTERFACE
    LINKER:--wrap=blas_memory_alloc LINKER:--wrap=blas_memory_free
    # OpenBLAS's archive refers to this symbol, and the archive of libshampoo's core defines it. The linker reads the
    # core first. Without this option, it would omit the definition, because no earlier object refers to the symbol.
    LINKER:--undefined=_gfortran_concat_string)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$") # see core/blas/kernel_choice.cc
    target_link_options(shampoo_blas INTERFACE
      LINKER:--wrap=gotoblas_dynamic_init LINKER:--wrap=getenv LINKER:--undefined=__wrap_gotoblas_dynamic_init)
  endif()
endif()
