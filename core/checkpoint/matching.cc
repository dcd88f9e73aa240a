// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/matching.h"

#include <algorithm>
#include <set>

#include "core/base/amount.h"
#include "core/base/text.h"
#include "core/checkpoint/description.h"
#include "core/config/keys.h"
#include "core/plan/shape.h"

namespace shampoo {
namespace {

constexpr size_t kMaxNamed = 4;  // the largest number of names in an error

// Returns a string such as: "a", "b", "c", "d" and 3 more
std::string Named(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) text += Cat(i > 0 ? ", " : "", "\"", names[i], "\"");
  return names.size() <= kMaxNamed ? text : Cat(text, " and ", names.size() - kMaxNamed, " more");
}

// Returns the position of the last element of a block in the flattened parameter.
int64_t LastOf(const BlockPlace& place) {
  int64_t last = 0;
  const int64_t elements = place.elements();
  ForEachRunOf(place, {elements - 1, elements}, [&last](int64_t, int64_t at, int64_t) { last = at; });
  return last;
}

// Returns the key that decides whether a block has a state, or nullptr if no single key decides this.
const char* KeyOf(const Block& block, std::string_view state) {
  if (state == "filtered_grad") return block.is_routed ? "adam_beta1" : "beta1";
  if (state == "second_moment") return "method";
  if (state == "momentum") return "momentum";
  if (state == "grafting") return "grafting";
  if (state == "direction_moment") return "second_moment";
  if (state == "radius") return "norm_control";
  if (state == "iterate_offset" || state == "lr_sum") return "averaging";
  if (state == "ema_offset") return "weight_ema";
  return state.starts_with("kl_scale") ? "factor_correction" : nullptr;
}

// Returns whether the state belongs to a factor matrix.
bool IsOfFactor(std::string_view state) {
  return state.starts_with("factor") || state.starts_with("inverse") || state.starts_with("basis");
}

// Returns whether each source of a resharded block (ReshardedParam::sources) must have the state, because the block
// loads the state from its sources. Returns false for gradient_count, which is also loaded, but needs no check: with
// the methods that use gradient_count, all saved blocks have it.
bool IsConverted(const StateEntry& state) { return state.elementwise() || state.state() == kLrSum; }

std::string ValueIn(const StoredGroup& group, const char* key) {
  const std::string* const value = group.Value(key);
  return value != nullptr ? *value : "?";
}

// Returns the key that sets the dtype of a state, or nullptr if the state always has the computation dtype.
const char* DtypeKeyOf(const StateEntry& entry) {
  const std::string_view state = entry.state();
  if (state == "filtered_grad") return "filtered_grad_dtype";
  if (state == "momentum") return "momentum_dtype";
  if (state == "grafting") return "grafting_dtype";
  if (state == "second_moment" || (state == kDirectionMoment && entry.elementwise())) return "second_moment_dtype";
  if (state == "iterate_offset" || state == "ema_offset") return "average_dtype";
  if (state.starts_with("factor")) return "factor_dtype";
  return state.starts_with("inverse") ? "inverse_dtype" : nullptr;
}

// Fails if the state direction_moment was saved with another value of the key second_moment. This key selects whether
// the state has one number for each row, for each column or for each element of the matrix.
Status CheckDirectionMoment(const StoredParam& param, const StoredGroup& stored, const StoredGroup& own) {
  const std::string saved = ValueIn(stored, "second_moment");
  const std::string here = ValueIn(own, "second_moment");
  if (saved == here) return {};
  return Invalid("parameter \"", param.name, "\" was saved with second_moment=", saved, ", but second_moment is ", here,
                 " in this optimizer; set second_moment to its saved value");
}

}  // namespace

Matching::Matching(std::span<OptimizerState* const> optimizers) : optimizers_(optimizers) {
  for (OptimizerState* optimizer : optimizers) {
    const PlanData& plan = optimizer->plan();
    for (size_t p = 0; p < plan.params.size(); ++p) {
      own_[plan.params[p].desc.name] = {optimizer, static_cast<int>(p), false};
    }
    for (const Block& block : plan.blocks) {
      if (plan.Owns(block)) own_[plan.param(block).desc.name].has_states = true;
    }
  }
}

bool Matching::Needs(const CheckpointIndex& index, const StoredBlock& block) const {
  const auto own = own_.find(index.params[static_cast<size_t>(block.param)].name);
  return own != own_.end() && own->second.has_states;
}

int64_t Matching::reset_blocks() const {
  int64_t count = 0;
  for (const ReshardedParam& resharded : resharded_) count += static_cast<int64_t>(resharded.blocks.size());
  return count;
}

Status Matching::Match(const CheckpointIndex& index) {
  SHAMPOO_RETURN_IF_ERROR(MatchParams(index));
  SHAMPOO_RETURN_IF_ERROR(IndexBlocks(index));
  for (OptimizerState* optimizer : optimizers_) {
    for (size_t g = 0; g < optimizer->plan().groups.size(); ++g) {
      SHAMPOO_RETURN_IF_ERROR(MatchGroup(index, optimizer, static_cast<int>(g)));
    }
  }
  for (OptimizerState* optimizer : optimizers_) SHAMPOO_RETURN_IF_ERROR(MatchBlocks(index, optimizer));
  // Sort the blocks by file, and within a file in the order of the index.
  std::sort(direct_.begin(), direct_.end(), [](const Direct& a, const Direct& b) {
    return std::pair(a.stored->file, a.stored) < std::pair(b.stored->file, b.stored);
  });
  for (const auto& [state, blocks] : unused_) {
    warnings_.push_back(Cat("the ", state, " of ", CountText(blocks, "block"),
                            " of the checkpoint is not loaded: the optimizer does not use it"));
  }
  return CheckResharded(index);
}

Status Matching::MatchParams(const CheckpointIndex& index) {
  for (size_t i = 0; i < index.params.size(); ++i) stored_params_[index.params[i].name] = static_cast<int>(i);
  std::vector<std::string> missing;
  std::set<std::string_view> renamed;
  std::set<std::vector<int64_t>> shapes;  // the shapes of the missing parameters
  for (const auto& [name, own] : own_) {
    const ParamDesc& desc = own.optimizer->plan().params[static_cast<size_t>(own.param)].desc;
    const auto found = stored_params_.find(name);
    if (found == stored_params_.end()) {
      missing.push_back(name);
      if (!shapes.emplace(desc.shape.View().begin(), desc.shape.View().end()).second) continue;
      for (const StoredParam& stored : index.params) {
        if (stored.shape == desc.shape && !own_.contains(stored.name)) renamed.insert(stored.name);
      }
      continue;
    }
    const StoredParam& stored = index.params[static_cast<size_t>(found->second)];
    if (stored.shape != desc.shape) {
      return Invalid("parameter \"", name, "\" has shape ", ShapeText(desc.shape), " in this optimizer and ",
                     ShapeText(stored.shape), " in the checkpoint: expected equal shapes");
    }
    if (stored.dtype != desc.param_dtype) {
      warnings_.push_back(Cat("parameter \"", name, "\" is ", NameOf(desc.param_dtype), " in this optimizer and ",
                              NameOf(stored.dtype), " in the checkpoint; its states are loaded unchanged"));
    }
  }
  if (missing.empty()) return {};
  return Invalid("the checkpoint does not have ", missing.size(), " of the parameters of this rank: ", Named(missing),
                 renamed.empty()
                     ? std::string()
                     : Cat("; it has parameters that this rank does not use and that have the shape of a missing one: ",
                           Named({renamed.begin(), renamed.end()})),
                 "; parameters are matched by name, so use the names that they were saved with");
}

// Finds the saved step counter of a group of an optimizer. Fails if the parameters of the group were saved at different
// steps.
Status Matching::MatchGroup(const CheckpointIndex& index, OptimizerState* optimizer, int group) {
  const PlanData& plan = optimizer->plan();
  int first_param = -1;
  int first_group = -1;
  std::vector<int> seen;
  for (size_t p = 0; p < plan.params.size(); ++p) {
    const ParamDesc& desc = plan.params[p].desc;
    if (desc.group != group) continue;
    const int stored = index.params[static_cast<size_t>(stored_params_.find(desc.name)->second)].group;
    if (std::find(seen.begin(), seen.end(), stored) != seen.end()) continue;
    seen.push_back(stored);
    const StoredGroup& stored_group = index.groups[static_cast<size_t>(stored)];
    if (first_param < 0) {
      first_param = static_cast<int>(p);
      first_group = stored;
    } else if (stored_group.step != index.groups[static_cast<size_t>(first_group)].step) {
      return Invalid("group ", group, ": parameter \"", plan.params[static_cast<size_t>(first_param)].desc.name,
                     "\" was saved at step ", index.groups[static_cast<size_t>(first_group)].step, " and \"", desc.name,
                     "\" at step ", stored_group.step,
                     ": expected the same step for all parameters of a group; put parameters of different steps into "
                     "different groups");
    }
    SHAMPOO_RETURN_IF_ERROR(CompareConfigs(*optimizer, group, stored_group));
  }
  if (first_group >= 0) {
    steps_.push_back({optimizer, group, index.groups[static_cast<size_t>(first_group)].step});
  }
  return {};
}

// Compares the hyper-parameters of a group with those of a saved group. The optimizer keeps its own values. A
// difference that changes the meaning of a state is an error; other differences are warnings.
Status Matching::CompareConfigs(const OptimizerState& optimizer, int group, const StoredGroup& stored) {
  const StoredGroup own = DescribeHyperParameters(optimizer, group);
  const std::string method = ValueIn(own, "method");
  // Checkpoints without the key method are from versions whose only method was Shampoo.
  const std::string* const stored_method = stored.Value("method");
  const std::string saved_method = stored_method != nullptr ? *stored_method : NameOf(Method::kShampoo);
  if (method != saved_method) {
    return Invalid("group ", group, ": method is ", method,
                   ", but parameters of the group were saved with method=", saved_method,
                   ": the states of these methods are not compatible; set method=", saved_method,
                   " for these parameters, or do not load the checkpoint");
  }
  const std::string grafting = ValueIn(own, "grafting");
  const std::string saved_grafting = ValueIn(stored, "grafting");
  if (grafting != saved_grafting && GraftingHasMoment(grafting) && GraftingHasMoment(saved_grafting)) {
    return Invalid("group ", group, ": grafting is ", grafting,
                   ", but parameters of the group were saved with grafting=", saved_grafting,
                   ": the states of these methods are not compatible; set grafting=", saved_grafting,
                   " for these parameters");
  }
  std::string differ;
  for (const auto& [key, value] : own.config) {
    const std::string* const saved = stored.Value(key);
    if (saved != nullptr && *saved != value)
      differ += Cat(differ.empty() ? "" : ", ", key, "=", value, " (", *saved, ")");
  }
  if (!differ.empty()) {
    warnings_.push_back(
        Cat("group ", group,
            " keeps its own hyper-parameters; these differ from the saved values (in parentheses): ", differ));
  }
  return {};
}

Status Matching::IndexBlocks(const CheckpointIndex& index) {
  for (const StoredBlock& block : index.blocks) {
    if (!stored_blocks_.emplace(std::pair(block.param, block.place.first()), &block).second) {
      return IoFailed(index.path, ": the index is malformed: two blocks of parameter \"",
                      index.params[static_cast<size_t>(block.param)].name, "\" begin at the same element",
                      kLoadAnother);
    }
    int64_t& longest = longest_[block.param];
    longest = std::max(longest, LastOf(block.place) + 1 - block.place.first());
  }
  return {};
}

Status Matching::MatchBlocks(const CheckpointIndex& index, OptimizerState* optimizer) {
  const PlanData& plan = optimizer->plan();
  std::vector<StatesOfBlock> blocks;
  for (const StateEntry& state : optimizer->entries()) {
    if (state.block < 0) continue;
    if (blocks.empty() || blocks.back().block != state.block) blocks.push_back({state.block, {}});
    blocks.back().states.push_back(&state);
  }
  std::vector<std::string> missing;  // blocks that the checkpoint does not have
  for (const StatesOfBlock& own : blocks) {
    const Block& block = plan.block(own.block);
    const Param& param = plan.param(block);
    const BlockPlace place = BlockPlace::Of(param.desc, block);
    const int stored_param = stored_params_.find(param.desc.name)->second;
    const auto found = stored_blocks_.find({stored_param, place.first()});
    const bool is_there = found != stored_blocks_.end() && SamePlace(found->second->place, place);
    const bool lacks_factors = is_there && block.is_preconditioned && !found->second->HasFactors();
    if (is_there && !lacks_factors) {
      CountUnused(*optimizer, own, *found->second);
      SHAMPOO_RETURN_IF_ERROR(CheckStates(index, *optimizer, own, *found->second, false));
      direct_.push_back({optimizer, found->second, own.states});
      continue;
    }
    missing.push_back(Cat(BlockName(param, block), " ", ShapeText(block.shape), " at element ", place.first(),
                          lacks_factors ? " (saved without factor matrices)" : ""));
    SHAMPOO_RETURN_IF_ERROR(AddResharded(index, optimizer, own));
  }
  if (missing.empty() || optimizer->hyper_parameters().settings(0).on_block_mismatch == OnBlockMismatch::kReset)
    return {};
  return Invalid(
      "the checkpoint does not have ", missing.size(), " of ", blocks.size(), " blocks of this rank: ", Named(missing),
      ". Set max_preconditioner_dim, use_merge_dims, merge_min_dim, skip_dim_size, precondition_1d and route, and the "
      "shards, roles, stack_dims and row_splits of the parameters, to their values in the run that saved the "
      "checkpoint. Or set on_block_mismatch=reset, which initializes the factor matrices of these blocks again, and "
      "their moments if these are in eigenbases");
}

void Matching::CountUnused(const OptimizerState& optimizer, const StatesOfBlock& own, const StoredBlock& stored) {
  const auto count_unused = [&](std::string_view name) {
    const bool is_used = std::any_of(own.states.begin(), own.states.end(),
                                     [name](const StateEntry* state) { return state->state() == name; });
    if (!is_used && stored.Find(name) != nullptr) ++unused_[std::string(name)];
  };
  for (const std::string_view name : kElementwiseStates) count_unused(name);
  count_unused(kSnapshotStep);
  const Block& own_block = optimizer.plan().blocks[static_cast<size_t>(own.block)];
  if (!own_block.is_preconditioned && stored.HasFactors()) ++unused_["factor matrix"];
}

Status Matching::CheckStates(const CheckpointIndex& index, const OptimizerState& optimizer, const StatesOfBlock& own,
                             const StoredBlock& stored, bool is_resharded) const {
  const Block& own_block = optimizer.plan().blocks[static_cast<size_t>(own.block)];
  const StoredParam& param = index.params[static_cast<size_t>(stored.param)];
  const bool in_eigenbasis = UsesEigenbasis(optimizer.plan().group(own_block).method);
  if (in_eigenbasis && !own_block.is_preconditioned && stored.HasFactors()) {
    return Invalid(
        "parameter \"", param.name,
        "\" was saved with factor matrices, but one of its blocks has none in this optimizer: the moments were saved "
        "in eigenbases and cannot be converted; set precondition_1d, precondition_dims, skip_dim_size, route and the "
        "role of the parameter to their saved values");
  }
  for (int k = 0; in_eigenbasis && k < own_block.factor_count(); ++k) {
    if (is_resharded || own_block.has_factor(k) || stored.Find(Cat("factor.", k)) == nullptr) continue;
    return Invalid(
        "parameter \"", param.name, "\" was saved with a factor matrix of dim ", k, ", but dim ", k,
        " of one of its blocks has none in this optimizer. The saved moments of the parameter are in an "
        "eigenbasis of this dim and cannot be converted: set precondition_dims, skip_dim_size and ignored_dims to "
        "their saved values");
  }
  for (const StateEntry* state : own.states) {
    if (is_resharded && !IsConverted(*state)) continue;
    const StoredEntry* const entry = stored.Find(state->state());
    // If the state kSnapshotStep is missing, too, the block was saved with root_async=0, so it has no snapshots.
    if (entry == nullptr && state->is_snapshot() && stored.Find(kSnapshotStep) == nullptr) continue;
    if (entry == nullptr && own_block.is_routed && state->state() == "second_moment") {
      return Invalid("the checkpoint has no state \"second_moment\" of parameter \"", param.name,
                     "\": method adam updates the parameter in this optimizer, but did not when the checkpoint "
                     "was saved; set route and the role of the parameter to their saved values");
    }
    if (const char* const key = KeyOf(own_block, state->state()); entry == nullptr && key != nullptr) {
      return Invalid("the checkpoint has no state \"", state->state(), "\" of parameter \"", param.name,
                     "\": the parameter was saved with ", key, "=",
                     ValueIn(index.groups[static_cast<size_t>(param.group)], key), ", but ", key, " is ",
                     ValueIn(DescribeHyperParameters(optimizer, own_block.group), key), " in this optimizer; set ", key,
                     " to its saved value");
    }
    if (state->state() == kDirectionMoment) {
      SHAMPOO_RETURN_IF_ERROR(CheckDirectionMoment(param, index.groups[static_cast<size_t>(param.group)],
                                                   DescribeHyperParameters(optimizer, own_block.group)));
    }
    if (entry == nullptr && IsOfFactor(state->state()) && stored.HasFactors()) {
      return Invalid(
          "the checkpoint has no state \"", state->state(), "\" of parameter \"", param.name,
          "\": the parameter was saved with other values of precondition_dims, skip_dim_size or ignored_dims; set "
          "these keys to their saved values");
    }
    if (entry == nullptr) {
      return IoFailed(index.path, ": the index is malformed: it has no \"", TensorName(stored, state->state()), "\"",
                      kLoadAnother);
    }
    if (entry->dtype != state->dtype) {
      const char* const key = DtypeKeyOf(*state);
      return Invalid("state \"", state->key, "\" is ", NameOf(state->dtype), " in this optimizer and ",
                     NameOf(entry->dtype), " in the checkpoint: set ",
                     key == nullptr ? "" : Cat(key, "=", NameOf(entry->dtype), ", or set "),
                     "computation_dtype to the dtype in which the saved optimizer computed");
    }
  }
  return {};
}

Status Matching::AddResharded(const CheckpointIndex& index, OptimizerState* optimizer, const StatesOfBlock& own) {
  const PlanData& plan = optimizer->plan();
  const Block& block = plan.block(own.block);
  const BlockPlace place = BlockPlace::Of(plan.param(block).desc, block);
  const int stored_param = stored_params_.find(plan.param(block).desc.name)->second;
  if (resharded_.empty() || resharded_.back().optimizer != optimizer || resharded_.back().param != block.param) {
    resharded_.push_back({optimizer, block.param, stored_param, {}, {}, {}});
    sources_.clear();
  }
  ReshardedParam& resharded = resharded_.back();
  resharded.blocks.push_back(own.block);
  for (const StateEntry* state : own.states) {
    if (state->elementwise()) resharded.states.push_back(state);
  }
  // Visit the saved blocks that have elements between the first and the last element of this block.
  const int64_t first = place.first();
  const int64_t last = LastOf(place);
  auto found = stored_blocks_.lower_bound({stored_param, first - longest_[stored_param]});
  for (; found != stored_blocks_.end() && found->first <= std::pair(stored_param, last); ++found) {
    const StoredBlock* const source = found->second;
    const DenseRange range = Within(source->place, first, last + 1 - first);
    if (range.begin == range.end) continue;
    // Blocks of one parameter can have different states, so a source is checked for each block that loads from it.
    SHAMPOO_RETURN_IF_ERROR(CheckStates(index, *optimizer, own, *source, true));
    if (!sources_.insert(source).second) continue;
    CountUnused(*optimizer, own, *source);
    resharded.sources.push_back(source);
  }
  return {};
}

// Checks that the saved blocks have all elements of the resharded parameters.
Status Matching::CheckResharded(const CheckpointIndex& index) const {
  for (const ReshardedParam& resharded : resharded_) {
    const StoredParam& param = index.params[static_cast<size_t>(resharded.stored_param)];
    int64_t held = 0;
    auto found = stored_blocks_.lower_bound({resharded.stored_param, 0});
    for (; found != stored_blocks_.end() && found->first.first == resharded.stored_param; ++found) {
      held += found->second->place.elements();
    }
    if (held == param.elements()) continue;
    return Invalid(
        "the checkpoint has ", held, " of the ", param.elements(), " elements of parameter \"", param.name,
        "\", because no rank of the run that saved it had the other elements: use the same shards as in that run");
  }
  return {};
}

}  // namespace shampoo
