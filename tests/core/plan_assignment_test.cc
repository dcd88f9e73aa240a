// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "core/plan/assignment.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/assignment");

namespace shampoo {
namespace {

using plan_test::Draw;
using plan_test::GoldenEntries;

TEST_CASE("owners agree with the reference implementation") {
  int checked = 0;
  for (const auto& entry : GoldenEntries("ddp_assignment")) {
    CAPTURE(entry.dump());
    const auto bytes = entry.at("buffer_sizes").get<std::vector<int64_t>>();
    const Ownership result = AssignOwners(bytes, entry.at("group_size"));
    const auto& expected = entry.at("aligned_size_and_rank");
    REQUIRE(bytes.size() == expected.size());
    REQUIRE(result.aligned_bytes.size() == bytes.size());
    REQUIRE(result.owner.size() == bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      CHECK(result.aligned_bytes[i] == expected[i].at(0));
      CHECK(result.owner[i] == expected[i].at(1));
    }
    CHECK(result.bytes_per_rank == entry.at("bytes_per_rank").get<std::vector<int64_t>>());
    CHECK(result.segment_bytes == entry.at("gather_bytes_per_rank"));
    CHECK(result.offset_in_segment == entry.at("offset_within_rank").get<std::vector<int64_t>>());
    ++checked;
  }
  CHECK(checked == 35);
}

TEST_CASE("owners: the assignment works without blocks and with fewer blocks than ranks") {
  const Ownership none = AssignOwners({}, 3);
  CHECK(none.owner.empty());
  CHECK(none.bytes_per_rank == std::vector<int64_t>{0, 0, 0});
  CHECK(none.segment_bytes == 0);

  const std::vector<int64_t> one = {65};
  const Ownership few = AssignOwners(one, 3);
  CHECK(few.owner == std::vector<int>{0});
  CHECK(few.bytes_per_rank == std::vector<int64_t>{128, 0, 0});
  CHECK(few.segment_bytes == 128);
}

TEST_CASE("owners: blocks whose rounded sizes are equal keep plan order") {
  // Rounded up to a multiple of 64, each of the three sizes is 128. Without rounding, block 2 would be assigned first.
  const std::vector<int64_t> bytes = {65, 66, 128};
  CHECK(AssignOwners(bytes, 3).owner == std::vector<int>{0, 1, 2});
}

TEST_CASE("owners: random blocks are assigned largest first to the least loaded rank") {
  std::mt19937_64 random(31);
  for (int i = 0; i < 1000; ++i) {
    const int world = static_cast<int>(Draw(random, 1, 17));
    std::vector<int64_t> bytes(static_cast<size_t>(Draw(random, 0, 120)));
    for (int64_t& size : bytes) size = Draw(random, 0, int64_t{1} << Draw(random, 0, 12));
    CAPTURE(i);
    CAPTURE(world);
    const Ownership result = AssignOwners(bytes, world);
    REQUIRE(result.owner.size() == bytes.size());
    REQUIRE(result.aligned_bytes.size() == bytes.size());
    REQUIRE(result.offset_in_segment.size() == bytes.size());
    REQUIRE(result.bytes_per_rank.size() == static_cast<size_t>(world));

    // Repeats the greedy rule: assigns the largest block first, and blocks of equal size in plan order.
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t block = 0; block < bytes.size(); ++block) {
      CHECK(result.aligned_bytes[block] % 64 == 0);
      CHECK(result.aligned_bytes[block] >= bytes[block]);
      CHECK(result.aligned_bytes[block] < bytes[block] + 64);
      order.emplace_back(-result.aligned_bytes[block], block);
    }
    std::sort(order.begin(), order.end());
    std::vector<int64_t> load(static_cast<size_t>(world), 0);
    for (const auto& [negative_size, block] : order) {
      const auto least = std::min_element(load.begin(), load.end());  // the first of equal loads
      REQUIRE(result.owner[block] == static_cast<int>(least - load.begin()));
      *least -= negative_size;
    }
    CHECK(result.bytes_per_rank == load);
    CHECK(result.segment_bytes == *std::max_element(load.begin(), load.end()));

    // Checks that the segment which a rank sends contains the updates of its blocks in plan order, without gaps.
    std::vector<int64_t> filled(static_cast<size_t>(world), 0);
    for (size_t block = 0; block < bytes.size(); ++block) {
      int64_t& end = filled[static_cast<size_t>(result.owner[block])];
      CHECK(result.offset_in_segment[block] == end);
      end += result.aligned_bytes[block];
    }
    CHECK(filled == load);

    // Checks the purpose of the rule: the loads of two ranks differ at most by the size of the largest block.
    if (!bytes.empty()) {
      const auto [least, largest] = std::minmax_element(load.begin(), load.end());
      CHECK(*largest - *least <= *std::max_element(result.aligned_bytes.begin(), result.aligned_bytes.end()));
    }
  }
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();
