// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Files that must be there after a loss of power: what was written, and the names in a folder, each have to be brought
// to the disk.
#ifndef EXAMPLES_DISK_H
#define EXAMPLES_DISK_H

enum { kPath = 4096 };

// folder/name; one that is too long ends the program.
void join_path(char path[kPath], const char* folder, const char* name);

// Makes a folder where there is none, and waits until the folder that it is in is on the disk.
void make_folder(const char* path);

// Waits until a file, or the names in a folder, are on the disk. A failure ends the program.
void sync_path(const char* path);

// Renames what is in a folder, and waits until its names are on the disk. Returns 0, or what errno tells.
int rename_in(const char* folder, const char* from, const char* to);

#endif
