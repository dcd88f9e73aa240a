// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// What dd(1) does on the same disk. Failures end the program.

// Seconds of dd from /dev/zero to a file that is not there yet, until all of it is on the disk.
double TimeDdWrite(const std::string& path, int64_t bytes);
// Seconds of dd from these files to /dev/null, one after another.
double TimeDdRead(const std::vector<std::string>& paths);

// Waits for what others have written to the disk of a directory.
void Settle(const std::string& directory);
// Takes a file, which is on the disk, out of memory.
void DropCache(const std::string& path);

}  // namespace bench
