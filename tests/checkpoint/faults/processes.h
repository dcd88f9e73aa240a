// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace shampoo_test {

// Starts a child process that runs work() and exits. Returns the id of the child without waiting for it.
pid_t InChild(const std::function<void()>& work);
// Waits until the child has ended. Returns whether SIGKILL ended the child.
bool WasKilled(pid_t child);
void Die();  // kills the process with SIGKILL
// Returns the result of work(), which runs in a child process and therefore cannot affect other tests. If the child
// fails, the returned string ends with the status of the child.
std::string TextFromChild(const std::function<std::string()>& work);

}  // namespace shampoo_test
