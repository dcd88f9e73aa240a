// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/agreement.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/base/catch_exceptions.h"
#include "core/base/hash.h"
#include "core/base/utf8.h"
#include "core/comm/received.h"

namespace shampoo {
namespace {

uint64_t HashOfLines(std::span<const std::string> lines) {
  uint64_t hash = lines.size();
  for (const std::string& line : lines) hash = HashBytes(line.data(), line.size(), hash);
  return hash;
}

// values: by rank. Returns the lowest rank whose value differs from that of rank 0, or 0 if all values are equal.
size_t FirstThatDiffers(const std::vector<int64_t>& values) {
  for (size_t rank = 1; rank < values.size(); ++rank) {
    if (values[rank] != values[0]) return rank;
  }
  return 0;
}

// Returns the lowest rank that sent an integer other than 0 in the last AllGatherInt(). Returns the number of ranks if
// all integers are 0.
int FirstNotZero(const Communicator& comm) {
  int rank = 0;
  while (rank < comm.world() && comm.GatheredInt(rank) == 0) ++rank;
  return rank;
}

// Fails, and aborts the communicator, unless all integers of the last AllGatherInt() are status codes.
Status CheckCodesOrAbort(Communicator* comm) {
  for (int rank = 0; rank < comm->world(); ++rank) {
    SHAMPOO_RETURN_IF_ERROR(CheckCodeOrAbort(comm, rank, comm->GatheredInt(rank)));
  }
  return {};
}

}  // namespace

Status GatherTexts(Communicator* comm, std::string_view own, std::span<char> buffer) {
  const std::string_view sent = Utf8Prefix(own, kTextBytes - 1);
  const std::span<char> segment = buffer.subspan(static_cast<size_t>(comm->rank()) * kTextBytes, kTextBytes);
  std::fill(std::copy(sent.begin(), sent.end(), segment.begin()), segment.end(), '\0');
  return comm->GatherInPlace(buffer.data(), kTextBytes);
}

std::string TextIn(std::span<const char> buffer, int rank) {
  const char* const text = buffer.data() + static_cast<size_t>(rank) * kTextBytes;
  return {text, strnlen(text, kTextBytes - 1)};
}

Status GatherTexts(Communicator* comm, const std::string& own, std::vector<std::string>* texts) {
  texts->clear();
  std::vector<char> buffer;
  const Status allocated =
      CatchExceptions([&] { return buffer.resize(static_cast<size_t>(comm->world()) * kTextBytes), Status(); });
  SHAMPOO_RETURN_IF_ERROR(comm->AllGatherInt(static_cast<int64_t>(allocated.code())));
  SHAMPOO_RETURN_IF_ERROR(CheckCodesOrAbort(comm));
  if (FirstNotZero(*comm) != comm->world()) return {};
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm, own, buffer));
  for (int rank = 0; rank < comm->world(); ++rank) texts->push_back(TextIn(buffer, rank));
  return {};
}

std::string FailureText(const Communicator& comm, int rank, const std::string& text) {
  const std::string name = Cat(comm.rank_name(), " ", rank);
  return text.empty() ? Cat(name, " failed, but sent no error message") : Cat(name, ": ", text);
}

Status AllGatherInts(Communicator* comm, int64_t own, std::vector<int64_t>* numbers) {
  SHAMPOO_RETURN_IF_ERROR(comm->AllGatherInt(own));
  numbers->clear();
  for (int rank = 0; rank < comm->world(); ++rank) numbers->push_back(comm->GatheredInt(rank));
  return {};
}

Status AllGatherInts(Communicator* comm, std::span<const int64_t> own, std::vector<int64_t>* numbers) {
  numbers->assign(static_cast<size_t>(comm->world()) * own.size(), 0);
  if (own.empty()) return {};
  std::copy(own.begin(), own.end(), numbers->begin() + comm->rank() * static_cast<int64_t>(own.size()));
  return comm->GatherInPlace(numbers->data(), static_cast<int64_t>(own.size_bytes()));
}

Difference FirstDifference(std::span<const int64_t> numbers, int world) {
  const size_t count = numbers.size() / static_cast<size_t>(world);
  const auto at = [&](int rank, size_t i) { return numbers[static_cast<size_t>(rank) * count + i]; };
  for (size_t i = 0; i < count; ++i) {
    int first = 1;
    while (first < world && at(first, i) == at(0, i)) ++first;
    if (first == world) continue;
    Difference difference{true, i, 0, 0, 0, 0};
    int most = 0;
    for (int rank = 0; rank < world && 2 * most < world; ++rank) {
      int same = 0;
      for (int other = 0; other < world; ++other) same += at(other, i) == at(rank, i) ? 1 : 0;
      if (same <= most) continue;
      most = same;
      difference.usual = at(rank, i);
      difference.usual_rank = rank;
    }
    while (at(difference.rank, i) == difference.usual) ++difference.rank;
    difference.value = at(difference.rank, i);
    return difference;
  }
  return {};
}

Status AgreeOnStatus(Communicator* comm, const Status& own) {
  SHAMPOO_RETURN_IF_ERROR(comm->AllGatherInt(static_cast<int64_t>(own.code())));
  SHAMPOO_RETURN_IF_ERROR(CheckCodesOrAbort(comm));
  const int rank = FirstNotZero(*comm);
  if (rank == comm->world()) return {};
  const auto code = static_cast<Code>(comm->GatheredInt(rank));
  std::vector<std::string> texts;
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm, own.message(), &texts));
  if (!texts.empty()) return Status(code, FailureText(*comm, rank, texts[static_cast<size_t>(rank)]));
  if (code == Code::kNoMemory) return Status::OutOfMemory();
  return Status(code, Cat(comm->rank_name(), " ", rank,
                          " failed; the reason could not be transferred because a rank is out of memory"));
}

Status NoDifferenceFound(Communicator* comm, const char* what) {
  Status error =
      CommFailed("the hashes of ", what, " differ between ranks, but ", comm->rank_name(), " ", comm->rank(),
                 " then received equal values from all ranks: expected different values; the hashes or the values were "
                 "transferred wrongly",
                 kCheckRanks);
  comm->Abort(error);
  return error;
}

Status CompareLines(Communicator* comm, std::span<const std::string> lines) {
  std::vector<int64_t> numbers;
  SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm, static_cast<int64_t>(HashOfLines(lines)), &numbers));
  if (FirstThatDiffers(numbers) == 0) return {};
  // Binary search for the first line that differs. Every rank sees the same hashes and makes the same decisions.
  SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm, static_cast<int64_t>(lines.size()), &numbers));
  constexpr int64_t kMaxLines = int64_t{1} << 40;
  size_t same = 0;  // the search has shown that the first `same` lines are equal on all ranks
  size_t end = lines.size();
  for (int rank = 0; rank < comm->world(); ++rank) {
    const int64_t count = numbers[static_cast<size_t>(rank)];
    SHAMPOO_RETURN_IF_ERROR(CheckReceivedOrAbort(comm, {"number of plan lines", rank, count}, 0, kMaxLines));
    end = std::min(end, static_cast<size_t>(count));
  }
  while (same < end) {
    const size_t middle = same + (end - same + 1) / 2;
    const uint64_t hash = HashOfLines(lines.subspan(same, middle - same));
    SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm, static_cast<int64_t>(hash), &numbers));
    if (FirstThatDiffers(numbers) == 0) {
      same = middle;
    } else {
      end = middle - 1;
    }
  }
  const std::string own = same < lines.size() ? lines[same] : "(no further line)";
  SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm, static_cast<int64_t>(HashBytes(own.data(), own.size(), 0)), &numbers));
  std::vector<std::string> texts;
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm, own, &texts));
  if (texts.empty()) return Status::OutOfMemory();
  const size_t other = FirstThatDiffers(numbers);
  if (other == 0) return NoDifferenceFound(comm, "the plans");
  const char* const who = comm->rank_name();
  return Invalid("the plans or communicators differ: ", who, " ", other, " has \"", texts[other], "\" and ", who,
                 " 0 has \"", texts[0],
                 "\": on all ranks, use the same config, the same parameters in the same order, and the same kind of "
                 "communicator");
}

}  // namespace shampoo
