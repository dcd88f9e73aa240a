// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that a step of one or several ranks does not allocate memory. This program replaces malloc, calloc, realloc,
// memalign, aligned_alloc and posix_memalign, and counts how often the threads of the ranks call them during a step.
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iostream>

#include "tests/distributed/grid.h"

namespace {

thread_local bool counting = false;
std::atomic<int64_t> counted{0};

void Count() {
  if (counting) ++counted;
}

}  // namespace

// The functions whose names begin with __libc_ are the allocation functions of the C library. Each replacement below
// counts a call and forwards it to one of them. operator new calls the replacements, too.
extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t number, size_t bytes);       // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, size_t bytes);       // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  Count();
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  Count();
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) {
  Count();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  Count();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace shampoo_test {
namespace {

bool HasFactors(const Keys& keys) { return keys.Value("method") != "adam"; }

// With method adam, there are no inverse roots or eigenbases, and Spec adds no keys, because adam rejects most of the
// keys that Spec adds for other methods.
// With the other methods, group 0 refreshes inverse roots or eigenbases in every second step.
RankSpec Spec(const Keys& more) {
  Keys keys = more;
  if (HasFactors(more)) keys = "max_preconditioner_dim=8 grafting=adam momentum=0.9 precondition_frequency=2" + more;
  return {.keys = keys,
          .groups = {more.Value("method") != "" ? keys : Keys("factor_dtype=bf16")},
          .params = {{"matrix", {20, 13}}, {"vector", {17}, 1}, {"tensor", {3, 5, 4}}, {"scalar", {}, 1}}};
}

// Returns the number of inverse roots and eigenbases that all ranks have computed.
double Computed(Grid* grid) {
  double sum = 0;
  for (int rank = 0; rank < grid->world(); ++rank) sum += (*grid)[rank].Stat("root_computed");
  return sum;
}

// Returns the number of allocations in five steps, or -1 after an error or if an expected refresh is missing.
int64_t AllocationsOf(const Keys& keys, const Kind& kind) {
  Grid grid(Spec(keys), kind);
  counted = 0;
  counting = true;
  std::free(std::malloc(1));
  counting = false;
  if (counted == 0) return -1;  // malloc was not replaced
  grid.Create();
  if (!grid.All(SHAMPOO_OK)) return -1;
  grid.FillParams(1);
  grid.FillGradients(2);
  grid.Step();  // binds the buffers
  const double computed = Computed(&grid);
  counted = 0;
  OnEveryRank(grid.world(), [&](int rank) {
    for (int step = 0; step < 5 && grid[rank].status == SHAMPOO_OK; ++step) {
      counting = true;
      grid[rank].status = shampoo_optimizer_step(grid[rank].optimizer, nullptr);
      counting = false;
    }
  });
  if (!grid.All(SHAMPOO_OK) || (HasFactors(keys) && Computed(&grid) <= computed)) return -1;
  return counted;
}

int Run() {
  int failed = 0;
  for (const Kind kind : {Kind{1, 1}, Kind{2, 1}, Kind{4, 1}, Kind{1, 4}, Kind{2, 2}, Kind{1, 4, "gather"},
                          Kind{2, 2, "gather"}, Kind{1, 3, "gather", false}}) {
    for (const Keys& keys : std::initializer_list<Keys>{
             "", "comm_bucket_bytes=1000", "verify_replicas=1", "communicate=params communication_dtype=bf16",
             "method=soap grafting=none max_preconditioner_dim=64", "method=soap grafting=none basis_method=qr",
             "method=soap grafting=none factor_correction=kl", "method=kl_shampoo grafting=none", "method=adam",
             "factor_update_frequency=2 precondition_dims=smaller"}) {
      const int64_t allocations = AllocationsOf(keys, kind);
      if (allocations == 0) continue;
      ++failed;
      std::cerr << kind << ", " << keys << ": " << allocations << " allocations in steps (-1 after an error)\n";
    }
  }
  return failed;
}

}  // namespace
}  // namespace shampoo_test

int main() { return shampoo_test::Run(); }
