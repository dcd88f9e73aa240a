// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that a checkpoint can be loaded after the machine has stopped at any moment of a save. A stop may lose data
// that was not synced. A model of the disk follows the file calls of all ranks. After each call, the test creates
// directories as a stop at this moment could leave them, and loads their checkpoints.
#include <doctest/doctest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "tests/checkpoint/faults/failing.h"

namespace shampoo_test {
namespace {

using Names = std::map<std::string, std::string>;  // the bytes of each file, by file name

// A model of a directory on a disk. It records which files and bytes are synced, and which a stop may lose.
class Disk {
 public:
  // Starts with the current content of the directory, which counts as synced.
  explicit Disk(std::string directory) : directory_(std::move(directory)), parent_(ParentOf(directory_)) {
    exists_ = is_certain_ = NamesIn(parent_).size() > 0 && Contains(NamesIn(parent_), BaseName(directory_));
    if (!exists_) return;
    for (const std::string& name : NamesIn(directory_)) {
      const std::string bytes = BytesOf(directory_ + "/" + name);
      now_[name] = certain_[name] = std::make_shared<Content>(Content{bytes, bytes});
    }
  }

  void Follow(const FileCall& call) {
    const std::string name = BaseName(call.path);
    if (call.name == "mkdir") exists_ = true;
    if (call.name == "open" && call.creates) {
      const auto known = now_.find(name);
      if (known == now_.end()) {
        Change({"", name, std::make_shared<Content>()});
      } else {
        known->second->now.clear();
      }
    }
    if (call.name == "pwrite") {
      std::string& bytes = now_.at(name)->now;
      const auto at = static_cast<size_t>(call.at);
      bytes.resize(std::max(bytes.size(), at + call.bytes));
      bytes.replace(at, call.bytes, call.data, call.bytes);
    }
    if (call.name == "rename") Change({name, BaseName(call.to), now_.at(name)});
    if (call.name == "unlink" && now_.contains(name)) Change({name, "", nullptr});
    if (call.name == "fsync") Sync(call.path);
  }

  // Calls visit(&outcome) with the names and bytes of the files that a stop could leave. In an outcome, each
  // unsynced creation, rename or removal of a file is on the disk or lost, and unsynced bytes are missing or zero.
  // Skips outcomes that have been visited before. If the directory could be missing after a stop, calls visit(nullptr),
  // too.
  template <typename Visit>
  void ForEachOutcome(Visit&& visit) {
    if (!is_certain_) visit(nullptr);
    if (!exists_) return;
    constexpr size_t kAllSubsets = 6;
    const size_t count = pending_.size();
    const auto visit_outcomes = [&](const auto& is_chosen) {
      Files names = certain_;
      for (size_t i = 0; i < count; ++i) {
        if (is_chosen(i)) Apply(pending_[i], &names);
      }
      for (const bool has_zeros : {false, true}) {
        Names outcome;
        for (const auto& [name, content] : names) outcome[name] = content->Left(has_zeros);
        if (seen_.insert(outcome).second) visit(&outcome);
      }
    };
    if (count <= kAllSubsets) {
      for (size_t subset = 0; subset < size_t{1} << count; ++subset) {
        visit_outcomes([subset](size_t i) { return (subset >> i & 1) != 0; });
      }
      return;
    }
    // There are too many subsets of the changes. Visits the subsets with no change, one change, all changes, and all
    // changes except one.
    for (const bool others : {false, true}) {
      visit_outcomes([others](size_t) { return others; });
      for (size_t one = 0; one < count; ++one) {
        visit_outcomes([one, others](size_t i) { return (i == one) != others; });
      }
    }
  }
  void Forget() { seen_.clear(); }  // makes the next ForEachOutcome() visit all outcomes again

 private:
  struct Content {
    std::string now;      // the bytes that the file calls have written
    std::string certain;  // the bytes that are synced
    // Returns the bytes of the file after a stop. With has_zeros, the file has its newest size, and zeros after the end
    // of the synced bytes.
    std::string Left(bool has_zeros) const {
      std::string left = certain;
      if (has_zeros && now != certain) left.resize(now.size(), '\0');
      return left;
    }
  };
  using Files = std::map<std::string, std::shared_ptr<Content>>;
  struct NameChange {
    std::string from, to;
    std::shared_ptr<Content> content;
  };

  static std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static bool Contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  static void Apply(const NameChange& change, Files* files) {
    if (!change.from.empty()) files->erase(change.from);
    if (!change.to.empty()) (*files)[change.to] = change.content;
  }
  void Change(NameChange change) {
    Apply(change, &now_);
    pending_.push_back(std::move(change));
  }
  void Sync(const std::string& path) {
    if (path == parent_) is_certain_ = exists_;
    if (path == directory_) {
      certain_ = now_;
      pending_.clear();
    }
    const auto file = now_.find(BaseName(path));
    if (file != now_.end() && path != directory_ && path != parent_) file->second->certain = file->second->now;
  }

  std::string directory_, parent_;
  bool exists_ = false;      // the directory exists
  bool is_certain_ = false;  // the existence of the directory is synced
  Files certain_, now_;
  std::vector<NameChange> pending_;  // changes since the last sync of the directory
  std::set<Names> seen_;
};

// Saves a checkpoint. After each file call, checks that each outcome of a stop (see ForEachOutcome) has a checkpoint
// that can be loaded. may_have_none: outcomes without a checkpoint are allowed.
class Checker {
 public:
  Checker(Saves* saves, bool may_have_none) : saves_(saves), may_have_none_(may_have_none), disk_(saves->directory) {}

  // Saves a checkpoint. fault: called before each file call of rank 0; returns what happens to the call.
  void Save(const FileWatch::Handler& fault) {
    saves_->job.around = [&](int rank, const std::function<void()>& call) {
      const FileWatch watch([&, rank](const FileCall& now) {
        const std::lock_guard lock(mutex_);
        const FileFault outcome = rank == 0 ? fault(now) : FileFault();
        if (outcome.error == 0) disk_.Follow(now);
        Check(Describe(now), false);
        return outcome;
      });
      call();
    };
    saves_->Save();
    saves_->job.Undisturbed();
  }
  // Checks all outcomes of a stop after the save. is_newer: each outcome must have the new checkpoint.
  void CheckEnd(bool is_newer) {
    disk_.Forget();
    Check("the end", is_newer);
  }
  int outcomes() const { return outcomes_; }
  int newer_ones() const { return newer_ones_; }  // the number of outcomes with the new checkpoint

 private:
  void Check(const std::string& after, bool is_newer) {
    disk_.ForEachOutcome([&](const Names* names) {
      CAPTURE(after);
      ++outcomes_;
      const std::string directory = scratch_ / ("left" + std::to_string(outcomes_));
      const bool has_index = names != nullptr && HasIndex(*names);
      if (!has_index) {
        CHECK(may_have_none_);
        CHECK(!is_newer);
        return;
      }
      MakeDirectory(directory);
      std::string listed;
      for (const auto& [name, bytes] : *names) {
        WriteFile(directory + "/" + name, bytes);
        listed += name + " of " + std::to_string(bytes.size()) + " bytes\n";
      }
      CAPTURE(listed);
      // Each checkpoint with an index must be complete. A save that removes a checkpoint therefore removes the index
      // first.
      for (const auto& [name, bytes] : *names) {
        if (name.ends_with(".json")) Load(directory + "/" + name, false);
      }
      const std::vector<Bytes> loaded = Load(directory, is_newer);
      newer_ones_ += loaded == saves_->newer ? 1 : 0;
      RemoveAll(directory);
    });
  }
  std::vector<Bytes> Load(const std::string& path, bool is_newer) {
    CAPTURE(path);
    reader_.Load(path);
    CHECK_MESSAGE(reader_.All(SHAMPOO_OK), reader_.Errors());
    std::vector<Bytes> loaded = reader_.States();
    CHECK((loaded == saves_->newer || (!is_newer && loaded == saves_->older)));
    return loaded;
  }
  static bool HasIndex(const Names& names) {
    return std::any_of(names.begin(), names.end(), [](const auto& file) { return file.first.ends_with(".json"); });
  }

  Saves* saves_;
  bool may_have_none_;
  Disk disk_;
  std::mutex mutex_;
  Scratch scratch_;
  SavingJob reader_;
  int outcomes_ = 0;
  int newer_ones_ = 0;
};

FileFault NoFault(const FileCall&) { return {}; }

TEST_CASE("a machine that stops at any file call of a save leaves the older checkpoint or the new one") {
  for (const bool leftovers : {false, true}) {
    CAPTURE(leftovers);
    Saves saves(leftovers);
    Checker checker(&saves, false);
    checker.Save(&NoFault);
    CHECK_MESSAGE(saves.job.All(SHAMPOO_OK), saves.job.Errors());
    checker.CheckEnd(true);
    CHECK(checker.outcomes() > 20);
    CHECK(checker.newer_ones() > 5);
    CHECK(checker.newer_ones() < checker.outcomes());
  }
}

TEST_CASE("the first checkpoint of a directory is on the disk when the save succeeds") {
  Saves saves;
  RemoveAll(saves.directory);
  Checker checker(&saves, true);
  checker.Save(&NoFault);
  CHECK_MESSAGE(saves.job.All(SHAMPOO_OK), saves.job.Errors());
  checker.CheckEnd(true);
  CHECK(checker.newer_ones() > 0);
}

// The library removes the files of a failed save in such an order that no incomplete checkpoint has an index.
TEST_CASE("a machine that stops after a failed save leaves the older checkpoint or the new one") {
  Saves saves;
  const std::vector<FileCall> calls = saves.Calls(0);
  for (const FileCall& call : calls) {
    CAPTURE(Describe(call));
    saves.Reset();
    Checker checker(&saves, false);
    checker.Save(FailAt(call.number, {.error = EIO}));
    checker.CheckEnd(saves.job.All(SHAMPOO_OK));
  }
}

}  // namespace
}  // namespace shampoo_test
