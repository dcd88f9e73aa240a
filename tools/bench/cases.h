// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

using Dims = std::vector<int64_t>;

struct Tensor {
  std::string name;
  Dims shape;
};

// A model: its name, a description, its parameters, and the values of max_preconditioner_dim that are measured by
// default (`blocks`).
struct Case {
  std::string name;
  std::string about;
  std::vector<Tensor> tensors;
  std::vector<int64_t> blocks;
};

// Returns all predefined cases, in the order in which "shampoo_bench --case list" prints them.
const std::vector<Case>& AllCases();
const Case& FindCase(const std::string& name);

// Returns a case from shapes such as "4096x1024,1024", with one tensor for each shape.
Case CaseOfShapes(const std::string& shapes);
// Reads a case from a file with a line "name d0 d1 ..." for each tensor. Skips empty lines and lines that begin with #.
Case CaseOfFile(const std::string& path);

int64_t Elements(const Dims& shape);
int64_t Parameters(const Case& model);     // number of elements of all tensors
std::string ShapeName(const Dims& shape);  // such as "4096x1024"

}  // namespace bench
