// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/convert.h"
#include "tests/cuda/tools/device_ranks.h"

// Helpers for tests in which several ranks export averages together (shampoo_optimizer_export).
namespace shampoo_test {

inline constexpr RankKind kExportKinds[] = {{"local", 2, 1},        {"local", 3, 1, false, "0", kAllOnHost},
                                            {"local", 2, 2},        {"gather", 1, 2},
                                            {"gather", 1, 3, true}, {"gather", 1, 2, true, "0", kAllOnHost},
                                            {"gather", 2, 2},       {"gather", 2, 2, true, "0", {false, true}}};

// Returns the specification of a model with three groups: two have averages, and one has none. One parameter
// consists of several tiles. Two parameters have an output whose dtype differs from that of the parameter.
inline ModelSpec SpecWithAverages(const Keys& more = {}) {
  ModelSpec spec;
  spec.keys = Keys("method=adam lr=0.1 averaging=schedule_free") + more;
  spec.groups = {{{"averaging", "none"}, {"weight_ema", "0.5"}}, {{"averaging", "none"}}};
  spec.params = {{{4, 3}}, {{70, 90}}, {{6, 6}}, {{5}}, {{6, 5}}, {{9}}};
  spec.params[2] = {{6, 6}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F32, false};
  for (const size_t p : {3U, 4U}) spec.params[p].group = 1;
  spec.params[4] = {{6, 5}, SHAMPOO_BF16, SHAMPOO_F32, SHAMPOO_F64, false, 0, 1};
  spec.params[5].group = 2;
  return spec;
}

inline shampoo_status ExportTo(const Model& model, double blend, const std::vector<void*>& weights) {
  return shampoo_optimizer_export(model.optimizer, blend, static_cast<int32_t>(weights.size()), weights.data());
}

inline shampoo::Dtype OutDtypeOf(const ParamSpec& param) {
  return static_cast<shampoo::Dtype>(param.in_place ? param.param_dtype : param.out_dtype);
}

// Memory to which a model exports its averages. The constructor fills it with bytes of the value 0x7b.
class Exported {
 public:
  explicit Exported(const Model& model) {
    for (size_t p = 0; p < model.params(); ++p) {
      memory_.emplace_back((model.elements(p) + 1) * sizeof(double));
      addresses_.push_back(memory_.back().get());
      MustCuda(cudaMemset(memory_.back().get(), 0x7b, memory_.back().bytes()));
    }
    MustCuda(cudaDeviceSynchronize());
  }
  const std::vector<void*>& addresses() const { return addresses_; }
  // Returns the exported values of parameter p.
  std::vector<double> Values(const Model& model, size_t p) const {
    const shampoo::Dtype dtype = OutDtypeOf(model.spec(p));
    std::vector<char> bytes(model.elements(p) * shampoo::SizeOf(dtype));
    std::vector<double> values(model.elements(p));
    model.Wait();
    MustCuda(cudaMemcpy(bytes.data(), memory_[p].get(), bytes.size(), cudaMemcpyDeviceToHost));
    shampoo::Widen(bytes.data(), dtype, values.data(), static_cast<int64_t>(values.size()));
    return values;
  }
  bool IsWritten(size_t p) const {
    std::vector<unsigned char> bytes(memory_[p].bytes());
    MustCuda(cudaMemcpy(bytes.data(), memory_[p].get(), bytes.size(), cudaMemcpyDeviceToHost));
    return std::any_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != 0x7b; });
  }
  bool IsAnyWritten() const {
    for (size_t p = 0; p < memory_.size(); ++p) {
      if (IsWritten(p)) return true;
    }
    return false;
  }

 private:
  std::vector<DeviceBytes> memory_;
  std::vector<void*> addresses_;
};

// The ranks of a job, and an optimizer without other ranks (`alone`), which makes the same steps.
struct ExportJob {
  ExportJob(const RankKind& kind, const ModelSpec& spec) : ranks(spec, kind), alone(spec), shards(kind.shards) {
    alone.FillGradients(1);
    ranks.SetFrom(alone);
  }
  // binds: whether the ranks bind their buffers before the step.
  void StepAll(uint64_t seed, bool binds = true) {
    alone.FillGradients(seed);
    ranks.SetGradientsFrom(alone);
    alone.Step();
    ranks.OnEvery([binds](int, Model* model) {
      if (binds) model->Bind();
      return shampoo_optimizer_step(model->optimizer, model->stream);
    });
  }
  void Train(uint64_t first, uint64_t last) {
    for (uint64_t t = first; t <= last; ++t) StepAll(t);
    ranks.MustSucceed();
  }
  // Checks that the joined shards of each replica have the values of `alone`. of_rank(rank, p) returns the values of
  // parameter p on a rank, and expected(p) returns its values in `alone`.
  template <typename OfRank, typename Expected>
  void CheckSame(const OfRank& of_rank, const Expected& expected) {
    for (size_t p = 0; p < alone.params(); ++p) {
      const std::vector<double> whole = expected(p);
      for (int copy = 0; copy * shards < ranks.world(); ++copy) {
        std::vector<double> joined;
        for (int shard = 0; shard < shards; ++shard) {
          const std::vector<double> part = of_rank(copy * shards + shard, p);
          joined.insert(joined.end(), part.begin(), part.end());
        }
        INFO("parameter ", p, ", replica ", copy);
        REQUIRE(joined.size() == whole.size());
        CHECK((OnFake() ? joined == whole : Distance(joined, whole) < 1e-5));
      }
    }
  }
  void CheckSameParams() {
    CheckSame([&](int rank, size_t p) { return ranks[rank].ParamValues(p); },
              [&](size_t p) { return alone.ParamValues(p); });
  }
  // Exports on all ranks. Returns the exported values of each rank.
  std::vector<Exported> Export(double blend) {
    std::vector<Exported> exported;
    for (const Model* model : ranks.models()) exported.emplace_back(*model);
    ranks.OnEvery([&](int rank, Model* model) {
      return ExportTo(*model, blend, exported[static_cast<size_t>(rank)].addresses());
    });
    return exported;
  }
  void CheckExport(double blend) {
    const std::vector<Exported> of_ranks = Export(blend);
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    const Exported expected(alone);
    Must(ExportTo(alone, blend, expected.addresses()));
    CheckSame([&](int rank, size_t p) { return of_ranks[static_cast<size_t>(rank)].Values(ranks[rank], p); },
              [&](size_t p) { return expected.Values(alone, p); });
    for (size_t p = 0; p < alone.params(); ++p) {
      const bool is_average = expected.Values(alone, p) != alone.ParamValues(p);
      const bool has_average = blend > 0 && alone.spec(p).group != 2;
      // After the first step, most averages equal their parameters.
      CHECK((is_average == has_average || (has_average && alone.Stat("step.0") == 1)));
    }
  }
  DeviceRanks ranks;
  Model alone;
  const int shards;
};

// Calls run(job, kind) for a job of each kind in kExportKinds.
template <typename Run>
void ForEachExportJob(const ModelSpec& spec, const Run& run) {
  for (const RankKind& kind : kExportKinds) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    ExportJob job(kind, spec);
    run(job, kind);
  }
}

inline const std::vector<Keys> kExchanges = {{{"status_lag", "1"}},
                                             {{"status_lag", "0"}, {"comm_bucket_bytes", "600"}},
                                             {{"communicate", "params"}, {"comm_bucket_bytes", "600"}}};

}  // namespace shampoo_test
