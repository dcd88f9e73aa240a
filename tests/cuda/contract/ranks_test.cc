// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Several ranks: if one rank finds an error or has different inputs, all ranks report the same error.
#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

constexpr int kRanks = 3;

ModelSpec SpecOfRanks(const Keys& more) {
  ModelSpec spec = FiveShapes({{"max_preconditioner_dim", "4"}});
  spec.keys.insert(spec.keys.end(), more.begin(), more.end());
  return spec;
}

// Errors are reported by the same call or the next one, with one exchange in a step or several, of either kind.
const Keys kReporting[] = {{{"status_lag", "0"}},
                           {{"status_lag", "1"}, {"comm_bucket_bytes", "128"}, {"communicate", "params"}}};

void SetElement(Model* model, size_t param, size_t element, double value) {
  std::vector<double> gradient = Sequence(77, model->elements(param));
  gradient[element] = value;
  model->SetGradient(param, gradient);
}

// Called after two steps. All ranks reject the next one.
void CheckRejected(DeviceRanks* ranks, const Keys& reporting, shampoo_status status,
                   const std::vector<std::string>& words) {
  const auto before = ranks->Params();
  ranks->Step();
  if (reporting[0].second == "1") {
    CHECK(ranks->Unless(SHAMPOO_OK) == "");
    ranks->Step();
  }
  CHECK(ranks->Unless(status, words) == "");
  CHECK(ranks->Params() == before);
  for (int rank = 0; rank < kRanks; ++rank) CHECK((*ranks)[rank].Stat("steps") == 2);
}

// Corrects the faulty input.
void CheckGoesOn(DeviceRanks* ranks) {
  ranks->FillGradients(5);
  for (int i = 0; i < 2; ++i) {
    ranks->Step();
    CHECK(ranks->Unless(SHAMPOO_OK) == "");
  }
  ranks->Status();
  CHECK(ranks->Unless(SHAMPOO_OK) == "");
  CHECK(ranks->SameParams());
  for (int rank = 0; rank < kRanks; ++rank) CHECK((*ranks)[rank].Stat("steps") == 4);
}

void Begin(DeviceRanks* ranks) {
  ranks->FillParams(1);
  for (uint64_t t = 1; t <= 2; ++t) {
    ranks->FillGradients(t);
    ranks->Step();
  }
  ranks->Status();
  REQUIRE(ranks->Unless(SHAMPOO_OK) == "");
  REQUIRE(ranks->SameParams());
  ranks->FillGradients(3);
}

struct Odd {
  const char* what;
  Keys keys;
  shampoo_status status;
  std::vector<std::string> words;
  std::function<void(DeviceRanks& ranks)> spoil;
  std::function<void(DeviceRanks& ranks)> mend = [](DeviceRanks&) {};
};

const std::vector<Odd> kOdd = {
    {"NaN",
     {},
     SHAMPOO_E_NUMERIC,
     {"rank 1: the gradient of parameter \"p3\"", "has NaN", "element 17"},
     [](DeviceRanks& ranks) { SetElement(&ranks[1], 3, 17, NAN); }},
    {"an infinity",
     {},
     SHAMPOO_E_NUMERIC,
     {"rank 2: the gradient of parameter \"p0\"", "has an infinity"},
     [](DeviceRanks& ranks) { SetElement(&ranks[2], 0, 0, kInfinity); }},
    {"both of two",
     {},
     SHAMPOO_E_NUMERIC,
     {"rank 1: the gradient of parameter \"p1\"", "has NaN"},
     [](DeviceRanks& ranks) {
       SetElement(&ranks[1], 1, 2, NAN);
       SetElement(&ranks[2], 4, 3, NAN);
     }},
    {"a block that is skipped",
     {{"on_nonfinite", "skip_block"}},
     SHAMPOO_E_NUMERIC,
     {"rank 1 finds different blocks than rank 0", "Gradients must be the same on all ranks"},
     [](DeviceRanks& ranks) { SetElement(&ranks[1], 3, 17, NAN); }},
    {"a step that is skipped",
     {{"on_nonfinite", "skip_step"}},
     SHAMPOO_E_NUMERIC,
     {"rank 1 finds different blocks"},
     [](DeviceRanks& ranks) {
       SetElement(&ranks[1], 3, 17, NAN);
       SetElement(&ranks[2], 3, 17, NAN);
     }},
    {"a state that overflows",
     {{"factor_dtype", "f16"}},
     SHAMPOO_E_NUMERIC,
     {"rank ", ": the gradient of parameter \"p3\" is too large"},
     [](DeviceRanks& ranks) {
       for (int rank = 0; rank < kRanks; ++rank) SetElement(&ranks[rank], 3, 5, 300);
     }},
    {"a gradient that is missing",
     {},
     SHAMPOO_E_INVALID,
     {"rank 1 has no gradient for parameter \"p2\" and rank 0 has a gradient"},
     [](DeviceRanks& ranks) { ranks[1].DropGradient(2, true); },
     [](DeviceRanks& ranks) { ranks[1].DropGradient(2, false); }},
    {"a learning rate",
     {{"lr", "0.25"}},
     SHAMPOO_E_INVALID,
     {"rank 2 has a different learning rate"},
     [](DeviceRanks& ranks) { Must(shampoo_optimizer_set(ranks[2].optimizer, 0, "lr", 0.5)); },
     [](DeviceRanks& ranks) { Must(shampoo_optimizer_set(ranks[2].optimizer, 0, "lr", 0.25)); }},
    {"a step",
     {},
     SHAMPOO_E_STATE,
     {"rank 2 is at step 7 and rank 0 at step 2"},
     [](DeviceRanks& ranks) { ranks[2].SetState("group.0/step", {7}); },
     [](DeviceRanks& ranks) { ranks[2].SetState("group.0/step", {2}); }},
};

TEST_CASE("if one rank finds an error or has different inputs, all ranks report it, and parameters do not change") {
  for (const Odd& odd : kOdd) {
    for (const Keys& reporting : kReporting) {
      CAPTURE(std::string(odd.what));
      CAPTURE(reporting[0].second);
      const Stage stage;
      Keys keys = reporting;
      keys.insert(keys.end(), odd.keys.begin(), odd.keys.end());
      DeviceRanks ranks(SpecOfRanks(keys), kRanks);
      Begin(&ranks);
      odd.spoil(ranks);
      CheckRejected(&ranks, reporting, odd.status, odd.words);
      odd.mend(ranks);
      CheckGoesOn(&ranks);
    }
  }
}

TEST_CASE("async roots on several ranks are those on one rank") {
  for (const char* bytes : {"0", "128"}) {
    const Stage stage;
    const Keys async = {{"precondition_frequency", "4"}, {"root_async", "2"}, {"comm_bucket_bytes", bytes}};
    const TestStream stream;
    Model alone(SpecOfRanks(async), stream);
    DeviceRanks ranks(SpecOfRanks(async), kRanks);
    alone.FillParams(1);
    ranks.FillParams(1);
    for (uint64_t t = 1; t <= 11; ++t) {
      alone.FillGradients(t);
      alone.Step();
      ranks.FillGradients(t);
      ranks.Step();
    }
    ranks.Status();
    CHECK(ranks.Unless(SHAMPOO_OK) == "");
    const auto params = ranks.Params();
    for (size_t i = 0; i < params.size(); ++i) {
      CAPTURE(i);
      CHECK(Distance(params[i], alone.ParamValues(i % alone.params())) < 1e-6);
    }
  }
}

TEST_CASE("hyper-parameters in device memory must be equal on all ranks") {
  for (const Keys& reporting : kReporting) {
    CAPTURE(reporting[0].second);
    const Stage stage;
    const DeviceBytes memory(kRanks * sizeof(float));
    auto* const rates = static_cast<float*>(memory.get());
    const auto put = [&](int rank, float rate) {
      MustCuda(cudaMemcpy(rates + rank, &rate, sizeof rate, cudaMemcpyHostToDevice));
    };
    DeviceRanks ranks(SpecOfRanks(reporting), kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      put(rank, 0.25F);
      Must(shampoo_optimizer_bind_scalar(ranks[rank].optimizer, 0, "lr", SHAMPOO_F32, rates + rank));
    }
    Begin(&ranks);
    put(1, 0.5F);
    CheckRejected(&ranks, reporting, SHAMPOO_E_INVALID, {"rank 1 has a different learning rate"});
    put(1, NAN);
    CheckRejected(&ranks, reporting, SHAMPOO_E_INVALID, {"rank 1: the scalar bound to group 0", "lr"});
    put(1, 0.25F);
    CheckGoesOn(&ranks);
  }
}

TEST_CASE("an update that its owner skips is skipped on all ranks, and the output is the parameter") {
  for (const Keys& reporting : kReporting) {
    for (const char* dtype : {"f16", "f32"}) {
      CAPTURE(reporting[0].second);
      CAPTURE(std::string(dtype));
      const Stage stage;
      Keys keys = reporting;
      keys.insert(keys.end(), {{"communication_dtype", dtype}});
      ModelSpec spec = SpecOfRanks(keys);
      spec.groups = {{{"lr", "1e6"}}};
      spec.params[3].group = 1;
      spec.params[3].in_place = false;
      spec.params[3].copy_dtype = SHAMPOO_F32;
      DeviceRanks ranks(spec, kRanks);
      ranks.FillParams(1);
      ranks.FillGradients(1);
      const auto before = ranks.Params();
      ranks.Step();
      CHECK(ranks.Unless(SHAMPOO_OK) == "");
      CHECK(ranks.SameParams());
      const bool is_skipped = dtype == std::string("f16");
      const auto after = ranks.Params();
      for (size_t i = 0; i < after.size(); ++i) CHECK((after[i] == before[i]) == (i % 6 == 3));
      for (int rank = 0; rank < kRanks; ++rank) {
        CHECK((ranks[rank].OutValues(3) == before[3]) == is_skipped);
        CHECK(ranks[rank].OutValues(3) == ranks[0].OutValues(3));
        CHECK(ranks[rank].CopyValues(3) == ranks[rank].OutValues(3));
      }
      if (!is_skipped) continue;
      ranks.Step();
      CHECK(ranks.Unless(SHAMPOO_E_NUMERIC, {"the direction of block p3/0", "skipped the update of the block"}) == "");
    }
  }
}

}  // namespace
}  // namespace shampoo_test
