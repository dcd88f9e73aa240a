// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/executor.h"

#include <algorithm>
#include <system_error>

namespace shampoo {

Status Executor::Create(int threads, const HostExecutor& host, std::unique_ptr<Executor>* out) {
  const bool own = host.parallel_for == nullptr;
  std::unique_ptr<Executor> executor(new Executor(own ? threads : std::min(threads, host.threads), host));
  if (own && threads > 1) {
    try {
      executor->pool_ = ThreadPool::Acquire(threads - 1);
    } catch (const std::system_error& failure) {
      return NoMemory("threads is ", threads, ", but starting the worker threads failed (", failure.what(),
                      "): set threads to a smaller value, or raise the thread limit of the process");
    }
  }
  *out = std::move(executor);
  return {};
}

void Executor::Run(ThreadPool::Task task, void* argument, int64_t slots) {
  if (slots <= 1) {
    if (slots == 1) task(argument, 0);
  } else if (host_.parallel_for != nullptr) {
    host_.parallel_for(host_.user, task, argument, slots);
  } else {
    pool_->Run(task, argument, slots);
  }
}

}  // namespace shampoo
