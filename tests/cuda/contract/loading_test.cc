// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// CUDA loads a kernel when it is first used, which may wait for a running collective. So create loads all kernels.
// Every other test also fails if a later call loads one; see Model.
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

// Steps without roots, with roots, with a rejected gradient, and with another arena.
void MakeEveryKindOfStep(Model* model) {
  model->Train(1, 6);
  model->SetGradient(1, std::vector<double>(model->elements(1), NAN));
  Must(model->TryStep());
  CHECK(shampoo_optimizer_status(model->optimizer, 1, nullptr) == SHAMPOO_E_NUMERIC);
  model->FillGradients(7);
  const Arenas arenas(*model);
  arenas.Bind(model);
  model->Step();
  model->Wait();
  Must(shampoo_optimizer_status(model->optimizer, 1, nullptr));
}

TEST_CASE("create loads all kernels that later calls use" * NeedsFake()) {
  for (const char* method : {"eigen", "newton", "higher_order"}) {
    for (const char* math : {"f32", "tf32"}) {
      for (const char* async : {"0", "1"}) {
        CAPTURE(std::string(method));
        CAPTURE(std::string(math));
        CAPTURE(std::string(async));
        const Stage stage;
        ModelSpec spec = FiveShapes({{"root_method", method},
                                     {"precondition_math", math},
                                     {"root_async", async},
                                     {"root_max_iterations", "20"},
                                     {"epsilon", "1"}});
        spec.params.push_back({{70, 33}});
        spec.params.push_back({{40, 40}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
        fake_cuda_mark();
        Model model(spec);
        CHECK(fake_cuda_count(FAKE_CUDA_LOADS) > 60);
        model.FillParams(1);
        fake_cuda_mark();
        MakeEveryKindOfStep(&model);
        CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == 0);
      }
    }
  }
}

TEST_CASE("kernels are loaded onto the optimizer's device, and only once" * NeedsFake()) {
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

TEST_CASE("after the first exchange of several ranks, no kernel is loaded" * NeedsFake()) {
  const Stage stage;
  DeviceRanks ranks(FiveShapes({{"status_lag", "0"}, {"comm_bucket_bytes", "128"}}), 3);
  fake_cuda_mark();
  ranks.FillParams(1);
  for (uint64_t t = 1; t <= 5; ++t) {
    ranks.Step(t);
    CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
  }
  CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == 0);
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

// Method eigen computes the roots of the tensor, and cans those of the matrix. They have the same sizes and dtype.
TEST_CASE("create loads the solvers of all methods, also of one that some blocks use instead of the group's method") {
  const StageWithStream stream;
  ModelSpec spec;
  spec.keys = {{"root_method", "cans"}, {"use_merge_dims", "false"}, {"epsilon", "1e-2"}, {"status_lag", "0"}};
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3}, {3, 2, 2}}) {
    spec.params.push_back({shape, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
  }
  Model model(spec, stream);
  model.FillParams(1);
  model.Train(1, 2);
  CHECK(model.Stat("root_cans") > 0);
  CHECK(model.Stat("root_eigen") > 0);
}

}  // namespace
}  // namespace shampoo_test
