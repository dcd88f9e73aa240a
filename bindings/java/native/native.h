// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions for the code that SWIG generates, and declarations that the sources in this folder share. Functions that
// return bool return false if a Java exception is pending. While an exception is pending, JNI allows only calls that
// handle it or release memory and references.
#ifndef SHAMPOO_JAVA_NATIVE_H
#define SHAMPOO_JAVA_NATIVE_H

#include <jni.h>
#include <shampoo/shampoo.h>

#include <string>
#include <vector>

// Java classes and methods, looked up once when the library is loaded. Global references to the classes keep the method
// IDs valid.
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
  jmethodID comm_has_abort;
  jmethodID comm_all_gather;
  jmethodID comm_all_to_all;
  jmethodID comm_async_error;
  jmethodID comm_abort;
  jmethodID comm_release;
};
const ShampooJavaIds& GetShampooJavaIds();

// During a callback, provides the JNI environment of the current thread and a frame for local references. If Java does
// not know the thread, attaches the thread to the JVM until this object is destroyed. Sets aside the exception that
// ShampooJavaKeepCause() has stored on this thread, so that errors of library calls in the callback do not have this
// exception as their cause. The destructor restores the exception, unless the callback has stored a new one.
class ShampooJavaEnv {
 public:
  ShampooJavaEnv();
  ~ShampooJavaEnv();
  ShampooJavaEnv(const ShampooJavaEnv&) = delete;
  ShampooJavaEnv& operator=(const ShampooJavaEnv&) = delete;

  // Returns nullptr if the JVM has exited, or memory ran out.
  JNIEnv* Get() const { return env_; }

 private:
  JNIEnv* env_ = nullptr;
  bool attached_ = false;
  jobject cause_ = nullptr;  // the exception that was set aside
};

// Throws an exception if status is an error. step is the number of the step that failed, or -1 if it is not known.
void ShampooJavaCheck(JNIEnv* env, shampoo_status status, int64_t step);
// Stores the pending exception of a callback. If the library call that ran the callback fails, ShampooJavaCheck()
// throws an exception whose cause is the stored exception.
void ShampooJavaKeepCause(JNIEnv* env);

// Sets the first element of an output array. Does nothing if the array is null.
void ShampooJavaSet(JNIEnv* env, jintArray array, jint value);
void ShampooJavaSet(JNIEnv* env, jlongArray array, jlong value);
void ShampooJavaSet(JNIEnv* env, jdoubleArray array, jdouble value);
// Copies up to 8 elements of the array to `numbers`, and sets the other elements of `numbers` to 0.
bool ShampooJavaShape(JNIEnv* env, jlongArray array, int64_t numbers[8]);
jlongArray ShampooJavaLongs(JNIEnv* env, const int64_t* numbers, int count);
jbyteArray ShampooJavaBytes(JNIEnv* env, const char* text);

// A string that is read from a Java byte array. Get() returns nullptr if the array was null.
class ShampooJavaText {
 public:
  bool Read(JNIEnv* env, jbyteArray bytes);
  const char* Get() const { return null_ ? nullptr : text_.c_str(); }

 private:
  std::string text_;
  bool null_ = true;
};

// Buffers that are read from a Java array with four addresses for each parameter: param, grad, out and copy.
class ShampooJavaBuffers {
 public:
  bool Read(JNIEnv* env, jlongArray addresses);
  const shampoo_buffers* Get() const { return buffers_.data(); }
  int32_t Count() const { return static_cast<int32_t>(buffers_.size()); }

 private:
  std::vector<shampoo_buffers> buffers_;
};

// Pointers that are read from a Java array of addresses.
template <typename Pointer>
class ShampooJavaPointers {
 public:
  bool Read(JNIEnv* env, jlongArray numbers);
  Pointer const* Get() const { return pointers_.data(); }
  int32_t Count() const { return static_cast<int32_t>(pointers_.size()); }

 private:
  std::vector<Pointer> pointers_;
};
using ShampooJavaHandles = ShampooJavaPointers<shampoo_optimizer*>;
using ShampooJavaAddresses = ShampooJavaPointers<void*>;

// Fills ops with callbacks that run the methods of `calls`, an object of the Java class CommCalls. ops owns a reference
// to this object until ops->release runs.
bool ShampooJavaCommOps(JNIEnv* env, jobject calls, shampoo_comm_ops* ops);

// Replaces the receiver of log messages. Unless Keep() was called, the destructor restores the previous receiver. The
// destructor always releases the reference to the receiver that is no longer used.
class ShampooJavaLog {
 public:
  ShampooJavaLog() = default;
  ~ShampooJavaLog();
  ShampooJavaLog(const ShampooJavaLog&) = delete;
  ShampooJavaLog& operator=(const ShampooJavaLog&) = delete;

  // Returns the function for shampoo_set_log(), or nullptr if callback is null.
  shampoo_log_callback Replace(JNIEnv* env, jobject callback);
  void Keep() { keep_ = true; }

 private:
  JNIEnv* env_ = nullptr;
  jobject other_ = nullptr;  // the previous receiver
  bool keep_ = false;
};

#endif
