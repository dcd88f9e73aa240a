// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/control.h"
#include "tests/cuda/tools/device_model.h"

namespace shampoo_test {
namespace {

TEST_CASE("a step on the device gives the results of the CPU") {
  ModelSpec spec{.keys = "grafting=adam momentum=0.9 precondition_frequency=2 epsilon=0.1",
                 .params = {{{4, 3}}, {{5}}, {{2, 3, 4}}}};
  Model device(spec);
  spec.device_type = SHAMPOO_CPU;
  Model host(spec);
  for (Model* model : {&device, &host}) model->Train(1, 5);
  for (size_t p = 0; p < spec.params.size(); ++p) CHECK(Distance(device.ParamValues(p), host.ParamValues(p)) < 1e-5);
}

}  // namespace
}  // namespace shampoo_test
