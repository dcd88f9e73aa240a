// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/semantics/model.h"

namespace shampoo_test {
namespace {

const Keys kStateKeys = {{"grafting", "adam"},           {"momentum", "0.9"},
                         {"factor_dtype", "bf16"},       {"epsilon", "1e-2"},
                         {"filtered_grad_dtype", "f16"}, {"max_preconditioner_dim", "4"}};

void CopyStates(Model<float>* from, Model<float>* to) {
  int64_t count = 0;
  RequireOk(shampoo_state_count(from->optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    RequireOk(shampoo_state_describe(from->optimizer, i, &entry));
    int64_t elements = 1;
    for (int k = 0; k < entry.ndim; ++k) elements *= entry.shape[k];
    std::vector<uint64_t> bytes(static_cast<size_t>(elements));
    RequireOk(
        shampoo_state_read(from->optimizer, i, 0, elements, bytes.data(), bytes.size() * 8, SHAMPOO_CPU, nullptr));
    // Writes two ranges, as a host with its own checkpoint format may do.
    const int64_t half = elements / 2;
    const size_t size = entry.dtype == SHAMPOO_I64                                  ? 8
                        : entry.dtype == SHAMPOO_F16 || entry.dtype == SHAMPOO_BF16 ? 2
                                                                                    : 4;
    const char* const second = reinterpret_cast<const char*>(bytes.data()) + static_cast<size_t>(half) * size;
    RequireOk(shampoo_state_write(to->optimizer, i, 0, half, bytes.data(), bytes.size() * 8, SHAMPOO_CPU, nullptr));
    RequireOk(shampoo_state_write(to->optimizer, i, half, elements - half, second,
                                  static_cast<size_t>(elements - half) * size, SHAMPOO_CPU, nullptr));
  }
}

TEST_CASE("states read by name and written into a fresh optimizer continue with the same bits") {
  const std::vector<shampoo_param_desc> params = {Param("a", {6, 5}), Param("b", {7}), Param("c", {2, 3, 2})};
  Model<float> first(kStateKeys, params);
  Model<float> second(kStateKeys, params);
  std::mt19937_64 random(2);
  for (auto& w : first.w) Fill(random, &w);
  for (int t = 0; t < 8; ++t) {
    for (auto& g : first.g) Fill(random, &g);
    first.Step();
    if (t < 4) continue;
    second.g = first.g;
    if (t > 4) {
      second.Step();
      for (size_t p = 0; p < params.size(); ++p) CHECK(SameBits(first.w[p], second.w[p]));
    } else {
      CopyStates(&first, &second);
      second.w = first.w;
    }
  }
}

TEST_CASE("a factor is read as the full symmetric matrix, and written by its lower triangle") {
  Model<float> model({{"use_merge_dims", "false"}, {"beta1", "0"}}, {Param("w", {3, 2})});
  model.g[0] = {1, 2, 3, 4, 5, 6};
  model.Step();
  const std::vector<float> full = model.Read<float>("w/0/factor.0", 9);
  CHECK(full == std::vector<float>{5, 11, 17, 11, 25, 39, 17, 39, 61});
  const std::vector<float> written = {1, -1, -1, 2, 3, -1, 4, 5, 6};
  const int64_t entry = model.Entry("w/0/factor.0");
  RequireOk(shampoo_state_write(model.optimizer, entry, 0, 9, written.data(), 36, SHAMPOO_CPU, nullptr));
  CHECK(model.Read<float>("w/0/factor.0", 9) == std::vector<float>{1, 2, 4, 2, 3, 5, 4, 5, 6});
}

TEST_CASE("a step from one arena into another is a pure function") {
  shampoo_config* config = MakeConfig(kStateKeys);
  shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
  shampoo_plan* plan = nullptr;
  shampoo_param_desc param = Param("w", {6, 5}, SHAMPOO_F32);
  RequireOk(shampoo_plan_create(&plan, config, &place));
  RequireOk(shampoo_plan_add_param(plan, &param, nullptr));
  RequireOk(shampoo_plan_finish(plan));
  int64_t bytes = 0;
  RequireOk(shampoo_plan_bytes(plan, 0, "state", &bytes));
  struct alignas(64) Line {
    char bytes[64];
  };
  // The addresses are aligned to 64 bytes and no more: one of the two is an odd multiple of 64.
  std::vector<Line> memory[3];
  Line* arenas[3];
  for (int k = 0; k < 3; ++k) {
    memory[k].resize(static_cast<size_t>(bytes) / 64 + 2);
    arenas[k] = memory[k].data() + k;
  }
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.state = arenas[0];
  desc.state_bytes = static_cast<size_t>(bytes);
  shampoo_optimizer* optimizer = nullptr;
  RequireOk(shampoo_optimizer_create(&optimizer, plan, &desc));

  std::vector<float> w(30, 1), g(30), out[2] = {std::vector<float>(30), std::vector<float>(30)};
  std::mt19937_64 random(4);
  Fill(random, &g);
  // One step in place, so that the next step does not start from the initial state.
  shampoo_buffers first = SHAMPOO_BUFFERS_INIT;
  first.param = first.out = w.data();
  first.grad = g.data();
  RequireOk(shampoo_optimizer_bind(optimizer, 0, 1, &first));
  RequireOk(shampoo_optimizer_step(optimizer, nullptr));
  Fill(random, &g);
  const std::vector<Line> before = memory[0];
  for (int twice = 0; twice < 2; ++twice) {
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = w.data();
    buffers.grad = g.data();
    buffers.out = out[twice].data();
    RequireOk(shampoo_optimizer_bind(optimizer, 0, 1, &buffers));
    RequireOk(shampoo_optimizer_bind_state(optimizer, arenas[0], arenas[1 + twice]));
    RequireOk(shampoo_optimizer_step(optimizer, nullptr));
  }
  CHECK(SameBits(out[0], out[1]));
  CHECK(!SameBits(out[0], w));
  CHECK(std::memcmp(arenas[1], arenas[2], static_cast<size_t>(bytes)) == 0);
  CHECK(std::memcmp(arenas[0], before.data(), static_cast<size_t>(bytes)) == 0);
  // The same step in place.
  RequireOk(shampoo_optimizer_bind(optimizer, 0, 1, &first));
  RequireOk(shampoo_optimizer_bind_state(optimizer, nullptr, nullptr));
  RequireOk(shampoo_optimizer_step(optimizer, nullptr));
  CHECK(SameBits(w, out[0]));
  CHECK(std::memcmp(arenas[0], arenas[1], static_cast<size_t>(bytes)) == 0);
  shampoo_optimizer_destroy(optimizer);
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

}  // namespace
}  // namespace shampoo_test
