// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Reads the shapes of parameters from the command line or from a file.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tools/bench/cases.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

constexpr size_t kMaxDims = 8;

int64_t ReadDim(const std::string& text, const std::string& where) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 1)
    Fail("'" + text + "' in " + where + " is not a dim: expected an integer of at least 1");
  return value;
}

void AddTensor(Case* to, const std::string& name, const Dims& shape, const std::string& where) {
  if (shape.empty() || shape.size() > kMaxDims)
    Fail("a shape in " + where + " has " + std::to_string(shape.size()) + " dims: expected 1 to 8");
  for (const Tensor& other : to->tensors) {
    if (other.name == name) Fail(where + ": the name " + name + " is not unique");
  }
  to->tensors.push_back({name, shape});
}

}  // namespace

Case CaseOfShapes(const std::string& shapes) {
  Case model{"shapes", shapes, {}, {128, 256, 512, 1024, 2048}};
  std::istringstream list(shapes);
  for (std::string one; std::getline(list, one, ',');) {
    Dims shape;
    std::istringstream dims(one);
    for (std::string dim; std::getline(dims, dim, 'x');) shape.push_back(ReadDim(dim, "--shapes " + shapes));
    AddTensor(&model, "tensor." + std::to_string(model.tensors.size()), shape, "--shapes " + shapes);
  }
  if (model.tensors.empty()) Fail("--shapes is empty: expected shapes such as 4096x1024,1024");
  return model;
}

Case CaseOfFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) Fail("cannot read " + path + ": expected a file with lines such as 'weight 4096 1024'");
  Case model{"shapes", path.substr(path.rfind('/') + 1), {}, {128, 256, 512, 1024, 2048}};
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string where = path + ", line " + std::to_string(++number);
    std::istringstream words(line);
    std::string name;
    if (!(words >> name) || name[0] == '#') continue;
    Dims shape;
    for (std::string dim; words >> dim;) shape.push_back(ReadDim(dim, where));
    AddTensor(&model, name, shape, where);
  }
  if (model.tensors.empty()) Fail(path + " has no shapes: expected lines such as 'weight 4096 1024'");
  return model;
}

}  // namespace bench
