// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi/tools/ckpt/arguments.h"
#include "capi/tools/ckpt/source.h"
#include "capi/tools/ckpt/sums.h"

namespace shampoo::ckpt {

// Fails where there is nothing to show. Damage of states is told on stderr, and is what *exit says.
Status Inspect(const Arguments& arguments, ExitCode* exit);

// What is shown, one after another. blocks: by place; sums: nullptr if they were not asked for.
class Report {
 public:
  virtual ~Report() = default;
  virtual void Begin(const Source& source, const CheckpointIndex& params) = 0;
  virtual void Add(const StoredParam& param, const std::vector<const StoredBlock*>& blocks, const StateSums* sums) = 0;
  virtual void End(const std::vector<std::string>& damage) = 0;
};
std::unique_ptr<Report> MakeTextReport(const Arguments& arguments);
std::unique_ptr<Report> MakeJsonReport(const Arguments& arguments);

}  // namespace shampoo::ckpt
