// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/plan/plan.h"

namespace shampoo {

// What a step of one shard depends on beside its own numbers, compared over the ranks that hold the shards of one copy
// before anything is written: if one refuses its gradients none goes on, and steps are counted alike.
class ShardStatus {
 public:
  // number: of this optimizer among those of the communicator.
  ShardStatus(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number);

  Communicator* comm() const { return comm_.get(); }

  // What a rank has of a parameter's gradient.
  enum Gradient : char { kNothing = 0 /* of it on this rank */, kMissing = 1, kGiven = 2, kGivenWithCopy = 3 };
  // Whether some rank has it.
  static bool IsGiven(char gradient) { return gradient >= kGiven; }
  struct Flags {
    bool echo = false;   // own is a failure of which a rank elsewhere knows more; then: what is returned is
    bool skip = false;   // this rank, then any, wants to skip the step
    bool doubt = false;  // this rank, then any, has seen a gradient that an owner must look at
  };
  // own: of this rank's checks. scalars: hash of the hyper-parameters of now. step_of_group: the step that is about to
  // be made in each group, 0 where this rank has no gradient for it; then that of the other ranks. gradients: of each
  // parameter one of the above, then the last of them that any rank has. text_later: the failure of another rank comes
  // without its text, and text_is_due(): ranks have another exchange to make before, to which one that has lost this
  // one goes.
  Status Agree(const Status& own, uint64_t scalars, Flags* flags, std::span<int64_t> step_of_group,
               std::span<char> gradients, bool text_later = false);
  bool text_is_due() const { return cause_ >= 0 && !comm_->failure_is_known(); }
  Status FetchText();
  // Takes part to tell of a failed collective, unless that has been done.
  void Tell(const Status& failure);

 private:
  struct Head {
    int64_t code;
    uint64_t scalars;
    int64_t number;  // of this optimizer among those of the communicator
    // Flags, as bytes: a bool of another rank may be none.
    uint8_t echo, skip, doubt;
    char unused[5];
  };
  char* SegmentOf(int rank) { return buffer_.data() + rank * segment_bytes_; }
  Head HeadOf(int rank);
  Status RequireHeads();
  Status CompareSteps(std::span<int64_t> step_of_group);
  Status CompareGradients(size_t groups, std::span<char> gradients);

  std::shared_ptr<Communicator> comm_;
  int32_t number_;
  std::vector<std::string> names_;
  int cause_ = -1;  // the rank whose failure is that of all, and this rank's own text, while texts are due
  std::string own_text_;
  int64_t segment_bytes_;
  std::vector<char> buffer_;
};

}  // namespace shampoo
