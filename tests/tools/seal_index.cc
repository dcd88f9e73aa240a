// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// seal_index PATH: corrects the checksum in PATH, the index file of a checkpoint, after a test has edited the file.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "core/base/hash.h"
#include "core/checkpoint/index.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t start = shampoo::IndexStart(0).size();
  if (text.size() < start) return 1;
  text.replace(0, start, shampoo::IndexStart(shampoo::HashBytes(text.data() + start, text.size() - start, 0)));
  std::ofstream out(argv[1], std::ios::binary);
  out << text;
  return out.flush() ? 0 : 1;
}
