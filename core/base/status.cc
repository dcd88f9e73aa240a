// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/status.h"

namespace shampoo {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "SHAMPOO_OK";
    case Code::kInvalid:
      return "SHAMPOO_E_INVALID";
    case Code::kState:
      return "SHAMPOO_E_STATE";
    case Code::kUnsupported:
      return "SHAMPOO_E_UNSUPPORTED";
    case Code::kNoMemory:
      return "SHAMPOO_E_NOMEM";
    case Code::kNumeric:
      return "SHAMPOO_E_NUMERIC";
    case Code::kComm:
      return "SHAMPOO_E_COMM";
    case Code::kDevice:
      return "SHAMPOO_E_DEVICE";
    case Code::kIo:
      return "SHAMPOO_E_IO";
    case Code::kInternal:
      return "SHAMPOO_E_INTERNAL";
  }
  return "unknown status";
}

Status::Failure Status::out_of_memory{Code::kNoMemory, "out of host memory"};

const std::string& Status::message() const {
  static const std::string none;
  return ok() ? none : failure_->message;
}

}  // namespace shampoo
