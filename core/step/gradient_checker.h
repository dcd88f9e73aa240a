// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/step/step_context.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// The result of a check that returned no error. Unless on_nonfinite=error, the check may have excluded blocks
// (StepContext::Exclude()) or set skip_step.
struct CheckResult {
  bool skip_step = false;             // the step succeeds and changes nothing
  std::vector<std::string> messages;  // log messages about skipped blocks and steps

  // Logs the messages. Call when it is certain that the step does not fail.
  void LogMessages();
};

// Checks, before a step writes anything, that no state can overflow or become NaN. A first scan computes a bound on the
// elements of the gradient G. Only blocks for which this bound is too large get an exact check. The constructor
// allocates all scratch memory.
class GradientChecker {
 public:
  // defers_state_errors: true if only the owner of a block can detect that a gradient would overflow the block's state.
  // If the owner detects this in a group without on_nonfinite=error, the owner does not exclude the block from the
  // step, but reports in the exchange that the update is skipped.
  GradientChecker(const StepInputs& inputs, CpuBackend* backend, bool defers_state_errors);

  // Fails if a factor matrix whose inverse root is due is not finite. Steps keep factor matrices finite, but the caller
  // may have written other values to the state.
  Status CheckFactors(std::span<const StepItem> items);

  // Checks the gradients of this rank's parameters. Depending on on_nonfinite of the group, returns an error, excludes
  // blocks, or sets skip_step.
  Status CheckGradients(StepContext* context, CheckResult* result);

  // Returns whether a gradient of this rank's shards may be unusable. Ignores the states of the blocks. If the result
  // is true, whole blocks must be collected for the exact check.
  bool MayReject(StepContext* context);
  // Scans the gradients of some items for CheckGradient() and FitsState(). The argument k of these functions is the
  // position of the item in the argument `items` of Scan().
  void Scan(std::span<StepItem* const> items);
  // Does the same as CheckGradients() for the block of one item, but ignores the states of the block.
  Status CheckGradient(size_t k, StepItem* item, StepContext* context, CheckResult* result);
  // Returns whether the states of the item can take its gradient without overflow. Logs a warning if they cannot.
  bool FitsState(size_t k, const StepItem& item);

 private:
  // A gradient to scan. With coupled weight decay, the parameter is also scanned.
  struct Scanned {
    const ParamDesc* desc;
    const Buffers* buffers;
    int64_t elements;
    const StepProgram* program;
    double largest_gradient = 0;
    double largest_param = 0;
    double bound = 0;  // upper bound on |G|, see GradientBound()
  };
  void ScanParams(const StepContext& context);
  void AddSpans(size_t source, const MemorySpan& array);
  void RunScan();
  Status CheckExactly(StepItem* item, const char* state, StepContext* context, CheckResult* result);

  StepInputs inputs_;
  CpuBackend* backend_;
  bool defers_state_errors_;
  std::vector<MemorySpan> spans_;
  // The source of each span: an index into the argument of CheckFactors() while it runs, otherwise into scanned_.
  std::vector<int> span_source_;
  std::vector<double> span_largest_;
  std::vector<Scanned> scanned_;
  std::vector<size_t> scanned_param_;  // by parameter: its index in scanned_
};

}  // namespace shampoo
