// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces the control functions of the fake CUDA in programs that run on a GPU. See tests/cuda/fake/control.h.
#include <cuda_runtime_api.h>

#include <mutex>
#include <string>

#include "tests/cuda/fake/control.h"

namespace {

std::mutex mutex;
std::string problems;  // one line for each problem
std::string reported;  // the string that the last fake_cuda_problems() returned

void AddProblem(const std::string& problem) {
  const std::lock_guard lock(mutex);
  problems += problem + "\n";
}

void AddMisuse(const char* function) {
  AddProblem(std::string(function) + " needs the fake of CUDA: add * NeedsFake() to the test case");
}

void AddError(const char* call, cudaError_t error) {
  if (error != cudaSuccess) AddProblem(std::string(call) + ": " + cudaGetErrorName(error));
}

}  // namespace

extern "C" {

int fake_cuda_is_fake(void) { return 0; }

void fake_cuda_reset(void) {
  (void)cudaDeviceSynchronize();
  (void)cudaGetLastError();  // clears the error
  fake_cuda_clear_problems();
}

// --- Functions that have no effect on a GPU ---

void fake_cuda_set_order(int, uint64_t) {}
void fake_cuda_set_query_progress(int) {}
void fake_cuda_set_protection(int) {}
void fake_cuda_set_solver(int) {}
void fake_cuda_wait_for_jobs(int64_t) {}
int64_t fake_cuda_progress(int64_t) { return 0; }
void fake_cuda_mark(void) {}
void fake_cuda_begin_loading(void) {}
void fake_cuda_end_loading(void) {}
int64_t fake_cuda_cancel_failures(void) { return 0; }
const char* fake_cuda_leaks(void) { return ""; }

// --- Problems, and calls in progress ---

const char* fake_cuda_problems(void) {
  AddError("cudaDeviceSynchronize", cudaDeviceSynchronize());
  AddError("cudaGetLastError", cudaGetLastError());
  const std::lock_guard lock(mutex);
  reported = problems;
  return reported.c_str();
}

int fake_cuda_in_call(void) { return 0; }

// Unlike the function of the fake, does not check whether the memory comes from a stream-ordered pool.
int fake_cuda_check_collective(const void* data, size_t) {
  cudaPointerAttributes attributes{};
  AddError("cudaPointerGetAttributes", cudaPointerGetAttributes(&attributes, data));
  if (attributes.type == cudaMemoryTypeDevice) return 1;
  AddProblem("a collective received memory that is not device memory");
  return 0;
}

void fake_cuda_clear_problems(void) {
  const std::lock_guard lock(mutex);
  problems.clear();
}

// --- Functions that must not be called on a GPU ---

void fake_cuda_set_system(int, int, int) { AddMisuse("fake_cuda_set_system"); }
void fake_cuda_wait_for_held_call(void) { AddMisuse("fake_cuda_wait_for_held_call"); }
void fake_cuda_set_memory_limit(int64_t) { AddMisuse("fake_cuda_set_memory_limit"); }
void fake_cuda_fail(const char*, int64_t, int) { AddMisuse("fake_cuda_fail"); }
void fake_cuda_fail_always(const char*, int) { AddMisuse("fake_cuda_fail_always"); }
void fake_cuda_limit_eigen_batches(int64_t) { AddMisuse("fake_cuda_limit_eigen_batches"); }
void fake_cuda_set_compute_capability(int, int, int) { AddMisuse("fake_cuda_set_compute_capability"); }
void fake_cuda_fail_here(const char*, int64_t, int) { AddMisuse("fake_cuda_fail_here"); }
void fake_cuda_fail_elsewhere(const char*, int64_t, int) { AddMisuse("fake_cuda_fail_elsewhere"); }
void fake_cuda_skip(const char*, int64_t) { AddMisuse("fake_cuda_skip"); }
void fake_cuda_skip_launch(const char*, int64_t) { AddMisuse("fake_cuda_skip_launch"); }
void fake_cuda_fault(int) { AddMisuse("fake_cuda_fault"); }
void fake_cuda_fail_eigen(int64_t, int64_t, int, int) { AddMisuse("fake_cuda_fail_eigen"); }

const char* fake_cuda_last_failed(void) {
  AddMisuse("fake_cuda_last_failed");
  return "";
}

int64_t fake_cuda_calls(const char*) {
  AddMisuse("fake_cuda_calls");
  return -1;
}

int64_t fake_cuda_count(int) {
  AddMisuse("fake_cuda_count");
  return -1;
}

int64_t fake_cuda_launches_of(const char*) {
  AddMisuse("fake_cuda_launches_of");
  return -1;
}

int64_t fake_cuda_streams_of_priority(int) {
  AddMisuse("fake_cuda_streams_of_priority");
  return -1;
}

int64_t fake_cuda_live(int) {
  AddMisuse("fake_cuda_live");
  return -1;
}

}  // extern "C"
