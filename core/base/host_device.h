// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Macros for functions in headers of core/rules and core/base/kernels. The functions are compiled into libshampoo.so,
// into the CUDA plugin (libshampoo_cuda.so) and into the fake plugin of the tests. The functions neither throw nor
// allocate. Of the standard library, they call only functions of <bit>, <cmath> and <limits>.
//
//   SHAMPOO_HD           Marks a function that host code and CUDA kernels call. A constexpr function needs no mark,
//                        because nvcc is called with --expt-relaxed-constexpr.
//   SHAMPOO_CALLS_BACK   Precedes SHAMPOO_HD in a template that calls its argument or functions of its argument. nvcc
//                        then accepts an argument whose functions are callable only on the device.
//   SHAMPOO_HD_ELEMENT   Like SHAMPOO_HD, for a function that is called for every element. The function is always
//                        inlined, because its callers in core/base/kernels are compiled for several instruction sets.
//                        Without inlining, the linker would keep only one of the compiled copies of the function, and
//                        this copy could have instructions that the CPU does not support.
#if defined(__CUDACC__)
#define SHAMPOO_HD __host__ __device__
#define SHAMPOO_CALLS_BACK _Pragma("nv_exec_check_disable")
#define SHAMPOO_HD_ELEMENT __host__ __device__ __forceinline__
#else
#define SHAMPOO_HD
#define SHAMPOO_CALLS_BACK
#define SHAMPOO_HD_ELEMENT [[gnu::always_inline]] inline
#endif
