// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/checkpoint/file.h"

namespace shampoo {

// The characters of an index file, or of a JSON text in memory, as an input range. The file is read in pieces, so the
// range can be iterated only once.
class IndexText {
 public:
  IndexText(const File& file, int64_t bytes) : file_(&file), left_(bytes) {}
  explicit IndexText(std::string_view text) : rest_(text) {}
  IndexText(const IndexText&) = delete;
  IndexText& operator=(const IndexText&) = delete;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;

    explicit Iterator(IndexText* text) : text_(text) {}
    char operator*() const { return text_->rest_.front(); }
    Iterator& operator++() {
      text_->rest_.remove_prefix(1);
      return *this;
    }
    // The argument must be end().
    bool operator!=(const Iterator&) const { return text_->HasMore(); }

   private:
    IndexText* text_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(this); }

  // Returns success, or the read error that has ended the iteration early.
  const Status& status() const { return status_; }

 private:
  bool HasMore() { return !rest_.empty() || ReadPiece(); }
  bool ReadPiece();

  const File* file_ = nullptr;
  int64_t at_ = 0;
  int64_t left_ = 0;
  std::string piece_;
  std::string_view rest_;  // the unread characters of piece_ or of the text in memory
  Status status_;
};

}  // namespace shampoo
