// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/ranks.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/base/catch_exceptions.h"
#include "core/comm/agreement.h"

namespace shampoo {
namespace {

// The header of the data that a rank sends in one exchange of CommRanks::Collect(). The texts of the rank follow the
// header. The length of each text precedes the text.
struct TextsHeader {
  int64_t bytes;  // number of bytes of the texts and their lengths in this exchange
  int64_t left;   // number of texts that the rank sends in later exchanges
};

// The largest length in bytes of a text that can be sent. Collect() fails if a text is longer. Only very long names
// cause this failure: the description of a block contains the name of its parameter twice.
constexpr int64_t kLongestText = int64_t{1} << 20;
constexpr int64_t kMaxTexts = int64_t{1} << 40;

// Calls take() unless *own is already an error. Stores an error of take() in *own.
void TakeText(const Ranks::Take& take, int rank, std::string_view text, Status* own) {
  if (!own->ok()) return;
  *own = CatchExceptions([&] {
    take(rank, std::string(text));
    return Status();
  });
}

}  // namespace

Status Ranks::CheckAllReceived(const char* what, std::span<const int64_t> of_ranks, int64_t least, int64_t most) const {
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    SHAMPOO_RETURN_IF_ERROR(CheckReceived({what, static_cast<int>(rank), of_ranks[rank]}, least, most));
  }
  return {};
}

Status OneRank::BroadcastFromFirst(int64_t own, int64_t* number) const {
  *number = own;
  return {};
}

Status OneRank::AllGatherInts(std::span<const int64_t> own, std::vector<int64_t>* numbers) const {
  return CatchExceptions([&] {
    numbers->assign(own.begin(), own.end());
    return Status();
  });
}

Status OneRank::Collect(size_t count, const Make& make, const Take& take, Status* own) const {
  for (size_t i = 0; i < count && own->ok(); ++i) {
    *own = CatchExceptions([&] { return take(0, make(i)), Status(); });
  }
  return {};
}

Status CommRanks::CheckReceived(const Received& received, int64_t least, int64_t most) const {
  return shampoo::CheckReceived(*comm_, received, least, most);
}

Status CommRanks::Agree(const Status& own) const { return AgreeOnStatus(comm_, own); }

Status CommRanks::BroadcastFromFirst(int64_t own, int64_t* number) const {
  *number = own;
  SHAMPOO_RETURN_IF_ERROR(comm_->AllGatherInt(own));
  *number = comm_->GatheredInt(0);
  return {};
}

Status CommRanks::AllGatherInts(std::span<const int64_t> own, std::vector<int64_t>* numbers) const {
  SHAMPOO_RETURN_IF_ERROR(Agree(CatchExceptions([&] {
    numbers->assign(own.size() * static_cast<size_t>(world()), 0);
    return Status();
  })));
  return shampoo::AllGatherInts(comm_, own, numbers);
}

Status CommRanks::Collect(size_t count, const Make& make, const Take& take, Status* own) const {
  int64_t longest = 0;
  SHAMPOO_RETURN_IF_ERROR(Agree(CatchExceptions([&] {
    for (size_t i = 0; i < count; ++i) longest = std::max(longest, static_cast<int64_t>(make(i).size()));
    if (longest <= kLongestText) return Status();
    return Invalid("in the index of the checkpoint, the entry of a parameter, a group or a block has ", longest,
                   " bytes; expected at most ", kLongestText,
                   " when several ranks save. Use shorter names for parameters");
  })));
  std::vector<int64_t> longest_of;
  SHAMPOO_RETURN_IF_ERROR(AllGatherInts({&longest, 1}, &longest_of));
  // In one exchange, each rank sends a segment: a TextsHeader, and `room` bytes for texts. Every rank receives all
  // segments, so their total size is limited, unless the longest text needs more.
  constexpr int64_t kMaxTotalBytes = int64_t{16} << 20;
  constexpr int64_t kMaxRankBytes = int64_t{1} << 20;
  int64_t room = 0;
  int64_t segment = 0;
  std::vector<char> buffer;
  std::vector<int64_t> most_left;  // by rank: the largest valid `left` in the next exchange
  const auto prepare = [&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(CheckAllReceived("message length", longest_of, 0, kLongestText));
    const int64_t least = std::max(longest, *std::max_element(longest_of.begin(), longest_of.end())) + 8;
    room = std::max(least, std::min(kMaxRankBytes, kMaxTotalBytes / world()));
    segment = static_cast<int64_t>(sizeof(TextsHeader)) + room;
    buffer.resize(static_cast<size_t>(segment * world()));
    most_left.assign(static_cast<size_t>(world()), kMaxTexts);
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(Agree(CatchExceptions(prepare)));
  size_t next = 0;
  for (bool more = true; more;) {
    char* const segment_of_rank = buffer.data() + segment * rank();
    TextsHeader header{0, 0};
    for (; next < count; ++next) {
      std::string text;
      if (own->ok()) *own = CatchExceptions([&] { return text = make(next), Status(); });
      if (!own->ok()) {
        next = count;  // after an error this rank sends no more texts
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
      const char* const received = buffer.data() + segment * from;
      std::memcpy(&header, received, sizeof header);
      // header.left must decrease from one exchange to the next until it is 0. All ranks receive the same values, so
      // they all continue or all stop.
      int64_t& most = most_left[static_cast<size_t>(from)];
      SHAMPOO_RETURN_IF_ERROR(
          CheckReceivedOrAbort(comm_, {"number of remaining messages", from, header.left}, 0, most));
      most = std::max<int64_t>(header.left - 1, 0);
      more = more || header.left > 0;
      if (!is_first()) continue;
      if (own->ok()) *own = CheckReceived({"number of message bytes", from, header.bytes}, 0, room);
      for (int64_t at = 0; own->ok() && at < header.bytes;) {
        const int64_t rest = header.bytes - at - 8;
        int64_t length = 0;
        if (rest >= 0) std::memcpy(&length, received + sizeof header + at, 8);
        *own = CheckReceived({"message length", from, length}, 0, rest);
        if (!own->ok()) break;
        TakeText(take, from, {received + sizeof header + at + 8, static_cast<size_t>(length)}, own);
        at += 8 + length;
      }
    }
  }
  return {};
}

}  // namespace shampoo
