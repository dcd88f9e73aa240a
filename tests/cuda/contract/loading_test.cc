// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that shampoo_optimizer_create() loads all kernels. Otherwise CUDA would load a kernel at its first use, and
// loading may wait for a running collective. Tests that use the class Model also fail if a call after create loads one.
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/stream_rank.h"

namespace shampoo_test {
namespace {

// Makes steps with and without a refresh of the roots, a step that rejects its gradient, and a step in another arena.
void MakeEveryKindOfStep(Model* model) {
  model->Train(1, 6);
  model->SetGradient(1, std::vector<double>(model->elements(1), NAN));
  model->Step();
  CHECK(model->Status() == SHAMPOO_E_NUMERIC);
  model->FillGradients(7);
  const Arenas arenas(*model);
  arenas.Bind(model);
  model->Step();
  model->Wait();
  model->MustSucceed();
}

TEST_CASE("create loads all kernels that later calls use" * NeedsFake()) {
  for (const Keys& keys :
       Combinations("root_method=eigen|newton|higher_order precondition_math=f32|tf32 root_async=0|1")) {
    CAPTURE(keys);
    const Stage stage;
    ModelSpec spec = FiveShapes(keys + Keys("root_max_iterations=20 epsilon=1"));
    spec.params.push_back({{70, 33}});
    spec.params.push_back({{40, 40}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
    fake_cuda_mark();
    Model model(spec);
    CHECK(fake_cuda_count(FAKE_CUDA_LOADS) > 60);
    fake_cuda_mark();
    MakeEveryKindOfStep(&model);
    CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == 0);
  }
}

TEST_CASE("kernels are loaded onto the optimizer's device and only once for each device" * NeedsFake()) {
  const Stage stage;
  ModelSpec spec = FiveShapes();
  fake_cuda_mark();
  const Model first(spec);
  const int64_t loads = fake_cuda_count(FAKE_CUDA_LOADS);
  const Model again(spec);
  CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == loads);
  spec.device_id = 1;
  Model other(spec);
  CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == 2 * loads);
}

TEST_CASE("steps of several ranks load no kernel" * NeedsFake()) {
  const Stage stage;
  DeviceRanks ranks(FiveShapes("status_lag=0 comm_bucket_bytes=128"), 3);
  fake_cuda_mark();
  ranks.Train(1, 5);
  CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == 0);
}

// A StreamComm that stores in *loads how many kernels were loaded before the first collective. If communicators
// share `loads`, this is the first collective of any of them.
class CommAfterLoading : public StreamComm {
 public:
  CommAfterLoading(int world, int64_t* loads) : StreamComm(world), loads_(loads) {}

  shampoo_comm_ops Ops(bool with_all_to_all) {
    inner_ = StreamComm::Ops(with_all_to_all);
    shampoo_comm_ops ops = inner_;
    ops.user = this;
    ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void* stream) {
      const shampoo_comm_ops& inner = Record(user);
      return inner.all_gather(inner.user, send, recv, bytes, stream);
    };
    if (!with_all_to_all) return ops;
    ops.all_to_all = [](void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                        void* stream) {
      const shampoo_comm_ops& inner = Record(user);
      return inner.all_to_all(inner.user, send, send_bytes, recv, recv_bytes, stream);
    };
    return ops;
  }

 private:
  static const shampoo_comm_ops& Record(void* user) {
    const auto* const own = static_cast<CommAfterLoading*>(user);
    if (*own->loads_ < 0) *own->loads_ = fake_cuda_count(FAKE_CUDA_LOADS);
    return own->inner_;
  }

  shampoo_comm_ops inner_ = SHAMPOO_COMM_OPS_INIT;
  int64_t* loads_;
};

TEST_CASE("create loads all kernels before its first collective" * NeedsFake()) {
  constexpr RankKind kKinds[] = {{"local", 2, 1, false},
                                 {"local", 1, 2, false},
                                 {"local", 2, 2, false, "64"},
                                 {"gather", 1, 2, false},
                                 {"gather", 2, 2, true, "64"}};
  for (const RankKind& kind : kKinds) {
    for (const Keys& keys :
         {Keys("root_method=eigen"), Keys("root_method=newton root_async=1 precondition_frequency=5"),
          Keys("root_method=cans track_root_residuals=true"), Keys("method=soap"),
          Keys("method=muon muon_local=true")}) {
      INFO(NameOf(kind), " ", keys);
      const StageWithStream stream;
      UsePlugin();
      ModelSpec spec = SpecOfKind(kind);
      spec.keys = keys + kind.keys();
      int64_t loads = -1;
      const RankComms<CommAfterLoading> comms(kind, &loads);
      fake_cuda_mark();
      const Model model(comms.Join(spec), stream);
      CHECK(loads > 20);
      CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == loads);
    }
  }
}

TEST_CASE("create fails if a kernel cannot be loaded" * NeedsFake()) {
  const Stage stage;
  const PlanPtr plan = MakePlan(FiveShapes());
  for (const int64_t nth : {1, 20}) {
    fake_cuda_fail("cudaFuncGetAttributes", nth, cudaErrorLaunchFailure);
    CheckCreateFails(plan.get(), DeviceDesc(), SHAMPOO_E_DEVICE,
                     "cudaFuncGetAttributes(...) failed: cudaErrorLaunchFailure");
  }
}

// Method cans computes the inverse roots of the 2 x 3 parameter. Those of the 3 x 2 x 2 parameter are powers -1/6. cans
// does not support this power, so method eigen computes them. Both parameters have factor matrices of the sizes 2 and 3
// in float64, so create must load two solvers for the same size and dtype.
TEST_CASE("create loads the solver of every root method that at least one block uses") {
  ModelSpec spec;
  spec.keys = "root_method=cans use_merge_dims=false epsilon=1e-2 status_lag=0";
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3}, {3, 2, 2}}) {
    spec.params.push_back({shape, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
  }
  StagedModel model(spec);
  model.Train(1, 2);
  CHECK(model.Stat("root_cans") > 0);
  CHECK(model.Stat("root_eigen") > 0);
}

}  // namespace
}  // namespace shampoo_test
