// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/device_memory.h"
#include "core/backend/cuda/plugin/kernel_tables.h"
#include "core/backend/cuda/plugin/phase_timer.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// The exchanges of a step with other ranks, in the order of the stream (docs/adr/0024, docs/adr/0025). Every rank makes
// the same sequence of collectives, even after it rejected the step: the headers report the errors. Without other ranks
// the functions do nothing. The exchanges of
// other ranks belong to no phase: they include the time in which this rank waits.
class RankExchanges {
 public:
  // The plan must outlive this object.
  explicit RankExchanges(const PlanView& plan) : plan_(plan) {}

  // Allocates the buffers, and fills in what they add to the tables.
  Status Allocate(const DeviceMemory::Source& source, Tables* tables);

  // Before the gradients are checked: with shard_mode gather, collects whole blocks at their owners.
  Status Collect(const StepArgs& args, const Tables& tables, const StepPhases& phases) const;
  // After the check: all ranks make the same decision. Nothing was written before.
  Status Agree(const StepArgs& args, const Tables& tables, const StepPhases& phases) const;
  // After the updates of a bucket were computed: sends them to the ranks that hold the parameters, which apply them.
  Status Share(const StepArgs& args, const Tables& tables, int32_t bucket, const StepPhases& phases) const;

  int32_t bucket_count() const;

 private:
  bool gathers() const { return plan_.gather != nullptr; }
  // Returns whether replicas compare their headers in an exchange of its own, before anything is written. Otherwise the
  // headers of the only bucket decide. With gathered blocks, the ranks of one copy check only the blocks of this copy.
  bool compares_headers_first() const { return plan_.replica_world > 1 && (gathers() || bucket_count() > 1); }
  Status AgreeWithShards(const StepArgs& args, const Tables& tables, int64_t number) const;
  Status ExchangeWithReplicas(const StepArgs& args, const Tables& tables, int64_t segment_bytes, int64_t number) const;
  Status ExchangeMessages(const StepArgs& args, const GatherExchange& exchange) const;

  const PlanView& plan_;
  DeviceMemory buffers_;  // empty with one rank
};

}  // namespace shampoo::cuda
