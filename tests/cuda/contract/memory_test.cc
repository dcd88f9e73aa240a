// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that device memory comes from the right allocator, has the planned sizes, and is freed.
#include <map>

#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

// An allocator that uses cudaMalloc and records its calls.
struct Recorder {
  struct Piece {
    size_t bytes;
    int32_t device;
  };
  std::map<void*, Piece> live;
  std::vector<size_t> sizes;  // of all requests
  void* stream = nullptr;     // of the last request
  int released = 0;
  size_t fail_at = 0;   // the number of the call that returns NULL; if 0, no call returns NULL
  size_t misalign = 0;  // misalignment of the returned addresses, in bytes
  bool work_was_left = false;

  shampoo_allocator allocator() {
    shampoo_allocator made = SHAMPOO_ALLOCATOR_INIT;
    made.user = this;
    made.allocate = Allocate;
    made.deallocate = Deallocate;
    made.release = [](void* user) { ++static_cast<Recorder*>(user)->released; };
    return made;
  }
  static void* Allocate(void* user, size_t bytes, size_t align, int32_t type, int32_t device, void* stream) {
    auto* const self = static_cast<Recorder*>(user);
    CHECK(type == SHAMPOO_CUDA);
    CHECK(align == 256);
    self->sizes.push_back(bytes);
    self->stream = stream;
    if (self->sizes.size() == self->fail_at) return nullptr;
    int current = -1;
    MustCuda(cudaGetDevice(&current));
    MustCuda(cudaSetDevice(device));
    void* memory = nullptr;
    MustCuda(cudaMalloc(&memory, bytes + self->misalign));
    MustCuda(cudaSetDevice(current));
    self->live[memory] = {bytes, device};
    return static_cast<char*>(memory) + self->misalign;
  }
  static void Deallocate(void* user, void* memory, size_t bytes, int32_t type, int32_t device, void*) {
    auto* const self = static_cast<Recorder*>(user);
    CHECK(type == SHAMPOO_CUDA);
    // Check for pending work, which may still use the memory, before cudaFree waits for this work.
    if (OnFake()) self->work_was_left = self->work_was_left || fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) != 0;
    void* const began = static_cast<char*>(memory) - self->misalign;
    REQUIRE(self->live.count(began) == 1);
    CHECK(self->live[began].bytes == bytes);
    CHECK(self->live[began].device == device);
    self->live.erase(began);
    (void)cudaFree(began);
  }
};

TEST_CASE("all device memory comes from the caller's allocator, in the planned sizes, and is returned to it") {
  for (const Keys& method : Combinations("root_method=eigen|newton|higher_order")) {
    for (int device = 0; device < Devices(); ++device) {
      INFO(method, ", device ", device);
      const Stage stage(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      MustCuda(cudaSetDevice(device));
      const TestStream stream;
      MustCuda(cudaSetDevice(0));
      Recorder recorder;
      const shampoo_allocator allocator = recorder.allocator();
      ModelSpec spec = FiveShapes(method);
      spec.params.push_back({{70, 33}});
      spec.params.push_back({{40, 40}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
      spec.allocator = &allocator;
      spec.device_id = device;
      {
        Model model(spec, stream);
        REQUIRE(recorder.sizes.size() == 2);
        const size_t workspace = PlannedBytes(model.plan.get(), "workspace");
        CHECK(recorder.sizes[1] == PlannedBytes(model.plan.get(), "state"));
        CHECK(recorder.sizes[0] <= workspace);
        CHECK(recorder.sizes[0] * 10 >= workspace);  // the estimate is not far too large
        CHECK(recorder.stream == static_cast<cudaStream_t>(stream));
        fake_cuda_mark();
        model.Train(1, 3);
        CHECK(recorder.sizes.size() == 2);
        if (OnFake()) {
          CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
          CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) > 0);
        }
      }
      CHECK(recorder.live.empty());
      CHECK(recorder.released == 1);
      CHECK(!recorder.work_was_left);
    }
  }
}

TEST_CASE("create fails without a leak if the allocator returns NULL or unaligned memory") {
  for (const size_t fail_at : {0, 1, 2}) {
    CAPTURE(fail_at);
    const Stage stage;
    Recorder recorder;
    recorder.fail_at = fail_at;
    recorder.misalign = fail_at == 0 ? 128 : 0;
    const shampoo_allocator allocator = recorder.allocator();
    shampoo_optimizer_desc desc = DeviceDesc();
    desc.allocator = &allocator;
    CheckCreateFails(MakePlan(FiveShapes()).get(), desc, fail_at == 0 ? SHAMPOO_E_INVALID : SHAMPOO_E_NOMEM,
                     fail_at == 0 ? "expected an alignment of 256 bytes" : " bytes of ");
    const std::string bytes = std::to_string(recorder.sizes.back());
    if (fail_at > 0) CHECK(std::string(shampoo_last_error()).find(bytes + " bytes of ") != std::string::npos);
    CHECK(recorder.live.empty());
    CHECK(recorder.released == 0);
  }
}

TEST_CASE("if the device has too little memory then create fails and its error refers to shampoo_plan_bytes" *
          NeedsFake()) {
  const Stage stage;
  const PlanPtr plan = MakePlan(FiveShapes());
  const shampoo_optimizer_desc desc = DeviceDesc();
  for (const size_t room : {size_t{1000}, PlannedBytes(plan.get(), "workspace")}) {
    MustCuda(cudaDeviceSynchronize());
    fake_cuda_set_memory_limit(static_cast<int64_t>(room));
    CheckCreateFails(plan.get(), desc, SHAMPOO_E_NOMEM, "shampoo_plan_bytes");
  }
  MustCuda(cudaDeviceSynchronize());  // lets the streams free temporary memory
  fake_cuda_set_memory_limit(static_cast<int64_t>(PlannedBytes(plan.get(), "total")));
  shampoo_optimizer* made = nullptr;
  Must(shampoo_optimizer_create(&made, plan.get(), &desc));
  shampoo_optimizer_destroy(made);
}

// On the fake CUDA, the communicator of DeviceRanks rejects memory that other devices cannot access.
TEST_CASE("the buffers of exchanges are accessible to other devices, also after a rejected step") {
  const Stage stage;
  DeviceRanks ranks(FiveShapes("status_lag=0"), 2);
  ranks.Train(1, 1);
  ranks[1].SetGradient(1, {NAN, 0, 0, 0, 0});
  ranks.CheckStep(SHAMPOO_E_NUMERIC, {"rank 1"});
}

TEST_CASE("the planned workspace of several ranks includes the buffers of exchanges") {
  // The segment of a rank consists of a header of 64 bytes, and updates of 192 bytes each. With comm_bucket_bytes=0,
  // there is one bucket, and one buffer holds a segment of two updates from each of the two ranks. With
  // comm_bucket_bytes=384, there are two buckets, each with one block of each rank. There are also two buffers, and
  // each buffer holds a segment of one update from each rank.
  constexpr size_t kOneBlock = 64 + 192;
  for (const auto& [bucket, exchanged] : {std::pair{"0", 2 * (kOneBlock + 192)}, {"384", 2 * 2 * kOneBlock}}) {
    CAPTURE(std::string(bucket));
    const Stage stage;
    Recorder recorder[2];
    const shampoo_allocator allocators[2] = {recorder[0].allocator(), recorder[1].allocator()};
    {
      ModelSpec spec = FiveShapes({{"comm_bucket_bytes", bucket}});
      spec.params = {{{6, 8}}, {{6, 8}}, {{6, 8}}, {{6, 8}}};
      DeviceRanks ranks(spec, {"local", 2, 1}, allocators);
      for (int rank = 0; rank < 2; ++rank) {
        // The allocator is called for the workspace, the state, the buffers of the exchanges that a step enqueues, and
        // the device buffer through which the host exchanges plans and errors with the other rank.
        REQUIRE(recorder[rank].sizes.size() == 4);
        CHECK(recorder[rank].sizes[2] == exchanged);
        const size_t workspace = PlannedBytes(ranks[rank].plan.get(), "workspace");
        CHECK(recorder[rank].sizes[0] + recorder[rank].sizes[2] <= workspace);
      }
      ranks.Train(1, 2);
    }
    for (const Recorder& one : recorder) CHECK(one.live.empty());
  }
}

TEST_CASE(
    "an optimizer has a cuBLAS handle for each stream, and a cuSOLVER handle for each stream that computes roots" *
    NeedsFake()) {
  for (const char* async : {"0", "1"}) {
    const Stage stage;
    const int64_t of_async = std::string(async) == "0" ? 0 : 1;
    const Model model(FiveShapes({{"root_async", async}}));
    CHECK(fake_cuda_live(FAKE_CUDA_BLAS_HANDLES) == 4 + of_async);
    CHECK(fake_cuda_live(FAKE_CUDA_SOLVER_HANDLES) == 1 + of_async);
  }
}

TEST_CASE("if the device has too little memory for the state then create fails and another optimizer can be created") {
  const Stage stage;
  if (OnFake()) fake_cuda_set_memory_limit(int64_t{1} << 30);
  ModelSpec spec;
  spec.keys = "max_preconditioner_dim=8192";
  spec.params = {{{1 << 20, 1 << 20}}};  // 16384 blocks of 256 MiB each
  const PlanPtr plan = MakePlan(spec);
  CHECK(PlannedBytes(plan.get(), "state") > size_t{1} << 42);
  CheckCreateFails(plan.get(), DeviceDesc(), SHAMPOO_E_NOMEM, "shampoo_plan_bytes");
  Model model(FiveShapes());
  model.Step(1);
  CHECK(model.State("group.0/step")[0] == 1);
}

TEST_CASE("the planned workspace includes the memory of parameters without elements") {
  const Stage stage;
  UsePlugin();
  Recorder recorder;
  const shampoo_allocator allocator = recorder.allocator();
  shampoo_config* config = nullptr;
  Must(shampoo_config_create(&config));
  Must(shampoo_config_set_str(config, "preset", "shampoo_2024"));
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.device_type = SHAMPOO_CUDA;
  plan_desc.shard_world = 2;
  shampoo_plan* plan = nullptr;
  Must(shampoo_plan_create(&plan, config, &plan_desc));
  shampoo_config_destroy(config);
  for (int i = 0; i < 100; ++i) {
    const std::string name = "p" + std::to_string(i);
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = name.c_str();
    param.ndim = 1;
    param.shape[0] = 6;
    param.shard_form = 1;
    param.flat_count = i == 0 ? 6 : 0;
    Must(shampoo_plan_add_param(plan, &param, nullptr));
  }
  Must(shampoo_plan_finish(plan));
  shampoo_optimizer_desc desc = DeviceDesc();
  desc.allocator = &allocator;
  shampoo_optimizer* made = nullptr;
  Must(shampoo_optimizer_create(&made, plan, &desc));
  CHECK(recorder.sizes[0] <= PlannedBytes(plan, "workspace"));
  shampoo_optimizer_destroy(made);
  shampoo_plan_destroy(plan);
}

}  // namespace
}  // namespace shampoo_test
