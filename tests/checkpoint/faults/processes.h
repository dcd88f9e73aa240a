// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace shampoo_test {

// Starts a child process that runs work() and exits. Returns its id at once.
pid_t InChild(const std::function<void()>& work);
// Waits for the child and returns whether SIGKILL ended it.
bool WasKilled(pid_t child);
void Die();  // kills the process with SIGKILL
// Returns the result of work() in a child process, for work that must not affect other tests.
std::string TextFromChild(const std::function<std::string()>& work);

}  // namespace shampoo_test
