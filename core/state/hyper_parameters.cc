// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/state/hyper_parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/base/amount.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/config/keys.h"

namespace shampoo {
namespace {

std::string ChangeableKeys() {
  std::string names;
  for (const Key& key : Keys()) {
    if (key.changeable) names += Cat(names.empty() ? "" : ", ", key.name);
  }
  return names;
}

// Checks a new value of epsilon or root_relative_epsilon in a group with method shampoo. With
// root_rank_handling=pseudo_inverse, neither key is in use, and both must stay 0. Otherwise the plan determines which
// of the two keys is in use. That key can be changed to another value above 0, and the other key must stay 0.
Status CheckEpsilon(const Settings& settings, const Key& key, double value) {
  if (settings.method != Method::kShampoo) return {};
  const bool is_relative = key.number == &Settings::root_relative_epsilon;
  if (!is_relative && key.number != &Settings::epsilon) return {};
  const bool pseudo_inverse = settings.root_rank_handling == RankHandling::kPseudoInverse;
  const bool is_in_use = !pseudo_inverse && is_relative == (settings.root_relative_epsilon > 0);
  if (is_in_use == (value > 0)) return {};
  const char* const used = pseudo_inverse                       ? "root_rank_handling=pseudo_inverse"
                           : settings.root_relative_epsilon > 0 ? "root_relative_epsilon"
                                                                : "epsilon";
  return Invalid("key ", key.name, ": the value ", value, " is not allowed while ", used, " is in use: expected ",
                 is_in_use ? "> 0"
                           : Cat("0; to use ", key.name, " instead, make a new plan with a config that sets ", key.name,
                                 ", but not ", used));
}

// If the key is beta1 or momentum, checks that the plan has a state for this key.
Status CheckHasState(const Settings& planned, const Key& key) {
  const bool has_state = key.number == &Settings::beta1 || key.number == &Settings::momentum;
  if (!has_state || planned.*key.number != 0) return {};
  return WrongState("key ", key.name,
                    " was 0 when the plan was made, so there is no state for it: make the plan with a value above 0, "
                    "and set the key of the optimizer to 0 until you need another value");
}

}  // namespace

double BoundScalar::Read() const {
  if (dtype == Dtype::kF64) {
    double number;
    std::memcpy(&number, value, sizeof number);
    return number;
  }
  float number;
  std::memcpy(&number, value, sizeof number);
  return static_cast<double>(number);
}

HyperParameters::HyperParameters(const PlanData& plan, size_t scalar_alignment)
    : plan_(plan), scalar_alignment_(scalar_alignment) {
  for (const Settings& settings : plan.groups) groups_.emplace_back().settings = settings;
  for (const Block& block : plan.blocks) {
    if (block.computation == Dtype::kF32) groups_[static_cast<size_t>(block.group)].narrowest = Dtype::kF32;
  }
}

GroupSettings HyperParameters::InForce(size_t group) const {
  const Group& of = groups_[group];
  GroupSettings settings = of.settings;
  for (int key = 0; key < kBindableKeys; ++key) {
    const BoundScalar& scalar = of.bound[static_cast<size_t>(key)];
    if (scalar.value != nullptr) settings.*BindableField(key) = scalar.Read();
  }
  return settings;
}

Status HyperParameters::CheckGroup(int group) const {
  const int groups = static_cast<int>(groups_.size());
  if (group >= 0 && group < groups) return {};
  return Invalid("group is ", group, ": expected ", IndicesText(groups));
}

Status HyperParameters::Set(int group, const char* name, double value, bool* roots_depend_on_it) {
  *roots_depend_on_it = false;
  SHAMPOO_RETURN_IF_ERROR(CheckGroup(group));
  if (name == nullptr) return Invalid("key is NULL: expected one of ", ChangeableKeys());
  const Key* key = FindKey(name);
  if (key == nullptr || !key->changeable) {
    return Invalid("key \"", name, "\" ", key == nullptr ? "does not exist" : "is fixed once the optimizer is made",
                   ": expected one of ", ChangeableKeys());
  }
  SHAMPOO_RETURN_IF_ERROR(CheckNumber(*key, value));
  Settings& settings = groups_[static_cast<size_t>(group)].settings;
  if (!Reads(settings.method, *key)) return RejectUnread(settings.method, *key, Cat(value));
  const Settings& planned = plan_.groups[static_cast<size_t>(group)];
  SHAMPOO_RETURN_IF_ERROR(CheckEpsilon(settings, *key, value));
  if (value != 0) SHAMPOO_RETURN_IF_ERROR(CheckHasState(planned, *key));
  if (key->number == &Settings::grafting_beta2 && settings.grafting == Grafting::kAdagrad && value != 1) {
    return Invalid("key grafting_beta2: the value ", value,
                   " is not allowed with grafting=adagrad, whose second moment is an unweighted sum: expected 1; for a "
                   "decaying average, create the optimizer with grafting=rmsprop");
  }
  if (key->arithmetic)
    SHAMPOO_RETURN_IF_ERROR(CheckArithmetic(*key, value, groups_[static_cast<size_t>(group)].narrowest));
  if (key->number == &Settings::beta2 || key->number == &Settings::grafting_beta2 ||
      key->number == &Settings::shampoo_beta) {
    Settings changed = settings;
    changed.*key->number = value;
    SHAMPOO_RETURN_IF_ERROR(changed.CheckMoments());
  }
  const bool of_roots = key->number == &Settings::epsilon || key->number == &Settings::root_relative_epsilon ||
                        key->number == &Settings::beta2;
  *roots_depend_on_it = of_roots && settings.*key->number != value;
  settings.*key->number = value;
  return {};
}

Status HyperParameters::Get(int group, const char* name, double* value) const {
  SHAMPOO_RETURN_IF_ERROR(CheckGroup(group));
  if (name == nullptr) return Invalid("key is NULL: expected the name of a key");
  const Key* key = FindKey(name);
  if (key == nullptr) return Invalid("there is no key \"", name, "\"; docs/keys.md lists all keys");
  // Keys of the whole optimizer are set in the config of the plan, which is also the config of group 0.
  const Settings& settings = groups_[key->scope == Scope::kOptimizer ? 0 : static_cast<size_t>(group)].settings;
  if (key->number == &Settings::root_rank_rtol && settings.root_rank_rtol < 0) {
    return Invalid(
        "key root_rank_rtol is auto, which has no single value: for each matrix, the value is the size of the matrix "
        "times the machine epsilon of root_dtype; shampoo_config_get returns \"auto\"");
  }
  const bool differs_by_block = (key->number == &Settings::relative_epsilon || key->number == &Settings::kl_cap ||
                                 key->number == &Settings::kl_init) &&
                                settings.*key->number < 0;
  const bool is_unread_auto = !Reads(settings.method, *key) && std::string_view(key->default_text) == "auto";
  if (key->number != nullptr && (differs_by_block || is_unread_auto)) {
    return Invalid(
        "key ", name, " is auto",
        is_unread_auto
            ? Cat(", and has no value, because method ", NameOf(settings.method), " does not read the key")
            : ", which has no single value: it depends on the dtype, the size or the gradients of each block",
        "; shampoo_config_get returns \"auto\"");
  }
  if (key->number != nullptr) {
    *value = settings.*key->number;
  } else if (key->integer == &Settings::threads) {
    *value = static_cast<double>(plan_.threads);  // the plan has replaced 0 by the number of usable CPUs
  } else if (key->integer != nullptr) {
    *value = static_cast<double>(settings.*key->integer);
  } else if (key->flag != nullptr) {
    *value = settings.*key->flag ? 1 : 0;
  } else {
    return Invalid("key ", name, " is of type ", TypeName(key->type),
                   ", which is not a number: read it from the config "
                   "with shampoo_config_get");
  }
  return {};
}

Status HyperParameters::Bind(int group, const char* name, int dtype, const void* value) {
  SHAMPOO_RETURN_IF_ERROR(CheckGroup(group));
  if (name == nullptr) return Invalid("key is NULL: expected ", kBindableNames);
  const int number = BindableKey(name);
  if (number < 0) return Invalid("key is \"", name, "\": expected ", kBindableNames);
  BoundScalar& scalar = groups_[static_cast<size_t>(group)].bound[static_cast<size_t>(number)];
  if (value == nullptr) {
    scalar = {};
    return {};
  }
  SHAMPOO_RETURN_IF_ERROR(CheckHasState(plan_.groups[static_cast<size_t>(group)], *FindKey(name)));
  if (dtype != static_cast<int>(Dtype::kF32) && dtype != static_cast<int>(Dtype::kF64)) {
    return Invalid("dtype is ", dtype, ": expected SHAMPOO_F32 (1) or SHAMPOO_F64 (2)");
  }
  const size_t alignment = std::min(scalar_alignment_, SizeOf(static_cast<Dtype>(dtype)));
  if (reinterpret_cast<uintptr_t>(value) % alignment != 0) {
    return Invalid("value is not aligned: expected an address that is a multiple of ", alignment,
                   ", because the optimizer is on a GPU");
  }
  scalar = {value, static_cast<Dtype>(dtype)};
  return {};
}

Status HyperParameters::CheckScalar(const Group& group, const char* name, double value) const {
  const Key& key = *FindKey(name);
  SHAMPOO_RETURN_IF_ERROR(CheckNumber(key, value));
  return key.arithmetic ? CheckArithmetic(key, value, group.narrowest) : Status();
}

Status HyperParameters::CheckBoundScalars() const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    Status status;
    for (int key = 0; key < kBindableKeys && status.ok(); ++key) {
      const BoundScalar& scalar = group.bound[static_cast<size_t>(key)];
      if (scalar.value != nullptr) status = CheckScalar(group, BindableName(key), scalar.Read());
    }
    if (!status.ok()) return std::move(status).Within(Cat("the scalar bound to group ", g));
  }
  return {};
}

Status HyperParameters::RejectScalar(size_t group, const char* name, double value) const {
  Status status = CheckScalar(groups_[group], name, value);
  if (status.ok()) status = Internal("the CUDA backend rejected the value ", value, " of ", name);
  return std::move(status).Within(Cat("the scalar bound to group ", group));
}

void HyperParameters::StoreBoundScalars() {
  for (size_t g = 0; g < groups_.size(); ++g) static_cast<GroupSettings&>(groups_[g].settings) = InForce(g);
}

uint64_t HyperParameters::Hash(bool reads_bound_scalars) const {
  uint64_t hash = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupSettings in_force = reads_bound_scalars ? InForce(g) : GroupSettings(groups_[g].settings);
    for (const Key& key : Keys()) {
      if (!key.changeable || key.number == nullptr) continue;
      double value = groups_[g].settings.*key.number;
      const int number = BindableKey(key.name);
      if (number >= 0) value = in_force.*BindableField(number);
      hash = HashBytes(&value, sizeof value, hash);
    }
  }
  return hash;
}

}  // namespace shampoo
