// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the key verify_replicas on the device: replicas compare hashes of their parameters.
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

const std::string kText = "verify_replicas: parameter \"p3\" differs between rank 1 and rank 0";

// Flips one bit in the byte with the index `byte` of parameter number p.
void FlipBit(Model* model, size_t p, size_t byte) {
  unsigned char value = 0;
  char* const at = static_cast<char*>(model->param(p)) + byte;
  model->Wait();
  MustCuda(cudaMemcpy(&value, at, 1, cudaMemcpyDeviceToHost));
  value ^= 4;
  MustCuda(cudaMemcpy(at, &value, 1, cudaMemcpyHostToDevice));
}

TEST_CASE("if one bit of a parameter differs on one rank then all ranks return the same error") {
  for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_BF16, SHAMPOO_F64}) {
    for (const Keys& reporting : kReporting) {
      for (const int faulty : {1, 2}) {
        INFO("dtype ", dtype, ", faulty rank ", faulty, ", ", reporting);
        const Stage stage;
        ModelSpec spec = SpecOfRanks(reporting + Keys("verify_replicas=1"));
        for (ParamSpec& param : spec.params) param.param_dtype = param.out_dtype = dtype;
        DeviceRanks ranks(spec, 3);
        MakeTwoSteps(&ranks);
        FlipBit(&ranks[faulty], 3, 7);
        const std::string name = "rank " + std::to_string(faulty);
        CheckAllReject(&ranks, reporting, SHAMPOO_E_STATE,
                       {"verify_replicas: parameter \"p3\" differs between " + name + " and rank 0",
                        "This call has not changed the parameters. Copy the parameters of one rank to all ranks"});
        FlipBit(&ranks[faulty], 3, 7);
        CheckTheyContinue(&ranks);
      }
    }
  }
}

TEST_CASE("verify_replicas=n compares parameters at every nth step") {
  const Stage stage;
  DeviceRanks ranks(SpecOfRanks("status_lag=0 verify_replicas=4"), 2);
  ranks.Train(1, 2);
  // Parameters are compared at the start of steps 1 and 5, so steps 3 and 4 do not detect the difference.
  FlipBit(&ranks[1], 3, 2);
  ranks.Train(3, 4);
  ranks.Step(5);
  CHECK(ranks.DifferencesFrom(SHAMPOO_E_STATE, {kText}) == "");
  for (int rank = 0; rank < 2; ++rank) CHECK(ranks[rank].Stat("steps") == 4);
}

// A communicator of two ranks for tests that run only one of the ranks. An all-gather enqueues a copy, after which the
// segments of both ranks in the receive buffer contain the bytes that this rank has sent.
struct Echo {
  char* received = nullptr;  // the receive buffer of the last all-gather

  shampoo_comm_ops Ops() {
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    ops.user = this;
    ops.world = 2;
    ops.device_type = SHAMPOO_CUDA;
    ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void* stream) -> int32_t {
      if (fake_cuda_check_collective(recv, 2 * bytes) == 0) return 1;
      auto* const to = static_cast<char*>(recv);
      static_cast<Echo*>(user)->received = to;
      if (send != recv) return 2;
      return static_cast<int32_t>(
          cudaMemcpyAsync(to + bytes, send, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
    };
    return ops;
  }
  // Returns the hash that the last all-gather has sent: SegmentHeader::parameters (see segment_header.h). The hash is 0
  // if the step has not hashed the parameters.
  uint64_t Hash() const {
    uint64_t hash = 0;
    MustCuda(cudaMemcpy(&hash, received + 40, sizeof hash, cudaMemcpyDeviceToHost));
    return hash;
  }
};

TEST_CASE(
    "replays of a captured step hash the parameters every third step, and swapped elements or another sign of zero "
    "change the hash") {
  Echo echo;
  const shampoo_comm_ops ops = echo.Ops();
  ModelSpec spec = SpecOfRanks("verify_replicas=3 refresh_growth=0 precondition_frequency=50");
  spec.replica_ops = &ops;
  StagedModel model(spec);
  model.Train(1, 2);
  model.FillGradients(3);
  const Graph graph(&model);
  std::vector<uint64_t> hashes;
  for (int step = 3; step <= 10; ++step) {
    graph.Launch();
    model.Wait();
    hashes.push_back(echo.Hash());
    CHECK((hashes.back() != 0) == ((step - 1) % 3 == 0));
  }
  model.MustSucceed();
  CHECK(model.Stat("steps") == 10);
  CHECK(hashes[1] != hashes[4]);
  // With a learning rate of 0, steps change no parameter.
  Must(shampoo_optimizer_set(model.optimizer, 0, "lr", 0));
  const std::vector<double> values = model.ParamValues(0);
  const auto hash_of = [&](const std::vector<double>& params) {
    model.SetParam(0, params);
    // One of three consecutive steps hashes the parameters.
    for (int rest = 0; rest < 3; ++rest) {
      model.SetParam(0, params);
      model.Step(20);
      model.Wait();
      if (echo.Hash() != 0) break;
    }
    return echo.Hash();
  };
  std::vector<double> swapped = values;
  std::swap(swapped[0], swapped[1]);
  std::vector<double> negative_zero = values;
  std::vector<double> zero = values;
  zero[2] = 0;
  negative_zero[2] = -0.0;
  const uint64_t hash = hash_of(values);
  CHECK(hash_of(swapped) != hash);
  CHECK(hash_of(values) == hash);
  CHECK(hash_of(zero) != hash_of(negative_zero));
}

TEST_CASE("replicas of each shard are compared and all ranks report a difference") {
  for (const RankKind& kind : {RankKind{"local", 2, 2}, {"gather", 2, 2}, {"gather", 2, 2, true}}) {
    for (const Keys& reporting : kReporting) {
      INFO(NameOf(kind), " ", reporting);
      const Stage stage;
      DeviceRanks ranks(SpecOfRanks(reporting + Keys("verify_replicas=1")), kind);
      MakeTwoSteps(&ranks);
      // Every parameter is compared, whichever rank owns its blocks.
      for (size_t p = 0; p < ranks[3].params(); ++p) {
        CAPTURE(p);
        const auto before = ranks.Params();
        FlipBit(&ranks[3], p, 7);  // shard rank 1 of the second replica
        const auto flipped = ranks.Params();
        ranks.Step();
        if (ReportsLate(reporting)) ranks.Step();
        const std::string text =
            "verify_replicas: parameter \"p" + std::to_string(p) + "\" differs between rank 1 and rank 0";
        for (int rank = 0; rank < 4; ++rank) {
          CHECK(ranks.status(rank) == SHAMPOO_E_STATE);
          CHECK_MESSAGE(ranks.text(rank).find(text) != std::string::npos, ranks.text(rank));
        }
        CHECK(ranks.Params() == flipped);
        FlipBit(&ranks[3], p, 7);
        CHECK(ranks.Params() == before);
      }
      CheckTheyContinue(&ranks);
    }
  }
}

TEST_CASE("verify_replicas accepts equal parameters of several dtypes and strides and changes no result") {
  for (const int shards : {1, 2}) {
    CAPTURE(shards);
    const Stage stage;
    std::vector<std::vector<std::vector<double>>> params;
    for (const char* every : {"0", "1"}) {
      ModelSpec spec = SpecOfRanks({{"verify_replicas", every}, {"on_nonfinite", "skip_step"}});
      spec.params.push_back({{3, 5}, SHAMPOO_F16, SHAMPOO_F32, SHAMPOO_F32, false, SHAMPOO_BF16});
      spec.params.push_back({{0, 4}});
      spec.params.push_back({{}});        // a scalar: with two shards, only one shard holds it
      spec.params.push_back({{70, 66}});  // several tiles
      DeviceRanks ranks(spec, {"gather", 2, shards});
      ranks.Train(1, 3);
      ranks.FillGradients(4);
      for (Model* model : ranks.models()) model->SpoilGradient(0, 1, NAN);
      ranks.Step();
      ranks.Train(5, 6);
      ranks.MustSucceed();
      CHECK(ranks[0].Stat("skipped_steps") == 1);
      params.push_back(ranks.Params());
    }
    CHECK(params[0] == params[1]);
  }
}

TEST_CASE("steps of one rank succeed with verify_replicas") {
  StagedModel model(FiveShapes("verify_replicas=1"));
  model.Train(1, 3);
  model.MustSucceed();
}

}  // namespace
}  // namespace shampoo_test
