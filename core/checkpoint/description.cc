// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/description.h"

#include <algorithm>
#include <utility>

#include "core/checkpoint/json.h"
#include "core/comm/received.h"
#include "core/config/keys.h"

namespace shampoo {

StoredGroup DescribeHyperParameters(const OptimizerState& optimizer, int group) {
  StoredGroup described;
  const auto g = static_cast<size_t>(group);
  const Settings& settings = optimizer.hyper_parameters().settings(g);
  for (const auto& [name, text] : optimizer.plan().keys[g]) {
    const Key* const key = FindKey(name);
    // Keys of the whole optimizer do not change the meaning of a state, so a load does not compare them.
    if (key->scope == Scope::kOptimizer) continue;
    described.config.emplace_back(name, key->changeable ? Cat(settings.*key->number) : text);
  }
  return described;
}

namespace {

StoredParam DescribeParam(const OptimizerState& optimizer, size_t param) {
  const ParamDesc& desc = optimizer.plan().params[param].desc;
  return {desc.name, desc.shape, desc.param_dtype, desc.group};
}

}  // namespace

Status DescriptionTexts(const OptimizerState& optimizer, int number, std::vector<std::string>* texts) {
  const auto add = [&](const char* what, const std::string& description) {
    texts->push_back(Cat("{\"optimizer\":", number, ",\"", what, "\":", description, "}"));
  };
  // A rank may have no elements of a parameter, and the step counter of the parameter's group may then be too small on
  // that rank. The rank sends the parameter as "empty_param", and Descriptions takes the group from a rank that has
  // elements of the parameter.
  const std::vector<Param>& params = optimizer.plan().params;
  for (size_t g = 0; g < optimizer.plan().groups.size(); ++g) {
    StoredGroup group = DescribeHyperParameters(optimizer, static_cast<int>(g));
    SHAMPOO_RETURN_IF_ERROR(optimizer.ReadSteps(g, &group.step));
    add("group", ToJson(group));
  }
  for (size_t p = 0; p < params.size(); ++p) {
    add(params[p].elements > 0 ? "param" : "empty_param", ToJson(DescribeParam(optimizer, p)));
  }
  return {};
}

void Descriptions::Add(int rank, const std::string& text) {
  if (status_.ok()) status_ = TryToAdd(rank, text);
}

Status Descriptions::TryToAdd(int rank, const std::string& text) {
  const auto unreadable = [rank](const std::string& why) {
    return CommFailed("rank ", rank, " sent an unreadable description of a parameter or a group: ", why,
                      "; expected a valid one", kCheckRanks);
  };
  Json description;
  int64_t optimizer = 0;
  const bool is_json = ParseJson(text, nullptr, &description) && Get(description, "optimizer", &optimizer);
  const Json* const group = description.Find("group");
  const Json* const whole_param = description.Find("param");
  const Json* const any_param = whole_param != nullptr ? whole_param : description.Find("empty_param");
  if (!is_json || (group == nullptr && any_param == nullptr)) {
    return unreadable(Cat("its ", text.size(), " bytes contain neither a parameter nor a group"));
  }
  Source& source = SourceOf(rank, optimizer);
  if (group != nullptr) {
    StoredGroup parsed;
    if (!ParseGroup(*group, &parsed).ok()) return unreadable("a member of the group is missing or invalid");
    const auto known = std::find(groups_.begin(), groups_.end(), parsed);
    source.groups.push_back(static_cast<int>(known - groups_.begin()));
    if (known == groups_.end()) groups_.push_back(std::move(parsed));
    return {};
  }
  StoredParam param;
  if (!ParseParam(*any_param, &param).ok()) return unreadable("a member of the parameter is missing or invalid");
  if (static_cast<size_t>(param.group) >= source.groups.size()) {
    return unreadable(Cat("the parameter is in group ", param.group,
                          ", but the number of groups that the rank sent is ", source.groups.size()));
  }
  return AddParam(source, std::move(param), any_param == whole_param);
}

Descriptions::Source& Descriptions::SourceOf(int rank, int64_t optimizer) {
  const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const Source& source) {
    return source.rank == rank && source.optimizer == optimizer;
  });
  return found != sources_.end() ? *found : sources_.emplace_back(Source{rank, optimizer, {}});
}

Status Descriptions::AddParam(const Source& source, StoredParam param, bool has_elements) {
  param.group = source.groups[static_cast<size_t>(param.group)];
  const auto [place, is_new] = places_.emplace(param.name, params_.size());
  if (is_new) {
    params_.push_back(std::move(param));
    has_elements_.push_back(has_elements);
    return {};
  }
  StoredParam& known = params_[place->second];
  const bool one_is_empty = !has_elements || !has_elements_[place->second];
  const bool same_group = groups_[static_cast<size_t>(known.group)] == groups_[static_cast<size_t>(param.group)];
  if (known.shape == param.shape && known.dtype == param.dtype && (same_group || one_is_empty)) {
    if (has_elements && !has_elements_[place->second]) {
      known.group = param.group;
      has_elements_[place->second] = true;
    }
    return {};
  }
  return Invalid(
      "parameter \"", param.name, "\" is not the same on all ranks: rank ", source.rank,
      " and a lower rank differ in its shape, dtype, step or hyper-parameters; if the ranks use this name for "
      "different parameters, choose different names; otherwise make shape, dtype, step and hyper-parameters equal on "
      "all ranks");
}

}  // namespace shampoo
