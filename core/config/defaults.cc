// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/defaults.h"

#include <string_view>

namespace shampoo {
namespace {

// The defaults in the code of the authors of SOAP and KL-Shampoo, with two exceptions. Blocks are smaller, because the
// eigendecomposition of a 4096 x 4096 matrix takes seconds on a CPU. The learning rate of KL-Shampoo differs, because
// kl_init=auto changes the length of the steps. resolve.cc sets the default of epsilon.
constexpr Default kSoapDefaults[] = {{"lr", "0.003"},
                                     {"grafting", "none"},
                                     {"beta1", "0.95"},
                                     {"use_merge_dims", "false"},
                                     {"merge_min_dim", "0"},
                                     {"max_preconditioner_dim", "2048"},
                                     {"skip_dim_size", "10000"},
                                     {"precondition_frequency", "10"}};
constexpr Default kKlShampooDefaults[] = {{"lr", "0.003"},
                                          {"beta2", "0.98"},
                                          {"use_bias_correction", "false"},
                                          {"use_merge_dims", "false"},
                                          {"merge_min_dim", "0"},
                                          {"max_preconditioner_dim", "2048"},
                                          {"skip_dim_size", "10000"},
                                          {"precondition_frequency", "10"}};
constexpr Default kAdam[] = {{"beta2", "0.999"}};
constexpr Default kAdagrad[] = {{"beta1", "0"}};
constexpr Default kRmsprop[] = {{"beta1", "0"}, {"beta2", "0.99"}};
constexpr Default kSgd[] = {{"beta1", "0"}};
constexpr Default kMuonMethod[] = {
    {"lr", "0.02"}, {"grafting", "none"}, {"beta1", "0.95"}, {"use_nesterov", "true"}, {"shape_scale", "muon"}};
constexpr Default kSignMethod[] = {{"lr", "1e-04"}, {"grafting", "none"}};

constexpr Default kShampoo2024[] = {
    {"lr", "0.01"},
    {"beta1", "0.9"},
    {"beta2", "1"},
    {"epsilon", "1e-12"},
    {"root_relative_epsilon", "0"},
    {"use_merge_dims", "true"},
    {"merge_min_dim", "0"},
    {"precondition_1d", "true"},
    {"precondition_frequency", "1"},
    {"refresh_growth", "0"},
    {"inverse_root_override", "0"},
    {"grafting", "none"},
    {"initial_inverse", "zero"},
    {"allow_stalled_moments", "true"},
    {"route", "off"},
};
constexpr Default kShampooPinv[] = {
    {"root_rank_handling", "pseudo_inverse"},
};
// The defaults of torch.optim.AdamW.
constexpr Default kAdamw[] = {{"lr", "0.001"}, {"weight_decay", "0.01"}};

constexpr Default kMuonPreset[] = {{"ns_coefficients", "jordan"}, {"weight_decay", "0.1"}};
// The defaults of NorMuon in microsoft/dion.
constexpr Default kNormuonPreset[] = {{"lr", "0.01"},
                                      {"second_moment", "row"},
                                      {"shape_scale", "spectral"},
                                      {"use_nesterov", "false"},
                                      {"weight_decay", "0.01"}};
constexpr Default kMuonhPreset[] = {
    {"lr", "0.018"}, {"norm_control", "hyperball"}, {"ns_coefficients", "2,-1.5,0.5"}, {"ns_steps", "12"}};
// The defaults of Lion (arXiv 2302.06675) with the weight decay of microsoft/dion.
constexpr Default kLionPreset[] = {{"beta1", "0.99"}, {"beta3", "0.9"}, {"weight_decay", "0.01"}};

// SOAP with norm_control=hyperball, as in KellerJordan/modded-nanogpt.
constexpr Default kSoapHPreset[] = {{"lr", "0.018"},
                                    {"beta1", "0.95"},
                                    {"beta2", "0.9"},
                                    {"use_bias_correction", "false"},
                                    {"precondition_frequency", "1"},
                                    {"norm_control", "hyperball"}};
constexpr Default kKlSoapHPreset[] = {{"lr", "0.018"},
                                      {"beta1", "0.95"},
                                      {"beta2", "0.9"},
                                      {"use_bias_correction", "false"},
                                      {"precondition_frequency", "1"},
                                      {"norm_control", "hyperball"},
                                      {"factor_correction", "kl"}};

constexpr Preset kPresets[] = {
    {"shampoo", Method::kShampoo, {}},
    {"shampoo_2024", Method::kShampoo, kShampoo2024},
    {"shampoo_pinv", Method::kShampoo, kShampooPinv},
    {"adamw", Method::kAdam, kAdamw},
    {"soap", Method::kSoap, {}},
    {"soap_h", Method::kSoap, kSoapHPreset},
    {"kl_soap_h", Method::kSoap, kKlSoapHPreset},
    {"kl_shampoo", Method::kKlShampoo, {}},
    {"muon", Method::kMuon, kMuonPreset},
    {"normuon", Method::kMuon, kNormuonPreset},
    {"muonh", Method::kMuon, kMuonhPreset},
    {"lion", Method::kSign, kLionPreset},
};

const char* Find(std::span<const Default> defaults, std::string_view key) {
  for (const Default& one : defaults) {
    if (one.key == key) return one.text;
  }
  return nullptr;
}

}  // namespace

std::span<const Preset> Presets() { return kPresets; }

std::span<const Default> DefaultsOf(Method method) {
  switch (method) {
    case Method::kSoap:
      return kSoapDefaults;
    case Method::kKlShampoo:
      return kKlShampooDefaults;
    case Method::kAdam:
      return kAdam;
    case Method::kAdagrad:
      return kAdagrad;
    case Method::kRmsprop:
      return kRmsprop;
    case Method::kSgd:
      return kSgd;
    case Method::kMuon:
      return kMuonMethod;
    case Method::kSign:
      return kSignMethod;
    case Method::kShampoo:
      break;
  }
  return {};
}

const char* DefaultText(const Key& key, const Preset& preset, Method method) {
  const char* text = method == preset.method ? Find(preset.defaults, key.name) : nullptr;
  if (text == nullptr) text = Find(DefaultsOf(method), key.name);
  return text != nullptr ? text : key.default_text;
}

}  // namespace shampoo
