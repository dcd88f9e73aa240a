// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests checkpoints of jobs with several ranks. A checkpoint that is saved on devices or CPUs can be loaded on either.
// The ranks hold replicas, shards (with both values of shard_mode), or replicas of shards.
#include <tuple>

#include "tests/core/temporary_directory.h"
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/staged_comm.h"
#include "tests/cuda/tools/stream_comm.h"

namespace shampoo_test {
namespace {

// Returns the specification of a model with 16-bit states, states that are stored as triangles, and a second group.
ModelSpec NarrowSpec(const Keys& more) {
  ModelSpec spec = FiveShapes(
      Keys("factor_dtype=bf16 momentum_dtype=f16 precondition_frequency=3 max_preconditioner_dim=256") + more);
  spec.params.push_back({{130, 6}});
  spec.params.push_back({{9, 4}, SHAMPOO_BF16, SHAMPOO_BF16, SHAMPOO_BF16});
  spec.groups = {{{"grafting", "sgd"}}};
  spec.params.back().group = 1;
  return spec;
}

// Returns the specification of a model in float64, in which device and CPU differ only by small rounding errors.
ModelSpec WideSpec(const Keys& more) {
  ModelSpec spec = FiveShapes(more + Keys("epsilon=1e-2"));
  for (ParamSpec& param : spec.params) param.param_dtype = param.grad_dtype = param.out_dtype = SHAMPOO_F64;
  return spec;
}

// With these keys, roots are refreshed at steps 1, 4, 7 and 10. The roots of step 4 are used from step 6 on.
const Keys kPendingRoots = "root_async=2 precondition_frequency=3 refresh_growth=3";

// Returns the number of pending snapshots on all ranks. A snapshot is pending until a step uses its roots.
int PendingSnapshots(const DeviceRanks& job) {
  int count = 0;
  for (const Model* model : job.models()) {
    for (const std::string& key : model->Keys()) {
      if (key.ends_with("/snapshot_step") && model->State(key)[0] > 0) ++count;
    }
  }
  return count;
}

ModelSpec On(int32_t device_type, ModelSpec spec) {
  spec.device_type = device_type;
  return spec;
}

// Saves a checkpoint of a job of kind `save` on devices of type `saver`. Loads it into a job of kind `load` on devices
// of type `loader`. Compares the two jobs after the load and after more steps. `load` must have as many shards as
// `save`, and may have another number of replicas. used: whether the second job makes steps before the load.
void CheckAcross(const ModelSpec& spec, int32_t saver, const RankKind& save, int32_t loader, const RankKind& load,
                 bool used, double tolerance) {
  INFO("from ", NameOf(save), " on device type ", saver, " to ", NameOf(load), " on ", loader, ", used ", used);
  const Stage stage;
  const shampoo::TemporaryDirectory folder;
  DeviceRanks first(On(saver, spec), save);
  first.Train(1, 4);  // on a device, the last step may still be running
  first.Save(folder.path());
  DeviceRanks second(On(loader, spec), load);
  if (used) second.Train(7, 11);
  second.Load(folder.path());
  // Rank r of the second job has the same shard as rank r % save.world() of the first job.
  const auto other = [&](int rank) -> Model& { return first[rank % save.world()]; };
  for (int rank = 0; rank < load.world(); ++rank) second[rank].SetParamsOf(other(rank));
  const std::string async = spec.keys.Value("root_async");
  CHECK((PendingSnapshots(first) > 0) == (async != "" && async != "0"));
  const bool same_ranks = save.copies == load.copies;
  if (same_ranks) CHECK(second.Bits() == first.Bits());
  for (const Model* model : second.models()) CHECK(model->State("group.0/step")[0] == 4);
  for (DeviceRanks* job : {&first, &second}) job->Train(5, 9);
  if (same_ranks && saver == loader) {
    CHECK(second.Bits() == first.Bits());
    return;
  }
  for (int rank = 0; rank < load.world(); ++rank) {
    for (size_t p = 0; p < second[rank].params(); ++p) {
      INFO("rank ", rank, ", parameter ", p);
      CHECK(Distance(second[rank].ParamValues(p), other(rank).ParamValues(p)) <= tolerance);
    }
  }
}

constexpr int32_t kTypes[] = {SHAMPOO_CUDA, SHAMPOO_CPU};

TEST_CASE("checkpoints of shards are saved on the device or the CPU and training continues on either") {
  const RankKind shards{"local", 1, 3};
  const RankKind grid{"local", 2, 2};
  for (const int32_t saver : kTypes) {
    for (const int32_t loader : kTypes) CheckAcross(NarrowSpec({}), saver, shards, loader, shards, true, 1e-2);
  }
  CheckAcross(WideSpec({}), SHAMPOO_CUDA, grid, SHAMPOO_CPU, grid, false, 1e-9);
  CheckAcross(WideSpec(kPendingRoots), SHAMPOO_CPU, grid, SHAMPOO_CUDA, grid, true, 1e-9);
}

TEST_CASE(
    "checkpoints of gathered shards with pending roots are saved on the device or the CPU and training continues on "
    "either") {
  const ModelSpec wide = WideSpec(kPendingRoots);
  for (const RankKind& kind :
       {RankKind{"gather", 1, 3}, {"gather", 1, 3, true}, {"gather", 2, 2}, {"gather", 2, 2, true}}) {
    CheckAcross(NarrowSpec(kPendingRoots), SHAMPOO_CUDA, kind, SHAMPOO_CUDA, kind, true, 0);
    CheckAcross(wide, SHAMPOO_CUDA, kind, SHAMPOO_CPU, kind, false, 1e-9);
    CheckAcross(wide, SHAMPOO_CPU, kind, SHAMPOO_CUDA, kind, true, 1e-9);
  }
}

// Returns the specification of a model with stochastic rounding of parameters and states. Its steps process each
// element separately, so the results on the fake CUDA are bit-identical to those of the CPU.
ModelSpec RoundedSpec(const Keys& more) {
  ModelSpec spec;
  spec.keys = Keys(
                  "method=adam beta1=0.9 lr=0.05 state_rounding=stochastic param_rounding=stochastic "
                  "filtered_grad_dtype=bf16 second_moment_dtype=bf16") +
              more;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{9, 7}, {12}, {6, 4, 2}, {70, 66}}) {
    spec.params.push_back({shape, SHAMPOO_BF16, SHAMPOO_F32, SHAMPOO_BF16});
  }
  return spec;
}

TEST_CASE(
    "after a resume on another device, stochastic rounding on each rank uses the random numbers of the saved job") {
  const double tolerance = OnFake() ? 0 : 2e-2;
  for (const auto& [saver, loader] : {std::pair{SHAMPOO_CUDA, SHAMPOO_CPU}, {SHAMPOO_CPU, SHAMPOO_CUDA}}) {
    for (const auto& [copies, loading_copies, shards] : {std::tuple{1, 1, 1}, {2, 3, 1}, {1, 1, 3}, {2, 2, 2}}) {
      const RankKind save{"local", copies, shards};
      const RankKind load{"local", loading_copies, shards};
      CheckAcross(RoundedSpec({}), saver, save, loader, load, false, tolerance);
      CheckAcross(RoundedSpec("communicate=params"), saver, save, loader, load, true, tolerance);
      if (shards == 1) continue;
      const RankKind gathered{"gather", copies, shards, copies == 1};
      CheckAcross(RoundedSpec({}), saver, gathered, loader, gathered, true, tolerance);
    }
  }
}

TEST_CASE("devices and CPUs load the checkpoints of each other for many numbers of replicas and shards" *
          doctest::test_suite("long")) {
  const Keys late = "status_lag=0 comm_bucket_bytes=128 communicate=params";
  for (const int32_t saver : kTypes) {
    for (const int32_t loader : kTypes) {
      for (const auto& [copies, loading_copies, shards] :
           {std::tuple{1, 1, 1}, {2, 2, 1}, {1, 1, 4}, {2, 2, 3}, {2, 3, 1}, {1, 2, 2}, {3, 1, 2}}) {
        const RankKind save{"local", copies, shards};
        const RankKind load{"local", loading_copies, shards};
        for (const bool used : {false, true}) CheckAcross(NarrowSpec({}), saver, save, loader, load, used, 1e-2);
        for (const Keys& keys : Combinations("root_method=eigen|newton|cans root_async=0|2")) {
          CAPTURE(keys);
          CheckAcross(WideSpec(kPendingRoots + keys), saver, save, loader, load, true, 1e-3);
        }
        CheckAcross(WideSpec(late), saver, save, loader, load, false, 1e-3);
      }
    }
  }
}

// Two ranks, each a thread with a replica of a model. Captured steps use the collectives of a StreamComm, which can be
// captured. Other steps use the collectives of a StagedComm.
class CapturedCopies {
 public:
  explicit CapturedCopies(const ModelSpec& spec) {
    UsePlugin();
    staged_.host().patience = std::chrono::seconds(20);
    for (const int rank : {0, 1}) {
      ops_[rank] = {staged_.OpsOf(rank), mirror_.Ops(false)};
      world_ops_[rank] = world_.OpsOf(rank, true);
    }
    OnEveryRank(2, [&](int rank) {
      shampoo_comm_ops ops = ops_[rank].staged;
      ops.user = &ops_[rank];
      ops.all_gather = Gather;
      ModelSpec own = spec;
      own.replica_ops = &ops;
      models_[rank] = std::make_unique<Model>(own, streams_[rank]);
    });
  }
  ~CapturedCopies() { CHECK(staged_.host().timeouts() + world_.timeouts() == 0); }

  // Calls work(model, world) on both ranks, and checks that it returns SHAMPOO_OK. world: a communicator of both ranks.
  template <typename Work>
  void OnBoth(const Work& work) {
    OnEveryRank(2, [&](int rank) {
      shampoo_comm* world = nullptr;
      Must(shampoo_comm_from_ops(&world, &world_ops_[rank]));
      const shampoo_status status = work(models_[rank].get(), world);
      const std::string text = status == SHAMPOO_OK ? "" : shampoo_last_error();
      shampoo_comm_destroy(world);
      CHECK_MESSAGE(status == SHAMPOO_OK, text);
    });
  }
  Model& operator[](int rank) { return *models_[rank]; }

 private:
  struct Ops {
    shampoo_comm_ops staged, mirror;
  };
  static int32_t Gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
    const auto* const own = static_cast<Ops*>(user);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    MustCuda(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status));
    const shampoo_comm_ops& ops = status == cudaStreamCaptureStatusNone ? own->staged : own->mirror;
    return ops.all_gather(ops.user, send, recv, bytes, stream);
  }

  StagedComm staged_{2, fake_cuda_check_collective};
  StreamComm mirror_{2};
  ThreadComm world_{2};
  Ops ops_[2];
  shampoo_comm_ops world_ops_[2];
  TestStream streams_[2];
  std::unique_ptr<Model> models_[2];
};

TEST_CASE("a load discards the errors of all replays, even of a replay that is still running when the load begins") {
  const Stage stage(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  const shampoo::TemporaryDirectory folder;
  const std::string path = folder.path();
  CapturedCopies copies(FiveShapes("precondition_frequency=100"));
  copies.OnBoth([&](Model* model, shampoo_comm* world) {
    model->Train(1, 3);
    return shampoo_save(&model->optimizer, 1, world, path.c_str(), model->stream);
  });
  std::unique_ptr<Graph> graphs[2];
  for (const int rank : {0, 1}) {
    graphs[rank] = std::make_unique<Graph>(&copies[rank]);
    copies[rank].SpoilGradient(3, 17, NAN);
    graphs[rank]->Launch();
  }
  copies[0].Wait();  // the replay of rank 1 is still running when the load begins
  copies.OnBoth([&](Model* model, shampoo_comm* world) {
    return shampoo_load(&model->optimizer, 1, world, path.c_str(), model->stream);
  });
  for (const uint64_t t : {4, 5}) {
    copies.OnBoth([&](Model* model, shampoo_comm*) {
      model->FillGradients(t);
      return model->TryStep();
    });
  }
  copies.OnBoth([](Model* model, shampoo_comm*) { return model->Status(); });
  for (const int rank : {0, 1}) CHECK(copies[rank].State("group.0/step")[0] == 5);
}

}  // namespace
}  // namespace shampoo_test
