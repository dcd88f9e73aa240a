// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// C callbacks that call Java methods: the callbacks of a communicator, and the log callback.
#include <limits>
#include <mutex>
#include <utility>

#include "native.h"

namespace {

// Data for the callbacks of one communicator. shampoo_comm_ops.user points to this struct.
struct Calls {
  jobject object;  // global reference to a CommCalls
  size_t world;
};

const Calls& CallsOf(void* user) { return *static_cast<const Calls*>(user); }

// Returns a direct ByteBuffer for the `bytes` bytes at `data`. If they are too many for a ByteBuffer, returns null, and
// an exception is pending. If bytes is 0, data may be null; the buffer then points to `nothing`.
jobject NewBuffer(JNIEnv* env, const void* data, size_t bytes) {
  static char nothing;
  if (bytes > static_cast<size_t>(std::numeric_limits<jint>::max())) {
    const jclass kind = env->FindClass("java/lang/IllegalArgumentException");
    const std::string text = "a buffer of an exchange has " + std::to_string(bytes) +
                             " bytes; expected at most 2147483647, the limit of a ByteBuffer. Set the key "
                             "comm_bucket_bytes to 1073741824 or less (not to 0), or use C functions (Comm.ofAddress)";
    if (kind != nullptr) env->ThrowNew(kind, text.c_str());
    return nullptr;
  }
  return env->NewDirectByteBuffer(const_cast<void*>(bytes > 0 ? data : &nothing), static_cast<jlong>(bytes));
}

// Returns the result of a callback: 0 on success, otherwise 1. After a failure, stores the pending exception as the
// cause of the error of the library call. `called` is false if an argument of the Java method could not be created. If
// the reason is that the JVM does not support direct buffers, no exception is pending.
int32_t Finish(JNIEnv* env, bool called) {
  if (called && env->ExceptionCheck() == JNI_FALSE) return 0;
  ShampooJavaKeepCause(env);
  return 1;
}

int32_t AllGather(void* user, const void* send, void* recv, size_t bytes_per_rank, void* /*stream*/) {
  const ShampooJavaEnv java;
  JNIEnv* const env = java.Get();
  if (env == nullptr) return 1;
  const jobject source = NewBuffer(env, send, bytes_per_rank);
  const jobject target = source != nullptr ? NewBuffer(env, recv, bytes_per_rank * CallsOf(user).world) : nullptr;
  if (target != nullptr) env->CallVoidMethod(CallsOf(user).object, GetShampooJavaIds().comm_all_gather, source, target);
  return Finish(env, target != nullptr);
}

jlongArray Counts(JNIEnv* env, const size_t* bytes, size_t world, size_t* sum) {
  std::vector<int64_t> counts;
  *sum = 0;
  for (size_t r = 0; r < world; ++r) {
    counts.push_back(static_cast<int64_t>(bytes[r]));
    *sum += bytes[r];
  }
  return ShampooJavaLongs(env, counts.data(), static_cast<int>(world));
}

int32_t AllToAll(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                 void* /*stream*/) {
  const ShampooJavaEnv java;
  JNIEnv* const env = java.Get();
  if (env == nullptr) return 1;
  const size_t world = CallsOf(user).world;
  size_t sent = 0, received = 0;
  const jlongArray send_counts = Counts(env, send_bytes, world, &sent);
  const jlongArray recv_counts = send_counts != nullptr ? Counts(env, recv_bytes, world, &received) : nullptr;
  const jobject source = recv_counts != nullptr ? NewBuffer(env, send, sent) : nullptr;
  const jobject target = source != nullptr ? NewBuffer(env, recv, received) : nullptr;
  if (target != nullptr) {
    env->CallVoidMethod(CallsOf(user).object, GetShampooJavaIds().comm_all_to_all, source, send_counts, target,
                        recv_counts);
  }
  return Finish(env, target != nullptr);
}

int32_t AsyncError(void* user) {
  const ShampooJavaEnv java;
  if (java.Get() == nullptr) return 1;
  java.Get()->CallVoidMethod(CallsOf(user).object, GetShampooJavaIds().comm_async_error);
  return Finish(java.Get(), true);
}

// Does not store an exception: if a collective has thrown an exception, that exception must remain the cause of the
// error. CommCalls catches and reports exceptions of Communicator.abort().
void Abort(void* user) {
  const ShampooJavaEnv java;
  if (java.Get() == nullptr) return;
  java.Get()->CallVoidMethod(CallsOf(user).object, GetShampooJavaIds().comm_abort);
  java.Get()->ExceptionClear();
}

void Release(void* user) {
  auto* const calls = static_cast<Calls*>(user);
  const ShampooJavaEnv java;
  if (java.Get() != nullptr) {
    java.Get()->CallVoidMethod(calls->object, GetShampooJavaIds().comm_release);
    java.Get()->ExceptionClear();
    java.Get()->DeleteGlobalRef(calls->object);
  }
  delete calls;
}

std::mutex log_mutex;
jobject log_callback = nullptr;  // a global reference

void Log(void* /*user*/, int32_t level, const char* message) {
  const ShampooJavaEnv java;
  JNIEnv* const env = java.Get();
  if (env == nullptr) return;
  jobject callback = nullptr;
  {
    const std::lock_guard<std::mutex> lock(log_mutex);
    if (log_callback != nullptr) callback = env->NewLocalRef(log_callback);
  }
  const jbyteArray text = callback != nullptr ? ShampooJavaBytes(env, message) : nullptr;
  if (text != nullptr) {
    env->CallStaticVoidMethod(GetShampooJavaIds().log, GetShampooJavaIds().log_deliver, callback,
                              static_cast<jint>(level), text);
  }
  env->ExceptionClear();
}

}  // namespace

bool ShampooJavaCommOps(JNIEnv* env, jobject calls, shampoo_comm_ops* ops) {
  const ShampooJavaIds& ids = GetShampooJavaIds();
  const shampoo_comm_ops initial = SHAMPOO_COMM_OPS_INIT;
  *ops = initial;
  ops->rank = env->CallIntMethod(calls, ids.comm_rank);
  if (env->ExceptionCheck() != JNI_FALSE) return false;
  ops->world = env->CallIntMethod(calls, ids.comm_world);
  if (env->ExceptionCheck() != JNI_FALSE) return false;
  const bool has_all_to_all = env->CallBooleanMethod(calls, ids.comm_has_all_to_all) != JNI_FALSE;
  if (env->ExceptionCheck() != JNI_FALSE) return false;
  const bool has_abort = env->CallBooleanMethod(calls, ids.comm_has_abort) != JNI_FALSE;
  if (env->ExceptionCheck() != JNI_FALSE) return false;
  const jobject held = env->NewGlobalRef(calls);
  if (held == nullptr) return false;
  ops->user = new Calls{held, static_cast<size_t>(ops->world > 0 ? ops->world : 0)};
  ops->all_gather = AllGather;
  ops->async_error = AsyncError;
  ops->release = Release;
  if (has_all_to_all) ops->all_to_all = AllToAll;
  if (has_abort) ops->abort = Abort;
  return true;
}

shampoo_log_callback ShampooJavaLog::Replace(JNIEnv* env, jobject callback) {
  env_ = env;
  jobject const held = callback != nullptr ? env->NewGlobalRef(callback) : nullptr;
  const std::lock_guard<std::mutex> lock(log_mutex);
  other_ = std::exchange(log_callback, held);
  return callback != nullptr ? Log : nullptr;
}

ShampooJavaLog::~ShampooJavaLog() {
  if (env_ == nullptr) return;
  if (!keep_) {
    const std::lock_guard<std::mutex> lock(log_mutex);
    std::swap(log_callback, other_);
  }
  if (other_ != nullptr) env_->DeleteGlobalRef(other_);
}
