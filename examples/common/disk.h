// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions for files that survive a loss of power. Both the file and its folder must be synced to the disk, because
// the folder contains the name of the file.
#ifndef EXAMPLES_DISK_H
#define EXAMPLES_DISK_H

enum { kPath = 4096 };

// Writes the string "folder/name" to path. Exits with an error if the string is too long.
void join_path(char path[kPath], const char* folder, const char* name);

// Creates a folder and syncs its parent to the disk. Does nothing if the folder already exists.
void make_folder(const char* path);

// Syncs the content of a file or the list of names in a folder to the disk. Exits with an error on failure.
void sync_path(const char* path);

// Renames an entry of a folder and syncs the folder to the disk. Returns 0 or an errno value.
int rename_in(const char* folder, const char* from, const char* to);

#endif
