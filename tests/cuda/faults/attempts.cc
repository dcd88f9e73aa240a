// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/faults/attempts.h"

namespace shampoo_test {
namespace {

constexpr int64_t kMaxCalls = 2000;

// Returns "cudaMallocAsync" for "... cudaMallocAsync(...) failed: ...".
std::string FunctionIn(const std::string& text) {
  const size_t end = text.find("(...) failed: ");
  if (end == std::string::npos) return {};
  size_t begin = end;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_'))
    --begin;
  return text.substr(begin, end - begin);
}

}  // namespace

bool HasFailedInEigensolver() {
  const std::string function = fake_cuda_last_failed();
  return function.find("syev") != std::string::npos && function.find("Info") == std::string::npos;
}

shampoo_status CreateAnother(Model* model, shampoo_optimizer** out) {
  shampoo_optimizer_desc desc = DeviceDesc();
  desc.stream = model->stream;
  return shampoo_optimizer_create(out, model->plan.get(), &desc);
}

Attempt AttemptToCreate(const ModelSpec& spec, shampoo_optimizer** made) {
  return {.spec = spec,
          .run = [made](Model* model) { return CreateAnother(model, made); },
          .afterwards = [made](Model*, bool) { shampoo_optimizer_destroy(std::exchange(*made, nullptr)); }};
}

Outcome TryOnce(const Attempt& attempt, const std::function<void()>& fail) {
  const StageWithStream stream;
  Outcome outcome;
  Model model(attempt.spec, stream);
  for (int64_t t = 1; t <= attempt.steps_before; ++t) model.Step(static_cast<uint64_t>(t));
  model.FillGradients(99);
  model.Bind();
  fake_cuda_mark();
  fail();
  outcome.status = attempt.run(&model);
  outcome.text = shampoo_last_error();
  outcome.failure_used = fake_cuda_cancel_failures() == 0;
  outcome.in_eigensolver = HasFailedInEigensolver();
  if (attempt.afterwards) attempt.afterwards(&model, outcome.status != SHAMPOO_OK);
  return outcome;
}

int64_t FailEach(const Attempt& attempt, const std::function<void(int64_t n)>& fail,
                 const std::function<shampoo_status(int64_t n)>& code, const std::string& names) {
  for (int64_t n = 1; n < kMaxCalls; ++n) {
    CAPTURE(n);
    const Outcome outcome = TryOnce(attempt, [&] { fail(n); });
    if (!outcome.failure_used) {
      CHECK(outcome.status == SHAMPOO_OK);
      return n - 1;
    }
    CAPTURE(outcome.text);
    if (outcome.in_eigensolver) {
      CHECK(outcome.status == SHAMPOO_OK);
      continue;
    }
    CHECK(outcome.status == code(n));
    CHECK(outcome.text.find(names) != std::string::npos);
    CHECK(!FunctionIn(outcome.text).empty());
  }
  FAIL("the attempt makes more than kMaxCalls calls");
  return 0;
}

int64_t FailEachCall(const Attempt& attempt) {
  const auto is_memory = [](int64_t n) { return n % 2 == 0; };
  return FailEach(
      attempt,
      [&](int64_t n) { fake_cuda_fail(nullptr, n, is_memory(n) ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure); },
      [&](int64_t n) { return is_memory(n) ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE; }, "");
}

}  // namespace shampoo_test
