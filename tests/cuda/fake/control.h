// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

// Functions with which tests control the fake CUDA, which runs the work of streams on the CPU. By default, the fake
// runs work as late as the rules of CUDA allow. A test can choose another order between streams.
//
// The parameter `function` is the name of a function of CUDA without the suffix _v2, such as "cudaMalloc" or
// "cublasCreate". "Launch" means the launch of a kernel. The parameter `nth` selects a call: 1 is the first call
// after the control function was called.
//
// tests/cuda/gpu/control_gpu.cc implements the same functions for a GPU, where tests cannot control CUDA.

#define SHAMPOO_FAKE_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// Resets the fake to its state at the start of the process: drops pending work, frees memory, invalidates handles and
// restores all settings. Does not reset the random numbers.
SHAMPOO_FAKE_EXPORT void fake_cuda_reset(void);

// Returns 1 if the program is linked with the fake, and 0 if it runs on a GPU. On a GPU:
// - fake_cuda_reset() only waits for the current device, clears the last CUDA error and clears the problems.
// - Functions that set the order of work, the progress, the protection of memory or the mode of solvers have no effect.
// - fake_cuda_wait_for_jobs(), fake_cuda_mark(), fake_cuda_begin_loading() and fake_cuda_end_loading() have no effect.
// - fake_cuda_progress() and fake_cuda_cancel_failures() return 0, and fake_cuda_leaks() returns "".
// - Some functions must not be called: those that count, inject failures, wait for a held call, or set the devices,
//   versions or memory of the system. fake_cuda_problems() reports such a call as misuse. Test cases that call one of
//   these functions belong to the test suite "fake" (NeedsFake() of stage.h) or to the suite "long". From the suite
//   "long", tests/gpu.sh runs only cases that call none of these functions.
SHAMPOO_FAKE_EXPORT int fake_cuda_is_fake(void);

// Returns 1 if the calling thread is inside of a call of CUDA or of its libraries, and 0 otherwise. Returns 0 on a GPU.
SHAMPOO_FAKE_EXPORT int fake_cuda_in_call(void);

// --- Order of work ---

enum fake_cuda_order {
  FAKE_CUDA_OLDEST_FIRST = 0,  // the oldest stream that can run comes first
  FAKE_CUDA_YOUNGEST_FIRST = 1,
  FAKE_CUDA_RANDOM = 2,               // a random stream that can run comes first
  FAKE_CUDA_AS_LATE_AS_POSSIBLE = 3,  // runs only work that the host waits for; the default
};
// Sets the order in which the work of different streams runs. Starts a new sequence of random numbers from `seed`.
// These numbers also select the order of the CTAs (thread blocks) and of the loop iterations of each kernel.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_order(int order, uint64_t seed);
// Sets the number of operations that run before each query of a stream or an event. The default is 0. If the number is
// negative, all work of the stream, or all work before the event, runs first, and no query reports cudaErrorNotReady.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_query_progress(int operations);
// Runs up to `operations` operations, as if the device had progressed. Returns how many operations ran.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_progress(int64_t operations);

enum fake_cuda_solver {
  FAKE_CUDA_SOLVER_ENQUEUES = 0,  // eigensolvers only enqueue work; the default
  FAKE_CUDA_SOLVER_WAITS = 1,     // eigensolvers return only after their work has run
  // Calls are held: an eigensolver does nothing until another mode is set. cudaEventSynchronize() is held, too, except
  // on the thread that has set this mode.
  FAKE_CUDA_SOLVER_IS_HELD = 2,
};
// Sets the mode of the eigensolvers of cuSOLVER: whether a call only enqueues work, waits for its work, or is held. If
// a call is held for a minute, the fake records a misuse and lets the call continue.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_solver(int mode);
// Waits until at least one call is held (FAKE_CUDA_SOLVER_IS_HELD). After a minute, records a misuse and returns.
SHAMPOO_FAKE_EXPORT void fake_cuda_wait_for_held_call(void);
// Waits until other threads have finished this many jobs since the last fake_cuda_mark(). A job is work that the CUDA
// backend runs on a thread of its own, such as async roots. After each job, that thread sets its capture mode back to
// the global mode; the fake counts these changes. After a minute, records a misuse and returns.
SHAMPOO_FAKE_EXPORT void fake_cuda_wait_for_jobs(int64_t jobs);

// Sets whether the host is prevented from accessing device memory while no work runs; the default is 1. If the system
// has no large pages, tests that use much memory run faster without this protection.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_protection(int protect);

// --- Devices and versions ---

// Sets the number of devices and the versions of the driver and the runtime. If driver_version is 0, there is no
// driver. By default there are two devices, and both versions are the version of the CUDA headers.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_system(int devices, int driver_version, int runtime_version);
// Sets the compute capability of a device. The default is 9.0.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_compute_capability(int device, int major, int minor);
// Limits the bytes that can be allocated on each device. Allocations above the limit fail. If `bytes` is 0 (the
// default), there is no limit.
SHAMPOO_FAKE_EXPORT void fake_cuda_set_memory_limit(int64_t bytes);

// --- Calls that were made ---

// Returns the number of calls of a function since the last fake_cuda_mark(). If `function` is NULL, counts the calls of
// all functions.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_calls(const char* function);
enum fake_cuda_kind {
  FAKE_CUDA_SYNCHRONIZATIONS = 0,  // calls of functions that make the host wait
  FAKE_CUDA_COPIES_TO_HOST = 1,
  FAKE_CUDA_ALLOCATIONS = 2,  // allocations of device or pinned memory
  FAKE_CUDA_LAUNCHES = 3,
  FAKE_CUDA_PRODUCTS = 4,                    // products of cuBLAS; a batch counts once
  FAKE_CUDA_EIGENPROBLEMS = 5,               // eigendecompositions of cuSOLVER; a batch counts once
  FAKE_CUDA_QUERIES = 6,                     // queries of streams and events
  FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE = 7,  // products on a handle for which the caller has set no workspace
  FAKE_CUDA_NONFINITE_EIGENPROBLEMS = 8,     // matrices with NaN or infinity that were passed to eigensolvers
  FAKE_CUDA_OPERATIONS_RUN = 9,              // operations of streams that have run
  FAKE_CUDA_PAGEABLE_COPIES = 10,            // asynchronous copies from or to host memory that is not pinned
  FAKE_CUDA_LOADS = 11,  // kernels that were loaded onto a device, including kernels of cuBLAS and cuSOLVER
  FAKE_CUDA_KINDS = 12,
};
// Returns the count of a kind since the last fake_cuda_mark(). Launches, products, eigenproblems and copies in a graph
// are counted when they are captured, not when the graph is launched.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_count(int kind);
// Counts the launches of all kernels whose name contains `part_of_name`, since the last fake_cuda_mark(). The name of a
// kernel is the type name of its body; see core/backend/cuda/plugin/cta.h.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_launches_of(const char* part_of_name);
// Sets all counts to 0.
SHAMPOO_FAKE_EXPORT void fake_cuda_mark(void);

// --- Loading of kernels ---

// Begin and end a section in which kernels may be loaded. CUDA loads a kernel when a device first uses the kernel, and
// loading may wait for running work. After the end of the first section, a kernel that is not loaded yet must not be
// used outside of a section: loading could wait forever for a running collective that itself waits for a rank of this
// process. The fake records such a use as misuse, and the call fails. Products and eigenproblems of different sizes use
// different kernels.
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
  FAKE_CUDA_DEVICE_BYTES = 9,         // bytes of all device allocations together
  FAKE_CUDA_PENDING_OPERATIONS = 10,  // operations of streams that have not run yet
};
// Returns the number of existing objects of a kind, such as FAKE_CUDA_STREAMS.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_live(int object);
// Returns the number of existing streams with this priority. The lowest priority, 0, is the default. The highest
// priority is -5.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_streams_of_priority(int priority);
// Returns a description of all existing objects and allocations, or "" if none exist. The string is valid until the
// next call of this function.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_leaks(void);

// --- Misuse that was detected ---

// Returns a line for each detected misuse, or "" if the fake detected none. Examples are arguments that do not fit in
// their allocation, writes next to an allocation or to freed memory, and outputs that overlap inputs. The string is
// valid until the next call of this function.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_problems(void);
SHAMPOO_FAKE_EXPORT void fake_cuda_clear_problems(void);

// Checks the memory of a collective operation. The memory must be device memory that does not come from a
// stream-ordered pool, because NCCL lets the other devices of a process access this memory directly. Returns 1 if the
// memory can be used. Otherwise records a misuse and returns 0.
SHAMPOO_FAKE_EXPORT int fake_cuda_check_collective(const void* data, size_t bytes);

// --- Failures to inject ---

// Makes the nth call of the function fail once. `code` is an error of the function's library. If `function` is NULL,
// `nth` counts the calls of all functions except those that free memory or destroy objects, and `code` is a cudaError,
// which cuBLAS and cuSOLVER convert to their own errors. Several failures can be pending.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail(const char* function, int64_t nth, int code);
// Makes every later call of the function fail, until fake_cuda_cancel_failures() is called.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_always(const char* function, int code);
// Sets the largest batch of matrices that cuSOLVER accepts. Solvers and the queries of their workspace sizes reject
// larger batches.
SHAMPOO_FAKE_EXPORT void fake_cuda_limit_eigen_batches(int64_t matrices);
// Returns the name of the function of the last injected failure or skip, or "" if there was none.
SHAMPOO_FAKE_EXPORT const char* fake_cuda_last_failed(void);
// Does what fake_cuda_fail() does, but considers only calls of the calling thread.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_here(const char* function, int64_t nth, int code);
// Does what fake_cuda_fail() does, but ignores calls of the calling thread.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_elsewhere(const char* function, int64_t nth, int code);
// Makes the nth call of a function that enqueues work report success and do nothing.
SHAMPOO_FAKE_EXPORT void fake_cuda_skip(const char* function, int64_t nth);
// Makes a launch report success and do nothing: the nth launch of a kernel whose name contains `part_of_name`. If
// `part_of_name` is NULL, `nth` counts the launches of all kernels.
SHAMPOO_FAKE_EXPORT void fake_cuda_skip_launch(const char* part_of_name, int64_t nth);
// Cancels all pending failures and skips. Returns how many were pending.
SHAMPOO_FAKE_EXPORT int64_t fake_cuda_cancel_failures(void);
// Makes all later calls that use a device fail with this cudaError, as after a device fault. Functions of cuBLAS and
// cuSOLVER return errors of their own libraries. Functions that free memory or destroy objects still do their work.
SHAMPOO_FAKE_EXPORT void fake_cuda_fault(int code);

enum fake_cuda_eigen_fault {
  FAKE_CUDA_EIGEN_INFO = 0,           // the solver returns NaN and reports `info`
  FAKE_CUDA_EIGEN_NAN = 1,            // the solver returns NaN and reports success
  FAKE_CUDA_EIGEN_WRONG_VECTORS = 2,  // the solver returns orthonormal vectors that are not eigenvectors
  FAKE_CUDA_EIGEN_WRONG_VALUES = 3,   // the solver returns numbers that are not the eigenvalues
};
// Makes the nth run of an eigensolver fail in the way `how`, a fake_cuda_eigen_fault. Only the matrix with the index
// `matrix` of the batch is affected. If `matrix` is -1, all matrices are affected. `nth` counts the runs of direct
// calls and the runs in launched graphs. `info` is used only with FAKE_CUDA_EIGEN_INFO.
SHAMPOO_FAKE_EXPORT void fake_cuda_fail_eigen(int64_t nth, int64_t matrix, int how, int info);

#ifdef __cplusplus
}
#endif
