// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests which part of a checkpoint each rank writes. This part is called the share of the rank, and consists of blocks
// that the rank has. If several ranks have the same block, the lowest of these ranks writes the block.
#include "core/checkpoint/duplicates.h"
#include "core/checkpoint/local_share.h"
#include "tests/core/checkpoint_job.h"

namespace shampoo {
namespace {

// Ranks on threads, and the share of a checkpoint that each of these ranks writes.
struct ShareJob {
  ShareJob(int world, const SetupOfRank& setup)
      : job(world, setup, ""), shares(static_cast<size_t>(world)), statuses(static_cast<size_t>(world)) {}
  void Find() {
    statuses = job.Run([this](int rank, CheckpointRank& own) {
      return FindLocalShare(own.call, CommRanks(own.call.world), &shares[static_cast<size_t>(rank)]);
    });
  }
  void FindOk() {
    Find();
    CheckAllOk(statuses);
  }

  CheckpointJob job;
  std::vector<LocalShare> shares;
  std::vector<Status> statuses;
};

TEST_CASE(
    "if several ranks have the same optimizer, the lowest rank writes all blocks and descriptions of the optimizer") {
  ShareJob two(2, SetupOfCopies(kSteppedShapes));
  two.FindOk();
  CHECK(two.shares[0].blocks.size() == two.job[0].plan().blocks.size());
  CHECK(two.shares[0].descriptions.size() == 3);  // a group and two parameters
  CHECK(two.shares[0].bytes() > 0);
  CHECK(two.shares[1].blocks.empty());
  CHECK(two.shares[1].descriptions.empty());
  CHECK(two.shares[1].bytes() == 0);
}

TEST_CASE(
    "replicas write the blocks that they own, and shard ranks write their own blocks under names with positions, such "
    "as p0/@12") {
  for (const SetupOfRank& setup : {SetupOfReplicas(kAllStates), SetupOfShards(kAllStates)}) {
    ShareJob two(2, setup);
    two.FindOk();
    for (size_t rank = 0; rank < 2; ++rank) {
      size_t owned = 0;
      for (const Block& block : two.job[rank].plan().blocks) owned += two.job[rank].plan().Owns(block) ? 1 : 0;
      CHECK(two.shares[rank].blocks.size() == owned);
      CHECK(two.shares[rank].descriptions.empty() == (rank == 1));
    }
  }
  ShareJob shards(2, SetupOfShards(kAllStates));
  shards.FindOk();
  CHECK(shards.shares[1].blocks[0].stored.key == "p0/@12");
}

TEST_CASE("if several shard ranks each hold a whole parameter, the lowest of these ranks writes the parameter") {
  for (const ShardForm form : {ShardForm::kWhole, ShardForm::kFlat}) {
    ShareJob two(2, [form](const Communicator& comm) {
      StepFixture::Setup setup = SetupOfShards(kAllStates)(comm);
      setup.params = StepFixture::Describe(kSteppedShapes);
      for (ParamDesc& desc : setup.params) {
        desc.form = form;
        if (form == ShardForm::kFlat) desc.flat_count = desc.shape.Product();
      }
      return setup;
    });
    two.FindOk();
    CHECK(two.shares[0].blocks.size() == two.job[0].plan().blocks.size());
    CHECK(two.shares[1].blocks.empty());
  }
}

TEST_CASE(
    "if two copies of an optimizer differ in the first or the last element of a state, all ranks return an error") {
  for (const size_t element : {0, 9999}) {
    ShareJob three(3, SetupOfCopies({{100, 100}}, "momentum=0.5"));
    three.job[2].StateOf("p0/0/momentum")[element] = 1;
    three.Find();
    CheckAllFail(three.statuses, Code::kInvalid, "rank 2: ranks 0 and 2 both have parameter \"p0\", but the states");
  }
}

TEST_CASE("all ranks use the largest value of checkpoint_keep on any rank") {
  ShareJob three(3, [](const Communicator& comm) {
    const char* const keep = comm.rank() == 1 ? "5" : "2";
    return SetupOfReplicas(kAllStates + Cat("checkpoint_keep=", keep))(comm);
  });
  three.FindOk();
  for (const LocalShare& share : three.shares) CHECK(share.keep == 5);
}

// Calls work(ranks, number of the rank) on the thread of each rank.
template <typename Work>
void RunOnRanks(ThreadRanks* threads, Work&& work) {
  threads->Run([&](int rank) { work(CommRanks(threads->comm(rank).get()), static_cast<size_t>(rank)); });
}

// An item (duplicates.h) has a hash that identifies it and a hash of its contents, such as {11, 1}.
TEST_CASE("FindDuplicates marks items that lower ranks have, and returns a lower rank on which a marked item differs") {
  const std::vector<Item> items[] = {{{11, 1}, {22, 2}}, {{33, 3}, {22, 2}, {22, 2}}, {{44, 4}, {33, 9}, {22, 7}}, {}};
  ThreadRanks threads(4);
  std::vector<Duplicates> found(4);
  RunOnRanks(&threads,
             [&](const Ranks& ranks, size_t rank) { CheckOk(FindDuplicates(ranks, items[rank], &found[rank])); });
  CHECK(found[0].is_duplicate == std::vector<bool>{false, false});
  CHECK(found[1].is_duplicate == std::vector<bool>{false, true, true});
  CHECK(found[1].differs_from == -1);
  CHECK(found[2].is_duplicate == std::vector<bool>{false, true, true});
  CHECK(found[2].differs_from == 0);
  CHECK(found[2].differs_in == 2);
  CHECK(found[3].is_duplicate.empty());
}

TEST_CASE("a duplicate that is last in a full exchange, or alone in a second exchange, is found") {
  constexpr size_t kRoom = 32768;  // one exchange has room for this many items of each of two ranks
  for (const size_t count : {kRoom, kRoom + 1}) {
    ThreadRanks threads(2);
    std::vector<Duplicates> found(2);
    RunOnRanks(&threads, [&](const Ranks& ranks, size_t rank) {
      std::vector<Item> items(count);
      for (size_t i = 0; i < count; ++i) items[i] = {static_cast<int64_t>(rank * count + i), 0};
      items.back() = {-1, 0};
      CheckOk(FindDuplicates(ranks, items, &found[rank]));
    });
    std::vector<bool> expected(count, false);
    CHECK(found[0].is_duplicate == expected);
    expected.back() = true;
    CHECK(found[1].is_duplicate == expected);
  }
}

TEST_CASE("BroadcastFromFirst returns on all ranks the number that rank 0 passes") {
  ThreadRanks threads(3);
  std::vector<int64_t> numbers(3, -1);
  RunOnRanks(&threads, [&](const Ranks& ranks, size_t rank) {
    CheckOk(ranks.BroadcastFromFirst(static_cast<int64_t>(rank) + 7, &numbers[rank]));
  });
  CHECK(numbers == std::vector<int64_t>(3, 7));
}

TEST_CASE("Collect sends the strings of each rank to rank 0 in order, even if this takes several exchanges") {
  const size_t counts[] = {0, 5, 1};
  ThreadRanks threads(3);
  std::string first_letters[3];
  RunOnRanks(&threads, [&](const Ranks& ranks, size_t rank) {
    const auto make = [](size_t i) { return std::string(600000, static_cast<char>('a' + i)); };
    const auto take = [&](int from, const std::string& text) {
      CHECK(rank == 0);
      CHECK(text.size() == 600000);
      first_letters[from] += text[0];
    };
    Status own;
    CheckOk(ranks.Collect(counts[rank], make, take, &own));
    CheckOk(own);
  });
  CHECK(first_letters[0].empty());
  CHECK(first_letters[1] == "abcde");
  CHECK(first_letters[2] == "a");
}

TEST_CASE(
    "if a string is too long, Collect fails on all ranks; if a rank cannot make strings, only its own status is an "
    "error") {
  for (const bool too_long : {false, true}) {
    ThreadRanks threads(2);
    std::vector<Status> statuses(2);
    std::vector<Status> own(2);
    int received = 0;
    RunOnRanks(&threads, [&](const Ranks& ranks, size_t rank) {
      int made = 0;
      const auto make = [&](size_t) -> std::string {
        // Collect() makes the first three calls to get the lengths of the strings.
        if (rank == 1 && !too_long && ++made > 3) throw std::bad_alloc();
        return std::string(rank == 1 && too_long ? (1 << 20) + 1 : 10, 'x');
      };
      statuses[rank] = ranks.Collect(
          3, make, [&](int, const std::string&) { ++received; }, &own[rank]);
    });
    const char* const says = "rank 1: in the index of the checkpoint, the entry of a parameter, a group or a block has";
    too_long ? CheckAllFail(statuses, Code::kInvalid, says) : CheckAllOk(statuses);
    CHECK(received == (too_long ? 0 : 3));
    CheckOk(own[0]);
    CHECK(own[1].code() == (too_long ? Code::kOk : Code::kNoMemory));
  }
}

}  // namespace
}  // namespace shampoo
