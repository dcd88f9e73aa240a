// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/faults/faulty_ranks.h"

#include <cmath>
#include <functional>
#include <utility>

#include "tests/cuda/faults/attempts.h"

namespace shampoo_test {
namespace {

constexpr int64_t kTooManyCalls = 1000;

shampoo_status CodeOf(int64_t n) { return n % 2 == 0 ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE; }

// Makes a call of CUDA on the calling thread fail with a CUDA error: the call with the number `n + distance`. The
// library returns CodeOf(n) for this error.
void FailHere(int64_t n, int64_t distance = 0) {
  fake_cuda_fail_here(nullptr, n + distance, n % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure);
}

std::string NameOf(int rank) { return "rank " + std::to_string(rank); }

// Returns whether the value `bucket` of comm_bucket_bytes divides the updates of a step into several exchanges.
bool IsDivided(const char* bucket) { return bucket != std::string("0"); }

// Returns whether the status and the message of a rank report that call number n of CUDA has failed.
bool HasErrorOfCall(shampoo_status status, const std::string& text, int64_t n) {
  return status == CodeOf(n) && (Says(text, "(...) failed: cu") || Says(text, "(...) failed: CU"));
}

// Makes a step and waits for the device.
shampoo_status StepAndWait(Model* model) {
  model->Bind();
  const shampoo_status status = shampoo_optimizer_step(model->optimizer, model->stream);
  return status != SHAMPOO_OK ? status : model->Status();
}

// Exports averages to the memory of the gradients.
shampoo_status Export(Model* model) {
  std::vector<void*> weights;
  for (size_t p = 0; p < model->params(); ++p) weights.push_back(model->grad(p));
  return shampoo_optimizer_export(model->optimizer, 1, static_cast<int32_t>(weights.size()), weights.data());
}

shampoo_status StepOrExport(bool exports, Model* model) { return exports ? Export(model) : StepAndWait(model); }

// Returns the values that a step or an export has written: for each rank in order, the values of each parameter.
std::vector<std::vector<double>> WrittenBy(bool exports, DeviceRanks* ranks) {
  if (!exports) return ranks->Params();
  std::vector<std::vector<double>> values;
  for (int rank = 0; rank < ranks->world(); ++rank) {
    for (size_t p = 0; p < (*ranks)[rank].params(); ++p) values.push_back((*ranks)[rank].GradientValues(p));
  }
  return values;
}

void Begin(DeviceRanks* ranks) {
  ranks->Step(1);
  ranks->MustSucceed();
  ranks->FillGradients(2);
}

ModelSpec SpecOf(const FaultyJob& job) {
  return SpecOfRanks(Keys{{"status_lag", job.lag}} + (job.exports ? Keys("weight_ema=0.5") : Keys{}));
}

std::string NameOf(const FaultyJob& job) {
  return shampoo::Cat(NameOf(job.kind), ", faulty rank ", job.faulty, ", status_lag ", job.lag,
                      job.exports ? ", export" : "");
}

struct Shards : DeviceRanks {
  explicit Shards(const FaultyJob& job)
      : DeviceRanks(SpecOf(job), job.kind), faulty(job.faulty), exports(job.exports) {}
  // Makes a step or an export on all ranks. The faulty rank first calls fail().
  void StepAndFail(const std::function<void()>& fail) {
    OnEvery([&](int rank, Model* model) {
      if (rank == faulty) fail();
      return StepOrExport(exports, model);
    });
  }
  // Returns whether all ranks have returned the error of call number n. If they have, the faulty rank has reported the
  // error to the other ranks.
  bool AllHaveErrorOfCall(int64_t n) {
    bool all = true;
    for (int rank = 0; rank < world(); ++rank) all = all && HasErrorOfCall(status(rank), text(rank), n);
    return all;
  }
  // Checks a job whose faulty rank could not report its error. The calls of the other ranks must succeed or report a
  // failed communicator, and a later step must fail on all ranks.
  void CheckThatAllEnd(Endings* endings) {
    for (int rank = 0; rank < world(); ++rank) {
      if (rank == faulty) continue;
      CAPTURE(text(rank));
      CHECK((status(rank) == SHAMPOO_OK || status(rank) == SHAMPOO_E_COMM));
      ++(*endings)[status(rank)];
    }
    Step();
    for (int rank = 0; rank < world(); ++rank) CHECK(status(rank) == SHAMPOO_E_COMM);
  }
  const int faulty;
  const bool exports;
};

// Returns the number of collectives that a step or an export makes among the shards of a replica if of_shards is true,
// or among the replicas of a shard if of_shards is false.
int64_t CollectivesOf(const RankKind& kind, bool of_shards) {
  const bool gathers = kind.gathers();
  const bool divided = IsDivided(kind.bucket) && (gathers || kind.copies > 1);
  // If comm_bucket_bytes divides the updates, the model of SpecOfRanks() has two or three buckets.
  const int64_t buckets = !divided ? 1 : gathers && kind.copies > 1 ? 2 : 3;
  // Replicas exchange the updates of each bucket. If blocks are gathered or updates are divided, replicas first agree
  // on the step in a separate exchange.
  if (!of_shards) return buckets + (gathers || divided ? 1 : 0);
  // Shard ranks agree on the step: twice if blocks are gathered, otherwise once. If there are several replicas, shard
  // ranks agree once more. If blocks are gathered, each bucket is also sent to the owners of its blocks and back.
  return (gathers ? 2 + 2 * buckets : 1) + (kind.copies > 1 ? 1 : 0);
}

}  // namespace

ModelSpec SpecOfRanks(const Keys& more) {
  ModelSpec spec = FiveShapes(more);
  spec.params = {{{5}}, {{2, 3}}, {{4, 3}}, {{5}}, {{2, 3}}, {{4, 3}}};
  return spec;
}

bool Says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

void FailCollective(ThreadComm* comm, int rank, int64_t call, bool takes_part) {
  (takes_part ? comm->after : comm->before) = [rank, call](int by, int64_t now) {
    return by == rank && now == call ? 7 : 0;
  };
}

void CheckThatStepsFail(DeviceRanks* ranks) {
  ranks->OnEvery([&](int, Model* model) { return model->optimizer != nullptr ? model->TryStep() : SHAMPOO_E_COMM; });
  for (int rank = 0; rank < ranks->world(); ++rank) CHECK(ranks->status(rank) == SHAMPOO_E_COMM);
}

void FailInStepOfReplicas(const FaultyJob& job) {
  const bool divided = IsDivided(job.kind.bucket);
  const int faulty = job.faulty;
  Endings endings;
  for (int64_t n = 1;; ++n) {
    INFO(NameOf(job), ", call ", n);
    REQUIRE(n < kTooManyCalls);
    const Stage stage;
    DeviceRanks ranks(SpecOf(job), job.kind);
    Begin(&ranks);
    const auto before = WrittenBy(job.exports, &ranks);
    ranks.OnEvery([&](int rank, Model* model) {
      if (rank == faulty) FailHere(n);
      return StepOrExport(job.exports, model);
    });
    if (fake_cuda_cancel_failures() != 0) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      break;
    }
    if (HasFailedInEigensolver()) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      continue;
    }
    CAPTURE(ranks.text(faulty));
    const shampoo_status others = ranks.status(faulty == 0 ? 1 : 0);
    ++endings[others];
    const bool is_reported = others == CodeOf(n);
    if (is_reported) CHECK(ranks.DifferencesFrom(others, {NameOf(faulty) + ": ", "(...) failed: "}) == "");
    if (!is_reported) {
      CHECK((HasErrorOfCall(ranks.status(faulty), ranks.text(faulty), n) || ranks.status(faulty) == SHAMPOO_E_COMM));
    }
    for (int rank = 0; rank < kReplicas && !is_reported; ++rank) {
      if (rank == faulty) continue;
      CAPTURE(ranks.text(rank));
      CHECK(ranks.status(rank) == others);
      if (others == SHAMPOO_OK) continue;
      CHECK(others == SHAMPOO_E_COMM);
      CHECK(Says(ranks.text(rank), NameOf(rank) + ": all_gather of the"));
    }
    const auto after = WrittenBy(job.exports, &ranks);
    const size_t of_one = before.size() / kReplicas;
    const size_t of_another = of_one * (faulty == 0 ? 1 : 0);  // index of the first parameter of another rank
    for (size_t i = 0; i < after.size(); ++i) {
      const bool is_faulty = i / of_one == static_cast<size_t>(faulty);
      // If the other ranks have made the step, the faulty rank may have failed before or after it wrote this parameter.
      if (others == SHAMPOO_OK && is_faulty) {
        CHECK((after[i] == before[i] || after[i] == after[of_another + i % of_one]));
      } else if (others != SHAMPOO_E_COMM || !divided) {  // otherwise, ranks may have applied an earlier bucket
        CHECK((after[i] == before[i]) == (others != SHAMPOO_OK));
      }
    }
    ranks.Step();
    for (int rank = 0; rank < kReplicas; ++rank) {
      CHECK(ranks.status(rank) == (is_reported ? SHAMPOO_OK : SHAMPOO_E_COMM));
    }
    if (is_reported) CHECK(ranks.SameParams());
  }
  // The faulty rank can report an error only until the replicas agree on the step. If the updates are divided, the
  // replicas agree before they compute updates, so fewer errors are reported. An export makes fewer calls of CUDA than
  // a step.
  const int reported = job.exports ? 1 : divided ? 3 : 15;
  CHECK(endings[SHAMPOO_E_DEVICE] > reported);
  CHECK(endings[SHAMPOO_E_NOMEM] > reported);
  CHECK(endings[SHAMPOO_OK] > (job.exports ? 0 : 2));
}

void FailInStepOfShards(const FaultyJob& job, int64_t distance) {
  const int64_t planned = distance == 0 ? 1 : 2;
  Endings endings;
  for (int64_t n = 1;; ++n) {
    INFO(NameOf(job), ", call ", n, ", distance ", distance);
    REQUIRE(n < kTooManyCalls);
    const Stage stage;
    Shards ranks(job);
    Begin(&ranks);
    ranks.StepAndFail([n, distance] {
      FailHere(n);
      if (distance != 0) FailHere(n, distance);
    });
    if (fake_cuda_cancel_failures() == planned) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      break;
    }
    CAPTURE(ranks.text(job.faulty));
    const shampoo_status status = ranks.status(job.faulty);
    // The step succeeds if the failed call of CUDA only restored settings of the thread, or if an eigensolver has
    // failed and another eigensolver computes the roots.
    if (status == SHAMPOO_OK) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      continue;
    }
    if (ranks.AllHaveErrorOfCall(n)) {
      ++endings[status];
      ranks.CheckStep();
      continue;
    }
    CHECK((status == CodeOf(n) || status == SHAMPOO_E_COMM));
    ranks.CheckThatAllEnd(&endings);
  }
  if (distance == 0) {
    CHECK(endings[SHAMPOO_E_DEVICE] > (job.exports ? 1 : 3));
    CHECK(endings[SHAMPOO_E_NOMEM] > (job.exports ? 1 : 3));
  } else {
    CHECK(endings[SHAMPOO_E_COMM] > 3);
  }
  CHECK(endings[SHAMPOO_OK] > (job.exports ? 0 : 2));
}

namespace {

// Makes each collective of the faulty rank fail in turn: those among the shards of a replica if of_shards is true,
// otherwise those among the replicas of a shard. For takes_part, see FailCollective().
void FailCollectives(const FaultyJob& job, bool of_shards, bool takes_part) {
  Endings endings;
  int64_t n = 1;
  for (;; ++n) {
    INFO(NameOf(job), ", collective ", n, ", of shards ", of_shards, ", takes part ", takes_part);
    const Stage stage;
    Shards ranks(job);
    Begin(&ranks);
    ThreadComm& comm = ranks.CommOf(job.faulty, of_shards);
    const int faulty = (of_shards ? ranks.shard_ops(job.faulty) : ranks.replica_ops(job.faulty))->rank;
    const int64_t failing_call = comm.calls(faulty) + n;
    FailCollective(&comm, faulty, failing_call, takes_part);
    ranks.StepAndFail([] {});
    if (comm.calls(faulty) < failing_call) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      break;
    }
    CHECK(ranks.status(job.faulty) == SHAMPOO_E_COMM);
    ranks.CheckThatAllEnd(&endings);
  }
  CHECK(n - 1 == CollectivesOf(job.kind, of_shards));
  // If there is one replica, a collective in which the faulty rank does not take part fails on all ranks. If there are
  // several replicas, ranks that hold another shard may already have made their last exchange. They then succeed.
  if (!takes_part && job.kind.copies == 1) CHECK(endings[SHAMPOO_OK] == 0);
}

}  // namespace

const RejectedStep kRejectedByDevices = {SHAMPOO_E_NUMERIC, "gradient", [](DeviceRanks* ranks, int) {
                                           for (int rank = 0; rank < ranks->world(); ++rank) {
                                             Model& model = (*ranks)[rank];
                                             model.SetGradient(0, std::vector<double>(model.elements(0), NAN));
                                           }
                                         }};
const RejectedStep kRejectedByHost = {
    SHAMPOO_E_STATE, "the state \"group.0/step\" is -5",
    [](DeviceRanks* ranks, int faulty) { (*ranks)[faulty].SetState("group.0/step", {-5}); }};

void FailInRejectedStep(const FaultyJob& job, const RejectedStep& step) {
  Endings endings;
  for (int64_t n = 1;; ++n) {
    INFO(NameOf(job), ", call ", n, ", ", std::string(step.words));
    REQUIRE(n < kTooManyCalls);
    const Stage stage;
    DeviceRanks ranks(SpecOf(job), job.kind);
    Begin(&ranks);
    Must(shampoo_optimizer_set(ranks[0].optimizer, 0, "lr", 0.5));
    ranks.OnEvery([](int, Model* model) { return StepAndWait(model); });
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_E_INVALID) == "");
    for (Model* model : ranks.models()) Must(shampoo_optimizer_set(model->optimizer, 0, "lr", 0.5));
    step.spoil(&ranks, job.faulty);
    ranks.OnEvery([&](int rank, Model* model) {
      if (rank == job.faulty) FailHere(n);
      return StepAndWait(model);
    });
    const bool has_failed = fake_cuda_cancel_failures() == 0;
    CAPTURE(ranks.text(job.faulty));
    if (!has_failed) {
      CHECK(ranks.DifferencesFrom(step.status, {step.words}) == "");
      break;
    }
    const shampoo_status status = ranks.status(job.faulty);
    const shampoo_status others = ranks.status(job.faulty == 0 ? 1 : 0);
    ++endings[status];
    if (status == step.status && status == others) {
      CHECK(ranks.DifferencesFrom(status, {step.words}) == "");
      continue;
    }
    if (others == CodeOf(n)) {
      CHECK(ranks.DifferencesFrom(CodeOf(n), {"(...) failed: "}) == "");
      continue;
    }
    CHECK((status == step.status || status == CodeOf(n) || status == SHAMPOO_E_COMM));
    for (int rank = 0; rank < ranks.world(); ++rank) {
      if (rank == job.faulty) continue;
      CAPTURE(ranks.text(rank));
      CHECK((ranks.status(rank) == step.status || ranks.status(rank) == SHAMPOO_E_COMM));
    }
  }
  CHECK(endings[SHAMPOO_E_DEVICE] > 3);
  CHECK(endings[SHAMPOO_E_NOMEM] > 3);
}

void FailCollectivesOfShards(const FaultyJob& job) {
  for (const bool of_shards : {true, false}) {
    if (job.kind.copies == 1 && !of_shards) continue;
    for (const bool takes_part : {false, true}) FailCollectives(job, of_shards, takes_part);
  }
}

Endings FailInCreate(const RankKind& kind, int faulty) {
  Endings endings;
  ModelSpec spec = SpecOfRanks({});
  // Create makes calls of the CUDA libraries for each size of matrices. With two sizes, the test stays short.
  if (kind.shards > 1) spec.params.assign(4, {{4, 2}});
  for (int64_t n = 1;; ++n) {
    INFO(NameOf(kind), ", faulty rank ", faulty, ", call ", n);
    REQUIRE(n < kTooManyCalls);
    const Stage stage;
    DeviceRanks ranks(spec, kind);
    ranks.FillGradients(1);
    ranks.OnEvery([&](int rank, Model* model) {
      shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
      if (rank == faulty) FailHere(n);
      return ranks.CreateAgain(rank, model->plan.get());
    });
    if (fake_cuda_cancel_failures() != 0) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      return endings;
    }
    CAPTURE(ranks.text(faulty));
    // Create succeeds if the failed call queried a version, because only error messages use versions. Create also
    // succeeds if the failed call queried the workspace of a solver, and another solver can be used instead.
    if (ranks.status(faulty) == SHAMPOO_OK) {
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      continue;
    }
    const int another = faulty == 0 ? 1 : 0;
    for (int rank = 0; rank < ranks.world(); ++rank) {
      if (rank == faulty) continue;
      CAPTURE(ranks.text(rank));
      const shampoo_status status = ranks.status(rank);
      ++endings[status];
      // If all ranks share one communicator, create returns the same status on all ranks except the faulty rank.
      if (kind.copies == 1 || kind.shards == 1) CHECK(status == ranks.status(another));
      if (status == SHAMPOO_OK || status == SHAMPOO_E_COMM) continue;
      CHECK((status == CodeOf(n) || status == ranks.status(faulty)));
      CHECK(Says(ranks.text(rank), NameOf(kind.shards == 1 ? faulty : faulty % kind.shards) + ": "));
    }
    CheckThatStepsFail(&ranks);
  }
}

}  // namespace shampoo_test
