// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests errors of exports by several ranks: all ranks return the same error, write nothing, and can
// continue.
#include <cmath>

#include "tests/cuda/contract/export_job.h"

namespace shampoo_test {
namespace {

// Calls run(job, odd) for each combination of kExportKinds, kExchanges and a rank `odd`. run() makes this rank behave
// differently from the other ranks.
template <typename Run>
void ForEachOddRank(const Run& run) {
  for (const RankKind& kind : kExportKinds) {
    for (const Keys& exchange : kExchanges) {
      for (int odd = 0; odd < kind.world(); ++odd) {
        INFO(NameOf(kind), " ", exchange);
        CAPTURE(odd);
        const Stage stage;
        ExportJob job(kind, SpecWithAverages(exchange));
        run(job, odd);
      }
    }
  }
}

TEST_CASE("an export with a bad argument on one rank fails with the same error on all ranks and all ranks continue") {
  ForEachOddRank([](ExportJob& job, int odd) {
    job.Train(1, 2);
    const auto before = job.ranks.Bits();
    std::vector<Exported> exported;
    for (const Model* model : job.ranks.models()) exported.emplace_back(*model);
    const auto export_with = [&](double blend, size_t count, bool overlaps) {
      job.ranks.OnEvery([&](int rank, Model* model) {
        std::vector<void*> weights = exported[static_cast<size_t>(rank)].addresses();
        if (rank == odd && overlaps) weights[0] = model->param(0);
        if (rank == odd) weights.resize(count);
        return ExportTo(*model, rank == odd ? blend : 1, weights);
      });
    };
    export_with(2, 6, false);
    CHECK(job.ranks.DifferencesFrom(SHAMPOO_E_INVALID, {"rank ", ": blend is 2: expected a number"}) == "");
    CHECK(job.ranks.text(0).find("had begun the step") == std::string::npos);
    export_with(1, 5, false);
    CHECK(job.ranks.DifferencesFrom(SHAMPOO_E_INVALID, {"rank ", ": count is 5: expected 6"}) == "");
    if (job.ranks[odd].elements(0) > 0) {
      export_with(1, 6, true);
      CHECK(job.ranks.DifferencesFrom(SHAMPOO_E_INVALID, {"weights[0] overlaps the parameter \"p0\""}) == "");
    }
    for (const Exported& one : exported) CHECK(!one.IsAnyWritten());
    CHECK(job.ranks.Bits() == before);
    job.CheckExport(1);
    job.Train(3, 4);
    job.CheckSameParams();
  });
}

TEST_CASE("if one rank exports while the others make a step, all ranks return an error, and then continue") {
  ForEachOddRank([](ExportJob& job, int odd) {
    for (Model* model : job.ranks.models()) model->DropGradient(0, true);  // parameter 0 is frozen
    job.Train(1, 2);
    const auto before = job.ranks.Params();
    Exported exported(job.ranks[odd]);
    job.ranks.OnEvery([&](int rank, Model* model) {
      if (rank == odd) return ExportTo(*model, 1, exported.addresses());
      const shampoo_status status = model->TryStep();
      if (status != SHAMPOO_OK) return status;
      int64_t failed = 0;
      const shampoo_status reported = shampoo_optimizer_status(model->optimizer, 1, &failed);
      CHECK(failed == 3);
      return reported;
    });
    for (int rank = 0; rank < job.ranks.world(); ++rank) {
      CAPTURE(job.ranks.text(rank));
      CHECK(job.ranks.status(rank) == SHAMPOO_E_STATE);
      for (const char* const words : {"exports averages", "makes a step", "in the same order on all ranks"}) {
        CHECK(job.ranks.text(rank).find(words) != std::string::npos);
      }
      CHECK(job.ranks.text(rank).find(job.ranks.text(odd)) != std::string::npos);
    }
    CHECK(!exported.IsAnyWritten());
    CHECK(job.ranks.Params() == before);
    job.Export(1);
    CHECK(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
    job.ranks.Step(3);
    job.ranks.MustSucceed();
    for (const Model* model : job.ranks.models()) CHECK(model->Stat("steps") == 3);
  });
}

TEST_CASE("if one replica exports while the other makes a step, shard ranks without elements return the error, too") {
  ModelSpec spec = SpecWithAverages();
  spec.params = {{{2}}, {{1}}};  // the third shard rank has no elements
  for (const int exporting : {0, 1}) {
    CAPTURE(exporting);
    const Stage stage;
    ExportJob job({"gather", 2, 3}, spec);
    job.Train(1, 2);
    job.ranks.OnEvery([&](int rank, Model* model) {
      if (rank / 3 == exporting) return ExportTo(*model, 1, Exported(*model).addresses());
      const shampoo_status status = model->TryStep();
      return status == SHAMPOO_OK ? model->Status() : status;
    });
    for (int rank = 0; rank < job.ranks.world(); ++rank) {
      CAPTURE(job.ranks.text(rank));
      CHECK(job.ranks.status(rank) == SHAMPOO_E_STATE);
      CHECK(job.ranks.text(rank).find("exports averages") != std::string::npos);
    }
    job.Export(1);
    CHECK(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
  }
}

TEST_CASE("ranks whose step counters or hyper-parameters differ do not export") {
  ForEachExportJob(SpecWithAverages(), [](ExportJob& job, const RankKind& kind) {
    job.Train(1, 2);
    const std::string name = kind.shards > 1 ? "shard rank 1" : "rank 1";
    Must(shampoo_optimizer_set(job.ranks[1].optimizer, 0, "lr", 0.5));
    const std::vector<Exported> exported = job.Export(1);
    CHECK(job.ranks.DifferencesFrom(SHAMPOO_E_INVALID, {name + " has a different learning rate"}) == "");
    Must(shampoo_optimizer_set(job.ranks[1].optimizer, 0, "lr", 0.1));
    if (kind.copies > 1) {
      for (int shard = 0; shard < kind.shards; ++shard) job.ranks[kind.shards + shard].SetState("group.0/step", {7});
      job.Export(1);
      CHECK(job.ranks.DifferencesFrom(SHAMPOO_E_STATE, {"rank 1 is at step 7 and rank 0 at step 2"}) == "");
      for (int shard = 0; shard < kind.shards; ++shard) job.ranks[kind.shards + shard].SetState("group.0/step", {2});
    }
    for (const Exported& one : exported) CHECK(!one.IsAnyWritten());
    job.CheckExport(1);
  });
}

TEST_CASE("an export returns the error of an earlier rejected step, and the next export succeeds") {
  ForEachExportJob(SpecWithAverages("on_nonfinite=error"), [](ExportJob& job, const RankKind&) {
    job.Train(1, 2);
    for (Model* model : job.ranks.models()) model->SetGradient(1, std::vector<double>(model->elements(1), NAN));
    job.ranks.CheckStep();
    const std::vector<Exported> exported = job.Export(1);
    CHECK(job.ranks.DifferencesFrom(SHAMPOO_E_NUMERIC,
                                    {"an earlier step was rejected, and nothing was exported: ", "gradient"}) == "");
    for (const Exported& one : exported) CHECK(!one.IsAnyWritten());
    job.CheckExport(1);
    job.ranks.MustSucceed();
  });
}

TEST_CASE("if the next step would compare replicas because of verify_replicas, an export compares their parameters") {
  ForEachExportJob(SpecWithAverages("verify_replicas=2"), [](ExportJob& job, const RankKind& kind) {
    if (kind.copies == 1) return;
    job.Train(1, 1);
    std::vector<double> values = job.ranks[0].ParamValues(5);
    values[0] += 1;
    job.ranks[0].SetParam(5, values);
    job.Export(1);
    CHECK(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
    job.Train(2, 2);
    const std::vector<Exported> exported = job.Export(1);
    for (int rank = 0; rank < job.ranks.world(); ++rank) {
      CAPTURE(job.ranks.text(rank));
      CHECK(job.ranks.status(rank) == SHAMPOO_E_STATE);
      CHECK(job.ranks.text(rank).find("verify_replicas: parameter \"p5\" differs between ") != std::string::npos);
    }
    for (const Exported& one : exported) CHECK(!one.IsAnyWritten());
  });
}

TEST_CASE("exports do not count in the step number that shampoo_optimizer_status returns") {
  const Stage stage;
  ExportJob job({"local", 2, 1}, SpecWithAverages("on_nonfinite=error"));
  job.Train(1, 2);
  for (int i = 0; i < 3; ++i) job.Export(1);
  for (Model* model : job.ranks.models()) model->SpoilGradient(0, 1, NAN);
  job.ranks.Step();
  job.ranks.OnEvery([](int, Model* model) {
    int64_t failed = 0;
    const shampoo_status status = shampoo_optimizer_status(model->optimizer, 1, &failed);
    CHECK(failed == 3);
    return status;
  });
  CHECK(job.ranks.DifferencesFrom(SHAMPOO_E_NUMERIC) == "");
}

}  // namespace
}  // namespace shampoo_test
