// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of communicators that deliver wrong bytes, for example because the communicators confuse ranks or calls. A rank
// that receives an invalid number returns SHAMPOO_E_COMM. The other ranks learn of this error in the same way as they
// learn of a failed collective. Wrong bytes never make a rank access memory out of bounds or wait forever.
#include <cstring>
#include <random>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/distributed/models.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// A number that a rank receives from another rank in the first exchange of a step, and the invalid value that replaces
// this number.
struct Number {
  Kind kind;
  const char* what;
  int64_t from_segment;  // offset of the number in the data of the other rank, in bytes
  int64_t value;
  size_t bytes = 8;
};
constexpr int64_t kHuge = int64_t{1} << 62;
constexpr Kind kReplicas{3, 1}, kShards{1, 3}, kGathered{1, 3, "gather", false};
const Number kNumbers[] = {
    {kReplicas, "status code", 0, 12, 4},
    {kReplicas, "status code", 0, 1 << 20, 4},
    {kReplicas, "set of flags", 4, -1, 4},
    {kReplicas, "optimizer number", 8, kHuge},
    {kReplicas, "factor matrix index", 48, 1000000},
    {kReplicas, "factor matrix index", 48, kHuge},
    {kShards, "status code", 0, 1 << 20, 4},
    {kShards, "set of flags", 4, 255, 4},
    {kShards, "set of flags", 4, 16, 4},
    {kShards, "optimizer number", 8, kHuge},
    {kShards, "step of a group", 24, -5},
    {kShards, "step of a group", 24, kHuge},
    {kShards, "state of a gradient", 32, 77, 1},
    {kGathered, "status code", 0, -3, 4},
    {kGathered, "set of flags", 4, 255, 4},
};

// Makes the communicator replace `number`, which rank `faulty` receives from the next rank in collective `call`,
// counted from 1. If faulty is -1, the communicator replaces this number on all ranks.
void Arm(Grid* grid, const Number& number, int faulty, int64_t call) {
  const int world = grid->world();
  grid->comm().change = [=](int rank, int64_t at, char* received, size_t bytes) {
    if (at != call || (faulty >= 0 && rank != faulty)) return;
    const size_t segment = bytes / static_cast<size_t>(world);
    const auto from = static_cast<size_t>((rank + 1) % world);
    std::memcpy(received + from * segment + number.from_segment, &number.value, number.bytes);
  };
}

// Makes steps on every rank until the rank fails. If once_more is true, the faulty rank then makes another step. If
// the failed step had no later exchange, the faulty rank reports its error to the other ranks in this other step.
// Checks that all ranks fail without a timeout.
void StepUntilFailed(Grid* grid, const Number& number, int faulty, std::chrono::milliseconds patience,
                     bool once_more = false) {
  Arm(grid, number, faulty, kCallsOfCreate + 1);
  CreateAndFill(grid, patience);
  RequireOk(*grid);
  OnEveryRank(grid->world(), [&](int rank) {
    for (int t = 0; t < 5 && (*grid)[rank].status == SHAMPOO_OK; ++t) (*grid)[rank].Step();
    if (once_more && rank == faulty) (*grid)[rank].Step();
  });
  CHECK_MESSAGE(grid->All(SHAMPOO_E_COMM), grid->Errors());
  CHECK(grid->timeouts() == 0);
}

TEST_CASE("a rank that receives an invalid number returns SHAMPOO_E_COMM, and abort ends the waiting of other ranks") {
  for (const Number& number : kNumbers) {
    for (const int faulty : {-1, 0, 2}) {
      CAPTURE_ALL(number.what, number.value, faulty);
      Grid grid(MatrixAndVectorSpec(), number.kind, true);
      StepUntilFailed(&grid, number, faulty, std::chrono::seconds(20));
      const std::string& error = grid[faulty < 0 ? 1 : faulty].error;
      CHECK_MESSAGE(Has(error, std::string("received an invalid ") + number.what), error);
      CHECK_MESSAGE(Has(error, "same build of libshampoo"), error);
    }
  }
}

TEST_CASE("without abort, other ranks learn in the next exchange that a rank has received an invalid number") {
  for (const Number& number : kNumbers) {
    for (const char* const bucket : {"0", "600"}) {
      CAPTURE_ALL(number.what, number.value, bucket);
      const int faulty = 1;
      Grid grid(MatrixAndVectorSpec({{"comm_bucket_bytes", bucket}}), number.kind);
      StepUntilFailed(&grid, number, faulty, std::chrono::seconds(5), true);
      for (int rank = 0; rank < grid.world(); ++rank) {
        if (rank != faulty) CHECK_MESSAGE(Has(grid[rank].error, "rank 1"), grid[rank].error);
      }
    }
  }
}

TEST_CASE("all ranks return SHAMPOO_E_COMM if one rank or all ranks receive an invalid number in create") {
  struct Case {
    int64_t call;  // calls 1 to 3 exchange, in this order: status codes, hashes of plans, numbers of lines of plans
    int64_t value;
    const char* says;
  };
  for (const Case& one :
       {Case{1, int64_t{1} << 32, "invalid status code"}, Case{1, -1, "invalid status code"},
        Case{3, kHuge, "invalid number of plan lines"}, Case{3, INT64_MIN, "invalid number of plan lines"},
        Case{3, 1 << 20, "the hashes of the plans differ between ranks, but "}}) {
    for (const bool all : {true, false}) {
      if (one.call == 3 && !all) continue;  // only rank 0 would find different hashes and make call 3
      for (const Kind kind : {Kind{3, 1}, Kind{1, 2}, Kind{1, 3, "gather"}}) {
        CAPTURE_ALL(one.call, one.value, all, kind);
        Grid grid(MatrixAndVectorSpec(), kind, true);
        const int world = grid.world();
        grid.comm().change = [&](int rank, int64_t call, char* received, size_t bytes) {
          if (!all && rank != 0) return;
          // In call `one.call`, the test replaces the number of the last rank in the data that the other ranks receive
          // or, if `all` is false, in the data that rank 0 receives. A rank makes call 3 only if it finds different
          // hashes in call 2. If one.call is 3, the test therefore also replaces the hash of the last rank in call 2.
          // In this case, it also replaces the hash and the number of rank 0 in the data that the last rank receives.
          const size_t last = bytes / static_cast<size_t>(world) * static_cast<size_t>(world - 1);
          const int64_t other = 12345;
          if (rank + 1 < world && call == one.call) std::memcpy(received + last, &one.value, 8);
          if (rank + 1 < world && one.call == 3 && call == 2) std::memcpy(received + last, &other, 8);
          if (rank + 1 == world && one.call == 3 && call == 2) std::memcpy(received, &other, 8);
          if (rank + 1 == world && one.call == 3 && call == 3) std::memcpy(received, &one.value, 8);
        };
        CreateAndFill(&grid, std::chrono::seconds(20));
        CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
        CHECK(grid.timeouts() == 0);
        const std::string& error = grid[0].error;
        CHECK_MESSAGE(Has(error, one.says), error);
        grid.Destroy();
        CHECK(grid.comm().released() == world);
      }
    }
  }
}

// Changes a few random bytes of received data. These bytes are usually near the start of the data of one sender,
// because statuses, sizes and other numbers are there.
class Garbler {
 public:
  explicit Garbler(uint64_t seed) : random_(seed) {}

  void Change(char* received, size_t bytes, int world) {
    if (bytes == 0 || Below(2) == 0) return;
    const size_t segment = bytes / static_cast<size_t>(world);
    for (uint64_t changes = 1 + Below(4); changes > 0; --changes) {
      const size_t within = static_cast<size_t>(Below(Below(5) < 3 ? std::min<size_t>(segment, 96) : segment));
      const size_t at =
          std::min(bytes - 1, static_cast<size_t>(Below(static_cast<uint64_t>(world))) * segment + within);
      static constexpr uint64_t kMagic[] = {
          0, 1, UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 32, uint64_t{1} << 40, 0x7fffffff, 4096, 64};
      const uint64_t magic = kMagic[Below(std::size(kMagic))];
      switch (Below(4)) {
        case 0:
          received[at] = static_cast<char>(received[at] ^ (1 << Below(8)));
          break;
        case 1:
          received[at] = static_cast<char>(Below(2) == 0 ? 255 : 0);
          break;
        case 2:
          if (at / 8 * 8 + 8 <= bytes) std::memcpy(received + at / 8 * 8, &magic, 8);
          break;
        default:
          received[at] = static_cast<char>(Below(256));
      }
    }
  }

 private:
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : random_() % n; }

  std::mt19937_64 random_;
};

// Ranks whose communicators change bytes that one rank or all ranks receive. The communicators do so in one of four
// phases (create, steps, save, load) or in all phases.
class GarbledJob {
 public:
  explicit GarbledJob(uint64_t seed) : random_(seed), kind_(RandomKind()), grid_(RandomSpec(), kind_, true) {
    for (uint64_t rank = 0; rank < static_cast<uint64_t>(grid_.world()); ++rank)
      garblers_.emplace_back(seed * 1000 + rank);
    victim_ = static_cast<int>(random_() % static_cast<uint64_t>(grid_.world() + 1));  // world() means all ranks
    garbled_phase_ = static_cast<int>(random_() % 5);  // 0: create; 1: steps; 2: save; 3: load; 4: all phases
    grid_.SetAllToAll(random_() % 2 == 0);
    // A failed rank aborts all communicators. If wrong bytes make ranks wait for each other in different communicators
    // before any rank has failed, the wait ends after this time.
    grid_.SetPatience(std::chrono::milliseconds(100));
    for (int s = 0; s < kind_.shards; ++s) {
      Garble(&grid_.replicas_of(s), [s, shards = kind_.shards](int r) { return r * shards + s; });
    }
    for (int r = 0; r < kind_.replicas; ++r) {
      Garble(&grid_.shards_of(r), [r, shards = kind_.shards](int shard) { return r * shards + shard; });
    }
    Garble(&grid_.all(), [](int rank) { return rank; });
  }

  void Run(const std::string& directory) {
    phase_ = 0;
    grid_.Create();
    CheckStatuses();
    if (!grid_.All(SHAMPOO_OK)) return;
    grid_.FillParams(1);
    grid_.FillGradients(2);
    for (int step = 0; step < 3; ++step) InPhase(1, [](Rank& rank) { rank.Step(); });
    InPhase(2, [&](Rank& rank) { rank.Save(directory); });
    InPhase(3, [&](Rank& rank) { rank.Load(directory); });
    if (grid_.All(SHAMPOO_OK)) return;
    over_ = false;
    // A step after a failure may succeed or fail. InPhase() checks that its status is a documented code.
    for (int step = 0; step < 2; ++step) InPhase(1, [](Rank& rank) { rank.Step(); });
  }
  int failures() const { return failures_; }

 private:
  Kind RandomKind() {
    const Kind kinds[] = {{2, 1}, {3, 1}, {1, 2}, {1, 3, "gather"}, {2, 2}, {2, 2, "gather"}, {3, 2, "gather"}};
    return kinds[random_() % std::size(kinds)];
  }
  RankSpec RandomSpec() {
    return MatrixAndVectorSpec(
        {{"comm_bucket_bytes", random_() % 2 == 0 ? "0" : "600"}, {"verify_replicas", random_() % 2 == 0 ? "0" : "1"}});
  }
  template <typename RankOf>
  void Garble(ThreadComm* comm, RankOf&& rank_of) {
    comm->change = [this, comm, rank_of](int own, int64_t, char* received, size_t bytes) {
      const int rank = rank_of(own);
      const bool is_garbled = garbled_phase_ == 4 || garbled_phase_ == phase_;
      if (!is_garbled || (victim_ != grid_.world() && victim_ != rank)) return;
      garblers_[static_cast<size_t>(rank)].Change(received, bytes, comm->world());
    };
  }
  template <typename Call>
  void InPhase(int phase, Call&& call) {
    if (over_) return;
    phase_ = phase;
    OnEveryRank(grid_.world(), [&](int rank) {
      call(grid_[rank]);
      if (grid_[rank].status == SHAMPOO_OK) return;
      for (ThreadComm* const comm : grid_.comms()) comm->Abort();
      grid_.all().Abort();
    });
    CheckStatuses();
    over_ = !grid_.All(SHAMPOO_OK);
  }
  // Checks that all statuses are documented codes, and none is SHAMPOO_E_INTERNAL or an unexpected SHAMPOO_E_NOMEM.
  void CheckStatuses() {
    for (int rank = 0; rank < grid_.world(); ++rank) {
      const shampoo_status status = grid_[rank].status;
      if (status == SHAMPOO_OK) continue;
      ++failures_;
      CHECK_MESSAGE(std::string(shampoo_status_name(status)) != "unknown status", grid_.Errors());
      CHECK_MESSAGE(status != SHAMPOO_E_INTERNAL, grid_.Errors());
      // SHAMPOO_E_NOMEM is allowed only if a changed byte has turned the status of another rank into this code.
      const bool own_memory = !Has(grid_[rank].error, "failed, but sent no error message");
      CHECK_MESSAGE(!(status == SHAMPOO_E_NOMEM && own_memory), grid_.Errors());
      CHECK_MESSAGE(!grid_[rank].error.empty(), grid_.Errors());
    }
  }

  std::mt19937_64 random_;
  Kind kind_;
  Grid grid_;
  std::vector<Garbler> garblers_;
  int victim_ = 0;
  int garbled_phase_ = 0;
  int phase_ = 0;
  bool over_ = false;
  int failures_ = 0;
};

void RunGarbledJobs(uint64_t first, uint64_t count) {
  const Scratch scratch;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    GarbledJob job(seed);
    job.Run(scratch / ("job" + std::to_string(seed)));
    failures += job.failures();
  }
  CHECK(failures > static_cast<int>(count) / 2);
}

TEST_CASE("calls over communicators that change bytes return documented codes") { RunGarbledJobs(1, 100); }

TEST_SUITE("long") {
  TEST_CASE("many calls over communicators that change bytes return documented codes") { RunGarbledJobs(1000, 3000); }
}

}  // namespace
}  // namespace shampoo_test
