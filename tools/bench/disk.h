// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// Measurements of dd(1) on the same disk. Failures end the program.

// Returns the seconds that dd takes to write a new file from /dev/zero, including the fsync.
double TimeDdWrite(const std::string& path, int64_t bytes);
// Returns the seconds that dd takes to read these files, one after another.
double TimeDdRead(const std::vector<std::string>& paths);

// Writes pending data of the file system of a directory to the disk.
void Sync(const std::string& directory);
// Drops a file from the page cache.
void DropCache(const std::string& path);

}  // namespace bench
