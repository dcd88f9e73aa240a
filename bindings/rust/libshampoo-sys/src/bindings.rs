// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Made by bindings/rust/generate.py from shampoo.h, as SWIG reads it. Change the header, not this file.

use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_void};

/// Objects of the library are known by their addresses alone, which no thread may use unasked.
type Unmovable = PhantomData<(*mut u8, PhantomPinned)>;

/// Of the version of the header that these declarations are from.
pub const SHAMPOO_VERSION_MAJOR: i32 = 0;

/// Of the version of the header that these declarations are from.
pub const SHAMPOO_VERSION_MINOR: i32 = 1;

/// Of the version of the header that these declarations are from.
pub const SHAMPOO_VERSION_PATCH: i32 = 0;

/// Success.
pub const SHAMPOO_OK: i32 = 0;

/// An argument or a value of a config is wrong. Fix the call: the same call fails again.
pub const SHAMPOO_E_INVALID: i32 = 1;

/// The call is valid, but not at this time, such as a step before the buffers are bound. Fix the order of calls.
pub const SHAMPOO_E_STATE: i32 = 2;

/// This version, build or machine does not support it. Another build, backend or device may.
pub const SHAMPOO_E_UNSUPPORTED: i32 = 3;

/// Out of memory or of another system resource. Free some, or use smaller blocks or fewer threads.
pub const SHAMPOO_E_NOMEM: i32 = 4;

/// NaN or infinity. Check gradients, learning rate, epsilon and loss scale. The caller may continue.
pub const SHAMPOO_E_NUMERIC: i32 = 5;

/// A collective failed. End the job.
pub const SHAMPOO_E_COMM: i32 = 6;

/// A GPU or its runtime failed. End the process: CUDA cannot be used in it any more.
pub const SHAMPOO_E_DEVICE: i32 = 7;

/// A file is missing, unreadable or damaged, or the disk is full. The error names the file.
pub const SHAMPOO_E_IO: i32 = 8;

/// A bug of the library. Please report it with the texts of shampoo_last_error() and shampoo_build_info().
pub const SHAMPOO_E_INTERNAL: i32 = 9;

/// IEEE 754 binary32, 4 bytes. In keys: "f32".
pub const SHAMPOO_F32: i32 = 1;

/// IEEE 754 binary64, 8 bytes. In keys: "f64".
pub const SHAMPOO_F64: i32 = 2;

/// IEEE 754 binary16, 2 bytes. In keys: "f16".
pub const SHAMPOO_F16: i32 = 3;

/// The upper half of a binary32, 2 bytes. In keys: "bf16".
pub const SHAMPOO_BF16: i32 = 4;

/// Signed integer, 4 bytes.
pub const SHAMPOO_I32: i32 = 5;

/// Signed integer, 8 bytes.
pub const SHAMPOO_I64: i32 = 6;

/// Host memory, and computation on the host's processors.
pub const SHAMPOO_CPU: i32 = 1;

/// Memory of an NVIDIA GPU, and computation on it.
pub const SHAMPOO_CUDA: i32 = 2;

/// Result of a call: SHAMPOO_OK or a SHAMPOO_E\_ code. Codes are never renumbered; new ones may be added.
pub type shampoo_status = i32;

/// Receives messages of the library. It is called on threads that are inside a call of the library, possibly on several
/// at once. It must return normally (no exception, no longjmp). It must not call the library with an object that the
/// interrupted call uses.
///
/// - `user` the pointer that was passed to shampoo_set_log().
/// - `level` 0 error, 1 warning, 2 information, 3 debugging.
/// - `message` one message, without a newline. Valid during the call.
pub type shampoo_log_callback = Option<unsafe extern "C" fn(*mut c_void, i32, *const c_char)>;

/// Hyper-parameters by name.
#[repr(C)]
pub struct shampoo_config {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// Parameters divided into blocks, with owners and sizes in bytes.
#[repr(C)]
pub struct shampoo_plan {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// A group of ranks.
#[repr(C)]
pub struct shampoo_comm {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// The state of an optimizer and everything that its steps need.
#[repr(C)]
pub struct shampoo_optimizer {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// A parameter with its gradient. All fields that are not set must be 0, as SHAMPOO_TENSOR_INIT and designated
/// initializers leave them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_tensor {
    /// Name of the parameter. It must be unique, and the same in every run, because checkpoints use it. NULL (default):
    /// "param.i" for the tensor of index i.
    pub name: *const c_char,
    /// The parameter: dense, row-major. Steps read and overwrite it.
    pub data: *mut c_void,
    /// The gradient, in the shape and dtype of data. Steps read it. NULL (default): no gradient; steps leave the
    /// parameter unchanged until shampoo_optimizer_bind() sets one.
    pub grad: *const c_void,
    /// Dtype of data and grad: SHAMPOO_F32 (also 0, the default), F64, F16 or BF16.
    pub dtype: i32,
    /// Number of dims, 0..8; 0 (default) is a scalar.
    pub ndim: i32,
    /// Shape in elements, outermost dim first. The first ndim entries are read.
    pub shape: [i64; 8],
    /// Device of data and grad: SHAMPOO_CPU (also 0, the default) or SHAMPOO_CUDA. The same for all tensors.
    pub device_type: i32,
    /// Number of the device. Default: 0. The same for all tensors.
    pub device_id: i32,
}

/// A backend. Begin with SHAMPOO_BACKEND_INFO_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_backend_info {
    /// sizeof(shampoo_backend_info), set by the \_INIT macro.
    pub struct_size: usize,
    /// Name of the backend: "cpu" or "cuda". Valid as long as the library is loaded.
    pub name: *const c_char,
    /// Why the backend cannot be used on this machine, as a sentence; "" if it can. Valid as long as the library is
    /// loaded.
    pub unavailable_reason: *const c_char,
    /// 1: optimizers can be created on it. 0: they cannot, for unavailable_reason.
    pub usable: i32,
    /// Number of its devices; the CPU counts as one. 0 if usable is 0.
    pub device_count: i32,
}

/// A key. Begin with SHAMPOO_KEY_INFO_INIT. All strings are valid as long as the library is loaded.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_key_info {
    /// sizeof(shampoo_key_info), set by the \_INIT macro.
    pub struct_size: usize,
    /// The key, such as "lr".
    pub name: *const c_char,
    /// "f64", "i64", "bool", "choice", "dtype" or "list" (of integers).
    pub value_type: *const c_char,
    /// The default as text. "auto": computed from other keys or from the parameter, as doc explains.
    pub default_value: *const c_char,
    /// The allowed values, for people: an interval such as "\[0, 1)", or the names of choices.
    pub range: *const c_char,
    /// What the key does.
    pub doc: *const c_char,
    /// 0: a key of the whole optimizer, read from the plan's own config. 1: a key of a parameter group.
    pub scope: i32,
    /// 1: shampoo_optimizer_set() can change it. 0: it is fixed when the plan takes the config.
    pub changeable: i32,
}

/// A parameter. Begin with SHAMPOO_PARAM_DESC_INIT; set at least name, ndim and shape.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_param_desc {
    /// sizeof(shampoo_param_desc), set by the \_INIT macro.
    pub struct_size: usize,
    /// Name. It must be unique within the plan and the same in every run: keys of the state begin with it. Required.
    pub name: *const c_char,
    /// Number of dims, 0..8; 0 (default) is a scalar.
    pub ndim: i32,
    /// Number of leading dims that only stack separate tensors, 0..ndim: 1 for the weights of L layers in one array of
    /// shape (L, m, n). Default: 0.
    pub stack_dims: i32,
    /// Shape of the whole parameter in elements, outermost dim first, even if this rank holds a shard of it. The first
    /// ndim entries are read; each is \>= 0. Parameters are row-major and dense.
    pub shape: [i64; 8],
    /// Dtype of shampoo_buffers.param: SHAMPOO_F32 (default), F64, F16 or BF16.
    pub param_dtype: i32,
    /// Dtype of shampoo_buffers.grad: SHAMPOO_F32 (default), F64, F16 or BF16.
    pub grad_dtype: i32,
    /// A group from shampoo_plan_add_group(); 0 (default) is the group of the plan's own config.
    pub group: i32,
    /// What this rank holds of the parameter, and so what its buffers contain. 0 (default): all of it. 1: a flat shard,
    /// elements \[flat_offset, flat_offset + flat_count) of the row-major flattened parameter. 2: a rectangle of shape
    /// local_shape whose first element is at local_offset, row-major and dense. The key "shard_mode" says how shards are
    /// preconditioned.
    pub shard_form: i32,
    /// Form 1: index of the first element in the flattened parameter. Otherwise 0.
    pub flat_offset: i64,
    /// Form 1: number of elements; 0 if this rank holds nothing of the parameter. Otherwise 0.
    pub flat_count: i64,
    /// Form 2: first index along each dim, in elements; ndim entries. Otherwise 0.
    pub local_offset: [i64; 8],
    /// Form 2: extent along each dim, in elements; ndim entries. Otherwise 0.
    pub local_shape: [i64; 8],
    /// Dtype of shampoo_buffers.out: F32, F64, F16 or BF16. Default: 0, the same as param_dtype.
    pub out_dtype: i32,
    /// Dtype of shampoo_buffers.copy: F32, F64, F16 or BF16. Default: 0, the same as param_dtype.
    pub copy_dtype: i32,
}

/// A block. Begin with SHAMPOO_BLOCK_INFO_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_block_info {
    /// sizeof(shampoo_block_info), set by the \_INIT macro.
    pub struct_size: usize,
    /// Index of its parameter.
    pub param: i32,
    /// Replica rank that keeps its state and computes its update, in \[0, replica_world). Blocks are assigned greedily,
    /// largest first, each to the least-loaded rank; the key "balance" selects the measure of load.
    pub owner: i32,
    /// Shard rank that keeps its state. With "shard_mode" local it is this rank. With gather it can be any: blocks are
    /// assigned over replica and shard ranks together.
    pub shard_owner: i32,
    /// 1: a block of this rank's shard, which is less than the parameter. 0: a block of the whole parameter.
    pub of_shard: i32,
    /// Order of the block, after merging and splitting: 1..8. It has that many factor matrices, or none if only the
    /// grafting method applies (key "precondition_1d").
    pub ndim: i32,
    /// Shape in elements; ndim entries, the others are 0. Factor matrix k is shape\[k\] x shape\[k\].
    pub shape: [i64; 8],
    /// Distance between neighbors along each dim, in elements of the row-major flattened parameter or, with of_shard, of
    /// this rank's buffer; ndim entries, the others are 0.
    pub stride: [i64; 8],
    /// Index of its first element, counted like stride.
    pub flat_offset: i64,
    /// Size of its state in bytes, as its owner keeps it.
    pub state_bytes: i64,
}

/// Where a plan is carried out. Begin with SHAMPOO_PLAN_DESC_INIT: one process on the CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_plan_desc {
    /// sizeof(shampoo_plan_desc), set by the \_INIT macro.
    pub struct_size: usize,
    /// Device of the plan's optimizers: SHAMPOO_CPU (default) or SHAMPOO_CUDA. A plan for CUDA needs no GPU.
    pub device_type: i32,
    /// Threads of a step, including the caller's, 0..4096. 0 (default): as the key "threads" says. If that is 0 as well:
    /// up to all processors that the affinity mask and the CPU quota of the control group allow; a step wakes only as many
    /// threads as its work is worth.
    pub threads: i32,
    /// Rank of this process among those that hold the same parameters, in \[0, replica_world). Default: 0.
    pub replica_rank: i32,
    /// Number of processes that hold the same parameters, \>= 1. Default: 1. Each keeps the state of some of the blocks.
    /// If it is above 1, an optimizer needs a communicator of as many ranks (shampoo_optimizer_desc.replica_comm).
    pub replica_world: i32,
    /// Rank of this process among those that hold the shards of one copy of the parameters, in \[0, shard_world).
    /// Default: 0.
    pub shard_rank: i32,
    /// Number of shards of one copy, \>= 1. Default: 1.
    pub shard_world: i32,
}

/// Functions of the caller's communicator. Begin with SHAMPOO_COMM_OPS_INIT; set at least rank, world and all_gather.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_comm_ops {
    /// sizeof(shampoo_comm_ops), set by the \_INIT macro.
    pub struct_size: usize,
    /// Passed to the callbacks. Default: NULL.
    pub user: *mut c_void,
    /// Rank of this process, in \[0, world). Default: 0.
    pub rank: i32,
    /// Number of ranks, \>= 1. Default: 1.
    pub world: i32,
    /// Memory that the callbacks take: SHAMPOO_CPU (default) or SHAMPOO_CUDA. It must be that of the optimizer.
    pub device_type: i32,
    /// All-gather: recv receives world segments of bytes_per_rank bytes (\> 0), segment r from rank r. send may be
    /// recv + rank \* bytes_per_rank. On CUDA it is ordered on stream; on the CPU stream is NULL, and the function returns
    /// when recv is filled. Every rank makes the same sequence of calls with the same sizes. Returns 0, or another number
    /// on failure, which the error text shows. It is called on a thread that is inside a call with the optimizer.
    /// Required.
    pub all_gather: Option<unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, usize, *mut c_void) -> i32>,
    /// All-to-all, for a shard_comm with "shard_mode" gather: sends send_bytes\[r\] bytes to each rank r, including this
    /// one, and receives recv_bytes\[r\] bytes from it. In send and recv the data of rank 0 is first, then that of rank 1,
    /// and so on, without gaps; sizes may be 0. Order, memory and result are as for all_gather. All ranks must have it, or
    /// none. NULL (default): all_gather is used instead, which takes more memory and sends more.
    pub all_to_all: Option<unsafe extern "C" fn(*mut c_void, *const c_void, *const usize, *mut c_void, *const usize, *mut c_void) -> i32>,
    /// Returns a failure that was detected after the call that caused it, or 0. It is called before each all_gather and
    /// all_to_all. Default: NULL.
    pub async_error: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    /// Makes collectives of other ranks that wait for this rank fail. It is called once, after a collective failed on
    /// this rank. Default: NULL.
    pub abort: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Called once, after the last use: when the shampoo_comm and every optimizer with it have been destroyed.
    /// Default: NULL.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Optional memory functions of the host. Begin with SHAMPOO_ALLOCATOR_INIT; set both allocate and deallocate.
///
/// On the CPU they allocate the arena of the state (unless one is passed) and the workspace; small tables and scratch
/// memory of the solver stay on the library's heap. On CUDA they allocate device memory: arena, workspace and exchange
/// buffers; cuBLAS and cuSOLVER allocate theirs themselves. They are called only inside shampoo_optimizer_create() and
/// shampoo_optimizer_destroy(), and inside shampoo_save() and shampoo_load() if world takes device memory, on the thread
/// that makes the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_allocator {
    /// sizeof(shampoo_allocator), set by the \_INIT macro.
    pub struct_size: usize,
    /// Passed to the callbacks. Default: NULL.
    pub user: *mut c_void,
    /// Returns bytes (\> 0) of memory aligned to align (a power of two), or NULL, which makes the call fail with
    /// SHAMPOO_E_NOMEM. device_type and device_id are those of the optimizer. The memory is used in the order of stream.
    /// On the CPU the last three are SHAMPOO_CPU, 0 and NULL.
    pub allocate: Option<unsafe extern "C" fn(*mut c_void, usize, usize, i32, i32, *mut c_void) -> *mut c_void>,
    /// Frees what allocate returned, with the same bytes. It must not fail. On CUDA all work on the memory is done.
    pub deallocate: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i32, i32, *mut c_void)>,
    /// Called once, after the last use. Not called if shampoo_optimizer_create() fails. Default: NULL.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Optional threads of the host. Begin with SHAMPOO_EXECUTOR_INIT; set threads and parallel_for. Results have the same
/// bits with every executor. Optimizers on CUDA do not use it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_executor {
    /// sizeof(shampoo_executor), set by the \_INIT macro.
    pub struct_size: usize,
    /// Passed to the callbacks. Default: NULL.
    pub user: *mut c_void,
    /// Largest count that parallel_for accepts, \>= 1. The threads of the plan are another limit, because workspace is
    /// allocated for as many.
    pub threads: i32,
    /// Runs task(argument, i) once for every i in \[0, count), on any threads and in any order, and returns when all tasks
    /// have returned. count is at most threads. Tasks must see what the calling thread wrote before, and the caller what
    /// the tasks wrote, as with every lock or join. It is called on a thread that is inside a call with the optimizer. It
    /// must not throw.
    pub parallel_for: Option<unsafe extern "C" fn(*mut c_void, Option<unsafe extern "C" fn(*mut c_void, i64)>, *mut c_void, i64)>,
    /// Called once, after the last use. Not called if shampoo_optimizer_create() fails. Default: NULL.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Device, communicators and resources of an optimizer. Begin with SHAMPOO_OPTIMIZER_DESC_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_optimizer_desc {
    /// sizeof(shampoo_optimizer_desc), set by the \_INIT macro.
    pub struct_size: usize,
    /// SHAMPOO_CPU (default) or SHAMPOO_CUDA: that of the plan.
    pub device_type: i32,
    /// Number of the device, as CUDA counts. Default: 0, the only one on the CPU.
    pub device_id: i32,
    /// Ranks that hold the same parameters. Its world and rank are the plan's replica_world and replica_rank. NULL
    /// (default): one rank. The optimizer keeps a reference of its own. On CUDA it must take device memory.
    pub replica_comm: *mut shampoo_comm,
    /// Ranks that hold the shards of one copy. Its world and rank are the plan's shard_world and shard_rank. NULL
    /// (default): shards are stepped without agreement; not possible with "shard_mode" gather. The optimizer keeps a
    /// reference of its own. On CUDA it must be NULL.
    pub shard_comm: *mut shampoo_comm,
    /// Memory functions. NULL (default): the library's own.
    pub allocator: *const shampoo_allocator,
    /// Threads. NULL (default): the library's pool, one per process. Its threads start with the first optimizer that
    /// needs them and end with the last.
    pub executor: *const shampoo_executor,
    /// On CUDA, the stream in whose order memory is allocated and the state is initialized. NULL (default) on the CPU.
    pub stream: *mut c_void,
    /// Arena of the state. NULL (default): allocated. Otherwise memory of the optimizer's device, aligned to 64 bytes.
    /// The call initializes it. It must live until the optimizer is destroyed or another arena is bound.
    pub state: *mut c_void,
    /// Size of state in bytes, at least what shampoo_plan_bytes() returns for "state". Ignored if state is NULL.
    pub state_bytes: usize,
}

/// Memory of one parameter. Begin with SHAMPOO_BUFFERS_INIT. Addresses are of the optimizer's device and aligned for
/// their dtypes. Arrays are dense and row-major, in the shape of the parameter or of this rank's shard. out may be the
/// address of param if both have the same dtype; apart from that, out and copy must not overlap other buffers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_buffers {
    /// sizeof(shampoo_buffers), set by the \_INIT macro.
    pub struct_size: usize,
    /// The parameter, in param_dtype. Steps read it. May be NULL only if the other three are NULL.
    pub param: *const c_void,
    /// The gradient, in grad_dtype. Steps read it. NULL: no gradient. Then the parameter and its state do not change, not
    /// even by weight decay or momentum; out and copy still receive the value of param (out receives zeros if the key
    /// "output" is updates).
    pub grad: *const c_void,
    /// The new parameter, in out_dtype; with the key "output" set to updates, the update to be added to the parameter.
    /// Steps write it. May be NULL only if grad is NULL.
    pub out: *mut c_void,
    /// The new parameter once more, in copy_dtype, such as a bfloat16 model beside float32 master weights. Steps write
    /// it. NULL: no copy.
    pub copy: *mut c_void,
}

/// An entry of the state. Begin with SHAMPOO_STATE_ENTRY_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_state_entry {
    /// sizeof(shampoo_state_entry), set by the \_INIT macro.
    pub struct_size: usize,
    /// Name, unique within the optimizer. Valid as long as the optimizer lives.
    pub key: *const c_char,
    /// Shape in elements, outermost dim first; ndim entries, the others are 0.
    pub shape: [i64; 8],
    /// For an entry in the shape of its block: index of the block's first element in the whole flattened parameter.
    /// Otherwise -1.
    pub flat_offset: i64,
    /// Size in the arena, in bytes. Factor matrices and inverse roots of order 128 or more are stored as one triangle;
    /// reading and writing always use the full matrix.
    pub stored_bytes: i64,
    /// Number of dims.
    pub ndim: i32,
    /// Dtype of the elements that are read and written.
    pub dtype: i32,
    /// 1: a symmetric matrix. 0: anything else.
    pub symmetric: i32,
    /// 1: an entry of a block of this rank's shard, as shampoo_block_info.of_shard. 0: anything else.
    pub of_shard: i32,
    /// Replica rank that keeps it: this one. Each rank lists only what it keeps.
    pub owner: i32,
    /// Shard rank that keeps it: this one.
    pub shard_owner: i32,
}

/// How a root was computed. Begin with SHAMPOO_ROOT_INFO_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_root_info {
    /// sizeof(shampoo_root_info), set by the \_INIT macro.
    pub struct_size: usize,
    /// Method of the result: 0 scalar (n is 1), 1 diagonal (all elements off the diagonal are 0), 2 eigen, 3 newton,
    /// 4 higher_order. 0 and 1 are shortcuts of eigen.
    pub method: i32,
    /// Iterations of an iterative method; otherwise 0.
    pub iterations: i32,
    /// 1: converged to root_tolerance; always 1 with methods 0 to 2. 0: stopped at root_max_iterations; x is the last
    /// iterate, so check residual. -1: stopped close to a root, because it no longer improved.
    pub converged: i32,
    /// Number of attempts of the recovery ladder after the first one failed.
    pub retried: i32,
    /// max |A x^p - I|, elementwise, in float64. A is the matrix including epsilon, and p is
    /// root_num / (root_den \* exponent_multiplier). With pseudo_inverse, I is replaced by the projector on the directions
    /// that were kept. NaN if x has no such power; 0 if the exponent is 0.
    pub residual: f64,
}

extern "C" {
    /// Creates an optimizer of tensors. Call shampoo_create(), which passes tensor_size.
    ///
    /// - `out` receives the optimizer. Release it with shampoo_optimizer_destroy().
    /// - `options` keys and values as for shampoo_config_parse(), such as "lr=0.01 weight_decay=0.1". NULL or "": the
    ///   defaults. The key "output" must have its default, because parameters are updated in place.
    /// - `tensors` count elements, tensor_size bytes apart. data and grad are bound: they must live until they are bound
    ///   again or the optimizer is destroyed. May be NULL if count is 0.
    /// - `count` number of tensors, \>= 0.
    /// - `tensor_size` sizeof(shampoo_tensor) of the caller.
    /// - returns `SHAMPOO_E_INVALID`: a key or value of options, or a field of a tensor is wrong.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: the device cannot be used; see shampoo_backend_describe().
    pub fn shampoo_create_sized(
        out: *mut *mut shampoo_optimizer,
        options: *const c_char,
        tensors: *const shampoo_tensor,
        count: i32,
        tensor_size: usize,
    ) -> shampoo_status;
    /// Returns the version of the loaded library, to be compared with the SHAMPOO_VERSION\_ macros.
    ///
    /// - returns major \* 10000 + minor \* 100 + patch: 100 for 0.1.0.
    pub fn shampoo_version() -> i32;
    /// Describes this build, for logs and bug reports.
    ///
    /// - returns a JSON object: version, compiler, BLAS and the BLAS kernel that runs on this CPU, "backends" and
    ///   "root_methods". Ignore members that you do not know. Valid as long as the library is loaded.
    pub fn shampoo_build_info() -> *const c_char;
    /// Returns the name of a status code.
    ///
    /// - `status` any number.
    /// - returns its name in this header, such as "SHAMPOO_E_STATE", or "unknown status". Valid as long as the library is
    ///   loaded.
    pub fn shampoo_status_name(status: shampoo_status) -> *const c_char;
    /// Returns the text of the last call that failed on this thread. Successful calls do not clear it.
    /// shampoo_optimizer_error() has the last failure of one optimizer, on any thread.
    ///
    /// - returns the text in English, without a newline at its end; "" if no call has failed yet. Valid until the next call of
    ///   this thread to the library. It has at most 4095 bytes; a longer one is cut and ends in " ... (cut off)".
    pub fn shampoo_last_error() -> *const c_char;
    /// Sets the log callback of the process. At first there is none, and messages are dropped: the library never prints.
    /// Another thread may still deliver a message to the previous callback shortly after this function has returned.
    ///
    /// - `callback` called for each message. NULL: messages are dropped.
    /// - `user` passed to the callback. May be NULL.
    /// - `max_level` messages above this level are dropped: 0 (errors only) to 3 (everything).
    /// - returns `SHAMPOO_E_INVALID`: max_level is out of range.
    pub fn shampoo_set_log(callback: shampoo_log_callback, user: *mut c_void, max_level: i32) -> shampoo_status;
    /// Loads the CUDA backend, once per process. This call is only needed if the backend is in an unusual place: plans and
    /// optimizers load it automatically from the folder of this library or from where the system finds it. It starts no
    /// driver and needs no GPU.
    ///
    /// Blocks while libraries are loaded.
    ///
    /// - `name_or_path` "cuda": libshampoo_cuda.so.0 (0 is the major version) or libshampoo_cuda.so in the folder of this
    ///   library, or libshampoo_cuda.so.0 as dlopen() finds it. Otherwise the path of that file.
    /// - returns `SHAMPOO_OK`: it is loaded, by this call or an earlier one.
    /// - returns `SHAMPOO_E_STATE`: another file was loaded before.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: the file or a library that it needs (cuBLAS, cuSOLVER) was not found, or it has another
    ///   version than this library. The error says which.
    pub fn shampoo_backend_load(name_or_path: *const c_char) -> shampoo_status;
    /// Returns the number of backends that this version knows, available or not.
    ///
    /// - returns 2: the CPU and CUDA.
    pub fn shampoo_backend_count() -> i32;
    /// Describes a backend. For CUDA this loads the backend and starts the driver. As with every use of CUDA, do not call it
    /// in a process that forks and uses CUDA in the child.
    ///
    /// Blocks while libraries and the driver are loaded.
    ///
    /// - `index` 0 for the CPU, 1 for CUDA.
    /// - `info` filled; struct_size must be set.
    /// - returns `SHAMPOO_E_INVALID`: index is out of range.
    pub fn shampoo_backend_describe(index: i32, info: *mut shampoo_backend_info) -> shampoo_status;
    /// Creates a config in which every key has its default.
    ///
    /// - `out` receives the config. Release it with shampoo_config_destroy().
    /// - returns `SHAMPOO_E_NOMEM`: out of memory.
    pub fn shampoo_config_create(out: *mut *mut shampoo_config) -> shampoo_status;
    /// Copies a config, for example for a second parameter group that differs in two keys.
    ///
    /// - `out` receives the new config. Release it with shampoo_config_destroy().
    /// - `config` copied. The two are independent afterwards.
    /// - returns `SHAMPOO_E_NOMEM`: out of memory.
    pub fn shampoo_config_clone(out: *mut *mut shampoo_config, config: *const shampoo_config) -> shampoo_status;
    /// Releases a config. Plans that were made from it are not affected.
    ///
    /// - `config` released, with all strings that shampoo_config_get() returned for it. May be NULL.
    pub fn shampoo_config_destroy(config: *mut shampoo_config);
    /// Sets a key of type "f64".
    ///
    /// - `config` changed.
    /// - `key` name of the key.
    /// - `value` in the range of the key.
    /// - returns `SHAMPOO_E_INVALID`: there is no such key (the error suggests a similar name), it has another type (the error
    ///   names the function to use), or the value is out of range.
    pub fn shampoo_config_set_f64(config: *mut shampoo_config, key: *const c_char, value: f64) -> shampoo_status;
    /// Sets a key of type "i64", "bool" or "f64" to an integer.
    ///
    /// - `config` changed.
    /// - `key` name of the key.
    /// - `value` in the range of the key; for a "bool" 0 or 1.
    /// - returns `SHAMPOO_E_INVALID`: as for shampoo_config_set_f64().
    pub fn shampoo_config_set_i64(config: *mut shampoo_config, key: *const c_char, value: i64) -> shampoo_status;
    /// Sets a key of any type from text.
    ///
    /// - `config` changed.
    /// - `key` name of the key.
    /// - `value` in the spelling that the head of this section gives. Blanks and tabs around it are ignored.
    /// - returns `SHAMPOO_E_INVALID`: there is no such key, the text is not a value of its type, or the value is out of range.
    pub fn shampoo_config_set_str(
        config: *mut shampoo_config,
        key: *const c_char,
        value: *const c_char,
    ) -> shampoo_status;
    /// Sets keys from a text of pairs, such as "lr=0.01 grafting=adam" from a command line, or a whole settings file.
    ///
    /// Pairs `key=value` are separated by blanks, tabs or line ends. Blanks around "=" are allowed, blanks in values are
    /// not.
    /// "#" begins a comment that ends with its line. If a key occurs twice, its last value counts.
    ///
    /// - `config` changed. If the call fails, no key is changed.
    /// - `options` the text.
    /// - returns `SHAMPOO_E_INVALID`: a key has no value, or as for shampoo_config_set_str(). If the text has several lines, the
    ///   error names the line.
    pub fn shampoo_config_parse(config: *mut shampoo_config, options: *const c_char) -> shampoo_status;
    /// Returns the value of a key as text that shampoo_config_set_str() reads back to the same value.
    ///
    /// - `config` read. May be NULL.
    /// - `key` name of the key. May be NULL.
    /// - returns the value, valid until the config is changed or destroyed. NULL if there is no such key or an argument is
    ///   NULL; shampoo_last_error() stays as it was.
    pub fn shampoo_config_get(config: *const shampoo_config, key: *const c_char) -> *const c_char;
    /// Returns the number of keys.
    ///
    /// - returns the number, constant while the library is loaded.
    pub fn shampoo_config_key_count() -> i32;
    /// Describes a key. Keys are in the order of docs/keys.md, which may change between versions.
    ///
    /// - `index` in \[0, shampoo_config_key_count()).
    /// - `info` filled; struct_size must be set.
    /// - returns `SHAMPOO_E_INVALID`: index is out of range.
    pub fn shampoo_config_describe_key(index: i32, info: *mut shampoo_key_info) -> shampoo_status;
    /// Creates an empty plan.
    ///
    /// - `out` receives the plan. Release it with shampoo_plan_destroy().
    /// - `config` hyper-parameters of group 0 and of the whole optimizer (keys of scope 0). Copied.
    /// - `desc` device, threads and ranks.
    /// - returns `SHAMPOO_E_INVALID`: values of the config contradict each other, such as epsilon 0 without
    ///   root_relative_epsilon and without root_rank_handling pseudo_inverse; a rank is not below its world; or threads is
    ///   out of range.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: device_type is unknown, or a key has a value that CUDA does not support yet. The error
    ///   names it.
    pub fn shampoo_plan_create(
        out: *mut *mut shampoo_plan,
        config: *const shampoo_config,
        desc: *const shampoo_plan_desc,
    ) -> shampoo_status;
    /// Releases a plan. Optimizers that were created from it are not affected.
    ///
    /// - `plan` released. No thread may be reading it. May be NULL.
    pub fn shampoo_plan_destroy(plan: *mut shampoo_plan);
    /// Adds a parameter group: parameters with hyper-parameters and a step counter of their own.
    ///
    /// - `plan` not finished yet.
    /// - `config` hyper-parameters of the group. Copied. Keys of scope 0 are taken from the plan's config; one that is
    ///   set here must have the same value.
    /// - `group_out` receives the number of the group: 1, 2, ... May be NULL.
    /// - returns `SHAMPOO_E_INVALID`: values of the config contradict each other, or a key of scope 0 differs from the plan's.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: a key has a value that CUDA does not support yet.
    pub fn shampoo_plan_add_group(
        plan: *mut shampoo_plan,
        config: *const shampoo_config,
        group_out: *mut i32,
    ) -> shampoo_status;
    /// Adds a parameter.
    ///
    /// - `plan` not finished yet.
    /// - `desc` name, shape, dtypes and group of the parameter.
    /// - `index_out` receives the index of the parameter, from 0 in the order of these calls. shampoo_optimizer_bind()
    ///   uses it. May be NULL.
    /// - returns `SHAMPOO_E_INVALID`: the name is missing, empty or taken; a dim, dtype, group or shard is out of range; or there
    ///   are more than 2^59 elements.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished.
    pub fn shampoo_plan_add_param(
        plan: *mut shampoo_plan,
        desc: *const shampoo_param_desc,
        index_out: *mut i32,
    ) -> shampoo_status;
    /// Describes what another shard rank holds of a parameter. "shard_mode" gather needs this for all ranks.
    ///
    /// It is not needed for the regular layouts, which are recognized from this rank's own shard: equal chunks of the
    /// flattened parameter (ceil(elements / shard_world) elements each), equal chunks of dim 0 (ceil(shape\[0\] / shard_world)
    /// rows each), and the whole parameter on every rank. For other layouts, call it on every rank for all other ranks, with
    /// the same descriptions on all of them.
    ///
    /// - `plan` not finished yet.
    /// - `param` index of the parameter.
    /// - `shard_rank` in \[0, shard_world). This rank itself is allowed.
    /// - `desc` the shard. Only shard_form, flat_offset, flat_count, local_offset and local_shape are read.
    /// - returns `SHAMPOO_E_INVALID`: param or shard_rank is out of range, the shard is not within the parameter, or this rank
    ///   was described differently before.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished.
    pub fn shampoo_plan_add_shard(
        plan: *mut shampoo_plan,
        param: i32,
        shard_rank: i32,
        desc: *const shampoo_param_desc,
    ) -> shampoo_status;
    /// Computes blocks, owners and sizes. Afterwards nothing can be added, any number of threads may read the plan, and any
    /// number of optimizers can be created from it.
    ///
    /// - `plan` not finished yet.
    /// - returns `SHAMPOO_E_INVALID`: a block has a dim above 32750 or more than 2^31 - 1 elements, or there are more than 2^20
    ///   blocks: choose another "max_preconditioner_dim". Or a value of a config does not fit the arithmetic of a
    ///   parameter ("computation_dtype"): the error names both. Or, with "shard_mode" gather, the shard of a rank is not
    ///   known, or the shards of a parameter do not hold each element exactly once.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished already.
    pub fn shampoo_plan_finish(plan: *mut shampoo_plan) -> shampoo_status;
    /// Returns the number of blocks of all owners.
    ///
    /// - `plan` finished.
    /// - `count_out` receives the number.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    pub fn shampoo_plan_block_count(plan: *const shampoo_plan, count_out: *mut i64) -> shampoo_status;
    /// Describes a block. Blocks are sorted by parameter, then by stacked tensor, then by piece of the shard in memory, then
    /// by chunk, with the chunks of the first dim outermost.
    ///
    /// - `plan` finished.
    /// - `index` in \[0, number of blocks).
    /// - `info` filled; struct_size must be set.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    pub fn shampoo_plan_block(plan: *const shampoo_plan, index: i64, info: *mut shampoo_block_info) -> shampoo_status;
    /// Returns how many bytes an optimizer of the plan allocates or sends on one rank. State and workspace are accurate to
    /// 1 %; on CUDA the workspace is an upper bound. Tables of the blocks take about 2 kB per block on the host in addition.
    ///
    /// - `plan` finished.
    /// - `rank` replica rank, in \[0, replica_world). With "shard_mode" gather over several shard ranks: replica rank \*
    ///   shard_world + shard rank. -1: this rank.
    /// - `what` one of:
    ///   - "state": the arena of the state, exact; the size that shampoo_optimizer_desc.state and
    ///   shampoo_optimizer_bind_state() need;
    ///   - "workspace": everything else that a step needs;
    ///   - "total": state and workspace;
    ///   - "comm": what the rank sends to other ranks in a step, with padding and headers, but without the few bytes of
    ///   status (docs/many_ranks.md).
    ///
    ///   With "shard_mode" gather, these hold for a shard_comm with all_to_all; "workspace.all_gather",
    ///   "total.all_gather" and "comm.all_gather" for one without.
    /// - `bytes_out` receives the number of bytes.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    pub fn shampoo_plan_bytes(
        plan: *const shampoo_plan,
        rank: i32,
        what: *const c_char,
        bytes_out: *mut i64,
    ) -> shampoo_status;
    /// Creates a communicator from functions of the caller.
    ///
    /// - `out` receives the communicator. Release it with shampoo_comm_destroy().
    /// - `ops` the functions. user must live until release is called.
    /// - returns `SHAMPOO_E_INVALID`: all_gather is NULL, rank is not below world, or device_type is unknown. release is not
    ///   called.
    pub fn shampoo_comm_from_ops(out: *mut *mut shampoo_comm, ops: *const shampoo_comm_ops) -> shampoo_status;
    /// Creates a communicator from an ncclComm_t, with the NCCL that the process has loaded; the library never loads one.
    /// For callers that cannot compile \<shampoo/shampoo_nccl.h\>, such as Python and Java.
    ///
    /// - `out` receives the communicator. Release it with shampoo_comm_destroy().
    /// - `nccl_comm` the caller's ncclComm_t. It must live as long as the shampoo_comm and all optimizers with it.
    /// - `libnccl_path` the file from which NCCL was loaded, or its soname. NULL: libnccl.so.2.
    /// - returns `SHAMPOO_E_INVALID`: NCCL rejects nccl_comm.
    /// - returns `SHAMPOO_E_STATE`: the process has not loaded NCCL by this name.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: the loaded NCCL lacks a function of NCCL 2.
    pub fn shampoo_comm_from_nccl(
        out: *mut *mut shampoo_comm,
        nccl_comm: *mut c_void,
        libnccl_path: *const c_char,
    ) -> shampoo_status;
    /// Releases the caller's reference to a communicator. Optimizers keep their own references.
    ///
    /// - `comm` released. May be NULL.
    pub fn shampoo_comm_destroy(comm: *mut shampoo_comm);
    /// Creates an optimizer and initializes its state. All state, workspace and threads are allocated here, so that steps
    /// allocate nothing. Call it after fork().
    ///
    /// Collective over the communicators of desc: the ranks compare their plans, and if one rank fails, all fail with an
    /// error that names the rank. A rank that has failed before, such as in shampoo_plan_finish(), must still make this
    /// call, with its unfinished plan, so that the other ranks do not wait for it.
    ///
    /// Blocks while memory is initialized and while other ranks have not made the call.
    ///
    /// - `out` receives the optimizer. Release it with shampoo_optimizer_destroy().
    /// - `plan` finished, and equal on all ranks.
    /// - `desc` device, communicators and resources.
    /// - returns `SHAMPOO_E_INVALID`: a field of desc, or of a struct that it points to, is wrong; world or rank of a
    ///   communicator is not that of the plan, or a communicator is missing; or the plans of two ranks differ.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: CUDA cannot be used, for the reason that shampoo_backend_describe() gives; a
    ///   communicator takes memory of another device type; or device_type is unknown.
    /// - returns `SHAMPOO_E_COMM`: a collective failed.
    /// - returns `SHAMPOO_E_NOMEM`: out of memory or threads. The error has the number. Reduce "max_preconditioner_dim", use
    ///   narrower states ("factor_dtype", ...) or fewer "threads"; shampoo_plan_bytes() predicts the sizes.
    pub fn shampoo_optimizer_create(
        out: *mut *mut shampoo_optimizer,
        plan: *const shampoo_plan,
        desc: *const shampoo_optimizer_desc,
    ) -> shampoo_status;
    /// Releases an optimizer: frees its memory, then calls the release callbacks. Bound buffers are not touched.
    ///
    /// Blocks until threads of the pool that no optimizer needs have ended; on CUDA until all steps are done.
    ///
    /// - `opt` released, with all strings that it returned. May be NULL.
    pub fn shampoo_optimizer_destroy(opt: *mut shampoo_optimizer);
    /// Binds the buffers of parameters. A host whose arrays stay in place calls it once; one whose arrays move calls it
    /// before each step. The contents are read and written by steps only.
    ///
    /// - `opt` changed.
    /// - `first` index of the first parameter.
    /// - `count` number of parameters, \>= 0. All of first .. first + count - 1 are bound or, on failure, none.
    /// - `buffers` count elements, buffers\[0\].struct_size bytes apart, all with the same struct_size. May be NULL if
    ///   count is 0.
    /// - returns `SHAMPOO_E_INVALID`: a parameter is out of range, a required address is NULL or misaligned, or out or copy
    ///   overlaps another buffer of its parameter.
    pub fn shampoo_optimizer_bind(
        opt: *mut shampoo_optimizer,
        first: i32,
        count: i32,
        buffers: *const shampoo_buffers,
    ) -> shampoo_status;
    /// Binds a hyper-parameter to a number in memory, which every step reads when it begins: for hosts that compute the
    /// learning rate or the loss scale. While bound, it takes precedence over shampoo_optimizer_set(). On CUDA the number is
    /// in device memory: a step reads it in the order of its stream, a captured step at each replay.
    ///
    /// - `opt` changed.
    /// - `group` a group of the plan; 0 is that of the plan's own config.
    /// - `key` "lr" or "gradient_scale".
    /// - `dtype` of the number: SHAMPOO_F32 or SHAMPOO_F64. Ignored if value is NULL.
    /// - `value` the number, of any alignment on the CPU. Steps check its range. NULL unbinds it: on the CPU the value
    ///   that was read last stays in force, on CUDA the value that was set last.
    /// - returns `SHAMPOO_E_INVALID`: there is no such group, key or dtype, or value is misaligned on CUDA.
    pub fn shampoo_optimizer_bind_scalar(
        opt: *mut shampoo_optimizer,
        group: i32,
        key: *const c_char,
        dtype: i32,
        value: *const c_void,
    ) -> shampoo_status;
    /// Binds the arenas that steps read and write, so that a step is a pure function of its inputs. One arena holds all
    /// state, including step counters; its layout depends on the plan alone, and a copy of its bytes is a snapshot.
    ///
    /// The arenas stay bound until the next call: if they are distinct, each step reads the same state_in again. Functions
    /// of the sections State and Checkpoints use the last state_out.
    ///
    /// On CUDA the host must know how many steps a state has made. It knows this for the arena that the last step wrote; for
    /// another arena, the next step reads it and waits for the stream once. If the host itself has written an arena, for
    /// example to restore a copy, first call this function with NULL and NULL. Otherwise the next step can be rejected with
    /// SHAMPOO_E_STATE, or use inverse roots of the previous state (with "root_async").
    ///
    /// - `opt` changed.
    /// - `state_in` arena that steps read, with the bytes of an optimizer of an equal plan. It is not initialized here.
    /// - `state_out` arena that steps write: state_in itself for steps in place, otherwise without overlap. Both are
    ///   memory of the optimizer's device, aligned to 64 bytes, of the size that shampoo_plan_bytes() returns for "state".
    ///   Both NULL: the arena with which the optimizer was created.
    /// - returns `SHAMPOO_E_INVALID`: one of the two is NULL, an address is misaligned, or the arenas overlap in part.
    pub fn shampoo_optimizer_bind_state(
        opt: *mut shampoo_optimizer,
        state_in: *const c_void,
        state_out: *mut c_void,
    ) -> shampoo_status;
    /// Changes a hyper-parameter of a group from the next step on: learning-rate schedules, loss scaling.
    ///
    /// - `opt` changed.
    /// - `group` a group of the plan; 0 is that of the plan's own config.
    /// - `key` a key whose shampoo_key_info.changeable is 1: "lr", "beta1", "beta2", "epsilon", "root_relative_epsilon",
    ///   "momentum", "weight_decay", "grafting_beta2", "grafting_epsilon" or "gradient_scale".
    /// - `value` in the range of the key and of the arithmetic of the group's blocks. Of epsilon and
    ///   root_relative_epsilon, the one that the group was created with must stay above 0 and the other one 0; both are 0
    ///   with root_rank_handling pseudo_inverse. grafting_beta2 is 1 with grafting adagrad.
    /// - returns `SHAMPOO_E_INVALID`: there is no such group or key, the key cannot be changed, or the value is out of range.
    /// - returns `SHAMPOO_E_STATE`: beta1 or momentum is 0 in the plan, so that there is no state for it. Create the plan with a
    ///   value above 0, and set it to 0 until it is needed.
    pub fn shampoo_optimizer_set(
        opt: *mut shampoo_optimizer,
        group: i32,
        key: *const c_char,
        value: f64,
    ) -> shampoo_status;
    /// Returns the value of a hyper-parameter of a group: the last one that was set by the config, by
    /// shampoo_optimizer_set() or by a step that read a bound scalar (except on CUDA, where the host does not see it). For
    /// "auto", for -1 of "start_preconditioning_step" and for 0 of "threads" it returns the resulting number.
    ///
    /// - `opt` read.
    /// - `group` a group of the plan; 0 is that of the plan's own config.
    /// - `key` a key of type "f64", "i64" or "bool" (0 or 1).
    /// - `value_out` receives the value.
    /// - returns `SHAMPOO_E_INVALID`: there is no such group or key, or the key has no number.
    pub fn shampoo_optimizer_get(
        opt: *const shampoo_optimizer,
        group: i32,
        key: *const c_char,
        value_out: *mut f64,
    ) -> shampoo_status;
    /// Makes one step of all groups.
    ///
    /// A step first checks that all parameters are bound, that no gradient (with coupled weight decay, no parameter) has a
    /// NaN, an infinity or a magnitude that would overflow a state, and, if inverse roots are due, that factor matrices are
    /// finite. If it fails, parameters, state and step counters are unchanged, and the caller may continue: skip the batch,
    /// lower the loss scale, and call again. Steps allocate no memory.
    ///
    /// With the key "on_nonfinite" set to skip_block or skip_step, blocks with such a gradient, or the whole step, are
    /// skipped instead, outputs are completed as for a missing gradient, and the call succeeds.
    ///
    /// If an inverse root cannot be computed, other methods are tried (docs/roots.md). If all fail, the block keeps its
    /// previous root. This is logged once per refresh, and counted (shampoo_optimizer_stat()). If the roots of a factor
    /// matrix fail at more refreshes in a row than "root_failure_tolerance" allows, the next step reports it once, before it
    /// writes anything.
    ///
    /// The direction of a block is known only after its states are written. If it is not finite, or would overflow the
    /// momentum, the parameter or the copy, the update of the block is skipped, logged and counted ("nonfinite_blocks").
    /// With "on_nonfinite" error the next step reports it once, before it writes anything.
    ///
    /// With several ranks the call is collective, and a failure of one rank is the error of all: see docs/many_ranks.md for
    /// what may have been written. On CUDA the step is enqueued on the stream, checks its inputs there, and is reported by a
    /// later call ("status_lag"); it can be captured into a CUDA graph: see docs/cuda.md.
    ///
    /// Blocks until the step is done; on CUDA see docs/cuda.md.
    ///
    /// - `opt` stepped.
    /// - `stream` on CUDA the stream of the step. NULL on the CPU.
    /// - returns `SHAMPOO_OK`: parameters, copies and state are written; on CUDA they will be, in the order of stream.
    /// - returns `SHAMPOO_E_INVALID`: a bound scalar is out of range, or ranks differ in their gradients or hyper-parameters.
    /// - returns `SHAMPOO_E_STATE`: a parameter has never been bound: call shampoo_optimizer_bind(), with grad NULL if it has no
    ///   gradient. Or a step counter in the state is out of range, or counters or parameters (key "verify_replicas")
    ///   differ between ranks. On CUDA also: a step at which roots are due was captured, a graph was replayed at such a step,
    ///   or the arena was written by something else (shampoo_optimizer_bind_state()).
    /// - returns `SHAMPOO_E_NUMERIC`: a gradient is not finite, or a state would overflow: the error names the parameter, the
    ///   block and the element, and what to try. Or a factor matrix is not finite, or its root has failed too often.
    /// - returns `SHAMPOO_E_COMM`: a collective failed, in this step or an earlier one. Parameters may be partly written, and
    ///   every later step fails.
    pub fn shampoo_optimizer_step(opt: *mut shampoo_optimizer, stream: *mut c_void) -> shampoo_status;
    /// Reports the first error of the CUDA steps that were enqueued since the last report, as shampoo_optimizer_step()
    /// would. Errors of roots and skipped updates are left to the next step. On the CPU there is never anything to report.
    ///
    /// Collective if there are several ranks. Blocks, with wait, until all steps are done, including replays on the stream
    /// of the last call.
    ///
    /// - `opt` queried.
    /// - `wait` 0: report only what is known without waiting; several ranks always wait. Otherwise: wait.
    /// - `step_out` receives the number of the rejected step: the number of its call of shampoo_optimizer_step() among
    ///   those that enqueued a step, from 1; a replay has the number of the captured call. 0: none. May be NULL.
    /// - returns `SHAMPOO_OK`: no step has been rejected since the last report.
    /// - returns `SHAMPOO_E_INVALID`: as for shampoo_optimizer_step(), of a rejected step; also the next three.
    /// - returns `SHAMPOO_E_STATE`: as above.
    /// - returns `SHAMPOO_E_NUMERIC`: as above.
    /// - returns `SHAMPOO_E_COMM`: as above.
    pub fn shampoo_optimizer_status(opt: *mut shampoo_optimizer, wait: i32, step_out: *mut i64) -> shampoo_status;
    /// Returns the text of the last failure of a call that takes this optimizer and is not const, on any thread: for hosts
    /// that move an optimizer between threads.
    ///
    /// - `opt` queried. NULL gives "".
    /// - returns the text; "" if no such call has failed. Valid until the next call with the optimizer.
    pub fn shampoo_optimizer_error(opt: *const shampoo_optimizer) -> *const c_char;
    /// Returns a counter of the optimizer. Counters begin at its creation unless noted. On CUDA they include what calls have
    /// reported so far. Keys:
    ///
    /// - "steps": steps made.
    /// - "step.G": step counter of group G. It is part of the state, so loading or writing the state sets it, and a step
    ///   without a gradient in the group does not count. On CUDA it is read in the order of the last call's stream, and the
    ///   call waits for it; it does not wait for replays on other streams.
    /// - "skipped_steps": steps skipped because of "on_nonfinite" skip_step; they are not among "steps".
    /// - "nonfinite_blocks": blocks with a gradient that cannot be used that were skipped by "on_nonfinite", alone or with
    ///   their step. With "shard_mode" gather, a rank counts blocks that it owns or holds a part of.
    /// - "root_computed": inverse roots computed, and of these by method: "root_scalar", "root_diagonal", "root_eigen",
    ///   "root_newton", "root_higher_order".
    /// - "root_retried": roots that needed the recovery ladder, and of these by rung: "root_retried_float64" (the same
    ///   method in float64), "root_retried_eigen" (eigendecomposition in float64), "root_retried_dsyevr", "root_retried_dsyev"
    ///   (other drivers of LAPACK).
    /// - "root_reused": previous roots kept because every rung failed.
    /// - "seconds.check", "seconds.factor_update", "seconds.roots", "seconds.preconditioning", "seconds.elementwise", with
    ///   the key "track_times": thread time of each phase over all steps, in seconds.
    /// - "root_error.W", with the key "track_root_residuals", over the last refresh of each factor matrix: the largest
    ///   |X - X64| relative to the largest |X64|, where X64 is the root in float64.
    /// - "root_residual.W", likewise: the largest |X^(-1/e) - (A + epsilon I)| relative to the largest |A + epsilon I|,
    ///   where e is the exponent (infinity if X has no such power).
    ///
    /// W is mean, median, p90 (90 % are not above it), max, or worst: the index of the factor matrix with the max, over all
    /// blocks in the order of the plan, or -1 if nothing is tracked. The log names it (level 2).
    ///
    /// Blocks only for "step.G" on CUDA.
    ///
    /// - `opt` queried.
    /// - `key` one of those above.
    /// - `value_out` receives the number.
    /// - returns `SHAMPOO_E_STATE`: for "step.G": a load that failed has spoiled the state; or, on CUDA, the stream of the last
    ///   call is being captured.
    pub fn shampoo_optimizer_stat(
        opt: *const shampoo_optimizer,
        key: *const c_char,
        value_out: *mut f64,
    ) -> shampoo_status;
    /// Returns the number of entries, which depends on the plan alone.
    ///
    /// - `opt` queried.
    /// - `count_out` receives the number.
    /// - returns `SHAMPOO_OK`: \*count_out is set.
    pub fn shampoo_state_count(opt: *const shampoo_optimizer, count_out: *mut i64) -> shampoo_status;
    /// Describes an entry. The order of entries depends on the plan alone.
    ///
    /// - `opt` queried.
    /// - `index` in \[0, number of entries).
    /// - `entry` filled; struct_size must be set.
    /// - returns `SHAMPOO_E_INVALID`: index is out of range.
    pub fn shampoo_state_describe(
        opt: *const shampoo_optimizer,
        index: i64,
        entry: *mut shampoo_state_entry,
    ) -> shampoo_status;
    /// Copies elements of an entry out of the state; if arenas are bound, out of the last state_out.
    ///
    /// Blocks until the copy is done; on CUDA after all steps on the stream.
    ///
    /// - `opt` read.
    /// - `index` in \[0, number of entries).
    /// - `first` index of the first element, row-major in the shape of the entry; for a symmetric entry, in the full
    ///   matrix.
    /// - `count` number of elements.
    /// - `dst` receives count elements of the entry's dtype.
    /// - `dst_bytes` size of dst in bytes.
    /// - `dst_device_type` where dst is: SHAMPOO_CPU, or SHAMPOO_CUDA if the optimizer is there.
    /// - `stream` on CUDA the stream of the copy. NULL on the CPU.
    /// - returns `SHAMPOO_E_INVALID`: index or elements are out of range, or dst_bytes is too small.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: dst_device_type is neither SHAMPOO_CPU nor that of the optimizer.
    pub fn shampoo_state_read(
        opt: *mut shampoo_optimizer,
        index: i64,
        first: i64,
        count: i64,
        dst: *mut c_void,
        dst_bytes: usize,
        dst_device_type: i32,
        stream: *mut c_void,
    ) -> shampoo_status;
    /// Copies elements into an entry of the state; if arenas are bound, of the last state_out.
    ///
    /// Blocks until the copy is done.
    ///
    /// - `opt` changed.
    /// - `index` in \[0, number of entries).
    /// - `first` index of the first element, row-major in the shape of the entry; for a symmetric entry, in the full
    ///   matrix, of which the elements on and below the diagonal are used.
    /// - `count` number of elements.
    /// - `src` count elements of the entry's dtype.
    /// - `src_bytes` size of src in bytes.
    /// - `src_device_type` where src is: SHAMPOO_CPU, or SHAMPOO_CUDA if the optimizer is there.
    /// - `stream` on CUDA the stream of the copy. NULL on the CPU.
    /// - returns `SHAMPOO_E_INVALID`: index or elements are out of range, or src_bytes is too small.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: src_device_type is neither SHAMPOO_CPU nor that of the optimizer.
    pub fn shampoo_state_write(
        opt: *mut shampoo_optimizer,
        index: i64,
        first: i64,
        count: i64,
        src: *const c_void,
        src_bytes: usize,
        src_device_type: i32,
        stream: *mut c_void,
    ) -> shampoo_status;
    /// Saves the states of the optimizers of all ranks as one checkpoint: safetensors files and a JSON index. If arenas are
    /// bound, it saves the last state_out. The host saves parameters itself.
    ///
    /// The index is written last. A save that fails, or is killed at any moment, leaves earlier checkpoints of the directory
    /// intact. A successful one removes all but the last checkpoint_keep.
    ///
    /// Collective over world. Blocks until the files are on the disk.
    ///
    /// - `opts` the optimizers of this rank. Usually all ranks have the same one, but ranks may also have different ones,
    ///   such as experts with replicas of their own. The name of a parameter must not be in two optimizers of a rank; on
    ///   different ranks, optimizers with the same name must have the same states.
    /// - `count` number of optimizers of this rank, \>= 0.
    /// - `world` communicator of all ranks of the job. It takes host memory, or device memory if every rank has an
    ///   optimizer on CUDA. NULL: one rank.
    /// - `directory` path that all ranks see. It is created if it does not exist; its parent must exist.
    /// - `stream` on CUDA the stream of the copies. NULL on the CPU.
    /// - returns `SHAMPOO_E_INVALID`: an argument is wrong on some rank, names clash, or world is smaller than replicas times
    ///   shards of an optimizer.
    /// - returns `SHAMPOO_E_STATE`: a load that failed has spoiled the state of an optimizer.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: world takes device memory, and no optimizer of this rank is on CUDA.
    /// - returns `SHAMPOO_E_IO`: a file could not be written. The error is the same on all ranks.
    /// - returns `SHAMPOO_E_COMM`: a collective failed. The new checkpoint may be complete or missing. If the failure is on one
    ///   rank only, the others wait, unless the communicator has an abort function.
    pub fn shampoo_save(
        opts: *const *mut shampoo_optimizer,
        count: i32,
        world: *mut shampoo_comm,
        directory: *const c_char,
        stream: *mut c_void,
    ) -> shampoo_status;
    /// Loads a checkpoint, whatever the number of ranks, threads and shards with which it was saved. If the host restores
    /// the parameters and the hyper-parameters are the same, training continues with the same bits.
    ///
    /// Names and shapes of all parameters, dtypes of states, and the grafting method (if it has a state) must match. Other
    /// hyper-parameters are those of the loading optimizer; the log lists the differences. The key on_block_mismatch says
    /// what happens to blocks that are divided differently.
    ///
    /// A load that fails leaves the optimizers unchanged, with one exception: if memory or a file fails after all files have
    /// been verified, a state of more than 24 MiB that is not in its initial state can be spoiled. Then steps fail with
    /// SHAMPOO_E_STATE until a load succeeds.
    ///
    /// Collective over world. Blocks until it is done.
    ///
    /// - `opts` the optimizers of this rank. Together, the optimizers of all ranks have all parameters of the checkpoint.
    ///   If arenas are bound, the last state_out is written: bind it as the next state_in.
    /// - `count` number of optimizers of this rank, \>= 0.
    /// - `world` as for shampoo_save().
    /// - `directory` directory of checkpoints, of which the last one is loaded, or path of the index of one of them.
    /// - `stream` on CUDA the stream of the copies. NULL on the CPU.
    /// - returns `SHAMPOO_E_INVALID`: an argument is wrong on some rank, or the checkpoint has other parameters, dtypes, grafting
    ///   or blocks. The error names the first.
    /// - returns `SHAMPOO_E_IO`: there is no checkpoint, or a file is missing, unreadable, truncated or damaged. The error is the
    ///   same on all ranks.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: the checkpoint has a later format, or world as for shampoo_save().
    /// - returns `SHAMPOO_E_COMM`: a collective failed. If the failure is on one rank only, the others wait, unless the
    ///   communicator has an abort function.
    pub fn shampoo_load(
        opts: *const *mut shampoo_optimizer,
        count: i32,
        world: *mut shampoo_comm,
        directory: *const c_char,
        stream: *mut c_void,
    ) -> shampoo_status;
    /// Computes the inverse root x = (a + e I)^(-exponent_multiplier \* root_den / root_num) of a symmetric matrix, as a step
    /// does with a factor matrix, including the recovery ladder. e is root_relative_epsilon times the mean eigenvalue of a
    /// (its trace divided by n), or epsilon if that key is set instead. With root_relative_epsilon, the root of a matrix of
    /// zeros or subnormal numbers is the identity. Methods (key "root_method"; docs/roots.md):
    ///
    /// - eigen: by eigendecomposition; inverse square roots in float32 of order 8 to 512 by a rational approximation of the
    ///   same accuracy. If the smallest eigenvalue is negative, all are raised until it is 0, and then e is added. 1x1 and
    ///   diagonal matrices are computed elementwise, without raising them unless the result would not be finite. With
    ///   root_rank_handling pseudo_inverse, eigenvalues that count as 0 are left out instead (root_rank_rtol,
    ///   root_rank_atol).
    /// - newton: the coupled inverse Newton iteration; root_num / root_den must be an integer.
    /// - higher_order: a coupled iteration of order root_order. If epsilon is used, it is relative: max(epsilon \* L, 1e-16)
    ///   is added, where L is a bound of the largest eigenvalue.
    ///
    /// Unlike a step, this function returns an iterate that has not converged. It allocates its workspace, and runs on the
    /// calling thread.
    ///
    /// - `config` the keys that begin with "root\_", "epsilon" (which may be 0 here) and "exponent_multiplier" are read.
    ///   "root_dtype" auto is dtype.
    /// - `n` order of the matrix, 1..32750.
    /// - `dtype` of a and x: SHAMPOO_F32 or SHAMPOO_F64.
    /// - `a` n \* n elements, row-major, symmetric. Elements on and below the diagonal are read.
    /// - `x` receives n \* n elements, row-major and exactly symmetric. May be a; otherwise it must not overlap it.
    /// - `root_num` numerator of the root, \>= 1: 4 for the inverse fourth root.
    /// - `root_den` denominator of the root, \>= 1: 1 for the inverse fourth root.
    /// - `info` filled; struct_size must be set. May be NULL.
    /// - returns `SHAMPOO_E_INVALID`: n, dtype or the root is out of range, or values of the config contradict each other.
    /// - returns `SHAMPOO_E_NUMERIC`: a has a NaN or an infinity, or no finite root was found (an eigenvalue that is not above 0
    ///   with an epsilon of 0). x is unchanged.
    pub fn shampoo_matrix_inverse_root(
        config: *const shampoo_config,
        n: i64,
        dtype: i32,
        a: *const c_void,
        x: *mut c_void,
        root_num: i32,
        root_den: i32,
        info: *mut shampoo_root_info,
    ) -> shampoo_status;
}
