// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_element.h"
#include "core/rules/rank_difference.h"

// Hashes of parameters. Replicas compare their hashes (key verify_replicas). On the CPU, ParameterHashes
// (core/step/replica_inputs.h) may use another hash function: a rank on a device never compares hashes with a rank on a
// CPU.
namespace shampoo::cuda {

// Returns whether this step compares the parameters of replicas.
SHAMPOO_DEVICE inline bool ComparesParameters(const Tables& tables) {
  return tables.state->rejected == 0 && shampoo::ComparesParameters(tables.verify_replicas, tables.state->report.steps);
}

// Mixes the bits of a number: different numbers give different results. The constants are those of splitmix64.
SHAMPOO_DEVICE inline uint64_t Scrambled(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Returns the term of one element in the hash of an array. The hash is the sum of the terms of all elements, modulo
// 2^64, so the order of the additions does not matter. The array is a parameter, or the array of the hashes of all
// parameters. place: the index of the element. bits: the bits of its value.
SHAMPOO_DEVICE inline uint64_t HashTerm(int64_t place, uint64_t bits) {
  return Scrambled(Scrambled(static_cast<uint64_t>(place) + 0x9e3779b97f4a7c15u) ^ bits);
}

}  // namespace shampoo::cuda
