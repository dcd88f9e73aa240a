// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/index_text.h"

#include <algorithm>

namespace shampoo {

bool IndexText::ReadPiece() {
  constexpr int64_t kPieceBytes = int64_t{1} << 18;
  if (left_ == 0 || !status_.ok()) return false;
  piece_.resize(static_cast<size_t>(std::min(left_, kPieceBytes)));
  status_ = file_->ReadAt(at_, piece_.data(), piece_.size());
  if (!status_.ok()) return false;
  at_ += static_cast<int64_t>(piece_.size());
  left_ -= static_cast<int64_t>(piece_.size());
  rest_ = piece_;
  return true;
}

}  // namespace shampoo
