// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of jobs with several ranks, between devices and CPUs: replicas, shards (with both values of shard_mode),
// and replicas of shards.
#include "tests/core/temporary_directory.h"
#include "tests/cuda/contract/grid.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stage.h"
#include "tests/cuda/tools/staged_comm.h"
#include "tests/cuda/tools/stream_comm.h"

namespace shampoo_test {
namespace {

// The ranks of a job, which are threads, on a device or on the CPU. The shards of a copy have consecutive ranks.
class Job {
 public:
  Job(const ModelSpec& spec, int32_t device_type, const Grid& grid, bool has_all_to_all = false)
      : type_(device_type), has_all_to_all_(has_all_to_all), world_(grid.world()) {
    const auto rank_at = [&](int copy, int shard) { return static_cast<size_t>(copy * grid.shards + shard); };
    std::vector<shampoo_comm_ops> replicas(grid.copies > 1 ? rank_at(grid.copies, 0) : 0);
    std::vector<shampoo_comm_ops> shards(grid.shards > 1 ? rank_at(grid.copies, 0) : 0);
    for (int shard = 0; !replicas.empty() && shard < grid.shards; ++shard) {
      const Ops ops = AddComm(grid.copies);
      for (int copy = 0; copy < grid.copies; ++copy) replicas[rank_at(copy, shard)] = ops(copy);
    }
    for (int copy = 0; !shards.empty() && copy < grid.copies; ++copy) {
      const Ops ops = AddComm(grid.shards);
      for (int shard = 0; shard < grid.shards; ++shard) shards[rank_at(copy, shard)] = ops(shard);
    }
    const Ops ops = AddComm(world_);
    for (int rank = 0; rank < world_; ++rank) world_ops_.push_back(ops(rank));
    for (int rank = 0; on_device() && rank < world_; ++rank) streams_.push_back(std::make_unique<TestStream>());
    if (on_device()) UsePlugin();
    models_.resize(static_cast<size_t>(world_));
    OnEveryRank(world_, [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      ModelSpec own = spec;
      own.device_type = type_;
      if (!replicas.empty()) own.replica_ops = &replicas[at];
      if (!shards.empty()) own.shard_ops = &shards[at];
      models_[at] = std::make_unique<Model>(own, StreamOf(rank));
    });
  }

  Model& operator[](int rank) { return *models_[static_cast<size_t>(rank)]; }
  int world() const { return world_; }
  void FillParams(uint64_t seed) {
    for (const auto& model : models_) model->FillParams(seed);
  }
  void Train(uint64_t first, uint64_t last) {
    OnEveryRank(world_, [&](int rank) { (*this)[rank].Train(first, last); });
  }
  void Save(const std::string& directory) {
    WithWorld([&](Model* model, shampoo_comm* world) {
      return shampoo_save(&model->optimizer, 1, world, directory.c_str(), model->stream);
    });
  }
  void Load(const std::string& directory) {
    WithWorld([&](Model* model, shampoo_comm* world) {
      return shampoo_load(&model->optimizer, 1, world, directory.c_str(), model->stream);
    });
  }

 private:
  using Ops = std::function<shampoo_comm_ops(int rank)>;
  bool on_device() const { return type_ == SHAMPOO_CUDA; }
  cudaStream_t StreamOf(int rank) const {
    return on_device() ? cudaStream_t{*streams_[static_cast<size_t>(rank)]} : nullptr;
  }
  Ops AddComm(int world) {
    if (on_device()) {
      staged_.push_back(std::make_unique<StagedComm>(world, fake_cuda_check_collective));
      return [comm = staged_.back().get(), this](int rank) { return comm->OpsOf(rank, true, has_all_to_all_); };
    }
    threads_.push_back(std::make_unique<ThreadComm>(world));
    return [comm = threads_.back().get(), this](int rank) {
      shampoo_comm_ops ops = comm->OpsOf(rank, true);
      if (!has_all_to_all_) ops.all_to_all = nullptr;
      return ops;
    };
  }
  template <typename Work>
  void WithWorld(const Work& work) {
    OnEveryRank(world_, [&](int rank) {
      shampoo_comm* world = nullptr;
      if (world_ > 1) Must(shampoo_comm_from_ops(&world, &world_ops_[static_cast<size_t>(rank)]));
      const shampoo_status status = work(&(*this)[rank], world);
      const std::string text = status == SHAMPOO_OK ? "" : shampoo_last_error();
      shampoo_comm_destroy(world);
      CHECK_MESSAGE(status == SHAMPOO_OK, text);
    });
  }

  int32_t type_;
  bool has_all_to_all_;
  int world_;
  std::vector<std::unique_ptr<StagedComm>> staged_;
  std::vector<std::unique_ptr<ThreadComm>> threads_;
  std::vector<shampoo_comm_ops> world_ops_;
  std::vector<std::unique_ptr<TestStream>> streams_;
  std::vector<std::unique_ptr<Model>> models_;
};

// A model with states that are stored as triangles, states in narrow dtypes, and a second group.
ModelSpec NarrowSpec(const Keys& more) {
  ModelSpec spec = FiveShapes(Keys{{"factor_dtype", "bf16"},
                                   {"momentum_dtype", "f16"},
                                   {"precondition_frequency", "3"},
                                   {"max_preconditioner_dim", "256"}} +
                              more);
  spec.params.push_back({{130, 6}});
  spec.params.push_back({{9, 4}, SHAMPOO_BF16, SHAMPOO_BF16, SHAMPOO_BF16});
  spec.groups = {{{"grafting", "sgd"}}};
  spec.params.back().group = 1;
  return spec;
}

// A model in float64, so that device and CPU differ by rounding only.
ModelSpec WideSpec(const Keys& more) {
  ModelSpec spec = FiveShapes(more + Keys{{"epsilon", "1e-2"}});
  for (ParamSpec& param : spec.params) param.param_dtype = param.grad_dtype = param.out_dtype = SHAMPOO_F64;
  return spec;
}

// Roots are refreshed at steps 1, 4, 7 and 10. Those of step 4 are used from step 6 on.
const Keys kPendingRoots = {{"root_async", "2"}, {"precondition_frequency", "3"}, {"refresh_growth", "3"}};

// Returns the number of snapshots whose roots are not used yet, of all ranks.
int PendingSnapshots(Job* job) {
  int count = 0;
  const std::string name = "/snapshot_step";
  for (int rank = 0; rank < job->world(); ++rank) {
    const Model& model = (*job)[rank];
    for (const std::string& key : model.Keys()) {
      const bool is_step = key.size() > name.size() && key.substr(key.size() - name.size()) == name;
      if (is_step && model.State(key)[0] > 0) ++count;
    }
  }
  return count;
}

bool IsAsync(const ModelSpec& spec) {
  bool is_async = false;
  for (const auto& [key, value] : spec.keys) {
    if (key == "root_async") is_async = value != "0";
  }
  return is_async;
}

// Saves a checkpoint of a job on `saver`, loads it into a job on `loader`, and compares the two jobs after the load and
// after more steps. `load` has as many shards as `save`, and may have another number of copies. used: whether the
// second job makes steps before the load.
void CheckAcross(const ModelSpec& spec, int32_t saver, const Grid& save, int32_t loader, const Grid& load, bool used,
                 double tolerance, bool has_all_to_all = false) {
  CAPTURE(saver);
  CAPTURE(loader);
  CAPTURE(save.copies);
  CAPTURE(save.shards);
  CAPTURE(load.copies);
  CAPTURE(used);
  CAPTURE(has_all_to_all);
  const Stage stage;
  const shampoo::TemporaryDirectory folder;
  Job first(spec, saver, save, has_all_to_all);
  first.FillParams(1);
  first.Train(1, 4);  // on a device, the last step may still be running
  first.Save(folder.path());
  Job second(spec, loader, load, has_all_to_all);
  if (used) {
    second.FillParams(2);
    second.Train(7, 11);
  }
  second.Load(folder.path());
  // Rank r of the second job has the same shard as rank r modulo save.world() of the first job.
  const auto other = [&](int rank) -> Model& { return first[rank % save.world()]; };
  for (int rank = 0; rank < second.world(); ++rank) second[rank].SetParamsOf(other(rank));
  CHECK((PendingSnapshots(&first) > 0) == IsAsync(spec));
  const bool same_ranks = save.copies == load.copies;
  for (int rank = 0; same_ranks && rank < second.world(); ++rank) {
    CHECK(BitsOf(second[rank]) == BitsOf(other(rank)));
  }
  for (int rank = 0; rank < second.world(); ++rank) CHECK(second[rank].State("group.0/step")[0] == 4);
  first.Train(5, 9);
  second.Train(5, 9);
  for (int rank = 0; rank < second.world(); ++rank) {
    CAPTURE(rank);
    if (saver == loader && same_ranks) {
      CHECK(BitsOf(second[rank]) == BitsOf(other(rank)));
      continue;
    }
    for (size_t p = 0; p < second[rank].params(); ++p) {
      CAPTURE(p);
      CHECK(Distance(second[rank].ParamValues(p), other(rank).ParamValues(p)) <= tolerance);
    }
  }
}

constexpr int32_t kTypes[] = {SHAMPOO_CUDA, SHAMPOO_CPU};

TEST_CASE("shards save on the device or the CPU, load on either, and continue") {
  for (const int32_t saver : kTypes) {
    for (const int32_t loader : kTypes) {
      CheckAcross(NarrowSpec({}), saver, {1, 3}, loader, {1, 3}, true, 1e-2);
    }
  }
  CheckAcross(WideSpec({}), SHAMPOO_CUDA, {2, 2}, SHAMPOO_CPU, {2, 2}, false, 1e-9);
  CheckAcross(WideSpec(kPendingRoots), SHAMPOO_CPU, {2, 2}, SHAMPOO_CUDA, {2, 2}, true, 1e-9);
}

TEST_CASE("gathered shards save on the device or the CPU, load on either, and continue with pending roots") {
  const Keys keys = Keys{{"shard_mode", "gather"}} + kPendingRoots;
  for (const Grid& grid : {Grid{1, 3}, {2, 2}}) {
    for (const bool has_all_to_all : {false, true}) {
      CheckAcross(NarrowSpec(keys), SHAMPOO_CUDA, grid, SHAMPOO_CUDA, grid, true, 0, has_all_to_all);
      const ModelSpec wide = WideSpec(keys);
      CheckAcross(wide, SHAMPOO_CUDA, grid, SHAMPOO_CPU, grid, false, 1e-9, has_all_to_all);
      CheckAcross(wide, SHAMPOO_CPU, grid, SHAMPOO_CUDA, grid, true, 1e-9, has_all_to_all);
    }
  }
}

// A model whose parameters and states are rounded stochastically. Its steps process each element separately. On the
// fake, they give the bits of the CPU.
ModelSpec RoundedSpec(const Keys& more) {
  ModelSpec spec;
  spec.keys = Keys{{"method", "adam"},
                   {"beta1", "0.9"},
                   {"lr", "0.05"},
                   {"state_rounding", "stochastic"},
                   {"param_rounding", "stochastic"},
                   {"filtered_grad_dtype", "bf16"},
                   {"second_moment_dtype", "bf16"}} +
              more;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{9, 7}, {12}, {6, 4, 2}, {70, 66}}) {
    spec.params.push_back({shape, SHAMPOO_BF16, SHAMPOO_F32, SHAMPOO_BF16});
  }
  return spec;
}

TEST_CASE("after a resume on another device, stochastic rounding continues with the same random numbers on all ranks") {
  const double tolerance = OnFake() ? 0 : 2e-2;
  for (const auto& [saver, loader] : {std::pair{SHAMPOO_CUDA, SHAMPOO_CPU}, {SHAMPOO_CPU, SHAMPOO_CUDA}}) {
    for (const auto& [save, load] :
         {std::pair<Grid, Grid>{{1, 1}, {1, 1}}, {{2, 1}, {3, 1}}, {{1, 3}, {1, 3}}, {{2, 2}, {2, 2}}}) {
      CheckAcross(RoundedSpec({}), saver, save, loader, load, false, tolerance);
      CheckAcross(RoundedSpec({{"communicate", "params"}}), saver, save, loader, load, true, tolerance);
      if (save.shards == 1) continue;
      CheckAcross(RoundedSpec({{"shard_mode", "gather"}}), saver, save, loader, load, true, tolerance,
                  save.copies == 1);
    }
  }
}

TEST_CASE("devices and CPUs load the checkpoints of each other, with all grids, dtypes and pending roots" *
          doctest::test_suite("long")) {
  for (const int32_t saver : kTypes) {
    for (const int32_t loader : kTypes) {
      for (const auto& [save, load] : {std::pair<Grid, Grid>{{1, 1}, {1, 1}},
                                       {{2, 1}, {2, 1}},
                                       {{1, 4}, {1, 4}},
                                       {{2, 3}, {2, 3}},
                                       {{2, 1}, {3, 1}},
                                       {{1, 2}, {2, 2}},
                                       {{3, 2}, {1, 2}}}) {
        for (const bool used : {false, true}) {
          CheckAcross(NarrowSpec({}), saver, save, loader, load, used, 1e-2);
        }
        for (const char* method : {"eigen", "newton", "cans"}) {
          for (const char* async : {"0", "2"}) {
            CAPTURE(std::string(method));
            CAPTURE(std::string(async));
            CheckAcross(WideSpec(kPendingRoots + Keys{{"root_method", method}, {"root_async", async}}), saver, save,
                        loader, load, true, 1e-3);
          }
        }
        const Keys late = {{"status_lag", "0"}, {"comm_bucket_bytes", "128"}, {"communicate", "params"}};
        CheckAcross(WideSpec(late), saver, save, loader, load, false, 1e-3);
      }
    }
  }
}

// Two ranks, which are threads, with a copy of a model each. The collectives of a captured step are those of a
// StreamComm.
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

  // work: int32_t(Model* model, shampoo_comm* world). Checks that it succeeds on both ranks.
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

TEST_CASE("a load discards the errors of replays on all ranks, whether or not a rank knows of them before the load") {
  const Stage stage(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  const shampoo::TemporaryDirectory folder;
  const std::string path = folder.path();
  CapturedCopies copies(FiveShapes({{"precondition_frequency", "100"}}));
  copies.OnBoth([&](Model* model, shampoo_comm* world) {
    model->FillParams(1);
    model->Train(1, 3);
    return shampoo_save(&model->optimizer, 1, world, path.c_str(), model->stream);
  });
  std::unique_ptr<Graph> graphs[2];
  for (const int rank : {0, 1}) {
    graphs[rank] = std::make_unique<Graph>(&copies[rank]);
    copies[rank].SpoilGradient(3, 17, NAN);
    graphs[rank]->Launch();
  }
  copies[0].Wait();  // the other replay is still running when the load begins
  copies.OnBoth([&](Model* model, shampoo_comm* world) {
    return shampoo_load(&model->optimizer, 1, world, path.c_str(), model->stream);
  });
  for (const uint64_t t : {4, 5}) {
    copies.OnBoth([&](Model* model, shampoo_comm*) {
      model->FillGradients(t);
      return model->TryStep();
    });
  }
  copies.OnBoth([](Model* model, shampoo_comm*) { return shampoo_optimizer_status(model->optimizer, 1, nullptr); });
  for (const int rank : {0, 1}) CHECK(copies[rank].State("group.0/step")[0] == 5);
}

}  // namespace
}  // namespace shampoo_test
