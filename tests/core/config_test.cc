// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/config.h"

#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/config/defaults.h"
#include "core/config/option_text.h"
#include "tests/core/plan_test_util.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

TEST_CASE("every row of the key table is complete and has a valid default") {
  std::set<std::string> names;
  for (const Key& key : Keys()) {
    CAPTURE(std::string(key.name));
    CHECK(names.insert(key.name).second);
    CHECK(std::string(key.doc).size() > 20);
    CHECK(!RangeText(key).empty());
    Value value;
    CHECK(ParseValue(key, key.default_text, &value).ok());
    CHECK(value.text == key.default_text);
    CHECK((key.type != KeyType::kF64 || key.number != nullptr));
    CHECK((key.type != KeyType::kI64 || key.integer != nullptr));
    CHECK((key.type != KeyType::kBool || key.flag != nullptr));
    CHECK((key.type != KeyType::kDtype || key.dtype != nullptr));
    CHECK((!key.changeable || key.number != nullptr));
  }
}

// Resolves a config with these keys, such as "method=soap lr=0.1".
Status Resolve(const std::string& keys, Settings* settings) {
  Config config;
  CheckOk(SetFromOptionText(keys.c_str(), &config));
  return config.Resolve(settings);
}

Settings Resolved(const std::string& keys) {
  Settings settings;
  CheckOk(Resolve(keys, &settings));
  return settings;
}

void CheckRejected(const std::string& keys, const char* says) {
  CAPTURE(keys);
  Settings settings;
  CheckError(Resolve(keys, &settings), Code::kInvalid, says);
}

struct Rejected {
  const char* keys;
  const char* says;
};

// Checks that settings have these values, such as "lr=0.1 use_nesterov=1". The value of a flag is 0 or 1.
void CheckValues(const Settings& settings, const std::string& expected) {
  std::istringstream pairs(expected);
  for (std::string pair; pairs >> pair;) {
    CAPTURE(pair);
    const size_t name_end = pair.find('=');
    const Key* const key = FindKey(pair.substr(0, name_end));
    REQUIRE(key != nullptr);
    REQUIRE((key->number != nullptr || key->integer != nullptr || key->flag != nullptr));
    const double value = key->number != nullptr    ? settings.*key->number
                         : key->integer != nullptr ? static_cast<double>(settings.*key->integer)
                                                   : (settings.*key->flag ? 1 : 0);
    CHECK(value == std::stod(pair.substr(name_end + 1)));
  }
}

// CheckValues reads settings through the member pointers in the key table. This test case checks these pointers.
TEST_CASE("the value of each key is stored in the member of Settings that has the same name") {
#define MEMBER(type, name) CHECK(FindKey(#name)->type == &Settings::name)
  MEMBER(number, lr);
  MEMBER(number, beta1);
  MEMBER(number, beta2);
  MEMBER(number, beta3);
  MEMBER(number, epsilon);
  MEMBER(number, root_relative_epsilon);
  MEMBER(number, momentum);
  MEMBER(number, weight_decay);
  MEMBER(number, peak_lr);
  MEMBER(number, refresh_growth);
  MEMBER(number, exponent_multiplier);
  MEMBER(number, shampoo_beta);
  MEMBER(number, relative_epsilon);
  MEMBER(number, kl_init);
  MEMBER(number, kl_cap);
  MEMBER(number, inverse_exponent);
  MEMBER(integer, max_preconditioner_dim);
  MEMBER(integer, merge_min_dim);
  MEMBER(integer, precondition_frequency);
  MEMBER(integer, factor_update_frequency);
  MEMBER(integer, start_preconditioning_step);
  MEMBER(integer, skip_dim_size);
  MEMBER(integer, ns_steps);
  MEMBER(flag, use_nesterov);
  MEMBER(flag, use_merge_dims);
  MEMBER(flag, precondition_1d);
  MEMBER(flag, use_bias_correction);
  MEMBER(flag, allow_stalled_moments);
#undef MEMBER
}

TEST_CASE("the settings have the documented defaults if no key is set") {
  const Settings settings = Resolved("");
  CheckValues(settings,
              "lr=0.001 beta2=0.95 epsilon=0 root_relative_epsilon=3e-4 precondition_frequency=25 refresh_growth=0.1 "
              "start_preconditioning_step=1 use_merge_dims=1 merge_min_dim=32 precondition_1d=0 use_bias_correction=1 "
              "skip_dim_size=0");
  CHECK(settings.RootFor(2) == 2);
  CHECK(!settings.computation_dtype.has_value());
  CHECK(settings.grafting == Grafting::kAdam);
}

TEST_CASE("the preset shampoo_2024 has the defaults of the reference implementation") {
  const Settings settings = Resolved("preset=shampoo_2024");
  CheckValues(settings,
              "lr=0.01 beta1=0.9 beta2=1 epsilon=1e-12 root_relative_epsilon=0 momentum=0 weight_decay=0 "
              "max_preconditioner_dim=1024 use_merge_dims=1 merge_min_dim=0 precondition_1d=1 precondition_frequency=1 "
              "refresh_growth=0 start_preconditioning_step=1 exponent_multiplier=1 use_bias_correction=1 "
              "allow_stalled_moments=1");
  CHECK(settings.RootFor(2) == 4);
  CHECK(settings.grafting == Grafting::kNone);
  CHECK(settings.initial_inverse == InitialInverse::kZero);
}

TEST_CASE("each default that a method or a preset sets is a valid value of a key that the method reads") {
  const auto check = [](Method method, std::span<const Default> defaults) {
    for (const auto& [name, text] : defaults) {
      CAPTURE(std::string(name));
      const Key* const key = FindKey(name);
      REQUIRE(key != nullptr);
      CHECK(Reads(method, *key));
      Value value;
      REQUIRE(ParseValue(*key, text, &value).ok());
      CHECK(value.text == text);
    }
  };
  for (const Preset& preset : Presets()) check(preset.method, preset.defaults);
  CHECK(Presets().size() == FindKey("preset")->choices.size());
  const size_t methods = FindKey("method")->choices.size();
  for (size_t m = 0; m < methods; ++m) check(static_cast<Method>(m), DefaultsOf(static_cast<Method>(m)));
}

TEST_CASE("each elementwise method has its own defaults, and the preset adamw selects method=adam") {
  struct Case {
    const char* method;
    const char* values;
    Grafting grafting;
  };
  for (const auto& [method, values, grafting] :
       {Case{"adam", "beta1=0.9 beta2=0.999 epsilon=1e-8 weight_decay=0", Grafting::kAdam},
        Case{"adagrad", "beta1=0 beta2=1 epsilon=1e-10", Grafting::kAdagrad},
        Case{"rmsprop", "beta2=0.99", Grafting::kRmsprop}, Case{"sgd", "beta1=0", Grafting::kSgd}}) {
    CAPTURE(std::string(method));
    const Settings settings = Resolved(Cat("method=", method));
    CheckValues(settings, values);
    CHECK(settings.grafting == grafting);
  }
  CHECK(Resolved("method=rmsprop epsilon=0").epsilon == 0);

  const Settings adamw = Resolved("preset=adamw");
  CHECK(adamw.method == Method::kAdam);
  CheckValues(adamw, "lr=0.001 weight_decay=0.01");
  // If the key `method` is set to a method that differs from that of the preset, the defaults of the preset have no
  // effect.
  CHECK(Resolved("preset=adamw method=sgd").weight_decay == 0);
  const Settings late = Resolved("method=adam preset=shampoo_2024");
  CHECK(late.method == Method::kAdam);
  CHECK(late.lr == 0.001);
}

TEST_CASE("the methods soap and kl_shampoo, and their presets, have their own defaults") {
  const Settings soap = Resolved("method=soap");
  // -1 means auto: the dtype determines the value of relative_epsilon.
  CheckValues(
      soap, "lr=0.003 beta1=0.95 beta2=0.95 shampoo_beta=0.95 epsilon=1e-12 relative_epsilon=-1 use_bias_correction=1");
  CHECK(soap.factor_correction == FactorTerm::kGradient);
  const Settings kl = Resolved("method=kl_shampoo");
  CheckValues(kl,
              "lr=3e-3 beta1=0.9 beta2=0.98 shampoo_beta=0.98 epsilon=1e-12 relative_epsilon=0 use_bias_correction=0");
  CHECK(kl.factor_correction == FactorTerm::kKl);
  for (const Settings& settings : {soap, kl}) {
    CAPTURE(std::string(NameOf(settings.method)));
    CheckValues(settings,
                "precondition_frequency=10 factor_update_frequency=1 max_preconditioner_dim=2048 skip_dim_size=10000 "
                "use_merge_dims=0 merge_min_dim=0 precondition_1d=0 weight_decay=0 kl_init=-1 kl_cap=-1 "
                "inverse_exponent=0.5 refresh_growth=0");
    CHECK(settings.grafting == Grafting::kNone);
    CHECK(settings.basis_method == BasisMethod::kEigen);
    CHECK(settings.basis_order == BasisOrder::kAfter);
    CHECK(settings.first_step == FirstStep::kSkip);
    CHECK(settings.basis_sort == BasisSort::kBefore);
    CHECK(settings.basis_transport == BasisTransport::kRotate);
    CHECK(settings.basis_init == BasisInit::kEigen);
    CHECK(settings.factor_start == FactorStart::kZero);
    CHECK(settings.kl_eigenvalues == KlEigenvalues::kEma);
    const Settings preset = Resolved(Cat("preset=", NameOf(settings.method)));
    CHECK(preset.method == settings.method);
    CHECK(preset.lr == settings.lr);
  }
}

TEST_CASE("the decay of factor matrices is beta2 unless shampoo_beta is set") {
  CHECK(Resolved("method=soap beta2=0.75").shampoo_beta == 0.75);
  const Settings both = Resolved("method=kl_shampoo shampoo_beta=0.5");
  CHECK(both.shampoo_beta == 0.5);
  CHECK(both.beta2 == 0.98);
}

TEST_CASE("the value 0 turns off kl_cap, relative_epsilon and skip_dim_size") {
  const Settings settings =
      Resolved("method=soap factor_correction=kl kl_init=0.1 kl_cap=0 relative_epsilon=0 skip_dim_size=0");
  CheckValues(settings, "kl_cap=0 relative_epsilon=0 skip_dim_size=0");
  // A value that turns a key off may be set with a method that does not read the key.
  CHECK(Resolved("method=kl_shampoo relative_epsilon=0 grafting=none").relative_epsilon == 0);
}

TEST_CASE(
    "with basis_order=before, the value -1 of start_preconditioning_step means precondition_frequency, and 0 means 1") {
  const auto start_of = [](const char* start) {
    return Resolved(Cat("method=soap basis_order=before start_preconditioning_step=", start))
        .start_preconditioning_step;
  };
  CHECK(start_of("-1") == 10);
  CHECK(start_of("0") == 1);
  CHECK(start_of("3") == 3);
}

TEST_CASE("unsupported combinations with the methods soap and kl_shampoo or with keys of these methods are rejected") {
  const Rejected cases[] = {
      {"method=soap start_preconditioning_step=5",
       "key start_preconditioning_step: the value 5 is not allowed with basis_order=after, which does not read this "
       "key: expected -1, or basis_order=before"},
      {"method=soap basis_init=identity", "key basis_init: the value identity is not allowed with"},
      {"method=soap basis_order=before first_step=use",
       "key first_step: the value use is not allowed with basis_order=before, which does not read this key: expected "
       "skip, or basis_order=after"},
      {"method=soap basis_order=before factor_start=first",
       "key factor_start: the value first is not allowed with basis_order=before"},
      {"method=soap factor_correction=kl kl_eigenvalues=basis",
       "key kl_eigenvalues: the value basis is not allowed with basis_order=after"},
      {"method=kl_shampoo kl_cap=0",
       "key kl_cap: the value 0 is not allowed with kl_init=auto, which lets an eigenvalue be 0: expected a kl_cap "
       "that is auto or above 0, or a kl_init that is a number, such as 0.1"},
      {"method=kl_shampoo kl_eigenvalues=basis", "key kl_eigenvalues: the value basis is not allowed"},
      {"method=kl_shampoo basis_order=before", "key basis_order: the value before is not allowed with"},
      {"method=kl_shampoo first_step=use", "key first_step: the value use is not allowed with method"},
      {"method=kl_shampoo relative_epsilon=0.5", "key relative_epsilon: the value 0.5 is not allowed"},
      {"method=soap grafting=adam", "key grafting: the value adam is not allowed with basis_order=after"},
      {"method=soap root_async=5", "key root_async: the value 5 is not allowed with method=soap"},
      {"basis_method=qr", "key basis_method: the value qr is not allowed with method=shampoo"},
      {"method=soap filtered_grad_dtype=f16",
       "key filtered_grad_dtype: the value f16 is not allowed with method=soap, because a rotation may enlarge "
       "elements beyond the range of f16"},
      {"method=kl_shampoo second_moment_dtype=f16 allow_stalled_moments=true",
       "key second_moment_dtype: the value f16 is not allowed with method=kl_shampoo"},
      {"method=soap second_moment_dtype=bf16 beta2=0.999", "beta2"},
      {"method=soap factor_dtype=bf16 shampoo_beta=0.999", "shampoo_beta"},
      {"method=adam weight_decay_type=decoupled_after",
       "key weight_decay_type: the value decoupled_after is not allowed with method=adam"},
      {"method=soap weight_decay_type=decoupled_after momentum=0.5",
       "key momentum: the value 0.5 is not allowed with weight_decay_type=decoupled_after"},
      {"norm_control=hyperball momentum=0.5",
       "key momentum: the value 0.5 is not allowed with norm_control, update_floor or cautious_decay"},
      {"method=soap norm_control=hyperball weight_decay_type=decoupled_after",
       "key weight_decay_type: the value decoupled_after is not allowed with norm_control or update_floor"},
  };
  for (const auto& [keys, says] : cases) CheckRejected(keys, says);
}

TEST_CASE("the preset shampoo_pinv sets only root_rank_handling and adds no epsilon to factor matrices") {
  Config pinv;
  CheckOk(pinv.SetText("preset", "shampoo_pinv"));
  const Config shampoo;
  for (const Key& key : Keys()) {
    CAPTURE(std::string(key.name));
    std::string expected = shampoo.ValueOf(key).text;
    if (key.name == std::string("preset")) expected = "shampoo_pinv";
    if (key.name == std::string("root_rank_handling")) expected = "pseudo_inverse";
    CHECK(pinv.ValueOf(key).text == expected);
  }
  const Settings settings = Resolved("preset=shampoo_pinv");
  CHECK(settings.root_rank_handling == RankHandling::kPseudoInverse);
  CheckValues(settings, "root_relative_epsilon=0 epsilon=0");
}

TEST_CASE("the presets soap_h and kl_soap_h select method=soap with norm_control=hyperball") {
  const Settings soap = Resolved("preset=soap_h");
  const Settings kl = Resolved("preset=kl_soap_h");
  for (const Settings* const settings : {&soap, &kl}) {
    CHECK(settings->method == Method::kSoap);
    CHECK(settings->norm_control == NormControl::kHyperball);
    CheckValues(*settings, "lr=0.018 beta2=0.9 precondition_frequency=1 use_bias_correction=0");
  }
  CHECK(soap.factor_correction == FactorTerm::kGradient);
  CHECK(kl.factor_correction == FactorTerm::kKl);
}

TEST_CASE("the methods muon and sign, and their presets, have their own defaults") {
  const Settings muon = Resolved("method=muon");
  CheckValues(muon,
              "lr=0.02 peak_lr=0.02 beta1=0.95 beta2=0.95 beta3=-1 epsilon=1e-8 use_nesterov=1 ns_steps=5 "
              "weight_decay=0 start_preconditioning_step=1");
  CHECK(muon.grafting == Grafting::kNone);
  CHECK(muon.shape_scale == ShapeScale::kMuon);
  CHECK(muon.direction_moment == DirectionMoment::kNone);
  CHECK(muon.orthogonalization == Orthogonalization::kNewtonSchulz);
  CHECK(muon.ns_coefficients.count == 5);
  CHECK(muon.ns_coefficients.divisor == 1.02);
  CHECK(muon.Routed().method == Method::kAdam);
  CheckValues(muon.Routed(), "lr=3e-4 peak_lr=3e-4 beta1=0.9 beta2=0.95 epsilon=1e-8");
  const Settings sign = Resolved("method=sign");
  CheckValues(sign, "lr=1e-4 beta1=0.9");
  CHECK(sign.grafting == Grafting::kNone);
  CHECK(sign.shape_scale == ShapeScale::kNone);

  const Settings of_torch = Resolved("preset=muon");
  CHECK(of_torch.method == Method::kMuon);
  CHECK(of_torch.ns_coefficients.count == 1);
  CHECK(of_torch.weight_decay == 0.1);
  const Settings normuon = Resolved("preset=normuon");
  CHECK(normuon.direction_moment == DirectionMoment::kRow);
  CHECK(normuon.shape_scale == ShapeScale::kSpectral);
  CheckValues(normuon, "use_nesterov=0 weight_decay=0.01");
  const Settings muonh = Resolved("preset=muonh");
  CHECK(muonh.norm_control == NormControl::kHyperball);
  CheckValues(muonh, "lr=0.018 ns_steps=12");
  const Settings lion = Resolved("preset=lion");
  CHECK(lion.method == Method::kSign);
  CheckValues(lion, "beta1=0.99 beta3=0.9 weight_decay=0.01");
}

TEST_CASE("unsupported combinations of keys for method muon, method sign, norms or weight decay are rejected") {
  const Rejected cases[] = {
      {"method=sign beta1=0 beta3=0.5",
       "key beta3: the value 0.5 is not allowed with beta1=0, because no average of gradients is then stored: expected "
       "auto, or a beta1 above 0"},
      {"method=muon use_nesterov=true beta3=0.5",
       "key beta3: the value 0.5 is not allowed with use_nesterov=true, which sets beta3 to beta1^2: expected "
       "beta3=auto, or use_nesterov=false"},
      {"method=sign lr=0 weight_decay_type=corrected",
       "key peak_lr: the value auto means lr, which is 0, and peak_lr=0 is not allowed with "
       "weight_decay_type=corrected or weight_decay_type=independent_peak: expected the largest learning rate of the "
       "schedule"},
      {"lr=0 weight_decay_type=independent_peak", "key peak_lr: the value auto means lr, which is 0"},
      {"method=muon lr=0",
       "key peak_lr: the value auto means lr, which is 0, and peak_lr=0 is not allowed with method=muon: expected "
       "the largest learning rate"},
      {"method=muon start_preconditioning_step=3",
       "key start_preconditioning_step: the value 3 is not allowed with method=muon and grafting=none, because earlier "
       "steps would use the update of the grafting method: expected at most 1, or another value of grafting"},
      {"method=sign start_preconditioning_step=2",
       "key start_preconditioning_step: the value 2 is not allowed with method=sign and grafting=none"},
      {"method=muon dual_norm_scale=true second_moment=row",
       "key dual_norm_scale: the value true is not allowed with second_moment, which changes the length that "
       "dual_norm_scale scales: expected false, or second_moment=none"},
      {"method=muon momentum=0.5",
       "key momentum: the value 0.5 is not allowed with method=muon, which does not read this key: expected this key "
       "only with method shampoo, soap, kl_shampoo, adam, adagrad, rmsprop, sgd, sign; leave the key out"},
      {"method=sign momentum=0.5 cautious_decay=true",
       "key momentum: the value 0.5 is not allowed with norm_control, update_floor or cautious_decay"},
      {"method=sgd momentum=0.5 update_floor=0.5",
       "key momentum: the value 0.5 is not allowed with norm_control, update_floor or cautious_decay"},
      {"method=sgd momentum=0.5 norm_control=radial",
       "expected momentum=0, or norm_control=none, update_floor=0 and cautious_decay=false"},
      {"weight_decay_type=independent momentum=0.5",
       "key momentum: the value 0.5 is not allowed with weight_decay_type=independent"},
      {"method=sign momentum=0.5 weight_decay_type=independent",
       "key momentum: the value 0.5 is not allowed with weight_decay_type=independent"},
      {"method=muon weight_decay_type=coupled cautious_decay=true",
       "key weight_decay_type: the value coupled is not allowed with cautious_decay: expected another "
       "weight_decay_type, such as decoupled"},
      {"method=soap weight_decay_type=decoupled_after cautious_decay=true",
       "key weight_decay_type: the value decoupled_after is not allowed with cautious_decay: expected another "
       "weight_decay_type, such as decoupled"},
      {"method=soap weight_decay_type=decoupled_after update_floor=1",
       "key weight_decay_type: the value decoupled_after is not allowed with norm_control or update_floor"},
      {"method=muon weight_decay_type=decoupled_after",
       "key weight_decay_type: the value decoupled_after is not allowed with method=muon: expected decoupled"},
      {"method=sign weight_decay_type=decoupled_after",
       "key weight_decay_type: the value decoupled_after is not allowed with method=sign"},
      {"method=muon second_moment=element second_moment_dtype=bf16 beta2=0.999",
       "keys second_moment_dtype and beta2: the values bf16 and 0.999 are not allowed together"},
      {"method=muon second_moment_dtype=bf16 adam_beta2=0.999",
       "keys second_moment_dtype and adam_beta2: the values bf16 and 0.999 are not allowed together"},
      {"method=muon grafting=adam grafting_dtype=bf16 adam_beta2=0.5", "keys grafting_dtype and grafting_beta2"},
      {"method=sign second_moment=row",
       "key second_moment: the value row is not allowed with method=sign, which does not read this key: expected this "
       "key only with method muon; leave the key out"},
      {"method=sign route=off", "key route: the value off is not allowed with method=sign"},
      {"method=sgd dual_norm_scale=true", "expected this key only with method muon, sign; leave the key out"},
      {"method=adam adam_lr=0.5", "key adam_lr: the value 0.5 is not allowed with method=adam"},
      {"ns_coefficients=jordan", "key ns_coefficients: the value jordan is not allowed with method=shampoo"},
      {"method=soap beta3=0.5", "key beta3: the value 0.5 is not allowed with method=soap"},
      {"method=muon precondition_1d=true", "key precondition_1d: the value true is not allowed with"},
  };
  for (const auto& [keys, says] : cases) CheckRejected(keys, says);
}

TEST_CASE("combinations of keys that resemble rejected combinations are accepted") {
  CHECK(Resolved("weight_decay_type=independent").momentum == 0);
  CHECK(Resolved("weight_decay_type=palm momentum=0.5").momentum == 0.5);
  CHECK(Resolved("method=muon use_nesterov=false beta3=0.5").beta3 == 0.5);
  CHECK(Resolved("method=muon beta3=0.5").beta3 == 0.5);  // allowed, because use_nesterov=true is only the default
  CHECK(Resolved("method=muon lr=0 peak_lr=0.5").peak_lr == 0.5);
  CHECK(Resolved("method=muon lr=0 route=off").lr == 0);
  CHECK(Resolved("method=sign lr=0 weight_decay_type=independent").lr == 0);
  CHECK(Resolved("method=sign grafting=adam start_preconditioning_step=3").start_preconditioning_step == 3);
  CHECK(Resolved("method=sign momentum=0.5 weight_decay_type=corrected").momentum == 0.5);
  CHECK(Resolved("method=muon weight_decay_type=coupled norm_control=radial").norm_control == NormControl::kRadial);
  // With second_moment=row, the second moments are means of rows, to which second_moment_dtype does not apply.
  CHECK(Resolved("method=muon second_moment=row second_moment_dtype=bf16 beta2=0.999").beta2 == 0.999);
}

TEST_CASE("a factor_dtype whose rounding undoes the decay is rejected even with state_rounding=stochastic") {
  for (const char* const rounding : {"nearest", "stochastic"}) {
    CheckRejected(
        Cat("factor_dtype=bf16 beta2=0.999 state_rounding=", rounding),
        "keys factor_dtype and beta2: the values bf16 and 0.999 are not allowed together, because rounding would undo "
        "every decay of the factor matrices: expected beta2 of at most 0.99609375, or factor_dtype=f32");
  }
}

TEST_CASE("a key that the method does not read is an error unless its value was copied from another config") {
  Config config;
  CheckOk(config.SetText("grafting", "sgd"));
  CheckOk(config.SetText("root_async", "0"));  // the default
  Settings settings;
  CheckOk(config.Resolve(&settings));
  CheckOk(config.SetText("method", "adam"));
  CheckError(config.Resolve(&settings), Code::kInvalid,
             "key grafting: the value sgd is not allowed with method=adam, which does not read this key: expected this "
             "key only with method shampoo, soap, muon, sign; leave the key out");
  config.MarkInherited();
  CheckOk(config.Resolve(&settings));
  CHECK(settings.grafting == Grafting::kAdam);
  CheckOk(config.SetText("grafting_dtype", "bf16"));
  CheckError(config.Resolve(&settings), Code::kInvalid, "key grafting_dtype: the value bf16");
  Config of_shampoo;
  CheckOk(of_shampoo.SetText("second_moment_dtype", "bf16"));
  CheckError(of_shampoo.Resolve(&settings), Code::kInvalid,
             "expected this key only with method soap, kl_shampoo, muon, adam, adagrad, rmsprop");
}

TEST_CASE(
    "keys that are set before or after a preset take precedence over it, and a second, different preset is rejected") {
  for (const bool preset_first : {true, false}) {
    Config config;
    if (preset_first) REQUIRE(config.SetText("preset", "shampoo_2024").ok());
    REQUIRE(config.SetNumber("beta2", 0.5).ok());
    if (!preset_first) REQUIRE(config.SetText("preset", "shampoo_2024").ok());
    CHECK(*config.Text("beta2") == "0.5");
    CHECK(*config.Text("lr") == "0.01");
    CHECK(config.SetText("preset", "shampoo_2024").ok());
    CheckError(config.SetText("preset", "shampoo"), Code::kInvalid,
               "shampoo is not allowed, because this config already has preset=shampoo_2024");
    CHECK(*config.Text("preset") == "shampoo_2024");
    CHECK(*config.Text("lr") == "0.01");
  }
}

TEST_CASE(
    "if epsilon or root_relative_epsilon is set, the default of the other is 0, and values above 0 for both are "
    "rejected") {
  CHECK(Resolved("epsilon=1e-6").root_relative_epsilon == 0);
  CHECK(Resolved("epsilon=1e-6").epsilon == 1e-6);
  CHECK(Resolved("root_relative_epsilon=1e-3").root_relative_epsilon == 1e-3);
  const Settings of_preset = Resolved("preset=shampoo_2024 root_relative_epsilon=1e-3");
  CHECK(of_preset.epsilon == 0);
  CHECK(of_preset.root_relative_epsilon == 1e-3);
  CHECK(Resolved("epsilon=1e-6 root_relative_epsilon=0").epsilon == 1e-6);
  CHECK(Resolved("root_rank_handling=pseudo_inverse").root_relative_epsilon == 0);
  CheckRejected("epsilon=1e-6 root_relative_epsilon=1e-3", "1e-06 and 0.001 are both set");
}

TEST_CASE("start_preconditioning_step is 1 by default if refresh_growth is above 0") {
  const auto start_of = [](const char* start) {
    return Resolved(Cat("precondition_frequency=50 start_preconditioning_step=", start)).start_preconditioning_step;
  };
  CHECK(start_of("-1") == 1);
  CHECK(start_of("7") == 7);
  CHECK(start_of("0") == 1);
}

TEST_CASE("a 16-bit dtype in which a second moment or factor matrix could never decrease is rejected by default") {
  struct Moments {
    const char* dtype_key;
    const char* decay_key;
    const char* dtype;
    const char* decay;
    bool is_allowed;
  };
  for (const auto& [dtype_key, decay_key, dtype, decay, is_allowed] :
       {Moments{"grafting_dtype", "grafting_beta2", "bf16", "0.999", false},
        {"grafting_dtype", "grafting_beta2", "bf16", "0.99", true},
        {"grafting_dtype", "grafting_beta2", "f16", "0.999", true},
        {"grafting_dtype", "grafting_beta2", "f16", "0.9999", false},
        {"grafting_dtype", "grafting_beta2", "bf16", "1", true},
        {"factor_dtype", "beta2", "bf16", "0.997", false},
        {"factor_dtype", "beta2", "bf16", "0.99609375", true},
        {"factor_dtype", "beta2", "f32", "0.9999", true},
        {"second_moment_dtype", "beta2", "bf16", "0.999", false},
        {"second_moment_dtype", "beta2", "bf16", "0.95", true}}) {
    for (const bool allows : {false, true}) {
      CAPTURE(std::string(dtype_key));
      CAPTURE(std::string(dtype));
      CAPTURE(std::string(decay));
      CAPTURE(allows);
      const char* const method = std::string(dtype_key) == "second_moment_dtype" ? "adam" : "shampoo";
      Settings settings;
      const Status status = Resolve(Cat("method=", method, " ", dtype_key, "=", dtype, " ", decay_key, "=", decay,
                                        " allow_stalled_moments=", allows ? "true" : "false"),
                                    &settings);
      CHECK(status.ok() == (is_allowed || allows));
      if (!status.ok()) CHECK(status.message().find(decay_key) != std::string::npos);
    }
  }
}

TEST_CASE("the defaults of grafting_beta2 and grafting_epsilon depend on the grafting method") {
  struct Expected {
    const char* grafting;
    double beta2;
    double epsilon;
  };
  for (const auto& [grafting, beta2, epsilon] :
       {Expected{"rmsprop", 0.99, 1e-8}, {"adam", 0.999, 1e-8}, {"adagrad", 1.0, 1e-10}}) {
    const Settings settings = Resolved(Cat("grafting=", grafting));
    CHECK(settings.grafting_beta2 == beta2);
    CHECK(settings.grafting_epsilon == epsilon);
    CHECK(Resolved(Cat("grafting_epsilon=1e-3 grafting=", grafting)).grafting_epsilon == 1e-3);
  }
}

TEST_CASE(
    "if refresh_growth is 0, start_preconditioning_step defaults to precondition_frequency and must not be below it") {
  Config config;
  Settings settings;
  REQUIRE(config.SetNumber("refresh_growth", 0).ok());
  REQUIRE(config.SetInteger("precondition_frequency", 5).ok());
  REQUIRE(config.Resolve(&settings).ok());
  CHECK(settings.start_preconditioning_step == 5);
  for (int64_t start : {0, 4}) {
    REQUIRE(config.SetInteger("start_preconditioning_step", start).ok());
    CheckError(config.Resolve(&settings), Code::kInvalid, "precondition_frequency is 5");
  }
  REQUIRE(config.SetInteger("precondition_frequency", 1).ok());
  REQUIRE(config.SetInteger("start_preconditioning_step", 0).ok());
  REQUIRE(config.Resolve(&settings).ok());
  CHECK(settings.start_preconditioning_step == 1);
}

// If a list contains 0 for an order, the reference implementation uses 0 as the root, and its computation of the
// inverse root then fails. In libshampoo, 0 selects the root 2 * order. Order 0 is not checked, because every block has
// at least order 1.
TEST_CASE("the root that inverse_root_override selects for each order agrees with the reference implementation") {
  int checked = 0;
  for (const auto& entry : plan_test::GoldenEntries("inverse_roots")) {
    Settings settings;
    if (entry.at("inv_root_override").is_number()) {
      settings.inverse_root_override = {entry.at("inv_root_override").get<int64_t>()};
    } else {
      settings.inverse_root_override = entry.at("inv_root_override").get<std::vector<int64_t>>();
      if (settings.inverse_root_override.size() < 2)
        settings.inverse_root_override = {0};  // a shorter list has a root for order 0 only, which has no effect
    }
    for (size_t i = 0; i < entry.at("orders").size(); ++i) {
      const int order = entry.at("orders")[i].get<int>();
      const auto root = entry.at("roots")[i].get<int64_t>();
      if (order == 0) continue;
      CHECK(settings.RootFor(order) == (root == 0 ? 2 * order : root));
      ++checked;
    }
  }
  CHECK(checked == 22);
}

TEST_CASE("ParseList accepts blanks in a list, and ParseValue returns the list in a canonical form") {
  const Key& key = *FindKey("inverse_root_override");
  std::vector<int64_t> elements;
  REQUIRE(ParseList(key, "0, 2,4", &elements).ok());
  CHECK(elements == std::vector<int64_t>{0, 2, 4});
  Value value;
  REQUIRE(ParseValue(key, " 0, 2 ,4", &value).ok());
  CHECK(value.text == "0,2,4");
  for (const char* wrong : {"", ",", "1,", "1,,2", "1,-2", "1.5", "a", "1 2", "99999999999999999999"}) {
    CAPTURE(std::string(wrong));
    CHECK(!ParseValue(key, wrong, &value).ok());
  }
}

}  // namespace
}  // namespace shampoo
