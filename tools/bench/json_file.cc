// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/json_file.h"

#include <fstream>

#include "tools/bench/fail.h"

namespace bench {

void WriteJsonFile(const Json& json, const std::string& path) {
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  if (!file.flush()) Fail("cannot write " + path);
}

}  // namespace bench
