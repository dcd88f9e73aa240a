// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Conversions between Java arrays and C++ values, and functions of the generated class RawJNI.
#include <cstring>

#include "native.h"

namespace {

// Copies the elements of the array to `numbers`. If the array is null, does not change `numbers`.
bool ReadLongs(JNIEnv* env, jlongArray array, std::vector<jlong>* numbers) {
  if (array == nullptr) return true;
  numbers->resize(static_cast<size_t>(env->GetArrayLength(array)));
  env->GetLongArrayRegion(array, 0, static_cast<jsize>(numbers->size()), numbers->data());
  return env->ExceptionCheck() == JNI_FALSE;
}

}  // namespace

void ShampooJavaSet(JNIEnv* env, jintArray array, jint value) {
  if (array != nullptr) env->SetIntArrayRegion(array, 0, 1, &value);
}
void ShampooJavaSet(JNIEnv* env, jlongArray array, jlong value) {
  if (array != nullptr) env->SetLongArrayRegion(array, 0, 1, &value);
}
void ShampooJavaSet(JNIEnv* env, jdoubleArray array, jdouble value) {
  if (array != nullptr) env->SetDoubleArrayRegion(array, 0, 1, &value);
}

bool ShampooJavaShape(JNIEnv* env, jlongArray array, int64_t numbers[8]) {
  std::vector<jlong> read;
  if (!ReadLongs(env, array, &read)) return false;
  for (size_t k = 0; k < 8; ++k) numbers[k] = k < read.size() ? read[k] : 0;
  return true;
}

jlongArray ShampooJavaLongs(JNIEnv* env, const int64_t* numbers, int count) {
  const jlongArray array = env->NewLongArray(count);
  if (array == nullptr) return nullptr;
  const std::vector<jlong> values(numbers, numbers + count);
  env->SetLongArrayRegion(array, 0, count, values.data());
  return array;
}

jbyteArray ShampooJavaBytes(JNIEnv* env, const char* text) {
  if (text == nullptr) return nullptr;
  const auto size = static_cast<jsize>(strlen(text));
  const jbyteArray array = env->NewByteArray(size);
  if (array != nullptr) env->SetByteArrayRegion(array, 0, size, reinterpret_cast<const jbyte*>(text));
  return array;
}

bool ShampooJavaText::Read(JNIEnv* env, jbyteArray bytes) {
  if (bytes == nullptr) return true;
  null_ = false;
  text_.resize(static_cast<size_t>(env->GetArrayLength(bytes)));
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(text_.size()), reinterpret_cast<jbyte*>(text_.data()));
  return env->ExceptionCheck() == JNI_FALSE;
}

bool ShampooJavaBuffers::Read(JNIEnv* env, jlongArray addresses) {
  std::vector<jlong> read;
  if (!ReadLongs(env, addresses, &read)) return false;
  const shampoo_buffers none = SHAMPOO_BUFFERS_INIT;
  buffers_.assign(read.size() / 4, none);
  for (size_t p = 0; p < buffers_.size(); ++p) {
    buffers_[p].param = reinterpret_cast<const void*>(read[4 * p]);
    buffers_[p].grad = reinterpret_cast<const void*>(read[4 * p + 1]);
    buffers_[p].out = reinterpret_cast<void*>(read[4 * p + 2]);
    buffers_[p].copy = reinterpret_cast<void*>(read[4 * p + 3]);
  }
  return true;
}

template <typename Pointer>
bool ShampooJavaPointers<Pointer>::Read(JNIEnv* env, jlongArray numbers) {
  std::vector<jlong> read;
  if (!ReadLongs(env, numbers, &read)) return false;
  for (const jlong number : read) pointers_.push_back(reinterpret_cast<Pointer>(number));
  return true;
}
template class ShampooJavaPointers<shampoo_optimizer*>;
template class ShampooJavaPointers<void*>;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_github_libshampoo_RawJNI_address(JNIEnv* env, jclass /*type*/, jobject buffer) {
  return reinterpret_cast<jlong>(env->GetDirectBufferAddress(buffer));
}

JNIEXPORT jlong JNICALL Java_io_github_libshampoo_RawJNI_commFromAddress(JNIEnv* env, jclass /*type*/, jlong ops) {
  shampoo_comm* comm = nullptr;
  ShampooJavaCheck(env, shampoo_comm_from_ops(&comm, reinterpret_cast<const shampoo_comm_ops*>(ops)), -1);
  return reinterpret_cast<jlong>(comm);
}

}  // extern "C"
