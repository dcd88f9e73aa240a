// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/replica_inputs.h"

#include <algorithm>

#include "core/backend/cpu/cpu_backend.h"
#include "core/base/amount.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/step/scan_spans.h"

namespace shampoo {
namespace {

uint64_t HashOf(const std::vector<int64_t>& values) {
  return HashBytes(values.data(), values.size() * sizeof values[0], 0);
}

// Returns an error if some ranks export averages and others do not. all: ReplicaInputs::values_ of all ranks, rank
// after rank. The last value of each rank is a ReplicaInputs::Action. Exports are compared before parameters, because
// a rank that exports and a rank that makes a step usually also differ in the parameters that take part.
Status CompareExports(const std::vector<int64_t>& all, int world) {
  const size_t count = all.size() / static_cast<size_t>(world);
  int exporting = -1;
  int stepping = -1;
  for (int rank = world - 1; rank >= 0; --rank) {
    const int64_t action = all[(static_cast<size_t>(rank) + 1) * count - 1];
    (action == ReplicaInputs::kExports ? exporting : stepping) = rank;
  }
  if (exporting < 0 || stepping < 0) return {};
  return WrongState("rank ", exporting, " exports averages and rank ", stepping, " makes a step", kParametersUnchanged,
                    "Call shampoo_optimizer_step and shampoo_optimizer_export in the same order on all ranks");
}

}  // namespace

ReplicaInputs::ReplicaInputs(const PlanData& plan)
    : plan_(plan), values_(plan.params.size() + plan.groups.size() + 1) {}

void ReplicaInputs::SetSteps(const int64_t* counters, int64_t action) {
  std::copy_n(counters, plan_.groups.size(), values_.begin() + static_cast<std::ptrdiff_t>(plan_.params.size()));
  values_.back() = action;
}

uint64_t ReplicaInputs::Hash() const { return HashOf(values_); }

Status ReplicaInputs::FindDifference(Communicator* comm) const {
  std::vector<int64_t> all;
  SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm, values_, &all));
  SHAMPOO_RETURN_IF_ERROR(CompareExports(all, comm->world()));
  const Difference difference = FirstDifference(all, comm->world());
  if (!difference.found) return {};
  const size_t params = plan_.params.size();
  if (difference.index == params + plan_.groups.size()) {
    return Invalid("rank ", difference.rank, difference.value != 0 ? " skips" : " does not skip",
                   " this step, unlike rank ", difference.usual_rank, kParametersUnchanged,
                   "Gradients must be the same on all ranks");
  }
  if (difference.index >= params) {
    return WrongState("rank ", difference.rank, " has made ", CountText(difference.value, "step"), " of group ",
                      difference.index - params, " and rank ", difference.usual_rank, " has made ", difference.usual,
                      kParametersUnchanged,
                      "Load the state of the same step on all ranks, and then call shampoo_optimizer_step equally "
                      "often on all ranks");
  }
  const std::string& name = plan_.params[difference.index].desc.name;
  const auto has = [](int64_t input) { return (input & 1) != 0 ? " has a gradient" : " has no gradient"; };
  if ((difference.value & 1) != (difference.usual & 1)) {
    return Invalid("rank ", difference.rank, has(difference.value), " for parameter \"", name, "\" and rank ",
                   difference.usual_rank, has(difference.usual), kParametersUnchanged,
                   "Bind gradients for the same parameters on all ranks");
  }
  return Numeric("rank ", difference.rank, " finds ", CountText(difference.value / 2, "block"), " of parameter \"",
                 name, "\" with a gradient that is too large or not finite, and rank ", difference.usual_rank,
                 " finds ", difference.usual / 2, kParametersUnchanged,
                 "Gradients must be the same on all ranks: average them before a step");
}

ParameterHashes::ParameterHashes(const PlanData& plan, CpuBackend* backend) : plan_(plan), backend_(backend) {
  hashes_.resize(plan.params.size());
  size_t spans = 0;
  for (const Param& param : plan.params) spans += static_cast<size_t>(ScanSpans(param.elements));
  spans_.reserve(spans);
  span_param_.reserve(spans);
  span_hash_.resize(spans);
}

void ParameterHashes::Update(const BoundBuffers& buffers) {
  spans_.clear();
  span_param_.clear();
  for (size_t p = 0; p < plan_.params.size(); ++p) {
    const Param& param = plan_.params[p];
    const void* const data = buffers.all()[p].param;
    if (data == nullptr) continue;
    ForEachScanSpan({data, param.desc.param_dtype, param.elements}, [&](const MemorySpan& span) {
      spans_.push_back(span);
      span_param_.push_back(p);
    });
  }
  backend_->Hash(spans_, span_hash_.data());
  std::fill(hashes_.begin(), hashes_.end(), 0);
  for (size_t i = 0; i < spans_.size(); ++i) {
    int64_t& hash = hashes_[span_param_[i]];
    hash = static_cast<int64_t>(HashBytes(&span_hash_[i], sizeof span_hash_[i], static_cast<uint64_t>(hash)));
  }
}

uint64_t ParameterHashes::Hash() const { return HashOf(hashes_); }

Status ParameterHashes::FindDifference(Communicator* comm) const {
  return FindDifferentParameter(plan_, comm, hashes_);
}

Status FindDifferentParameter(const PlanData& plan, Communicator* comm, const std::vector<int64_t>& hashes) {
  std::vector<int64_t> all;
  SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm, hashes, &all));
  const Difference difference = FirstDifference(all, comm->world());
  if (!difference.found) return NoDifferenceFound(comm, "the parameters");
  return WrongState("verify_replicas: parameter \"", plan.params[difference.index].desc.name,
                    "\" differs between rank ", difference.rank, " and rank ", difference.usual_rank,
                    kParametersUnchanged,
                    "Copy the parameters of one rank to all ranks, and find out what changed them on some ranks only");
}

Status StepsDiffer(int rank, int64_t step, int64_t step_of_first) {
  return WrongState(
      "rank ", rank, " is at step ", step, " and rank 0 at step ", step_of_first, kParametersUnchanged,
      "Load the state of the same step on all ranks, and then call shampoo_optimizer_step equally often on all ranks");
}

Status HyperParametersDiffer(int rank) {
  return Invalid("rank ", rank,
                 " has a different learning rate, gradient_scale or other changeable hyper-parameter than rank 0",
                 kParametersUnchanged, "Set the same values on all ranks");
}

Status FetchErrorOfReplicas(Rounds* rounds, const std::string& own_text) {
  const RoundFailure failure = rounds->FindFailure();
  Status error = rounds->FetchError(failure, own_text);
  if (failure.code == Code::kComm || failure.on_all_ranks || error.code() == Code::kComm) return error;
  if (rounds->AllExport()) return error;  // exports change no state
  std::string text = error.message();
  const size_t at = text.find(kNothingChanged);
  if (at != std::string::npos) text.erase(at, std::char_traits<char>::length(kNothingChanged));
  return Status(
      error.code(),
      Cat(text,
          ". Other ranks could not detect this and had begun the step: parameters are unchanged, but the states "
          "of the blocks that those ranks own include this step's gradient"));
}

}  // namespace shampoo
