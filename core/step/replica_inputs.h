// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/backend/cpu/step_item.h"
#include "core/comm/communicator.h"
#include "core/comm/round.h"
#include "core/plan/plan.h"
#include "core/step/bound_buffers.h"

namespace shampoo {

class CpuBackend;

// The inputs of a step that must be the same on all replicas, in addition to hyper-parameters: which parameters take
// part, how many blocks of each parameter have a gradient that is not usable, the step counters of groups, and the
// Action of the rank. Ranks compare a hash of these values. If the hashes differ, the ranks exchange the values
// themselves to find the difference.
class ReplicaInputs {
 public:
  // The plan must outlive this object.
  explicit ReplicaInputs(const PlanData& plan);

  // What a rank does: a step, a step that is skipped, or an export of averages.
  enum Action : int64_t { kSteps = 0, kSkips = 1, kExports = 2 };
  // takes_part(param): whether a parameter takes part. excluded: the blocks whose gradient is not usable. counters: the
  // step counter of each group. action: an Action.
  template <typename TakesPart>
  void Set(TakesPart&& takes_part, std::span<const StepItem> excluded, const int64_t* counters, int64_t action) {
    for (size_t p = 0; p < plan_.params.size(); ++p) values_[p] = takes_part(plan_.params[p]) ? 1 : 0;
    for (const StepItem& item : excluded) values_[static_cast<size_t>(item.block->param)] += 2;
    SetSteps(counters, action);
  }
  bool are_of_export() const { return values_.back() == kExports; }
  uint64_t Hash() const;
  int64_t bytes() const { return static_cast<int64_t>(values_.size() * sizeof values_[0]); }
  // Returns the error for the first difference between ranks; success if there is none. Collective.
  Status FindDifference(Communicator* comm) const;

 private:
  void SetSteps(const int64_t* counters, int64_t action);

  const PlanData& plan_;
  // For each parameter, 1 if it takes part, plus 2 for each excluded block; then the step counter of each group; then
  // an Action.
  std::vector<int64_t> values_;
};

// Returns the error for the first parameter whose hash differs between ranks. hashes: by parameter. Collective.
Status FindDifferentParameter(const PlanData& plan, Communicator* comm, const std::vector<int64_t>& hashes);

// Hashes of the parameters, compared between replicas every verify_replicas steps.
class ParameterHashes {
 public:
  // The plan and the backend must outlive this object.
  ParameterHashes(const PlanData& plan, CpuBackend* backend);

  void Update(const BoundBuffers& buffers);
  uint64_t Hash() const;
  // Returns the error for the first parameter that differs between ranks. Collective.
  Status FindDifference(Communicator* comm) const;

 private:
  const PlanData& plan_;
  CpuBackend* backend_;
  std::vector<MemorySpan> spans_;
  std::vector<size_t> span_param_;
  std::vector<uint64_t> span_hash_;
  std::vector<int64_t> hashes_;  // by parameter
};

// Part of each error message about a difference that replicas find in a step or an export. Replicas compare their
// inputs before a step writes parameters.
inline constexpr char kParametersUnchanged[] = ". This call has not changed the parameters. ";

// Returns the error about a rank that is at another step than rank 0. step_of_first: the step of rank 0.
Status StepsDiffer(int rank, int64_t step, int64_t step_of_first);
// Returns the error about a rank whose hyper-parameters differ from those of rank 0.
Status HyperParametersDiffer(int rank);
// Returns the error of a step or an export that some replicas rejected. If other replicas had already begun the step,
// the message says that their states have changed. own_text: the error message of this rank. Collective.
Status FetchErrorOfReplicas(Rounds* rounds, const std::string& own_text);

}  // namespace shampoo
