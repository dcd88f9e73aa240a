// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The functions that XLA calls: a handler that initializes an arena and a handler that runs a step, each for the CPU
// and for CUDA, and a handler that exports averages on the CPU. The build uses the headers of one version of XLA's
// foreign function interface. A jaxlib can call the handlers if its interface has this version or a later minor
// version.
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

// Sets the default floating-point environment during a call, and restores the caller's environment afterwards. XLA's
// threads flush subnormal numbers to zero, but the library's threads do not. Results must not depend on the thread.
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

// Appended to an error message: XLA frees donated arrays if a call fails, even though the library has changed nothing.
constexpr const char* kDonationNote = ". Arrays that were donated to this call are lost, as with any error in JAX";

// Runs the body, and converts its exceptions to errors. note is appended to messages of the library.
template <typename Body>
ffi::Error Guard(const char* note, Body body) {
  try {
    const DefaultArithmetic arithmetic;
    body();
    return ffi::Error::Success();
  } catch (const Failure& failure) {
    return {CodeOf(failure.status), "libshampoo: " + failure.text + note};
  } catch (const std::bad_alloc&) {
    return {ffi::ErrorCode::kResourceExhausted, "libshampoo: out of memory"};
  } catch (const std::exception& error) {
    return {ffi::ErrorCode::kInternal, std::string("libshampoo: ") + error.what()};
  }
}

// Returns the address of a buffer. The address is never null: the library needs an address even for an empty array.
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

void Initialize(std::string_view plan, const DeviceDesc& device, const AnyBuffer& arena) {
  Make(plan, device, arena.untyped_data(), arena.size_bytes());
}

// Runs a step with slot->optimizer. The caller has locked slot->mutex. Operands: learning rate, arena, parameters, and
// a gradient for each parameter whose character in has_grad is '1'. Results: arena, updates.
void StepOn(const ffi::RemainingArgs& args, const ffi::RemainingRets& rets, std::string_view has_grad, void* stream,
            Slot* slot) {
  shampoo_optimizer* const optimizer = slot->optimizer.get();
  const AnyBuffer learning_rate = Argument(args, 0);
  // XLA may have placed another arena at the address of the arena that the last step wrote. If NULL is bound first,
  // the library expects new contents at this address.
  Check(shampoo_optimizer_bind_state(optimizer, nullptr, nullptr));
  Check(shampoo_optimizer_bind_state(optimizer, Argument(args, 1).untyped_data(), Result(rets, 0).untyped_data()));
  const bool wide = learning_rate.element_type() == ffi::DataType::F64;
  Check(shampoo_optimizer_bind_scalar(optimizer, 0, "lr", wide ? SHAMPOO_F64 : SHAMPOO_F32,
                                      learning_rate.untyped_data()));
  constexpr shampoo_buffers kNothing = SHAMPOO_BUFFERS_INIT;
  slot->buffers.assign(has_grad.size(), kNothing);
  size_t next_gradient = 2 + has_grad.size();
  for (size_t p = 0; p < has_grad.size(); ++p) {
    shampoo_buffers& buffers = slot->buffers[p];
    buffers.param = AddressOf(Argument(args, 2 + p));
    buffers.grad = has_grad[p] == '1' ? AddressOf(Argument(args, next_gradient++)) : nullptr;
    buffers.out = AddressOf(Result(rets, 1 + p));
  }
  Check(shampoo_optimizer_bind(optimizer, 0, static_cast<int32_t>(has_grad.size()), slot->buffers.data()));
  Check(shampoo_optimizer_step(optimizer, stream));
}

// Writes averages with slot->optimizer. The caller has locked slot->mutex. Operands: arena, parameters. Results:
// averages.
void ExportFrom(const ffi::RemainingArgs& args, const ffi::RemainingRets& rets, double blend, Slot* slot) {
  shampoo_optimizer* const optimizer = slot->optimizer.get();
  Check(shampoo_optimizer_bind_state(optimizer, nullptr, nullptr));
  void* const arena = Argument(args, 0).untyped_data();
  Check(shampoo_optimizer_bind_state(optimizer, arena, arena));
  constexpr shampoo_buffers kNothing = SHAMPOO_BUFFERS_INIT;
  slot->buffers.assign(rets.size(), kNothing);
  std::vector<void*> weights(rets.size());
  for (size_t p = 0; p < weights.size(); ++p) {
    slot->buffers[p].param = AddressOf(Argument(args, 1 + p));
    weights[p] = AddressOf(Result(rets, p));
  }
  const auto count = static_cast<int32_t>(weights.size());
  Check(shampoo_optimizer_bind(optimizer, 0, count, slot->buffers.data()));
  Check(shampoo_optimizer_export(optimizer, blend, count, weights.data()));
}

struct FreeAligned {
  void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{kArenaAlignment}); }
};

ffi::Error InitOnCpu(ffi::Result<AnyBuffer> arena, std::string_view plan) {
  return Guard("", [&] {
    // The library does not write the padding between entries, but equal states must have equal bytes.
    std::memset(arena->untyped_data(), 0, arena->size_bytes());
    Initialize(plan, {}, *arena);
  });
}

// Locks the slot of a plan on the CPU, creates the optimizer of the slot if there is none yet, and calls use(slot).
// bytes is the size of an arena.
template <typename Use>
void UseOnCpu(std::string_view plan, size_t bytes, Use&& use) {
  const std::shared_ptr<Slot> slot = Find(plan, {});
  const std::lock_guard lock(slot->mutex);
  // Creating an optimizer initializes an arena. This arena is unused afterwards, because each call binds XLA's arenas.
  std::unique_ptr<void, FreeAligned> unused;
  if (slot->optimizer == nullptr) {
    unused.reset(::operator new (bytes, std::align_val_t{kArenaAlignment}));
    slot->optimizer = Make(plan, {}, unused.get(), bytes);
  }
  use(slot.get());
}

ffi::Error StepOnCpu(ffi::RemainingArgs args, ffi::RemainingRets rets, std::string_view plan,
                     std::string_view has_grad) {
  return Guard(kDonationNote, [&] {
    UseOnCpu(plan, Result(rets, 0).size_bytes(), [&](Slot* slot) { StepOn(args, rets, has_grad, nullptr, slot); });
  });
}

ffi::Error ExportOnCpu(ffi::RemainingArgs args, ffi::RemainingRets rets, std::string_view plan, double blend) {
  return Guard("", [&] {
    UseOnCpu(plan, Argument(args, 0).size_bytes(), [&](Slot* slot) { ExportFrom(args, rets, blend, slot); });
  });
}

ffi::Error InitOnCuda(void* stream, int32_t device, ffi::Result<AnyBuffer> arena, std::string_view plan) {
  return Guard("", [&] { Initialize(plan, {SHAMPOO_CUDA, device, stream}, *arena); });
}

ffi::Error StepOnCuda(void* stream, int32_t device, ffi::ScratchAllocator scratch, ffi::RemainingArgs args,
                      ffi::RemainingRets rets, std::string_view plan, std::string_view has_grad) {
  return Guard(kDonationNote, [&] {
    const DeviceDesc device_desc{SHAMPOO_CUDA, device, stream};
    const std::shared_ptr<Slot> slot = Find(plan, device_desc);
    const std::lock_guard lock(slot->mutex);
    if (slot->optimizer == nullptr) {
      const size_t bytes = Result(rets, 0).size_bytes();
      const std::optional<void*> unused = scratch.Allocate(bytes, kArenaAlignment);
      if (!unused.has_value()) throw std::bad_alloc();
      slot->optimizer = Make(plan, device_desc, *unused, bytes);
    }
    StepOn(args, rets, has_grad, stream, slot.get());
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER(init_on_cpu, InitOnCpu, ffi::Ffi::Bind().Ret<AnyBuffer>().Attr<std::string_view>("plan"));
XLA_FFI_DEFINE_HANDLER(
    step_on_cpu, StepOnCpu,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("plan").Attr<std::string_view>("has_grad"));
XLA_FFI_DEFINE_HANDLER(
    export_on_cpu, ExportOnCpu,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("plan").Attr<double>("blend"));
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
                           .Attr<std::string_view>("has_grad"));

}  // namespace shampoo_xla

SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaInitCpu(XLA_FFI_CallFrame* call) { return shampoo_xla::init_on_cpu(call); }
SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaStepCpu(XLA_FFI_CallFrame* call) { return shampoo_xla::step_on_cpu(call); }
SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaExportCpu(XLA_FFI_CallFrame* call) {
  return shampoo_xla::export_on_cpu(call);
}
SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaInitCuda(XLA_FFI_CallFrame* call) {
  return shampoo_xla::init_on_cuda(call);
}
SHAMPOO_XLA_EXPORT XLA_FFI_Error* ShampooXlaStepCuda(XLA_FFI_CallFrame* call) {
  return shampoo_xla::step_on_cuda(call);
}

// Returns the version of the interface that the handlers were compiled for: major * 1000 + minor.
SHAMPOO_XLA_EXPORT int32_t ShampooXlaApiVersion() { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }

SHAMPOO_XLA_EXPORT void ShampooXlaRetain(const char* plan) { shampoo_xla::Retain(plan); }
SHAMPOO_XLA_EXPORT void ShampooXlaRelease(const char* plan) { shampoo_xla::Release(plan); }
