// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Java exceptions for errors of the library, the JNI environment of callbacks, and functions of the class Library.
#include <utility>

#include "native.h"

namespace {

ShampooJavaIds ids = {};

// Global reference to the exception that a callback threw on this thread. The callback ran inside a library call, and
// the reference is kept until that call returns.
thread_local jobject cause = nullptr;

jclass FindClass(JNIEnv* env, const char* name) {
  const jclass found = env->FindClass(name);
  return found != nullptr ? static_cast<jclass>(env->NewGlobalRef(found)) : nullptr;
}

// Each lookup runs only if the previous one succeeded, because a failed lookup leaves a pending exception.
bool FindIds(JNIEnv* env) {
  return (ids.exception = FindClass(env, "io/github/libshampoo/ShampooException")) != nullptr &&
         (ids.exception_of = env->GetStaticMethodID(
              ids.exception, "of", "(I[BLjava/lang/Throwable;J)Lio/github/libshampoo/ShampooException;")) != nullptr &&
         (ids.log = FindClass(env, "io/github/libshampoo/LogCalls")) != nullptr &&
         (ids.log_deliver = env->GetStaticMethodID(ids.log, "deliver", "(Lio/github/libshampoo/LogCallback;I[B)V")) !=
             nullptr &&
         (ids.comm = FindClass(env, "io/github/libshampoo/CommCalls")) != nullptr &&
         (ids.comm_rank = env->GetMethodID(ids.comm, "rank", "()I")) != nullptr &&
         (ids.comm_world = env->GetMethodID(ids.comm, "world", "()I")) != nullptr &&
         (ids.comm_has_all_to_all = env->GetMethodID(ids.comm, "hasAllToAll", "()Z")) != nullptr &&
         (ids.comm_has_abort = env->GetMethodID(ids.comm, "hasAbort", "()Z")) != nullptr &&
         (ids.comm_all_gather =
              env->GetMethodID(ids.comm, "allGather", "(Ljava/nio/ByteBuffer;Ljava/nio/ByteBuffer;)V")) != nullptr &&
         (ids.comm_all_to_all =
              env->GetMethodID(ids.comm, "allToAll", "(Ljava/nio/ByteBuffer;[JLjava/nio/ByteBuffer;[J)V")) != nullptr &&
         (ids.comm_async_error = env->GetMethodID(ids.comm, "asyncError", "()V")) != nullptr &&
         (ids.comm_abort = env->GetMethodID(ids.comm, "abort", "()V")) != nullptr &&
         (ids.comm_release = env->GetMethodID(ids.comm, "release", "()V")) != nullptr;
}

}  // namespace

const ShampooJavaIds& GetShampooJavaIds() { return ids; }

ShampooJavaEnv::ShampooJavaEnv() {
  if (ids.vm->GetEnv(reinterpret_cast<void**>(&env_), JNI_VERSION_10) == JNI_EDETACHED) {
    // The thread becomes a daemon, because a thread that Java did not create must not prevent the JVM from exiting.
    attached_ = ids.vm->AttachCurrentThreadAsDaemon(reinterpret_cast<void**>(&env_), nullptr) == JNI_OK;
    if (!attached_) env_ = nullptr;
  }
  if (env_ != nullptr && env_->PushLocalFrame(16) != JNI_OK) {
    env_->ExceptionClear();
    if (attached_) ids.vm->DetachCurrentThread();
    env_ = nullptr;
  }
  cause_ = std::exchange(cause, nullptr);
}

ShampooJavaEnv::~ShampooJavaEnv() {
  if (env_ == nullptr) return;
  if (cause == nullptr) {
    cause = cause_;
  } else if (cause_ != nullptr) {
    env_->DeleteGlobalRef(cause_);
  }
  env_->PopLocalFrame(nullptr);
  if (attached_) ids.vm->DetachCurrentThread();
}

void ShampooJavaKeepCause(JNIEnv* env) {
  const jthrowable thrown = env->ExceptionOccurred();
  if (thrown == nullptr) return;
  env->ExceptionClear();
  if (cause != nullptr) env->DeleteGlobalRef(cause);
  cause = env->NewGlobalRef(thrown);
}

void ShampooJavaCheck(JNIEnv* env, shampoo_status status, int64_t step) {
  const jobject reason = std::exchange(cause, nullptr);
  if (status != SHAMPOO_OK) {
    // The message is copied before Java code runs, because it is valid only until this thread calls the library again.
    const jbyteArray text = ShampooJavaBytes(env, shampoo_last_error());
    if (text != nullptr) {
      const jobject exception = env->CallStaticObjectMethod(ids.exception, ids.exception_of, static_cast<jint>(status),
                                                            text, reason, static_cast<jlong>(step));
      if (env->ExceptionCheck() == JNI_FALSE) env->Throw(static_cast<jthrowable>(exception));
    }
  }
  if (reason != nullptr) env->DeleteGlobalRef(reason);
}

extern "C" {

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void* /*reserved*/) {
  JNIEnv* env = nullptr;
  ids.vm = vm;
  if (vm->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_10) != JNI_OK || !FindIds(env)) return JNI_ERR;
  return JNI_VERSION_10;
}

JNIEXPORT jint JNICALL Java_io_github_libshampoo_Library_headerVersion(JNIEnv* /*env*/, jclass /*type*/) {
  return SHAMPOO_VERSION_MAJOR * 10000 + SHAMPOO_VERSION_MINOR * 100 + SHAMPOO_VERSION_PATCH;
}

JNIEXPORT jint JNICALL Java_io_github_libshampoo_Library_libraryVersion(JNIEnv* /*env*/, jclass /*type*/) {
  return shampoo_version();
}

}  // extern "C"
