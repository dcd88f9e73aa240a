// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the state of an optimizer on the device: a state in the caller's memory, steps that read one arena (state_in)
// and write another (state_out), and calls that read or write one entry of the state.
#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

std::vector<char> BytesOf(const DeviceBytes& memory, cudaStream_t stream) {
  std::vector<char> host(memory.bytes());
  MustCuda(cudaMemcpyAsync(host.data(), memory.get(), memory.bytes(), cudaMemcpyDeviceToHost, stream));
  MustCuda(cudaStreamSynchronize(stream));
  return host;
}

TEST_CASE("the library initializes and updates a state in the caller's memory, and the state outlives the optimizer") {
  const StageWithStream stream;
  Model plain(FiveShapes(), stream);
  const StateArena arena(FiveShapes(), stream);
  MustCuda(cudaMemsetAsync(arena.get(), 0x5a, arena.bytes(), stream));
  std::vector<char> state;
  {
    Model model(arena.In(FiveShapes()), stream);
    const std::vector<char> initial = BytesOf(arena, stream);
    for (Model* one : {&plain, &model}) one->Train(1, 3);
    CHECK(BitsOf(model) == BitsOf(plain));
    state = BytesOf(arena, stream);
    CHECK(state != initial);
  }
  CHECK(BytesOf(arena, stream) == state);
}

TEST_CASE(
    "a step from one arena into another can be repeated, and the bytes of an arena can be copied to another arena") {
  for (const auto& [lag, async] : {std::pair("0", "0"), std::pair("1", "0"), std::pair("1", "1")}) {
    INFO("status_lag ", std::string(lag), ", root_async ", std::string(async));
    const StageWithStream stream;
    ModelSpec spec = FiveShapes({{"status_lag", lag}, {"root_async", async}});
    for (ParamSpec& param : spec.params) param.in_place = false;
    Model model(spec, stream);
    Model plain(FiveShapes({{"root_async", async}}), stream);
    const StateArena first(spec, stream);
    const DeviceBytes second(first.bytes());
    const DeviceBytes third(first.bytes());
    const auto step = [&](const DeviceBytes& in, const DeviceBytes& out) {
      Must(shampoo_optimizer_bind_state(model.optimizer, in.get(), out.get()));
      model.Step();
    };
    for (uint64_t t = 1; t <= 5; ++t) {
      CAPTURE(t);
      model.FillGradients(t);
      plain.FillGradients(t);
      const std::vector<char> before = BytesOf(first, stream);
      step(first, second);
      const std::vector<char> out = BitsOf(model);
      const std::vector<char> made = BytesOf(second, stream);
      step(first, third);  // the same step
      CHECK(BitsOf(model) == out);
      CHECK(BytesOf(third, stream) == made);
      CHECK(BytesOf(first, stream) == before);
      plain.Step();
      for (size_t p = 0; p < model.params(); ++p) {
        CHECK(model.OutValues(p) == plain.ParamValues(p));
        model.SetParam(p, model.OutValues(p));
      }
      for (const std::string& key : plain.Keys()) CHECK(model.State(key) == plain.State(key));
      // A caller that writes an arena must announce the change with shampoo_optimizer_bind_state().
      Must(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr));
      MustCuda(cudaMemcpyAsync(first.get(), third.get(), third.bytes(), cudaMemcpyDeviceToDevice, stream));
    }
    Must(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr));
    CHECK(model.State("group.0/step")[0] == 0);
  }
}

TEST_CASE("a rejected step leaves a separate state_out unchanged, and a step that skips blocks writes it") {
  for (const Keys& keys : Combinations("on_nonfinite=error|skip_step|skip_block status_lag=0|1")) {
    CAPTURE(keys);
    const std::string choice = keys.Value("on_nonfinite");
    const StageWithStream stream;
    const ModelSpec spec = FiveShapes(keys);
    Model model(spec, stream);
    const StateArena first(spec, stream);
    const DeviceBytes second(first.bytes());
    MustCuda(cudaMemsetAsync(second.get(), 0x5a, second.bytes(), stream));
    model.FillGradients(1);
    model.SpoilGradient(3, 7, NAN);
    Must(shampoo_optimizer_bind_state(model.optimizer, first.get(), second.get()));
    const bool rejected = choice == "error";
    shampoo_status status = model.TryStep();
    if (ReportsLate(keys)) status = model.Status();
    CHECK(status == (rejected ? SHAMPOO_E_NUMERIC : SHAMPOO_OK));
    const std::vector<char> in = BytesOf(first, stream);
    const std::vector<char> out = BytesOf(second, stream);
    if (rejected) CHECK(out == std::vector<char>(second.bytes(), '\x5a'));
    if (choice == "skip_step") CHECK(out == in);
    if (choice == "skip_block") CHECK(out != in);
    // The test continues from state_in after a rejected step, and from state_out after any other step.
    const DeviceBytes& from = rejected ? first : second;
    Must(shampoo_optimizer_bind_state(model.optimizer, from.get(), from.get()));
    model.Step(2);
    CHECK(model.State("group.0/step")[0] == (choice == "skip_block" ? 2 : 1));
  }
}

struct Entry {
  int64_t index;
  shampoo_state_entry info;
  int64_t elements;
  size_t size;  // bytes of an element
};

std::vector<Entry> EntriesOf(const Model& model) {
  int64_t count = 0;
  Must(shampoo_state_count(model.optimizer, &count));
  std::vector<Entry> entries;
  for (int64_t i = 0; i < count; ++i) {
    Entry entry{i, SHAMPOO_STATE_ENTRY_INIT, 1, 0};
    Must(shampoo_state_describe(model.optimizer, i, &entry.info));
    for (int k = 0; k < entry.info.ndim; ++k) entry.elements *= entry.info.shape[k];
    const int32_t dtype = entry.info.dtype;
    entry.size = dtype == SHAMPOO_I64 || dtype == SHAMPOO_F64   ? 8
                 : dtype == SHAMPOO_F32 || dtype == SHAMPOO_I32 ? 4
                                                                : 2;
    entries.push_back(entry);
  }
  return entries;
}

TEST_CASE("state entries can be copied to and from host memory and device memory as a whole or in part") {
  const StageWithStream stream;
  // Matrices of 128 x 128 or more are stored as one triangle. The parameter of 130 x 2 has such a factor matrix.
  ModelSpec spec = FiveShapes("factor_dtype=bf16 filtered_grad_dtype=f16");
  spec.params.push_back({{130, 2}});
  Model first(spec, stream);
  Model second(spec, stream);
  first.Train(1, 3);
  for (const Entry& entry : EntriesOf(first)) {
    CAPTURE(std::string(entry.info.key));
    const size_t bytes = static_cast<size_t>(entry.elements) * entry.size;
    const DeviceBytes on_device(bytes);
    const auto read = [&](int64_t begin, int64_t count, void* to, size_t size, int32_t type) {
      return shampoo_state_read(first.optimizer, entry.index, begin, count, to, size, type, stream);
    };
    Must(read(0, entry.elements, on_device.get(), bytes, SHAMPOO_CUDA));
    const std::vector<char> whole = BytesOf(on_device, stream);
    std::vector<char> on_host(bytes);
    Must(read(0, entry.elements, on_host.data(), bytes, SHAMPOO_CPU));
    CHECK(on_host == whole);
    // Copies the entry to the other model: the first `half` elements from host memory, the others from device memory.
    const int64_t half = entry.elements / 2;
    const size_t cut = static_cast<size_t>(half) * entry.size;
    std::vector<char> part(bytes - cut);
    Must(read(half, entry.elements - half, part.data(), part.size(), SHAMPOO_CPU));
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(cut)));
    Must(shampoo_state_write(second.optimizer, entry.index, half, entry.elements - half,
                             static_cast<char*>(on_device.get()) + cut, bytes - cut, SHAMPOO_CUDA, stream));
    Must(shampoo_state_write(second.optimizer, entry.index, 0, half, on_host.data(), cut, SHAMPOO_CPU, stream));
    CHECK(read(0, entry.elements + 1, part.data(), bytes + 8, SHAMPOO_CPU) == SHAMPOO_E_INVALID);
    CHECK(read(0, entry.elements, on_device.get(), bytes, 3) == SHAMPOO_E_UNSUPPORTED);
  }
  second.SetParamsOf(first);
  CHECK(BitsOf(second) == BitsOf(first));
  for (Model* one : {&first, &second}) one->Train(4, 6);
  CHECK(BitsOf(second) == BitsOf(first));
}

TEST_CASE(
    "if the caller overwrites the state without binding it again, one step is rejected and the next accepts the "
    "state") {
  const StageWithStream stream;
  const ModelSpec spec = FiveShapes();
  Model model(spec, stream);
  const StateArena arena(spec, stream);
  const size_t bytes = arena.bytes();
  const DeviceBytes initial(bytes);
  MustCuda(cudaMemcpyAsync(initial.get(), arena.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  model.FillGradients(1);
  Must(shampoo_optimizer_bind_state(model.optimizer, arena.get(), arena.get()));
  for (int t = 1; t <= 3; ++t) model.Step();
  MustCuda(cudaMemcpyAsync(arena.get(), initial.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  model.Step();  // with status_lag=1 (the default), the next call returns the error of this step
  const auto params = model.ParamValues(3);
  CheckError(model.TryStep(), SHAMPOO_E_STATE, "\"group.0/step\" is 0, but the previous step left 3");
  CHECK(model.ParamValues(3) == params);
  model.Step();
  CHECK(model.State("group.0/step")[0] == 1);
}

}  // namespace
}  // namespace shampoo_test
