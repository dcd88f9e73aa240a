# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Packages for Debian: `cmake --preset deb && cmake --build --preset deb && cpack --preset deb`.
#
#   libshampoo0        libshampoo.so.0
#   libshampoo0-cuda   libshampoo_cuda.so.0, which libshampoo.so.0 loads; only if the CUDA backend is built
#   libshampoo-dev     headers, the symbolic link libshampoo.so, libshampoo.a, CMake and pkg-config files
#   shampoo-tools      shampoo-ckpt
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev tools)
if(SHAMPOO_BUILD_CUDA)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME libshampoo)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own summary
set(CPACK_PACKAGE_VENDOR "The libshampoo authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
# If you build packages for others, set your own address.
set(SHAMPOO_PACKAGE_CONTACT "The libshampoo authors <authors@libshampoo.invalid>" CACHE STRING
    "Maintainer of the packages: Name <address>")
set(CPACK_PACKAGE_CONTACT "${SHAMPOO_PACKAGE_CONTACT}")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION}-1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SOURCE libshampoo)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE ${SHAMPOO_URL})
set(runtime libshampoo${PROJECT_VERSION_MAJOR})
set(same "(= ${CPACK_DEBIAN_PACKAGE_VERSION})")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${runtime})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Distributed Shampoo optimizers behind a C API
The optimizer Shampoo (arXiv 1802.09568, arXiv 2309.06497) on raw buffers,
for training frameworks and trainers in any language: grafting, blocking,
many ranks over communicators of the caller, checkpoints. The library has a
private BLAS, which is invisible to the rest of the process. Linux on x86-64
and 64-bit ARM; other systems are not supported yet.")

set(CPACK_DEBIAN_CUDA_PACKAGE_NAME ${runtime}-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CUDA_DESCRIPTION "Distributed Shampoo optimizers, on NVIDIA GPUs
The CUDA backend of libshampoo, which the library loads when it is first
needed. The backend needs cuBLAS and cuSOLVER of CUDA ${CUDAToolkit_VERSION_MAJOR}, from wherever they
are installed, and a driver.")
# The libraries of CUDA may be installed without a package. In this case, dpkg-shlibdeps would fail. Therefore this
# package only recommends the packages of NVIDIA.
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "${runtime} ${same}, libc6 (>= 2.34), libgcc-s1 (>= 4.2), libstdc++6 (>= 12)")
set(cuda_release ${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR})
set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS "libcublas-${cuda_release}, libcusolver-${cuda_release}")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libshampoo-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${runtime} ${same}")
set(CPACK_DEBIAN_DEV_DESCRIPTION "Distributed Shampoo optimizers, development files
The headers of libshampoo, headers for communicators of MPI and NCCL, the
archive, and files for CMake and pkg-config.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME shampoo-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "Distributed Shampoo optimizers, checkpoint tool
The program shampoo-ckpt lists the contents of a checkpoint of libshampoo,
verifies it, and compares two checkpoints.")

# The file shlibs excludes the next minor version, because before 1.0, a new minor version may change the API.
set(debian ${PROJECT_SOURCE_DIR}/cmake/debian)
set(made ${CMAKE_CURRENT_BINARY_DIR}/debian)
math(EXPR next_minor "${PROJECT_VERSION_MINOR} + 1")
file(WRITE ${made}/shlibs "libshampoo ${PROJECT_VERSION_MAJOR} ${runtime} (>= ${PROJECT_VERSION}), \
${runtime} (<< ${PROJECT_VERSION_MAJOR}.${next_minor}~)\n")
file(COPY ${debian}/triggers DESTINATION ${made})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${made}/shlibs ${made}/triggers)
set(CPACK_DEBIAN_CUDA_PACKAGE_CONTROL_EXTRA ${made}/triggers)

# Files that Debian and the licenses of the included libraries require in each package.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # uses SOURCE_DATE_EPOCH if it is set
configure_file(${debian}/changelog.in ${made}/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nf ${made}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES notices)
configure_file(${debian}/copyright.in ${made}/copyright @ONLY)
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(FILES ${made}/copyright ${made}/changelog.Debian.gz ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${debian}/${component}.lintian-overrides RENAME ${package}
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/lintian/overrides COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

include(CPack)
