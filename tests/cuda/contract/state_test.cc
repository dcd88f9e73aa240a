// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The state: in the caller's memory, in two arenas, and by its entries.
#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

size_t StateBytes(const ModelSpec& spec) {
  shampoo_plan* const plan = MakePlan(spec);
  int64_t bytes = 0;
  Must(shampoo_plan_bytes(plan, 0, "state", &bytes));
  shampoo_plan_destroy(plan);
  return static_cast<size_t>(bytes);
}

std::vector<char> BytesOf(const void* memory, size_t bytes, cudaStream_t stream) {
  std::vector<char> host(bytes);
  MustCuda(cudaMemcpyAsync(host.data(), memory, bytes, cudaMemcpyDeviceToHost, stream));
  MustCuda(cudaStreamSynchronize(stream));
  return host;
}

TEST_CASE("a state in the caller's memory is initialized and stepped, and the caller still owns it") {
  const Stage stage;
  const TestStream stream;
  ModelSpec spec = FiveShapes();
  Model plain(spec, stream);
  spec.state_bytes = StateBytes(spec);
  const DeviceBytes arena(spec.state_bytes);
  spec.state = arena.get();
  std::vector<char> state;
  {
    Model model(spec, stream);
    const std::vector<char> initial = BytesOf(arena.get(), spec.state_bytes, stream);
    for (Model* one : {&plain, &model}) {
      one->FillParams(1);
      for (uint64_t t = 1; t <= 3; ++t) {
        one->FillGradients(t);
        one->Step();
      }
    }
    CHECK(BitsOf(model) == BitsOf(plain));
    state = BytesOf(arena.get(), spec.state_bytes, stream);
    CHECK(state != initial);
  }
  CHECK(BytesOf(arena.get(), spec.state_bytes, stream) == state);
}

TEST_CASE("a step from one arena into another is a pure function, and a copy of its bytes is a snapshot") {
  for (const auto& [lag, async] : {std::pair("0", "0"), std::pair("1", "0"), std::pair("1", "1")}) {
    CAPTURE(std::string(lag));
    CAPTURE(std::string(async));
    const Stage stage;
    const TestStream stream;
    ModelSpec spec = FiveShapes({{"status_lag", lag}, {"root_async", async}});
    for (size_t p = 0; p < spec.params.size(); ++p) spec.params[p].in_place = false;
    Model model(spec, stream);
    Model plain(FiveShapes({{"root_async", async}}), stream);
    const size_t bytes = StateBytes(spec);
    const DeviceBytes first(bytes);
    const DeviceBytes second(bytes);
    const DeviceBytes third(bytes);
    const auto step = [&](const DeviceBytes& in, const DeviceBytes& out) {
      Must(shampoo_optimizer_bind_state(model.optimizer, in.get(), out.get()));
      model.Step();
    };
    model.FillParams(1);
    plain.FillParams(1);
    // The first arena contains the state of a new optimizer.
    ModelSpec fresh = spec;
    fresh.state = first.get();
    fresh.state_bytes = bytes;
    { const Model initial(fresh, stream); }
    for (uint64_t t = 1; t <= 5; ++t) {
      CAPTURE(t);
      model.FillGradients(t);
      plain.FillGradients(t);
      const std::vector<char> before = BytesOf(first.get(), bytes, stream);
      step(first, second);
      const std::vector<char> out = BitsOf(model);
      const std::vector<char> made = BytesOf(second.get(), bytes, stream);
      step(first, third);  // again
      CHECK(BitsOf(model) == out);
      CHECK(BytesOf(third.get(), bytes, stream) == made);
      CHECK(BytesOf(first.get(), bytes, stream) == before);
      plain.Step();
      for (size_t p = 0; p < model.params(); ++p) {
        CHECK(model.OutValues(p) == plain.ParamValues(p));
        model.SetParam(p, model.OutValues(p));
      }
      for (const std::string& key : plain.Keys()) CHECK(model.State(key) == plain.State(key));
      // A caller that writes an arena announces it.
      Must(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr));
      MustCuda(cudaMemcpyAsync(first.get(), third.get(), bytes, cudaMemcpyDeviceToDevice, stream));
    }
    Must(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr));
    CHECK(model.State("group.0/step")[0] == 0);
  }
}

TEST_CASE("a rejected step leaves a separate state_out unchanged, and a skipped step writes it") {
  for (const char* choice : {"error", "skip_step", "skip_block"}) {
    for (const char* lag : {"0", "1"}) {
      CAPTURE(std::string(choice));
      CAPTURE(std::string(lag));
      const Stage stage;
      const TestStream stream;
      const ModelSpec spec = FiveShapes({{"on_nonfinite", choice}, {"status_lag", lag}});
      Model model(spec, stream);
      const size_t bytes = StateBytes(spec);
      const DeviceBytes first(bytes);
      const DeviceBytes second(bytes);
      ModelSpec fresh = spec;
      fresh.state = first.get();
      fresh.state_bytes = bytes;
      { const Model initial(fresh, stream); }
      MustCuda(cudaMemsetAsync(second.get(), 0x5a, bytes, stream));
      model.FillParams(1);
      model.FillGradients(1);
      std::vector<double> bad = Sequence(3, model.elements(3));
      bad[7] = NAN;
      model.SetGradient(3, bad);
      Must(shampoo_optimizer_bind_state(model.optimizer, first.get(), second.get()));
      const bool rejected = std::string(choice) == "error";
      shampoo_status status = model.TryStep();
      if (lag == std::string("1")) status = shampoo_optimizer_status(model.optimizer, 1, nullptr);
      CHECK(status == (rejected ? SHAMPOO_E_NUMERIC : SHAMPOO_OK));
      const std::vector<char> in = BytesOf(first.get(), bytes, stream);
      const std::vector<char> out = BytesOf(second.get(), bytes, stream);
      if (rejected) CHECK(out == std::vector<char>(bytes, '\x5a'));
      if (choice == std::string("skip_step")) CHECK(out == in);
      if (choice == std::string("skip_block")) CHECK(out != in);
      // Continue from that state.
      model.FillGradients(2);
      const DeviceBytes& from = rejected ? first : second;
      Must(shampoo_optimizer_bind_state(model.optimizer, from.get(), from.get()));
      model.Step();
      CHECK(model.State("group.0/step")[0] == (choice == std::string("skip_block") ? 2 : 1));
    }
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

TEST_CASE("entries are read and written, whole and in part, to and from the host and the device") {
  const Stage stage;
  const TestStream stream;
  // Includes entries of 128 x 128 or more, which are stored as one triangle.
  ModelSpec spec = FiveShapes({{"factor_dtype", "bf16"}, {"filtered_grad_dtype", "f16"}});
  spec.params.push_back({{130, 2}});
  Model first(spec, stream);
  Model second(spec, stream);
  first.FillParams(1);
  for (uint64_t t = 1; t <= 3; ++t) {
    first.FillGradients(t);
    first.Step();  // entries are read while this step is running
  }
  for (const Entry& entry : EntriesOf(first)) {
    CAPTURE(std::string(entry.info.key));
    const size_t bytes = static_cast<size_t>(entry.elements) * entry.size;
    const DeviceBytes on_device(bytes);
    Must(shampoo_state_read(first.optimizer, entry.index, 0, entry.elements, on_device.get(), bytes, SHAMPOO_CUDA,
                            stream));
    const std::vector<char> whole = BytesOf(on_device.get(), bytes, stream);
    std::vector<char> on_host(bytes);
    Must(shampoo_state_read(first.optimizer, entry.index, 0, entry.elements, on_host.data(), bytes, SHAMPOO_CPU,
                            stream));
    CHECK(on_host == whole);
    // The second half from the device, the first from the host.
    const int64_t half = entry.elements / 2;
    const size_t cut = static_cast<size_t>(half) * entry.size;
    std::vector<char> part(bytes - cut);
    Must(shampoo_state_read(first.optimizer, entry.index, half, entry.elements - half, part.data(), part.size(),
                            SHAMPOO_CPU, stream));
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(cut)));
    Must(shampoo_state_write(second.optimizer, entry.index, half, entry.elements - half,
                             static_cast<char*>(on_device.get()) + cut, bytes - cut, SHAMPOO_CUDA, stream));
    Must(shampoo_state_write(second.optimizer, entry.index, 0, half, on_host.data(), cut, SHAMPOO_CPU, stream));
    CHECK(shampoo_state_read(first.optimizer, entry.index, 0, entry.elements + 1, part.data(), bytes + 8, SHAMPOO_CPU,
                             stream) == SHAMPOO_E_INVALID);
    CHECK(shampoo_state_read(first.optimizer, entry.index, 0, entry.elements, on_device.get(), bytes, 3, stream) ==
          SHAMPOO_E_UNSUPPORTED);
  }
  for (size_t p = 0; p < first.params(); ++p) second.SetParam(p, first.ParamValues(p));
  CHECK(BitsOf(second) == BitsOf(first));
  for (uint64_t t = 4; t <= 6; ++t) {
    for (Model* one : {&first, &second}) {
      one->FillGradients(t);
      one->Step();
    }
  }
  CHECK(BitsOf(second) == BitsOf(first));
}

TEST_CASE("a state that other code has written is rejected once, and then accepted") {
  const Stage stage;
  const TestStream stream;
  const ModelSpec spec = FiveShapes();
  Model model(spec, stream);
  const size_t bytes = StateBytes(spec);
  const DeviceBytes arena(bytes);
  const DeviceBytes snapshot(bytes);
  ModelSpec fresh = spec;
  fresh.state = arena.get();
  fresh.state_bytes = bytes;
  { const Model initial(fresh, stream); }
  MustCuda(cudaMemcpyAsync(snapshot.get(), arena.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  model.FillParams(1);
  model.FillGradients(1);
  Must(shampoo_optimizer_bind_state(model.optimizer, arena.get(), arena.get()));
  for (int t = 1; t <= 3; ++t) model.Step();
  MustCuda(cudaMemcpyAsync(arena.get(), snapshot.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  model.Step();
  const auto params = model.ParamValues(3);
  CHECK(model.TryStep() == SHAMPOO_E_STATE);
  const std::string text = shampoo_last_error();
  CHECK_MESSAGE(text.find("\"group.0/step\" is 0, but the previous step left 3") != std::string::npos, text);
  CHECK(model.ParamValues(3) == params);
  model.Step();
  CHECK(model.State("group.0/step")[0] == 1);
}

}  // namespace
}  // namespace shampoo_test
