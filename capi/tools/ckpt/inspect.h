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

// Runs the command inspect: prints the contents of a checkpoint. If states are damaged, prints messages to stderr and
// sets *exit to kProblemFound. Returns an error if the index of the checkpoint cannot be read.
Status Inspect(const Arguments& arguments, ExitCode* exit);

// Prints a checkpoint. Inspect() calls Begin() once, then Add() for each parameter, and End() once.
//   outline: the index of the checkpoint, without any block (source.h)
//   blocks:  the blocks of the parameter, sorted by SortByPlace
//   sums:    the sums over the parameter's states (sums.h); nullptr if norms were not requested
//   damage:  the messages about damaged states and files
class Report {
 public:
  virtual ~Report() = default;
  virtual void Begin(const Source& source, const CheckpointIndex& outline) = 0;
  virtual void Add(const StoredParam& param, const std::vector<const StoredBlock*>& blocks, const StateSums* sums) = 0;
  virtual void End(const std::vector<std::string>& damage) = 0;
};
std::unique_ptr<Report> MakeTextReport(const Arguments& arguments);
std::unique_ptr<Report> MakeJsonReport(const Arguments& arguments);

}  // namespace shampoo::ckpt
