// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the code that SWIG makes asks for, and what the sources of this folder share. Functions that return bool give
// false where a Java exception is pending; nothing of JNI but the end of references may be called then.
#ifndef SHAMPOO_JAVA_NATIVE_H
#define SHAMPOO_JAVA_NATIVE_H

#include <jni.h>
#include <shampoo/shampoo.h>

#include <string>
#include <vector>

// Classes and methods of Java, found once, when the library is loaded. The classes are held, so that methods stay
// valid.
struct ShampooJavaIds {
  JavaVM* vm;
  jclass exception;
  jmethodID exception_of;
  jclass log;
  jmethodID log_deliver;
  jclass comm;
  jmethodID comm_rank;
  jmethodID comm_world;
  jmethodID comm_has_all_to_all;
  jmethodID comm_all_gather;
  jmethodID comm_all_to_all;
  jmethodID comm_async_error;
  jmethodID comm_abort;
  jmethodID comm_release;
};
const ShampooJavaIds& ShampooJavaFound();

// The thread's JNI, attached while this lives if it is no thread of Java's; with a frame of local references.
class ShampooJavaEnv {
 public:
  ShampooJavaEnv();
  ~ShampooJavaEnv();
  ShampooJavaEnv(const ShampooJavaEnv&) = delete;
  ShampooJavaEnv& operator=(const ShampooJavaEnv&) = delete;

  // nullptr: there is no Java any more, or no memory.
  JNIEnv* Get() const { return env_; }

 private:
  JNIEnv* env_ = nullptr;
  bool attached_ = false;
  jobject cause_ = nullptr;  // what a callback calls of the library must not take the cause of a failure on its way
};

// Makes an exception pending where status is a failure; step: the number of the step that was refused, or -1.
void ShampooJavaCheck(JNIEnv* env, shampoo_status status, int64_t step);
// Takes a pending exception of a callback, for the failure of the call that it was made by.
void ShampooJavaKeepCause(JNIEnv* env);

void ShampooJavaSet(JNIEnv* env, jintArray array, jint value);
void ShampooJavaSet(JNIEnv* env, jlongArray array, jlong value);
void ShampooJavaSet(JNIEnv* env, jdoubleArray array, jdouble value);
bool ShampooJavaShape(JNIEnv* env, jlongArray array, int64_t numbers[8]);
jlongArray ShampooJavaLongs(JNIEnv* env, const int64_t* numbers, int count);
jbyteArray ShampooJavaBytes(JNIEnv* env, const char* text);

// Bytes that end with a zero, or null.
class ShampooJavaText {
 public:
  bool Read(JNIEnv* env, jbyteArray bytes);
  const char* Get() const { return null_ ? nullptr : text_.c_str(); }

 private:
  std::string text_;
  bool null_ = true;
};

// Four addresses for each parameter.
class ShampooJavaBuffers {
 public:
  bool Read(JNIEnv* env, jlongArray addresses);
  const shampoo_buffers* Get() const { return buffers_.data(); }
  int32_t Count() const { return static_cast<int32_t>(buffers_.size()); }

 private:
  std::vector<shampoo_buffers> buffers_;
};

// Handles of optimizers.
class ShampooJavaHandles {
 public:
  bool Read(JNIEnv* env, jlongArray handles);
  shampoo_optimizer* const* Get() const { return handles_.data(); }
  int32_t Count() const { return static_cast<int32_t>(handles_.size()); }

 private:
  std::vector<shampoo_optimizer*> handles_;
};

// Fills ops, which hold the CommCalls until release.
bool ShampooJavaCommOps(JNIEnv* env, jobject calls, shampoo_comm_ops* ops);

// Another receiver of messages, which is taken back where it is not kept.
class ShampooJavaLog {
 public:
  ShampooJavaLog() = default;
  ~ShampooJavaLog();
  ShampooJavaLog(const ShampooJavaLog&) = delete;
  ShampooJavaLog& operator=(const ShampooJavaLog&) = delete;

  shampoo_log_callback Replace(JNIEnv* env, jobject callback);
  void Keep() { keep_ = true; }

 private:
  JNIEnv* env_ = nullptr;
  jobject other_ = nullptr;  // the one that is not in use: the earlier, or after a failure the new one
  bool keep_ = false;
};

#endif
