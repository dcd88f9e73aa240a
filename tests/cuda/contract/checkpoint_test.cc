// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests checkpoints of one optimizer on the device. An optimizer on the device can load a
// checkpoint of an optimizer on the CPU, and the reverse.
#include "tests/core/temporary_directory.h"
#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

ModelSpec CheckpointSpec(int32_t device_type) {
  // Some states are in 16 bits. The 130 x 130 factor matrix and its root are each stored as a triangle.
  ModelSpec spec = FiveShapes("factor_dtype=bf16 momentum_dtype=f16 precondition_frequency=3");
  spec.params.push_back({{130, 2}});
  spec.device_type = device_type;
  return spec;
}

TEST_CASE("a checkpoint saved on the device or the CPU is loaded on either, and training continues") {
  for (const int32_t saver : {SHAMPOO_CUDA, SHAMPOO_CPU}) {
    for (const int32_t loader : {SHAMPOO_CUDA, SHAMPOO_CPU}) {
      for (const bool used : {false, true}) {
        INFO("from device type ", saver, " to ", loader, ", used ", used);
        const StageWithStream stream;
        const shampoo::TemporaryDirectory folder;
        const auto stream_of = [&](int32_t type) { return type == SHAMPOO_CUDA ? cudaStream_t{stream} : nullptr; };
        Model first(CheckpointSpec(saver), stream_of(saver));
        Model second(CheckpointSpec(loader), stream_of(loader));
        first.Train(1, 4);  // the last step may still be running
        first.Save(folder.path());
        if (used) second.Train(7, 12);
        second.Load(folder.path());
        second.SetParamsOf(first);
        CHECK(BitsOf(second) == BitsOf(first));
        CHECK(second.State("group.0/step")[0] == 4);
        first.Train(5, 9);
        second.Train(5, 9);
        if (saver == loader) {
          CHECK(BitsOf(second) == BitsOf(first));
        } else {
          for (size_t p = 0; p < first.params(); ++p) {
            CHECK(Distance(second.ParamValues(p), first.ParamValues(p)) < 1e-2);
          }
        }
        CHECK(second.State("group.0/step")[0] == 9);
      }
    }
  }
}

TEST_CASE("with on_block_mismatch=reset a load converts and clears the same states on the device as on the CPU") {
  const Keys kMuon = "method=muon on_block_mismatch=reset";
  for (const Keys& key : {Keys("second_moment=short"), Keys("second_moment=row"), Keys("second_moment=element"),
                          Keys("norm_control=hyperball"), Keys("averaging=schedule_free")}) {
    CAPTURE(key[0].second);
    const StageWithStream stream;
    const shampoo::TemporaryDirectory folder;
    const ModelSpec spec{.keys = kMuon + key, .params = {{{8, 6}}}};
    ModelSpec divided = Pair::OnCpu(spec);
    divided.params[0].row_splits = {4, 4};
    Model saver(divided);
    saver.Train(1, 3);
    saver.Save(folder.path());
    Pair used(spec, stream);
    used.Each([&](Model& model) {
      model.FillParams(2);
      model.Train(7, 8);
      model.Load(folder.path());
      model.SetParamsOf(saver);
    });
    CHECK(BitsOf(used.device) == BitsOf(used.host));
  }
}

TEST_CASE("a checkpoint that cannot be read leaves the state on the device unchanged") {
  const StageWithStream stream;
  const shampoo::TemporaryDirectory folder;
  Model model(CheckpointSpec(SHAMPOO_CUDA), stream);
  model.Train(1, 4);
  model.Save(folder.path());
  model.Train(5, 6);
  const std::vector<char> before = BitsOf(model);
  for (const bool cut_off : {false, true}) {
    CAPTURE(cut_off);
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (file.path().extension() != ".safetensors") continue;
      const uintmax_t bytes = std::filesystem::file_size(file.path());
      if (cut_off) {
        std::filesystem::resize_file(file.path(), bytes - 1);
      } else {
        // The damage is detected after most of the state was written, so the load must restore the state.
        std::fstream stream_of(file.path(), std::ios::in | std::ios::out | std::ios::binary);
        stream_of.seekg(static_cast<std::streamoff>(bytes - 1));
        const auto last = static_cast<char>(stream_of.get() ^ 1);
        stream_of.seekp(static_cast<std::streamoff>(bytes - 1));
        stream_of.put(last);
      }
    }
    CHECK(shampoo_load(&model.optimizer, 1, nullptr, folder.path().c_str(), stream) == SHAMPOO_E_IO);
    CHECK(BitsOf(model) == before);
  }
  model.Train(7, 8);
  CHECK(model.State("group.0/step")[0] == 8);
}

TEST_CASE("a save after replays of a graph reads the state in stream order, and a load writes it in stream order") {
  const StageWithStream stream;
  const shampoo::TemporaryDirectory folder;
  Model model(CheckpointSpec(SHAMPOO_CUDA), stream);
  Model plain(CheckpointSpec(SHAMPOO_CUDA), stream);
  for (Model* one : {&model, &plain}) one->Train(1, 3);
  model.FillGradients(4);
  const Graph graph(&model);
  graph.Launch();
  graph.Launch();
  model.Save(folder.path());
  plain.Step(4);
  plain.Step();
  Model second(CheckpointSpec(SHAMPOO_CPU));
  second.Load(folder.path());
  CHECK(second.State("group.0/step")[0] == 5);
  second.SetParamsOf(model);
  CHECK(BitsOf(second) == BitsOf(plain));
  // After the load, a step and then a replay continue from the checkpoint.
  model.Load(folder.path());
  model.Step(6);
  plain.Step(6);
  CHECK(BitsOf(model) == BitsOf(plain));
  graph.Launch();
  plain.Step(6);
  CHECK(BitsOf(model) == BitsOf(plain));
}

TEST_CASE("a load discards the error of a replay that the stream runs before the load") {
  const shampoo::TemporaryDirectory folder;
  StagedModel model(CheckpointSpec(SHAMPOO_CUDA), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  model.Train(1, 3);
  model.Save(folder.path());
  const Graph graph(&model);
  model.SpoilGradient(3, 17, NAN);
  graph.Launch();
  model.Load(folder.path());
  model.MustSucceed();
  model.Step(4);
  CHECK(model.State("group.0/step")[0] == 4);
}

}  // namespace
}  // namespace shampoo_test
