// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/param_diff.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/plan/block_states.h"

namespace shampoo::ckpt {
namespace {

using Blocks = std::vector<const StoredBlock*>;

std::set<std::string> StatesOf(const Blocks& blocks) {
  std::set<std::string> states;
  for (const StoredBlock* block : blocks) {
    for (const StoredEntry& entry : block->entries) states.insert(entry.state);
  }
  return states;
}

bool HasBasis(const std::set<std::string>& states) {
  return std::any_of(states.begin(), states.end(), [](const auto& state) { return state.starts_with("basis."); });
}

// The dtype of one state of a parameter in one checkpoint, and the number of elements of this state in all blocks
// together. The number is correct only for an elementwise state, which has one element for each element of the block.
struct StateExtent {
  int64_t elements = 0;
  Dtype dtype = Dtype::kF32;
  bool mixed = false;  // the state does not have the same dtype in all blocks
};
StateExtent ExtentOf(const Blocks& blocks, const std::string& state) {
  StateExtent extent;
  for (const StoredBlock* block : blocks) {
    const StoredEntry* const entry = block->Find(state);
    if (entry == nullptr) continue;
    extent.mixed = extent.mixed || (extent.elements > 0 && entry->dtype != extent.dtype);
    extent.dtype = entry->dtype;
    extent.elements += block->place.elements();
  }
  return extent;
}

Blocks BlocksWith(const Blocks& blocks, const std::string& state) {
  Blocks with;
  std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(with),
               [&](const StoredBlock* block) { return block->Find(state) != nullptr; });
  return with;
}

// Compares the states of one parameter in the checkpoints A and B.
class ParamComparer {
 public:
  ParamComparer(const StoredParam& param, const Blocks& a, const Blocks& b, StateComparer* comparer, ParamDiff* diff)
      : param_(param), a_(a), b_(b), comparer_(comparer), diff_(diff) {}

  Status Run() {
    Pair();
    blocks_differ_ = pairs_.size() != a_.size() || pairs_.size() != b_.size();
    if (blocks_differ_) {
      diff_->notes.push_back(
          Cat(a_.size() - pairs_.size(), " of ", a_.size(), " blocks in A and ", b_.size() - pairs_.size(), " of ",
              b_.size(),
              " blocks in B are in only one checkpoint: of their states, only those with one element "
              "for each element of the parameter are compared"));
    }
    const std::set<std::string> a_states = StatesOf(a_);
    const std::set<std::string> b_states = StatesOf(b_);
    is_rotated_ = HasBasis(a_states) || HasBasis(b_states);
    NoteMissing(a_states, b_states, "B");
    NoteMissing(b_states, a_states, "A");
    std::vector<std::string> of_pairs;
    for (const std::string& state : a_states) {
      if (!b_states.contains(state)) continue;
      NoteDtypes(state);
      if (blocks_differ_ && IsElementwise(state)) {
        SHAMPOO_RETURN_IF_ERROR(CompareWhole(state));
      } else {
        of_pairs.push_back(state);
      }
    }
    return ComparePairs(of_pairs);
  }

 private:
  // Returns whether each element of the state belongs to one element of the parameter. Such a state can be compared
  // even if the checkpoints divide the parameter into different blocks.
  bool IsElementwise(const std::string& state) const {
    if (state == kDirectionMoment) return false;  // an element may be a mean over several elements of the parameter
    // These two states are in eigenbases, which differ between blocks.
    if (is_rotated_ && (state == "filtered_grad" || state == "second_moment")) return false;
    return std::find(std::begin(kElementwiseStates), std::end(kElementwiseStates), state) !=
           std::end(kElementwiseStates);
  }

  // Finds the blocks that are at the same place in A and B. a_ and b_ are both sorted by the positions of the blocks'
  // first elements. In an intact checkpoint, no two blocks of a parameter have the same first element.
  void Pair() {
    auto b = b_.begin();
    for (const StoredBlock* a : a_) {
      while (b != b_.end() && (*b)->place.first() < a->place.first()) ++b;
      if (b != b_.end() && SamePlace(a->place, (*b)->place)) pairs_.emplace_back(a, *b++);
    }
  }

  void NoteMissing(const std::set<std::string>& from, const std::set<std::string>& in, const char* name) {
    std::string text;
    for (const std::string& state : from) {
      // If the checkpoints divide the parameter into different blocks, the blocks may have different numbers of dims. A
      // state that belongs to a dim, such as factor.2, may then be missing in one checkpoint. This is not reported.
      if (!in.contains(state) && (IsElementwise(state) || !blocks_differ_)) text += " " + state;
    }
    if (!text.empty()) diff_->notes.push_back(Cat("states that are not in ", name, ":", text));
  }

  void NoteDtypes(const std::string& state) {
    const StateExtent a = ExtentOf(a_, state);
    const StateExtent b = ExtentOf(b_, state);
    if (a.dtype == b.dtype) return;
    diff_->notes.push_back(Cat(state, " is ", NameOf(a.dtype), " in A, ", NameOf(b.dtype), " in B"));
  }

  // Compares states block by block, because files store all states of a block one after another.
  Status ComparePairs(const std::vector<std::string>& states) {
    for (const auto& [a, b] : pairs_) {
      for (const std::string& state : states) {
        if (a->Find(state) == nullptr || b->Find(state) == nullptr) continue;
        SHAMPOO_RETURN_IF_ERROR(comparer_->Compare(*a, *b, state, &diff_->states[state]));
      }
    }
    return {};
  }

  Status CompareWhole(const std::string& state) {
    const StateExtent a = ExtentOf(a_, state);
    const StateExtent b = ExtentOf(b_, state);
    if (a.mixed || b.mixed || a.elements != param_.elements() || b.elements != param_.elements()) {
      diff_->notes.push_back(Cat(state, " is not compared: A has ", a.elements, " elements and B has ", b.elements,
                                 "; expected ", param_.elements(), " elements of one dtype in each of A and B"));
      return {};
    }
    return comparer_->CompareWindows(param_.elements(), BlocksWith(a_, state), BlocksWith(b_, state), state,
                                     &diff_->states[state]);
  }

  const StoredParam& param_;
  const Blocks& a_;
  const Blocks& b_;
  StateComparer* comparer_;
  ParamDiff* diff_;
  std::vector<std::pair<const StoredBlock*, const StoredBlock*>> pairs_;  // blocks at the same place
  bool blocks_differ_ = false;                                            // some blocks are in no pair
  bool is_rotated_ = false;                                               // A or B has eigenbases of the parameter
};

}  // namespace

Status DiffParam(const StoredParam& param, const Blocks& a, const Blocks& b, StateComparer* comparer, ParamDiff* diff) {
  return ParamComparer(param, a, b, comparer, diff).Run();
}

}  // namespace shampoo::ckpt
