// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/job_thread.h"

#include <signal.h>

#include <cfenv>
#include <system_error>
#include <utility>

#include "core/base/catch_exceptions.h"

namespace shampoo {

Status JobThread::Create(const char* what, size_t slots, Job job, std::unique_ptr<JobThread>* out) {
  std::unique_ptr<JobThread> made(new JobThread(slots, std::move(job)));
  JobThread* const started = made.get();
  // Block all signals in the calling thread while it creates the new thread, which inherits this signal mask. Signal
  // handlers of the application must run on threads of the application.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    made->thread_ = std::thread([started] { started->Run(); });
  } catch (const std::system_error& failure) {
    status = NoMemory("starting ", what, " failed (", failure.what(), "): raise the thread limit of the process");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  SHAMPOO_RETURN_IF_ERROR(std::move(status));
  *out = std::move(made);
  return {};
}

JobThread::~JobThread() {
  if (!thread_.joinable()) return;  // the thread could not be started
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

size_t JobThread::NextSlot() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return submitted_ - ended_ < static_cast<int64_t>(slots_); });
  return static_cast<size_t>(submitted_) % slots_;
}

int64_t JobThread::Submit() {
  int64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = ++submitted_;
  }
  changed_.notify_all();
  return number;
}

void JobThread::WaitFor(int64_t number) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this, number] { return ended_ >= number; });
}

Status JobThread::TakeError() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(error_, Status());
}

void JobThread::Run() {
  std::fesetenv(FE_DFL_ENV);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || ended_ < submitted_; });
    if (stopping_) return;
    const size_t slot = static_cast<size_t>(ended_) % slots_;
    lock.unlock();
    Status status = CatchExceptions([&] { return job_(slot); });
    lock.lock();
    if (error_.ok()) error_ = std::move(status);
    ++ended_;
    changed_.notify_all();
  }
}

}  // namespace shampoo
