// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the methods muon and sign and the keys norm_control and soap_post on the device: kernel launches, memory,
// captured steps, fused parameters and ranks.
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/contract/sizes.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

const Keys kMuon = "method=muon adam_lr=0.01";
const Keys kSign = "method=sign";
const Keys kExact = "orthogonalization=exact";
const Keys kSoapPost = "method=soap soap_post=orthogonalize precondition_frequency=1000";
const Keys kNormed = "norm_control=radial update_floor=0.2 update_floor_rows=true";

// Returns the specification of a model with matrices of several shapes, a vector and, with method muon, a head.
ModelSpec MatricesOf(const Keys& keys) {
  ModelSpec spec{.keys = keys, .params = {{{4, 3}}, {{5}}, {{2, 3, 4}}, {{6, 6}}, {{3, 7}}, {{4, 3}}}};
  if (keys[0].second == "muon") spec.params[3].role = SHAMPOO_HEAD;
  return spec;
}

const std::vector<Keys> kCases = {kMuon,
                                  kMuon + kNormed,
                                  kMuon + Keys("second_moment=row ns_norm=schatten4 ns_steps=4"),
                                  kMuon + Keys("dual_norm_scale=true precondition_math=tf32"),
                                  kMuon + Keys("muon_math=bf16 ns_norm=schatten4"),
                                  kMuon + Keys("grafting=adam ns_coefficients=3,-2,1;2,-1,0"),
                                  kMuon + kExact,
                                  kMuon + kExact + Keys("dual_norm_scale=true precondition_math=tf32"),
                                  kSoapPost,
                                  kSoapPost + kExact,
                                  kSign + Keys("dual_norm_scale=true"),
                                  kSign + kNormed,
                                  Keys("method=adam norm_control=hyperball")};

TEST_CASE("steps of methods muon and sign load no kernel, allocate nothing and wait for nothing" * NeedsFake()) {
  for (const Keys& keys : kCases) {
    ModelSpec spec = MatricesOf(keys);
    spec.params.push_back({{70, 33}});
    spec.params.push_back({{40, 40}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
    if (keys.size() > 2 && keys[2].first == "muon_math") spec.keys.emplace_back("computation_dtype", "f32");
    StagedModel model(spec, FAKE_CUDA_AS_LATE_AS_POSSIBLE);
    model.FillGradients(1);
    CheckOnlyEnqueues([&] { model.Step(); });
  }
}

TEST_CASE("the planned workspace includes the memory of method muon and of norm_control") {
  for (const Keys& keys : kCases) {
    const Stage stage;
    Sizes sizes;
    const shampoo_allocator allocator = sizes.allocator();
    ModelSpec spec = MatricesOf(keys);
    spec.params.push_back({{70, 33}});
    spec.allocator = &allocator;
    const Model model(spec);
    REQUIRE(sizes.all.size() == 2);
    const size_t workspace = PlannedBytes(model.plan.get(), "workspace");
    CHECK(sizes.all[0] <= workspace);
    CHECK(sizes.all[0] * 10 >= workspace);
  }
}

TEST_CASE("a step with 1000 matrices of one shape makes as many launches and matrix products as a step with 10" *
          NeedsFake()) {
  const auto counts = [](const Keys& keys, size_t matrices) {
    const Stage stage;
    fake_cuda_set_protection(0);
    ModelSpec spec{.keys = keys, .params = std::vector<ParamSpec>(matrices, ParamSpec{{4, 3}})};
    Model model(spec);
    model.Step(1);
    fake_cuda_mark();
    Must(shampoo_optimizer_step(model.optimizer, model.stream));
    return std::pair(fake_cuda_count(FAKE_CUDA_LAUNCHES), fake_cuda_count(FAKE_CUDA_PRODUCTS));
  };
  for (const Keys& keys : kCases) {
    const auto of_ten = counts(keys, 10);
    if (keys[0].second == "muon") CHECK(of_ten.second >= 8);
    CHECK(counts(keys, 1000) == of_ten);
  }
}

TEST_CASE("an iteration of method muon makes three matrix products per shape, or two if c in ns_coefficients is 0" *
          NeedsFake()) {
  for (const auto& [keys, products] :
       {std::pair{Keys("ns_coefficients=jordan"), 15}, {Keys("ns_coefficients=cubic5"), 10}, {kExact, 24 * 3}}) {
    const Stage stage;
    ModelSpec spec{.keys = kMuon + keys, .params = {{{4, 3}}, {{4, 3}}}};
    Model model(spec);
    fake_cuda_mark();
    model.Step(1);
    CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS) == products);
  }
}

TEST_CASE("soap_post=orthogonalize adds no matrix products before step start_preconditioning_step" * NeedsFake()) {
  const auto products = [](const char* post) {
    const Stage stage;
    ModelSpec spec{.keys = Keys{{"method", "soap"},
                                {"soap_post", post},
                                {"precondition_frequency", "1000"},
                                {"basis_order", "before"},
                                {"grafting", "adam"},
                                {"start_preconditioning_step", "3"}},
                   .params = {{{4, 3}}, {{4, 3}}, {{5}}}};
    Model model(spec);
    model.DropGradient(1, true);
    std::vector<int64_t> counts;
    for (int64_t t = 1; t <= 4; ++t) {
      fake_cuda_mark();
      model.Step(t);
      counts.push_back(fake_cuda_count(FAKE_CUDA_PRODUCTS));
    }
    return counts;
  };
  const std::vector<int64_t> plain = products("none");
  const std::vector<int64_t> post = products("orthogonalize");
  for (const size_t t : {0, 1}) CHECK(post[t] == plain[t]);
  for (const size_t t : {2, 3}) CHECK(post[t] == plain[t] + 5 * 3);
}

TEST_CASE("replays of a captured step give the same results as ordinary steps if no roots or eigenbases are due") {
  std::vector<Keys> cases = kCases;
  cases.push_back("method=adam");
  cases.push_back("method=sgd momentum=0.9");
  for (const Keys& keys : cases) {
    CAPTURE(keys[0].second);
    const StageWithStream stream;
    Model plain(MatricesOf(keys), stream);
    Model captured(MatricesOf(keys), stream);
    for (Model* model : {&plain, &captured}) model->Step(1);
    StepAndReplay(&plain, &captured, 30);
  }
}

TEST_CASE("with muon and sign, a step captured before start_preconditioning_step cannot be replayed as that step") {
  for (const Keys& method : {kMuon, kSign}) {
    StagedModel model(MatricesOf(method + Keys("grafting=adam start_preconditioning_step=4")));
    model.Step(1);
    const Graph graph(&model);
    graph.Launch();
    graph.Launch();
    const std::vector<char> before = BitsOf(model);
    graph.Launch();
    CHECK(BitsOf(model) == before);
    CheckError(model.TryStep(), SHAMPOO_E_STATE, "a captured step was replayed as step 4 of group 0");
    model.Step(4);
    CHECK(model.State("group.0/step")[0] == 4);
  }
}

TEST_CASE("the parts of a fused parameter take the same steps as separate parameters") {
  const Stage stage;
  for (const Keys& keys : {kMuon + Keys("second_moment=short"), kMuon + kNormed, kSign + kNormed}) {
    ModelSpec fused{.keys = keys, .params = {{{9, 5}}}};
    fused.params[0].row_splits = {2, 3, 4};
    ModelSpec separate = fused;
    separate.params = {{{2, 5}}, {{3, 5}}, {{4, 5}}};
    Model one(fused);
    Model three(separate);
    const std::vector<double> whole = one.ParamValues(0);
    const auto part = [](const std::vector<double>& of, size_t p) {
      constexpr std::ptrdiff_t kBegin[] = {0, 10, 25, 45};
      return std::vector<double>(of.begin() + kBegin[p], of.begin() + kBegin[p + 1]);
    };
    for (size_t p = 0; p < 3; ++p) three.SetParam(p, part(whole, p));
    for (uint64_t t = 1; t <= 4; ++t) {
      std::vector<double> gradient(45);
      for (size_t i = 0; i < 45; ++i) gradient[i] = std::sin(static_cast<double>(i * i + t));
      one.SetGradient(0, gradient);
      for (size_t p = 0; p < 3; ++p) three.SetGradient(p, part(gradient, p));
      one.Step();
      three.Step();
    }
    for (size_t p = 0; p < 3; ++p) CHECK(part(one.ParamValues(0), p) == three.ParamValues(p));
  }
}

TEST_CASE("the update of a block whose direction diverges is skipped, and the states of the block stay finite") {
  const Stage stage;
  ModelSpec spec;
  spec.keys = kMuon + Keys("ns_coefficients=9,9,9 ns_steps=9 second_moment=row");
  spec.keys.emplace_back("on_nonfinite", "skip_block");
  spec.params = {{{4, 3}}, {{3}}};
  Model model(spec);
  const std::vector<double> before = model.ParamValues(0);
  model.Train(1, 3);
  model.MustSucceed();
  CHECK(model.ParamValues(0) == before);
  CHECK(model.State("p0/0/direction_moment") == std::vector<double>(4));
  CHECK(model.Stat("nonfinite_blocks") == 3);
}

TEST_CASE("with orthogonalization=exact, the error about a skipped update mentions LAPACK only on the CPU") {
  for (const int32_t device : {SHAMPOO_CUDA, SHAMPOO_CPU}) {
    const Stage stage;
    ModelSpec spec;
    spec.device_type = device;
    spec.keys = kMuon + kExact + Keys("lr=1e7");
    spec.params = {{{4, 3}}};
    spec.params[0].out_dtype = SHAMPOO_F16;
    spec.params[0].in_place = false;
    Model model(spec);
    model.Step(1);
    CheckError(model.Status(), SHAMPOO_OK, "");
    const shampoo_status status = model.TryStep(2);
    const std::string text = shampoo_last_error();
    CHECK(status == SHAMPOO_E_NUMERIC);
    CHECK(text.find("the direction of block p0/0 was not finite, or would have overflowed") == 0);
    CHECK((text.find("LAPACK") != std::string::npos) == (device == SHAMPOO_CPU));
  }
}

TEST_CASE(
    "with shard_mode=gather, methods muon and sign and the key norm_control give the same parameters as on one rank") {
  for (const Keys& keys : {kMuon + Keys("second_moment=row"), kMuon + kNormed, kSign + kNormed, kMuon + kExact,
                           kSoapPost + kExact + Keys("precondition_frequency=2")}) {
    for (const RankKind& kind : {RankKind{"gather", 1, 2}, {"gather", 2, 2}}) {
      INFO(NameOf(kind), " ", keys);
      CheckShardedSteps(MatricesOf(keys), kind, 1e-4);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
