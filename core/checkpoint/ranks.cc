// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/ranks.h"

#include <algorithm>
#include <cstring>

#include "core/base/caught.h"
#include "core/comm/agreement.h"

namespace shampoo {
namespace {

// What one rank sends in a round: so many bytes of texts, each after its length, and how many texts will be left.
struct RoundHeader {
  int64_t bytes;
  int64_t left;
};

}  // namespace

Status Ranks::Agree(const Status& own) const {
  if (comm_ != nullptr) return AgreeOnStatus(comm_, own);
  return own.Copy();
}

Status Ranks::FromFirst(int64_t own, int64_t* number) const {
  *number = own;
  if (comm_ == nullptr) return {};
  SHAMPOO_RETURN_IF_ERROR(comm_->GatherNumber(own));
  *number = comm_->NumberOf(0);
  return {};
}

Status Ranks::Numbers(std::span<const int64_t> own, std::vector<int64_t>* numbers) const {
  SHAMPOO_RETURN_IF_ERROR(Agree(Caught([&] {
    numbers->assign(own.size() * static_cast<size_t>(world()), 0);
    return Status();
  })));
  if (comm_ != nullptr) return GatherNumbers(comm_, own, numbers);
  std::copy(own.begin(), own.end(), numbers->begin());
  return {};
}

Status Ranks::Collect(size_t count, const Make& make, const Take& take, Status* own) const {
  const auto try_to_take = [&](int rank, const char* text, int64_t length) {
    if (!own->ok()) return;
    *own = Caught([&] {
      take(rank, std::string(text, static_cast<size_t>(length)));
      return Status();
    });
  };
  if (comm_ == nullptr) {
    for (size_t i = 0; i < count; ++i) {
      const std::string text = make(i);
      try_to_take(0, text.data(), static_cast<int64_t>(text.size()));
    }
    return {};
  }
  int64_t longest = 0;
  SHAMPOO_RETURN_IF_ERROR(Agree(Caught([&] {
    for (size_t i = 0; i < count; ++i) longest = std::max(longest, static_cast<int64_t>(make(i).size()));
    return Status();
  })));
  std::vector<int64_t> longest_of;
  SHAMPOO_RETURN_IF_ERROR(Numbers({&longest, 1}, &longest_of));
  // All ranks get all segments, so many that they take some MiB together.
  constexpr int64_t kOfAll = int64_t{16} << 20;
  constexpr int64_t kOfOne = int64_t{1} << 20;
  const int64_t least = *std::max_element(longest_of.begin(), longest_of.end()) + 8;
  const int64_t room = std::max(least, std::min(kOfOne, kOfAll / world()));
  const int64_t segment = static_cast<int64_t>(sizeof(RoundHeader)) + room;
  std::vector<char> buffer;
  SHAMPOO_RETURN_IF_ERROR(Agree(Caught([&] {
    buffer.resize(static_cast<size_t>(segment * world()));
    return Status();
  })));
  size_t next = 0;
  for (bool more = true; more;) {
    char* const segment_of_rank = buffer.data() + segment * rank();
    RoundHeader header{0, 0};
    for (; next < count; ++next) {
      std::string text;
      if (own->ok()) *own = Caught([&] { return text = make(next), Status(); });
      if (!own->ok()) {
        next = count;  // nothing more to tell
        break;
      }
      const auto length = static_cast<int64_t>(text.size());
      if (header.bytes + 8 + length > room) break;
      char* const to = segment_of_rank + sizeof header + header.bytes;
      std::memcpy(to, &length, 8);
      std::copy(text.begin(), text.end(), to + 8);
      header.bytes += 8 + length;
    }
    header.left = static_cast<int64_t>(count - next);
    std::memcpy(segment_of_rank, &header, sizeof header);
    SHAMPOO_RETURN_IF_ERROR(comm_->GatherInPlace(buffer.data(), segment));
    more = false;
    for (int from = 0; from < world(); ++from) {
      const char* const told = buffer.data() + segment * from;
      std::memcpy(&header, told, sizeof header);
      more = more || header.left > 0;
      for (int64_t at = 0; is_first() && at < header.bytes;) {
        int64_t length = 0;
        std::memcpy(&length, told + sizeof header + at, 8);
        try_to_take(from, told + sizeof header + at + 8, length);
        at += 8 + length;
      }
    }
  }
  return {};
}

}  // namespace shampoo
