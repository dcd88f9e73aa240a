// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

const Keys kEveryState =
    "grafting=adam momentum=0.5 max_preconditioner_dim=4 factor_dtype=f64 inverse_dtype=f16 filtered_grad_dtype=bf16 "
    "grafting_dtype=f16 momentum_dtype=f64 use_merge_dims=false";

struct Row {
  std::string key;
  std::vector<int64_t> shape;
  int32_t dtype;
  int64_t flat_offset;
  bool symmetric;
};

void CheckEntries(const Host& host, const std::vector<Row>& rows) {
  std::set<std::string> keys;
  for (const Host::Entry& entry : host.Entries()) CHECK(keys.insert(entry.info.key).second);
  CHECK(keys.size() == rows.size());
  for (const Row& row : rows) {
    CAPTURE(row.key);
    const shampoo_state_entry info = host.Find(row.key).info;
    CHECK(info.struct_size == sizeof info);
    CHECK(std::vector<int64_t>(info.shape, info.shape + info.ndim) == row.shape);
    for (int k = info.ndim; k < 8; ++k) CHECK(info.shape[k] == 0);
    CHECK(info.dtype == row.dtype);
    CHECK(info.flat_offset == row.flat_offset);
    CHECK(info.symmetric == (row.symmetric ? 1 : 0));
    CHECK(info.owner == 0);
    CHECK(info.stored_bytes > 0);
  }
}

TEST_CASE("state entries have the names, shapes and dtypes that the header documents") {
  const Host host(kEveryState, {Param("m", {6, 3}), Param("s", {})});
  CheckEntries(host, {{"group.0/step", {}, SHAMPOO_I64, -1, false},
                      {"m/0/factor.0", {4, 4}, SHAMPOO_F64, -1, true},
                      {"m/0/factor.1", {3, 3}, SHAMPOO_F64, -1, true},
                      {"m/0/inverse.0", {4, 4}, SHAMPOO_F16, -1, true},
                      {"m/0/inverse.1", {3, 3}, SHAMPOO_F16, -1, true},
                      {"m/0/diagonal", {2}, SHAMPOO_I32, -1, false},
                      {"m/0/filtered_grad", {4, 3}, SHAMPOO_BF16, 0, false},
                      {"m/0/grafting", {4, 3}, SHAMPOO_F16, 0, false},
                      {"m/0/momentum", {4, 3}, SHAMPOO_F64, 0, false},
                      {"m/1/factor.0", {2, 2}, SHAMPOO_F64, -1, true},
                      {"m/1/factor.1", {3, 3}, SHAMPOO_F64, -1, true},
                      {"m/1/inverse.0", {2, 2}, SHAMPOO_F16, -1, true},
                      {"m/1/inverse.1", {3, 3}, SHAMPOO_F16, -1, true},
                      {"m/1/diagonal", {2}, SHAMPOO_I32, -1, false},
                      {"m/1/filtered_grad", {2, 3}, SHAMPOO_BF16, 12, false},
                      {"m/1/grafting", {2, 3}, SHAMPOO_F16, 12, false},
                      {"m/1/momentum", {2, 3}, SHAMPOO_F64, 12, false},
                      {"s/0/factor.0", {1, 1}, SHAMPOO_F64, -1, true},
                      {"s/0/inverse.0", {1, 1}, SHAMPOO_F16, -1, true},
                      {"s/0/diagonal", {1}, SHAMPOO_I32, -1, false},
                      {"s/0/filtered_grad", {1}, SHAMPOO_BF16, 0, false},
                      {"s/0/grafting", {1}, SHAMPOO_F16, 0, false},
                      {"s/0/momentum", {1}, SHAMPOO_F64, 0, false}});
}

TEST_CASE(
    "only states that the keys of a group need have entries, and blocks of a stacked parameter are numbered from 0") {
  shampoo_param_desc stacked = Param("layers", {2, 2, 3}, SHAMPOO_F64);
  stacked.stack_dims = 1;
  stacked.group = 1;
  const Host host({Keys("beta1=0 grafting=sgd"), Keys("grafting=adagrad")},
                  {stacked, Param("none", {3, 0}), Param("v", {2})});
  CheckEntries(host, {{"group.0/step", {}, SHAMPOO_I64, -1, false},
                      {"group.1/step", {}, SHAMPOO_I64, -1, false},
                      {"layers/0/factor.0", {6, 6}, SHAMPOO_F64, -1, true},
                      {"layers/0/inverse.0", {6, 6}, SHAMPOO_F64, -1, true},
                      {"layers/0/diagonal", {1}, SHAMPOO_I32, -1, false},
                      {"layers/0/filtered_grad", {6}, SHAMPOO_F64, 0, false},
                      {"layers/0/grafting", {6}, SHAMPOO_F64, 0, false},
                      {"layers/1/factor.0", {6, 6}, SHAMPOO_F64, -1, true},
                      {"layers/1/inverse.0", {6, 6}, SHAMPOO_F64, -1, true},
                      {"layers/1/diagonal", {1}, SHAMPOO_I32, -1, false},
                      {"layers/1/filtered_grad", {6}, SHAMPOO_F64, 6, false},
                      {"layers/1/grafting", {6}, SHAMPOO_F64, 6, false},
                      {"v/0/factor.0", {2, 2}, SHAMPOO_F32, -1, true},
                      {"v/0/inverse.0", {2, 2}, SHAMPOO_F32, -1, true},
                      {"v/0/diagonal", {1}, SHAMPOO_I32, -1, false}});
}

TEST_CASE(
    "a new optimizer has factor matrices of 0, inverse roots that are 0 or the identity, and diagonal flags of 1") {
  for (const char* initial : {"identity", "zero"}) {
    const Host host(kEveryState + Keys{{"initial_inverse", initial}}, {Param("m", {6, 3})});
    for (const Host::Entry& entry : host.Entries()) {
      const std::string key = entry.info.key;
      CAPTURE(key);
      const Array values = host.Read(entry);
      if (entry.info.dtype == SHAMPOO_I32) {
        CHECK(values.Values() == std::vector<double>{1, 1});
      } else if (entry.info.dtype != SHAMPOO_I64) {
        const bool identity = key.find("/inverse.") != std::string::npos && std::string(initial) == "identity";
        const auto n = static_cast<size_t>(entry.info.shape[0]);
        for (size_t i = 0; i < values.size(); ++i) CHECK(values.Get(i) == (identity && i / n == i % n ? 1 : 0));
      }
    }
    CHECK(host.Steps(0) == 0);
  }
}

// Compares ranges of every length and position with the whole entry.
TEST_CASE("reading or writing a range of a state entry transfers exactly the elements of this range") {
  Host host(kEveryState, {Param("m", {6, 3})});
  std::mt19937_64 random(6);
  host.RandomStep(random);
  for (const char* key : {"m/0/factor.0", "m/0/inverse.1", "m/1/momentum", "m/0/filtered_grad"}) {
    CAPTURE(key);
    const Host::Entry entry = host.Find(key);
    const size_t size = SizeOfDtype(entry.info.dtype);
    const std::vector<char> whole = host.Read(entry).bytes();
    Array fresh(entry.info.dtype, entry.elements);
    fresh.Fill(random);
    for (size_t first = 0; first <= entry.elements; ++first) {
      for (size_t count = 0; first + count <= entry.elements; ++count) {
        std::vector<char> part(count * size + 8, 'x');
        RequireOk(shampoo_state_read(host.optimizer, entry.index, static_cast<int64_t>(first),
                                     static_cast<int64_t>(count), part.data(), count * size, SHAMPOO_CPU, nullptr));
        CHECK(std::memcmp(part.data(), whole.data() + first * size, count * size) == 0);
        CHECK(std::string(part.end() - 8, part.end()) == "xxxxxxxx");

        RequireOk(shampoo_state_write(host.optimizer, entry.index, static_cast<int64_t>(first),
                                      static_cast<int64_t>(count), fresh.data() + first * size, count * size,
                                      SHAMPOO_CPU, nullptr));
        const Array written = host.Read(entry);
        const auto n = static_cast<size_t>(entry.info.shape[0]);
        for (size_t i = 0; i < entry.elements; ++i) {
          // A write ignores elements above the diagonal of a symmetric entry, and a read returns the mirrored elements
          // instead. `kept` is the index of the element whose stored value a read returns as element i.
          const size_t kept = entry.info.symmetric == 1 && i / n < i % n ? i % n * n + i / n : i;
          const bool is_new = kept >= first && kept < first + count;
          const char* const expected = is_new ? fresh.bytes().data() : whole.data();
          CHECK(std::memcmp(written.bytes().data() + i * size, expected + kept * size, size) == 0);
        }
        Array back(entry.info.dtype, entry.elements);
        std::memcpy(back.data(), whole.data(), whole.size());
        host.Write(key, back);
      }
    }
  }
}

TEST_CASE("a step continues from values that were written into the state") {
  const Keys keys = "grafting=sgd lr=1 beta1=0 momentum=0.5 use_merge_dims=false";
  Host host(keys, {Param("w", {1, 2}, SHAMPOO_F64)});
  host.Bind();
  host.WriteValues("w/0/momentum", {8, -4});
  host.Step();  // the gradient is 0
  CHECK(host.tensors[0].w.Values() == std::vector<double>{-4, 2});

  const Keys late = "precondition_frequency=100 beta1=0 lr=1 epsilon=1";
  Host counted(late, {Param("w", {1}, SHAMPOO_F64)});
  counted.WriteValues("group.0/step", {99});
  counted.tensors[0].g.Set(0, std::sqrt(3.0));
  counted.Step();  // step 100 multiplies the gradient by (3 + 1)^(-1/2)
  CHECK(counted.Steps(0) == 100);
  CHECK(counted.tensors[0].w.Get(0) == doctest::Approx(-std::sqrt(3.0) / 2).epsilon(1e-14));
}

}  // namespace
}  // namespace shampoo_test
