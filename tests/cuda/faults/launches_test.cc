// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Drops each kernel launch of a step, and each call of a function in kCalls, one at a time. Checks that a result
// changes. A test that compares these results therefore detects a missing launch. kSometimes and the variables
// has_no_effect name the exceptions.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

using shampoo::Cat;

// All kernels of steps with one rank, in four lists: general kernels; kernels of inverse roots; kernels of eigenbases;
// and kernels of norms, orthogonalization and averages. The first list also has InitializeFactorsBody, a kernel
// that only the creation of an optimizer launches.
const char* const kStepKernels[] = {"SetBuffersBody",  "BeginStepBody",    "BeginGroupsBody", "EndStepBody",
                                    "CopyStateBody",   "SetTasksBody",     "ScanBody",        "ScanFactorsBody",
                                    "CheckBlockBody",  "DecideBody",       "FilterBody",      "NormBody",
                                    "ScaleBody",       "FitBody",          "DecideSkipBody",  "ApplyBody",
                                    "DecideCheckBody", "LoadGradientBody", "MoveDimBody",     "UpdateFactorBody",
                                    "StoreRootBody",   "MarkRootsBody",    "FindFlagsBody",   "InitializeFactorsBody"};
const char* const kRootKernels[] = {
    "SumRowsBody",       "SumSquaresBody",   "StartBody",         "FirstIterateBody",  "FactorBody",
    "AddTermBody",       "FirstRootBody",    "FinishIterateBody", "UpdateRunningBody", "CountRunningBody",
    "PairBody",          "TransformBody",    "ScaleRowsBody",     "DiagonalBody",      "InspectPieceBody",
    "BeginMemberBody",   "SignsBody",        "LoadBody",          "FinishRootBody",    "RecordLargestBody",
    "CheckByVectorBody", "DistanceBody",     "CheckByMatrixBody", "StatusBody",        "DeliverBody",
    "RecordNormBody",    "DivideByNormBody", "CansFactorBody",    "SymmetrizeBody",    "SubtractProductBody",
    "CopyMatrixBody",    "CompareRootBody",  "RecordErrorBody",   "CompareMatrixBody", "RecordResidualBody"};
const char* const kBasisKernels[] = {
    "BeginBasesBody",    "LoadBasesBody",         "LoadFactorsBody",      "LoadRotatedBody",
    "StoreRotatedBody",  "LargestMomentBody",     "RaiseEpsilonBody",     "UpdateGraftingBody",
    "FilterInBasesBody", "DivideByGraftingBody",  "NextEigenvaluesBody",  "SquareWhitenedBody",
    "CheckWhitenedBody", "UpdateBasisFactorBody", "StartEigenvaluesBody", "StoreEigenvaluesBody",
    "ScaleFactorBody",   "CompareBasisBody",      "FinishBasisBody",      "FixTurnBody",
    "TurnMomentBody",    "StoreBasesBody",        "TakeEigenvaluesBody",  "MarkBasesBody",
    "OrderColumnsBody",  "PermuteColumnsBody",    "OrthogonalizeBody",    "FinishIterationBody",
    "CheckVectorsBody",  "DeliverVectorsBody"};
const char* const kNormKernels[] = {"TileSumsBody",
                                    "RowSumsBody",
                                    "MoveBody",
                                    "MovedNormBody",
                                    "RatioBody",
                                    "DifferenceBody",
                                    "ReplaceBody",
                                    "TileMagnitudeBody",
                                    "BlockMagnitudeBody",
                                    "ScaleMatrixBody",
                                    "MirrorBody",
                                    "PolynomialBody",
                                    "GramNormBody",
                                    "CompleteNormBody",
                                    "ConvertBody",
                                    "OrthogonalNormBody",
                                    "KeepNormBody",
                                    "LineBody",
                                    "DivideDirectionBody",
                                    "AveragedDifferenceBody",
                                    "AveragedDirectionBody",
                                    "AdvanceAveragesBody"};
std::vector<std::string> AllKernels() {
  std::vector<std::string> all;
  const auto add = [&](const auto& kernels) { all.insert(all.end(), std::begin(kernels), std::end(kernels)); };
  add(kStepKernels);
  add(kRootKernels);
  add(kBasisKernels);
  add(kNormKernels);
  return all;
}
// Functions of the CUDA libraries whose calls are also dropped.
const char* const kCalls[] = {"cublasGemmStridedBatchedEx", "cusolverDnSsyevjBatched", "cusolverDnXsyevBatched"};

// Kernels whose dropped launch may have no effect, because the kernel handles exceptional cases or writes the same data
// as in the previous step.
const char* const kSometimes[] = {
    "SetBuffersBody", "BeginStepBody",      "ScanBody",          "ScanFactorsBody",  "CheckBlockBody",
    "DecideBody",     "FindFlagsBody",      "InspectPieceBody",  "BeginMemberBody",  "SignsBody",
    "FinishRootBody", "RecordLargestBody",  "StatusBody",        "FitBody",          "DecideSkipBody",
    "FixTurnBody",    "SquareWhitenedBody", "CheckWhitenedBody", "CheckVectorsBody", "DecideCheckBody",
    "PairBody",       "LoadBasesBody",      "ScaleFactorBody",   "FinishBasisBody",  "StartEigenvaluesBody"};

// A short training that is repeated once for each launch of its target step. Each repetition drops one of these
// launches.
struct Trial {
  const char* name;
  ModelSpec spec;
  int64_t target = 1;  // the number of the step in which a launch is dropped
  int64_t steps = 3;
  int64_t bad = 0;             // the step with a NaN gradient, or 0 if no step has one
  bool arenas = false;         // uses two arenas of the caller alternately
  bool diagonal = false;       // gradients are diagonal
  bool zero_gradient = false;  // the gradient of the target step is 0
  bool zero_param = false;     // the parameter is 0
  bool strict = false;         // dropping a launch of a kernel that is not in kSometimes must change the result
};

// Makes a step. Returns its status and its error message.
std::string StepText(Model* model) {
  const shampoo_status status = model->TryStep();
  return Cat(static_cast<int>(status), status == SHAMPOO_OK ? "" : shampoo_last_error(), "\n");
}

// Returns all visible results of a trial. Calls drop() before the target step and seen() after it.
std::string Result(const Trial& trial, const std::function<void()>& drop, const std::function<void()>& seen) {
  const Stage stage(FAKE_CUDA_OLDEST_FIRST);
  Model model(trial.spec);
  std::unique_ptr<Arenas> arenas;
  if (trial.arenas) arenas = std::make_unique<Arenas>(model);
  if (trial.zero_param) model.SetParam(0, std::vector<double>(model.elements(0)));
  std::string text;
  for (int64_t t = 1; t <= trial.steps; ++t) {
    model.FillGradients(static_cast<uint64_t>(t));
    if (trial.diagonal) model.SetGradient(0, {3, 0, 0, 0, 2, 0, 0, 0, 1});
    if (trial.zero_gradient && t == trial.target) model.SetGradient(0, std::vector<double>(model.elements(0)));
    if (t == trial.bad) model.SpoilGradient(0, model.elements(0) - 1, NAN);
    if (arenas) arenas->Bind(&model);
    if (t == trial.target) drop();
    text += StepText(&model);
    if (arenas) arenas->Swap();
    if (t == trial.target) seen();
    if (t == trial.target) text += model.Bits();
  }
  for (int i = 0; i < 2; ++i) text += std::to_string(model.Status()) + "\n";
  for (const char* count : {"steps", "skipped_steps", "nonfinite_blocks", "root_computed", "root_retried",
                            "root_reused", "root_eigen", "root_diagonal"}) {
    text += std::to_string(model.Stat(count)) + "\n";
  }
  for (const char* deviation : {"root_error.mean", "root_residual.mean"}) {
    text += std::to_string(1e15 * model.Stat(deviation)) + "\n";
  }
  text += model.Bits();
  fake_cuda_clear_problems();  // the dropped launch may have caused misuse
  return text;
}

std::vector<Trial> Trials() {
  const auto spec = [](const Keys& more, const Shapes& shapes) -> ModelSpec {
    const Keys keys = "use_merge_dims=false epsilon=1 status_lag=0";
    return {.keys = keys + more, .params = ParamsOf(shapes, SHAMPOO_F32)};
  };
  const auto spec_of_method = [](const Keys& keys) -> ModelSpec {
    return {.keys = keys + Keys("status_lag=0"), .params = {{{4, 3}}}};
  };
  const Keys muon = "method=muon second_moment=row beta2=0.8";
  const Keys exact = "orthogonalization=exact";
  const Keys rich = "grafting=adam momentum=0.9";
  const Keys newton = "root_method=newton";
  const Keys higher = "root_method=higher_order root_order=4";
  // With update_norm, a step scales the direction by its norm. Therefore a wrong norm changes the result.
  const Keys soap = "method=soap precondition_frequency=2 epsilon=1e-8 update_norm=rms";
  const Keys kl_soap = soap + Keys("factor_correction=kl");
  const Keys before = "basis_order=before precondition_frequency=1";
  const Keys qr = "basis_method=qr basis_transport=permute basis_tolerance=1e-3";
  const Keys hyperball = "norm_control=hyperball";
  const Keys unfinished = "root_max_iterations=1 epsilon=1e-3";
  std::vector<Trial> trials = {
      {.name = "first step", .spec = spec(rich, {{2, 3, 4}})},
      {.name = "later step", .spec = spec(rich, {{2, 3, 4}}), .target = 2, .strict = true},
      {.name = "larger matrices", .spec = spec(rich, {{40, 3}}), .target = 2, .strict = true},
      {.name = "newton", .spec = spec(newton + Keys("root_max_iterations=9"), {{3, 4}}), .target = 2},
      {.name = "higher order", .spec = spec(higher + Keys("root_max_iterations=6"), {{3, 4}}), .target = 2},
      {.name = "cans", .spec = spec("root_method=cans", {{3, 4}}), .target = 2},
      {.name = "diagonal by cans", .spec = spec("root_method=cans", {{3, 3}}), .diagonal = true},
      // When the host first checks whether iterations still run, the iteration of the first matrix has converged, and
      // the iteration of the second has not.
      {.name = "slow newton",
       .spec = spec(newton + Keys("root_max_iterations=40 epsilon=1e-4"), {{1}, {3}}),
       .target = 2},
      // In the next three trials, the method computes no root, or a root that cannot be stored.
      {.name = "unfinished newton", .spec = spec(newton + unfinished, {{3, 4}})},
      {.name = "unfinished higher order", .spec = spec(higher + unfinished, {{3, 4}})},
      {.name = "too large a root", .spec = spec("inverse_dtype=f16 inverse_root_override=1 epsilon=1e-6", {{9}})},
      {.name = "diagonal", .spec = spec({}, {{3, 3}}), .diagonal = true},
      {.name = "tracked roots", .spec = spec("track_root_residuals=true", {{4, 3}}), .target = 3},
      {.name = "rejected", .spec = spec(rich, {{4, 3}, {4, 3}}), .target = 2, .bad = 2},
      {.name = "after a rejection", .spec = spec(rich, {{4, 3}, {4, 3}}), .target = 3, .steps = 4, .bad = 2},
      {.name = "arenas", .spec = spec(rich, {{4, 3}}), .target = 2, .arenas = true},
      {.name = "first step of soap", .spec = spec(soap, {{2, 3}})},
      {.name = "refresh of soap", .spec = spec(soap, {{2, 3, 4}}), .target = 3, .steps = 4, .strict = true},
      {.name = "refresh of kl_soap", .spec = spec(kl_soap, {{4, 3}}), .target = 3, .steps = 4, .strict = true},
      {.name = "first step of kl_shampoo", .spec = spec("method=kl_shampoo epsilon=1e-8 update_norm=rms", {{4, 3}})},
      {.name = "step of kl_shampoo",
       .spec = spec("method=kl_shampoo epsilon=1e-8 update_norm=rms", {{4, 3}}),
       .target = 3,
       .steps = 4,
       .strict = true},
      {.name = "soap by orthogonal iteration", .spec = spec(soap + qr, {{4, 3}}), .target = 3, .steps = 4},
      {.name = "soap that keeps its bases",
       .spec = spec(soap + qr + Keys("basis_tolerance=1 basis_sort=after"), {{4, 3}}),
       .target = 3,
       .steps = 4},
      {.name = "soap whose first gradient is zero", .spec = spec(soap, {{3, 3}}), .zero_gradient = true},
      {.name = "grafted soap with basis_order=before",
       .spec = spec(kl_soap + before + Keys("kl_eigenvalues=basis grafting=adam update_norm=none"), {{4, 3}}),
       .target = 2},
      // Only the factor matrix of the first dim would overflow.
      {.name = "too large a whitened gradient",
       .spec = spec(kl_soap + Keys("kl_init=2e-5 factor_dtype=f16 on_nonfinite=skip_block"), {{40, 3}}),
       .target = 2},
      {.name = "hyperball without a radius", .spec = spec(hyperball, {{4, 3}}), .zero_param = true},
      {.name = "hyperball", .spec = spec(hyperball, {{4, 3}}), .target = 2},
      {.name = "radial with a floor of rows",
       .spec = spec("norm_control=radial update_floor=0.5 update_floor_rows=true", {{4, 3}}),
       .target = 2},
      {.name = "sign", .spec = spec_of_method("method=sign dual_norm_scale=true"), .strict = true},
      {.name = "muon", .spec = spec_of_method(muon), .target = 2, .strict = true},
      {.name = "muon by schatten4",
       .spec = spec_of_method(muon + Keys("ns_norm=schatten4 ns_coefficients=cubic5")),
       .target = 2,
       .strict = true},
      {.name = "muon in bfloat16", .spec = spec_of_method(muon + Keys("muon_math=bf16")), .strict = true},
      // This trial is not strict: the exact iteration converges even if one of its products is dropped.
      {.name = "muon exactly", .spec = spec_of_method(muon + exact), .target = 2},
      {.name = "orthogonalized soap",
       .spec = spec(soap + Keys("soap_post=orthogonalize"), {{4, 3}}),
       .target = 3,
       .steps = 4,
       .strict = true},
      {.name = "muon by elements", .spec = spec_of_method(muon + Keys("second_moment=element")), .target = 2},
      {.name = "schedule_free", .spec = spec_of_method("method=sign averaging=schedule_free"), .target = 2},
      {.name = "weight_ema of a skipped step",
       .spec = spec_of_method("method=sign weight_ema=0.5 on_nonfinite=skip_step"),
       .target = 3,
       .bad = 3},
      {.name = "out of range", .spec = spec("lr=1e7 on_nonfinite=skip_block", {{4, 3}, {5}})},
  };
  trials.back().spec.params[0].out_dtype = SHAMPOO_F16;
  trials.back().spec.params[0].in_place = false;
  return trials;
}

// Returns whether result() crashes or differs from `expected`. A kernel may read addresses from memory that the dropped
// launch has not written. A GPU would report a fault. With the fake, the process crashes. Therefore result() runs in
// its own process.
bool Differs(const std::string& expected, const std::function<std::string()>& result) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) (void)std::signal(number, SIG_DFL);
    const int nowhere = open("/dev/null", O_WRONLY);
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
    _exit(result() == expected ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_CASE("dropping any kernel launch or call of a CUDA library in a step changes a result" *
          doctest::test_suite("long")) {
  std::map<std::string, int64_t> noticed;
  std::string unnoticed;
  for (const Trial& trial : Trials()) {
    std::map<std::string, int64_t> launches;
    int64_t known = 0;
    const std::string expected = Result(
        trial, [] { fake_cuda_mark(); },
        [&] {
          for (const std::string& kernel : AllKernels()) {
            launches[kernel] = fake_cuda_launches_of(("::" + kernel).c_str());
            known += launches[kernel];
          }
          CHECK(known == fake_cuda_count(FAKE_CUDA_LAUNCHES));
          for (const char* call : kCalls) launches[call] = fake_cuda_calls(call);
        });
    for (const auto& [what, count] : launches) {
      for (int64_t n = 1; n <= count; ++n) {
        const auto drop = [&] {
          if (what.find("Body") != std::string::npos) {
            fake_cuda_skip_launch(("::" + what).c_str(), n);
          } else {
            fake_cuda_skip(what.c_str(), n);
          }
        };
        if (Differs(expected, [&] { return Result(trial, drop, [] { REQUIRE(fake_cuda_cancel_failures() == 0); }); })) {
          ++noticed[what];
        } else {
          const bool may_be = std::find(std::begin(kSometimes), std::end(kSometimes), what) != std::end(kSometimes);
          if (trial.strict && !may_be) unnoticed += Cat(trial.name, ": ", what, " ", n, " of ", count, "\n");
        }
      }
    }
  }
  CHECK(unnoticed == "");
  for (const std::string& name : AllKernels()) {
    CAPTURE(name);
    // InitializeFactorsBody runs only when an optimizer is created. SignsBody writes constants that were already
    // written at creation. SubtractProductBody subtracts a product from the residual of a root. If this kernel is
    // dropped, the check of the root has the same outcome. CheckVectorsBody detects wrong eigenvectors, and here all
    // eigenvectors are correct. MirrorBody runs only with large matrices.
    const bool has_no_effect = name == "InitializeFactorsBody" || name == "SignsBody" ||
                               name == "SubtractProductBody" || name == "CheckVectorsBody" || name == "MirrorBody";
    CHECK((noticed[name] > 0) != has_no_effect);
  }
  for (const char* call : kCalls) CHECK(noticed[call] > 0);
}

// Each run drops one of the calls with which shampoo_optimizer_create() writes device memory. The test compares the
// state before the first step and the results of two steps with those of a run that drops no call. The fake fills new
// memory with NaN, so memory that has not been written changes these results.
TEST_CASE("dropping any write of create changes a result" * NeedsFake()) {
  const Trial trial = Trials().front();
  int64_t calls = 0;
  // Create also makes calls whose results are not used: they only make CUDA load kernels onto the device. `writes` does
  // not count these calls.
  const char* const kInitialize = "InitializeFactorsBody";
  const std::map<std::string, int64_t> writes = {{"cudaMemcpyAsync", 7}, {"cudaMemsetAsync", 5}, {kInitialize, 1}};
  const auto run = [&](const char* function, int64_t n) {
    const Stage stage(FAKE_CUDA_OLDEST_FIRST);
    const bool is_kernel = std::string(function) == kInitialize;
    if (n > 0) is_kernel ? fake_cuda_skip_launch(function, n) : fake_cuda_skip(function, n);
    fake_cuda_mark();
    Model model(trial.spec);
    REQUIRE(fake_cuda_cancel_failures() == 0);
    calls = is_kernel ? fake_cuda_launches_of(function) : fake_cuda_calls(function);
    // After create, the constructor of Model copies each parameter to the device.
    if (std::string(function) == "cudaMemcpyAsync") calls -= static_cast<int64_t>(model.params());
    std::string text = model.Bits();
    for (uint64_t t = 1; t <= 2; ++t) {
      model.FillGradients(t);
      text += StepText(&model);
    }
    for (const char* count : {"steps", "nonfinite_blocks", "root_computed", "root_retried"}) {
      text += std::to_string(model.Stat(count)) + "\n";
    }
    text += model.Bits();
    fake_cuda_clear_problems();
    return text;
  };
  for (const char* function : {"cudaMemcpyAsync", "cudaMemsetAsync", kInitialize}) {
    const std::string expected = run(function, 0);
    const int64_t count = writes.at(function);
    CHECK(count <= calls);
    for (int64_t n = 1; n <= count; ++n) {
      const std::string name = Cat(function, " ", n);
      CAPTURE(name);
      // If one of these four calls is dropped, no result changes. The calls set scalars, records of blocks, statuses of
      // roots and working memory, and a step writes this memory before any of its kernels reads it.
      const bool has_no_effect = name == "cudaMemsetAsync 1" || name == "cudaMemsetAsync 2" ||
                                 name == "cudaMemsetAsync 4" || name == "cudaMemsetAsync 5";
      CHECK(Differs(expected, [&] { return run(function, n); }) != has_no_effect);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
