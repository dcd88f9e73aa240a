// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of operations of an optimizer, such as create, step and save. In each operation, each call of CUDA fails in
// turn. Tests of exports are in exports_test.cc.
#include <unistd.h>

#include <filesystem>

#include "tests/cuda/faults/attempts.h"

namespace shampoo_test {
namespace {

namespace fs = std::filesystem;

// Returns the specification of a model that uses four streams and both batched eigensolvers of cuSOLVER: Jacobi's
// method for small matrices, and cusolverDnXsyevBatched() for large ones.
ModelSpec SpecOfCalls(const Keys& more = {}) {
  ModelSpec spec = FiveShapes(more);
  spec.params = {{{5}}, {{2, 3, 4}}, {{40, 2}}, {{4, 3}}};
  return spec;
}

// Returns the number of calls of CUDA that query whether there is a device. Create begins with these calls.
int64_t CallsToDescribe() {
  fake_cuda_mark();
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  Must(shampoo_backend_describe(1, &info));
  return fake_cuda_calls(nullptr);
}

// Makes each call of CUDA in create fail in turn, except the first `first` calls. Returns the number of failed calls.
int64_t FailEachCallOfCreate(const Attempt& attempt, int64_t first) {
  return FailEach(
      attempt,
      [&](int64_t n) {
        fake_cuda_fail(nullptr, first + n, n % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure);
      },
      [](int64_t n) { return n % 2 == 0 ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE; }, "");
}

TEST_CASE("if a call of CUDA fails in create, create leaks nothing, and a second create works" *
          doctest::test_suite("long")) {
  UsePlugin();
  const int64_t first = CallsToDescribe();
  // Create makes calls of the CUDA libraries for each size of matrices. With two sizes, the test stays short.
  ModelSpec spec = SpecOfCalls();
  spec.params = {{{2}}, {{2, 2, 2}}, {{40}}, {{2, 40}}};
  shampoo_optimizer* made = nullptr;
  Attempt attempt = AttemptToCreate(spec, &made);
  attempt.afterwards = [&](Model* model, bool failed) {
    CHECK((made == nullptr) == failed);
    if (failed) Must(CreateAnother(model, &made));
    shampoo_optimizer_destroy(std::exchange(made, nullptr));
  };
  for (int64_t n = 1; n <= first; ++n) {
    const Outcome outcome = TryOnce(attempt, [&] { fake_cuda_fail(nullptr, n, cudaErrorUnknown); });
    // A failed query of a version has no effect, because versions are used only in error messages. If any other call
    // that CallsToDescribe() counts fails, the library reports that the device cannot be used.
    CHECK((outcome.status == SHAMPOO_OK || outcome.status == SHAMPOO_E_UNSUPPORTED));
  }
  CHECK(FailEachCallOfCreate(attempt, first) > 30);
}

TEST_CASE("if a call of CUDA fails in create with root_async, create leaks neither memory nor a thread" * NeedsFake()) {
  UsePlugin();
  const int64_t first = CallsToDescribe();
  for (const char* root_device : {"device", "host"}) {
    ModelSpec spec = SpecOfCalls({{"root_async", "1"}, {"root_device", root_device}});
    spec.params = {{{2}}};
    shampoo_optimizer* made = nullptr;
    CHECK(FailEachCallOfCreate(AttemptToCreate(spec, &made), first) > 30);
  }
}

TEST_CASE("create reports how much memory could not be allocated, and for what" * NeedsFake()) {
  shampoo_optimizer* made = nullptr;
  const Attempt attempt = AttemptToCreate(SpecOfCalls(), &made);
  for (const auto& [n, what] : {std::pair{1, "bytes of workspace on device 0"}, {2, "bytes of state on device 0"}}) {
    const Outcome outcome = TryOnce(attempt, [&] { fake_cuda_fail("cudaMallocAsync", n, cudaErrorMemoryAllocation); });
    CHECK(outcome.status == SHAMPOO_E_NOMEM);
    CHECK(outcome.text.find(what) != std::string::npos);
    CHECK(outcome.text.find("cudaMallocAsync(...) failed: cudaErrorMemoryAllocation") != std::string::npos);
  }
}

shampoo_status StepOnce(Model* model) { return shampoo_optimizer_step(model->optimizer, model->stream); }

TEST_CASE("if a call of CUDA fails in the first or second step, running work ends before its memory is freed" *
          NeedsFake()) {
  for (const int64_t before : {0, 1}) {
    Attempt attempt{.spec = SpecOfCalls(), .steps_before = before, .run = StepOnce};
    attempt.spec.params = {{{2, 3, 4}}, {{4, 3}}};
    CHECK(FailEachCall(attempt) > 25);
  }
}

// Makes each call of CUDA in a step fail in turn. All steps use one optimizer, and the step is repeated after each
// failure. Returns the number of calls of CUDA in a step.
int64_t FailEachCallOf(const ModelSpec& spec) {
  StagedModel model(spec);
  model.Step(1);
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 5000);
    fake_cuda_fail(nullptr, n, n % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure);
    const shampoo_status status = StepOnce(&model);
    if (fake_cuda_cancel_failures() != 0) {
      CHECK(status == SHAMPOO_OK);
      return n - 1;
    }
    if (HasFailedInEigensolver()) {
      CHECK(status == SHAMPOO_OK);
      continue;
    }
    CHECK(status == (n % 2 == 0 ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE));
    CHECK(std::string(shampoo_last_error()).find("(...) failed: ") != std::string::npos);
    // If the call that records the end of the step has failed, the device has made the step. In this case, the next
    // step may report that the state has changed.
    if (const shampoo_status next = StepOnce(&model); next != SHAMPOO_OK) {
      CHECK(next == SHAMPOO_E_STATE);
      Must(StepOnce(&model));
    }
    const shampoo_status found = model.Status();
    CHECK((found == SHAMPOO_OK || found == SHAMPOO_E_STATE));
  }
}

TEST_CASE("with several root methods, later steps work after any call of CUDA in a step has failed" * NeedsFake()) {
  for (const char* lag : {"0", "1"}) {
    CHECK(FailEachCallOf(SpecOfCalls({{"status_lag", lag}, {"precondition_frequency", "1"}})) > 100);
    CHECK(FailEachCallOf(SpecOfCalls({{"status_lag", lag}, {"precondition_frequency", "4000"}})) > 35);
  }
  for (const char* method : {"newton", "higher_order"}) {
    ModelSpec spec{.keys = {{"root_method", method}, {"root_max_iterations", "12"}, {"epsilon", "10"}},
                   .params = {{{3, 2}}}};
    CHECK(FailEachCallOf(spec) > 60);
  }
}

TEST_CASE("with methods in eigenbases, later steps work after any call of CUDA in a step has failed" *
          doctest::test_suite("long")) {
  const Keys soap = "method=soap precondition_frequency=1";
  const Keys qr = "basis_method=qr basis_transport=permute";
  for (const Keys& keys :
       {soap, soap + Keys("factor_correction=kl"), soap + qr, Keys("method=kl_shampoo precondition_frequency=1")}) {
    for (const char* lag : {"0", "1"}) {
      ModelSpec spec;
      spec.keys = keys + Keys{{"status_lag", lag}};
      spec.params = SpecOfCalls().params;
      CHECK(FailEachCallOf(spec) > 100);
    }
  }
}

TEST_CASE("with exact orthogonalization, later steps work after any call of CUDA in a step has failed" * NeedsFake()) {
  const Keys exact = "orthogonalization=exact";
  const Keys soap = "method=soap soap_post=orthogonalize precondition_frequency=2";
  for (const Keys& keys : {Keys("method=muon second_moment=row"), soap}) {
    for (const char* lag : {"0", "1"}) {
      ModelSpec spec{.keys = keys + exact + Keys{{"status_lag", lag}}, .params = {{{4, 3}}, {{3, 5}}}};
      CHECK(FailEachCallOf(spec) > 200);
    }
  }
}

TEST_CASE("if a call of CUDA fails in create with exact orthogonalization, create leaks nothing" * NeedsFake()) {
  UsePlugin();
  const int64_t first = CallsToDescribe();
  ModelSpec spec{.keys = "method=soap soap_post=orthogonalize orthogonalization=exact", .params = {{{2, 3}}}};
  shampoo_optimizer* made = nullptr;
  CHECK(FailEachCallOfCreate(AttemptToCreate(spec, &made), first) > 30);
}

TEST_CASE("bind makes no call of CUDA, and shampoo_optimizer_status reports each failed call of CUDA" * NeedsFake()) {
  Attempt attempt{.spec = SpecOfCalls(), .steps_before = 1, .run = [](Model* model) {
                    model->Bind();
                    return SHAMPOO_OK;
                  }};
  CHECK(FailEachCall(attempt) == 0);
  for (const int32_t wait : {0, 1}) {
    attempt.run = [wait](Model* model) { return shampoo_optimizer_status(model->optimizer, wait, nullptr); };
    CHECK(FailEachCall(attempt) >= wait);
  }
}

TEST_CASE("if state_read or state_write fails, host memory is unchanged" * NeedsFake()) {
  for (const char* key : {"p0/0/factor.0", "group.0/step"}) {
    std::vector<char> memory;
    int64_t index = -1;
    int64_t elements = 1;
    const auto find = [&](Model* model) {
      shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
      int64_t count = 0;
      Must(shampoo_state_count(model->optimizer, &count));
      for (index = 0; index < count; ++index) {
        Must(shampoo_state_describe(model->optimizer, index, &entry));
        if (std::string(entry.key) == key) break;
      }
      elements = 1;
      for (int32_t k = 0; k < entry.ndim; ++k) elements *= entry.shape[k];
      memory.assign(static_cast<size_t>(elements) * 8, '\x55');
    };
    Attempt attempt{.spec = SpecOfCalls(), .steps_before = 2, .run = {}};
    attempt.run = [&](Model* model) {
      find(model);
      return shampoo_state_read(model->optimizer, index, 0, elements, memory.data(), memory.size(), SHAMPOO_CPU,
                                model->stream);
    };
    attempt.afterwards = [&](Model*, bool failed) {
      CHECK((memory == std::vector<char>(memory.size(), '\x55')) == failed);
    };
    CHECK(FailEachCall(attempt) >= 3);
    attempt.run = [&](Model* model) {
      find(model);
      return shampoo_state_write(model->optimizer, index, 0, elements, memory.data(), memory.size(), SHAMPOO_CPU,
                                 model->stream);
    };
    attempt.afterwards = [&](Model*, bool) { CHECK(memory == std::vector<char>(memory.size(), '\x55')); };
    CHECK(FailEachCall(attempt) >= 3);
  }
}

TEST_CASE("if a save or a load fails, the previous checkpoint remains, and no partial checkpoint is left" *
          NeedsFake()) {
  const fs::path folder = fs::temp_directory_path() / ("shampoo_faults_" + std::to_string(getpid()));
  const auto indices = [&] {
    int64_t count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      count += entry.path().extension() == ".json" ? 1 : 0;
    return count;
  };
  Attempt attempt{.spec = SpecOfCalls(), .steps_before = 2, .run = {}};
  attempt.spec.params.resize(2);
  attempt.run = [&](Model* model) {
    return shampoo_save(&model->optimizer, 1, nullptr, folder.c_str(), model->stream);
  };
  REQUIRE(TryOnce(attempt, [] {}).status == SHAMPOO_OK);
  attempt.afterwards = [&](Model*, bool) { CHECK(indices() == 1); };
  CHECK(FailEachCall(attempt) > 10);
  attempt.afterwards = {};
  attempt.run = [&](Model* model) {
    return shampoo_load(&model->optimizer, 1, nullptr, folder.c_str(), model->stream);
  };
  CHECK(FailEachCall(attempt) > 10);
  attempt.afterwards = [&](Model* model, bool) {
    Must(shampoo_load(&model->optimizer, 1, nullptr, folder.c_str(), model->stream));
    CHECK(model->State("group.0/step") == std::vector<double>{2});
  };
  FailEachCall(attempt);
  fs::remove_all(folder);
}

TEST_CASE("destroy works even if a call of CUDA fails" * NeedsFake()) {
  for (int64_t n = 1; n < 30; ++n) {
    StagedModel model(SpecOfCalls(), FAKE_CUDA_OLDEST_FIRST);
    model.Step(1);
    model.Wait();
    fake_cuda_fail(nullptr, n, cudaErrorUnknown);
    shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
    fake_cuda_cancel_failures();
  }
}

}  // namespace
}  // namespace shampoo_test
