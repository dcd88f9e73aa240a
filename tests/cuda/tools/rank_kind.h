// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/text.h"
#include "tests/cuda/tools/device_model.h"

namespace shampoo_test {

// Which communicators of a rank exchange data in host memory. The other communicators exchange data in device memory.
struct HostComms {
  bool of_replicas = false, of_shards = false;
};
inline constexpr HostComms kAllOnHost{true, true};

// The number of ranks that train one model together, and how the ranks exchange data.
struct RankKind {
  const char* mode;    // value of the key shard_mode
  int copies, shards;  // the number of replicas, and the number of shards of each replica
  bool has_all_to_all = false;
  const char* bucket = "0";  // value of the key comm_bucket_bytes
  HostComms on_host = {};

  int world() const { return copies * shards; }
  bool gathers() const { return mode == std::string("gather"); }
  Keys keys() const { return {{"shard_mode", mode}, {"comm_bucket_bytes", bucket}}; }
};

inline std::string NameOf(const RankKind& kind) {
  const std::string bucket = kind.bucket;
  return shampoo::Cat(kind.mode, " ", kind.copies, "x", kind.shards, kind.has_all_to_all ? ", all-to-all" : "",
                      bucket == "0" ? "" : ", comm_bucket_bytes " + bucket,
                      kind.on_host.of_replicas ? ", replicas exchange in host memory" : "",
                      kind.on_host.of_shards ? ", shards exchange in host memory" : "");
}

}  // namespace shampoo_test
