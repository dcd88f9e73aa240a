// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// Measurements of dd(1) on the same disk. Failures end the program.

// Returns the seconds of dd from /dev/zero to a new file, until all of it is on the disk.
double TimeDdWrite(const std::string& path, int64_t bytes);
// Returns the seconds of dd from these files to /dev/null, one after another.
double TimeDdRead(const std::vector<std::string>& paths);

// Waits until pending writes to the disk of a directory are done.
void Settle(const std::string& directory);
// Drops a file from the page cache.
void DropCache(const std::string& path);

}  // namespace bench
