// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace shampoo_test {

// Starts a child process that runs work() and exits. Returns the id of the child without waiting for it.
pid_t InChild(const std::function<void()>& work);
// Waits for the child and returns whether SIGKILL ended it.
bool WasKilled(pid_t child);
void Die();  // kills the process with SIGKILL
// Runs work() in a child process, so that it cannot affect other tests, and returns its result.
std::string TextFromChild(const std::function<std::string()>& work);

}  // namespace shampoo_test
