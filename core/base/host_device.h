// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Macros that mark functions in headers that libshampoo.so, the CUDA plugin and the fake plugin of the tests each
// compile (core/rules and core/base/kernels). These functions use only <bit>, <cmath> and <limits> of the standard
// library. They neither throw nor allocate.
//
//   SHAMPOO_HD           A function that host code and CUDA kernels call. A constexpr function needs no mark, because
//                        nvcc is called with --expt-relaxed-constexpr.
//   SHAMPOO_CALLS_BACK   Precedes SHAMPOO_HD for a template that calls a callable argument. The argument may be
//                        callable on the device only.
//   SHAMPOO_HD_ELEMENT   Like SHAMPOO_HD, for a function that is called for every element. It is always inlined: the
//                        loops of core/base/kernels are compiled for several instruction sets, and the linker must
//                        not merge the copies of a function.
#if defined(__CUDACC__)
#define SHAMPOO_HD __host__ __device__
#define SHAMPOO_CALLS_BACK _Pragma("nv_exec_check_disable")
#define SHAMPOO_HD_ELEMENT __host__ __device__ __forceinline__
#else
#define SHAMPOO_HD
#define SHAMPOO_CALLS_BACK
#define SHAMPOO_HD_ELEMENT [[gnu::always_inline]] inline
#endif
