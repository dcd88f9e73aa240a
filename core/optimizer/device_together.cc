// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What several ranks make of a step that one of them refused, or that is not the same on all: each has found in the
// headers of the others that there is something, and now the hosts tell each other what.
#include <algorithm>

#include "core/comm/agreement.h"
#include "core/comm/received.h"
#include "core/optimizer/device_staging.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"

namespace shampoo {

// Collective: all ranks come here by the same call.
Status Optimizer::RefusalTogether() {
  OnDevice& device = *device_;
  Communicator* const comm = device.comm;
  const cuda::StepReport& report = device.report;
  DeviceStaging staging(device.engine.get(), device.stream);
  const StagingScope staged(comm, &staging);
  // What this rank has refused itself, on the host or on the device.
  const Status own = !device.own_failure.ok()                      ? device.own_failure.Copy()
                     : report.refusal == cuda::Refusal::kOtherRank ? Status()
                                                                   : RefusalOf(report);
  switch (report.difference) {
    case cuda::RankDifference::kPlace:
      // Who the others wait for is not known: they may be in a further exchange of the step that this rank has ended.
      comm->GiveUp();
      return CommFailed(
          "rank ", report.rank, " is at an exchange of another optimizer, or at another of optimizer ", device.number,
          ", counted from 0 in the order of create: optimizers that share ranks must be stepped in the same order on "
          "all of them");
    case cuda::RankDifference::kStep: {
      std::vector<int64_t> steps;
      const int64_t step = *std::max_element(device.asked.steps.begin(), device.asked.steps.end()) - 1;
      SHAMPOO_RETURN_IF_ERROR(GatherNumbers(comm, step, &steps));
      return StepsDiffer(report.rank, steps[static_cast<size_t>(report.rank)], steps[0]);
    }
    case cuda::RankDifference::kScalars:
      return ScalarsDiffer(report.rank);
    case cuda::RankDifference::kInputs: {
      Difference difference;
      SHAMPOO_RETURN_IF_ERROR(FindInput(comm, &difference));
      return Numeric("rank ", report.rank,
                     " finds other blocks than rank 0 with a gradient that is not finite: parameters are as they were. "
                     "Gradients must be the same on all ranks: average them before a step");
    }
    case cuda::RankDifference::kFailed:
    case cuda::RankDifference::kNone:
      break;
  }
  std::vector<int64_t> codes;
  SHAMPOO_RETURN_IF_ERROR(GatherNumbers(comm, static_cast<int64_t>(own.code()), &codes));
  std::vector<std::string> texts;
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm, own.message(), &texts));
  if (std::all_of(codes.begin(), codes.end(), [](int64_t code) { return code == 0; })) {
    comm->GiveUp();
    return CommFailed(comm->who(), " ", comm->rank(), " received from ", comm->who(), " ", report.rank,
                      " that it refused a step, and then no reason; expected one", kCheckRanks);
  }
  return FailureOfRanks(comm, codes, {}, texts);
}

}  // namespace shampoo
