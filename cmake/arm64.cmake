# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# A toolchain file (CMAKE_TOOLCHAIN_FILE) for builds for 64-bit ARM with Debian's cross compiler (the package
# g++-aarch64-linux-gnu). Tests run under qemu-user. The variable SHAMPOO_ARM64_ROOT must name a folder that
# arm64_packages.sh has filled with the unpacked arm64 packages of Debian that the build needs.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SHAMPOO_ARM64_ROOT)
set(CMAKE_FIND_ROOT_PATH ${SHAMPOO_ARM64_ROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
