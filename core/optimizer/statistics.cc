// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"

namespace shampoo {
namespace {

constexpr std::pair<const char*, StepPhase> kSecondsOf[] = {{"seconds.check", StepPhase::kCheck},
                                                            {"seconds.factor_update", StepPhase::kFactorUpdate},
                                                            {"seconds.roots", StepPhase::kRoots},
                                                            {"seconds.preconditioning", StepPhase::kPreconditioning},
                                                            {"seconds.elementwise", StepPhase::kElementwise}};

}  // namespace

Status Optimizer::Stat(std::string_view name, double* value) const {
  for (const auto& [part_name, part] : kSecondsOf) {
    if (name != part_name) continue;
    *value = backend_ == nullptr ? 0 : backend_->Seconds(part);
    return {};
  }
  constexpr std::string_view kStepOfGroup = "step.";
  if (name.starts_with(kStepOfGroup)) return StepOfGroup(name.substr(kStepOfGroup.size()), value);
  if (name == "steps") {
    *value = static_cast<double>(steps_);
  } else if (name == "nonfinite_blocks") {
    *value = static_cast<double>(nonfinite_blocks_);
  } else if (name == "skipped_steps") {
    *value = static_cast<double>(skipped_steps_);
  } else if (!roots_.Stat(name, value)) {
    std::string parts;
    for (const auto& [part_name, part] : kSecondsOf) parts += Cat(part_name, ", ");
    return Invalid("there is no statistic \"", name,
                   "\": expected steps, step.<group>, nonfinite_blocks, skipped_steps, ", parts,
                   RootLedger::StatNames());
  }
  return {};
}

Status Optimizer::StepOfGroup(std::string_view number, double* value) const {
  size_t group = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), group);
  // One spelling for each: neither "-0" nor "00".
  if (error != std::errc() || group >= groups_.size() || number != Cat(group)) {
    return Invalid("there is no statistic \"step.", number, "\": expected step.0",
                   groups_.size() == 1 ? "" : Cat(" to step.", groups_.size() - 1), ", with the number of a group");
  }
  SHAMPOO_RETURN_IF_ERROR(CheckState(state_out_));
  bool captured = false;
  if (device_) SHAMPOO_RETURN_IF_ERROR(device_->engine->IsCapturing(device_->stream, &captured));
  if (captured) {
    return WrongState("the statistic \"step.", number,
                      "\" is read in the order of the stream of the last call, which is being captured: ask outside of "
                      "a capture");
  }
  int64_t step = 0;
  const auto offset = static_cast<int64_t>(group * sizeof step);
  SHAMPOO_RETURN_IF_ERROR(FetchState(offset, sizeof step, reinterpret_cast<char*>(&step)));
  *value = static_cast<double>(step);
  return {};
}

}  // namespace shampoo
