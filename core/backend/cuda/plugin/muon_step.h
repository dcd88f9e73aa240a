// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/muon_kernels.h"
#include "core/backend/cuda/plugin/orthogonalizer.h"
#include "core/backend/cuda/plugin/phase_timer.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Makes the step of blocks that method muon (arXiv 2502.16982) updates, one batch at a time.
class MuonStep {
 public:
  // divisors: the array at DeviceLayout::OrthogonalLayout::divisors. orthogonalizer: must outlive the object.
  MuonStep(double* divisors, const Orthogonalizer& orthogonalizer)
      : divisors_(divisors), orthogonalizer_(orthogonalizer) {}

  // work: the tables of `batch`.
  Status Step(const StepArgs& args, const StepPhases& phases, const Tables& tables, const BatchTables& work,
              const BlockBatch& batch) const;
  // Makes cuBLAS load the kernels of all products of the batch (Engine::PreloadLibraries). StepState::go must be 0.
  Status Preload(const Tables& tables, const BatchTables& work, const BlockBatch& batch) const {
    return orthogonalizer_.Preload({tables, work, batch, work.first, work.first});
  }

 private:
  double* const divisors_;
  const Orthogonalizer& orthogonalizer_;
};

}  // namespace shampoo::cuda
