// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Each call of CUDA of one rank fails in turn, while the others make the same step: no rank waits forever.
#include <functional>
#include <map>

#include "tests/cuda/faults/attempts.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

constexpr int kRanks = 3;
constexpr int kFaulty = 1;
constexpr HostComms kOnHost{true, true};

// Returns the specification of a model with roots at every second step. bucket: 0 for one exchange in a step.
ModelSpec SpecOfRanks(const char* lag, const char* bucket = "0") {
  ModelSpec spec = FiveShapes({{"status_lag", lag}, {"comm_bucket_bytes", bucket}});
  spec.params = {{{5}}, {{2, 3}}, {{4, 3}}, {{5}}, {{2, 3}}, {{4, 3}}};  // two parameters for each rank
  return spec;
}

shampoo_status CodeOf(int64_t n) { return n % 2 == 0 ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE; }

void FailHere(int64_t n) {
  fake_cuda_fail_here(nullptr, n, n % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure);
}

bool Says(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

// Returns whether the faulty rank, whose nth call failed, reports this call or a failure of its communicator.
bool ReportsFailure(shampoo_status status, const std::string& text, int64_t n) {
  if (status == CodeOf(n)) return Says(text, "(...) failed: cu") || Says(text, "(...) failed: CU");
  return status == SHAMPOO_E_COMM && Says(text, "rank 1: all_gather of the communicator returned");
}

void Begin(DeviceRanks* ranks) {
  ranks->FillParams(1);
  ranks->Step(1);
  ranks->Status();
  REQUIRE(ranks->DifferencesFrom(SHAMPOO_OK) == "");
  ranks->FillGradients(2);
}

// A rank that fails before the exchange of a step does not join it. Its program aborts the communicator, which ends the
// waits of the others.
TEST_CASE(
    "a rank fails and the communicator is aborted: the others return, and parameters are those before or after the "
    "step" *
    doctest::test_suite("long")) {
  struct Case {
    const char* lag;
    const char* bucket;  // comm_bucket_bytes
    HostComms on_host;
  };
  for (const Case& one : {Case{"0", "0", {}}, Case{"1", "0", {}}, Case{"1", "0", kOnHost}, Case{"1", "256", {}}}) {
    const bool divided = one.bucket != std::string("0");
    std::map<shampoo_status, int> others_said;
    for (int64_t n = 1;; ++n) {
      CAPTURE(std::string(one.lag));
      CAPTURE(one.on_host.of_replicas);
      CAPTURE(divided);
      CAPTURE(n);
      REQUIRE(n < 1000);
      const Stage stage;
      DeviceRanks ranks(SpecOfRanks(one.lag, one.bucket), kRanks, 1, nullptr, false, one.on_host);
      Begin(&ranks);
      const auto before = ranks.Params();
      ranks.OnEvery([&](int rank, Model* model) {
        model->Bind();
        if (rank == kFaulty) FailHere(n);
        const shampoo_status status = shampoo_optimizer_step(model->optimizer, model->stream);
        if (status != SHAMPOO_OK) ranks.Abort();
        return status;
      });
      if (fake_cuda_cancel_failures() != 0) {
        CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
        break;
      }
      if (HasFailedInEigensolver()) {
        CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
        continue;
      }
      CAPTURE(ranks.text(kFaulty));
      CHECK(ReportsFailure(ranks.status(kFaulty), ranks.text(kFaulty), n));
      const shampoo_status others = ranks.status(0);
      ++others_said[others];
      for (const int rank : {0, 2}) {
        CAPTURE(ranks.text(rank));
        CHECK(ranks.status(rank) == others);
        if (others == SHAMPOO_OK) continue;
        CHECK(others == SHAMPOO_E_COMM);
        CHECK(Says(ranks.text(rank), ("rank " + std::to_string(rank) + ": all_gather of the").c_str()));
      }
      const auto after = ranks.Params();
      const size_t of_one = before.size() / kRanks;
      for (size_t i = 0; i < after.size(); ++i) {
        const bool is_faulty = i / of_one == kFaulty;
        // If the others have made the step, the faulty rank may have failed in its last launches.
        if (others == SHAMPOO_OK && is_faulty) {
          CHECK((after[i] == before[i] || after[i] == after[i % of_one]));
        } else if (others == SHAMPOO_OK || !divided) {  // if divided, an earlier bucket may have been applied
          CHECK((after[i] == before[i]) == (others != SHAMPOO_OK));
        }
      }
      ranks.Step();
      for (int rank = 0; rank < kRanks; ++rank) CHECK(ranks.status(rank) == SHAMPOO_E_COMM);
    }
    CHECK(others_said.size() == 2);
    CHECK(others_said[SHAMPOO_E_COMM] > 40);
    CHECK(others_said[SHAMPOO_OK] > 2);
  }
}

// How the shards exchange data in a step.
struct ShardKind {
  const char* mode;  // shard_mode
  bool has_all_to_all;
  HostComms on_host = {};
  const char* bucket = "0";  // comm_bucket_bytes
};
constexpr ShardKind kShardKinds[] = {{"local", false},
                                     {"gather", false},
                                     {"gather", true},
                                     {"local", false, kOnHost},
                                     {"gather", true, kOnHost},
                                     {"gather", false, {false, true}},
                                     {"local", false, {}, "256"},
                                     {"gather", true, {}, "256"}};

// One or more copies of a model, each divided into two shards.
struct Shards : DeviceRanks {
  Shards(const ShardKind& kind, int copies)
      : DeviceRanks(SpecOf(kind), copies, 2, nullptr, kind.has_all_to_all, kind.on_host) {}
  static ModelSpec SpecOf(const ShardKind& kind) {
    ModelSpec spec = SpecOfRanks("1", kind.bucket);
    spec.keys = spec.keys + Keys{{"shard_mode", kind.mode}};
    return spec;
  }
  // Makes a step. fail(): called on the faulty rank. Aborts the communicators if a rank returns an error that is
  // not the error of a collective.
  void StepAndFail(const std::function<void()>& fail) {
    OnEvery([&](int rank, Model* model) {
      model->Bind();
      if (rank == kFaulty) fail();
      const shampoo_status status = shampoo_optimizer_step(model->optimizer, model->stream);
      if (status != SHAMPOO_OK && status != SHAMPOO_E_COMM) Abort();
      return status;
    });
  }
  // Call after the faulty rank has failed.
  void CheckThatAllEnd(std::map<shampoo_status, int>* others_said) {
    for (int rank = 0; rank < world(); ++rank) {
      if (rank == kFaulty) continue;
      CAPTURE(text(rank));
      CHECK((status(rank) == SHAMPOO_OK || status(rank) == SHAMPOO_E_COMM));
      ++(*others_said)[status(rank)];
    }
    Step();
    for (int rank = 0; rank < world(); ++rank) CHECK(status(rank) == SHAMPOO_E_COMM);
  }
};

// If a collective of a rank fails, the library also aborts the other communicator of this rank, so that no rank waits.
// After other failures the program must abort both communicators.
TEST_CASE("a shard fails: all shards of all copies return, and later steps fail on all of them" *
          doctest::test_suite("long")) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) {
      if (copies == 1 && kind.on_host.of_shards) continue;
      std::map<shampoo_status, int> others_said;
      for (int64_t n = 1;; ++n) {
        CAPTURE(std::string(kind.mode));
        CAPTURE(kind.has_all_to_all);
        CAPTURE(std::string(kind.bucket));
        CAPTURE(kind.on_host.of_shards);
        CAPTURE(copies);
        CAPTURE(n);
        REQUIRE(n < 1000);
        const Stage stage;
        Shards ranks(kind, copies);
        Begin(&ranks);
        ranks.StepAndFail([n] { FailHere(n); });
        if (fake_cuda_cancel_failures() != 0) {
          CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
          break;
        }
        CAPTURE(ranks.text(kFaulty));
        const shampoo_status status = ranks.status(kFaulty);
        // The step succeeds if the failed call restored settings of the thread, or if another eigensolver computes the
        // roots.
        if (status == SHAMPOO_OK) {
          CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
          continue;
        }
        CHECK((status == CodeOf(n) || status == SHAMPOO_E_COMM));
        ranks.CheckThatAllEnd(&others_said);
      }
      CHECK(others_said[SHAMPOO_E_COMM] > 10);
      CHECK(others_said[SHAMPOO_OK] > 2);
    }
  }
}

// Returns the number of collectives of a step over the communicator of the shards, or of the copies.
int64_t CollectivesOf(const ShardKind& kind, int copies, bool of_shards) {
  const bool gathers = kind.mode == std::string("gather");
  const bool divided = kind.bucket != std::string("0") && (gathers || copies > 1);
  const int64_t buckets = !divided ? 1 : gathers && copies > 1 ? 2 : 3;
  if (!of_shards) return buckets + (gathers || divided ? 1 : 0);  // updates, and headers before anything is written
  // Agreements, and with gathered blocks the exchanges to and from their owners.
  return (gathers ? 2 + 2 * buckets : 1) + (copies > 1 ? 1 : 0);
}

TEST_CASE("a collective of a shard fails: all shards of all copies return, and later steps fail on all of them" *
          NeedsFake()) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) {
      for (const bool of_shards : {true, false}) {
        if (copies == 1 && !of_shards) continue;
        for (const bool takes_part : {false, true}) {
          std::map<shampoo_status, int> others_said;
          int64_t n = 1;
          for (;; ++n) {
            CAPTURE(std::string(kind.mode));
            CAPTURE(kind.has_all_to_all);
            CAPTURE(std::string(kind.bucket));
            CAPTURE(kind.on_host.of_shards);
            CAPTURE(copies);
            CAPTURE(of_shards);
            CAPTURE(takes_part);
            CAPTURE(n);
            const Stage stage;
            Shards ranks(kind, copies);
            Begin(&ranks);
            ThreadComm& comm = ranks.CommOf(kFaulty, of_shards);
            const int faulty = (of_shards ? ranks.shard_ops(kFaulty) : ranks.replica_ops(kFaulty))->rank;
            const int64_t failing_call = comm.calls(faulty) + n;
            const auto fails = [faulty, failing_call](int rank, int64_t call) {
              return rank == faulty && call == failing_call ? 7 : 0;
            };
            (takes_part ? comm.after : comm.before) = fails;
            ranks.StepAndFail([] {});
            if (comm.calls(faulty) < failing_call) {
              CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
              break;
            }
            CHECK(ranks.status(kFaulty) == SHAMPOO_E_COMM);
            ranks.CheckThatAllEnd(&others_said);
          }
          CHECK(n - 1 == CollectivesOf(kind, copies, of_shards));
          // With several copies, the ranks of another shard may already have made their last exchange.
          if (!takes_part && copies == 1) CHECK(others_said[SHAMPOO_OK] == 0);
        }
      }
    }
  }
}

// A rank that repeats its step joins the exchange in which the others wait. If the others have already left this
// exchange, all ranks detect that the rank is behind, by its step number or by its exchange number within a step.
TEST_CASE("a rank fails and repeats the step: training continues, or ends on all ranks" * NeedsFake()) {
  struct Case {
    const char* bucket;
    HostComms on_host;
  };
  for (const Case& one : {Case{"0", {}}, Case{"64", {}}, Case{"64", kOnHost}}) {
    std::map<shampoo_status, int> ended;
    int lost_again = 0;
    for (int64_t n = 1;; ++n) {
      CAPTURE(std::string(one.bucket));
      CAPTURE(one.on_host.of_replicas);
      CAPTURE(n);
      REQUIRE(n < 1000);
      const Stage stage;
      DeviceRanks ranks(SpecOfRanks("0", one.bucket), kRanks, 1, nullptr, false, one.on_host);
      Begin(&ranks);
      bool tried = false;
      bool again = false;
      int64_t left = 0;
      ranks.OnEvery([&](int rank, Model* model) {
        model->Bind();
        if (rank == kFaulty) FailHere(n);
        while (true) {
          const shampoo_status status = shampoo_optimizer_step(model->optimizer, model->stream);
          if (rank == kFaulty && !tried) {
            tried = true;
            left = fake_cuda_cancel_failures();
            again = status == CodeOf(n);
            if (again) continue;
          }
          if (status != SHAMPOO_OK || model->State("group.0/step")[0] >= 4) return status;
        }
      });
      if (left != 0) {
        CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
        break;
      }
      const shampoo_status status = ranks.status(0);
      ++ended[status];
      if (status == SHAMPOO_OK || status == SHAMPOO_E_STATE) {
        CHECK(ranks.DifferencesFrom(status, {status == SHAMPOO_OK ? "" : "rank 1 is at step "}) == "");
        CHECK((status != SHAMPOO_OK || ranks.SameParams()));
      } else {
        for (int rank = 0; rank < kRanks; ++rank) CHECK(ranks.status(rank) == SHAMPOO_E_COMM);
        lost_again += again ? 1 : 0;
      }
    }
    // With several buckets, the headers are exchanged before any block is stepped, so more calls come after them.
    CHECK(ended[SHAMPOO_OK] > (one.bucket == std::string("0") ? 20 : 10));
    CHECK(ended[SHAMPOO_E_STATE] > 0);
    CHECK(ended[SHAMPOO_E_COMM] > 0);
    CHECK(ended.size() == 3);
    CHECK((lost_again > 0) == (one.bucket != std::string("0")));
  }
}

// Fails each call of CUDA of one rank's create in turn. Returns how often the others ended with each status.
std::map<shampoo_status, int> FailInCreate(const HostComms& on_host) {
  std::map<shampoo_status, int> others_said;
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 1000);
    const Stage stage;
    DeviceRanks ranks(SpecOfRanks("1"), kRanks, 1, nullptr, false, on_host);
    ranks.FillParams(1);
    ranks.FillGradients(1);
    ranks.OnEvery([&](int rank, Model* model) {
      shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
      if (rank == kFaulty) FailHere(n);
      return ranks.CreateAgain(rank, model->plan.get());
    });
    if (fake_cuda_cancel_failures() != 0) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      break;
    }
    CAPTURE(ranks.text(0));
    CAPTURE(ranks.text(kFaulty));
    const shampoo_status others = ranks.status(0);
    CHECK(ranks.status(2) == others);
    // Create succeeds if the failed call queried a version, which only error messages use, or the workspace of a solver
    // that another solver can replace.
    if (ranks.status(kFaulty) == SHAMPOO_OK) {
      CHECK(others == SHAMPOO_OK);
      continue;
    }
    ++others_said[others];
    if (others == ranks.status(kFaulty) && others != SHAMPOO_E_COMM) CHECK(Says(ranks.text(0), "rank 1: "));
    if (others != SHAMPOO_OK) continue;
    ranks.OnEvery([](int rank, Model* model) { return rank == kFaulty ? SHAMPOO_OK : model->TryStep(); });
    CHECK(ranks.status(0) == SHAMPOO_E_COMM);
    CHECK(ranks.status(2) == SHAMPOO_E_COMM);
  }
  return others_said;
}

// The faulty rank needs device memory to report its failure to the others. If it has none, or if they already have
// their optimizers, it aborts the communicator.
TEST_CASE("create of a rank fails: create or the first step of the others fails, and nothing is leaked" * NeedsFake()) {
  std::map<shampoo_status, int> others_said = FailInCreate({});
  CHECK(others_said[SHAMPOO_E_NOMEM] > 10);
  CHECK(others_said[SHAMPOO_E_DEVICE] > 10);
  CHECK(others_said[SHAMPOO_E_COMM] > 10);
  CHECK(others_said[SHAMPOO_OK] > 3);
}

TEST_CASE("over a communicator of host memory, a rank whose create fails always reports it" *
          doctest::test_suite("long")) {
  std::map<shampoo_status, int> others_said = FailInCreate(kOnHost);
  CHECK(others_said[SHAMPOO_E_NOMEM] > 10);
  CHECK(others_said[SHAMPOO_E_DEVICE] > 10);
  CHECK(others_said[SHAMPOO_E_COMM] == 0);
  CHECK(others_said[SHAMPOO_OK] > 0);  // the initialization of the state fails after the ranks have agreed
}

}  // namespace
}  // namespace shampoo_test
