// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "capi/src/guard.h"
#include "capi/src/struct_size.h"
#include "core/backend/cuda/loader.h"
#include "core/base/amount.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/thread_text.h"
#include "core/blas/blas.h"

namespace shampoo {
namespace {

// A constant message if there was no memory to store the message of this thread's last error, otherwise nullptr. The
// TLS model is initial-exec: with other models, the first use of the variable on a thread may have to allocate memory.
[[gnu::tls_model("initial-exec")]] thread_local const char* fixed_error = nullptr;

std::string MakeBuildInfo() {
  const blas::Identity blas = blas::Identify();
  return Cat(
      "{\"version\": \"", SHAMPOO_VERSION_MAJOR, ".", SHAMPOO_VERSION_MINOR, ".", SHAMPOO_VERSION_PATCH,
      "\", \"compiler\": \"", __VERSION__, "\", \"blas\": {\"library\": \"", blas.library, "\", \"kernel\": \"",
      blas.kernel, "\", \"private\": ", blas.is_private,
      "}, \"backends\": [\"cpu\", \"cuda\"], \"root_methods\": [\"eigen\", \"newton\", \"higher_order\", \"cans\"]}");
}

}  // namespace

shampoo_status ReportFailure(Code code, std::string_view message) noexcept {
  const bool is_stored = ThreadText::Set(message) != nullptr;
  fixed_error = is_stored ? nullptr : "out of host memory: no memory was left to store the message of this error";
  return static_cast<shampoo_status>(code);
}

}  // namespace shampoo

using shampoo::Guard;
using shampoo::Status;

int32_t shampoo_version(void) {
  return SHAMPOO_VERSION_MAJOR * 10000 + SHAMPOO_VERSION_MINOR * 100 + SHAMPOO_VERSION_PATCH;
}

const char* shampoo_build_info(void) {
  static const std::string* const info = []() -> const std::string* {
    try {
      return new std::string(shampoo::MakeBuildInfo());
    } catch (...) {
      return nullptr;
    }
  }();
  return info == nullptr ? "{}" : info->c_str();
}

const char* shampoo_status_name(shampoo_status status) { return shampoo::CodeName(static_cast<shampoo::Code>(status)); }

const char* shampoo_last_error(void) {
  return shampoo::fixed_error != nullptr ? shampoo::fixed_error : shampoo::ThreadText::Get();
}

shampoo_status shampoo_set_log(shampoo_log_callback callback, void* user, int32_t max_level) {
  return Guard([&]() -> Status {
    if (max_level < 0 || max_level > 3) {
      return shampoo::Invalid("max_level is ", max_level, ": expected 0 (errors) to 3 (debug)");
    }
    shampoo::SetLog(callback, user, static_cast<shampoo::LogLevel>(max_level));
    return {};
  });
}

shampoo_status shampoo_backend_load(const char* name_or_path) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(shampoo::RequireArgument(name_or_path, "name_or_path"));
    if (*name_or_path == '\0') return shampoo::Invalid("name_or_path is empty: expected \"cuda\", or a path");
    return shampoo::cuda::LoadPlugin(name_or_path);
  });
}

int32_t shampoo_backend_count(void) { return 2; }

shampoo_status shampoo_backend_describe(int32_t index, shampoo_backend_info* info) {
  return Guard([&]() -> Status {
    if (index < 0 || index >= shampoo_backend_count()) {
      return shampoo::Invalid("index is ", index, ": expected ", shampoo::IndicesText(shampoo_backend_count()));
    }
    shampoo_backend_info own = {sizeof(shampoo_backend_info), "cpu", "", 1, 1};
    SHAMPOO_RETURN_IF_ERROR(shampoo::CheckWritable(info, sizeof own, "info"));
    if (index == 1) {
      const shampoo::cuda::Devices devices = shampoo::cuda::FindDevices();
      own.name = "cuda";
      own.unavailable_reason = devices.unavailable_reason;
      own.usable = *devices.unavailable_reason == '\0' ? 1 : 0;
      own.device_count = devices.count;
    }
    return shampoo::WriteStruct(own, sizeof own, "info", info);
  });
}
