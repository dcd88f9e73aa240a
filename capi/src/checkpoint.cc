// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "core/base/catch_exceptions.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"

namespace shampoo {
namespace {

// Calls run(call), which saves or loads a checkpoint. If an argument of this rank is wrong, stores the error in
// call.caller_status instead of returning it, because run() must also report the error to the other ranks.
template <typename Run>
Status RunCheckpoint(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                     void* stream, Run&& run) {
  std::vector<OptimizerState*> optimizers;
  CheckpointCall call;
  call.world = world != nullptr ? world->comm.get() : nullptr;
  call.caller_status = CatchExceptions([&]() -> Status {
    if (count < 0) return Invalid("count is ", count, ": expected at least 0");
    if (count > 0) SHAMPOO_RETURN_IF_ERROR(RequireArgument(opts, "opts"));
    for (int32_t i = 0; i < count; ++i) {
      if (opts[i] == nullptr) return Invalid("opts[", i, "] is NULL: expected an optimizer");
      optimizers.push_back(&opts[i]->optimizer->state());
    }
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(directory, "directory"));
    if (*directory == '\0') return Invalid("directory is \"\": expected the path of a directory");
    call.directory = directory;
    call.library = Cat(SHAMPOO_VERSION_MAJOR, ".", SHAMPOO_VERSION_MINOR, ".", SHAMPOO_VERSION_PATCH);
    return {};
  });
  call.optimizers = optimizers;
  call.stream = stream;
  return run(call);
}

// Runs body(). If body() fails, stores the message for shampoo_optimizer_error() in every optimizer of `opts`.
template <typename Body>
shampoo_status GuardAll(shampoo_optimizer* const* opts, int32_t count, Body&& body) {
  std::string error;
  const shampoo_status status = Guard(body, &error);
  if (status == SHAMPOO_OK || opts == nullptr) return status;
  for (int32_t i = 0; i < count; ++i) {
    if (opts[i] == nullptr) continue;
    try {
      opts[i]->last_error = error;
    } catch (...) {
      opts[i]->last_error.clear();
    }
  }
  return status;
}

}  // namespace
}  // namespace shampoo

shampoo_status shampoo_save(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                            void* stream) {
  return shampoo::GuardAll(opts, count, [&] {
    return shampoo::RunCheckpoint(opts, count, world, directory, stream, [](const shampoo::CheckpointCall& call) {
      return shampoo::SaveCheckpoint(call, shampoo::StatesWriter::Limits{});
    });
  });
}

shampoo_status shampoo_load(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                            void* stream) {
  return shampoo::GuardAll(opts, count, [&] {
    return shampoo::RunCheckpoint(opts, count, world, directory, stream,
                                  [](const shampoo::CheckpointCall& call) { return shampoo::LoadCheckpoint(call); });
  });
}
