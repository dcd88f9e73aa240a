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

// Runs the command inspect: prints the contents of a checkpoint. If states or files are damaged, prints messages to
// stderr and sets *exit to kProblemFound, otherwise to kSuccess. Returns an error if the index of the checkpoint cannot
// be read.
Status Inspect(const Arguments& arguments, ExitCode* exit);

// Prints a checkpoint. Inspect() calls Begin() once, then Add() for each parameter, and End() once.
//   outline: the index of the checkpoint, without any block (source.h)
//   blocks:  all blocks of the parameter, sorted by SortByPlace() (source.h)
//   sums:    the sums over the parameter's states (sums.h); nullptr with --no-norms
//   damage:  the messages about damaged states and files; empty if there is no damage
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
