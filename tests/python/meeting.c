// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A library for test_threads.py: two communicators of two ranks each, for four threads of one process. A call of
// all_gather() returns after all four threads have called it. The call fails if it has waited for the other threads for
// 20 seconds.
#include <errno.h>
#include <pthread.h>
#include <shampoo/shampoo.h>
#include <string.h>
#include <time.h>

enum { kPairs = 2, kRanks = 2, kPatience = 20 };

typedef struct Member {
  int pair, rank;
} Member;

static const void* sent[kPairs][kRanks];
static Member members[kPairs][kRanks];
static shampoo_comm_ops ops[kPairs][kRanks];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_came = PTHREAD_COND_INITIALIZER;
static int here, meetings;

static int meet(void) {
  struct timespec until;
  int error = 0;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kPatience;
  pthread_mutex_lock(&mutex);
  const int mine = meetings;
  if (++here == kPairs * kRanks) {
    here = 0;
    ++meetings;
    pthread_cond_broadcast(&all_came);
  }
  while (meetings == mine && error == 0) error = pthread_cond_timedwait(&all_came, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  return error;
}

static int32_t all_gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
  const Member* const member = user;
  (void)stream;
  sent[member->pair][member->rank] = send;
  if (meet() != 0) return 1;
  for (int r = 0; r < kRanks; ++r) {
    char* const segment = (char*)recv + (size_t)r * bytes;
    if (segment != sent[member->pair][r]) memcpy(segment, sent[member->pair][r], bytes);
  }
  return meet();
}

// Returns the number of threads that wait in an all-gather for the other threads.
int meeting_waits(void) {
  pthread_mutex_lock(&mutex);
  const int waits = here;
  pthread_mutex_unlock(&mutex);
  return waits;
}

// Returns the callbacks of one rank (0 or 1) of the communicator `pair` (0 or 1).
const shampoo_comm_ops* meeting_ops(int pair, int rank) {
  const shampoo_comm_ops none = SHAMPOO_COMM_OPS_INIT;
  shampoo_comm_ops* const filled = &ops[pair][rank];
  members[pair][rank].pair = pair;
  members[pair][rank].rank = rank;
  *filled = none;
  filled->user = &members[pair][rank];
  filled->rank = rank;
  filled->world = kRanks;
  filled->all_gather = all_gather;
  return filled;
}
