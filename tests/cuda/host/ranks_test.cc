// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Several ranks on devices, as threads: if one of them rejects a step, all report the same error in the same call.
#include <array>
#include <functional>

#include "tests/cuda/host/device_host.h"
#include "tests/distributed/thread_comm.h"

namespace shampoo_test {
namespace {

constexpr int kRanks = 3;

// One optimizer on each rank, with parameters "w" and "v".
class Ranks {
 public:
  struct Rank {
    shampoo_plan* plan = nullptr;
    shampoo_optimizer* optimizer = nullptr;
    shampoo_status status = SHAMPOO_OK;
    std::string text;
    std::array<float, 12> w{}, g{};
  };

  explicit Ranks(const Keys& keys, const std::function<void(int rank, shampoo_param_desc* v)>& change = {})
      : comm_(kRanks) {
    const auto replay = TheFake().replay;
    const FakeDevice asked = TheFake();
    TheFake() = FakeDevice();
    TheFake().replay = replay;
    TheFake().rank = 1;
    TheFake().fails_create = asked.fails_create;
    comm_.patience = std::chrono::seconds(20);
    OnEveryRank(kRanks, [&](int rank) { Create(rank, keys, change); });
    TheFake().fails_create = false;
  }
  ~Ranks() {
    for (Rank& rank : ranks) {
      shampoo_optimizer_destroy(rank.optimizer);
      shampoo_plan_destroy(rank.plan);
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Rank& operator[](int rank) { return ranks[static_cast<size_t>(rank)]; }
  void Bind(int rank, int32_t param, bool with_gradient = true) {
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = buffers.out = (*this)[rank].w.data();
    buffers.grad = with_gradient ? (*this)[rank].g.data() : nullptr;
    Must(shampoo_optimizer_bind((*this)[rank].optimizer, param, 1, &buffers));
  }
  void BindAll() {
    for (int rank = 0; rank < kRanks; ++rank) {
      Bind(rank, 0);
      Bind(rank, 1);
    }
  }
  void Run(const std::function<shampoo_status(shampoo_optimizer*)>& call) {
    OnEveryRank(kRanks, [&](int rank) { Note(rank, call((*this)[rank].optimizer)); });
    CHECK(comm_.timeouts() == 0);
  }
  void Step() {
    Run([](shampoo_optimizer* optimizer) { return shampoo_optimizer_step(optimizer, nullptr); });
  }
  void CheckAll(shampoo_status status, std::initializer_list<std::string> words = {}) {
    for (Rank& rank : ranks) {
      CHECK(rank.status == status);
      if (status == SHAMPOO_OK) continue;
      CHECK(MissingWord(rank.text, words) == "");
      CHECK(rank.text == ranks[0].text);
    }
  }

  std::array<Rank, kRanks> ranks;

 private:
  void Note(int rank, shampoo_status status) {
    (*this)[rank].status = status;
    (*this)[rank].text = status == SHAMPOO_OK ? "" : shampoo_last_error();
  }
  void Create(int rank, const Keys& keys, const std::function<void(int, shampoo_param_desc*)>& change) {
    shampoo_config* config = nullptr;
    shampoo_config_create(&config);
    shampoo_config_set_str(config, "preset", "shampoo_2024");
    for (const auto& [key, value] : keys) shampoo_config_set_str(config, key.c_str(), value.c_str());
    shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
    place.device_type = SHAMPOO_CUDA;
    place.replica_rank = rank;
    place.replica_world = kRanks;
    shampoo_plan* plan = nullptr;
    shampoo_plan_create(&plan, config, &place);
    shampoo_config_destroy(config);
    for (const char* name : {"w", "v"}) {
      shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
      param.name = name;
      param.ndim = 1;
      param.shape[0] = 12;
      if (*name == 'v' && change) change(rank, &param);
      shampoo_plan_add_param(plan, &param, nullptr);
    }
    shampoo_plan_finish(plan);
    shampoo_comm_ops ops = comm_.OpsOf(rank);
    ops.device_type = SHAMPOO_CUDA;
    shampoo_comm* comm = nullptr;
    shampoo_comm_from_ops(&comm, &ops);
    shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
    desc.device_type = SHAMPOO_CUDA;
    desc.replica_comm = comm;
    (*this)[rank].plan = plan;
    Note(rank, shampoo_optimizer_create(&(*this)[rank].optimizer, plan, &desc));
    shampoo_comm_destroy(comm);
  }

  ThreadComm comm_;
};

constexpr const char* kBefore = "the previous step was rejected, and this one has changed nothing either: ";

TEST_CASE("plans are compared through the device, and a rank without memory reports that to the others") {
  {
    Ranks ranks(Keys{});
    ranks.CheckAll(SHAMPOO_OK);
  }
  {
    Ranks ranks(Keys{}, [](int rank, shampoo_param_desc* v) { v->shape[0] = rank == 2 ? 13 : 12; });
    ranks.CheckAll(SHAMPOO_E_INVALID, {"the plans differ: rank 2 has", "(13)"});
  }
  TheFake().fails_create = true;
  Ranks ranks(Keys{});
  ranks.CheckAll(SHAMPOO_E_NOMEM, {"rank 1: the fake has no memory"});
}

TEST_CASE("the next call of all ranks reports what the device of one rank rejected") {
  Ranks ranks(Keys{});
  ranks.BindAll();
  ranks.Step();
  TheFake().finds.rejection = shampoo::cuda::Rejection::kGradientNotFinite;
  TheFake().finds.value = 1 / 0.0;
  ranks.Step();
  ranks.CheckAll(SHAMPOO_OK);
  ranks.Step();
  ranks.CheckAll(SHAMPOO_E_NUMERIC, {std::string(kBefore) + "rank 1: the gradient of parameter \"w\" has an infinity",
                                     "Other ranks could not detect this"});
  CHECK(ranks[0].text.find("nothing has changed") == std::string::npos);
  ranks.Step();
  ranks.CheckAll(SHAMPOO_OK);
  CHECK(TheFake().expected_step[0] == 2);
}

TEST_CASE("all ranks report what the host of one rank rejected, with status_lag 0 in the same call") {
  for (const char* lag : {"0", "1"}) {
    Ranks ranks(Keys{{"status_lag", lag}});
    for (int rank = 0; rank < kRanks; ++rank) ranks.Bind(rank, 0);
    ranks.Bind(0, 1);
    ranks.Bind(2, 1);
    ranks.Step();
    if (*lag == '1') {
      ranks.CheckAll(SHAMPOO_OK);
      ranks.Run([](shampoo_optimizer* optimizer) { return shampoo_optimizer_status(optimizer, 1, nullptr); });
    }
    ranks.CheckAll(SHAMPOO_E_STATE, {"rank 1: parameter \"v\" (index 1) has no buffers"});
    ranks.Bind(1, 1);
    ranks.Step();
    ranks.CheckAll(SHAMPOO_OK);
    CHECK(TheFake().expected_step[0] == 1);
  }
}

// The capture makes no step, so the error of the earlier step is not reported yet.
TEST_CASE("an error of one host is reported by all ranks, also if a step is captured before") {
  Ranks ranks(Keys{{"precondition_frequency", "10"}});
  for (int rank = 0; rank < kRanks; ++rank) ranks.Bind(rank, 0);
  ranks.Bind(0, 1);
  ranks.Bind(2, 1);
  ranks.Step();
  ranks.CheckAll(SHAMPOO_OK);
  ranks.Bind(1, 1);
  TheFake().capturing = true;
  ranks.Step();
  TheFake().capturing = false;
  ranks.CheckAll(SHAMPOO_OK);
  const auto report = [](shampoo_optimizer* optimizer) { return shampoo_optimizer_status(optimizer, 1, nullptr); };
  ranks.Run(report);
  ranks.CheckAll(SHAMPOO_E_STATE, {"rank 1: parameter \"v\" (index 1) has no buffers"});
  ranks.Run(report);
  ranks.CheckAll(SHAMPOO_OK);
  ranks.Step();
  ranks.CheckAll(SHAMPOO_OK);
}

TEST_CASE("a difference between ranks is named also if a step is captured before it is reported") {
  Ranks ranks(Keys{{"precondition_frequency", "10"}});
  ranks.BindAll();
  ranks.Bind(2, 1, false);
  ranks.Step();
  ranks.CheckAll(SHAMPOO_OK);
  ranks.BindAll();
  TheFake().capturing = true;
  ranks.Step();
  TheFake().capturing = false;
  ranks.CheckAll(SHAMPOO_OK);
  ranks.Run([](shampoo_optimizer* optimizer) { return shampoo_optimizer_status(optimizer, 1, nullptr); });
  ranks.CheckAll(SHAMPOO_E_INVALID, {"rank 2 has no gradient for parameter \"v\" and rank 0 has a gradient"});
}

TEST_CASE("differences in inputs and hyper-parameters are named") {
  Ranks ranks(Keys{{"status_lag", "0"}});
  ranks.BindAll();
  ranks.Bind(2, 1, false);
  ranks.Step();
  ranks.CheckAll(SHAMPOO_E_INVALID, {"rank 2 has no gradient for parameter \"v\" and rank 0 has a gradient"});
  ranks.BindAll();
  Must(shampoo_optimizer_set(ranks[1].optimizer, 0, "lr", 0.5));
  ranks.Step();
  ranks.CheckAll(SHAMPOO_E_INVALID, {"rank 1 has a different learning rate"});
  Must(shampoo_optimizer_set(ranks[1].optimizer, 0, "lr", 0.01));
  const int64_t steps = 7;
  Must(shampoo_state_write(ranks[2].optimizer, 0, 0, 1, &steps, sizeof steps, SHAMPOO_CPU, nullptr));
  ranks.Step();
  ranks.CheckAll(SHAMPOO_E_STATE, {"rank 2 is at step 7 and rank 0 at step 0"});
}

}  // namespace
}  // namespace shampoo_test
