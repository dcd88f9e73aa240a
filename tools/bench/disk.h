// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// Functions that time dd(1), or prepare the disk for a measurement. If a function fails, the program ends.

// Returns the seconds that dd takes to write a new file of `bytes` zeros, including the fsync.
double TimeDdWrite(const std::string& path, int64_t bytes);
// Returns the seconds that dd takes to read these files, one after another.
double TimeDdRead(const std::vector<std::string>& paths);

// Writes pending data to the disk, for the whole file system that contains the directory.
void Sync(const std::string& directory);
// Drops a file from the page cache.
void DropCache(const std::string& path);

}  // namespace bench
