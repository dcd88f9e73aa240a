/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SHAMPOO_H
#define SHAMPOO_H

#include <stddef.h>
#include <stdint.h>

/**
 * @file
 * shampoo.h - the public C API of libshampoo.
 *
 * libshampoo computes the steps of Shampoo-family optimizers on raw buffers. It knows nothing of layers, automatic
 * differentiation or frameworks: the caller describes the parameters once, passes pointers to parameters and gradients,
 * and calls a function for each step.
 *
 * Sources: Distributed Shampoo, arXiv 2309.06497 (blocking, merging of dimensions, grafting, the operations of a step),
 * and Shampoo, arXiv 1802.09568 (factor matrices and their inverse roots).
 *
 * A complete program, which minimizes half the squared norm of a 4x3 matrix:
 *
 * @code{.c}
 * #include <shampoo/shampoo.h>
 * #include <stdio.h>
 *
 * int main(void) {
 *   float weight[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, gradient[12];
 *   shampoo_tensor tensor = SHAMPOO_TENSOR_INIT;
 *   shampoo_optimizer* optimizer;
 *   int i, step;
 *
 *   tensor.name = "weight", tensor.data = weight, tensor.grad = gradient;
 *   tensor.ndim = 2, tensor.shape[0] = 4, tensor.shape[1] = 3;
 *   if (shampoo_create(&optimizer, "lr=0.5", &tensor, 1) != SHAMPOO_OK) return puts(shampoo_last_error()), 1;
 *   for (step = 0; step < 200; ++step) {
 *     for (i = 0; i < 12; ++i) gradient[i] = weight[i];
 *     if (shampoo_optimizer_step(optimizer, NULL) != SHAMPOO_OK) return puts(shampoo_last_error()), 1;
 *   }
 *   printf("weight[11] is %g\n", weight[11]);
 *   shampoo_optimizer_destroy(optimizer);
 *   return 0;
 * }
 * @endcode
 *
 * The simple API is shampoo_create(). The full API has four stages:
 *
 * 1. A *config* holds hyper-parameters by name (learning rate, decays, grafting, ...). Every key has a default.
 * 2. A *plan* divides parameters of known shapes into blocks, assigns each block to a process or thread (its *owner*),
 *    and computes sizes in bytes. A plan uses neither a GPU nor buffers: you can make plans to compare settings.
 * 3. An *optimizer* is created from a finished plan, with all state, workspace and threads. The buffers of parameters
 *    and gradients are then bound to the optimizer.
 * 4. A *step* reads the bound buffers and the state, and writes the new parameters (or the updates) and the new state.
 *
 * The library runs on the CPU and on NVIDIA GPUs (CUDA). Several processes or threads (*ranks*) can share the work
 * through communicators of the caller. docs/ has guides, such as getting_started.md, many_ranks.md and cuda.md.
 *
 * ====================================================================================================================
 * Conventions for all functions, unless the comment of a function says otherwise
 * ====================================================================================================================
 *
 * Language. The header is C89 with <stdint.h>, and C++98. No signature has an enum, a bool, an unsigned integer other
 * than size_t, a variable argument list or a struct by value, so that every foreign-function interface can call the
 * functions. Platforms must be 64-bit. Dtypes, flags, ranks, and counts and indices of parameters, groups and keys are
 * int32_t. Counts and indices of elements, blocks and state entries are int64_t. A size in bytes is an int64_t if the
 * library returns it, otherwise a size_t.
 *
 * NULL. A pointer argument may be NULL only if its description says so. If any other argument is NULL, the call fails
 * with SHAMPOO_E_INVALID.
 *
 * Ownership.
 * - An object that a function returns through its first argument `T** out` is owned by the caller, who releases it with
 *   the destroy function of its type. On failure *out is unchanged.
 * - Destroy functions accept NULL, and wait until pending work of the object has finished.
 * - Returned strings and pointers are owned by the library, and are valid as long as the function's comment says.
 * - Strings that the caller passes are UTF-8, end with a zero byte, and are copied. Structs are copied, too. Only
 *   buffers that are *bound* (parameters, gradients, states, scalars), `user` pointers of callbacks and an ncclComm_t
 *   are kept as pointers. Bound buffers must live until others are bound in their place or the optimizer is destroyed.
 * - A config may be destroyed after the plan was made, and a plan after the optimizer was created.
 *
 * Structs. Every struct except shampoo_tensor begins with struct_size. Initialize each struct with the _INIT macro of
 * its type, which sets struct_size and gives all other fields their defaults. Therefore, callers and libraries of
 * different versions work together, within the limits of docs/abi.md:
 * - Only fields that exist in both the caller's and the library's version of the struct are read or written.
 * - Fields that are missing from the caller's struct count as 0. New fields are only added at the end, and the value 0
 *   of a new field selects the behavior of versions without it.
 * - A call fails with SHAMPOO_E_INVALID if the caller's size is below that of version 0.1, usually because the _INIT
 *   macro is missing. It fails with SHAMPOO_E_UNSUPPORTED if the caller sets a field that the library does not know.
 *
 * Errors. Functions that can fail return shampoo_status; SHAMPOO_OK is 0. Unless its comment says otherwise, a function
 * that fails changes nothing. It stores a message for shampoo_last_error(): which argument or key was wrong, its value,
 * what was expected, and what to do next. Each of these functions can return SHAMPOO_E_NOMEM and SHAMPOO_E_INTERNAL.
 * Functions with arguments can also return SHAMPOO_E_INVALID, functions for optimizers on CUDA can return
 * SHAMPOO_E_DEVICE, and collective functions can return SHAMPOO_E_COMM. Comments list these codes only to name specific
 * causes. The library throws no exceptions.
 *
 * Threads. Functions that take no config, plan, communicator or optimizer may be called by any thread at any time. For
 * the other functions:
 * - Any number of threads may read a config (functions that take it as const) while no thread changes it.
 * - Only one thread at a time may use a plan until shampoo_plan_finish(). Any number of threads may read it afterwards.
 * - Any thread may use an optimizer, but only one at a time. Different threads may use different optimizers at the same
 *   time, unless the optimizers share a communicator.
 *
 * Waiting. Comments say whether a function *blocks* (waits for other threads, ranks, devices or disks) and whether it
 * is *collective* (waits for the same call on other ranks). On the CPU, the work of a function is done when it returns.
 * On CUDA, a step is enqueued on a stream; see docs/cuda.md.
 *
 * Streams. On the CPU, arguments named stream must be NULL. On CUDA they are a cudaStream_t of the optimizer's device,
 * or NULL for the legacy default stream. A call reads and writes in the order of its stream: after earlier work on the
 * stream and before later work. The caller must synchronize this stream with its other streams. The *last stream* of an
 * optimizer is the one that was last passed to a call with the optimizer. No call changes the current device.
 *
 * Process. Loading the library starts no thread and uses no GPU. The CUDA backend is a separate library,
 * libshampoo_cuda.so, which is loaded when it is first needed; see shampoo_backend_load(). The library changes no
 * environment variable, locale, signal handler or floating-point mode, except that a call masks floating-point traps
 * until it returns. It reads no environment variable, except those of its copy of OpenBLAS, such as OPENBLAS_CORETYPE.
 * Create optimizers after fork(): threads do not survive it. A child process may destroy an optimizer that its parent
 * created on the CPU, and must make no other call with an optimizer of its parent. dlclose() has no effect.
 *
 * Determinism. On one kind of CPU, the same inputs give bit-identical results in every run, with any number of threads.
 * The same holds on CUDA for one kind of GPU and the same versions of the CUDA libraries.
 *
 * Versions. Everything in this header has existed since version 0.1, unless its comment says otherwise. Names that
 * begin with shampoo_ or SHAMPOO_ are reserved for the library.
 */

/* ====================================================================================================================
 * Version, status and types
 * ================================================================================================================= */

/**
 * Major version of this header; shampoo_version() returns the version of the loaded library. Before 1.0, a new minor
 * version may change the API; a patch version never does.
 */
#define SHAMPOO_VERSION_MAJOR 0
/** Minor version of this header. */
#define SHAMPOO_VERSION_MINOR 1
/** Patch version of this header. */
#define SHAMPOO_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/** Result of a call: SHAMPOO_OK or a SHAMPOO_E_ code. Codes are never renumbered; new ones may be added. */
typedef int32_t shampoo_status;

enum {
  /** Success. */
  SHAMPOO_OK = 0,
  /** An argument, or a value in a config, is wrong. Fix the call: repeating it fails again. */
  SHAMPOO_E_INVALID = 1,
  /** The call is valid, but not at this time, such as a step before the buffers are bound. Fix the order of calls. */
  SHAMPOO_E_STATE = 2,
  /** This version, build or machine does not support the call. Another build, backend or device may. */
  SHAMPOO_E_UNSUPPORTED = 3,
  /** Out of memory or of another system resource. Free some, or use smaller blocks or fewer threads. */
  SHAMPOO_E_NOMEM = 4,
  /** NaN or infinity. Check gradients, learning rate, epsilon and loss scale. The caller may continue. */
  SHAMPOO_E_NUMERIC = 5,
  /** A collective failed. End the job on all ranks, and continue from a checkpoint. */
  SHAMPOO_E_COMM = 6,
  /** A GPU or its runtime failed. End the process: CUDA cannot be used in it any more. */
  SHAMPOO_E_DEVICE = 7,
  /** A file is missing, unreadable or damaged, or the disk is full. The error names the file. */
  SHAMPOO_E_IO = 8,
  /** A bug of the library. Please report it with the output of shampoo_last_error() and shampoo_build_info(). */
  SHAMPOO_E_INTERNAL = 9
};

/**
 * Types of elements (dtypes). Parameters and gradients have one of the four floating-point types; integers occur only
 * in entries of the state. Elements are in the byte order of the machine, without padding.
 */
enum {
  /** IEEE 754 binary32, 4 bytes. In keys: "f32". */
  SHAMPOO_F32 = 1,
  /** IEEE 754 binary64, 8 bytes. In keys: "f64". */
  SHAMPOO_F64 = 2,
  /** IEEE 754 binary16, 2 bytes. In keys: "f16". */
  SHAMPOO_F16 = 3,
  /** The upper half of a binary32, 2 bytes. In keys: "bf16". */
  SHAMPOO_BF16 = 4,
  /** Signed integer, 4 bytes. */
  SHAMPOO_I32 = 5,
  /** Signed integer, 8 bytes. */
  SHAMPOO_I64 = 6
};

/** Types of devices, numbered as in DLPack. */
enum {
  /** Host memory, and computation on the host's processors. */
  SHAMPOO_CPU = 1,
  /** Memory of an NVIDIA GPU, and computation on it. */
  SHAMPOO_CUDA = 2
};

/** Hyper-parameters by name. */
typedef struct shampoo_config shampoo_config;
/** Parameters divided into blocks, with owners and sizes in bytes. */
typedef struct shampoo_plan shampoo_plan;
/** Several ranks, and the functions with which they exchange data. */
typedef struct shampoo_comm shampoo_comm;
/** The state of an optimizer and everything that its steps need. */
typedef struct shampoo_optimizer shampoo_optimizer;

/* ====================================================================================================================
 * Simple API: tensors and a string of options in, an optimizer out
 *
 * For one process that updates its parameters in place. The full API adds parameter groups, other dtypes for gradients,
 * separate arrays for the updated parameters, several ranks, and memory and threads of the caller. Functions that take
 * an optimizer, such as shampoo_optimizer_set() for a learning-rate schedule, also accept one from shampoo_create().
 * ================================================================================================================= */

/**
 * A parameter with its gradient. Fields that are not set must be 0: use SHAMPOO_TENSOR_INIT or designated initializers.
 */
typedef struct shampoo_tensor {
  /** Name, unique and the same in every run, because checkpoints use it. NULL (default): "param.i" for tensors[i]. */
  const char* name;
  /** The parameter: dense, row-major. Steps read and overwrite it. */
  void* data;
  /** The gradient, in the shape and dtype of data. Steps read it. NULL (default): no gradient; steps leave the
   * parameter unchanged until shampoo_optimizer_bind() sets one. */
  const void* grad;
  /** Dtype of data and grad: SHAMPOO_F32 (also 0, the default), F64, F16 or BF16. */
  int32_t dtype;
  /** Number of dims, 0..8; 0 (default) is a scalar. */
  int32_t ndim;
  /** Shape in elements, outermost dim first. The first ndim entries are read. */
  int64_t shape[8];
  /** Device of data and grad: SHAMPOO_CPU (also 0, the default) or SHAMPOO_CUDA. The same for all tensors. */
  int32_t device_type;
  /** Index of the device. Default: 0. The same for all tensors. */
  int32_t device_id;
  /** Role in the model: SHAMPOO_HIDDEN (0, the default), VECTOR, EMBEDDING or HEAD. */
  int32_t role;
  /** Number of leading dims that only stack separate tensors, 0..ndim. Default: 0. */
  int32_t stack_dims;
} shampoo_tensor;

/** Sets all fields to 0. */
#define SHAMPOO_TENSOR_INIT \
  { NULL, NULL, NULL, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0 }

/**
 * Creates an optimizer for tensors. Call shampoo_create() instead: it passes tensor_size.
 *
 * @param out receives the optimizer. Release it with shampoo_optimizer_destroy().
 * @param options keys and values as for shampoo_config_parse(), such as "lr=0.01 weight_decay=0.1". NULL or "": the
 *     defaults. The key "output" must have its default, because parameters are updated in place.
 * @param tensors array of `count` elements, tensor_size bytes apart. The call binds data and grad. May be NULL for
 *     count 0.
 * @param count number of tensors, >= 0.
 * @param tensor_size sizeof(shampoo_tensor) of the caller.
 * @retval SHAMPOO_E_INVALID options has a wrong key or value, or a tensor has a wrong field.
 * @retval SHAMPOO_E_UNSUPPORTED the device cannot be used; see shampoo_backend_describe().
 */
shampoo_status shampoo_create_sized(shampoo_optimizer** out, const char* options, const shampoo_tensor* tensors,
                                    int32_t count, size_t tensor_size);

#ifndef SWIG
/** Declares an inline function, even in C89. */
#define SHAMPOO_INLINE static __inline__

/**
 * Creates an optimizer for tensors.
 *
 * @param out as for shampoo_create_sized().
 * @param options as for shampoo_create_sized().
 * @param tensors as for shampoo_create_sized().
 * @param count as for shampoo_create_sized().
 * @return the status of shampoo_create_sized().
 */
SHAMPOO_INLINE shampoo_status shampoo_create(shampoo_optimizer** out, const char* options,
                                             const shampoo_tensor* tensors, int32_t count) {
  return shampoo_create_sized(out, options, tensors, count, sizeof(shampoo_tensor));
}
#endif

/* ====================================================================================================================
 * Library: version, errors, log, backends
 * ================================================================================================================= */

/**
 * Returns the version of the loaded library, to be compared with the SHAMPOO_VERSION_ macros.
 *
 * @return major * 10000 + minor * 100 + patch: 100 for 0.1.0.
 */
int32_t shampoo_version(void);

/**
 * Describes this build, for logs and bug reports.
 *
 * @return a JSON object with the members "version", "compiler", "blas" (the BLAS library and its kernel for this CPU),
 *     "backends" and "root_methods". Ignore members that you do not know. Valid as long as the library is loaded.
 */
const char* shampoo_build_info(void);

/**
 * Returns the name of a status code.
 *
 * @param status any number.
 * @return its name in this header, such as "SHAMPOO_E_STATE", or "unknown status": a constant string.
 */
const char* shampoo_status_name(shampoo_status status);

/**
 * Returns the message of the last call that failed on this thread. Successful calls do not clear it.
 * shampoo_optimizer_error() returns the last message of one optimizer, on any thread.
 *
 * @return the message in English, without a newline at its end; "" if no call has failed yet. Valid until this thread
 *     calls the library again. It has at most 4095 bytes; a longer message is cut and ends in " ... (cut off)".
 */
const char* shampoo_last_error(void);

/**
 * Receives messages of the library. It runs on the thread that called the library, possibly on several such threads at
 * once. It must return normally (no exception, no longjmp), and must not use the objects of the call in progress.
 *
 * @param user the pointer that was passed to shampoo_set_log().
 * @param level 0 error, 1 warning, 2 information, 3 debugging.
 * @param message one message, without a newline. Valid during the call.
 */
typedef void (*shampoo_log_callback)(void* user, int32_t level, const char* message);

/**
 * Sets the log callback of the process. At first there is none, and messages are dropped: the library never prints. A
 * thread that is just delivering a message may still call the previous callback after this function has returned.
 *
 * @param callback called for each message. NULL: messages are dropped.
 * @param user passed to the callback. May be NULL.
 * @param max_level 0 (errors only) to 3 (everything). Messages above this level are dropped.
 * @retval SHAMPOO_E_INVALID max_level is out of range.
 */
shampoo_status shampoo_set_log(shampoo_log_callback callback, void* user, int32_t max_level);

/**
 * Loads the CUDA backend, once per process. Creating an optimizer on CUDA or describing the backend loads it
 * automatically, from the folder of this library or from where the system finds it. Call this function only if the file
 * is somewhere else. Loading does not initialize the driver and needs no GPU. It blocks.
 *
 * @param name_or_path "cuda": libshampoo_cuda.so.0 (0 is the major version) or libshampoo_cuda.so in the folder of this
 *     library or, if neither exists, libshampoo_cuda.so.0 as dlopen() finds it. Other values are paths.
 * @retval SHAMPOO_OK the backend is loaded, by this call or an earlier one.
 * @retval SHAMPOO_E_STATE name_or_path is a path, and the backend has been loaded from another file before.
 * @retval SHAMPOO_E_UNSUPPORTED the file was not found, its version differs from that of this library, or a library
 *     that it needs (cuBLAS, cuSOLVER) was not found. The error names the cause.
 */
shampoo_status shampoo_backend_load(const char* name_or_path);

/**
 * Returns the number of backends that this version knows, available or not.
 *
 * @return 2: the CPU and CUDA.
 */
int32_t shampoo_backend_count(void);

/** A backend. Begin with SHAMPOO_BACKEND_INFO_INIT. */
typedef struct shampoo_backend_info {
  /** sizeof(shampoo_backend_info), set by the _INIT macro. */
  size_t struct_size;
  /** Name of the backend: "cpu" or "cuda". Valid as long as the library is loaded. */
  const char* name;
  /** Why the backend cannot be used here, as a sentence; "" if it can. Valid as long as the library is loaded. */
  const char* unavailable_reason;
  /** 1: optimizers can be created on it. 0: they cannot; unavailable_reason says why. */
  int32_t usable;
  /** Number of the backend's devices; the CPU counts as one. 0 if usable is 0. */
  int32_t device_count;
} shampoo_backend_info;

/** Sets struct_size, and all other fields to 0 or NULL. */
#define SHAMPOO_BACKEND_INFO_INIT \
  { sizeof(shampoo_backend_info), NULL, NULL, 0, 0 }

/**
 * Describes a backend. For CUDA, it loads the backend and initializes the driver, and blocks until this is done. A
 * child process that is forked afterwards cannot use CUDA.
 *
 * @param index 0 for the CPU, 1 for CUDA.
 * @param info filled; struct_size must be set.
 * @retval SHAMPOO_E_INVALID index is out of range.
 */
shampoo_status shampoo_backend_describe(int32_t index, shampoo_backend_info* info);

/* ====================================================================================================================
 * Config: hyper-parameters by name
 *
 * A config has a value for every key; a new config has the defaults. A value is checked when it is set: type, range,
 * spelling. Rules that concern several keys are checked when a plan takes the config. The key "preset" changes
 * defaults, not keys that are set: "shampoo_2024" selects the defaults of Distributed Shampoo for PyTorch, July 2024.
 *
 * docs/keys.md lists all keys with type, default, range and meaning. shampoo_config_describe_key() returns the same
 * information. docs/tuning.md explains how to choose the most important ones: "lr" (often 1 to 4 times the learning
 * rate of AdamW), "weight_decay", "grafting", "precondition_frequency" and "max_preconditioner_dim".
 *
 * Values as text are the same in every locale: numbers with a point, "true" and "false" (or "1" and "0"), choices by
 * name, dtypes as "f32", "f64", "f16", "bf16", lists with commas ("0,2,4"). Keys whose default is "auto" accept "auto".
 * NaN and infinity are never allowed.
 * ================================================================================================================= */

/**
 * Creates a config in which every key has its default.
 *
 * @param out receives the config. Release it with shampoo_config_destroy().
 * @retval SHAMPOO_E_NOMEM out of memory.
 */
shampoo_status shampoo_config_create(shampoo_config** out);

/**
 * Copies a config, for example to set other values of some keys for a second parameter group.
 *
 * @param out receives the new config. Release it with shampoo_config_destroy().
 * @param config copied. The two are independent afterwards.
 * @retval SHAMPOO_E_NOMEM out of memory.
 */
shampoo_status shampoo_config_clone(shampoo_config** out, const shampoo_config* config);

/**
 * Releases a config. Plans that were made from it are not affected.
 *
 * @param config released, with all strings that shampoo_config_get() returned for it. May be NULL.
 */
void shampoo_config_destroy(shampoo_config* config);

/**
 * Sets a key of type "f64".
 *
 * @param config changed.
 * @param key name of the key.
 * @param value in the range of the key.
 * @retval SHAMPOO_E_INVALID there is no such key (the error suggests a similar name), it has another type (the error
 *     names the function to use), or the value is out of range.
 */
shampoo_status shampoo_config_set_f64(shampoo_config* config, const char* key, double value);

/**
 * Sets a key of type "i64", "bool" or "f64" to an integer.
 *
 * @param config changed.
 * @param key name of the key.
 * @param value in the range of the key; for a "bool" 0 or 1.
 * @retval SHAMPOO_E_INVALID as for shampoo_config_set_f64().
 */
shampoo_status shampoo_config_set_i64(shampoo_config* config, const char* key, int64_t value);

/**
 * Sets a key of any type from text.
 *
 * @param config changed.
 * @param key name of the key.
 * @param value in the format described at the head of this section. Blanks and tabs around it are ignored.
 * @retval SHAMPOO_E_INVALID key is unknown, value is not allowed, or key is "preset" and another preset was set before.
 */
shampoo_status shampoo_config_set_str(shampoo_config* config, const char* key, const char* value);

/**
 * Sets keys from a string of pairs, such as "lr=0.01 grafting=adam" or the contents of a settings file.
 *
 * Pairs `key=value` are separated by blanks, tabs or line ends. Blanks are allowed around "=" but not in values. "#"
 * begins a comment that ends with its line. The last value of a key counts, but two different presets are an error.
 *
 * @param config changed. If the call fails, no key is changed.
 * @param options the string.
 * @retval SHAMPOO_E_INVALID a key is unknown, its value is missing or not allowed, or different presets are set. If
 *     there are several lines, the error names the line.
 */
shampoo_status shampoo_config_parse(shampoo_config* config, const char* options);

/**
 * Returns the value of a key as text that shampoo_config_set_str() converts back to the same value.
 *
 * @param config read. May be NULL.
 * @param key name of the key. May be NULL.
 * @return the value, valid until the config is changed or destroyed. NULL if there is no such key or an argument is
 *     NULL; the message of shampoo_last_error() does not change.
 */
const char* shampoo_config_get(const shampoo_config* config, const char* key);

/** A key. Begin with SHAMPOO_KEY_INFO_INIT. All strings are valid as long as the library is loaded. */
typedef struct shampoo_key_info {
  /** sizeof(shampoo_key_info), set by the _INIT macro. */
  size_t struct_size;
  /** The key, such as "lr". */
  const char* name;
  /** "f64", "i64", "bool", "choice", "dtype", "list" (of integers) or "text". */
  const char* value_type;
  /** The default as text. "auto": computed from other keys or from the parameter; the text in `doc` explains how. */
  const char* default_value;
  /** The allowed values in human-readable form: an interval such as "[0, 1)", or the names of choices. */
  const char* range;
  /** What the key does. */
  const char* doc;
  /** 0: a key of the whole optimizer, read from the config of shampoo_plan_create(). 1: a key of a parameter group. */
  int32_t scope;
  /** 1: shampoo_optimizer_set() can change it. 0: it is fixed when the plan takes the config. */
  int32_t changeable;
  /** 1: the key exists only to reproduce other implementations; leave it at its default otherwise. 0: other keys. */
  int32_t for_replay;
  /** 0. */
  int32_t reserved;
} shampoo_key_info;

/** Sets struct_size, and all other fields to 0 or NULL. */
#define SHAMPOO_KEY_INFO_INIT \
  { sizeof(shampoo_key_info), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0 }

/**
 * Returns the number of keys.
 *
 * @return the number, constant while the library is loaded.
 */
int32_t shampoo_config_key_count(void);

/**
 * Describes a key. Keys are in the order of docs/keys.md. Other versions may have another order.
 *
 * @param index in [0, shampoo_config_key_count()).
 * @param info filled; struct_size must be set.
 * @retval SHAMPOO_E_INVALID index is out of range.
 */
shampoo_status shampoo_config_describe_key(int32_t index, shampoo_key_info* info);

/* ====================================================================================================================
 * Plan: shapes in; blocks, owners and sizes in bytes out
 *
 * A plan is filled (shampoo_plan_create(), shampoo_plan_add_group(), shampoo_plan_add_param(),
 * shampoo_plan_add_shard()), then finished, then read; calls in another order return SHAMPOO_E_STATE. The same
 * arguments give an equal plan in every process and on every machine, except for the default number of threads.
 *
 * Stages 1 and 2 divide a parameter into arrays, here called *tensors*. Stages 3 and 4 divide each tensor into blocks.
 * 1. Stack. The first stack_dims dims enumerate separate tensors, and row_splits divides each of them into parts.
 * 2. Shard. Only if this rank holds a shard of the parameter (shampoo_param_desc.shard_form) and "shard_mode" is local.
 *    With a rectangular shard, a tensor becomes its intersection with the shard. A flat shard holds a range of the
 *    elements of each tensor. The slices along the first dim that are completely in this range become one tensor, a
 *    piece. A slice that is only partly in the range is divided by the same rule, along the next dim.
 * 3. Merge (key "use_merge_dims"). Dims of length 1 are dropped. Then, as long as more than two dims remain, two
 *    neighboring dims are merged, from right to left, if at least one is below "merge_min_dim" and their product is at
 *    most "max_preconditioner_dim". With merge_min_dim 0, dims are merged from left to right as long as their product
 *    is at most max_preconditioner_dim, even if only one dim remains.
 * 4. Split. Each dim is divided into chunks of length max_preconditioner_dim. The last chunk may be shorter.
 *
 * Dims longer than "skip_dim_size" (0: no limit) are neither merged nor split. Stages 3 and 4 do not apply to:
 * - Tensors that method muon orthogonalizes. Each is one block, a matrix: all dims except the output dim are merged.
 * - With methods other than shampoo, tensors that have no factor matrices and are not orthogonalized. They are divided
 *   into runs of consecutive elements. Such a tensor is one block instead if a key such as "norm_control" needs the
 *   norm of the tensor.
 *
 * Blocks are strided views of the parameter, not copies. A parameter with a dim of length 0 has no blocks; a scalar is
 * one block of shape (1). With shampoo, soap and kl_shampoo, each dim of a block has a factor matrix. Exceptions:
 * - A parameter has none if "route" is auto and its role is not SHAMPOO_HIDDEN.
 * - A vector, such as a bias, has none unless "precondition_1d" is true or, only with shampoo, "grafting" is none. With
 *   shampoo, a vector is a tensor with at most one dim longer than 1 before stage 3. With soap and kl_shampoo, it is a
 *   tensor with at most one dim after stage 3, so (64, 1) is a matrix unless "use_merge_dims" is true.
 * - A dim has none if "skip_dim_size", "precondition_dims" or "ignored_dims" excludes it. Stage 4 does not divide a dim
 *   that "skip_dim_size" or "precondition_dims" excludes.
 * ================================================================================================================= */

/* Roles of parameters in a model, and positions of the output dim of a weight. */
enum {
  /** Any parameter without one of the roles below. */
  SHAMPOO_HIDDEN = 0,
  /** A bias or a scale that has the shape of a matrix. */
  SHAMPOO_VECTOR = 1,
  /** An embedding table, of which each training step uses only some rows. */
  SHAMPOO_EMBEDDING = 2,
  /** The last layer, with one output for each class or token. */
  SHAMPOO_HEAD = 3,
  /** The first dim is the output dim, as in PyTorch. */
  SHAMPOO_OUT_IN = 0,
  /** The last dim is the output dim, as in JAX. */
  SHAMPOO_IN_OUT = 1
};

/** A parameter. Begin with SHAMPOO_PARAM_DESC_INIT; set at least name, ndim and shape. */
typedef struct shampoo_param_desc {
  /** sizeof(shampoo_param_desc), set by the _INIT macro. */
  size_t struct_size;
  /** Name. It must be unique within the plan and the same in every run: names of states begin with it. Required. */
  const char* name;
  /** Number of dims, 0..8; 0 (default) is a scalar. */
  int32_t ndim;
  /** Number of leading dims that only stack separate tensors, 0..ndim: 1 for the weights of L layers in one array of
   * shape (L, m, n). Default: 0. */
  int32_t stack_dims;
  /** Shape in elements, outermost dim first. It is the shape of the whole parameter even if this rank holds a shard.
   * The first ndim entries are read; each is >= 0. Parameters are row-major and dense. */
  int64_t shape[8];
  /** Dtype of shampoo_buffers.param: SHAMPOO_F32 (default), F64, F16 or BF16. */
  int32_t param_dtype;
  /** Dtype of shampoo_buffers.grad: SHAMPOO_F32 (default), F64, F16 or BF16. */
  int32_t grad_dtype;
  /** A group from shampoo_plan_add_group(); 0 (default) is the group of the plan's own config. */
  int32_t group;
  /** Which elements of the parameter this rank's buffers contain. 0 (default): the whole parameter. 1: a flat shard,
   * elements [flat_offset, flat_offset + flat_count) of the row-major flattened parameter. 2: the rectangle of shape
   * local_shape that begins at local_offset, stored row-major and dense. See the key "shard_mode". */
  int32_t shard_form;
  /** Form 1: index of the first element in the flattened parameter. Other forms: must be 0. */
  int64_t flat_offset;
  /** Form 1: number of elements, which is 0 for an empty shard. Other forms: must be 0. */
  int64_t flat_count;
  /** Form 2: first index along each dim, in elements; ndim entries. Other forms: must be 0. */
  int64_t local_offset[8];
  /** Form 2: extent along each dim, in elements; ndim entries. Other forms: must be 0. */
  int64_t local_shape[8];
  /** Dtype of shampoo_buffers.out: F32, F64, F16 or BF16. Default: 0, the same as param_dtype. */
  int32_t out_dtype;
  /** Dtype of shampoo_buffers.copy: F32, F64, F16 or BF16. Default: 0, the same as param_dtype. */
  int32_t copy_dtype;
  /** Role in the model: SHAMPOO_HIDDEN (default), VECTOR, EMBEDDING or HEAD. */
  int32_t role;
  /** Which dim of each stacked tensor is the output dim: SHAMPOO_OUT_IN (default) or SHAMPOO_IN_OUT. row_splits divides
   * this dim. For method muon and "shape_scale", the length of this dim is the number of rows of the matrix. */
  int32_t fan;
  /** Sizes of the parts into which each stacked tensor is divided along its output dim (fan), for an array that stores
   * several matrices, such as {q, k, v}. Each part is a tensor of its own. Several sizes must add up to the length of
   * the dim. A single size must divide this length, and is repeated. 0 ends the list. Default: all 0 (one part). */
  int64_t row_splits[8];
} shampoo_param_desc;

/** Initializes a parameter as a float32 scalar without a name, not sharded, in group 0. */
#define SHAMPOO_PARAM_DESC_INIT                                                                             \
  {                                                                                                         \
    sizeof(shampoo_param_desc), NULL, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, SHAMPOO_F32, SHAMPOO_F32, 0, 0, 0, 0, \
        {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, SHAMPOO_HIDDEN, SHAMPOO_OUT_IN, {         \
      0, 0, 0, 0, 0, 0, 0, 0                                                                                \
    }                                                                                                       \
  }

/** A block. Begin with SHAMPOO_BLOCK_INFO_INIT. */
typedef struct shampoo_block_info {
  /** sizeof(shampoo_block_info), set by the _INIT macro. */
  size_t struct_size;
  /** Index of its parameter. */
  int32_t param;
  /** Replica rank that keeps its state and computes its update, in [0, replica_world) (key "balance"). */
  int32_t owner;
  /** Shard rank that keeps its state: this rank with shard_mode=local, any shard rank with shard_mode=gather. */
  int32_t shard_owner;
  /** 1: a block from the division of this rank's shard. 0: a block from the division of the whole parameter. */
  int32_t of_shard;
  /** Order of the block, 1..8. The head of this section says which of its dims have a factor matrix. */
  int32_t ndim;
  /** Shape in elements; ndim entries, the others are 0. Factor matrix k is shape[k] x shape[k]. */
  int64_t shape[8];
  /** Distance between neighbors along each dim, in elements of the row-major flattened parameter or, if of_shard is 1,
   * of this rank's buffer; ndim entries, the others are 0. */
  int64_t stride[8];
  /** Index of its first element in the whole flattened parameter or, if of_shard is 1, in this rank's buffer. */
  int64_t flat_offset;
  /** Size of its state in bytes. */
  int64_t state_bytes;
} shampoo_block_info;

/** Sets struct_size, and all other fields to 0 or NULL. */
#define SHAMPOO_BLOCK_INFO_INIT \
  { sizeof(shampoo_block_info), 0, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0 }

/** Device, threads and ranks of a plan. Begin with SHAMPOO_PLAN_DESC_INIT, which describes one process on the CPU. */
typedef struct shampoo_plan_desc {
  /** sizeof(shampoo_plan_desc), set by the _INIT macro. */
  size_t struct_size;
  /** Device of the plan's optimizers: SHAMPOO_CPU (default) or SHAMPOO_CUDA. A plan for CUDA needs no GPU. */
  int32_t device_type;
  /** Threads of a step, including the caller's, 0..4096. 0 (default): the value of the key "threads". If both are 0, as
   * many as the work justifies, but not more than the affinity mask and the CPU quota of the cgroup allow. */
  int32_t threads;
  /** Number of this rank among those that hold the same parameters, in [0, replica_world). Default: 0. */
  int32_t replica_rank;
  /** Number of ranks that hold the same parameters, >= 1. Default: 1. Each keeps the state of some of the blocks. If it
   * is above 1, an optimizer needs a communicator of as many ranks (shampoo_optimizer_desc.replica_comm). */
  int32_t replica_world;
  /** Number of this rank among those that hold the shards of one copy, in [0, shard_world). Default: 0. */
  int32_t shard_rank;
  /** Number of shards of one copy of the parameters, >= 1. Default: 1. */
  int32_t shard_world;
} shampoo_plan_desc;

/** Describes one rank on the CPU, with the number of threads from the key "threads". */
#define SHAMPOO_PLAN_DESC_INIT \
  { sizeof(shampoo_plan_desc), SHAMPOO_CPU, 0, 0, 1, 0, 1 }

/**
 * Creates an empty plan.
 *
 * @param out receives the plan. Release it with shampoo_plan_destroy().
 * @param config hyper-parameters of group 0 and of the whole optimizer (shampoo_key_info.scope 0). Copied.
 * @param desc device, threads and ranks.
 * @retval SHAMPOO_E_INVALID values of the config contradict each other, for example because both "epsilon" and
 *     "root_relative_epsilon" are set above 0; a rank is not below its world; or threads is out of range.
 * @retval SHAMPOO_E_UNSUPPORTED device_type is unknown, or the device does not support the value of a key yet.
 */
shampoo_status shampoo_plan_create(shampoo_plan** out, const shampoo_config* config, const shampoo_plan_desc* desc);

/**
 * Releases a plan. Optimizers that were created from it are not affected.
 *
 * @param plan released. No thread may be reading it. May be NULL.
 */
void shampoo_plan_destroy(shampoo_plan* plan);

/**
 * Adds a parameter group: parameters with hyper-parameters and a step counter of their own.
 *
 * @param plan not finished yet.
 * @param config hyper-parameters of the group. Copied. Keys of scope 0 are taken from the plan's config; if this config
 *     sets such a key, the value must be the same.
 * @param group_out receives the number of the group: 1, 2, ... May be NULL.
 * @retval SHAMPOO_E_INVALID values of the config contradict each other, or a key of scope 0 differs from the plan's.
 * @retval SHAMPOO_E_UNSUPPORTED a key has a value that the device of the plan does not support yet.
 */
shampoo_status shampoo_plan_add_group(shampoo_plan* plan, const shampoo_config* config, int32_t* group_out);

/**
 * Adds a parameter.
 *
 * @param plan not finished yet.
 * @param desc name, shape, dtypes and group of the parameter.
 * @param index_out receives the index of the parameter for shampoo_optimizer_bind(): 0, 1, ... May be NULL.
 * @retval SHAMPOO_E_INVALID the name is missing, empty, taken or not UTF-8; a field is out of range; or the shape has
 *     more than 2^59 elements.
 */
shampoo_status shampoo_plan_add_param(shampoo_plan* plan, const shampoo_param_desc* desc, int32_t* index_out);

/**
 * Describes which elements of a parameter a shard rank holds. With shard_mode=gather, a plan must know the shards of
 * all ranks. It infers them if this rank's own shard is the whole parameter, or is this rank's chunk in an equal
 * division of the flattened parameter or of dim 0. (In such a division, the last chunks may be shorter or empty.) In
 * all other cases, each rank must describe the shards of all other ranks, and all ranks must describe the same shards.
 *
 * @param plan not finished yet.
 * @param param index of the parameter.
 * @param shard_rank in [0, shard_world). This rank itself is allowed.
 * @param desc the shard. Only shard_form, flat_offset, flat_count, local_offset and local_shape are read.
 * @retval SHAMPOO_E_INVALID param or shard_rank is out of range, the shard is not within the parameter, or an earlier
 *     call described another shard for shard_rank.
 */
shampoo_status shampoo_plan_add_shard(shampoo_plan* plan, int32_t param, int32_t shard_rank,
                                      const shampoo_param_desc* desc);

/**
 * Computes blocks, owners and sizes. Afterwards nothing can be added, any number of threads may read the plan, and any
 * number of optimizers can be created from it.
 *
 * @param plan not finished yet.
 * @retval SHAMPOO_E_INVALID one of:
 *     - a factor matrix would be larger than 32750 x 32750, a block would have more than 2^31 - 1 elements, or the plan
 *       would have more than 2^20 blocks: choose another "max_preconditioner_dim";
 *     - a value of a config is out of range for the "computation_dtype" of a parameter;
 *     - with method shampoo, route=auto and grafting=none, a parameter has a role other than SHAMPOO_HIDDEN: neither
 *       preconditioning nor grafting would apply to it;
 *     - with fan SHAMPOO_IN_OUT, row_splits divides a flat shard (shard_mode=local), makes a part that has only one
 *       column, or makes a part whose last dim is merged with another dim ("use_merge_dims");
 *     - a key such as "norm_control" needs norms of whole tensors, but shards are local or stage 4 divides a tensor;
 *     - with method muon, both dims of a matrix are above 32750, shards are local although "muon_local" is false, or
 *       "route" is off and a tensor has fewer than two dims;
 *     - with shard_mode=gather, the shard of some rank is not known (shampoo_plan_add_shard()), or the shards leave
 *       gaps or overlap. If each shard is the whole parameter, they may overlap.
 */
shampoo_status shampoo_plan_finish(shampoo_plan* plan);

/**
 * Returns the number of blocks of all owners.
 *
 * @param plan finished.
 * @param count_out receives the number.
 * @retval SHAMPOO_E_STATE the plan is not finished.
 */
shampoo_status shampoo_plan_block_count(const shampoo_plan* plan, int64_t* count_out);

/**
 * Describes a block. Blocks are sorted by parameter, then by stacked tensor, then by part (row_splits), then by piece
 * of a flat shard, and then by chunk. The chunk index of the last dim changes fastest.
 *
 * @param plan finished.
 * @param index in [0, number of blocks).
 * @param info filled; struct_size must be set.
 * @retval SHAMPOO_E_INVALID index is out of range.
 */
shampoo_status shampoo_plan_block(const shampoo_plan* plan, int64_t index, shampoo_block_info* info);

/**
 * Returns how many bytes an optimizer of the plan allocates, or sends in a step, on one rank. The size of the workspace
 * is accurate to 1 % on the CPU, and an upper bound on CUDA. It excludes tables in host memory, about 2 kB per block.
 *
 * @param plan finished.
 * @param rank -1: this rank. Otherwise a replica rank. With shard_mode=gather over several shard ranks, rank is r *
 *     shard_world + s for replica rank r and shard rank s.
 * @param what one of:
 *     - "state": the arena (the memory of all states), exact; the size that shampoo_optimizer_desc.state and
 *       shampoo_optimizer_bind_state() need;
 *     - "workspace": everything else that a step needs;
 *     - "total": state and workspace;
 *     - "comm": what the rank sends to other ranks in a step, with padding and headers, but without the few bytes with
 *       which ranks exchange errors (docs/many_ranks.md).
 *
 *     With shard_mode=gather, the last three assume a shard_comm with all_to_all. For a shard_comm without it, use
 *     "workspace.all_gather", "total.all_gather" and "comm.all_gather".
 * @param bytes_out receives the number of bytes.
 * @retval SHAMPOO_E_STATE the plan is not finished.
 */
shampoo_status shampoo_plan_bytes(const shampoo_plan* plan, int32_t rank, const char* what, int64_t* bytes_out);

/* ====================================================================================================================
 * Communicators: several ranks
 *
 * The library needs one collective, an all-gather, which the caller provides from NCCL, MPI or anything else. Adapters
 * that fill shampoo_comm_ops are in <shampoo/shampoo_mpi.h> and <shampoo/shampoo_nccl.h>; your program compiles them.
 *
 * shampoo_optimizer_desc takes two communicators:
 * - replica_comm: ranks that hold the same parameters and the same (averaged) gradients: data parallelism. Each rank
 *   keeps the state of some of the blocks and computes their updates. An all-gather distributes the updates, so that
 *   parameters are bit-identical on every rank.
 * - shard_comm: ranks that hold the shards of one copy of the parameters: fully sharded or tensor parallelism. With
 *   shard_mode=local, each shard is preconditioned alone; with shard_mode=gather, whole parameters are.
 *
 * Both together are hybrid sharding (HSDP). All ranks of a communicator must create and step their optimizers in the
 * same order, and must pass gradients for the same parameters. Optimizers that share a communicator must be used by one
 * thread at a time, and must not be used inside its callbacks. See docs/many_ranks.md.
 * ================================================================================================================= */

/** Callbacks of a communicator. Begin with SHAMPOO_COMM_OPS_INIT; set at least rank, world and all_gather. */
typedef struct shampoo_comm_ops {
  /** sizeof(shampoo_comm_ops), set by the _INIT macro. */
  size_t struct_size;
  /** Passed to the callbacks. Default: NULL. */
  void* user;
  /** Number of this rank, in [0, world). Default: 0. */
  int32_t rank;
  /** Number of ranks, in [1, 2^20]. Default: 1. */
  int32_t world;
  /** Memory that the callbacks take: SHAMPOO_CPU (default) or, only for optimizers on CUDA, SHAMPOO_CUDA. With
   * SHAMPOO_CPU, the steps of an optimizer on CUDA wait in each exchange and cannot be captured into a graph. */
  int32_t device_type;
  /** All-gather: recv receives world segments of bytes_per_rank bytes (> 0), segment r from rank r. send may be recv +
   * rank * bytes_per_rank. With SHAMPOO_CUDA, the callback enqueues the exchange on the argument stream, which can
   * differ from the step's stream. With SHAMPOO_CPU, stream is NULL, and the callback returns when recv is filled. All
   * ranks make the same calls in the same sequence, with the same sizes. Returns 0 or, on failure, a number for the
   * error message. Runs on the calling thread. Required. */
  int32_t (*all_gather)(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream);
  /** All-to-all, for a shard_comm with shard_mode=gather: for each rank r, including this one, sends send_bytes[r]
   * bytes to rank r and receives recv_bytes[r] bytes from rank r. In send and recv the data of rank 0 is first, then
   * that of rank 1, and so on, without gaps; sizes may be 0. As with all_gather, all ranks make the same calls in the
   * same sequence, device_type determines memory and stream, and 0 means success. Either all ranks have this callback,
   * or none. NULL (default): all_gather is used instead, which takes more memory and sends more. */
  int32_t (*all_to_all)(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                        void* stream);
  /** Returns the error of an earlier collective, if it was detected only after the callback of that collective had
   * returned; otherwise 0. It is called before each all_gather and all_to_all. Default: NULL. */
  int32_t (*async_error)(void* user);
  /** Lets the other ranks fail instead of waiting for this rank in a collective. It is called at most once, after the
   * first of these events: a collective failed on this rank, this rank received invalid data, or this rank failed where
   * other ranks would wait for it. Default: NULL. */
  void (*abort)(void* user);
  /** Called once, when the shampoo_comm and every optimizer with it have been destroyed. Default: NULL. */
  void (*release)(void* user);
} shampoo_comm_ops;

/** Initializes a communicator of one rank and host memory, without callbacks. */
#define SHAMPOO_COMM_OPS_INIT \
  { sizeof(shampoo_comm_ops), NULL, 0, 1, SHAMPOO_CPU, NULL, NULL, NULL, NULL, NULL }

/**
 * Creates a communicator from functions of the caller.
 *
 * @param out receives the communicator. Release it with shampoo_comm_destroy().
 * @param ops the functions. ops->user must be valid until ops->release is called. If shampoo_comm_from_ops() fails,
 *     ops->release is never called.
 * @retval SHAMPOO_E_INVALID all_gather is NULL, or world, rank or device_type is wrong.
 */
shampoo_status shampoo_comm_from_ops(shampoo_comm** out, const shampoo_comm_ops* ops);

/**
 * Creates a communicator from an ncclComm_t, with the NCCL that the process has loaded; the library never loads NCCL.
 * For callers that cannot compile <shampoo/shampoo_nccl.h>, such as Python and Java.
 *
 * @param out receives the communicator. Release it with shampoo_comm_destroy().
 * @param nccl_comm the caller's ncclComm_t. It must live as long as the shampoo_comm and all optimizers with it.
 * @param libnccl_path the file from which NCCL was loaded, or its soname. NULL: libnccl.so.2.
 * @retval SHAMPOO_E_INVALID NCCL rejects nccl_comm.
 * @retval SHAMPOO_E_STATE the process has not loaded NCCL by this name.
 * @retval SHAMPOO_E_UNSUPPORTED the loaded NCCL lacks a function of NCCL 2.
 */
shampoo_status shampoo_comm_from_nccl(shampoo_comm** out, void* nccl_comm, const char* libnccl_path);

/**
 * Releases the caller's reference to a communicator. Optimizers keep their own references.
 *
 * @param comm released. May be NULL.
 */
void shampoo_comm_destroy(shampoo_comm* comm);

/* ====================================================================================================================
 * Optimizer
 *
 * One step computes the following for each parameter group with "method" shampoo. docs/methods.md describes the other
 * methods. Names in quotes are keys; a number in parentheses after a key is its default. All other keys, such as
 * "factor_update_frequency", "root_spread" and "update_norm", are assumed to have their defaults; see docs/keys.md.
 * W is a parameter, G its gradient times "gradient_scale", and t the step of the group, from 1 on.
 *
 *  1. Coupled weight decay (weight_decay_type=coupled): G <- G + "weight_decay" W, in workspace; the caller's gradient
 *     is never written.
 *  2. Factor matrices, for each dim k of a block: F_k <- "beta2" F_k + w C_k. C_k is G contracted with itself over all
 *     dims except k (for a matrix: G G^T and G^T G). w is 1 if beta2 is 1, otherwise 1 - beta2.
 *  3. Second moment of the grafting method (adagrad, rmsprop, adam), elementwise: V <- b V + v G G, where b is
 *     "grafting_beta2", and v is 1 if b is 1, otherwise 1 - b.
 *  4. Inverse roots: X_k = (B_k + e I)^(-q / r). B_k is F_k / (1 - beta2^t) if beta2 is below 1 and
 *     "use_bias_correction" is true, otherwise F_k. q is "exponent_multiplier" (1). r is "inverse_root_override" (2)
 *     or, if this key is 0, twice the number of factor matrices of the block. e is "root_relative_epsilon" times the
 *     mean eigenvalue of B_k or, if "epsilon" is above 0, epsilon. With root_relative_epsilon above 0, X_k is the
 *     identity if F_k contains only zeros and subnormal numbers. X_k is first computed (*refreshed*) at step s
 *     ("start_preconditioning_step"). After a refresh at step u, the next is at step u + max(1, min(f, floor(g u))) or,
 *     if g is 0, at the next multiple of f. f is "precondition_frequency", and g is "refresh_growth".
 *  5. Direction. H is the filtered gradient: E <- "beta1" E + (1 - beta1) G, and H is E / (1 - beta1^t), or E if
 *     use_bias_correction is false. D is the direction of the grafting method: H for sgd, otherwise H / (sqrt(V) +
 *     "grafting_epsilon") elementwise; adam corrects the bias of V first. From step s on, P is H contracted with X_k in
 *     every dim (for a matrix: X_0 H X_1). With grafting, each block of P is then scaled by |D| / (|P| + c). The norms
 *     are Frobenius norms; c is 1e-37, or 1e-16 if root_relative_epsilon is 0. Before step s, P is D. Without grafting,
 *     P is H before step s if "initial_inverse" is identity, and 0 if initial_inverse is zero.
 *  6. Weight decay of the types decoupled, P <- P + "weight_decay" W, and palm, P <- P + "lr" "weight_decay" W.
 *  7. Momentum: M <- "momentum" M + P, and P is M or, if "use_nesterov" is true, P + "momentum" M.
 *  8. The update is U = -"lr" P or, with weight decay of the type independent, U = -"lr" P - "weight_decay" W. W + U is
 *     computed in the computation dtype and rounded once to the output dtype.
 *
 * For a block without factor matrices (section Plan), such as a bias, items 2 and 4 are omitted, and item 5 computes P
 * as it does before step s. A group without any gradient is skipped, and its t does not advance. Arithmetic is in
 * "computation_dtype" (float32, or float64 for float64 parameters). Each state is rounded once, to its own dtype.
 * ================================================================================================================= */

/**
 * Optional memory functions of the caller. Begin with SHAMPOO_ALLOCATOR_INIT; set both allocate and deallocate.
 *
 * On the CPU they allocate the arena (unless shampoo_optimizer_desc.state is set) and the workspace, but neither the
 * scratch memory of OpenBLAS nor small tables. On CUDA they allocate device memory: arena, workspace and exchange
 * buffers. cuBLAS and cuSOLVER allocate their own memory. The functions are called only on the calling thread, by
 * shampoo_optimizer_create() and shampoo_optimizer_destroy(). shampoo_save() and shampoo_load() also call them if their
 * communicator exchanges device memory.
 */
typedef struct shampoo_allocator {
  /** sizeof(shampoo_allocator), set by the _INIT macro. */
  size_t struct_size;
  /** Passed to the callbacks. Default: NULL. */
  void* user;
  /** Allocates `bytes` bytes (> 0) of memory, aligned to `align` (a power of two). Returns NULL on failure: the API
   * call then fails with SHAMPOO_E_NOMEM. device_type and device_id are those of the optimizer; on the CPU they are
   * SHAMPOO_CPU and 0, and stream is NULL. On CUDA the memory is used in the order of stream. If several GPUs of one
   * process exchange data, all of them must be able to access the memory; cudaMallocAsync() does not ensure that. */
  void* (*allocate)(void* user, size_t bytes, size_t align, int32_t device_type, int32_t device_id, void* stream);
  /** Frees memory that allocate returned; bytes is the size that was requested. It must not fail. On CUDA all work on
   * the memory has finished before the call. */
  void (*deallocate)(void* user, void* ptr, size_t bytes, int32_t device_type, int32_t device_id, void* stream);
  /** Called once, after the last use. Not called if shampoo_optimizer_create() fails. Default: NULL. */
  void (*release)(void* user);
} shampoo_allocator;

/** Sets struct_size, and all callbacks to NULL. */
#define SHAMPOO_ALLOCATOR_INIT \
  { sizeof(shampoo_allocator), NULL, NULL, NULL, NULL }

/**
 * Optional threads of the caller. Begin with SHAMPOO_EXECUTOR_INIT; set threads and parallel_for. Results are
 * bit-identical with every executor. Optimizers on CUDA do not use it.
 */
typedef struct shampoo_executor {
  /** sizeof(shampoo_executor), set by the _INIT macro. */
  size_t struct_size;
  /** Passed to the callbacks. Default: NULL. */
  void* user;
  /** Largest argument `count` of parallel_for (below), >= 1. The number of threads of the plan limits it, too. */
  int32_t threads;
  /** Runs task(argument, i) once for every i in [0, count), on any threads and in any order, and returns when all tasks
   * have returned. Tasks must see what the calling thread wrote before the call. When the call returns, the calling
   * thread must see what the tasks wrote. parallel_for must not throw. It runs on the thread of the API call. */
  void (*parallel_for)(void* user, void (*task)(void* argument, int64_t i), void* argument, int64_t count);
  /** Called once, after the last use. Not called if shampoo_optimizer_create() fails. Default: NULL. */
  void (*release)(void* user);
} shampoo_executor;

/** Sets struct_size, and all callbacks to NULL. */
#define SHAMPOO_EXECUTOR_INIT \
  { sizeof(shampoo_executor), NULL, 0, NULL, NULL }

/** Device, communicators and resources of an optimizer. Begin with SHAMPOO_OPTIMIZER_DESC_INIT. */
typedef struct shampoo_optimizer_desc {
  /** sizeof(shampoo_optimizer_desc), set by the _INIT macro. */
  size_t struct_size;
  /** SHAMPOO_CPU (default) or SHAMPOO_CUDA. It must equal the device_type of the plan. */
  int32_t device_type;
  /** Index of the device in CUDA's numbering. Default: 0. On the CPU it must be 0. */
  int32_t device_id;
  /** Communicator of the ranks that hold the same parameters. Its world and rank must be the plan's replica_world and
   * replica_rank. NULL (default): one rank. On the CPU it must take host memory. */
  shampoo_comm* replica_comm;
  /** Communicator of the ranks that hold the shards of one copy. Its world and rank must be the plan's shard_world and
   * shard_rank. NULL (default): each rank updates its shards on its own, and does not learn of errors on other ranks.
   * shard_mode=gather over several shard ranks requires a communicator. On the CPU it must take host memory. */
  shampoo_comm* shard_comm;
  /** Memory functions. NULL (default): the library's own. */
  const shampoo_allocator* allocator;
  /** Threads. NULL (default): the library's pool, one per process. Its threads start with the first optimizer that
   * needs them and end with the last. */
  const shampoo_executor* executor;
  /** On CUDA, the stream in whose order memory is allocated and the state is initialized. NULL (default) on the CPU. */
  void* stream;
  /** Arena of the state. NULL (default): allocated. Otherwise memory of the optimizer's device, aligned to 64 bytes.
   * Creating the optimizer initializes it. It must live until the optimizer is destroyed or another arena is bound. */
  void* state;
  /** Size of state in bytes, at least what shampoo_plan_bytes() returns for "state". Ignored if state is NULL. */
  size_t state_bytes;
} shampoo_optimizer_desc;

/** Initializes an optimizer for one rank on the CPU, with memory and threads of the library. */
#define SHAMPOO_OPTIMIZER_DESC_INIT \
  { sizeof(shampoo_optimizer_desc), SHAMPOO_CPU, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0 }

/**
 * Creates an optimizer and initializes its state. All state, workspace and threads are allocated here. Steps allocate
 * nothing, except on CUDA to compute a failed root again. The call blocks until memory is initialized and all ranks
 * have made the call.
 *
 * The call is collective over the communicators of desc: the ranks compare their plans, and if one rank fails, all fail
 * with an error that names this rank. If an earlier call with the plan, such as shampoo_plan_finish(), has failed on
 * one rank, this rank must still pass the unfinished plan to this function; otherwise the other ranks wait for it.
 *
 * @param out receives the optimizer. Release it with shampoo_optimizer_destroy().
 * @param plan finished; with the same parameters and keys on all ranks (docs/many_ranks.md).
 * @param desc device, communicators and resources.
 * @retval SHAMPOO_E_INVALID a field of desc, or of a struct that it points to, is wrong; world or rank of a
 *     communicator differs from the plan, or a communicator is missing; or the plans of two ranks differ.
 * @retval SHAMPOO_E_STATE the plan is not finished.
 * @retval SHAMPOO_E_UNSUPPORTED CUDA cannot be used, for the reason that shampoo_backend_describe() gives; a
 *     communicator of an optimizer on the CPU takes device memory; or device_type is unknown.
 * @retval SHAMPOO_E_COMM a collective failed.
 * @retval SHAMPOO_E_NOMEM out of memory or threads. The error says how many bytes or threads were requested;
 *     shampoo_plan_bytes() predicts the sizes. docs/tuning.md explains how to reduce them.
 */
shampoo_status shampoo_optimizer_create(shampoo_optimizer** out, const shampoo_plan* plan,
                                        const shampoo_optimizer_desc* desc);

/**
 * Releases an optimizer: frees its memory, then calls the release callbacks. Bound buffers are not touched. On the CPU,
 * it blocks until the library's threads have ended, unless other optimizers use them. On CUDA, it blocks until all
 * steps are done; this wait invalidates every stream capture in progress.
 *
 * @param opt released, with all strings that it returned. May be NULL.
 */
void shampoo_optimizer_destroy(shampoo_optimizer* opt);

/**
 * Memory of one parameter. Begin with SHAMPOO_BUFFERS_INIT. Addresses are on the optimizer's device and aligned for
 * their dtypes. Arrays are dense and row-major, in the shape of the parameter or of this rank's shard. out may be the
 * address of param if both have the same dtype. Apart from that, neither out nor copy may overlap another buffer.
 */
typedef struct shampoo_buffers {
  /** sizeof(shampoo_buffers), set by the _INIT macro. */
  size_t struct_size;
  /** The parameter, in param_dtype. Steps read it. If it is NULL, the other three must be NULL, too. */
  const void* param;
  /** The gradient, in grad_dtype. Steps read it. NULL: no gradient. Then the parameter and its state do not change, not
   * even by weight decay or momentum; only the states of averages do (key "weight_ema", or averaging=schedule_free).
   * out and copy still receive the value of param. With output=updates, out receives zeros instead. */
  const void* grad;
  /** The new parameter, in out_dtype; with output=updates, the update to be added to the parameter. Steps write it. May
   * be NULL only if grad is NULL. */
  void* out;
  /** A copy of the new parameter in copy_dtype, such as bfloat16 for the model. Steps write it. NULL: no copy. */
  void* copy;
} shampoo_buffers;

/** Sets struct_size, and all pointers to NULL. */
#define SHAMPOO_BUFFERS_INIT \
  { sizeof(shampoo_buffers), NULL, NULL, NULL, NULL }

/**
 * Binds the buffers of parameters. Call it once if the caller's arrays stay in place, or before each step if they move.
 * The call does not read or write the contents.
 *
 * @param opt changed.
 * @param first index of the first parameter.
 * @param count number of parameters, >= 0. On failure, no binding changes.
 * @param buffers array of `count` structs of the same struct_size, without gaps. May be NULL if count is 0.
 * @retval SHAMPOO_E_INVALID a parameter is out of range, a required address is NULL or misaligned, or out or copy
 *     overlaps another buffer of its parameter.
 */
shampoo_status shampoo_optimizer_bind(shampoo_optimizer* opt, int32_t first, int32_t count,
                                      const shampoo_buffers* buffers);

/**
 * Binds a hyper-parameter to a number in memory, for programs that keep the learning rate or loss scale in a variable.
 * Every step reads the number when it begins. A bound number takes precedence over shampoo_optimizer_set(). On CUDA the
 * number is in device memory: a step reads it in the order of its stream, and a captured step reads it at each replay.
 *
 * @param opt changed.
 * @param group a group of the plan; 0 is the group of the plan's own config.
 * @param key "lr", "beta1", "weight_decay" or "gradient_scale". beta1: only if it is above 0 in the plan.
 * @param dtype of the number: SHAMPOO_F32 or SHAMPOO_F64. Ignored if value is NULL.
 * @param value address of the number; on the CPU it needs no alignment. Steps check its range. NULL unbinds the key:
 *     later steps use the number that was read last (CPU), or the value that was set last (CUDA).
 * @retval SHAMPOO_E_INVALID there is no such group, key or dtype, or value is misaligned on CUDA.
 * @retval SHAMPOO_E_STATE key is beta1, and is 0 in the plan.
 */
shampoo_status shampoo_optimizer_bind_scalar(shampoo_optimizer* opt, int32_t group, const char* key, int32_t dtype,
                                             const void* value);

/**
 * Binds the arenas that steps read and write, so that a step can read one arena and write another. Each arena holds a
 * whole state, including step counters. The layout depends only on the plan and the version of the library, so a copy
 * of the bytes can restore the state.
 *
 * The arenas stay bound until this function is called again; steps do not swap them. If they are distinct, every step
 * reads the same state_in: to continue from the new state, bind the arenas with exchanged roles. Functions of the
 * sections State and Checkpoints use the state_out that is bound. On CUDA, after the caller has written to an arena,
 * for example to restore a copy, call this function with NULL and NULL, and then bind the arena again (docs/cuda.md).
 *
 * @param opt changed.
 * @param state_in arena that steps read. It must contain the state of an optimizer with an equal plan.
 * @param state_out arena that steps write: state_in itself for steps in place, otherwise without overlap. Both are
 *     memory of the optimizer's device, aligned to 64 bytes, of the size that shampoo_plan_bytes() returns for "state".
 *     Both NULL: the arena with which the optimizer was created.
 * @retval SHAMPOO_E_INVALID only one of the two is NULL, an address is misaligned, or the arenas overlap in part.
 */
shampoo_status shampoo_optimizer_bind_state(shampoo_optimizer* opt, const void* state_in, void* state_out);

/**
 * Changes a hyper-parameter of a group from the next step on, for example for a learning-rate schedule.
 *
 * @param opt changed.
 * @param group a group of the plan; 0 is the group of the plan's own config.
 * @param key a key whose shampoo_key_info.changeable is 1: "lr", "beta1", "beta2", "epsilon", "root_relative_epsilon",
 *     "momentum", "weight_decay", "grafting_beta2", "grafting_epsilon", "shampoo_beta", "adam_lr" or "gradient_scale".
 * @param value in the range of the key and of the computation dtype of the group's blocks. With method shampoo, epsilon
 *     and root_relative_epsilon must stay above 0 if they are above 0 in the plan, and must stay 0 if they are 0 in the
 *     plan. With grafting=adagrad, grafting_beta2 must stay 1.
 * @retval SHAMPOO_E_INVALID there is no such group or key, the key cannot be changed or is not read by the group's
 *     method, or the value is out of range.
 * @retval SHAMPOO_E_STATE key is beta1 or momentum, and is 0 in the plan, which therefore has no state for it. Create
 *     the plan with a value above 0, and set the key to 0 until it is needed.
 */
shampoo_status shampoo_optimizer_set(shampoo_optimizer* opt, int32_t group, const char* key, double value);

/**
 * Returns the value of a hyper-parameter of a group, as the config or the last shampoo_optimizer_set() has set it. On
 * the CPU, if a scalar is bound to the key, this is the number that the last step has read. If the value is "auto", or
 * -1 for "start_preconditioning_step", this function returns the number that the library uses, if it is the same for
 * all blocks. If "threads" is 0, it returns the largest number of threads that a step can use.
 *
 * @param opt read.
 * @param group a group of the plan; 0 is the group of the plan's own config.
 * @param key a key of type "f64", "i64" or "bool" (0 or 1).
 * @param value_out receives the value.
 * @retval SHAMPOO_E_INVALID there is no such group or key; the value is not a number; or the value is "auto", and the
 *     number that the library uses depends on the block ("root_rank_rtol", "relative_epsilon", "kl_init", "kl_cap") or
 *     does not exist, because the group's method does not read the key.
 */
shampoo_status shampoo_optimizer_get(const shampoo_optimizer* opt, int32_t group, const char* key, double* value_out);

/**
 * Makes one step of all groups.
 *
 * A step first checks its inputs:
 * - all parameters are bound, and factor matrices whose inverse roots are due are finite;
 * - no gradient (with coupled weight decay, also no parameter) has NaN, infinity or a value that overflows a state.
 *
 * If a check fails, the step fails. Parameters and step counters are then unchanged, and so is the state, except in
 * some cases with replicas (docs/many_ranks.md). The caller may continue, for example with a lower loss scale. If only
 * the second check fails, the key "on_nonfinite" can let the step succeed instead: skip_block skips the affected
 * blocks, and skip_step skips all blocks. out and copy of a skipped block are written as for a missing gradient.
 *
 * Two problems are found after the step has written states. The step then logs and counts them, and succeeds:
 * - An inverse root cannot be computed (docs/roots.md). The block keeps its previous root (counter "root_reused"). If
 *   more than "root_failure_tolerance" refreshes of a factor matrix fail in a row, the next step fails.
 * - The direction of a block is not finite, or the momentum, out or copy would overflow. With several ranks, the step
 *   may find only now that another state would overflow. The update of the block is skipped (counter
 *   "nonfinite_blocks"). If "on_nonfinite" is error, the default, the next step fails.
 *
 * With several ranks the call is collective: if it fails on one rank, it fails on all (docs/many_ranks.md has
 * exceptions). On the CPU it blocks until the step is done. On CUDA (docs/cuda.md) the step is enqueued on the stream
 * and checks its inputs there; by default a later call reports its errors ("status_lag"). CUDA graphs can capture it.
 *
 * @param opt stepped.
 * @param stream on CUDA the stream of the step. NULL on the CPU.
 * @retval SHAMPOO_OK parameters, copies and state are written; on CUDA they will be, in the order of stream.
 * @retval SHAMPOO_E_INVALID a bound scalar is out of range, a key has different values on different ranks, or a
 *     gradient is NULL on some ranks only.
 * @retval SHAMPOO_E_STATE a parameter has never been bound: call shampoo_optimizer_bind(), with grad NULL if it has no
 *     gradient. Or a failed load has left the state unusable, a step counter is out of range, or step counters or (with
 *     "verify_replicas") parameters differ between ranks. On CUDA also: a step at which roots are due was captured, a
 *     graph was replayed at such a step, or the caller wrote to the arena (shampoo_optimizer_bind_state()).
 * @retval SHAMPOO_E_NUMERIC a gradient is not finite, or a state would overflow: the error names the element and what
 *     to try. Or a factor matrix is not finite, its root has failed too often, or the last step has skipped an update.
 * @retval SHAMPOO_E_COMM a collective has failed, or a CUDA call has failed in an earlier step with several ranks.
 *     Parameters may be partly written, and every later step fails.
 */
shampoo_status shampoo_optimizer_step(shampoo_optimizer* opt, void* stream);

/**
 * Writes averages of the parameters, for evaluation and for use after training: (1 - blend) times the parameter plus
 * blend times its average. The keys "averaging" and "weight_ema" select the average. Parameters without an average are
 * copied. Parameters and state are unchanged. With replicas or shard_mode=gather, the call is collective and blocks. On
 * CUDA it is enqueued on the optimizer's last stream, which must not be in a capture.
 *
 * @param opt read.
 * @param blend in [0, 1]; 1 writes the averages.
 * @param count the number of parameters of the plan.
 * @param weights for each parameter, memory that receives the result for the elements that this rank holds. It has the
 *     form of shampoo_buffers.out. It must not overlap the parameter, but may be the gradient. NULL: no result.
 * @retval SHAMPOO_E_STATE a parameter has never been bound, a failed load has left the state unusable, step counters or
 *     parameters differ between ranks, another rank makes a step, or the optimizer's last stream is in a capture.
 */
shampoo_status shampoo_optimizer_export(shampoo_optimizer* opt, double blend, int32_t count, void* const* weights);

/**
 * Reports the first error of the CUDA steps that were enqueued since the last report, as shampoo_optimizer_step() would
 * report it. Failed roots and skipped updates are not reported here, but by the next step. On the CPU there is never
 * anything to report. On CUDA with several ranks the call is collective. If it waits (see wait), it blocks until all
 * steps are done, including replays on the optimizer's last stream.
 *
 * @param opt queried.
 * @param wait 0: report only what is known without waiting; several ranks on CUDA always wait. Any other value: wait.
 * @param step_out receives the number of the failed step, or 0 if no step failed. Calls of shampoo_optimizer_step()
 *     that enqueued a step are numbered from 1; a graph replay has the number of the captured call. May be NULL.
 * @retval SHAMPOO_OK no step has failed since the last report.
 * @return otherwise the code with which shampoo_optimizer_step() would have failed, or SHAMPOO_E_COMM.
 */
shampoo_status shampoo_optimizer_status(shampoo_optimizer* opt, int32_t wait, int64_t* step_out);

/**
 * Returns the message of the last failed call with this optimizer, on any thread. Functions that take the optimizer as
 * a const pointer, such as shampoo_optimizer_get(), do not store their messages here.
 *
 * @param opt queried. NULL gives "".
 * @return the message; "" if no call has failed. Valid until the next call with the optimizer.
 */
const char* shampoo_optimizer_error(const shampoo_optimizer* opt);

/**
 * Returns a counter or another statistic of the optimizer. All are 0 in a new optimizer, unless noted. On CUDA they
 * include only the steps whose outcome a later call has read from the device. Their names:
 *
 * - "steps": steps made.
 * - "step.G": step counter of group G. It is part of the state, so loading or writing the state sets it. A step without
 *   a gradient in the group does not count, unless the key "count_empty_steps" is true. On CUDA the call blocks: it
 *   reads the counter in the order of the optimizer's last stream, and does not wait for replays on other streams.
 * - "skipped_steps": steps skipped because of on_nonfinite=skip_step; they are not among "steps".
 * - "nonfinite_blocks": how often a block caused a skip, because its gradient or its direction was not finite, or
 *   because a state, out or copy would have overflowed. With on_nonfinite=skip_step, the other blocks of a skipped step
 *   are not counted. With shard_mode=gather, a rank counts blocks that it owns or of which it holds elements.
 * - "root_computed": inverse roots and eigenbases computed. Of these, by method: "root_scalar", "root_diagonal",
 *   "root_eigen", "root_newton", "root_higher_order", "root_cans".
 * - "root_retried": roots that the recovery ladder (docs/roots.md) computed after the first attempt failed. Of these,
 *   by rung: "root_retried_float64", "root_retried_eigen", "root_retried_dsyevr", "root_retried_dsyev" and, only on
 *   CUDA, "root_retried_device" and "root_retried_device_newton".
 * - "root_reused": previous roots kept because every rung failed.
 * - "seconds.check", "seconds.factor_update", "seconds.roots", "seconds.preconditioning", "seconds.elementwise": the
 *   time that all steps together spent in the named phase, in seconds; 0 unless "track_times" is true. On the CPU, the
 *   times of all threads are added. On CUDA, the time is measured in the stream.
 * - "root_error.STAT" and "root_residual.STAT", if "track_root_residuals" is true: errors of the inverse roots of the
 *   last refresh (docs/roots.md). STAT is mean, median, p90 (the 90th percentile) or max over all factor matrices. STAT
 *   can also be worst: the index of the matrix with the largest error (docs/roots.md), or -1 if nothing is tracked.
 *
 * @param opt queried.
 * @param key one of the names above.
 * @param value_out receives the number.
 * @retval SHAMPOO_E_STATE for "step.G": a failed load has left the state unusable, or the last stream is in a capture.
 */
shampoo_status shampoo_optimizer_stat(const shampoo_optimizer* opt, const char* key, double* value_out);

/* ====================================================================================================================
 * State: named entries
 *
 * The state is everything that an optimizer keeps between steps, as named arrays (*entries*). Names are the same for
 * all optimizers with equal plans. If such an optimizer gets a copy of all entries, its steps are bit-identical.
 *
 * "group.g/step" is one I64: the number of steps of group g. All other names begin with the name of a parameter and the
 * index of a block within it, from 0. For example, "w/0/factor.1" is the factor matrix of dim 1 in block 0 of "w".
 * docs/checkpoints.md lists the states of each method with their shapes.
 * ================================================================================================================= */

/** An entry of the state. Begin with SHAMPOO_STATE_ENTRY_INIT. */
typedef struct shampoo_state_entry {
  /** sizeof(shampoo_state_entry), set by the _INIT macro. */
  size_t struct_size;
  /** Name, unique within the optimizer. Valid as long as the optimizer lives. */
  const char* key;
  /** Shape in elements, outermost dim first; ndim entries, the others are 0. */
  int64_t shape[8];
  /** If the elements correspond one-to-one to those of the block: index of the block's first element in the whole
   * flattened parameter. Otherwise -1, for example for coordinates in an eigenbasis. */
  int64_t flat_offset;
  /** Size in the arena, in bytes. Factor matrices and inverse roots of size 128 and above, and all factor matrices of
   * methods soap and kl_shampoo, are stored as one triangle. Reading and writing always use the full matrix. */
  int64_t stored_bytes;
  /** Number of dims. */
  int32_t ndim;
  /** Dtype of the elements that are read and written. */
  int32_t dtype;
  /** 1: a symmetric matrix. 0: anything else. */
  int32_t symmetric;
  /** 1: a state of a block whose shampoo_block_info.of_shard is 1. 0: anything else. */
  int32_t of_shard;
  /** Replica rank that keeps the entry: this one. Each rank lists only its own entries. */
  int32_t owner;
  /** Shard rank that keeps the entry: this one. */
  int32_t shard_owner;
} shampoo_state_entry;

/** Sets struct_size, and all other fields to 0 or NULL. */
#define SHAMPOO_STATE_ENTRY_INIT \
  { sizeof(shampoo_state_entry), NULL, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * Returns the number of entries, which depends on the plan alone.
 *
 * @param opt queried.
 * @param count_out receives the number.
 * @retval SHAMPOO_OK *count_out is set.
 */
shampoo_status shampoo_state_count(const shampoo_optimizer* opt, int64_t* count_out);

/**
 * Describes an entry. The order of entries depends on the plan alone.
 *
 * @param opt queried.
 * @param index in [0, number of entries).
 * @param entry filled; struct_size must be set.
 * @retval SHAMPOO_E_INVALID index is out of range.
 */
shampoo_status shampoo_state_describe(const shampoo_optimizer* opt, int64_t index, shampoo_state_entry* entry);

/**
 * Copies elements of an entry out of the state. Blocks until the copy is done.
 *
 * @param opt read.
 * @param index in [0, number of entries).
 * @param first index of the first element, row-major in the entry's shape; for a symmetric entry, in the full matrix.
 * @param count number of elements.
 * @param dst receives `count` elements of the entry's dtype.
 * @param dst_bytes size of dst in bytes.
 * @param dst_device_type where dst is: SHAMPOO_CPU, or SHAMPOO_CUDA if the optimizer is there.
 * @param stream on CUDA the stream of the copy. NULL on the CPU.
 * @retval SHAMPOO_E_INVALID index or elements are out of range, or dst_bytes is too small.
 * @retval SHAMPOO_E_UNSUPPORTED dst_device_type is neither SHAMPOO_CPU nor that of the optimizer.
 */
shampoo_status shampoo_state_read(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, void* dst,
                                  size_t dst_bytes, int32_t dst_device_type, void* stream);

/**
 * Copies elements into an entry of the state. Blocks until the copy is done.
 *
 * @param opt changed.
 * @param index in [0, number of entries).
 * @param first index of the first element, row-major in the shape of the entry; for a symmetric entry, in the full
 *     matrix, of which the elements on and below the diagonal are used.
 * @param count number of elements.
 * @param src array of `count` elements of the entry's dtype.
 * @param src_bytes size of src in bytes.
 * @param src_device_type where src is: SHAMPOO_CPU, or SHAMPOO_CUDA if the optimizer is there.
 * @param stream on CUDA the stream of the copy. NULL on the CPU.
 * @retval SHAMPOO_E_INVALID index or elements are out of range, or src_bytes is too small.
 * @retval SHAMPOO_E_UNSUPPORTED src_device_type is neither SHAMPOO_CPU nor that of the optimizer.
 */
shampoo_status shampoo_state_write(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, const void* src,
                                   size_t src_bytes, int32_t src_device_type, void* stream);

/* ====================================================================================================================
 * Checkpoints: the state of a job in files, for jobs with any number of ranks; docs/checkpoints.md
 * ================================================================================================================= */

/**
 * Saves the states of the optimizers of all ranks as one checkpoint: safetensors files and a JSON index. The parameters
 * are not saved: the caller must save them.
 *
 * The index is written last. If a save fails or is killed, earlier checkpoints in the directory remain intact. A
 * successful save removes old checkpoints; the largest "checkpoint_keep" of all optimizers is the number that remains.
 * The call is collective over world, and blocks until the files have been written to disk.
 *
 * @param opts the optimizers of this rank. Usually each rank has one optimizer with the same plan, but ranks may have
 *     different optimizers, for example in a mixture of experts. Two optimizers of a rank must not have parameters of
 *     the same name. Equal names on different ranks mean one parameter: its dtype, shape, step counter and
 *     hyper-parameters must be the same on these ranks. If several ranks keep states of the same elements, for example
 *     replicas without a replica_comm, these ranks must have equal plans and states.
 * @param count number of optimizers of this rank, >= 0.
 * @param world communicator of all ranks of the job. It may take device memory only if every rank has an optimizer on
 *     CUDA (otherwise SHAMPOO_E_UNSUPPORTED). NULL: one rank.
 * @param directory path that all ranks see. It is created if it does not exist; its parent must exist.
 * @param stream on CUDA the stream of the copies. NULL on the CPU.
 * @retval SHAMPOO_E_INVALID an argument is wrong on some rank, names clash, or an optimizer has more ranks than world.
 * @retval SHAMPOO_E_STATE a failed load has left the state of an optimizer unusable.
 * @retval SHAMPOO_E_IO a file could not be written. The error is the same on all ranks.
 * @retval SHAMPOO_E_COMM a collective failed. The new checkpoint may be complete or missing. Ranks on which no
 *     collective failed keep waiting, unless the communicator has an abort function.
 */
shampoo_status shampoo_save(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                            void* stream);

/**
 * Loads a checkpoint, which any number of ranks can have saved. Training continues with bit-identical results if blocks
 * and hyper-parameters are the same and the caller restores the parameters.
 *
 * Names and shapes of parameters, dtypes of states and "method" must match. Some values of "grafting" and
 * "second_moment" add a state, and others do not. For each of the two keys, if the saved value and the value of the
 * optimizer both add a state, these values must match. The checkpoint must have every state that the optimizers need
 * (docs/checkpoints.md). Other hyper-parameters are those of the loading optimizer; the log lists the differences. The
 * key "on_block_mismatch" selects how to treat blocks that the checkpoint does not have, for example because
 * "shard_mode" is local and the number of shards differs; by default the load fails. A load that fails leaves the
 * optimizers unchanged, with one exception: a failure while large states are written can make the optimizers unusable.
 * Steps then fail with SHAMPOO_E_STATE until a load succeeds. The call is collective over world, and blocks until the
 * load is done.
 *
 * @param opts the optimizers of this rank. Together, the optimizers of all ranks must have all parameters of the
 *     checkpoint. If arenas are bound, state_out is written: bind it as the next state_in.
 * @param count number of optimizers of this rank, >= 0.
 * @param world as for shampoo_save().
 * @param directory a directory, whose last checkpoint is loaded, or the path of the index of a checkpoint.
 * @param stream on CUDA the stream of the copies. NULL on the CPU.
 * @retval SHAMPOO_E_INVALID an argument is wrong, or the checkpoint does not match; the error names a difference.
 * @retval SHAMPOO_E_IO there is no checkpoint, or a file is missing, unreadable or damaged. All ranks report the error.
 * @retval SHAMPOO_E_UNSUPPORTED the format is too new, or world takes device memory and a rank has no CUDA optimizer.
 * @retval SHAMPOO_E_COMM a collective failed. Other ranks may keep waiting, as described for shampoo_save().
 */
shampoo_status shampoo_load(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                            void* stream);

/* ====================================================================================================================
 * Matrix functions of the methods, on host memory. They allocate their workspace and run on the calling thread.
 * ================================================================================================================= */

/** How a root was computed. Begin with SHAMPOO_ROOT_INFO_INIT. */
typedef struct shampoo_root_info {
  /** sizeof(shampoo_root_info), set by the _INIT macro. */
  size_t struct_size;
  /** Method of the result: 0 scalar (n is 1), 1 diagonal (all elements off the diagonal are 0), 2 eigen, 3 newton,
   * 4 higher_order, 5 cans. */
  int32_t method;
  /** Iterations of an iterative method; otherwise 0. */
  int32_t iterations;
  /** 1: converged to root_tolerance; with methods 0, 1, 2 and 5, always 1. 0: stopped at root_max_iterations; x is the
   * last iterate, so check residual. -1: stopped before root_tolerance was reached, because x no longer improved. */
  int32_t converged;
  /** Number of further attempts by the recovery ladder; 0 if the first attempt succeeded. */
  int32_t retried;
  /** Largest element of |A x^p - I|, in float64. A is the argument `a` + e I, with negative eigenvalues corrected
   * (docs/roots.md), and p is root_num / (root_den * exponent_multiplier). With pseudo_inverse, the projector onto the
   * kept eigenvectors replaces I. NaN if x^p or the projector cannot be computed; 0 if exponent_multiplier is 0. */
  double residual;
} shampoo_root_info;

/** Sets struct_size, and all other fields to 0 or NULL. */
#define SHAMPOO_ROOT_INFO_INIT \
  { sizeof(shampoo_root_info), 0, 0, 0, 0, 0.0 }

/**
 * Computes the inverse root x = (a + e I)^(-exponent_multiplier * root_den / root_num) of a symmetric matrix, as a step
 * does with a factor matrix, including the recovery ladder. e is root_relative_epsilon times the mean eigenvalue of `a`
 * (its trace divided by n), or, if the key "epsilon" is above 0, epsilon. With root_method=higher_order, epsilon is
 * relative to a bound on the largest eigenvalue. With root_relative_epsilon above 0, the root of a matrix of zeros and
 * subnormal numbers is the identity. docs/roots.md describes the methods (key "root_method"), negative eigenvalues and
 * root_rank_handling=pseudo_inverse. If newton or higher_order stops at root_max_iterations, this function returns the
 * last iterate (info->converged is 0), whereas a step uses it only if its residual is small.
 *
 * @param config read: "epsilon" (which may be 0 here), "exponent_multiplier", "row_sum_epsilon", and all keys that
 *     begin with "root_". If "root_dtype" is auto, dtype is used.
 * @param n number of rows and of columns of the matrix, 1..32750.
 * @param dtype of `a` and x: SHAMPOO_F32 or SHAMPOO_F64.
 * @param a n * n elements, row-major, symmetric. Elements on and below the diagonal are read.
 * @param x receives n * n elements, row-major, exactly symmetric. It may equal `a`; otherwise the two must not overlap.
 * @param root_num numerator of the degree of the root, >= 1. The inverse fourth root has root_num 4 and root_den 1.
 * @param root_den denominator of the degree, >= 1. With root_method=newton, it must divide root_num.
 * @param info filled; struct_size must be set. May be NULL.
 * @retval SHAMPOO_E_INVALID n, dtype or the root is out of range, or values of the config contradict each other.
 * @retval SHAMPOO_E_NUMERIC `a` has a NaN or infinity, or no finite root was found, for example because epsilon is 0
 *     and an eigenvalue is not above 0. x is unchanged.
 */
shampoo_status shampoo_matrix_inverse_root(const shampoo_config* config, int64_t n, int32_t dtype, const void* a,
                                           void* x, int32_t root_num, int32_t root_den, shampoo_root_info* info);

/**
 * Orthogonalizes a matrix, as a step of method muon does: x is close to U V^T if `a` is U diag(s) V^T. Multiplying
 * `a` by a power of two does not change x. The x of a matrix of zeros is zeros.
 *
 * @param config read: "orthogonalization", "ns_coefficients", "ns_steps" and "ns_norm" (keys of methods muon and soap).
 * @param rows number of rows, >= 1.
 * @param columns number of columns, >= 1. min(rows, columns) is at most 32750, and rows * columns at most 2^31 - 1.
 * @param dtype of `a` and x: SHAMPOO_F32 or SHAMPOO_F64.
 * @param a rows * columns elements, row-major.
 * @param x receives rows * columns elements. It may be the same address as `a`; otherwise the two must not overlap.
 * @retval SHAMPOO_E_INVALID rows, columns or dtype is out of range, or values of the config contradict each other.
 * @retval SHAMPOO_E_NUMERIC `a` has a NaN or infinity, or the iteration diverged. x is unchanged.
 */
shampoo_status shampoo_matrix_orthogonalize(const shampoo_config* config, int64_t rows, int64_t columns, int32_t dtype,
                                            const void* a, void* x);

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_H */
