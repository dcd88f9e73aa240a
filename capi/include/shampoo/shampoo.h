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
 * ====================================================================================================================
 * Introduction
 * ====================================================================================================================
 *
 * libshampoo computes the steps of Shampoo-family optimizers on raw buffers. It knows nothing of layers, autograd or
 * frameworks: the caller says once what the parameters look like, hands over pointers to parameters and gradients, and
 * asks for a step. Shampoo keeps, for every dimension of a block of a parameter, one symmetric factor matrix that sums
 * up the gradients seen so far, and multiplies the gradient from every side with an inverse root of its factor.
 *
 * This version works on the CPU and on NVIDIA GPUs (CUDA), in one process or in many that share the work through
 * communicators of the caller. A function that waits for other ranks says so ("Collective"); without a communicator
 * none does.
 *
 * Source of the method:
 * - Distributed Shampoo, arXiv 2309.06497: blocking, merging of dimensions, grafting, and the order of a step.
 * - Shampoo itself, arXiv 1802.09568: factor matrices and the exponent -1 / (2 * order).
 *
 * --------------------------------------------------------------------------------------------------------------------
 * The way: config -> plan -> optimizer -> step
 * --------------------------------------------------------------------------------------------------------------------
 *
 * 1. A *config* holds hyper-parameters by name (learning rate, decays, grafting, ...). Every key has a default.
 * 2. A *plan* takes a config and the shapes of the parameters, and works out the blocks, who owns them, and how many
 *    bytes they cost. It sees no pointer and touches no device, so it is cheap to make one only to ask what a choice
 *    would cost.
 * 3. An *optimizer* is made from a finished plan. It allocates all state, workspace and threads at once. Buffers of
 *    parameters and gradients are then bound to it.
 * 4. A *step* reads the bound buffers and the state, and writes the new parameters (or the updates) and the new state.
 *
 * A whole program, which shrinks a 4x3 matrix by following the gradient of half its squared norm:
 *
 * @code{.c}
 * #include <shampoo/shampoo.h>
 * #include <stdio.h>
 *
 * #define TRY(call) do { if ((call) != SHAMPOO_OK) { puts(shampoo_last_error()); return 1; } } while (0)
 *
 * int main(void) {
 *   float weight[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, gradient[12];
 *   shampoo_config* config;
 *   shampoo_plan* plan;
 *   shampoo_optimizer* optimizer;
 *   shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
 *   shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
 *   shampoo_optimizer_desc device = SHAMPOO_OPTIMIZER_DESC_INIT;
 *   shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
 *   int32_t index;
 *   int i, step;
 *
 *   TRY(shampoo_config_create(&config));
 *   TRY(shampoo_config_set_f64(config, "lr", 0.5));
 *   TRY(shampoo_plan_create(&plan, config, &place));
 *   param.name = "weight", param.ndim = 2, param.shape[0] = 4, param.shape[1] = 3;
 *   TRY(shampoo_plan_add_param(plan, &param, &index));
 *   TRY(shampoo_plan_finish(plan));
 *   TRY(shampoo_optimizer_create(&optimizer, plan, &device));
 *
 *   buffers.param = weight, buffers.grad = gradient, buffers.out = weight;
 *   TRY(shampoo_optimizer_bind(optimizer, index, 1, &buffers));
 *   for (step = 0; step < 200; ++step) {
 *     for (i = 0; i < 12; ++i) gradient[i] = weight[i];
 *     TRY(shampoo_optimizer_step(optimizer, NULL));
 *   }
 *   printf("weight[11] is %g\n", weight[11]);
 *
 *   shampoo_optimizer_destroy(optimizer);
 *   shampoo_plan_destroy(plan);
 *   shampoo_config_destroy(config);
 *   return 0;
 * }
 * @endcode
 *
 * --------------------------------------------------------------------------------------------------------------------
 * Rules of the whole file
 * --------------------------------------------------------------------------------------------------------------------
 *
 * Language. The header is C89 with <stdint.h>, and C++98. No enum, bool, unsigned 64-bit integer, variable argument
 * list or struct by value stands in a signature, so that every foreign-function interface can call it. Platforms are
 * 64-bit; dtypes and flags are int32_t, element counts and indices of elements int64_t, byte sizes of memory size_t.
 *
 * Ownership.
 * - An object delivered through a first argument `T** out` belongs to the caller, who ends it with the destroy
 *   function of its type. On failure *out is left as it was.
 * - Every destroy function accepts NULL, works on any thread, and waits for work of that object to end.
 * - Everything else that a function hands out (a string, a pointer) belongs to the library. Its lifetime is told at
 *   the function or field; never free it.
 * - Strings passed in are UTF-8, end with a zero byte, and are copied. Structs passed in are copied before the call
 *   returns. Buffers of parameters, gradients and state that are *bound* are kept as pointers: they must live until
 *   they are bound anew or the optimizer is destroyed.
 * - Objects are independent once made: a config may be destroyed after the plan, a plan after the optimizer.
 *
 * Structs and struct_size. Every struct begins with struct_size, the plain sizeof of the struct that the caller was
 * compiled with; the _INIT macro of the struct sets it, and all other fields to their defaults. Always begin with the
 * macro. This lets old callers run with new libraries, and new callers with old ones:
 * - the library reads (or, where it fills the struct, writes) the smaller of the caller's size and its own;
 * - fields that the caller's struct does not have yet count as 0, so 0 always means what it meant before;
 * - a size below that of version 0.1 is SHAMPOO_E_INVALID: most often a forgotten _INIT macro;
 * - nonzero bytes beyond what the library knows, in a struct that it reads, are SHAMPOO_E_UNSUPPORTED: the caller asks
 *   for something that this library is too old for.
 * Fields are only ever added at the end, and never into tail padding.
 *
 * Errors. Functions that can fail return shampoo_status; SHAMPOO_OK is 0. On failure the thread's last error
 * (shampoo_last_error) tells which argument or key was wrong, its value, what was expected and what to do next. Only a
 * failing call changes it. A call that fails changes nothing, unless its text says so. SHAMPOO_E_NOMEM can come from
 * every function that returns a status and SHAMPOO_E_INTERNAL, a bug of the library, from all: they are listed only
 * where there is something particular to do. No exception leaves the library.
 *
 * Threads. Four rules, referred to below by name:
 * - "any": callable at every time from every thread, whatever other threads do;
 * - "config": one config is used by one thread at a time, where a function that takes a const config only reads it, so
 *   that any number of such calls may overlap;
 * - "plan": until shampoo_plan_finish one thread at a time; a finished plan is read by any number of threads;
 * - "optimizer": one optimizer is used by one thread at a time (not always the same one). Distinct optimizers may be
 *   used from distinct threads at once.
 *
 * Blocking. Calls are synchronous on the CPU: when a function returns, its work is done. "Blocks: no" below means that
 * the call does not wait for other threads and takes time in proportion to its arguments at most. On CUDA a step is put
 * into a stream, and the call returns before it is done: see shampoo_optimizer_step().
 *
 * Streams. Arguments named stream are for devices with queues of work. On the CPU there is none: stream must be NULL,
 * anything else is SHAMPOO_E_INVALID. On CUDA it is a cudaStream_t of the device of the optimizer, and NULL is the
 * legacy default stream. What a call reads was written by work that is in the stream already; what it writes is there
 * for work that is put into the stream later. Calls in other streams are the caller's to order. The current device of
 * the thread is as it was when a function returns.
 *
 * Processes. Nothing starts when the library is loaded: no thread, no device call. What is for CUDA lies in a library
 * of its own, libshampoo_cuda.so, which is loaded when it is first needed (shampoo_backend_load()). It sets no
 * environment variable and depends on none (the private BLAS inside reads its own, to choose its kernels); it changes
 * no locale, no signal handler and no floating-point mode. Floating-point traps are masked while a call runs, on every
 * thread that works on it and in callbacks; traps and exception flags are as before when it returns. Create optimizers
 * after fork, not before: threads do not live on in a child. A child may destroy an optimizer of the CPU that its
 * parent made, and do nothing else with it. dlclose is harmless: the library stays mapped.
 *
 * Determinism. The same inputs give the same bits on every run and with every number of threads, on one kind of CPU; on
 * CUDA the same bits on every run, on one kind of GPU and with the same libraries of CUDA.
 *
 * Marked "since": the version of libshampoo in which a function first appeared. Names beginning with shampoo_ or
 * SHAMPOO_ belong to the library.
 */

/* ====================================================================================================================
 * Version
 * ================================================================================================================= */

/**
 * Major version of this header; shampoo_version() tells that of the library that was loaded. Before 1.0 a new minor
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

/* ====================================================================================================================
 * Status
 * ================================================================================================================= */

/** Result of a call: SHAMPOO_OK, or one of the SHAMPOO_E_ codes. Codes are never renumbered; new ones may appear. */
typedef int32_t shampoo_status;

enum {
  /** Success. */
  SHAMPOO_OK = 0,
  /** An argument or a value of a config is wrong: fix the call. Repeating it as it is fails again. */
  SHAMPOO_E_INVALID = 1,
  /** The call is right and the moment is wrong, such as a step before bind: fix the order of the calls. */
  SHAMPOO_E_STATE = 2,
  /** This version, build or machine cannot do it: another build, backend or device may. */
  SHAMPOO_E_UNSUPPORTED = 3,
  /** Memory or another resource of the system ran out: free some, or ask for less (smaller blocks, fewer threads). */
  SHAMPOO_E_NOMEM = 4,
  /** NaN or infinity was met: look at gradients, learning rate, epsilon and loss scale. The caller may go on. */
  SHAMPOO_E_NUMERIC = 5,
  /** A collective failed: tear the job down. */
  SHAMPOO_E_COMM = 6,
  /** A GPU or its runtime failed: end the process, as CUDA is of no more use in it. Every function that takes an
   * optimizer on CUDA can return it; it is listed nowhere else. */
  SHAMPOO_E_DEVICE = 7,
  /** A file is missing, unreadable or damaged, or the disk is full; the text names the file. */
  SHAMPOO_E_IO = 8,
  /** A bug of the library: please report it, with the text of shampoo_last_error() and shampoo_build_info(). */
  SHAMPOO_E_INTERNAL = 9
};

/* ====================================================================================================================
 * Types that every section uses
 * ================================================================================================================= */

/**
 * Types of elements (dtypes). Parameters and gradients are of one of the four floating-point types; integers occur only
 * in entries of the state. Values are stored in the byte order of the machine, without padding between elements.
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

/** Hyper-parameters by name: see the section Config. */
typedef struct shampoo_config shampoo_config;
/** Parameters cut into blocks, with owners and byte counts: see the section Plan. */
typedef struct shampoo_plan shampoo_plan;
/** A group of ranks: see the section Communicators. */
typedef struct shampoo_comm shampoo_comm;
/** State and the machinery that steps it: see the section Optimizer. */
typedef struct shampoo_optimizer shampoo_optimizer;

/* ====================================================================================================================
 * Library: version, errors, log, backends
 * ================================================================================================================= */

/**
 * Version of the library that is loaded, to be compared with the SHAMPOO_VERSION_ macros of the header.
 *
 * Blocks: no. Threads: any.
 *
 * @return major * 10000 + minor * 100 + patch: 100 for 0.1.0.
 * @since 0.1
 */
int32_t shampoo_version(void);

/**
 * What this build is, for logs and bug reports.
 *
 * Blocks: no. Threads: any.
 *
 * @return one JSON object as text: version, compiler, the BLAS and the kernel of it that runs on this CPU, and what
 *     this version knows: "backends" (shampoo_backend_describe() tells which of them can be used here) and
 *     "root_methods". Readers skip members that they do not know. Never NULL; it lives as long as the library.
 * @since 0.1
 */
const char* shampoo_build_info(void);

/**
 * Name of a status code.
 *
 * Blocks: no. Threads: any.
 *
 * @param status any number.
 * @return its spelling in this header, such as "SHAMPOO_E_STATE"; "unknown status" for a number that is none. Never
 *     NULL; it lives as long as the library.
 * @since 0.1
 */
const char* shampoo_status_name(shampoo_status status);

/**
 * Text of the last failure of a call on this thread. Success does not clear it, so look at it only after a failure.
 * For the failures of one optimizer, whatever the thread, see shampoo_optimizer_error().
 *
 * Blocks: no. Threads: any; each has a text of its own.
 *
 * @return the text, in English, without a newline at its end; "" where no call has failed yet. Never NULL. It is valid
 *     until this thread's next call of the library: copy it to keep it. It has at most 4095 bytes; a longer one is cut
 *     and ends in " ... (cut off)".
 * @since 0.1
 */
const char* shampoo_last_error(void);

/**
 * Receives messages of the library. It is called only on a thread that is inside a call of the library, possibly on
 * several such threads at once. It must return (no exception, no longjmp) and must not call the library with an object
 * that the interrupted call is using; shampoo_set_log() is allowed.
 *
 * @param user the pointer given to shampoo_set_log().
 * @param level 0 error, 1 warning, 2 information, 3 debugging.
 * @param message one message, without a newline at its end; valid during the call only.
 */
typedef void (*shampoo_log_callback)(void* user, int32_t level, const char* message);

/**
 * Sets the one log callback of the process. Without one, which is how the library starts, messages are dropped:
 * nothing is ever printed. A message that is being delivered on another thread meanwhile may still reach the earlier
 * callback shortly after this function has returned.
 *
 * Blocks: no. Threads: any.
 *
 * @param callback called for each message; NULL: silence.
 * @param user handed to the callback as it is; the library never looks behind it.
 * @param max_level messages above this level are not delivered: 0 errors only ... 3 everything.
 * @retval SHAMPOO_OK done.
 * @retval SHAMPOO_E_INVALID max_level is not in [0, 3].
 * @since 0.1
 */
shampoo_status shampoo_set_log(shampoo_log_callback callback, void* user, int32_t max_level);

/**
 * Loads the backend for CUDA, once per process. It need not be called: where the library lies beside this one, or where
 * the system finds it, plans and optimizers find it by themselves. Nothing asks for a driver or a GPU here;
 * shampoo_backend_describe() does.
 *
 * Blocks: while libraries are loaded. Threads: any.
 *
 * @param name_or_path "cuda": libshampoo_cuda.so.0 (0 is the major version), or else libshampoo_cuda.so, in the folder
 *     of this library, or else libshampoo_cuda.so.0 as dlopen finds it. Otherwise the path of that file. Must not be
 *     NULL.
 * @retval SHAMPOO_OK it is loaded, now or before.
 * @retval SHAMPOO_E_INVALID name_or_path is NULL or empty.
 * @retval SHAMPOO_E_STATE it was loaded from another file before.
 * @retval SHAMPOO_E_UNSUPPORTED it is not there, it needs a library that is not there (cuBLAS, cuSOLVER), or it is of
 *     another version than this library; the text tells which.
 * @since 0.1
 */
shampoo_status shampoo_backend_load(const char* name_or_path);

/**
 * Number of backends that this library knows, usable or not: 2 in this version, the CPU and CUDA.
 *
 * Blocks: no. Threads: any.
 *
 * @return the number, at least 1. It does not fall while the library is loaded.
 * @since 0.1
 */
int32_t shampoo_backend_count(void);

/** One backend, as filled by shampoo_backend_describe(). Begin with SHAMPOO_BACKEND_INFO_INIT. */
typedef struct shampoo_backend_info {
  /** sizeof(shampoo_backend_info); set by the _INIT macro. */
  size_t struct_size;
  /** Name of the backend: "cpu" or "cuda". It lives as long as the library. */
  const char* name;
  /** Why the backend cannot be used on this machine, as a sentence; "" if it can. It lives as long as the library. */
  const char* unavailable_reason;
  /** 1: optimizers can be created on it; 0: they cannot, for the reason in unavailable_reason. */
  int32_t usable;
  /** Devices that it found; the CPU counts as one. device_id of an optimizer is below this number. 0 where usable is 0.
   */
  int32_t device_count;
} shampoo_backend_info;

/** The size set, all else empty. */
#define SHAMPOO_BACKEND_INFO_INIT \
  { sizeof(shampoo_backend_info), NULL, NULL, 0, 0 }

/**
 * Describes a backend. For CUDA it loads libshampoo_cuda.so if that is not loaded yet, and asks the driver: as with
 * every use of CUDA, not in a process that is to fork and use it in the child.
 *
 * Blocks: while libraries and the driver are loaded. Threads: any.
 *
 * @param index in [0, shampoo_backend_count()): 0 is the CPU, 1 is CUDA.
 * @param info filled; struct_size must be set before. Must not be NULL.
 * @retval SHAMPOO_OK info is filled.
 * @retval SHAMPOO_E_INVALID index is out of range, or info is NULL or has a wrong struct_size.
 * @since 0.1
 */
shampoo_status shampoo_backend_describe(int32_t index, shampoo_backend_info* info);

/* ====================================================================================================================
 * Config: hyper-parameters by name
 *
 * A config maps every key to a value; a new one holds the defaults. A value is checked when it is set: type, range,
 * spelling. Rules that span several keys (epsilon and root_relative_epsilon must not both be set) are checked when a
 * plan takes the config. The key "preset" replaces the defaults of keys that are not set: "shampoo_2024" has those of
 * the July 2024 release of the reference implementation.
 *
 * The table of keys, with type, default, range and meaning of each, is part of the library, so that it never differs
 * from what the library does: shampoo_config_key_count() and shampoo_config_describe_key() enumerate it, and
 * docs/keys.md is made from it. The key most often set is "lr", the learning rate, whose best value is about 2 to 4
 * times that of AdamW; then "weight_decay", "grafting", the method that sets the length of each block's step (adam by
 * default), "precondition_frequency", steps between two computations of the inverse roots (25), and
 * "max_preconditioner_dim", the largest dimension of a block (1024).
 *
 * Values as text are spelt alike in every locale: numbers with a point, "true" and "false" (or "1" and "0"), choices by
 * name, dtypes as "f32", "f64", "f16", "bf16", lists with commas ("0,2,4"). Keys whose default is "auto" take "auto"
 * back. NaN and infinity are in no range.
 * ================================================================================================================= */

/**
 * Makes a config in which every key has its default.
 *
 * Blocks: no. Threads: any.
 *
 * @param out receives the config, which the caller ends with shampoo_config_destroy(). Must not be NULL.
 * @retval SHAMPOO_OK *out is set.
 * @retval SHAMPOO_E_INVALID out is NULL.
 * @since 0.1
 */
shampoo_status shampoo_config_create(shampoo_config** out);

/**
 * Makes a config with the values of another, such as for a second parameter group that differs in two keys.
 *
 * Blocks: no. Threads: config, which is only read.
 *
 * @param out receives the new config, which the caller ends with shampoo_config_destroy(). Must not be NULL.
 * @param config whose values are copied; the two are independent afterwards. Must not be NULL.
 * @retval SHAMPOO_OK *out is set.
 * @retval SHAMPOO_E_INVALID out or config is NULL.
 * @since 0.1
 */
shampoo_status shampoo_config_clone(shampoo_config** out, const shampoo_config* config);

/**
 * Ends a config. Plans that were made from it have copied its values and are not affected.
 *
 * Blocks: no. Threads: config.
 *
 * @param config to be ended, with all strings that shampoo_config_get() returned for it; NULL is allowed.
 * @since 0.1
 */
void shampoo_config_destroy(shampoo_config* config);

/**
 * Sets a key of type "f64".
 *
 * Blocks: no. Threads: config.
 *
 * @param config to be changed. Must not be NULL.
 * @param key name of a key of type "f64".
 * @param value within the range of the key.
 * @retval SHAMPOO_OK the value is set.
 * @retval SHAMPOO_E_INVALID there is no such key (the error proposes a near name), it is of another type (the error
 *     names the function to use), the value is out of range, or a pointer is NULL. The value is as before.
 * @since 0.1
 */
shampoo_status shampoo_config_set_f64(shampoo_config* config, const char* key, double value);

/**
 * Sets a key of type "i64", "bool" or "f64" from an integer.
 *
 * Blocks: no. Threads: config.
 *
 * @param config to be changed. Must not be NULL.
 * @param key name of a key of type "i64", "bool" or "f64".
 * @param value within the range of the key; of a "bool" 0 is false and 1 is true.
 * @retval SHAMPOO_OK the value is set.
 * @retval SHAMPOO_E_INVALID there is no such key, it is of another type, the value is out of range (of a "bool":
 *     neither 0 nor 1), or a pointer is NULL. The value is as before.
 * @since 0.1
 */
shampoo_status shampoo_config_set_i64(shampoo_config* config, const char* key, int64_t value);

/**
 * Sets a key of any type from text: what a command line or a settings file gives can be handed on as it is.
 *
 * Blocks: no. Threads: config.
 *
 * @param config to be changed. Must not be NULL.
 * @param key name of any key.
 * @param value the value in the spelling given at the head of this section; blanks and tabs around it are skipped. Must
 *     not be NULL.
 * @retval SHAMPOO_OK the value is set.
 * @retval SHAMPOO_E_INVALID there is no such key, the text cannot be read as its type, the value is out of range, or a
 *     pointer is NULL. The value is as before.
 * @since 0.1
 */
shampoo_status shampoo_config_set_str(shampoo_config* config, const char* key, const char* value);

/**
 * Value of a key as text, in a spelling that shampoo_config_set_str() reads back to the same value: numbers are in
 * their shortest exact form.
 *
 * Blocks: no. Threads: config, which is only read.
 *
 * @param config to be read. Must not be NULL.
 * @param key name of any key.
 * @return the value; it belongs to the config and is valid until the config is changed or destroyed. NULL: there is no
 *     such key, or an argument is NULL. This is an answer and no failure: the last error stays as it was.
 * @since 0.1
 */
const char* shampoo_config_get(const shampoo_config* config, const char* key);

/** One row of the table of keys. Begin with SHAMPOO_KEY_INFO_INIT. All strings live as long as the library. */
typedef struct shampoo_key_info {
  /** sizeof(shampoo_key_info); set by the _INIT macro. */
  size_t struct_size;
  /** The key, such as "lr". Names and meanings of keys are part of the API. */
  const char* name;
  /** "f64", "i64", "bool", "choice", "dtype" or "list" (of integers). */
  const char* value_type;
  /** The default as text; "auto": worked out from other keys or from the parameter, as doc tells. */
  const char* default_value;
  /** The allowed values, for people: an interval such as "[0, 1)", or the names of choices. */
  const char* range;
  /** What the key does, in one or a few sentences. */
  const char* doc;
  /** 0: of the whole optimizer, and read from the plan's own config. 1: of a parameter group. */
  int32_t scope;
  /** 1: shampoo_optimizer_set() may change it while the optimizer lives; 0: fixed when the plan takes the config. */
  int32_t changeable;
} shampoo_key_info;

/** The size set, all else empty. */
#define SHAMPOO_KEY_INFO_INIT \
  { sizeof(shampoo_key_info), NULL, NULL, NULL, NULL, NULL, 0, 0 }

/**
 * Number of keys.
 *
 * Blocks: no. Threads: any.
 *
 * @return the number; constant while the library is loaded.
 * @since 0.1
 */
int32_t shampoo_config_key_count(void);

/**
 * Describes a key. The order of keys is that of docs/keys.md; it may change between versions, names do not.
 *
 * Blocks: no. Threads: any.
 *
 * @param index in [0, shampoo_config_key_count()).
 * @param info filled; struct_size must be set before. Must not be NULL.
 * @retval SHAMPOO_OK info is filled.
 * @retval SHAMPOO_E_INVALID index is out of range, or info is NULL or has a wrong struct_size.
 * @since 0.1
 */
shampoo_status shampoo_config_describe_key(int32_t index, shampoo_key_info* info);

/* ====================================================================================================================
 * Plan: shapes in; blocks, owners and byte counts out
 *
 * A plan is filled (shampoo_plan_create, shampoo_plan_add_group, shampoo_plan_add_param, shampoo_plan_add_shard), then
 * finished, then read. It touches no device and allocates nothing but its own tables. Plans made from equal arguments
 * are equal, in every process: they do not depend on the machine, except for the number of threads where that is left
 * open.
 *
 * From a parameter to its blocks, in this order:
 * 1. Stack. The first stack_dims dims enumerate separate tensors; each is treated alone.
 * 2. Shard, with "shard_mode" local. Of a flat shard the largest dense pieces are recovered: whole slices along the
 *    first dim as one tensor, and the remainders on both sides in the same way, one dim deeper. A rectangular shard is
 *    one tensor, of local_shape. With "shard_mode" gather nothing is done here: blocks are those of the whole
 *    parameter, whatever its shards are.
 * 3. Merge (key "use_merge_dims"). Dims of 1 are dropped. Then, from right to left, a dim below "merge_min_dim" is
 *    multiplied into its neighbor, while the product is at most max_preconditioner_dim and two dims remain. With
 *    merge_min_dim 0, from left to right, the next dim is multiplied into the current one while the product fits.
 * 4. Split. Every dim is cut into chunks of max_preconditioner_dim, of which the last may be short.
 * Blocks are strided views of the parameter: nothing is copied to make them. A parameter with a dim of 0 is accepted
 * and has no blocks; a scalar is one block of shape (1).
 * ================================================================================================================= */

/** One parameter: what shampoo_plan_add_param() needs. Begin with SHAMPOO_PARAM_DESC_INIT. */
typedef struct shampoo_param_desc {
  /** sizeof(shampoo_param_desc); set by the _INIT macro. */
  size_t struct_size;
  /** Unique within the plan and the same in every run: keys of the state begin with it. Copied. Default: NULL, which
   * is refused. */
  const char* name;
  /** Number of dims, 0..8; 0 is a scalar. Default: 0. */
  int32_t ndim;
  /** How many leading dims only stack separate tensors, 0..ndim: 1 for weights of L layers kept as one array of shape
   * (L, m, n). Default: 0. */
  int32_t stack_dims;
  /** The shape in elements, outermost dim first; the parameter is row-major and dense. Of the whole parameter, even
   * where this rank holds a shard of it. Each of the first ndim entries is >= 0, the others are not read. */
  int64_t shape[8];
  /** Dtype of shampoo_buffers.param: SHAMPOO_F32 (default), F64, F16 or BF16. */
  int32_t param_dtype;
  /** Dtype of shampoo_buffers.grad: SHAMPOO_F32 (default), F64, F16 or BF16. */
  int32_t grad_dtype;
  /** A group from shampoo_plan_add_group(); 0 (default) is the group of the plan's own config. */
  int32_t group;
  /** What of the parameter this rank holds, and so what its buffers contain.
   * 0 (default): all of it.
   * 1: a flat shard, elements [flat_offset, flat_offset + flat_count) of the row-major flattened parameter.
   * 2: a rectangle of shape local_shape whose first element is at local_offset, contiguous row-major.
   * What the algorithm makes of shards is chosen by the key "shard_mode". */
  int32_t shard_form;
  /** Form 1: first element, in elements of the flattened parameter. Otherwise 0. */
  int64_t flat_offset;
  /** Form 1: number of elements; 0: this rank holds nothing of the parameter. Otherwise 0. */
  int64_t flat_count;
  /** Form 2: first index along each dim, in elements; ndim entries. Otherwise 0. */
  int64_t local_offset[8];
  /** Form 2: extent along each dim, in elements; ndim entries. Otherwise 0. */
  int64_t local_shape[8];
  /** Dtype of shampoo_buffers.out: F32, F64, F16 or BF16. Default: 0, the same as param_dtype. */
  int32_t out_dtype;
  /** Dtype of shampoo_buffers.copy: F32, F64, F16 or BF16. Default: 0, the same as param_dtype. */
  int32_t copy_dtype;
} shampoo_param_desc;

/** A float32 scalar without a name, whole, in group 0: set name, ndim and shape at least. */
#define SHAMPOO_PARAM_DESC_INIT                                                                             \
  {                                                                                                         \
    sizeof(shampoo_param_desc), NULL, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, SHAMPOO_F32, SHAMPOO_F32, 0, 0, 0, 0, \
        {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0                                            \
  }

/** One preconditioned block, as filled by shampoo_plan_block(). Begin with SHAMPOO_BLOCK_INFO_INIT. */
typedef struct shampoo_block_info {
  /** sizeof(shampoo_block_info); set by the _INIT macro. */
  size_t struct_size;
  /** Index of the parameter that it is a part of. */
  int32_t param;
  /** Replica rank that keeps its state and computes its update, in [0, replica_world). Blocks are dealt out by the key
   * "balance", the largest first, each to the rank with the least so far. */
  int32_t owner;
  /** Shard rank that keeps it. With "shard_mode" local this rank's own, as each shard is treated as a tensor of its
   * own; with gather any, as blocks are dealt out over shard ranks and replicas together. */
  int32_t shard_owner;
  /** 1: a block of this rank's shard, which is less than the parameter. 0: a block of the whole parameter. */
  int32_t of_shard;
  /** Order of the block, after merging and splitting: 1..8. It has that many factor matrices, or none if it follows
   * the grafting method alone ("precondition_1d"). */
  int32_t ndim;
  /** Shape in elements; ndim entries, the others are 0. Factor k is shape[k] x shape[k]. */
  int64_t shape[8];
  /** From one index to the next along each dim, in elements of the row-major flattened parameter; with of_shard,
   * in elements of this rank's buffer. ndim entries, the others are 0. */
  int64_t stride[8];
  /** First element of the block, counted in the same way. */
  int64_t flat_offset;
  /** Bytes of its state, as kept by its owner. */
  int64_t state_bytes;
} shampoo_block_info;

/** The size set, all else 0. */
#define SHAMPOO_BLOCK_INFO_INIT \
  { sizeof(shampoo_block_info), 0, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0 }

/** Where a plan is to be carried out. Begin with SHAMPOO_PLAN_DESC_INIT: one process, on the CPU. */
typedef struct shampoo_plan_desc {
  /** sizeof(shampoo_plan_desc); set by the _INIT macro. */
  size_t struct_size;
  /** Device that the byte counts are for, and that optimizers of the plan are made on: SHAMPOO_CPU (default) or
   * SHAMPOO_CUDA. A plan for CUDA can be made where there is none. */
  int32_t device_type;
  /** Threads that work on a step, the caller's among them, 0..4096. 0 (default): as the key "threads" says. If
   * that is 0, too: up to all processors that the process may use by its affinity mask and the CPU quota of its control
   * group; a step wakes as many threads as its work is worth. */
  int32_t threads;
  /** This process among those that hold the same parameters, in [0, replica_world). Default: 0. */
  int32_t replica_rank;
  /** Number of processes that hold the same parameters, >= 1. Default: 1. Each keeps the state of some of the blocks;
   * an optimizer of more than one needs a communicator of as many (shampoo_optimizer_desc.replica_comm). */
  int32_t replica_world;
  /** This process among those that hold the shards of one copy of the parameters, in [0, shard_world). Default: 0. */
  int32_t shard_rank;
  /** Number of shards of one copy, >= 1. Default: 1. */
  int32_t shard_world;
} shampoo_plan_desc;

/** One process, on the CPU, with as many threads as the key "threads" says. */
#define SHAMPOO_PLAN_DESC_INIT \
  { sizeof(shampoo_plan_desc), SHAMPOO_CPU, 0, 0, 1, 0, 1 }

/**
 * Begins a plan.
 *
 * Blocks: no. Threads: any; config is only read.
 *
 * @param out receives the plan, which the caller ends with shampoo_plan_destroy(). Must not be NULL.
 * @param config hyper-parameters of group 0, and of the optimizer as a whole (keys of scope 0); its values are copied.
 *     Must not be NULL.
 * @param desc where the plan is to be carried out; copied. Must not be NULL.
 * @retval SHAMPOO_OK *out is set.
 * @retval SHAMPOO_E_INVALID values of the config contradict each other, or epsilon is 0 without
 *     root_relative_epsilon and root_rank_handling pseudo_inverse; a rank is not below its world; threads is out of
 *     range; desc has a wrong struct_size; or a pointer is NULL.
 * @retval SHAMPOO_E_UNSUPPORTED device_type is neither SHAMPOO_CPU nor SHAMPOO_CUDA; a key has a value that does not
 *     work on CUDA yet, which the text names; or desc has fields that this version does not know.
 * @since 0.1
 */
shampoo_status shampoo_plan_create(shampoo_plan** out, const shampoo_config* config, const shampoo_plan_desc* desc);

/**
 * Ends a plan. Optimizers that were made from it have copied what they need.
 *
 * Blocks: no. Threads: plan, and nobody may be reading it.
 *
 * @param plan to be ended; NULL is allowed.
 * @since 0.1
 */
void shampoo_plan_destroy(shampoo_plan* plan);

/**
 * Adds a parameter group: parameters that share hyper-parameters and a step counter of their own.
 *
 * Blocks: no. Threads: plan; config is only read.
 *
 * @param plan not finished yet. Must not be NULL.
 * @param config hyper-parameters of the group; its values are copied. Keys of scope 0 belong into the config given to
 *     shampoo_plan_create(); one that is set here must be set to the same. Must not be NULL.
 * @param group_out receives the number of the group: 1 for the first that is added, then 2, ... NULL: not wanted.
 * @retval SHAMPOO_OK the group is there.
 * @retval SHAMPOO_E_INVALID values of the config contradict each other, epsilon is 0 without
 *     root_relative_epsilon and root_rank_handling pseudo_inverse, a key of scope 0 differs from the plan's, or plan or
 *     config is NULL.
 * @retval SHAMPOO_E_STATE the plan is finished: add groups before, or begin another plan.
 * @retval SHAMPOO_E_UNSUPPORTED a key has a value that does not work on CUDA yet, and the plan is for that.
 * @since 0.1
 */
shampoo_status shampoo_plan_add_group(shampoo_plan* plan, const shampoo_config* config, int32_t* group_out);

/**
 * Adds a parameter.
 *
 * Blocks: no. Threads: plan.
 *
 * @param plan not finished yet. Must not be NULL.
 * @param desc name, shape, dtypes and group of the parameter; copied. Must not be NULL.
 * @param index_out receives the index of the parameter, counted from 0 in the order of adding: the number by which
 *     shampoo_optimizer_bind() knows it. NULL: not wanted.
 * @retval SHAMPOO_OK the parameter is there.
 * @retval SHAMPOO_E_INVALID the name is NULL, empty or already taken; a dim, dtype, group or shard is out of range;
 *     there are more than 2^59 elements; desc has a wrong struct_size; or plan or desc is NULL.
 * @retval SHAMPOO_E_STATE the plan is finished: add parameters before, or begin another plan.
 * @retval SHAMPOO_E_UNSUPPORTED desc has fields that this version does not know.
 * @since 0.1
 */
shampoo_status shampoo_plan_add_param(shampoo_plan* plan, const shampoo_param_desc* desc, int32_t* index_out);

/**
 * Tells what another shard rank holds of a parameter, which "shard_mode" gather needs to know of all of them. It need
 * not be told where the cut is one of the regular ones, which are recognised by this rank's own: equal chunks of the
 * flattened parameter (ceil(elements / shard_world) elements each, as far as they go), equal chunks of dim 0
 * (ceil(shape[0] / shard_world) rows each), or the whole parameter on every rank. Otherwise it is told for every rank
 * but this one (this one is allowed). Every rank tells the same.
 *
 * Blocks: no. Threads: plan.
 *
 * @param plan not finished yet. Must not be NULL.
 * @param param index of a parameter that has been added.
 * @param shard_rank in [0, shard_world).
 * @param desc of its fields those that describe a shard are read: shard_form, flat_offset, flat_count, local_offset,
 *     local_shape (as many entries as the parameter has dims). Must not be NULL.
 * @retval SHAMPOO_OK done.
 * @retval SHAMPOO_E_INVALID param or shard_rank is out of range, the shard is not within the parameter, it differs from
 *     what this rank has told for that rank before, desc has a wrong struct_size, or a pointer is NULL.
 * @retval SHAMPOO_E_STATE the plan is finished.
 * @retval SHAMPOO_E_UNSUPPORTED desc has fields that this version does not know.
 * @since 0.1
 */
shampoo_status shampoo_plan_add_shard(shampoo_plan* plan, int32_t param, int32_t shard_rank,
                                      const shampoo_param_desc* desc);

/**
 * Works out blocks, owners and bytes. Afterwards the plan does not change any more: nothing can be added, the functions
 * below can be called, from any number of threads, and optimizers can be made from it, any number.
 *
 * Blocks: no. Threads: plan.
 *
 * @param plan not finished yet. Must not be NULL.
 * @retval SHAMPOO_OK the plan is finished.
 * @retval SHAMPOO_E_INVALID plan is NULL, a block has a dim above 32750 or more than 2^31 - 1 elements, or there are
 *     more than 2^20 blocks: choose another "max_preconditioner_dim"; or a number of a config cannot be held by the
 *     arithmetic of a parameter ("computation_dtype"): the error names both. With "shard_mode" gather: the cut of
 *     a rank is not known, or the shards of a parameter do not hold each element once.
 * @retval SHAMPOO_E_STATE the plan is finished already.
 * @since 0.1
 */
shampoo_status shampoo_plan_finish(shampoo_plan* plan);

/**
 * Number of blocks of the plan, of all owners together.
 *
 * Blocks: no. Threads: plan.
 *
 * @param plan finished. Must not be NULL.
 * @param count_out receives the number. Must not be NULL.
 * @retval SHAMPOO_OK *count_out is set.
 * @retval SHAMPOO_E_INVALID a pointer is NULL.
 * @retval SHAMPOO_E_STATE the plan is not finished.
 * @since 0.1
 */
shampoo_status shampoo_plan_block_count(const shampoo_plan* plan, int64_t* count_out);

/**
 * Describes a block. Blocks are in the order of the plan: by parameter, then by stacked tensor, then by piece of the
 * shard as it lies in memory, then by chunk, the chunks of the first dim outermost.
 *
 * Blocks: no. Threads: plan.
 *
 * @param plan finished. Must not be NULL.
 * @param index in [0, number of blocks).
 * @param info filled; struct_size must be set before. Must not be NULL.
 * @retval SHAMPOO_OK info is filled.
 * @retval SHAMPOO_E_INVALID index is out of range, info has a wrong struct_size, or a pointer is NULL.
 * @retval SHAMPOO_E_STATE the plan is not finished.
 * @since 0.1
 */
shampoo_status shampoo_plan_block(const shampoo_plan* plan, int64_t index, shampoo_block_info* info);

/**
 * Bytes of state and workspace that an optimizer made from the plan will allocate on one rank, true to within 1 %; on
 * CUDA the workspace is an upper bound. Tables of the blocks (names, addresses, counters) come on top, on the host:
 * about 2 kB for each block.
 *
 * Blocks: no. Threads: plan.
 *
 * @param plan finished. Must not be NULL.
 * @param rank replica rank, in [0, replica_world); with "shard_mode" gather over several shard ranks replica rank *
 *     shard_world + shard rank, in [0, replica_world * shard_world). -1: this rank, with whatever shards.
 * @param what "state": the arena of all state, exact, and so the size that shampoo_optimizer_desc.state and
 *     shampoo_optimizer_bind_state() need. "workspace": all that a step needs beside it. "total": the sum of the two.
 *     "comm": what the rank sends to other ranks in a step: of each all-gather its own segment, of each all-to-all what
 *     goes to others, padding and headers included; not what a step sends of status (docs/many_ranks.md), or more where
 *     it refuses gradients. With "shard_mode" gather these hold for a shard_comm with
 *     all_to_all; "workspace.all_gather", "total.all_gather" and "comm.all_gather" for one without.
 * @param bytes_out receives the number of bytes. Must not be NULL.
 * @retval SHAMPOO_OK *bytes_out is set.
 * @retval SHAMPOO_E_INVALID rank is out of range, what is none of these, or a pointer is NULL.
 * @retval SHAMPOO_E_STATE the plan is not finished.
 * @since 0.1
 */
shampoo_status shampoo_plan_bytes(const shampoo_plan* plan, int32_t rank, const char* what, int64_t* bytes_out);

/* ====================================================================================================================
 * Communicators: many ranks
 *
 * The library needs one collective, an all-gather, and the caller brings it: from NCCL, MPI or anything else. A
 * communicator is used in two places, both of shampoo_optimizer_desc:
 *
 * - replica_comm: ranks that hold the same parameters and, when they step, the same gradients (data parallel; the
 *   caller has averaged the gradients). The blocks are divided over these ranks: each keeps the state of its blocks
 *   alone, computes their updates, and one all-gather a step brings the updates of all to all. Parameters stay the same
 *   bits on every rank; with a communication dtype as wide as the computation they are those of one rank.
 * - shard_comm: ranks that hold the shards of one copy (fully sharded, tensor parallel). What becomes of the shards is
 *   chosen by the key "shard_mode":
 *   local: each shard is treated as a tensor of its own, so that other blocks, and so other updates, come out than
 *   without sharding. Nothing but a few bytes of status is exchanged, before a step writes anything: a rank that
 *   refuses its gradients stops them all.
 *   gather: blocks are those of the whole parameters. Each has an owner among the shard ranks (and replicas) that keeps
 *   its state; gradients and parameters go to the owners, updates come back, and what comes out has the bits of a run
 *   without sharding. It takes an exchange more each way, all_to_all where the communicator has one.
 *
 * Both together are hybrid sharding (HSDP). Smaller groups of ranks that share the work, while other groups repeat it,
 * are had by giving each group a communicator of its own (shampoo_mpi_split, shampoo_nccl_split).
 *
 * Adapters that fill shampoo_comm_ops are in <shampoo/shampoo_mpi.h> and <shampoo/shampoo_nccl.h>: headers alone,
 * compiled by the caller against the caller's own MPI or NCCL.
 *
 * Rules that keep ranks from waiting for each other for ever: every rank creates its optimizers in the same order, and
 * steps them in the same order; whether a parameter has a gradient is the same on all of them. What is found to differ
 * is the same error on every rank, which names the rank and the cause. A rank that has failed before, in
 * shampoo_plan_finish() say, calls shampoo_optimizer_create() all the same: with a plan that is not finished it fails
 * there, and the others with it. One call at a time uses a communicator: optimizers that share one are used by one
 * thread at a time, as one optimizer is, and none from within a callback of it.
 * ================================================================================================================= */

/** What the caller's communicator can do. Begin with SHAMPOO_COMM_OPS_INIT; set rank, world and all_gather at least. */
typedef struct shampoo_comm_ops {
  /** sizeof(shampoo_comm_ops); set by the _INIT macro. */
  size_t struct_size;
  /** Handed to the callbacks as it is. Default: NULL. */
  void* user;
  /** This process among the ranks of the communicator, in [0, world). Default: 0. */
  int32_t rank;
  /** Number of ranks, >= 1. Default: 1. */
  int32_t world;
  /** What memory the callbacks take: SHAMPOO_CPU (default) or SHAMPOO_CUDA. It must be that of the optimizer. */
  int32_t device_type;
  /** All-gather: recv holds world segments of bytes_per_rank bytes (> 0), segment r from rank r; send may be
   * recv + rank * bytes_per_rank. On CUDA it is ordered on stream; on the CPU stream is NULL, and the call returns when
   * recv is filled. Every rank makes the same sequence of calls with the same sizes. Returns 0, or any other number for
   * a failure, which is told in the error. It is called only on the thread that is inside a call with the optimizer. */
  int32_t (*all_gather)(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream);
  /** Optional, for a shard_comm with "shard_mode" gather: sends send_bytes[r] bytes to each rank r, this one included,
   * and receives recv_bytes[r] from it. In send and recv what goes to or comes from rank 0 is first, then that of rank
   * 1, and so on, without gaps; a number of bytes may be 0. Order, memory and result are as of all_gather. All ranks
   * have it, or none. NULL: all_gather is used in its place, which takes more memory and sends more. */
  int32_t (*all_to_all)(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                        void* stream);
  /** Optional: asks for a failure that came later than the call that caused it; 0: none. Asked before each
   * all_gather and all_to_all. */
  int32_t (*async_error)(void* user);
  /** Optional: makes collectives of other ranks that wait for this one fail. Called once, after a collective failed on
   * this rank. The communicator stays the caller's to destroy. */
  void (*abort)(void* user);
  /** Optional: called once, after the last use: when the shampoo_comm and every optimizer made with it are gone. */
  void (*release)(void* user);
} shampoo_comm_ops;

/** One rank, memory of the host, no callbacks. */
#define SHAMPOO_COMM_OPS_INIT \
  { sizeof(shampoo_comm_ops), NULL, 0, 1, SHAMPOO_CPU, NULL, NULL, NULL, NULL, NULL }

/**
 * Makes a communicator from the caller's functions.
 *
 * Blocks: no. Threads: any.
 *
 * @param out receives the communicator, which the caller ends with shampoo_comm_destroy(). Must not be NULL.
 * @param ops copied; what user stands for stays the caller's and must live until release is called. Must not be NULL.
 * @retval SHAMPOO_OK *out is set.
 * @retval SHAMPOO_E_INVALID a pointer is NULL, all_gather is NULL, rank is not below world, device_type is neither
 *     SHAMPOO_CPU nor SHAMPOO_CUDA, or ops has a wrong struct_size. release is not called then.
 * @retval SHAMPOO_E_UNSUPPORTED ops has fields that this version does not know.
 * @since 0.1
 */
shampoo_status shampoo_comm_from_ops(shampoo_comm** out, const shampoo_comm_ops* ops);

/**
 * Makes a communicator from an ncclComm_t, through the copy of NCCL that the process has loaded already; the library
 * never loads one of its own. For callers that cannot compile <shampoo/shampoo_nccl.h>, such as Python and Java.
 *
 * Blocks: no. Threads: any.
 *
 * @param out receives the communicator, which the caller ends with shampoo_comm_destroy(). Must not be NULL.
 * @param nccl_comm the caller's ncclComm_t, which must live as long as the shampoo_comm and optimizers made with it.
 *     Must not be NULL.
 * @param libnccl_path the file from which NCCL was loaded, or its soname. NULL: libnccl.so.2.
 * @retval SHAMPOO_OK *out is set.
 * @retval SHAMPOO_E_INVALID out or nccl_comm is NULL, or NCCL refuses nccl_comm.
 * @retval SHAMPOO_E_STATE the process has not loaded NCCL by this name: load it before, or give the name.
 * @retval SHAMPOO_E_UNSUPPORTED what was found lacks a function of NCCL 2.
 * @since 0.1
 */
shampoo_status shampoo_comm_from_nccl(shampoo_comm** out, void* nccl_comm, const char* libnccl_path);

/**
 * Gives up the caller's hold of a communicator. Optimizers made with it keep theirs: they may live longer.
 *
 * Blocks: no. Threads: any, once.
 *
 * @param comm to be given up; NULL is allowed.
 * @since 0.1
 */
void shampoo_comm_destroy(shampoo_comm* comm);

/* ====================================================================================================================
 * Optimizer
 *
 * What one step computes, for each group. W is the parameter, G its gradient times gradient_scale, t the group's step
 * counted from 1; the names in quotes are keys. s is the first preconditioned step ("start_preconditioning_step"), f is
 * "precondition_frequency", g is "refresh_growth", e is "root_relative_epsilon" times the mean eigenvalue of F_k, or
 * "epsilon" where that key is set instead.
 *
 * Vectors follow the grafting method alone, without the steps 2 and 4, unless "precondition_1d" is true or there is no
 * grafting.
 *
 *  1. Weight decay of type "coupled": G <- G + "weight_decay" W, in workspace: the caller's gradient is never written.
 *  2. Factor matrices, for each dim k of a block: F_k <- "beta2" F_k + w C_k, where C_k is G contracted with itself
 *     over all dims but k (of a matrix: G G^T and G^T G), and w is 1 if beta2 is 1, else 1 - beta2.
 *  3. Second moment of the grafting method (adagrad, rmsprop, adam): V <- b V + w G G elementwise, b "grafting_beta2".
 *  4. Inverse roots X_k: (F_k, bias-corrected, + e I) to the power -"exponent_multiplier" / root, root being
 *     "inverse_root_override" (2), or twice the order of the block where that is 0. With root_relative_epsilon the
 *     X_k of a factor of zeros, or of subnormal numbers of "computation_dtype", is the identity. They are refreshed at
 *     step s; after a refresh at step t, with g above 0, next at step t + max(1, min(f, floor(g t))); with g 0 at all
 *     later steps that f divides.
 *  5. Direction. H is the filtered gradient: the moving average of G with decay "beta1", bias-corrected where asked.
 *     D is the grafting method's direction: H for sgd, else H / (sqrt(V) + "grafting_epsilon") elementwise, where adam
 *     corrects the bias of V first. From s on, P is H contracted with X_k in every dim (of a matrix: X_0 H X_1); with
 *     grafting P is then multiplied, block by block, by |D| / (|P| + c), Frobenius norms, where c is 1e-37 with
 *     root_relative_epsilon, else 1e-16. Before s, P is D; without grafting it is H contracted with the initial X_k
 *     ("initial_inverse").
 *  6. Weight decay of type "decoupled": P <- P + "weight_decay" W.
 *  7. Momentum: M <- "momentum" M + P, and P is M, or P + "momentum" M with "use_nesterov".
 *  8. The update is U = -"lr" P. W + U is formed in the computation dtype and rounded once to the dtype of the output.
 *
 * A group in which no parameter has a gradient is skipped whole, and its t does not advance. Arithmetic is in
 * "computation_dtype": float32, or float64 for float64 parameters, unless the key says otherwise. Each state has its
 * own dtype; it is used unrounded throughout a step, and rounded once at its end.
 * ================================================================================================================= */

/**
 * Optional: the memory of the host in place of the library's own. Begin with SHAMPOO_ALLOCATOR_INIT, and set both
 * allocate and deallocate. On the CPU it serves the arena of the state (unless that is given) and the workspace; small
 * tables and the scratch memory of the solver stay on the library's heap. On CUDA it serves memory of the device:
 * arena, workspace and the buffers of exchanges; what cuBLAS and cuSOLVER allocate for themselves is not among it. It
 * is called only inside shampoo_optimizer_create() and shampoo_optimizer_destroy(), and inside shampoo_save() and
 * shampoo_load() where world takes memory of the device, on the thread that calls them; never by a step.
 */
typedef struct shampoo_allocator {
  /** sizeof(shampoo_allocator); set by the _INIT macro. */
  size_t struct_size;
  /** Handed to the callbacks as it is. Default: NULL. */
  void* user;
  /** Returns bytes (> 0) of memory aligned to align (a power of two), or NULL, which makes the caller fail with
   * SHAMPOO_E_NOMEM. device_type and device_id are those of the optimizer, stream that of its desc: the memory is used
   * in the order of that stream. On the CPU they are SHAMPOO_CPU, 0 and NULL. */
  void* (*allocate)(void* user, size_t bytes, size_t align, int32_t device_type, int32_t device_id, void* stream);
  /** Takes back what allocate returned, with the same bytes. Must not fail. On CUDA all work on it is done by then. */
  void (*deallocate)(void* user, void* ptr, size_t bytes, int32_t device_type, int32_t device_id, void* stream);
  /** Called once, after the last use: for runtimes that count references to user. Not called where
   * shampoo_optimizer_create() fails: user is then still the caller's. Default: NULL, nothing to do. */
  void (*release)(void* user);
} shampoo_allocator;

/** The size set, no callbacks. */
#define SHAMPOO_ALLOCATOR_INIT \
  { sizeof(shampoo_allocator), NULL, NULL, NULL, NULL }

/**
 * Optional: the threads of the host in place of the library's pool. Begin with SHAMPOO_EXECUTOR_INIT, and set threads
 * and parallel_for. Results are the same bits with every executor. On CUDA there is no work for it.
 */
typedef struct shampoo_executor {
  /** sizeof(shampoo_executor); set by the _INIT macro. */
  size_t struct_size;
  /** Handed to the callbacks as it is. Default: NULL. */
  void* user;
  /** The most tasks that parallel_for is asked to run in one call, >= 1. The threads of the plan are a limit, too,
   * since workspace is allocated for as many. */
  int32_t threads;
  /** Runs task(argument, i) once for every i in [0, count), on any threads, in any order, at once or one after another,
   * and returns when all have returned. count is at most threads. A task must see what the calling thread wrote before,
   * and the other way round, as every lock or join guarantees. It is called on a thread that is inside a call with the
   * optimizer, and must not throw or end the thread. */
  void (*parallel_for)(void* user, void (*task)(void* argument, int64_t i), void* argument, int64_t count);
  /** Called once, after the last use: for runtimes that count references to user. Not called where
   * shampoo_optimizer_create() fails: user is then still the caller's. Default: NULL, nothing to do. */
  void (*release)(void* user);
} shampoo_executor;

/** The size set, no callbacks. */
#define SHAMPOO_EXECUTOR_INIT \
  { sizeof(shampoo_executor), NULL, 0, NULL, NULL }

/** What an optimizer is made on. Begin with SHAMPOO_OPTIMIZER_DESC_INIT: the CPU, with memory and threads made here. */
typedef struct shampoo_optimizer_desc {
  /** sizeof(shampoo_optimizer_desc); set by the _INIT macro. */
  size_t struct_size;
  /** SHAMPOO_CPU (default) or SHAMPOO_CUDA: that of the plan. */
  int32_t device_type;
  /** Which device of that type, counted as CUDA does. Default: 0, the only one on the CPU. */
  int32_t device_id;
  /** Ranks that hold the same parameters, as many as the plan's replica_world, this one being its replica_rank. NULL
   * (default): one rank. The optimizer holds it by itself: the caller may destroy its own hold at any time. On CUDA one
   * of memory of the device. */
  shampoo_comm* replica_comm;
  /** Ranks that hold the shards of one copy, as many as the plan's shard_world, this one being its shard_rank. NULL
   * (default): shards are stepped without asking each other, which "shard_mode" gather cannot. Held in the same way. On
   * CUDA it must be NULL. */
  shampoo_comm* shard_comm;
  /** Where memory comes from; copied. NULL (default): the library's own. */
  const shampoo_allocator* allocator;
  /** Where parallel work runs; copied. NULL (default): the library's pool, one per process, whose threads start with
   * the first optimizer that needs them and end with the last. */
  const shampoo_executor* executor;
  /** On CUDA the stream in whose order memory is allocated and the state initialised. Must be NULL (default) on the
   * CPU. */
  void* stream;
  /** NULL (default): the arena of the state is allocated here. Otherwise memory of the host, on CUDA of its device,
   * aligned to 64 bytes; it is initialised here, stays the host's, and must live until the optimizer is destroyed or
   * another arena is bound. */
  void* state;
  /** Size of state in bytes, at least what shampoo_plan_bytes() gives for "state". Default: 0; not read where state is
   * NULL. */
  size_t state_bytes;
} shampoo_optimizer_desc;

/** The CPU, one rank, memory and threads made by the library. */
#define SHAMPOO_OPTIMIZER_DESC_INIT \
  { sizeof(shampoo_optimizer_desc), SHAMPOO_CPU, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0 }

/**
 * Makes an optimizer and initialises its state. All state, workspace and threads are made here, so that later calls of
 * shampoo_optimizer_step() allocate nothing. Call it after fork, never before: a child has none of the threads.
 *
 * Collective where a communicator is given: plans are compared over its ranks, and where one differs, or one rank
 * fails, all fail, with an error that names the rank and what differs.
 *
 * Blocks: while memory is allocated and set, and until the other ranks have come here. Threads: plan; two creates may
 * run at once.
 *
 * @param out receives the optimizer, which the caller ends with shampoo_optimizer_destroy(). Must not be NULL.
 * @param plan finished, the same on all ranks. What is needed of it is copied. Must not be NULL.
 * @param desc device, memory and threads; copied, with the structs that it points to. Must not be NULL.
 * @retval SHAMPOO_OK *out is set.
 * @retval SHAMPOO_E_INVALID a pointer is NULL; state is misaligned or state_bytes too small; a callback of the
 *     allocator or executor is missing, or executor->threads below 1; device_type is not that of the plan; there is no
 *     device of that number; stream is not NULL on the CPU; or a struct_size is wrong; a communicator has another world
 *     or rank than the plan, or is missing; the plans of two ranks differ. What another rank refuses is its code, and
 *     its text.
 * @retval SHAMPOO_E_STATE the plan is not finished.
 * @retval SHAMPOO_E_UNSUPPORTED a communicator takes memory of another type of device; device_type is neither
 *     SHAMPOO_CPU nor SHAMPOO_CUDA; CUDA cannot be used here, for the reason that shampoo_backend_describe() tells,
 *     too; or a struct has fields that this version does not know.
 * @retval SHAMPOO_E_COMM a collective failed.
 * @retval SHAMPOO_E_NOMEM memory or threads ran out; the error tells the bytes or the number. Ask shampoo_plan_bytes()
 *     before, and try smaller blocks ("max_preconditioner_dim"), narrower states ("factor_dtype", ...) or fewer
 *     "threads".
 * @since 0.1
 */
shampoo_status shampoo_optimizer_create(shampoo_optimizer** out, const shampoo_plan* plan,
                                        const shampoo_optimizer_desc* desc);

/**
 * Ends an optimizer: frees what it allocated, then calls the release callbacks. Bound buffers and an arena of the host
 * are not touched.
 *
 * Blocks: until threads of the pool that nobody else needs have ended, on CUDA until all steps are done.
 * Threads: optimizer.
 *
 * @param opt to be ended, with all strings that it returned; NULL is allowed.
 * @since 0.1
 */
void shampoo_optimizer_destroy(shampoo_optimizer* opt);

/**
 * Memory of one parameter: addresses on the host, on CUDA on the device, each aligned for its dtype, dense and
 * row-major in the shape of the parameter, or of the shard where this rank holds one. Begin with SHAMPOO_BUFFERS_INIT.
 * out may be the same address as param where both have the same dtype; otherwise what is written (out, copy) must
 * overlap none of the others.
 */
typedef struct shampoo_buffers {
  /** sizeof(shampoo_buffers); set by the _INIT macro. */
  size_t struct_size;
  /** Read by a step: the parameter, in param_dtype. May be NULL only where the other three are NULL, too. */
  const void* param;
  /** Read by a step: the gradient, in grad_dtype. NULL: none; the parameter is not moved, not even by weight decay or
   * momentum, and its state is frozen; out and copy, where given, still receive the value of param (out receives zeros
   * with the key "output" set to updates), so that outputs are always whole. */
  const void* grad;
  /** Written by a step: the new parameter in out_dtype, or with the key "output" set to updates the update that is to
   * be added to it. May be NULL only where grad is NULL, too. */
  void* out;
  /** Written by a step: the new parameter once more, in copy_dtype, such as a bfloat16 model beside float32 master
   * weights. NULL: no such copy. */
  void* copy;
} shampoo_buffers;

/** The size set, all pointers NULL. */
#define SHAMPOO_BUFFERS_INIT \
  { sizeof(shampoo_buffers), NULL, NULL, NULL, NULL }

/**
 * Says where parameters and gradients are. It holds until the same parameters are bound anew, so a host whose arrays
 * stay in place calls it once, and one whose arrays move calls it before each step. Only addresses are looked at here:
 * contents are read and written by the steps.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt whose parameters are bound. Must not be NULL.
 * @param first index of the first parameter.
 * @param count number of parameters, >= 0: first .. first + count - 1 are bound, all or, on failure, none.
 * @param buffers one element per parameter, buffers[0].struct_size bytes apart, all with the same struct_size. Copied;
 *     the memory behind the pointers stays the caller's. May be NULL only if count is 0.
 * @retval SHAMPOO_OK all are bound.
 * @retval SHAMPOO_E_INVALID a parameter is out of range, a pointer that is needed is NULL, an address is misaligned for
 *     its dtype, out or copy overlaps another buffer of its parameter (other than by out == param), or a struct_size is
 *     wrong or differs between elements.
 * @retval SHAMPOO_E_UNSUPPORTED buffers has fields that this version does not know.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_bind(shampoo_optimizer* opt, int32_t first, int32_t count,
                                      const shampoo_buffers* buffers);

/**
 * Binds a hyper-parameter to a number in the host's memory, which every step reads when it begins: for hosts whose
 * learning rate or loss scale is itself computed. While bound, it takes precedence over shampoo_optimizer_set(). On
 * CUDA the number lies in memory of the device: a step reads it in the order of its stream, a captured one at each
 * replay.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt to be changed. Must not be NULL.
 * @param group a group of the plan; 0 is that of the plan's own config.
 * @param key "lr" or "gradient_scale".
 * @param dtype of the number: SHAMPOO_F32 or SHAMPOO_F64. Not looked at where value is NULL.
 * @param value one number, of any alignment, which must live until another is bound, it is unbound, or the optimizer is
 *     destroyed; a step checks it as shampoo_config_set_f64() would. NULL unbinds: the value read last stays in force,
 *     until shampoo_optimizer_set() changes it. On CUDA an address of the device, aligned for its dtype, and after NULL
 *     the value that was set last is in force.
 * @retval SHAMPOO_OK done.
 * @retval SHAMPOO_E_INVALID there is no such group, the key or dtype is another, value is misaligned on CUDA, or opt or
 *     key is NULL.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_bind_scalar(shampoo_optimizer* opt, int32_t group, const char* key, int32_t dtype,
                                             const void* value);

/**
 * Steps from one arena of state into another, so that a step is a pure function of its inputs. All state, the step
 * counters included, lies in one arena whose layout depends on the plan alone: a copy of its bytes keeps it.
 *
 * It holds until it is called again: where the arenas are distinct, each further step reads the same state_in again
 * unless others are bound. The functions of the section State use the last state_out.
 *
 * On CUDA the host must know how many steps a state has made. Where state_in is the arena that the last step has
 * written, it knows; of any other arena the next step reads it, which waits for the stream once. A host that has
 * written an arena by itself, to bring back a copy, first calls this with NULL and NULL, so that nothing is taken for
 * known; otherwise one step is refused (SHAMPOO_E_STATE), before the number is read, or, where the number is the same
 * and with "root_async", roots that are under way may be those of the other state.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt to be changed. Must not be NULL.
 * @param state_in read by steps: an arena with the bytes of an optimizer of an equal plan. It is not initialised here.
 * @param state_out written by steps. The same address as state_in is the ordinary case, a step in place; otherwise the
 *     two must not overlap. Both are aligned to 64 bytes, have the bytes that shampoo_plan_bytes() gives for "state",
 *     stay the host's, and must live until others are bound or the optimizer is destroyed; on CUDA they are memory of
 *     the device. Both NULL: back to the arena that the optimizer was created with.
 * @retval SHAMPOO_OK bound.
 * @retval SHAMPOO_E_INVALID one of the two is NULL, an address is misaligned, the arenas overlap in part, or opt is
 *     NULL.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_bind_state(shampoo_optimizer* opt, const void* state_in, void* state_out);

/**
 * Changes a hyper-parameter of a group from the next step on: learning-rate schedules, loss scaling.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt to be changed. Must not be NULL.
 * @param group a group of the plan; 0 is that of the plan's own config.
 * @param key one whose shampoo_key_info.changeable is 1: "lr", "beta1", "beta2", "epsilon",
 *     "root_relative_epsilon", "momentum", "weight_decay", "grafting_beta2", "grafting_epsilon" or "gradient_scale".
 * @param value within the range of the key, and of the arithmetic of the group's blocks; of
 *     epsilon and root_relative_epsilon the one that the group was made with stays above 0 and the other one 0; both
 *     are 0 with root_rank_handling pseudo_inverse; grafting_beta2 is 1 with the grafting method adagrad.
 * @retval SHAMPOO_OK the value is set.
 * @retval SHAMPOO_E_INVALID there is no such group or key, the key is fixed once a plan is made, the value is out of
 *     range, or a pointer is NULL.
 * @retval SHAMPOO_E_STATE beta1 or momentum is 0 in the plan, so that it has no state, and cannot become another
 *     number: make the plan with a number above 0, and set it to 0 until it is wanted.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_set(shampoo_optimizer* opt, int32_t group, const char* key, double value);

/**
 * Value of a hyper-parameter of a group: the one set last, by the config, by shampoo_optimizer_set() or by a step that
 * read a bound scalar (but not on CUDA, where the host does not see it). "auto", -1 of "start_preconditioning_step" and
 * 0 of "threads" are worked out.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt to be read. Must not be NULL.
 * @param group a group of the plan; 0 is that of the plan's own config.
 * @param key one of type "f64", "i64" or "bool" (0 or 1).
 * @param value_out receives the value. Must not be NULL.
 * @retval SHAMPOO_OK *value_out is set.
 * @retval SHAMPOO_E_INVALID there is no such group or key, the key has no number to give, or a pointer is NULL.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_get(const shampoo_optimizer* opt, int32_t group, const char* key, double* value_out);

/**
 * One step of all groups, as told at the head of this section. What is told first holds everywhere, and is all there is
 * to know for one process on a CPU; what several ranks and CUDA add follows.
 *
 * First everything is checked, before anything is written: that all parameters are bound, that no gradient (with
 * coupled weight decay, no parameter) has a NaN, an infinity, or a magnitude that would overflow a factor matrix or
 * another state in its dtype, and, where roots are due, that every factor matrix is finite. So a step that fails has
 * changed neither parameters nor state nor step counters, and the caller may go on: skip the batch, lower the loss
 * scale, and call again. A step allocates nothing.
 *
 * With the key "on_nonfinite" set to skip_block or skip_step the blocks with such a gradient, or the whole step, are
 * left as they are instead, outputs completed as for a gradient of NULL, and the call succeeds.
 *
 * An inverse root that its method cannot compute is tried again: by the same method in float64, by eigendecomposition
 * in float64, by the other drivers of LAPACK. If all fail the block goes on with its previous root. Each is told in the
 * log once per refresh, and counted (shampoo_optimizer_stat()). When a factor matrix has failed at more refreshes in a
 * row than the key "root_failure_tolerance" says, the next step reports that, once per refresh, before it writes
 * anything.
 *
 * The direction of a block is known only after its states are written. Where it is not finite, or would overflow the
 * momentum, the parameter, or the copy in its dtype, the block is left where it is: it is told in the log and counted
 * ("nonfinite_blocks"), and with "on_nonfinite" = error the next step reports it, once, before it writes anything.
 *
 * **Several ranks.** The call is collective: the checks of all ranks count, and a failure of one is the same error on
 * all, with its text after "rank 2: ". With a shard_comm ranks agree before anything is written. With a replica_comm
 * gradients are the same on all ranks, and so is what is found in them; for what one rank finds alone (gradients that
 * differ after all, a state of its own that would overflow) the others have begun the step: parameters are as they were
 * on every rank, and the state of the blocks that the others own has taken the gradient in. A step counter that
 * differs, a gradient that one rank lacks, another learning rate are such errors, too. With "shard_mode" gather a state
 * that would overflow is known to the owner of its block alone, when the step has begun: the block is left where it is,
 * whatever "on_nonfinite" says, and with error the next step reports it. A collective that fails is for good:
 * parameters may be partly written, and every later step fails.
 *
 * **CUDA.** The step is put into the stream, and checks what is told above there: what it refuses has changed nothing,
 * as on the CPU, but is known only later. With the key status_lag 1 (default) a call first takes what the step before
 * has found, for which it waits if need be, so that at most one step is on its way. Was that refused, the call says so,
 * and has not made a step of its own: the host may go on by calling again. With status_lag 0 a call waits for its own
 * step and tells its own failure. After the last step, or at any time between, shampoo_optimizer_status() tells.
 * Buffers, bound scalars and arenas are read until the step is done. Inverse roots that the GPU could not compute are
 * tried again on the host, by the call that learns of it, which allocates memory for it; but with status_lag 1 not
 * where state_in and state_out are distinct: there the previous root stays.
 *
 * **CUDA, several ranks.** One that cannot make its step, for what its host has found, takes part in the exchanges to
 * say so, and returns SHAMPOO_OK with status_lag 1: all ranks tell of it by the next call. They step, and ask for the
 * status, alike, and capture alike.
 *
 * **CUDA, graphs.** A step may be captured into a graph: stream is in the state of capture, and the call waits for
 * nothing and takes nothing. Addresses and hyper-parameters are those of the call, numbers of
 * shampoo_optimizer_bind_scalar() are read anew by each replay, and so is the step counter. At most steps no inverse
 * roots are due (nor, with "root_async", used for the first time), and those alone can be captured: the others are made
 * by a call outside of a capture. A replay at such a step, or at one whose direction is formed by another rule than
 * that of the step that was captured (before and after start_preconditioning_step), is refused. After a replay that was
 * refused all further ones are, until a step is made by a call outside of a capture. Once a step has been captured, a
 * call outside of a capture first waits for the stream, to learn how many replays there were.
 *
 * Blocks: until the step is done; on CUDA as told above. Threads: optimizer; the work is spread over the threads of the
 * plan or the executor.
 *
 * @param opt to be stepped. Must not be NULL.
 * @param stream on CUDA that which the step is put into. Must be NULL on the CPU.
 * @retval SHAMPOO_OK parameters, copies and state are written; on CUDA they will be, in the order of stream, unless the
 *     step is refused.
 * @retval SHAMPOO_E_INVALID opt is NULL, stream is not, or a bound scalar is out of range; or ranks have gradients for
 *     other parameters, or other hyper-parameters.
 * @retval SHAMPOO_E_STATE a parameter has never been bound; the error names it. Call shampoo_optimizer_bind(), with
 *     grad NULL where it has no gradient. Or a step counter in the state is out of range, or differs between ranks, or
 *     parameters do (key "verify_replicas"). On CUDA also: inverse roots are due, or used for the first time, and
 *     stream is being captured; a replay was one that cannot be; the arena was written by something else
 *     (shampoo_optimizer_bind_state()).
 * @retval SHAMPOO_E_NUMERIC a gradient is not finite, or a state would overflow: the error names the parameter, the
 *     block and the element, and what to try; or a factor matrix that the host wrote is not finite, or the inverse root
 *     of one has failed too often: the error names it. The step has changed nothing, but for
 *     what is said above of several ranks.
 * @retval SHAMPOO_E_COMM a collective failed, in this step or an earlier one.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_step(shampoo_optimizer* opt, void* stream);

/**
 * Tells what steps on CUDA have found since a call has told it last, as shampoo_optimizer_step() would tell it: once,
 * here or there. Roots that failed, and blocks that could not move, are still left to the next step to tell. On the CPU
 * there is never anything to tell.
 *
 * Collective where there are several ranks. Blocks: with wait, until all steps so far are done, replays in the stream
 * of the last call among them. Threads: optimizer.
 *
 * @param opt to be asked. Must not be NULL.
 * @param wait 0: tell what is known already; several ranks do not, as each may know something else, and wait. Otherwise
 *     wait.
 * @param step_out receives which step was refused: the number of its call, among the calls of shampoo_optimizer_step()
 *     that have put a step into a stream, from 1 on; a replay has that of the call that was captured. 0: none. NULL:
 *     not wanted.
 * @retval SHAMPOO_OK no step has been refused since.
 * @retval SHAMPOO_E_INVALID opt is NULL; or as of shampoo_optimizer_step(), of a step that was refused.
 * @retval SHAMPOO_E_STATE as of shampoo_optimizer_step().
 * @retval SHAMPOO_E_NUMERIC as of shampoo_optimizer_step(): a gradient was not finite, or a state would have
 *     overflowed.
 * @retval SHAMPOO_E_COMM a collective failed.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_status(shampoo_optimizer* opt, int32_t wait, int64_t* step_out);

/**
 * Text of the last failure of a call that may change this optimizer (those that do not take it as const), whatever the
 * thread: for hosts that move an optimizer from thread to thread, such as task runtimes.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt to be asked; NULL gives "".
 * @return the text; "" where no such call has failed. Never NULL. It belongs to the optimizer and is valid until the
 *     next call with it.
 * @since 0.1
 */
const char* shampoo_optimizer_error(const shampoo_optimizer* opt);

/**
 * A counter of the optimizer, since it was created unless it says otherwise. On CUDA it counts what calls have told of
 * steps by now. Keys:
 *
 * - "steps": steps made.
 * - "step.G": the step counter of group G, a part of the state: a load or a write of the state sets it, and a step in
 *   which no parameter of the group has a gradient does not count. It is that of the last state_out, as with the
 *   functions of the section State. On CUDA it is read in the order of the stream of the last call, for which the call
 *   waits; for replays in other streams it does not.
 * - "skipped_steps": calls of shampoo_optimizer_step() that changed nothing because of the key "on_nonfinite" =
 *   skip_step; they are not among the steps.
 * - "nonfinite_blocks": blocks that were found to have a gradient that cannot be used, and were skipped by that key,
 *   alone or with their step. With "shard_mode" gather a rank counts the blocks that it owns or holds a part of.
 * - "root_computed": inverse roots computed; of these, by what gave them: "root_scalar", "root_diagonal", "root_eigen",
 *   "root_newton", "root_higher_order".
 * - "root_retried": of these, those that needed the recovery; of these, by the rung that gave them:
 *   "root_retried_float64" (the same method in float64), "root_retried_eigen" (eigendecomposition in float64),
 *   "root_retried_dsyevr", "root_retried_dsyev" (other drivers of LAPACK).
 * - "root_reused": previous roots kept because no rung could compute a new one.
 * - "seconds.check", "seconds.factor_update", "seconds.roots", "seconds.preconditioning", "seconds.elementwise", with
 *   the key "track_times": thread time in seconds of a part of all steps.
 * - "root_error.W", with the key "track_root_residuals", over the last refresh of each factor matrix: the largest
 *   |X - X64| relative to the largest |X64|, X64 the root in float64.
 * - "root_residual.W", likewise: the largest |X^(-1/e) - (A + epsilon I)| relative to the largest |A + epsilon I|,
 *   e the exponent (infinity: X has no such power).
 *
 * W is mean, median, p90 (90 % are not above it), max, or worst: which factor matrix has the max, counted over all
 * blocks in the order of the plan; -1: nothing is tracked. The log names it (level 2).
 *
 * Blocks: no, but for "step.G" on CUDA. Threads: optimizer.
 *
 * @param opt to be asked. Must not be NULL.
 * @param key one of those above.
 * @param value_out receives the number. Must not be NULL.
 * @retval SHAMPOO_OK *value_out is set.
 * @retval SHAMPOO_E_INVALID there is no such key, or a pointer is NULL.
 * @retval SHAMPOO_E_STATE of "step.G": the state was spoiled by a load that failed; or, on CUDA, the stream of the last
 *     call is being captured.
 * @retval SHAMPOO_E_DEVICE of "step.G" on CUDA: the device has failed.
 * @since 0.1
 */
shampoo_status shampoo_optimizer_stat(const shampoo_optimizer* opt, const char* key, double* value_out);

/* ====================================================================================================================
 * State: named entries
 *
 * All that an optimizer remembers between steps, as a list of arrays with names that stay the same in every run of the
 * same plan: what a checkpoint needs. Writing every entry of one optimizer into another of an equal plan makes the
 * second continue as the first would, bit for bit. Keys, where parameter is the name, block counts the blocks of the
 * parameter from 0, k is a dim of the block and g a group:
 *
 *   "parameter/block/factor.k"       factor matrix F_k, symmetric, shape[k] x shape[k]
 *   "parameter/block/inverse.k"      inverse root X_k, symmetric, shape[k] x shape[k]
 *   "parameter/block/snapshot.k"     F_k as it was at a positive snapshot_step, symmetric; with root_async
 *   "parameter/block/snapshot_step"  one I64, with root_async. s > 0: the snapshots are of step s of the group, and
 *                                    their roots are waiting to be used; -s: the roots of step s are in use, and none
 *                                    are waiting; 0: the block has not had a refresh yet
 *   "parameter/block/diagonal"       one I32 per dim: 1 while the factor has been diagonal at every refresh so far
 *   "parameter/block/filtered_grad"  moving average of the gradient, in the shape of the block; if beta1 is not 0
 *   "parameter/block/grafting"       second moment of the grafting method, in the shape of the block; if it has one
 *   "parameter/block/momentum"       momentum, in the shape of the block; if momentum is not 0
 *   "group.g/step"                   one I64: steps that the group has made
 * ================================================================================================================= */

/** One entry of the state, as filled by shampoo_state_describe(). Begin with SHAMPOO_STATE_ENTRY_INIT. */
typedef struct shampoo_state_entry {
  /** sizeof(shampoo_state_entry); set by the _INIT macro. */
  size_t struct_size;
  /** Its name, unique within the optimizer. It lives as long as the optimizer. */
  const char* key;
  /** Shape in elements, outermost dim first; ndim entries, the others are 0. */
  int64_t shape[8];
  /** Of an entry in the shape of its block: the first element of the block within the whole flattened parameter, in
   * elements. -1: an entry that does not lie over elements of the parameter. */
  int64_t flat_offset;
  /** Bytes as kept in the arena: of a factor matrix or inverse root of order 128 or more one triangle only. To read or
   * write the whole entry takes the number of its elements times the size of its dtype, whatever is kept. */
  int64_t stored_bytes;
  /** Number of dims. */
  int32_t ndim;
  /** Dtype of the elements that are read and written. */
  int32_t dtype;
  /** 1: a symmetric matrix, of which one triangle is stored; read and write use the full matrix. 0: anything else. */
  int32_t symmetric;
  /** 1: an entry of a block of this rank's shard, as shampoo_block_info.of_shard. 0: anything else. */
  int32_t of_shard;
  /** Replica rank that keeps it: this one. Each rank lists only what it keeps. */
  int32_t owner;
  /** Shard rank that keeps it: this one. */
  int32_t shard_owner;
} shampoo_state_entry;

/** The size set, all else 0. */
#define SHAMPOO_STATE_ENTRY_INIT \
  { sizeof(shampoo_state_entry), NULL, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * Number of entries. It depends on the plan alone.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt to be asked. Must not be NULL.
 * @param count_out receives the number. Must not be NULL.
 * @retval SHAMPOO_OK *count_out is set.
 * @retval SHAMPOO_E_INVALID a pointer is NULL.
 * @since 0.1
 */
shampoo_status shampoo_state_count(const shampoo_optimizer* opt, int64_t* count_out);

/**
 * Describes an entry. The order of entries depends on the plan alone.
 *
 * Blocks: no. Threads: optimizer.
 *
 * @param opt to be asked. Must not be NULL.
 * @param index in [0, number of entries).
 * @param entry filled; struct_size must be set before. Must not be NULL.
 * @retval SHAMPOO_OK entry is filled.
 * @retval SHAMPOO_E_INVALID index is out of range, entry has a wrong struct_size, or a pointer is NULL.
 * @since 0.1
 */
shampoo_status shampoo_state_describe(const shampoo_optimizer* opt, int64_t index, shampoo_state_entry* entry);

/**
 * Copies elements of an entry out of the state, out of the last state_out where arenas are bound. On CUDA that is of
 * the state after all steps in the stream.
 *
 * Blocks: until the copy is done. Threads: optimizer.
 *
 * @param opt to be read. Must not be NULL.
 * @param index in [0, number of entries).
 * @param first first element, in row-major order of the shape of the entry; of a symmetric entry, of the full matrix.
 * @param count number of elements; first + count is at most the number of elements of the entry.
 * @param dst receives count elements of the dtype of the entry, dense; memory of the caller.
 * @param dst_bytes size of dst in bytes, at least count times the size of the dtype.
 * @param dst_device_type where dst is: SHAMPOO_CPU; or SHAMPOO_CUDA, if the optimizer is there.
 * @param stream on CUDA that in whose order it is copied. Must be NULL on the CPU.
 * @retval SHAMPOO_OK dst is filled.
 * @retval SHAMPOO_E_INVALID index or elements are out of range, dst_bytes is too small, a pointer that is needed is
 *     NULL, or stream is not NULL.
 * @retval SHAMPOO_E_UNSUPPORTED dst_device_type is neither SHAMPOO_CPU nor that of the optimizer.
 * @since 0.1
 */
shampoo_status shampoo_state_read(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, void* dst,
                                  size_t dst_bytes, int32_t dst_device_type, void* stream);

/**
 * Copies elements into an entry of the state, that of the last state_out where arenas are bound.
 *
 * Blocks: until the copy is done. Threads: optimizer.
 *
 * @param opt to be changed. Must not be NULL.
 * @param index in [0, number of entries).
 * @param first first element, in row-major order of the shape of the entry; of a symmetric entry, of the full matrix,
 *     of which the elements on and below the diagonal count.
 * @param count number of elements; first + count is at most the number of elements of the entry.
 * @param src count elements of the dtype of the entry, dense; memory of the caller.
 * @param src_bytes size of src in bytes, at least count times the size of the dtype.
 * @param src_device_type where src is: SHAMPOO_CPU; or SHAMPOO_CUDA, if the optimizer is there.
 * @param stream on CUDA that in whose order it is copied. Must be NULL on the CPU.
 * @retval SHAMPOO_OK the elements are written.
 * @retval SHAMPOO_E_INVALID index or elements are out of range, src_bytes is too small, a pointer that is needed is
 *     NULL, or stream is not NULL.
 * @retval SHAMPOO_E_UNSUPPORTED src_device_type is neither SHAMPOO_CPU nor that of the optimizer.
 * @since 0.1
 */
shampoo_status shampoo_state_write(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, const void* src,
                                   size_t src_bytes, int32_t src_device_type, void* stream);

/* ====================================================================================================================
 * Checkpoints: the state of a job as files, which a job of any other number of ranks can load
 * ================================================================================================================= */

/**
 * Saves the states of optimizers, of all ranks, as one checkpoint: safetensors files, one or more for each rank, and a
 * JSON index that tells what is in them. Where arenas are bound, that is the last state_out. Parameters are the host's
 * to save. docs/checkpoints.md describes the files.
 *
 * A checkpoint exists once its index is there, which is written last. A save that fails, or is killed at any moment,
 * leaves the earlier checkpoints of the directory whole. One that succeeds removes all but the last checkpoint_keep.
 *
 * Collective over world. Blocks: until the files are on the disk. Threads: optimizer, of all of them.
 *
 * @param opts the optimizers of this rank, count of them. Where all ranks have one optimizer, it is that; ranks may
 *     have others, too, as where experts have replicas of their own. A name is one parameter on all ranks of world: not
 *     in two of the optimizers, and where ranks have it in optimizers of their own, copies with the same states.
 * @param count number of optimizers of this rank, at least 0.
 * @param world communicator of all ranks of the job, whatever their replicas and shards; one of host memory, or of
 *     memory of a GPU where every rank has an optimizer on CUDA. NULL: there is one rank.
 * @param directory path of a directory that all ranks see, UTF-8. It is made if it is not there; what it is in must be.
 * @param stream of optimizers on CUDA, that in whose order states are copied. Must be NULL on the CPU.
 * @retval SHAMPOO_OK the checkpoint is on the disk.
 * @retval SHAMPOO_E_INVALID an argument is wrong on some rank, a name is in two optimizers, or on two ranks with states
 *     that differ, or world is smaller than the replicas times the shards of an optimizer.
 * @retval SHAMPOO_E_STATE the state of an optimizer was spoiled by a load that failed.
 * @retval SHAMPOO_E_UNSUPPORTED world takes memory of a GPU, and no optimizer of this rank is on CUDA.
 * @retval SHAMPOO_E_IO a file could not be written; the text names it and the reason. The same on all ranks.
 * @retval SHAMPOO_E_COMM a collective failed. Ranks do not know then whether the new checkpoint is whole; what a load
 *     takes is. Where it failed on one rank alone, the others wait, unless the communicator has an abort.
 * @retval SHAMPOO_E_NOMEM buffers of some MiB could not be had.
 * @since 0.1
 */
shampoo_status shampoo_save(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                            void* stream);

/**
 * Loads a checkpoint into optimizers, whatever the number of ranks, of threads and of shards that saved it. Parameters
 * are known by their names, and blocks by their places in them. Training then goes on with the bits of the run that
 * saved it, if its parameters have been brought back, too, and hyper-parameters are the same.
 *
 * What must agree: names and shapes of all parameters, the dtypes of states, and the grafting method where it keeps a
 * state. Other hyper-parameters are those of the optimizer that loads, and the log tells which differ. Blocks that were
 * cut in another way: see the key on_block_mismatch. A load that fails leaves the optimizers as they were. (One case is
 * left: a state of more than 24 MiB that is not that of create, or lies in memory of the host, and a failure after all
 * files have been read and checked, as they are read again: a file that cannot be, memory that ends, a collective. The
 * optimizer then refuses to step from that arena, with SHAMPOO_E_STATE, until a load succeeds or a step from another
 * arena has written it as its state_out.)
 *
 * Collective over world. Blocks: until it is done. Threads: optimizer, of all of them.
 *
 * @param opts the optimizers of this rank, count of them, together on all ranks those of all parameters of the
 *     checkpoint. Where arenas are bound, the state is written to the last state_out: bind it as the next state_in.
 * @param count number of optimizers of this rank, at least 0.
 * @param world communicator of all ranks of the job, as for shampoo_save(); NULL: there is one rank.
 * @param directory path of a directory that checkpoints were saved into, of which the last is loaded; or of the index
 *     of one of them. UTF-8.
 * @param stream of optimizers on CUDA, that in whose order states are copied. Must be NULL on the CPU.
 * @retval SHAMPOO_OK the states, and the step counters, are those of the checkpoint.
 * @retval SHAMPOO_E_INVALID an argument is wrong on some rank, or the checkpoint is of other parameters, dtypes,
 *     grafting or blocks; the text names the first.
 * @retval SHAMPOO_E_IO there is no checkpoint, or a file is missing, unreadable, cut off or damaged; the text names the
 *     file, and the entry. The same on all ranks.
 * @retval SHAMPOO_E_UNSUPPORTED the checkpoint is of a later format, or world as of shampoo_save().
 * @retval SHAMPOO_E_COMM a collective failed. Where it failed on one rank alone, the others wait, unless the
 *     communicator has an abort.
 * @retval SHAMPOO_E_NOMEM buffers of some MiB could not be had.
 * @since 0.1
 */
shampoo_status shampoo_load(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                            void* stream);

/* ====================================================================================================================
 * Matrix functions: the roots that the optimizer uses, on host memory, for tests and for building other methods
 * ================================================================================================================= */

/** How a root was computed. Begin with SHAMPOO_ROOT_INFO_INIT. */
typedef struct shampoo_root_info {
  /** sizeof(shampoo_root_info); set by the _INIT macro. */
  size_t struct_size;
  /** What gave the root: 0 scalar (n is 1), 1 diagonal (every element off the diagonal is exactly 0), 2
   * eigen, 3 newton, 4 higher_order. 0 and 1 are shortcuts of eigen. */
  int32_t method;
  /** Iterations of an iterative method; 0 with the others. */
  int32_t iterations;
  /** 1: converged to root_tolerance; 0: root_max_iterations was reached, and x is what the last iteration gave, be it a
   * root or not: look at residual; -1: stopped as it got no better, close to a root. Always 1 with methods 0 to 2. */
  int32_t converged;
  /** Further attempts after the first failed; the recovery is that of shampoo_optimizer_step(). */
  int32_t retried;
  /** max |A x^p - I|, elementwise, in float64: A is the matrix whose root was taken, epsilon included, and p undoes the
   * exponent, root_num / (root_den * exponent_multiplier). With pseudo_inverse the projector on the directions that
   * were kept takes the place of I. NaN where x has no such power; 0 where the exponent is 0. */
  double residual;
} shampoo_root_info;

/** The size set, all else 0. */
#define SHAMPOO_ROOT_INFO_INIT \
  { sizeof(shampoo_root_info), 0, 0, 0, 0, 0.0 }

/**
 * Inverse root of a symmetric matrix: x = (a + e I)^(-exponent_multiplier * root_den / root_num). e is
 * root_relative_epsilon times the mean eigenvalue of a (its trace divided by n), or epsilon where that key is set
 * instead.
 *
 * root_method eigen: by eigendecomposition, or, for an inverse square root in float32 of an order of 8 to 512, by a
 * rational approximation with the same error; where the smallest eigenvalue is negative, all are raised until it is 0;
 * then e is added to all. A 1x1 matrix and a diagonal one are computed element by element, without that first
 * raise (unless the result would not be finite without it). With root_rank_handling pseudo_inverse, eigenvalues that
 * count as 0 are left out instead (root_rank_rtol, root_rank_atol). root_method newton: by the coupled inverse Newton
 * iteration; root_num / root_den must be whole. root_method higher_order: by a coupled iteration of order root_order;
 * epsilon, where it is used, is relative: max(epsilon * L, 1e-16) is added, L a bound on the largest eigenvalue. A
 * matrix of zeros or subnormal numbers has the identity as its root with root_relative_epsilon. This is what a step
 * does with a factor matrix, its recovery included; but here the result of root_max_iterations is given as it is.
 *
 * Blocks: until done. It allocates its workspace and runs on the calling thread. Threads: any; config is only read.
 *
 * @param config of which it reads all keys that begin with "root_", "epsilon" and "exponent_multiplier"; epsilon may be
 *     0 here. "root_dtype" auto is dtype. Must not be NULL.
 * @param n order of the matrix, 1..32750.
 * @param dtype of a and x: SHAMPOO_F32 or SHAMPOO_F64.
 * @param a n * n elements, row-major, symmetric, of which those on and below the diagonal are read.
 * @param x n * n elements, row-major. Written, and exactly symmetric. May be a, and must not overlap it otherwise.
 * @param root_num numerator of the root, >= 1: 4 for the inverse fourth root.
 * @param root_den denominator of the root, >= 1: 1 for the inverse fourth root.
 * @param info filled; struct_size must be set before. NULL: not wanted.
 * @retval SHAMPOO_OK x and info are written.
 * @retval SHAMPOO_E_INVALID n, dtype or the root is out of range, the root is not whole with newton, values of the
 * config contradict each other, a pointer that is needed is NULL, or info has a wrong struct_size.
 * @retval SHAMPOO_E_NUMERIC a has a NaN or an infinity, the root is not finite (an eigenvalue that is not above 0 with
 *     an epsilon of 0), or every rung of the recovery failed. x is as before.
 * @since 0.1
 */
shampoo_status shampoo_matrix_inverse_root(const shampoo_config* config, int64_t n, int32_t dtype, const void* a,
                                           void* x, int32_t root_num, int32_t root_den, shampoo_root_info* info);

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_H */
