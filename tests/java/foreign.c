// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The native methods of Foreign.java, for tests of the jar. Some methods call the library on a thread that is not
// attached to the JVM. Other methods provide a communicator in C and memory of a CUDA device.
#include <dlfcn.h>
#include <jni.h>
#include <pthread.h>
#include <shampoo/shampoo.h>
#include <string.h>

static int32_t on_other_thread(void* (*function)(void*), void* argument) {
  pthread_t thread;
  void* status;
  if (pthread_create(&thread, NULL, function, argument) != 0) return -1;
  if (pthread_join(thread, &status) != 0) return -1;
  return (int32_t)(intptr_t)status;
}

// Makes a plan that logs a warning: use_nesterov has no effect without momentum.
static void* warn(void* unused) {
  shampoo_config* config;
  shampoo_plan* plan;
  shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  int32_t status = shampoo_config_create(&config);
  (void)unused;
  if (status == SHAMPOO_OK) status = shampoo_config_set_i64(config, "use_nesterov", 1);
  if (status == SHAMPOO_OK) status = shampoo_plan_create(&plan, config, &desc);
  if (status == SHAMPOO_OK) {
    status = shampoo_plan_finish(plan);
    shampoo_plan_destroy(plan);
  }
  shampoo_config_destroy(config);
  return (void*)(intptr_t)status;
}

static void* step(void* optimizer) { return (void*)(intptr_t)shampoo_optimizer_step(optimizer, NULL); }

JNIEXPORT jint JNICALL Java_io_github_libshampoo_Foreign_warn(JNIEnv* env, jclass type) {
  (void)env, (void)type;
  return on_other_thread(warn, NULL);
}

JNIEXPORT jint JNICALL Java_io_github_libshampoo_Foreign_step(JNIEnv* env, jclass type, jlong optimizer) {
  (void)env, (void)type;
  return on_other_thread(step, (void*)optimizer);
}

// A communicator for rank 0 of 2. all_gather() simulates rank 1: its segment is a copy of the segment of rank 0.
static int exchanges, releases;

static int32_t all_gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
  (void)user, (void)stream;
  if (send != recv) memcpy(recv, send, bytes);
  memcpy((char*)recv + bytes, send, bytes);
  ++exchanges;
  return 0;
}

static void release(void* user) {
  (void)user;
  ++releases;
}

JNIEXPORT jlong JNICALL Java_io_github_libshampoo_Foreign_ops(JNIEnv* env, jclass type) {
  static shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  (void)env, (void)type;
  ops.world = 2;
  ops.all_gather = all_gather;
  ops.release = release;
  return (jlong)&ops;
}

JNIEXPORT jint JNICALL Java_io_github_libshampoo_Foreign_exchanges(JNIEnv* env, jclass type) {
  (void)env, (void)type;
  return exchanges;
}

JNIEXPORT jint JNICALL Java_io_github_libshampoo_Foreign_releases(JNIEnv* env, jclass type) {
  (void)env, (void)type;
  return releases;
}

// Pointers to functions of the CUDA runtime. openCuda sets them.
static int (*cuda_malloc)(void** address, size_t bytes);
static int (*cuda_memcpy)(void* to, const void* from, size_t bytes, int kind);
static int (*cuda_device_synchronize)(void);
enum { kHostToDevice = 1, kDeviceToHost = 2 };

JNIEXPORT jboolean JNICALL Java_io_github_libshampoo_Foreign_openCuda(JNIEnv* env, jclass type, jstring path) {
  const char* const name = (*env)->GetStringUTFChars(env, path, NULL);
  void* const library = name == NULL ? NULL : dlopen(name, RTLD_NOW);
  (void)type;
  if (name != NULL) (*env)->ReleaseStringUTFChars(env, path, name);
  if (library == NULL) return JNI_FALSE;
  *(void**)&cuda_malloc = dlsym(library, "cudaMalloc");
  *(void**)&cuda_memcpy = dlsym(library, "cudaMemcpy");
  *(void**)&cuda_device_synchronize = dlsym(library, "cudaDeviceSynchronize");
  return cuda_malloc != NULL && cuda_memcpy != NULL && cuda_device_synchronize != NULL;
}

JNIEXPORT jlong JNICALL Java_io_github_libshampoo_Foreign_putOnDevice(JNIEnv* env, jclass type, jfloatArray values) {
  const size_t bytes = (size_t)(*env)->GetArrayLength(env, values) * sizeof(float);
  float* const from = (*env)->GetFloatArrayElements(env, values, NULL);
  void* to = NULL;
  (void)type;
  if (from == NULL || cuda_malloc(&to, bytes) != 0 || cuda_memcpy(to, from, bytes, kHostToDevice) != 0) to = NULL;
  if (from != NULL) (*env)->ReleaseFloatArrayElements(env, values, from, JNI_ABORT);
  return (jlong)to;
}

JNIEXPORT jboolean JNICALL Java_io_github_libshampoo_Foreign_getFromDevice(JNIEnv* env, jclass type, jlong address,
                                                                           jfloatArray values) {
  const size_t bytes = (size_t)(*env)->GetArrayLength(env, values) * sizeof(float);
  float* const to = (*env)->GetFloatArrayElements(env, values, NULL);
  int error = to == NULL || cuda_device_synchronize() != 0;
  (void)type;
  if (!error) error = cuda_memcpy(to, (const void*)address, bytes, kDeviceToHost);
  if (to != NULL) (*env)->ReleaseFloatArrayElements(env, values, to, 0);
  return error == 0;
}
