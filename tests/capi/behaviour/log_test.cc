// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"

namespace shampoo_test {
namespace {

TEST_CASE("use_nesterov without momentum is ignored with a warning that names the group") {
  const Keys plain = "momentum=0 root_relative_epsilon=1e-5";
  Listener listener(1);
  Host quiet({plain, plain + "use_nesterov=true momentum=0.5"}, {Param("w", {2})});
  CHECK(listener.Take().empty());
  Host warned({plain, plain + "use_nesterov=true"}, {Param("w", {2})});
  listener.CheckOneMessage({"1 ", "group 1", "use_nesterov", "momentum"});
  for (Host* host : {&quiet, &warned}) {
    std::mt19937_64 random = host->FillFrom(2);
    host->RandomStep(random);
  }
  CHECK(quiet.tensors[0].w == warned.tensors[0].w);
}

TEST_CASE("messages above the requested level are not logged, and nothing is logged without a callback") {
  const auto make = [] { Host(Keys("use_nesterov=true"), {Param("w", {2})}); };
  Listener listener(2);
  make();
  const std::vector<std::string> all = listener.Take();
  REQUIRE(all.size() >= 2);  // one is the warning, and another describes the optimizer
  for (const std::string& message : all) {
    CHECK((message[0] == '1' || message[0] == '2'));
    CHECK(message.back() != '\n');
  }
  RequireOk(shampoo_set_log(nullptr, nullptr, 3));
  make();
  CHECK(listener.Take().empty());
  {
    Listener errors(0);
    make();
    CHECK(errors.Take().empty());
  }
  CHECK(listener.Take().empty());
}

// Writes `value` into a factor matrix through the state API, because a step rejects gradients that would put NaN or
// infinity into a factor matrix.
void Spoil(Host* host, double value) {
  Array factor = host->Read("w/0/factor.0");
  factor.Set(0, value);
  host->Write("w/0/factor.0", factor);
}

TEST_CASE("if a factor matrix contains NaN or infinity, a step that would refresh its root fails and changes nothing") {
  const Keys keys = "use_merge_dims=false beta1=0 epsilon=0.5";
  Host host(keys, {Param("w", {2, 2}), Param("other", {2, 2})}, 2);
  std::mt19937_64 random(9);
  host.RandomStep(random);
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    CAPTURE(bad);
    const Array good = host.Read("w/0/factor.0");
    Spoil(&host, bad);
    host.FillGradients(random);
    host.Bind();
    host.CheckStepFails(SHAMPOO_E_NUMERIC,
                        {"w/0/factor.0", std::isnan(bad) ? "NaN" : "infinity", "the step has changed nothing"});
    CHECK(std::string(shampoo_optimizer_error(host.optimizer)) == shampoo_last_error());
    host.Write("w/0/factor.0", good);
    const Array before = host.Read("w/0/inverse.0");
    host.Step();
    CHECK(!(host.Read("w/0/inverse.0") == before));
  }
  CHECK(host.Stat("root_computed") == 16);
  CHECK(host.Stat("root_reused") == 0);
}

TEST_CASE("a root that does not fit its dtype is replaced by the previous root, and the next step succeeds") {
  Host host(Keys("inverse_dtype=f16 epsilon=1e-30 beta1=0 beta2=0.5"), {Param("w", {3})});
  Listener listener(1);
  host.tensors[0].g.Set(0, 1);  // the other two diagonal elements of the factor matrix are 0, and their roots are 1e15
  host.Step();
  CHECK(host.Stat("root_reused") == 1);
  listener.CheckOneMessage({"1 ", "w/0/factor.0", "not finite"});
  const Array inverse = host.Read("w/0/inverse.0");
  for (size_t i = 0; i < 9; ++i) CHECK(inverse.Get(i) == (i % 4 == 0 ? 1 : 0));
  host.Step();
  CHECK(host.Stat("steps") == 2);
}

}  // namespace
}  // namespace shampoo_test
