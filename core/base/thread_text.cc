// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/thread_text.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/utf8.h"

namespace shampoo {
namespace {

constexpr std::string_view kCutMark = " ... (cut off)";

struct TextKey {
  TextKey() : is_made(pthread_key_create(&key, std::free) == 0) {}
  pthread_key_t key{};
  bool is_made;
};

const TextKey& KeyOfTexts() {
  static const TextKey key;
  return key;
}

char* TextOfThread() {
  const TextKey& texts = KeyOfTexts();
  return texts.is_made ? static_cast<char*>(pthread_getspecific(texts.key)) : nullptr;
}

char* MakeTextOfThread() {
  const TextKey& texts = KeyOfTexts();
  auto* const made = texts.is_made ? static_cast<char*>(std::malloc(ThreadText::kBytes)) : nullptr;
  if (made == nullptr) return nullptr;
  if (pthread_setspecific(texts.key, made) == 0) return made;
  std::free(made);
  return nullptr;
}

}  // namespace

const char* ThreadText::Set(std::string_view text) noexcept {
  char* kept = TextOfThread();
  if (kept == nullptr) kept = MakeTextOfThread();
  if (kept == nullptr) return nullptr;
  const bool fits = text.size() < kBytes;
  const std::string_view shown = fits ? text : Utf8Prefix(text, kBytes - 1 - kCutMark.size());
  char* end = std::replace_copy(shown.begin(), shown.end(), kept, '\0', '?');
  if (!fits) end = std::copy(kCutMark.begin(), kCutMark.end(), end);
  *end = '\0';
  return kept;
}

const char* ThreadText::Get() noexcept {
  const char* const kept = TextOfThread();
  return kept != nullptr ? kept : "";
}

}  // namespace shampoo
