// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// Measurements with dd(1). Failures end the program.

// Returns the seconds of dd from /dev/zero to a new file, until all data is on the disk.
double TimeDdWrite(const std::string& path, int64_t bytes);
// Returns the seconds of dd from these files to /dev/null, one after another.
double TimeDdRead(const std::vector<std::string>& paths);

// Waits until all pending data is written to the disk of a directory.
void SyncDisk(const std::string& directory);
// Drops a file that was written to the disk from the page cache.
void DropCache(const std::string& path);

}  // namespace bench
