// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/base/text.h"

namespace shampoo {

// The constants of shampoo_status in the public header have the same values.
enum class Code : int {
  kOk = 0,
  kInvalid = 1,
  kState = 2,
  kUnsupported = 3,
  kNoMemory = 4,
  kNumeric = 5,
  kComm = 6,
  kDevice = 7,
  kIo = 8,
  kInternal = 9,
};

const char* CodeName(Code code);

// Success, or an error with a code and a message. A function that returns an error of an inner function may prepend
// context to the message: "outer: inner: cause".
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : failure_(new Failure{code, std::move(message)}) {}
  // Returns an out-of-memory error. Allocates nothing.
  static Status OutOfMemory() noexcept { return Status(&out_of_memory); }

  bool ok() const { return failure_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : failure_->code; }
  const std::string& message() const;  // "" if ok()

  Status Copy() const {
    if (ok()) return Status();
    return failure_.get() == &out_of_memory ? OutOfMemory() : Status(code(), message());
  }
  // Returns the same error with "<context>: " prepended to its message, or success.
  Status Within(const std::string& context) && {
    return ok() ? Status() : Status(code(), Cat(context, ": ", message()));
  }

 private:
  struct Failure {
    Code code;
    std::string message;
  };
  struct Release {
    void operator()(Failure* failure) const {
      if (failure != &out_of_memory) delete failure;
    }
  };
  explicit Status(Failure* failure) noexcept : failure_(failure) {}

  static Failure out_of_memory;
  std::unique_ptr<Failure, Release> failure_;
};

template <typename... Pieces>
Status Invalid(const Pieces&... pieces) {
  return Status(Code::kInvalid, Cat(pieces...));
}
template <typename... Pieces>
Status WrongState(const Pieces&... pieces) {
  return Status(Code::kState, Cat(pieces...));
}
template <typename... Pieces>
Status Unsupported(const Pieces&... pieces) {
  return Status(Code::kUnsupported, Cat(pieces...));
}
template <typename... Pieces>
Status NoMemory(const Pieces&... pieces) {
  return Status(Code::kNoMemory, Cat(pieces...));
}
template <typename... Pieces>
Status Numeric(const Pieces&... pieces) {
  return Status(Code::kNumeric, Cat(pieces...));
}
template <typename... Pieces>
Status CommFailed(const Pieces&... pieces) {
  return Status(Code::kComm, Cat(pieces...));
}
template <typename... Pieces>
Status IoFailed(const Pieces&... pieces) {
  return Status(Code::kIo, Cat(pieces...));
}
template <typename... Pieces>
Status Internal(const Pieces&... pieces) {
  return Status(Code::kInternal, Cat(pieces...));
}

}  // namespace shampoo

// Evaluates an expression of type Status. If the status is an error, the function that contains the macro returns it.
#define SHAMPOO_RETURN_IF_ERROR(expression)                                      \
  do {                                                                           \
    if (::shampoo::Status status_of_call = (expression); !status_of_call.ok()) { \
      return status_of_call;                                                     \
    }                                                                            \
  } while (false)
