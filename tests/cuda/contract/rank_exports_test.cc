// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the averages of several ranks (replicas and shards), and the export of averages, in which all ranks take part.
#include <cmath>
#include <cstddef>

#include "core/comm/round_header.h"
#include "tests/cuda/contract/export_job.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stream_rank.h"

namespace shampoo_test {
namespace {

TEST_CASE("an export on several ranks gives the averages of training on one rank and changes no parameter or state") {
  for (const RankKind& kind : kExportKinds) {
    for (const Keys& exchange : kExchanges) {
      INFO(NameOf(kind), " ", exchange);
      const Stage stage;
      ExportJob job(kind, SpecWithAverages(exchange));
      job.CheckSameParams();
      for (Model* model : job.ranks.models()) model->Bind();
      job.Export(1);  // before the first step
      REQUIRE(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
      job.Train(1, 3);
      const auto before = job.ranks.Bits();
      for (const double blend : {1.0, 0.25, 0.0}) job.CheckExport(blend);
      CHECK(job.ranks.Bits() == before);
      job.Train(4, 5);
      job.CheckSameParams();
      for (const Model* model : job.ranks.models()) CHECK(model->Stat("steps") == 5);
    }
  }
}

TEST_CASE("exports and steps that directly follow each other give the same results as with one rank") {
  ForEachExportJob(SpecWithAverages(), [](ExportJob& job, const RankKind&) {
    for (uint64_t t = 1; t <= 3; ++t) {
      job.StepAll(t, t == 1);
      job.CheckExport(1);
    }
    job.CheckSameParams();
  });
}

TEST_CASE("an export after a step that skipped blocks contains the averages of all blocks") {
  ForEachExportJob(SpecWithAverages("on_nonfinite=skip_block"), [](ExportJob& job, const RankKind&) {
    job.Train(1, 2);
    const auto spoil = [](Model* model) { model->SetGradient(0, std::vector<double>(model->elements(0), NAN)); };
    spoil(&job.alone);
    job.alone.Step();
    for (Model* model : job.ranks.models()) spoil(model);
    job.ranks.Step();
    job.CheckExport(1);
    job.CheckSameParams();
    job.alone.MustSucceed();
    CHECK(job.alone.Stat("nonfinite_blocks") == 1);
  });
}

TEST_CASE("each rank chooses which averages it exports and can export an average to the memory of a gradient") {
  ForEachExportJob(SpecWithAverages(), [](ExportJob& job, const RankKind&) {
    job.Train(1, 2);
    std::vector<Exported> all = job.Export(1);
    std::vector<Exported> some;
    for (const Model* model : job.ranks.models()) some.emplace_back(*model);
    job.ranks.OnEvery([&](int rank, Model* model) {
      std::vector<void*> weights = some[static_cast<size_t>(rank)].addresses();
      for (size_t p = 0; p < weights.size(); ++p) {
        if (p % 2 == static_cast<size_t>(rank) % 2) weights[p] = nullptr;
      }
      weights[3] = model->grad(3);
      return ExportTo(*model, 1, weights);
    });
    REQUIRE(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
    for (int rank = 0; rank < job.ranks.world(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      const Model& model = job.ranks[rank];
      CHECK(model.GradientValues(3) == all[r].Values(model, 3));
      for (size_t p = 0; p < model.params(); ++p) {
        const bool is_wanted = p != 3 && p % 2 != r % 2 && model.elements(p) > 0;
        CHECK(some[r].IsWritten(p) == is_wanted);
        if (is_wanted) CHECK(some[r].Values(model, p) == all[r].Values(model, p));
      }
    }
    job.Train(3, 4);
    job.CheckSameParams();
  });
}

// Returns the values after rounding each to the nearest number of `dtype`.
std::vector<double> Nearest(std::vector<double> values, shampoo::Dtype dtype) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<char> bytes(values.size() * shampoo::SizeOf(dtype));
  shampoo::Narrow(values.data(), bytes.data(), dtype, count);
  shampoo::Widen(bytes.data(), dtype, values.data(), count);
  return values;
}

TEST_CASE("an export rounds to nearest, also if steps round parameters stochastically") {
  for (const RankKind& kind : kExportKinds) {
    for (const Keys& exchange : {kExchanges[0], kExchanges[2]}) {
      INFO(NameOf(kind), " ", exchange);
      const Stage stage;
      ModelSpec spec = SpecWithAverages(exchange + Keys("param_rounding=stochastic"));
      spec.params[0] = {{12, 3}, SHAMPOO_BF16, SHAMPOO_F32};
      spec.params[1] = {{70, 90}, SHAMPOO_F32, SHAMPOO_F32, SHAMPOO_BF16, false};
      spec.params[3] = {{50}, SHAMPOO_F64, SHAMPOO_F32, SHAMPOO_BF16, false, 0, 1};
      ExportJob job(kind, spec);
      for (Model* model : job.ranks.models()) model->Bind();
      // Before the first step, the averages are the parameters.
      const std::vector<Exported> exported = job.Export(1);
      REQUIRE(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
      job.CheckSame([&](int rank, size_t p) { return exported[static_cast<size_t>(rank)].Values(job.ranks[rank], p); },
                    [&](size_t p) { return Nearest(job.alone.ParamValues(p), OutDtypeOf(spec.params[p])); });
      job.Train(1, 3);
      job.CheckExport(1);
    }
  }
}

TEST_CASE("a rank without elements takes part in exports") {
  for (const int copies : {1, 2}) {
    const Stage stage;
    ModelSpec spec = SpecWithAverages();
    spec.params = {{{2}}, {{1}}};  // the third shard has no elements
    ExportJob job({"gather", copies, 3}, spec);
    REQUIRE(job.ranks[2].elements(0) == 0);
    REQUIRE(job.ranks[2].elements(1) == 0);
    job.Train(1, 2);
    job.CheckExport(1);
    job.Train(3, 3);
    job.CheckSameParams();
  }
}

TEST_CASE("an export while async roots are pending does not change the roots") {
  for (const RankKind& kind : kExportKinds) {
    const bool shards_are_whole = kind.shards == 1 || kind.gathers();
    if (!shards_are_whole) continue;  // the roots of local shards are not those of the whole parameters
    CAPTURE(NameOf(kind));
    const Stage stage;
    ModelSpec spec = SpecWithAverages(
        "method=shampoo grafting=adam momentum=0 epsilon=0.1 root_async=2 precondition_frequency=3 refresh_growth=0");
    ExportJob job(kind, spec);
    for (uint64_t t = 1; t <= 8; ++t) {
      job.StepAll(t);
      job.Export(1);
      REQUIRE(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
    }
    job.CheckExport(1);
    job.CheckSameParams();
    CHECK(job.ranks[0].Stat("root_computed") > 0);
  }
}

constexpr RankKind kExportStreamKinds[] = {{"local", 2, 1, false},        {"gather", 1, 2, true},
                                           {"gather", 2, 2, false},       {"local", 2, 1, false, "64"},
                                           {"gather", 1, 2, false, "64"}, {"gather", 2, 2, true, "64"}};

TEST_CASE("replays of a captured step of several ranks advance averages as steps do, also after an export") {
  for (const RankKind& kind : kExportStreamKinds) {
    for (const Keys& average : {Keys("averaging=schedule_free"), Keys("averaging=gpa"), Keys("weight_ema=0.5")}) {
      INFO(NameOf(kind), " ", average);
      const StageWithStream stream;
      const Keys keys = Keys("momentum=0") + average;
      StreamRank<> plain(kind, keys, stream);
      StreamRank<> captured(kind, keys, stream);
      const auto check_export = [&] {
        const Exported expected(plain.model);
        const Exported exported(captured.model);
        Must(ExportTo(plain.model, 1, expected.addresses()));
        Must(ExportTo(captured.model, 1, exported.addresses()));
        bool any_differs = false;
        for (size_t p = 0; p < plain.model.params(); ++p) {
          const std::vector<double> values = exported.Values(captured.model, p);
          CHECK(values == expected.Values(plain.model, p));
          any_differs = any_differs || values != captured.model.ParamValues(p);
        }
        CHECK(any_differs);
      };
      const auto graph = StepAndReplay(&captured.model, [&](uint64_t t) {
        if (t == 9) check_export();
        plain.model.Step(t);
      });
      check_export();
      CheckReplayed(captured.model, plain.model, 9);
    }
  }
}

TEST_CASE("replays of a captured step of several ranks continue after an export that failed") {
  for (const RankKind& kind : kExportStreamKinds) {
    CAPTURE(NameOf(kind));
    const StageWithStream stream;
    const Keys keys = "momentum=0 weight_ema=0.5";
    StreamRank<> plain(kind, keys, stream);
    StreamRank<> captured(kind, keys, stream);
    const auto graph = StepAndReplay(&captured.model, [&](uint64_t t) {
      plain.model.Step(t);
      if (t < 8) return;
      const Exported exported(captured.model);
      CheckError(ExportTo(captured.model, 2, exported.addresses()), SHAMPOO_E_INVALID, "blend is 2: expected a number");
      CHECK(!exported.IsAnyWritten());
    });
    CheckReplayed(captured.model, plain.model, 9);
  }
}

// A StreamComm (see stream_comm.h). While *steps is true, it pretends that the last rank makes a step instead of an
// export: it clears RoundHeader::flags in the data of the last rank.
class SteppingComm {
 public:
  SteppingComm(int world, const bool* steps) : comm_(world), steps_(steps) {}

  shampoo_comm_ops Ops(bool with_all_to_all) {
    shampoo_comm_ops ops = comm_.Ops(with_all_to_all);
    user_ = ops.user;
    gather_ = ops.all_gather;
    all_to_all_ = ops.all_to_all;
    ops.user = this;
    ops.all_gather = Gather;
    if (with_all_to_all) ops.all_to_all = AllToAll;
    world_ = ops.world;
    return ops;
  }

 private:
  static int32_t Gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
    const auto& self = *static_cast<SteppingComm*>(user);
    const int32_t error = self.gather_(self.user_, send, recv, bytes, stream);
    if (error != 0 || !*self.steps_ || self.world_ == 1) return error;
    char* const flags =
        static_cast<char*>(recv) + static_cast<size_t>(self.world_ - 1) * bytes + offsetof(shampoo::RoundHeader, flags);
    return cudaMemsetAsync(flags, 0, sizeof(shampoo::RoundHeader::flags), static_cast<cudaStream_t>(stream));
  }
  static int32_t AllToAll(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                          void* stream) {
    const auto& self = *static_cast<SteppingComm*>(user);
    return self.all_to_all_(self.user_, send, send_bytes, recv, recv_bytes, stream);
  }

  StreamComm comm_;
  const bool* steps_;
  int world_ = 1;
  void* user_ = nullptr;
  decltype(shampoo_comm_ops::all_gather) gather_ = nullptr;
  decltype(shampoo_comm_ops::all_to_all) all_to_all_ = nullptr;
};

TEST_CASE("if an export fails because other ranks make a step, replays make no step before the next call of step") {
  for (const RankKind& kind : kExportStreamKinds) {
    for (const double blend : {1.0, 2.0}) {
      INFO(NameOf(kind), ", blend ", blend);
      const StageWithStream stream;
      bool others_step = false;
      StreamRank<SteppingComm> rank(kind, {{"momentum", "0"}, {"weight_ema", "0.5"}}, stream,
                                    static_cast<const bool*>(&others_step));
      const auto graph = StepAndReplay(&rank.model, [](uint64_t) {});
      const Exported exported(rank.model);
      others_step = true;
      CHECK(ExportTo(rank.model, blend, exported.addresses()) != SHAMPOO_OK);
      others_step = false;
      graph->Launch();
      rank.model.MustSucceed();
      CHECK(rank.model.Stat("steps") == 9);
      rank.model.Step(10);
      graph->Launch();
      rank.model.MustSucceed();
      CHECK(rank.model.Stat("steps") == 11);
    }
  }
}

TEST_CASE("replicas export the averages of the last step even if only some replicas read one arena and write another") {
  ForEachExportJob(SpecWithAverages(), [](ExportJob& job, const RankKind& kind) {
    if (kind.copies == 1) return;
    std::vector<std::unique_ptr<Arenas>> arenas;
    for (int rank = kind.shards; rank < job.ranks.world(); ++rank) {
      arenas.push_back(std::make_unique<Arenas>(job.ranks[rank]));
    }
    for (uint64_t t = 1; t <= 3; ++t) {
      for (int rank = kind.shards; rank < job.ranks.world(); ++rank) {
        Arenas& own = *arenas[static_cast<size_t>(rank - kind.shards)];
        if (t > 1) own.Swap();
        own.Bind(&job.ranks[rank]);
      }
      job.StepAll(t);
      job.CheckExport(1);
    }
    job.CheckSameParams();
    for (Model* model : job.ranks.models()) Must(shampoo_optimizer_bind_state(model->optimizer, nullptr, nullptr));
  });
}

TEST_CASE("a captured step can read the arena that the previous step wrote even if an export came between them") {
  for (const RankKind& kind : kExportStreamKinds) {
    CAPTURE(NameOf(kind));
    const StageWithStream stream;
    StreamRank<> rank(kind, {{"weight_ema", "0.5"}}, stream);
    Arenas arenas(rank.model);
    arenas.Bind(&rank.model);
    rank.model.Step(1);
    const Exported exported(rank.model);
    Must(ExportTo(rank.model, 1, exported.addresses()));
    arenas.Swap();
    arenas.Bind(&rank.model);
    const Graph graph(&rank.model);
    graph.Launch();
    CHECK(rank.model.State("group.0/step")[0] == 2);
    Must(shampoo_optimizer_bind_state(rank.model.optimizer, nullptr, nullptr));
  }
}

TEST_CASE("an export of several ranks cannot be captured") {
  for (const RankKind& kind : kExportStreamKinds) {
    const StageWithStream stream;
    StreamRank<> rank(kind, {{"weight_ema", "0.5"}}, stream);
    rank.model.Train(1, 2);
    const Exported exported(rank.model);
    const Graph empty(stream, [&] {
      CheckError(ExportTo(rank.model, 1, exported.addresses()), SHAMPOO_E_STATE,
                 "the state of the averages cannot be read while the stream of the last call is being captured");
    });
    Must(ExportTo(rank.model, 1, exported.addresses()));
    CHECK(exported.IsAnyWritten());
  }
}

}  // namespace
}  // namespace shampoo_test
