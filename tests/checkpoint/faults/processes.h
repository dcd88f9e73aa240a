// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace shampoo_test {

// Runs work() in a process of its own, which then ends.
pid_t InChild(const std::function<void()>& work);
// Waits for its end: whether SIGKILL was the reason.
bool WasKilled(pid_t child);
void Die();  // by SIGKILL, at once
// What work() gives, in a process of its own: where it changes what the rest must not see.
std::string TextFromChild(const std::function<std::string()>& work);

}  // namespace shampoo_test
