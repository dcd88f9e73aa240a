// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo_test {

// The ranks of a job: copies of the parameters, each divided into shards.
struct Grid {
  int copies, shards;
  int world() const { return copies * shards; }
};

}  // namespace shampoo_test
