// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_json.h"

#include <shampoo/shampoo.h>

namespace bench {

Json HeadJson(const PlacementOptions& options) {
  Json head = {{"program", "shampoo_placement"},
               {"build_info", Json::parse(shampoo_build_info())},
               {"block", options.block},
               {"frequency", options.frequency},
               {"grafting", options.grafting},
               {"keys", Json::object()},
               {"shard_mode", options.gather ? "gather" : "local"}};
  for (const auto& [key, value] : options.keys) head["keys"][key] = value;
  return head;
}

Json JsonOf(const Load& load) { return {{"largest", load.largest}, {"mean", load.mean}}; }

}  // namespace bench
