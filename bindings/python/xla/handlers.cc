// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The functions that XLA calls: one handler that initializes an arena and one that makes a step, each for the CPU and
// for CUDA. They are of the version of XLA's foreign function interface whose headers they are compiled with. jaxlibs
// with that version or a later one can call them.
#include <cfenv>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimizers.h"
#include "xla/ffi/api/ffi.h"

#define SHAMPOO_XLA_EXPORT extern "C" __attribute__((visibility("default")))

namespace shampoo_xla {
namespace {

namespace ffi = xla::ffi;
using ffi::AnyBuffer;

constexpr size_t kArenaAlignment = 64;

// XLA's threads flush subnormal numbers to zero; those of the library do not, nor does a program in C. A step is to
// have the same bits wherever it runs.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&saved_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t saved_;
};

ffi::ErrorCode CodeOf(shampoo_status status) {
  switch (status) {
    case SHAMPOO_E_INVALID:
      return ffi::ErrorCode::kInvalidArgument;
    case SHAMPOO_E_STATE:
      return ffi::ErrorCode::kFailedPrecondition;
    case SHAMPOO_E_UNSUPPORTED:
      return ffi::ErrorCode::kUnimplemented;
    case SHAMPOO_E_NOMEM:
      return ffi::ErrorCode::kResourceExhausted;
    case SHAMPOO_E_NUMERIC:
      return ffi::ErrorCode::kOutOfRange;
    default:
      return ffi::ErrorCode::kInternal;
  }
}

// XLA frees what was donated to a call that fails, whatever the library says of it.
constexpr const char* kOfDonation =
    ". Arrays that were donated to this call are lost all the same, as with any error of JAX";

// note: behind what the library says.
template <typename Body>
ffi::Error Guard(const char* note, Body body) {
  try {
    const DefaultArithmetic arithmetic;
    body();
    return ffi::Error::Success();
  } catch (const Failure& failure) {
    return {CodeOf(failure.status), "libshampoo: " + failure.text + note};
  } catch (const std::bad_alloc&) {
    return {ffi::ErrorCode::kResourceExhausted, "libshampoo: memory ran out"};
  } catch (const std::exception& error) {
    return {ffi::ErrorCode::kInternal, std::string("libshampoo: ") + error.what()};
  }
}

// XLA may give no address to an array without elements, and the library asks for one.
void* AddressOf(const AnyBuffer& buffer) {
  alignas(64) static char nothing[64];
  return buffer.untyped_data() != nullptr ? buffer.untyped_data() : nothing;
}

AnyBuffer Argument(const ffi::RemainingArgs& args, size_t index) {
  const auto found = args.get<AnyBuffer>(index);
  if (!found.has_value()) throw Failure{SHAMPOO_E_INTERNAL, found.error().message()};
  return *found;
}

AnyBuffer Result(const ffi::RemainingRets& rets, size_t index) {
  auto found = rets.get<AnyBuffer>(index);
  if (!found.has_value()) throw Failure{SHAMPOO_E_INTERNAL, found.error().message()};
  return **found;
}

void Initialise(std::string_view plan, const Place& place, const AnyBuffer& arena) {
  Make(plan, place, arena.untyped_data(), arena.size_bytes());
}

// Operands: learning rate, arena, parameters, and gradients of those whose character in given is '1'. Results: arena,
// updates. The slot is locked, and its optimizer is there.
void StepOn(const ffi::RemainingArgs& args, const ffi::RemainingRets& rets, std::string_view given, void* stream,
            Slot* slot) {
  shampoo_optimizer* const optimizer = slot->optimizer.get();
  const AnyBuffer learning_rate = Argument(args, 0);
  // Nothing is known of an arena, not even of the one that the last step has written: at its address can be another.
  Check(shampoo_optimizer_bind_state(optimizer, nullptr, nullptr));
  Check(shampoo_optimizer_bind_state(optimizer, Argument(args, 1).untyped_data(), Result(rets, 0).untyped_data()));
  const bool wide = learning_rate.element_type() == ffi::DataType::F64;
  Check(shampoo_optimizer_bind_scalar(optimizer, 0, "lr", wide ? SHAMPOO_F64 : SHAMPOO_F32,
                                      learning_rate.untyped_data()));
  constexpr shampoo_buffers kNothing = SHAMPOO_BUFFERS_INIT;
  slot->buffers.assign(given.size(), kNothing);
  size_t next_gradient = 2 + given.size();
  for (size_t p = 0; p < given.size(); ++p) {
    shampoo_buffers& buffers = slot->buffers[p];
    buffers.param = AddressOf(Argument(args, 2 + p));
    buffers.grad = given[p] == '1' ? AddressOf(Argument(args, next_gradient++)) : nullptr;
    buffers.out = AddressOf(Result(rets, 1 + p));
  }
  Check(shampoo_optimizer_bind(optimizer, 0, static_cast<int32_t>(given.size()), slot->buffers.data()));
  Check(shampoo_optimizer_step(optimizer, stream));
}

struct FreeAligned {
  void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{kArenaAlignment}); }
};

ffi::Error InitOnCpu(ffi::Result<AnyBuffer> arena, std::string_view plan) {
  return Guard("", [&] {
    // Between the entries nothing is written, and equal states are to have equal bytes.
    std::memset(arena->untyped_data(), 0, arena->size_bytes());
    Initialise(plan, {}, *arena);
  });
}

ffi::Error StepOnCpu(ffi::RemainingArgs args, ffi::RemainingRets rets, std::string_view plan, std::string_view given) {
  return Guard(kOfDonation, [&] {
    const std::shared_ptr<Slot> slot = Find(plan, {});
    const std::lock_guard lock(slot->mutex);
    // What an optimizer initialises when it is made; then it works on the arenas of XLA.
    std::unique_ptr<void, FreeAligned> unused;
    if (slot->optimizer == nullptr) {
      const size_t bytes = Result(rets, 0).size_bytes();
      unused.reset(::operator new (bytes, std::align_val_t{kArenaAlignment}));
      slot->optimizer = Make(plan, {}, unused.get(), bytes);
    }
    StepOn(args, rets, given, nullptr, slot.get());
  });
}

ffi::Error InitOnCuda(void* stream, int32_t device, ffi::Result<AnyBuffer> arena, std::string_view plan) {
  return Guard("", [&] { Initialise(plan, {SHAMPOO_CUDA, device, stream}, *arena); });
}

ffi::Error StepOnCuda(void* stream, int32_t device, ffi::ScratchAllocator scratch, ffi::RemainingArgs args,
                      ffi::RemainingRets rets, std::string_view plan, std::string_view given) {
  return Guard(kOfDonation, [&] {
    const Place place{SHAMPOO_CUDA, device, stream};
    const std::shared_ptr<Slot> slot = Find(plan, place);
    const std::lock_guard lock(slot->mutex);
    if (slot->optimizer == nullptr) {
      const size_t bytes = Result(rets, 0).size_bytes();
      const std::optional<void*> unused = scratch.Allocate(bytes, kArenaAlignment);
      if (!unused.has_value()) throw std::bad_alloc();
      slot->optimizer = Make(plan, place, *unused, bytes);
    }
    StepOn(args, rets, given, stream, slot.get());
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER(init_on_cpu, InitOnCpu, ffi::Ffi::Bind().Ret<AnyBuffer>().Attr<std::string_view>("plan"));
XLA_FFI_DEFINE_HANDLER(
    step_on_cpu, StepOnCpu,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("plan").Attr<std::string_view>("given"));
XLA_FFI_DEFINE_HANDLER(init_on_cuda, InitOnCuda,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::PlatformStream<void*>>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Ret<AnyBuffer>()
                           .Attr<std::string_view>("plan"));
XLA_FFI_DEFINE_HANDLER(step_on_cuda, StepOnCuda,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::PlatformStream<void*>>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Ctx<ffi::ScratchAllocator>()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<std::string_view>("plan")
                           .Attr<std::string_view>("given"));

}  // namespace shampoo_xla

SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaInitCpu(XLA_FFI_CallFrame* call) { return shampoo_xla::init_on_cpu(call); }
SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaStepCpu(XLA_FFI_CallFrame* call) { return shampoo_xla::step_on_cpu(call); }
SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaInitCuda(XLA_FFI_CallFrame* call) {
  return shampoo_xla::init_on_cuda(call);
}
SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaStepCuda(XLA_FFI_CallFrame* call) {
  return shampoo_xla::step_on_cuda(call);
}

// The version of the interface that this was compiled for, major * 1000 + minor.
SHAMPOO_XLA_EXPORT int32_t ShampooXlaApiVersion() { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }

SHAMPOO_XLA_EXPORT void ShampooXlaHold(const char* plan) { shampoo_xla::Hold(plan); }
SHAMPOO_XLA_EXPORT void ShampooXlaLetGo(const char* plan) { shampoo_xla::LetGo(plan); }
