// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of optimizers on the device equal those of the CPU.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

class Folder {
 public:
  explicit Folder(const char* name)
      : path_(std::filesystem::temp_directory_path() /
              (std::string("shampoo_cuda_") + name + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

ModelSpec CheckpointSpec(int32_t device_type) {
  // The states include one that is stored as a triangle, and narrow ones.
  ModelSpec spec = FiveShapes({{"factor_dtype", "bf16"}, {"momentum_dtype", "f16"}, {"precondition_frequency", "3"}});
  spec.params.push_back({{130, 2}});
  spec.device_type = device_type;
  return spec;
}

void Train(Model* model, uint64_t from, uint64_t to) {
  for (uint64_t t = from; t <= to; ++t) {
    model->FillGradients(t);
    model->Step();
  }
}

void Save(Model* model, const Folder& folder) {
  Must(shampoo_save(&model->optimizer, 1, nullptr, folder.path().c_str(), model->stream));
}
void Load(Model* model, const Folder& folder) {
  Must(shampoo_load(&model->optimizer, 1, nullptr, folder.path().c_str(), model->stream));
}
void CopyParams(const Model& from, Model* to) {
  for (size_t p = 0; p < from.params(); ++p) to->SetParam(p, from.ParamValues(p));
}

TEST_CASE("a checkpoint saved on the device or the CPU is loaded on either, and training continues") {
  for (const int32_t saver : {SHAMPOO_CUDA, SHAMPOO_CPU}) {
    for (const int32_t loader : {SHAMPOO_CUDA, SHAMPOO_CPU}) {
      for (const bool used : {false, true}) {
        CAPTURE(saver);
        CAPTURE(loader);
        CAPTURE(used);
        const Stage stage;
        const TestStream stream;
        const Folder folder("save");
        const auto stream_of = [&](int32_t type) { return type == SHAMPOO_CUDA ? cudaStream_t{stream} : nullptr; };
        Model first(CheckpointSpec(saver), stream_of(saver));
        Model second(CheckpointSpec(loader), stream_of(loader));
        first.FillParams(1);
        Train(&first, 1, 4);  // the last step may still be running
        Save(&first, folder);
        if (used) {
          second.FillParams(2);
          Train(&second, 7, 12);
        }
        Load(&second, folder);
        CopyParams(first, &second);
        CHECK(BitsOf(second) == BitsOf(first));
        CHECK(second.State("group.0/step")[0] == 4);
        Train(&first, 5, 9);
        Train(&second, 5, 9);
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

TEST_CASE("a checkpoint that cannot be read leaves the state on the device unchanged") {
  const Stage stage;
  const TestStream stream;
  const Folder folder("broken");
  Model model(CheckpointSpec(SHAMPOO_CUDA), stream);
  model.FillParams(1);
  Train(&model, 1, 4);
  Save(&model, folder);
  Train(&model, 5, 6);
  const std::vector<char> before = BitsOf(model);
  for (const bool cut_off : {false, true}) {
    CAPTURE(cut_off);
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (file.path().extension() != ".safetensors") continue;
      const uintmax_t bytes = std::filesystem::file_size(file.path());
      if (cut_off) {
        std::filesystem::resize_file(file.path(), bytes - 1);
      } else {
        // The damage is detected after most of the state was written.
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
  Train(&model, 7, 8);
  CHECK(model.State("group.0/step")[0] == 8);
}

TEST_CASE("after replays and with bound arenas, the state is read in the order of the stream") {
  const Stage stage;
  const TestStream stream;
  const Folder folder("replays");
  Model model(CheckpointSpec(SHAMPOO_CUDA), stream);
  Model plain(CheckpointSpec(SHAMPOO_CUDA), stream);
  for (Model* one : {&model, &plain}) {
    one->FillParams(1);
    Train(one, 1, 3);
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  model.FillGradients(4);
  MustCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  model.Step();
  MustCuda(cudaStreamEndCapture(stream, &graph));
  MustCuda(cudaGraphInstantiate(&exec, graph, 0));
  MustCuda(cudaGraphLaunch(exec, stream));
  MustCuda(cudaGraphLaunch(exec, stream));
  Save(&model, folder);
  plain.FillGradients(4);
  plain.Step();
  plain.Step();
  Model second(CheckpointSpec(SHAMPOO_CPU));
  Load(&second, folder);
  CHECK(second.State("group.0/step")[0] == 5);
  CopyParams(model, &second);
  CHECK(BitsOf(second) == BitsOf(plain));
  // Loads the checkpoint again; the next replay continues from it.
  Load(&model, folder);
  Train(&model, 6, 6);
  Train(&plain, 6, 6);
  CHECK(BitsOf(model) == BitsOf(plain));
  MustCuda(cudaGraphLaunch(exec, stream));
  plain.FillGradients(6);
  plain.Step();
  CHECK(BitsOf(model) == BitsOf(plain));
  MustCuda(cudaGraphExecDestroy(exec));
  MustCuda(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace shampoo_test
