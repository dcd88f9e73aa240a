// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/rejections.h"

#include <cmath>

#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/rules/growth.h"

namespace shampoo {
namespace {

constexpr const char* kWhatToTry =
    ". Skip this step, lower the learning rate, lower the loss scale (and raise gradient_scale by the same factor), "
    "clip gradients, or start preconditioning later";
constexpr const char* kHowToSkip = "; with on_nonfinite=skip_step, such steps are skipped automatically";

std::string Where(const RejectedAt& at) {
  return Cat(" at element ", at.element, " (block ", BlockName(at.param, at.block), ")");
}

Status RejectTooLarge(const RejectedAt& at, const std::string& what, Dtype dtype, const char* advice) {
  return Numeric("the gradient of parameter \"", at.param.desc.name, "\" is too large: ", what, " would overflow ",
                 NameOf(dtype), "; the largest value of the gradient is ", at.value, Where(at), kNothingChanged,
                 kWhatToTry, advice, kHowToSkip);
}

Status RejectCounterState(const std::string& key, int64_t counter) {
  return WrongState("the state \"", key, "\" is ", counter,
                    ", which no step of this optimizer wrote: expected 0 to 2^53 - 1; write or bind a valid state");
}

}  // namespace

Status RejectNotFinite(const RejectedAt& at, bool param_at_fault) {
  return Numeric(param_at_fault ? "parameter \"" : "the gradient of parameter \"", at.param.desc.name, "\" has ",
                 std::isnan(at.value) ? "NaN" : "an infinity", Where(at), kNothingChanged, kWhatToTry, kHowToSkip);
}

Status RejectElement(const RejectedAt& at) { return RejectTooLarge(at, "it", ElementDtype(at.block), ""); }

Status RejectMoment(const RejectedAt& at) {
  const bool is_grafting = at.block.grafting.present();
  return RejectTooLarge(at, is_grafting ? "the grafting state" : "the second moment", at.block.moment().dtype,
                        is_grafting ? ", or use a wider grafting_dtype" : ", or use a wider second_moment_dtype");
}

Status RejectFactor(const RejectedAt& at, int k, bool product_fits) {
  const Dtype dtype = at.block.factor[static_cast<size_t>(k)].dtype;
  const bool narrow = product_fits && LargestFinite(dtype) < LargestFinite(at.block.computation);
  return RejectTooLarge(at, Cat("factor.", k), narrow ? dtype : at.block.computation,
                        narrow ? ", or use a wider factor_dtype" : "");
}

Status RejectFactorState(const Param& param, const Block& block, size_t k, double largest) {
  return Numeric("the factor matrix ", BlockName(param, block), "/factor.", k, " has ",
                 std::isnan(largest) ? "NaN" : "an infinity", ", which no step of this optimizer wrote",
                 kNothingChanged, ". Write or bind a valid state");
}

Status RejectCounter(size_t group, int64_t counter) {
  return RejectCounterState(Cat("group.", group, "/step"), counter);
}

Status RejectGradientCount(const Param& param, const Block& block, int64_t count) {
  return RejectCounterState(Cat(BlockName(param, block), "/gradient_count"), count);
}

}  // namespace shampoo
