// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <shampoo/shampoo.h>

#include <iostream>
#include <stdexcept>
#include <string>

#include "tests/golden/case_config.h"
#include "tests/golden/suites.h"

namespace shampoo::golden {

TensorFile ReplayMatrixRoot(const Case& recorded, int32_t threads) {
  const nlohmann::json& settings = recorded.settings;
  const auto method = settings.at("method").get<std::string>();
  // A diagonal matrix takes the diagonal shortcut of the eigen method: it is not a method that is asked for.
  if (method != "eigen" && method != "diagonal") {
    throw std::runtime_error("method " + method + ": this tool replays eigen and diagonal");
  }
  Config config;
  config.Set("root_method", "eigen");
  config.Set("epsilon", settings.at("epsilon"));
  config.Set("exponent_multiplier", settings.at("exponent_multiplier"));
  config.Set("threads", threads);

  const Tensor& a = recorded.data.At("A");
  if (a.shape.size() != 2 || a.shape[0] != a.shape[1]) throw std::runtime_error("A is not a square matrix");
  if (a.dtype != DtypeOfParameters(settings.at("dtype").get<std::string>())) {
    throw std::runtime_error("A has the dtype " + a.dtype + ", the case has another");
  }
  Tensor x{a.dtype, a.shape, std::vector<std::byte>(a.bytes.size())};
  shampoo_root_info info = SHAMPOO_ROOT_INFO_INIT;
  TensorFile result;
  try {
    Check(shampoo_matrix_inverse_root(config.Get(), a.shape[0], DtypeCode(a.dtype), a.bytes.data(), x.bytes.data(),
                                      settings.at("root_numerator").get<int32_t>(),
                                      settings.at("root_denominator").get<int32_t>(), &info),
          "shampoo_matrix_inverse_root");
  } catch (const std::exception& error) {
    if (!settings.at("informative").get<bool>()) throw;
    // Such a case only tells what the reference did; to refuse the matrix is an answer.
    std::cout << recorded.path.filename().string() << ": no X (informative case): " << error.what() << "\n";
    return result;
  }
  result.tensors.emplace("X", std::move(x));
  return result;
}

}  // namespace shampoo::golden
