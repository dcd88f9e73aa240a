// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Calls shampoo_create repeatedly. In call number i, allocation number i fails.
#include "tests/capi/behaviour/host.h"
#include "tests/checkpoint/faults/allocations.h"

namespace shampoo_test {
namespace {

TEST_CASE("if one allocation fails, shampoo_create returns SHAMPOO_E_NOMEM, or only drops a log message and succeeds") {
  float weight[6] = {1, 2, 3, 4, 5, 6};
  float gradient[6] = {};
  shampoo_tensor tensors[2] = {SHAMPOO_TENSOR_INIT, SHAMPOO_TENSOR_INIT};
  tensors[0].name = "a name that is too long to be stored within the string object";
  tensors[0].data = weight, tensors[0].grad = gradient, tensors[0].ndim = 2;
  tensors[0].shape[0] = 2, tensors[0].shape[1] = 3;
  tensors[1].data = weight;  // a scalar
  int rejected = 0;
  int64_t first = 1;
  for (bool failed = true; failed; ++first) {
    CAPTURE(first);
    shampoo_optimizer* opt = nullptr;
    shampoo_status status = SHAMPOO_OK;
    {
      const AllocationWatch watch({first});
      status = shampoo_create(&opt, "lr=0.1 threads=1", tensors, 2);
      failed = watch.has_failed();
    }
    CHECK(status == (opt != nullptr ? SHAMPOO_OK : SHAMPOO_E_NOMEM));
    CHECK((failed || opt != nullptr));
    rejected += opt == nullptr ? 1 : 0;
    shampoo_optimizer_destroy(opt);
  }
  CHECK(rejected > 50);
  CHECK(first - rejected < 6);  // few calls succeed: those that only drop a log message, and the last call
}

}  // namespace
}  // namespace shampoo_test
