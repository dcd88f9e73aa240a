// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/describe.h"

#include "core/base/amount.h"
#include "core/base/text.h"
#include "core/plan/check_param.h"

namespace shampoo {

std::vector<std::string> PlanLines(const PlanData& plan, bool with_shards) {
  std::vector<std::string> lines;
  lines.push_back(Cat(CountText(static_cast<int64_t>(plan.params.size()), "parameter"), " in ",
                      CountText(static_cast<int64_t>(plan.groups.size()), "group")));
  for (size_t g = 0; g < plan.keys.size(); ++g) {
    for (const auto& [key, value] : plan.keys[g]) lines.push_back(Cat("group ", g, ": ", key, " is ", value));
  }
  for (size_t p = 0; p < plan.params.size(); ++p) {
    const ParamDesc& desc = plan.params[p].desc;
    std::string line =
        Cat("parameter ", p, ": \"", desc.name, "\" of shape ", ShapeText(desc.shape), ", stack_dims ", desc.stack_dims,
            ", group ", desc.group, ", param ", NameOf(desc.param_dtype), ", grad ", NameOf(desc.grad_dtype), ", out ",
            NameOf(desc.out_dtype), ", copy ", NameOf(desc.copy_dtype));
    // Where shards are brought together all ranks must know the same of all of them.
    if (plan.gathers && plan.cuts[p].everywhere()) {
      line += ", held whole by every shard rank";
    } else if (plan.gathers) {
      line += Cat(", held in parts (shard_form, shampoo_plan_add_shard) with the checksum ",
                  plan.cuts[p].Hash(plan.placement.shard_world));
    }
    if (with_shards && desc.form == ShardForm::kFlat) {
      line += Cat(", elements ", desc.flat_offset, " to ", desc.flat_offset + desc.flat_count);
    } else if (with_shards && desc.form == ShardForm::kRectangle) {
      line += Cat(", the rectangle at ", ShapeText(desc.local_offset), " of shape ", ShapeText(desc.local_shape));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace shampoo
