// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

// Control functions of the fake of CUDA for tests. The fake runs asynchronous work on the CPU. By default it runs work
// as late as the rules of CUDA allow; a test can choose another order between streams.
//
// The parameter `function` is a name of CUDA's headers without _v2, such as "cudaMalloc" or "cublasCreate", or "Launch"
// for the launch of a kernel. Unless stated otherwise, the nth call is counted from 1, starting when the control
// function is called.
//
// tests/cuda/gpu/control_gpu.cc implements the same functions for a GPU, where tests cannot control CUDA.

#define SHAMPOO_FAKE_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// Resets the fake to its state at the start of the process: drops work, frees memory, invalidates handles and restores
// all settings. Keeps the seed.
SHAMPOO_FAKE_EXPORT void fake_cuda_reset(void);

// Returns 1 if the calls of CUDA reach the fake, and 0 if they reach a GPU. On a GPU:
// - Functions that set the order of work, the progress, the protection of memory or the mode of solvers have no effect.
// - fake_cuda_wait_for_jobs(), fake_cuda_mark() and the functions that begin and end the loading of kernels have no
//   effect either.
// - fake_cuda_progress() and fake_cuda_cancel_failures() return 0, and fake_cuda_leaks() returns "".
// - A call of a function that counts, injects failures, waits for a held call or describes another system is misuse,
//   which fake_cuda_problems() reports. Test cases that call these functions belong to the test suite "fake"
//   (NeedsFake() of stage.h) or to the suite "long". tests/gpu.sh runs only those cases of the suite "long" that do not
//   call them.
SHAMPOO_FAKE_EXPORT int fake_cuda_is_fake(void);

// Returns 1 if the calling thread is inside of a call of CUDA or of its libraries, and 0 otherwise. Returns 0 on a GPU.
SHAMPOO_FAKE_EXPORT int fake_cuda_in_call(void);

// --- Order of work ---

enum fake_cuda_order {
  FAKE_CUDA_OLDEST_FIRST = 0,  // the oldest stream first, until its work is done
  FAKE_CUDA_YOUNGEST_FIRST = 1,
  FAKE_CUDA_RANDOM = 2,               // random, from the seed
  FAKE_CUDA_AS_LATE_AS_POSSIBLE = 3,  // only work that the host waits for; the default
};
// Sets the order in which the work of different streams runs.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_order(int order, uint64_t seed);
// Sets the number of operations that run before each query of a stream or an event. 0: none, the default. Negative: all
// operations for which the query would otherwise report cudaErrorNotReady.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_query_progress(int operations);
// Runs up to `operations` operations, as if the device had progressed. Returns how many it ran.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_progress(int64_t operations);

enum fake_cuda_solver {
  FAKE_CUDA_SOLVER_ENQUEUES = 0,  // eigensolvers only enqueue work; the default
  FAKE_CUDA_SOLVER_WAITS = 1,     // eigensolvers wait for their work
  // Eigensolvers wait, before they do anything, until another mode is set. cudaEventSynchronize() waits, too, except in
  // the thread that has set this mode.
  FAKE_CUDA_SOLVER_IS_HELD = 2,
};
// Sets whether eigensolvers of cuSOLVER wait on the host. A call that is held for a minute is recorded as a misuse, and
// then continues.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_solver(int mode);
// Waits until a call is held. If no call is held within a minute, a misuse is recorded.
SHAMPOO_FAKE_EXPORT void fake_cuda_wait_for_held_call(void);
// Waits until the threads of the plugin have ended this many jobs since the last fake_cuda_mark(). A job is counted
// when another thread sets its capture mode back to the global mode, as these threads do after each job. A wait of
// a minute is recorded as a misuse.
SHAMPOO_FAKE_EXPORT void fake_cuda_wait_for_jobs(int64_t jobs);

// Sets whether device memory is protected from the host while no work runs; the default is true. If the system has no
// large pages, tests that use much memory run faster without protection.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_protection(int protect);

// --- Devices and versions ---

// Sets the number of devices and the versions. driver_version 0: there is no driver. The defaults are two devices and
// the versions of the headers.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_system(int devices, int driver_version, int runtime_version);
// Sets the compute capability of a device. The default is 9.0.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_compute_capability(int device, int major, int minor);
// Sets the size of the memory of each device. Allocations that exceed it fail. 0: no limit.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_memory_limit(int64_t bytes);

// --- Calls that were made ---

// Returns the number of calls of a function since the last fake_cuda_mark(); of all functions if `function` is NULL.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_calls(const char* function);
enum fake_cuda_kind {
  FAKE_CUDA_SYNCHRONIZATIONS = 0,  // calls that made the host wait
  FAKE_CUDA_COPIES_TO_HOST = 1,
  FAKE_CUDA_ALLOCATIONS = 2,  // of device or pinned memory
  FAKE_CUDA_LAUNCHES = 3,
  FAKE_CUDA_PRODUCTS = 4,                    // products by cuBLAS
  FAKE_CUDA_EIGENPROBLEMS = 5,               // decompositions by cuSOLVER
  FAKE_CUDA_QUERIES = 6,                     // of streams and events
  FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE = 7,  // products on a handle without the caller's workspace
  FAKE_CUDA_NONFINITE_EIGENPROBLEMS = 8,     // decomposed matrices that contained NaN or infinity
  FAKE_CUDA_OPERATIONS_RUN = 9,
  FAKE_CUDA_PAGEABLE_COPIES = 10,  // asynchronous copies from or to host memory that is not pinned
  FAKE_CUDA_LOADS = 11,            // kernels, of this library or of others, that were loaded onto a device
  FAKE_CUDA_KINDS = 12,
};
// Returns the count of a kind since the mark. Work of a graph counts when it is captured, not when the graph is
// launched.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_count(int kind);
// Returns the number of launches since the mark. Counts only kernels whose body has a type name that contains
// `part_of_name`.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_launches_of(const char* part_of_name);
// Sets the mark: all counts are 0.
SHAMPOO_FAKE_EXPORT void fake_cuda_mark(void);

// --- Loading of kernels ---

// CUDA loads a kernel onto a device when it is first used there, and loading may wait for running work. These functions
// begin and end a section in which kernels may be loaded. After the first section, the first use of a kernel outside of
// all sections is an error: loading could wait forever for a running collective that itself waits for a rank of this
// process. Products and eigenproblems of different sizes use different kernels.
SHAMPOO_FAKE_EXPORT void fake_cuda_begin_loading(void);
SHAMPOO_FAKE_EXPORT void fake_cuda_end_loading(void);

// --- Objects that exist ---

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
// Returns the number of existing objects of a kind.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_live(int object);
// Returns the number of existing streams with this priority. The lowest priority is 0, the default of streams, and the
// highest is -5.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_streams_of_priority(int priority);
// Describes all existing objects and allocations; "" if there are none. The string is valid until the next call.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_leaks(void);

// --- Misuse that was detected ---

// Returns a line for each detected misuse; "" if there was none. The fake detects accesses outside of allocations,
// writes next to them or after they were freed, and outputs that overlap. The string is valid until the next call.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_problems(void);
SHAMPOO_FAKE_EXPORT void fake_cuda_clear_problems(void);

// Checks the memory of a collective operation. NCCL lets the other devices of a process access it directly, so it must
// be device memory that does not come from a stream-ordered pool. Records a misuse if the memory is of another kind.
// Returns whether the memory can be used.
SHAMPOO_FAKE_EXPORT int fake_cuda_check_collective(const void* data, size_t bytes);

// --- Failures to inject ---

// Makes the nth call of the function fail once. NULL: any function, except those that free or destroy. `code` is an
// error of the function's library. For NULL it is a cudaError, which cuBLAS and cuSOLVER convert to their own errors.
// Several failures can be pending.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail(const char* function, int64_t nth, int code);
// Makes all calls of the function from now on fail, until fake_cuda_cancel_failures.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_always(const char* function, int code);
// Sets the largest batch of matrices that cuSOLVER accepts. Solvers and the queries of their workspace sizes reject
// larger batches.
SHAMPOO_FAKE_EXPORT void fake_cuda_limit_eigen_batches(int64_t matrices);
// Returns the name of the last function that failed or was skipped; "" if there is none.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_last_failed(void);
// Does the same as fake_cuda_fail for calls of this thread only.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_here(const char* function, int64_t nth, int code);
// Does the same as fake_cuda_fail for calls of other threads only.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_elsewhere(const char* function, int64_t nth, int code);
// Makes the nth call of a function that enqueues work report success and do nothing.
SHAMPOO_FAKE_EXPORT void fake_cuda_skip(const char* function, int64_t nth);
// Drops the nth launch of a kernel whose body's name contains this text (NULL: of any kernel).
SHAMPOO_FAKE_EXPORT void fake_cuda_skip_launch(const char* part_of_name, int64_t nth);
// Cancels all pending failures and skips. Returns how many there were.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_cancel_failures(void);
// Makes later calls fail with this cudaError, as after a device fault. Calls of cuBLAS and cuSOLVER fail with their own
// errors. Functions that free memory or destroy objects still do their work.
SHAMPOO_FAKE_EXPORT void fake_cuda_fault(int code);

enum fake_cuda_eigen_fault {
  FAKE_CUDA_EIGEN_INFO = 0,           // reports `info` and leaves no usable result
  FAKE_CUDA_EIGEN_NAN = 1,            // returns NaN and reports success
  FAKE_CUDA_EIGEN_WRONG_VECTORS = 2,  // returns orthonormal vectors of another matrix
  FAKE_CUDA_EIGEN_WRONG_VALUES = 3,
};
// Makes the nth run of an eigensolver fail for the matrix number `matrix`, counted from 0; -1: for all matrices. n
// counts both the runs that are called directly and the runs in a launched graph.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_eigen(int64_t nth, int64_t matrix, int how, int info);

#ifdef __cplusplus
}
#endif
