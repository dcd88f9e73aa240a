// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that the memory of an optimizer is what shampoo_plan_bytes() predicts. The test passes its own allocator to
// the library. The allocator counts the bytes and checks that the library frees each allocation once.
//
// The scratch memory of the library's copy of OpenBLAS does not come from the allocator. The test memory_resident, for
// which this file is compiled with SEES_MAPPINGS, therefore also counts the resident pages of the scratch memory. It
// checks that the resident memory of the process grows by at most 2 % and 1 MiB more than predicted.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/embed/big_model.h"

enum { kMaxAllocations = 64 };

typedef struct counter {
  size_t size[kMaxAllocations];
  void* memory[kMaxAllocations];
  int allocations;
  int64_t bytes;  // allocated and not freed
  int released;
} counter;

static void* allocate(void* user, size_t bytes, size_t align, int32_t device_type, int32_t device_id, void* stream) {
  counter* const c = user;
  REQUIRE(bytes > 0 && align > 0 && (align & (align - 1)) == 0, "%zu bytes aligned to %zu", bytes, align);
  REQUIRE(device_type == SHAMPOO_CPU && device_id == 0 && stream == NULL, "device %d %d", device_type, device_id);
  REQUIRE(c->allocations < kMaxAllocations, "more than %d allocations", kMaxAllocations);
  void* memory = NULL;
  REQUIRE(posix_memalign(&memory, align < sizeof(void*) ? sizeof(void*) : align, bytes) == 0, "no memory");
  c->size[c->allocations] = bytes;
  c->memory[c->allocations++] = memory;
  c->bytes += (int64_t)bytes;
  return memory;
}

static void deallocate(void* user, void* memory, size_t bytes, int32_t device_type, int32_t device_id, void* stream) {
  counter* const c = user;
  REQUIRE(device_type == SHAMPOO_CPU && device_id == 0 && stream == NULL, "device %d %d", device_type, device_id);
  REQUIRE(c->released == 0, "memory is freed after release");
  for (int i = 0; i < c->allocations; ++i) {
    if (c->memory[i] != memory) continue;
    REQUIRE(c->size[i] == bytes, "%zu bytes freed, %zu allocated", bytes, c->size[i]);
    c->memory[i] = NULL;
    c->bytes -= (int64_t)bytes;
    free(memory);
    return;
  }
  REQUIRE(memory == NULL, "memory is freed that was not allocated, or freed twice");
}

static void release(void* user) { ++((counter*)user)->released; }

static int64_t page_bytes;

static int64_t rounded_to_pages(int64_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

#ifdef SEES_MAPPINGS
// Calls of mmap() by the library. All of them map scratch memory, because other memory comes from the allocator.
static char* mapping[kMaxAllocations];
static size_t mapping_bytes[kMaxAllocations];
static int mappings;
static int watching;

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  void* const made = (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
  if (watching && made != MAP_FAILED && mappings < kMaxAllocations) {
    mapping[mappings] = made;
    mapping_bytes[mappings++] = bytes;
  }
  return made;
}

static int64_t resident_scratch(void) {
  static unsigned char resident[(256 << 20) / 4096];
  int64_t bytes = 0;
  for (int m = 0; m < mappings; ++m) {
    REQUIRE(mapping_bytes[m] / (size_t)page_bytes <= sizeof resident, "a mapping of %zu bytes", mapping_bytes[m]);
    REQUIRE(mincore(mapping[m], mapping_bytes[m], resident) == 0, "mincore failed");
    for (size_t i = 0; i < mapping_bytes[m] / (size_t)page_bytes; ++i) bytes += (resident[i] & 1) * page_bytes;
  }
  return bytes;
}
#endif

// Returns how many bytes of anonymous memory (memory without a file) are resident in this process.
static int64_t resident_bytes(void) {
  FILE* const status = fopen("/proc/self/status", "r");
  REQUIRE(status != NULL, "/proc/self/status cannot be read");
  long long kilobytes = -1;
  char line[200];
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "RssAnon: %lld", &kilobytes);
  fclose(status);
  return (int64_t)kilobytes * 1024;
}

// Checks an optimizer for one matrix. has_scratch: whether the prediction includes scratch memory of BLAS, which does
// not come from the allocator. Returns the predicted bytes of workspace.
static int64_t check(const api* f, const setting* settings, int64_t rows, int64_t columns, int threads,
                     int has_scratch) {
  counter c;
  memset(&c, 0, sizeof c);
  shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
  allocator.user = &c;
  allocator.allocate = allocate;
  allocator.deallocate = deallocate;
  allocator.release = release;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.allocator = &allocator;

  const int64_t resident_before = resident_bytes();
  big_model m;
#ifdef SEES_MAPPINGS
  mappings = 0;
  watching = 1;
#endif
  big_model_begin(&m, f, settings, rows, columns, threads, &desc);
  const int64_t allocated = c.bytes;
  big_model_step(&m, 3);
  printf("%lld x %lld, %d threads: predicted %lld of state and %lld of workspace, %lld allocated", (long long)rows,
         (long long)columns, threads, (long long)m.state_bytes, (long long)m.workspace_bytes, (long long)allocated);
  REQUIRE(c.bytes == allocated, "a step has allocated %lld bytes", (long long)(c.bytes - allocated));
  int states = 0;
  for (int i = 0; i < c.allocations; ++i) states += c.size[i] == (size_t)m.state_bytes;
  REQUIRE(states == 1, "%d allocations of the %lld bytes predicted for the state", states, (long long)m.state_bytes);
  REQUIRE(allocated <= m.total_bytes, "%lld bytes allocated, %lld predicted", (long long)allocated,
          (long long)m.total_bytes);
  if (!has_scratch) {
    REQUIRE(allocated == m.total_bytes, "%lld bytes allocated, %lld predicted", (long long)allocated,
            (long long)m.total_bytes);
  }
#ifdef SEES_MAPPINGS
  watching = 0;
  const int64_t scratch = resident_scratch();
  printf(", %lld of scratch resident", (long long)scratch);
  const int64_t predicted_scratch = m.total_bytes - allocated;
  REQUIRE(scratch <= rounded_to_pages(predicted_scratch) + mappings * page_bytes,
          "%lld bytes of scratch memory are resident, %lld predicted", (long long)scratch,
          (long long)predicted_scratch);
  const int64_t taken = allocated + scratch;
  REQUIRE(llabs(taken - m.total_bytes) * 100 <= m.total_bytes, "%lld bytes taken, %lld predicted", (long long)taken,
          (long long)m.total_bytes);
  // The prediction does not include the parameter and its gradient, which the test allocates. The process may grow by
  // 2 % and 1 MiB more than predicted, because of stacks, tables and partly used pages.
  const int64_t grown = resident_bytes() - resident_before - 2 * m.elements * (int64_t)sizeof(float);
  printf(", process grew by %lld", (long long)grown);
  REQUIRE(grown <= m.total_bytes + m.total_bytes / 50 + (1 << 20), "the process grew by %lld bytes, %lld predicted",
          (long long)grown, (long long)m.total_bytes);
#else
  (void)resident_before;
#endif
  printf("\n");
  big_model_end(&m);
  REQUIRE(c.bytes == 0, "%lld bytes are not freed", (long long)c.bytes);
  REQUIRE(c.released == 1, "release was called %d times", c.released);
  return m.workspace_bytes;
}

int main(void) {
  page_bytes = sysconf(_SC_PAGESIZE);
  (void)rounded_to_pages;
  // An access to one byte of a huge page would make the whole page resident.
  REQUIRE(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "huge pages cannot be turned off");
  const api f = api_linked();
  const int has_scratch = strstr(f.build_info(), "\"private\": true") != NULL;
  const setting plain[] = {{"max_preconditioner_dim", "512"}, {NULL, NULL}};
  const setting rich[] = {{"max_preconditioner_dim", "256"},
                          {"grafting", "adam"},
                          {"momentum", "0.9"},
                          {"factor_dtype", "bf16"},
                          {"root_dtype", "f64"},
                          {"inverse_dtype", "f16"},
                          {"epsilon", "1e-3"},
                          {NULL, NULL}};
  check(&f, plain, 512, 512, 1, has_scratch);
  check(&f, plain, 1024, 700, 2, has_scratch);
  check(&f, rich, 500, 300, 1, has_scratch);
  check(&f, rich, 500, 300, 3, has_scratch);
  const setting long_rows[] = {{"max_preconditioner_dim", "4096"}, {"use_merge_dims", "false"}, {NULL, NULL}};
  check(&f, long_rows, 4, 1024, 1, has_scratch);
  // Small blocks must need little memory, because an application may have thousands of optimizers.
  const setting tiny[] = {{"use_merge_dims", "false"}, {NULL, NULL}};
  REQUIRE(check(&f, tiny, 4, 3, 1, has_scratch) <= 64 * 1024, "a workspace of more than 64 KiB for 4 x 3");
  REQUIRE(check(&f, tiny, 64, 10, 1, has_scratch) <= 320 * 1024, "a workspace of more than 320 KiB for 64 x 10");
  const setting mixed[] = {{"use_merge_dims", "false"}, {"root_dtype", "f64"}, {NULL, NULL}};
  check(&f, mixed, 64, 32, 2, has_scratch);
  return 0;
}
