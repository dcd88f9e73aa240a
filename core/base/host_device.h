// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Macros for functions in headers of core/rules and core/base/kernels. The functions are compiled into libshampoo.so,
// into the CUDA plugin (libshampoo_cuda.so) and into the fake plugin of the tests. The functions neither throw nor
// allocate, and use only <bit>, <cmath> and <limits> of the standard library.
//
//   SHAMPOO_HD           A function that host code and CUDA kernels call. A constexpr function needs no mark, because
//                        nvcc is called with --expt-relaxed-constexpr.
//   SHAMPOO_CALLS_BACK   Precedes SHAMPOO_HD in a function template with a parameter that the template calls. The
//                        argument may be a function that can only be called on the device.
//   SHAMPOO_HD_ELEMENT   Like SHAMPOO_HD, for a function that is called for every element. The function is always
//                        inlined. Its callers in core/base/kernels are compiled for several instruction sets, so the
//                        linker would otherwise merge copies of the function that have different instructions.
#if defined(__CUDACC__)
#define SHAMPOO_HD __host__ __device__
#define SHAMPOO_CALLS_BACK _Pragma("nv_exec_check_disable")
#define SHAMPOO_HD_ELEMENT __host__ __device__ __forceinline__
#else
#define SHAMPOO_HD
#define SHAMPOO_CALLS_BACK
#define SHAMPOO_HD_ELEMENT [[gnu::always_inline]] inline
#endif
