// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/selection.h"

namespace bench {
namespace {

constexpr char kGrafting[] = "adam";
constexpr char kDtype[] = "f32";

class Rows {
 public:
  explicit Rows(const Options& options) : options_(options) {}

  void Add(const Case& model, int64_t block, const std::string& grafting, const std::string& dtype) {
    for (const int threads : options_.threads) {
      rows_.push_back({&model, Settings{threads, block, grafting, dtype, options_.keys, false, options_.period}});
    }
  }

  // Adds a row for every combination of the values in the lists of the options.
  void AddAll(const Case& model) {
    const auto or_one = [](std::vector<std::string> list, const char* otherwise) {
      if (list.empty()) list.emplace_back(otherwise);
      return list;
    };
    for (const int64_t block : options_.blocks.empty() ? model.blocks : options_.blocks) {
      for (const std::string& grafting : or_one(options_.graftings, kGrafting)) {
        for (const std::string& dtype : or_one(options_.state_dtypes, kDtype)) Add(model, block, grafting, dtype);
      }
    }
  }

  // Adds the rows of --case all, which together take half an hour on two cores. A row of the case "huge" with one
  // block of 8192x8192 is left out, because this row alone would take half an hour.
  void AddSelection() {
    const Case& transformer = FindCase("transformer");
    for (const int64_t block : transformer.blocks) Add(transformer, block, kGrafting, kDtype);
    for (const char* grafting : {"none", "sgd", "adagrad", "rmsprop"}) Add(transformer, 512, grafting, kDtype);
    for (const char* dtype : {"bf16", "f16"}) Add(transformer, 512, kGrafting, dtype);
    for (const char* name : {"tiny_vectors", "small_vectors", "recommendation", "resnet50"}) {
      Add(FindCase(name), 1024, kGrafting, kDtype);
    }
    Add(FindCase("gpt2"), 512, kGrafting, kDtype);
    Add(FindCase("huge"), 1024, kGrafting, kDtype);
  }

  std::vector<RowSpec> rows_;

 private:
  const Options& options_;
};

}  // namespace

std::vector<RowSpec> RowsFor(const Options& options, const Case* shapes) {
  Rows rows(options);
  if (shapes != nullptr) {
    rows.AddAll(*shapes);
    return rows.rows_;
  }
  for (const std::string& name : options.cases) {
    if (name == "all") {
      rows.AddSelection();
    } else {
      rows.AddAll(FindCase(name));
    }
  }
  return rows.rows_;
}

}  // namespace bench
