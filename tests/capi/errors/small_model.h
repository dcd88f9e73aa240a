// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>

#include "errors_test_util.h"
#include "tests/capi/behaviour/host.h"

namespace shampoo_test {

// An optimizer for the parameters of SmallParams(). Steps write to the separate arrays `out` and `copy`, and do not
// change the parameters.
struct SmallModel : Host {
  static constexpr size_t kElements[2] = {30, 5};
  static constexpr const char* kNames[2] = {"weight", "bias"};

  explicit SmallModel(const Keys& keys = {}, int32_t dtype = SHAMPOO_F32)
      : Host(SmallKeys(keys), WithCopies(SmallParams(dtype)), 2) {
    std::mt19937_64 random(1);
    for (Tensors& tensor : tensors) {
      tensor.separate = true;
      for (Array* array : {&tensor.w, &tensor.g, &tensor.out, &tensor.copy}) array->Fill(random);
    }
  }

  shampoo_optimizer* get() const { return optimizer; }
  void FillGradients(uint64_t seed) {
    std::mt19937_64 random(seed);
    Host::FillGradients(random);
  }
  // Returns all arrays, states and statistics that a step may write.
  std::vector<std::vector<char>> Everything() const {
    std::vector<std::vector<char>> all = Host::Everything();
    for (const char* const key : {"steps", "root_computed", "root_reused"}) {
      const std::string value = Text(Stat(key));
      all.emplace_back(value.begin(), value.end());
    }
    return all;
  }

 private:
  static std::vector<shampoo_param_desc> WithCopies(std::vector<shampoo_param_desc> params) {
    for (shampoo_param_desc& param : params) param.copy_dtype = param.param_dtype;
    return params;
  }
};

struct BoundModel : SmallModel {
  explicit BoundModel(const Keys& keys = {}, int32_t dtype = SHAMPOO_F32) : SmallModel(keys, dtype) { Bind(); }
};

// Checks that a step fails with this status and with an error that contains these words, and changes nothing.
inline void CheckStepFails(BoundModel* model, shampoo_status status, std::initializer_list<std::string> words) {
  const auto before = model->Everything();
  CHECK_ERROR(model->TryStep(), status, words);
  CHECK(std::string(shampoo_optimizer_error(model->get())) == shampoo_last_error());
  CHECK(model->Everything() == before);
}

}  // namespace shampoo_test
