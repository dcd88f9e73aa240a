// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

// What a test asks of the double of CUDA, and tells it. The double runs asynchronous work on the CPU, as late as the
// rules of CUDA allow it, in an order between streams that a test chooses.
//
// Functions are named as in CUDA's headers, without _v2: "cudaMalloc", "cublasCreate", "Launch". Unless said otherwise
// a count goes from 1, and starts when a control function is called.

#define SHAMPOO_FAKE_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// Everything as at the start of the process: work is dropped, memory is gone, handles are invalid, settings are those
// of the beginning. The seed stays.
SHAMPOO_FAKE_EXPORT void fake_cuda_reset(void);

// --- Order of work ---

enum fake_cuda_order {
  FAKE_CUDA_OLDEST_FIRST = 0,  // the stream that was created first, until its work is done
  FAKE_CUDA_YOUNGEST_FIRST = 1,
  FAKE_CUDA_RANDOM = 2,               // by seed
  FAKE_CUDA_AS_LATE_AS_POSSIBLE = 3,  // only what somebody waits for; at the beginning
};
SHAMPOO_FAKE_EXPORT void fake_cuda_set_order(int order, uint64_t seed);
// How many operations of any stream run before each query of a stream or an event. 0 at the beginning: none. Negative:
// all that the query asks for.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_query_progress(int operations);
// Runs up to so many operations, as if the device had got so far by now; says how many there were.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_progress(int64_t operations);

// Whether the host is kept from the memory of devices while no work runs; it is at the beginning. Where the system has
// no large pages for it, long tests with much memory take less time without.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_protection(int protect);

// --- Devices and versions ---

// The driver's version is 0 if there is none. Two devices, and versions of the headers, at the beginning.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_system(int devices, int driver_version, int runtime_version);
// Bytes of each device, 0: no limit. Beyond it allocations fail.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_memory_limit(int64_t bytes);

// --- What was called ---

// Calls of a function since the mark; of all if function is NULL.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_calls(const char* function);
enum fake_cuda_kind {
  FAKE_CUDA_SYNCHRONIZATIONS = 0,  // calls that made the host wait
  FAKE_CUDA_COPIES_TO_HOST = 1,
  FAKE_CUDA_ALLOCATIONS = 2,  // of device or pinned memory
  FAKE_CUDA_LAUNCHES = 3,
  FAKE_CUDA_PRODUCTS = 4,                    // calls of cuBLAS that multiply
  FAKE_CUDA_EIGENPROBLEMS = 5,               // calls of cuSOLVER that decompose
  FAKE_CUDA_QUERIES = 6,                     // of streams and events
  FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE = 7,  // on a handle whose workspace is not the caller's
  FAKE_CUDA_NONFINITE_EIGENPROBLEMS = 8,     // matrices that had NaN or infinity when they were decomposed
  FAKE_CUDA_OPERATIONS_RUN = 9,
  FAKE_CUDA_PAGEABLE_COPIES = 10,  // asynchronous copies from or to host memory that is not pinned
  FAKE_CUDA_KINDS = 11,
};
// Since the mark. Work of a graph counts when it is captured, not when the graph is launched.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_count(int kind);
// Launches since the mark of kernels whose body's name contains this text.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_launches_of(const char* part_of_name);
SHAMPOO_FAKE_EXPORT void fake_cuda_mark(void);

// --- What is alive ---

enum fake_cuda_object {
  FAKE_CUDA_STREAMS = 0,
  FAKE_CUDA_EVENTS = 1,
  FAKE_CUDA_BLAS_HANDLES = 2,
  FAKE_CUDA_SOLVER_HANDLES = 3,
  FAKE_CUDA_SOLVER_PARAMS = 4,  // cusolverDnParams_t and syevjInfo_t
  FAKE_CUDA_GRAPHS = 5,
  FAKE_CUDA_GRAPH_EXECS = 6,
  FAKE_CUDA_DEVICE_ALLOCATIONS = 7,
  FAKE_CUDA_HOST_ALLOCATIONS = 8,
  FAKE_CUDA_DEVICE_BYTES = 9,
  FAKE_CUDA_PENDING_OPERATIONS = 10,
};
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_live(int object);
// Of all kinds of objects and of allocations; "" if nothing is left. The text lives until the next call.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_leaks(void);

// --- What went wrong ---

// Misuse that was seen, a line each; "" if there was none: accesses outside of allocations, writes beside them and
// after their free, outputs that overlap. The text lives until the next call.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_problems(void);
SHAMPOO_FAKE_EXPORT void fake_cuda_clear_problems(void);

// --- What shall go wrong ---

// The nth call from now of the function (NULL: of any but those that free or destroy) fails once. code is one of the
// function's own library; for NULL it is a cudaError, which cuBLAS and cuSOLVER put in their terms. Several can wait at
// a time.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail(const char* function, int64_t nth, int code);
// The same, of the calls of this thread alone.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_here(const char* function, int64_t nth, int code);
// The nth call from now reports success and does nothing. For functions that enqueue something.
SHAMPOO_FAKE_EXPORT void fake_cuda_skip(const char* function, int64_t nth);
// The nth launch from now of a kernel whose body's name contains this text (NULL: of any) is dropped.
SHAMPOO_FAKE_EXPORT void fake_cuda_skip_launch(const char* part_of_name, int64_t nth);
// Failures, skipped calls and launches that still wait for their call. None are left afterwards.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_cancel_failures(void);
// From here on calls return this cudaError, as after a fault of the device.
SHAMPOO_FAKE_EXPORT void fake_cuda_fault(int code);

enum fake_cuda_eigen_fault {
  FAKE_CUDA_EIGEN_INFO = 0,           // info as given, and nothing usable in the matrix
  FAKE_CUDA_EIGEN_NAN = 1,            // NaN without a word
  FAKE_CUDA_EIGEN_WRONG_VECTORS = 2,  // orthonormal, and of another matrix
  FAKE_CUDA_EIGEN_WRONG_VALUES = 3,
};
// Of the nth run from now of an eigensolver (a launched graph runs them, too), matrix number `matrix` from 0 (-1: all).
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_eigen(int64_t nth, int64_t matrix, int how, int info);

#ifdef __cplusplus
}
#endif
