// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Empty definitions of functions of core/blas/scratch.h, for the test embed.blas_concurrency_without_wrap. In this
// test, OpenBLAS uses its own scratch allocator.
#include "core/blas/scratch.h"

namespace shampoo::blas {

Scratch::Scratch(Scratch&& other) noexcept : base_(other.base_) {}
Scratch::~Scratch() = default;
Status Scratch::Create(const ScratchExtent&, Scratch*) { return {}; }
void ScratchExtent::Add(int64_t, int64_t, size_t) {}
int64_t ScratchExtent::bytes() const { return 0; }
int64_t Scratch::ResidentBytes() const { return 0; }
ScratchUse::ScratchUse(Scratch*) : previous_(nullptr) {}
ScratchUse::~ScratchUse() = default;
int64_t UnplannedScratchRequests() { return 0; }

}  // namespace shampoo::blas
