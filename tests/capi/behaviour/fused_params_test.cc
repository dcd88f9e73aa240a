// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of parameters that fuse several tensors (row_splits), and of roles of parameters.
#include <algorithm>
#include <list>
#include <numeric>

#include "tests/capi/behaviour/parts.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

// Overrides keys of shampoo_2024, the preset that tests use by default (tests/preset.h).
const Keys kRouted = "route=auto precondition_1d=false use_merge_dims=false precondition_frequency=2";

const std::vector<Keys> kMethods = {
    "method=shampoo grafting=adam weight_decay=0.1 precondition_frequency=2",
    "method=shampoo max_preconditioner_dim=3",
    "method=soap precondition_frequency=2 max_preconditioner_dim=3",
    "method=soap update_norm=rms",
    "method=kl_shampoo precondition_frequency=2",
    "method=adam norm_control=hyperball",
    "method=muon weight_decay=0.1 second_moment=row shape_scale=sqrt_max",
    "method=muon second_moment=short norm_control=relative cautious_decay=true",
    "method=muon second_moment=element norm_control=radial update_floor=0.5",
    "method=muon orthogonalization=exact dual_norm_scale=true grafting=adam",
    "method=muon update_floor=2 update_floor_rows=true norm_control=radial_brake",
    "method=sign beta3=0.5 weight_decay=0.1",
    "method=sign dual_norm_scale=true norm_control=hyperball shape_scale=spectral",
};

void SetRowSplits(const std::vector<int64_t>& sizes, shampoo_param_desc* desc) {
  std::copy(sizes.begin(), sizes.end(), desc->row_splits);
}

// Lists the elements of the parts, part by part, and returns the index of each element in the fused parameter. `sizes`
// are the lengths of the parts along the divided dim. `outer` is the product of the dims before the divided dim, and
// `inner` is the product of the dims after the divided dim.
std::vector<size_t> ElementsOfParts(const std::vector<int64_t>& sizes, int64_t outer, int64_t inner) {
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<size_t> elements;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t r = first; r < first + size; ++r) {
        for (int64_t i = 0; i < inner; ++i) elements.push_back(static_cast<size_t>((o * total + r) * inner + i));
      }
    }
    first += size;
  }
  return elements;
}

TEST_CASE("parts of a fused parameter are bit-identical to separate parameters") {
  for (const Keys& keys : kMethods) {
    CAPTURE(keys);
    shampoo_param_desc fused = Param("qkv", {4 + 2 + 3, 5});
    SetRowSplits({4, 2, 3}, &fused);
    Host one(keys, {fused});
    Host many(keys, {Param("q", {4, 5}), Param("k", {2, 5}), Param("v", {3, 5})});
    CheckSame(&one, &many, ElementsOfParts({4, 2, 3}, 1, 5));
  }
}

TEST_CASE("row_splits divides the last dim if fan is in_out") {
  for (const Keys& keys : kMethods) {
    CAPTURE(keys);
    for (const std::vector<int64_t>& inputs : {std::vector<int64_t>{5}, std::vector<int64_t>{2, 5}}) {
      std::vector<int64_t> shape = inputs;
      shape.push_back(9);
      shampoo_param_desc fused = Param("qkv", shape);
      fused.fan = SHAMPOO_IN_OUT;
      SetRowSplits({4, 2, 3}, &fused);
      std::vector<shampoo_param_desc> params;
      std::list<std::string> names;
      for (const int64_t size : {4, 2, 3}) {
        shape.back() = size;
        names.push_back(std::to_string(size));
        params.push_back(Param(names.back().c_str(), shape));
        params.back().fan = SHAMPOO_IN_OUT;
      }
      const Keys unmerged = keys + "use_merge_dims=false";
      const std::string method = keys[0].second;  // only methods with factor matrices read use_merge_dims
      const bool merges = method != "adam" && method != "muon" && method != "sign";
      Host one(merges ? unmerged : keys, {fused});
      Host many(merges ? unmerged : keys, params);
      CheckSame(&one, &many, ElementsOfParts({4, 2, 3}, inputs.size() == 2 ? 10 : 5, 1));
    }
  }
}

TEST_CASE("a single size in row_splits divides each stacked tensor into equal parts") {
  for (const Keys& keys : kMethods) {
    CAPTURE(keys);
    shampoo_param_desc fused = Param("layers", {2, 6, 4});
    fused.stack_dims = 1;
    SetRowSplits({3}, &fused);
    shampoo_param_desc heads = Param("heads", {4, 3, 4});
    heads.stack_dims = 1;
    Host one(keys, {fused});
    Host many(keys, {heads});
    CheckSame(&one, &many);
  }
}

TEST_CASE("shards of a fused parameter are bit-identical to shards of its parts") {
  const Keys keys = kMethods[0] + "use_merge_dims=false";
  for (int64_t begin = 0; begin < 45; begin += 4) {
    for (int64_t end = begin + 1; end <= 45; end += 7) {
      CAPTURE_ALL(begin, end);
      shampoo_param_desc fused = FlatShard(Param("qkv", {9, 5}), begin, end - begin);
      SetRowSplits({4, 2, 3}, &fused);
      std::vector<shampoo_param_desc> params = {Param("q", {4, 5}), Param("k", {2, 5}), Param("v", {3, 5})};
      int64_t first = 0;
      for (shampoo_param_desc& part : params) {
        const int64_t size = part.shape[0] * part.shape[1];
        const int64_t offset = std::clamp<int64_t>(begin - first, 0, size);
        part = FlatShard(part, offset, std::clamp<int64_t>(end - first, 0, size) - offset);
        first += size;
      }
      Host one(keys, {fused});
      Host many(keys, params);
      CheckSame(&one, &many);
    }
  }
  // The shard has rows 1 to 7 and columns 2 to 4 of the 9 x 5 parameter. It contains 3 rows of q, 2 of k and 2 of v.
  shampoo_param_desc fused = RectangleShard(Param("qkv", {9, 5}), {1, 2}, {7, 3});
  SetRowSplits({4, 2, 3}, &fused);
  Host one(keys, {fused});
  Host many(keys, {Param("q", {3, 3}), Param("k", {2, 3}), Param("v", {2, 3})});
  CheckSame(&one, &many, ElementsOfParts({3, 2, 2}, 1, 3));
  // With fan SHAMPOO_IN_OUT, the transposed shard has rows 2 to 4 and columns 1 to 7 of the 5 x 9 parameter.
  shampoo_param_desc turned = RectangleShard(Param("qkv", {5, 9}), {2, 1}, {3, 7});
  turned.fan = SHAMPOO_IN_OUT;
  SetRowSplits({4, 2, 3}, &turned);
  Host columns(keys, {turned});
  Host parts(keys, {Param("q", {3, 3}), Param("k", {3, 2}), Param("v", {3, 2})});
  CheckSame(&columns, &parts, ElementsOfParts({3, 2, 2}, 3, 1));
}

int64_t FactorsOf(const Keys& keys, const shampoo_param_desc& desc) {
  const Host host(keys, {desc});
  const std::vector<Host::Entry> entries = host.Entries();
  return std::count_if(entries.begin(), entries.end(), [](const Host::Entry& entry) {
    return std::string(entry.info.key).find("/factor.") != std::string::npos;
  });
}

TEST_CASE("parameters with role vector, embedding or head have no factor matrices and are updated like vectors") {
  for (const char* method : {"shampoo", "soap", "kl_shampoo"}) {
    CAPTURE(method);
    Keys keys = kRouted + Keys{{"method", method}};
    if (method == std::string("shampoo")) keys.push_back({"grafting", "adam"});
    CHECK(FactorsOf(keys, Param("hidden", {6, 5})) == 2);
    for (const int32_t role : {SHAMPOO_VECTOR, SHAMPOO_EMBEDDING, SHAMPOO_HEAD}) {
      CAPTURE(role);
      shampoo_param_desc table = Param("table", {6, 5});
      table.role = role;
      CHECK(FactorsOf(keys, table) == 0);
      CHECK(FactorsOf(keys + "route=off", table) == 2);
      Host one(keys, {table});
      Host many(keys, {Param("table", {30})});  // a vector of the same elements
      CheckSame(&one, &many);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
