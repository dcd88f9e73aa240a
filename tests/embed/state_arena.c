// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that owns the memory of the state. Checks that a step is a pure function from (state, parameters,
// gradients) to (state, parameters): equal inputs give equal outputs, a step does not change its inputs, and the
// program may bind other buffers between steps.
#include <inttypes.h>
#include <string.h>

#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

enum { kSteps = 6 };

static trainer t;
static double moved_param[2][TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];
static double moved_grad[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];

enum { kAlignment = 64 };

// Returns memory that has the documented alignment but no larger alignment.
static char* new_arena(size_t bytes, int fill) {
  void* memory = NULL;
  REQUIRE(posix_memalign(&memory, 2 * kAlignment, bytes + kAlignment) == 0, "no memory");
  return memset((char*)memory + kAlignment, fill, bytes);
}

// Binds moved_param and moved_grad instead of the trainer's buffers. A step then reads the parameters from
// moved_param[from] and writes them to moved_param[1 - from].
static void bind_moved(const workload* work, int from) {
  shampoo_buffers buffers[TRAINER_MAX_PARAMS];
  for (int p = 0; p < work->param_count; ++p) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    buffers[p] = empty;
    buffers[p].param = moved_param[from][p];
    buffers[p].grad = work->params[p].no_gradient ? NULL : moved_grad[p];
    buffers[p].out = moved_param[1 - from][p];
  }
  REQUIRE_OK(t.functions, t.functions->optimizer_bind(t.optimizer, 0, work->param_count, buffers));
}

int main(void) {
  const api f = api_linked();
  const workload work = workload_default(2);
  // Trains in place, with the state in memory of the library. The later trainings must have the same results.
  trainer_begin(&t, &f, &work, NULL);
  trainer_step(&t, kSteps);
  static trainer in_place;
  in_place = t;
  trainer_end(&t);

  int64_t state_bytes = 0;
  shampoo_plan* const plan = trainer_plan(&f, &work);
  REQUIRE_OK(&f, f.plan_bytes(plan, 0, "state", &state_bytes));
  f.plan_destroy(plan);
  const size_t bytes = (size_t)state_bytes;
  char* const arena[2] = {new_arena(bytes, 0xff), new_arena(bytes, 0xff)};
  char* const again = new_arena(bytes, 0xee);
  char* const snapshot = new_arena(bytes, 0);

  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.state = arena[0];
  desc.state_bytes = bytes;
  trainer_begin(&t, &f, &work, &desc);
  memcpy(moved_param[0], t.param, sizeof t.param);
  for (int step = 0; step < kSteps; ++step) {
    char* const in = arena[step % 2];
    char* const out = arena[1 - step % 2];
    memcpy(snapshot, in, bytes);
    trainer_fill_gradients(&t, step);
    memcpy(moved_grad, t.grad, sizeof t.grad);
    static double param_before[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];
    memcpy(param_before, moved_param[step % 2], sizeof param_before);
    bind_moved(&work, step % 2);

    // Makes the same step twice: the first writes the new state to `again`, and the second to `out`.
    REQUIRE_OK(&f, f.optimizer_bind_state(t.optimizer, in, again));
    REQUIRE_OK(&f, f.optimizer_step(t.optimizer, NULL));
    static double first_result[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];
    memcpy(first_result, moved_param[1 - step % 2], sizeof first_result);
    memset(moved_param[1 - step % 2], 0, sizeof first_result);
    REQUIRE_OK(&f, f.optimizer_bind_state(t.optimizer, in, out));
    REQUIRE_OK(&f, f.optimizer_step(t.optimizer, NULL));

    REQUIRE(memcmp(in, snapshot, bytes) == 0, "step %d has changed state_in", step + 1);
    REQUIRE(memcmp(moved_param[step % 2], param_before, sizeof param_before) == 0, "step %d has changed param",
            step + 1);
    REQUIRE(memcmp(moved_grad, t.grad, sizeof t.grad) == 0, "step %d has changed grad", step + 1);
    REQUIRE(memcmp(again, out, bytes) == 0, "step %d, made twice, gives two states", step + 1);
    for (int p = 0; p < work.param_count; ++p) {
      const size_t size = (size_t)t.elements[p] * sizeof(float);
      REQUIRE(memcmp(first_result[p], moved_param[1 - step % 2][p], size) == 0,
              "step %d, made twice, gives two values of parameter %s", step + 1, work.params[p].name);
    }
    REQUIRE(memcmp(in, out, bytes) != 0, "step %d has not changed the state", step + 1);
  }
  for (int p = 0; p < work.param_count; ++p) {
    REQUIRE(memcmp(moved_param[kSteps % 2][p], in_place.param[p], (size_t)t.elements[p] * sizeof(float)) == 0,
            "parameter %s differs from that of an optimizer with its own memory", work.params[p].name);
  }

  // Binds the buffers of the trainer again. Then repeats the training in place with a new optimizer, whose state is
  // bound to another arena and then back to the arena that was passed at creation.
  trainer_reset(&t);
  trainer_bind(&t);
  trainer_end(&t);
  memset(arena[0], 0xff, bytes);
  trainer_begin(&t, &f, &work, &desc);
  REQUIRE_OK(&f, f.optimizer_bind_state(t.optimizer, arena[1], arena[1]));
  REQUIRE_OK(&f, f.optimizer_bind_state(t.optimizer, NULL, NULL));
  memcpy(snapshot, arena[1], bytes);
  trainer_step(&t, kSteps);
  REQUIRE(trainer_hash(&t) == trainer_hash(&in_place), "hash %016" PRIx64 ", expected %016" PRIx64, trainer_hash(&t),
          trainer_hash(&in_place));
  REQUIRE(memcmp(snapshot, arena[1], bytes) == 0, "an arena that is no longer bound was written");
  trainer_end(&t);
  char* const all[] = {arena[0], arena[1], again, snapshot};
  for (int i = 0; i < 4; ++i) free(all[i] - kAlignment);
  return 0;
}
