// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/param_diff.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/text.h"

namespace shampoo::ckpt {
namespace {

using Blocks = std::vector<const StoredBlock*>;

bool IsElementwise(std::string_view state) {
  return state == "filtered_grad" || state == "grafting" || state == "momentum";
}

std::set<std::string> StatesOf(const Blocks& blocks) {
  std::set<std::string> states;
  for (const StoredBlock* block : blocks) {
    for (const StoredEntry& entry : block->entries) states.insert(entry.state);
  }
  return states;
}

// What one checkpoint has of an elementwise state of a parameter.
struct Held {
  int64_t elements = 0;
  Dtype dtype = Dtype::kF32;
  bool mixed = false;  // several dtypes
};
Held HeldOf(const Blocks& blocks, const std::string& state) {
  Held held;
  for (const StoredBlock* block : blocks) {
    const StoredEntry* const entry = block->Find(state);
    if (entry == nullptr) continue;
    held.mixed = held.mixed || (held.elements > 0 && entry->dtype != held.dtype);
    held.dtype = entry->dtype;
    held.elements += block->place.elements();
  }
  return held;
}

Blocks With(const Blocks& blocks, const std::string& state) {
  Blocks with;
  std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(with),
               [&](const StoredBlock* block) { return block->Find(state) != nullptr; });
  return with;
}

// One parameter in A and in B.
class Differ {
 public:
  Differ(const StoredParam& param, const Blocks& a, const Blocks& b, StateComparer* comparer, ParamDiff* diff)
      : param_(param), a_(a), b_(b), comparer_(comparer), diff_(diff) {}

  Status Run() {
    Pair();
    recut_ = pairs_.size() != a_.size() || pairs_.size() != b_.size();
    if (recut_) {
      diff_->notes.push_back(Cat(a_.size() - pairs_.size(), " of ", a_.size(), " blocks in A and ",
                                 b_.size() - pairs_.size(), " of ", b_.size(),
                                 " in B are cut in another way: their factor matrices are not compared"));
    }
    const std::set<std::string> a_states = StatesOf(a_);
    const std::set<std::string> b_states = StatesOf(b_);
    NoteMissing(a_states, b_states, "B");
    NoteMissing(b_states, a_states, "A");
    std::vector<std::string> of_pairs;
    for (const std::string& state : a_states) {
      if (!b_states.contains(state)) continue;
      NoteDtypes(state);
      if (recut_ && IsElementwise(state)) {
        SHAMPOO_RETURN_IF_ERROR(CompareWhole(state));
      } else {
        of_pairs.push_back(state);
      }
    }
    return ComparePairs(of_pairs);
  }

 private:
  // Both are ordered by their first elements, which are each but once.
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
      // Blocks that were cut in another way have other numbers of dims.
      if (!in.contains(state) && (IsElementwise(state) || !recut_)) text += " " + state;
    }
    if (!text.empty()) diff_->notes.push_back(Cat("not in ", name, ":", text));
  }

  void NoteDtypes(const std::string& state) {
    const Held a = HeldOf(a_, state);
    const Held b = HeldOf(b_, state);
    if (a.dtype == b.dtype) return;
    diff_->notes.push_back(Cat(state, " is ", NameOf(a.dtype), " in A, ", NameOf(b.dtype), " in B"));
  }

  // Block by block, as files have them.
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
    const Held a = HeldOf(a_, state);
    const Held b = HeldOf(b_, state);
    if (a.mixed || b.mixed || a.elements != param_.elements() || b.elements != param_.elements()) {
      diff_->notes.push_back(Cat(state, " is not compared: of ", param_.elements(), " elements A has ", a.elements,
                                 " and B ", b.elements));
      return {};
    }
    return comparer_->CompareWindows(param_.elements(), With(a_, state), With(b_, state), state, &diff_->states[state]);
  }

  const StoredParam& param_;
  const Blocks& a_;
  const Blocks& b_;
  StateComparer* comparer_;
  ParamDiff* diff_;
  std::vector<std::pair<const StoredBlock*, const StoredBlock*>> pairs_;  // at the same places
  bool recut_ = false;
};

}  // namespace

Status DiffParam(const StoredParam& param, const Blocks& a, const Blocks& b, StateComparer* comparer, ParamDiff* diff) {
  return Differ(param, a, b, comparer, diff).Run();
}

}  // namespace shampoo::ckpt
