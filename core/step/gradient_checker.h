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

// The outcome of a check that found no error.
struct CheckResult {
  bool skip_step = false;             // the step succeeds and changes nothing
  std::vector<std::string> messages;  // about what is skipped

  // Call when it is certain that the step does not fail.
  void LogMessages();
};

// Checks before a step writes anything that no state can overflow or become NaN. A first scan bounds the largest |G|;
// only blocks for which that bound is not enough get an exact check. All scratch is allocated by the constructor.
class GradientChecker {
 public:
  // defers_state_errors: other ranks cannot see that the state of a block does not fit its gradient. Unless the group
  // asks for an error, such a block reports a skipped update in the exchange, and is not excluded.
  GradientChecker(const StepInputs& inputs, CpuBackend* backend, bool defers_state_errors);

  // Fails if a factor matrix from which an inverse root is about to be computed is not finite. The gradients keep
  // factor matrices finite; the caller may have written others.
  Status CheckFactors(std::span<const StepItem> items);

  // Checks the gradients of this rank's parameters. Excludes blocks, or asks to skip the step, as the groups'
  // on_nonfinite says.
  Status CheckGradients(StepContext* context, CheckResult* result);

  // Whether a gradient of this rank's shards may have to be rejected, whatever the states.
  bool MayReject(StepContext* context);
  // Bounds the gradients of some items, to check them one by one with what follows; k: the position of the item.
  void Scan(std::span<StepItem* const> items);
  // Checks the gradient alone, without the states.
  Status CheckGradient(size_t k, StepItem* item, StepContext* context, CheckResult* result);
  // Whether the states of the item take its gradient. Logs a warning if they do not.
  bool FitsState(size_t k, const StepItem& item);

 private:
  // A gradient to scan, with the parameter if that is a part of G.
  struct Scanned {
    const ParamDesc* desc;
    const Buffers* buffers;
    int64_t elements;
    const StepProgram* program;
    double largest_gradient = 0;
    double largest_param = 0;
    double bound = 0;  // of |G|
  };
  void ScanParams(const StepContext& context);
  void AddSpans(size_t owner, const MemorySpan& array);
  void RunScan();
  Status CheckExactly(StepItem* item, const char* state, StepContext* context, CheckResult* result);

  StepInputs inputs_;
  CpuBackend* backend_;
  bool defers_state_errors_;
  std::vector<MemorySpan> spans_;
  std::vector<int> span_owner_;  // by span: the position of what it belongs to
  std::vector<double> span_largest_;
  std::vector<Scanned> scanned_;
  std::vector<size_t> scanned_param_;  // by parameter: its position in scanned_
};

}  // namespace shampoo
