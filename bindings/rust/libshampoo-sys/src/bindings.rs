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

/// An argument or a value of a config is wrong: fix the call. Repeating it as it is fails again.
pub const SHAMPOO_E_INVALID: i32 = 1;

/// The call is right and the moment is wrong, such as a step before bind: fix the order of the calls.
pub const SHAMPOO_E_STATE: i32 = 2;

/// This version, build or machine cannot do it: another build, backend or device may.
pub const SHAMPOO_E_UNSUPPORTED: i32 = 3;

/// Memory or another resource of the system ran out: free some, or ask for less (smaller blocks, fewer threads).
pub const SHAMPOO_E_NOMEM: i32 = 4;

/// NaN or infinity was met: look at gradients, learning rate, epsilon and loss scale. The caller may go on.
pub const SHAMPOO_E_NUMERIC: i32 = 5;

/// A collective failed: tear the job down.
pub const SHAMPOO_E_COMM: i32 = 6;

/// A GPU or its runtime failed: end the process, as CUDA is of no more use in it. Every function that takes an
/// optimizer on CUDA can return it; it is listed nowhere else.
pub const SHAMPOO_E_DEVICE: i32 = 7;

/// A file is missing, unreadable or damaged, or the disk is full; the text names the file.
pub const SHAMPOO_E_IO: i32 = 8;

/// A bug of the library: please report it, with the text of shampoo_last_error() and shampoo_build_info().
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

/// Result of a call: SHAMPOO_OK, or one of the SHAMPOO_E\_ codes. Codes are never renumbered; new ones may appear.
pub type shampoo_status = i32;

/// Receives messages of the library. It is called only on a thread that is inside a call of the library, possibly on
/// several such threads at once. It must return (no exception, no longjmp) and must not call the library with an object
/// that the interrupted call is using; shampoo_set_log() is allowed.
///
/// - `user` the pointer given to shampoo_set_log().
/// - `level` 0 error, 1 warning, 2 information, 3 debugging.
/// - `message` one message, without a newline at its end; valid during the call only.
pub type shampoo_log_callback = Option<unsafe extern "C" fn(*mut c_void, i32, *const c_char)>;

/// Hyper-parameters by name: see the section Config.
#[repr(C)]
pub struct shampoo_config {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// Parameters cut into blocks, with owners and byte counts: see the section Plan.
#[repr(C)]
pub struct shampoo_plan {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// A group of ranks: see the section Communicators.
#[repr(C)]
pub struct shampoo_comm {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// State and the machinery that steps it: see the section Optimizer.
#[repr(C)]
pub struct shampoo_optimizer {
    _private: [u8; 0],
    _marker: Unmovable,
}

/// One backend, as filled by shampoo_backend_describe(). Begin with SHAMPOO_BACKEND_INFO_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_backend_info {
    /// sizeof(shampoo_backend_info); set by the \_INIT macro.
    pub struct_size: usize,
    /// Name of the backend: "cpu" or "cuda". It lives as long as the library.
    pub name: *const c_char,
    /// Why the backend cannot be used on this machine, as a sentence; "" if it can. It lives as long as the library.
    pub unavailable_reason: *const c_char,
    /// 1: optimizers can be created on it; 0: they cannot, for the reason in unavailable_reason.
    pub usable: i32,
    /// Devices that it found; the CPU counts as one. device_id of an optimizer is below this number. 0 where usable is 0.
    pub device_count: i32,
}

/// One row of the table of keys. Begin with SHAMPOO_KEY_INFO_INIT. All strings live as long as the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_key_info {
    /// sizeof(shampoo_key_info); set by the \_INIT macro.
    pub struct_size: usize,
    /// The key, such as "lr". Names and meanings of keys are part of the API.
    pub name: *const c_char,
    /// "f64", "i64", "bool", "choice", "dtype" or "list" (of integers).
    pub value_type: *const c_char,
    /// The default as text; "auto": worked out from other keys or from the parameter, as doc tells.
    pub default_value: *const c_char,
    /// The allowed values, for people: an interval such as "\[0, 1)", or the names of choices.
    pub range: *const c_char,
    /// What the key does, in one or a few sentences.
    pub doc: *const c_char,
    /// 0: of the whole optimizer, and read from the plan's own config. 1: of a parameter group.
    pub scope: i32,
    /// 1: shampoo_optimizer_set() may change it while the optimizer lives; 0: fixed when the plan takes the config.
    pub changeable: i32,
}

/// One parameter: what shampoo_plan_add_param() needs. Begin with SHAMPOO_PARAM_DESC_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_param_desc {
    /// sizeof(shampoo_param_desc); set by the \_INIT macro.
    pub struct_size: usize,
    /// Unique within the plan and the same in every run: keys of the state begin with it. Copied. Default: NULL, which
    /// is refused.
    pub name: *const c_char,
    /// Number of dims, 0..8; 0 is a scalar. Default: 0.
    pub ndim: i32,
    /// How many leading dims only stack separate tensors, 0..ndim: 1 for weights of L layers kept as one array of shape
    /// (L, m, n). Default: 0.
    pub stack_dims: i32,
    /// The shape in elements, outermost dim first; the parameter is row-major and dense. Of the whole parameter, even
    /// where this rank holds a shard of it. Each of the first ndim entries is \>= 0, the others are not read.
    pub shape: [i64; 8],
    /// Dtype of shampoo_buffers.param: SHAMPOO_F32 (default), F64, F16 or BF16.
    pub param_dtype: i32,
    /// Dtype of shampoo_buffers.grad: SHAMPOO_F32 (default), F64, F16 or BF16.
    pub grad_dtype: i32,
    /// A group from shampoo_plan_add_group(); 0 (default) is the group of the plan's own config.
    pub group: i32,
    /// What of the parameter this rank holds, and so what its buffers contain.
    /// 0 (default): all of it.
    /// 1: a flat shard, elements \[flat_offset, flat_offset + flat_count) of the row-major flattened parameter.
    /// 2: a rectangle of shape local_shape whose first element is at local_offset, contiguous row-major.
    /// What the algorithm makes of shards is chosen by the key "shard_mode".
    pub shard_form: i32,
    /// Form 1: first element, in elements of the flattened parameter. Otherwise 0.
    pub flat_offset: i64,
    /// Form 1: number of elements; 0: this rank holds nothing of the parameter. Otherwise 0.
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

/// One preconditioned block, as filled by shampoo_plan_block(). Begin with SHAMPOO_BLOCK_INFO_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_block_info {
    /// sizeof(shampoo_block_info); set by the \_INIT macro.
    pub struct_size: usize,
    /// Index of the parameter that it is a part of.
    pub param: i32,
    /// Replica rank that keeps its state and computes its update, in \[0, replica_world). Blocks are dealt out by the key
    /// "balance", the largest first, each to the rank with the least so far.
    pub owner: i32,
    /// Shard rank that keeps it. With "shard_mode" local this rank's own, as each shard is treated as a tensor of its
    /// own; with gather any, as blocks are dealt out over shard ranks and replicas together.
    pub shard_owner: i32,
    /// 1: a block of this rank's shard, which is less than the parameter. 0: a block of the whole parameter.
    pub of_shard: i32,
    /// Order of the block, after merging and splitting: 1..8. It has that many factor matrices, or none if it follows
    /// the grafting method alone ("precondition_1d").
    pub ndim: i32,
    /// Shape in elements; ndim entries, the others are 0. Factor k is shape\[k\] x shape\[k\].
    pub shape: [i64; 8],
    /// From one index to the next along each dim, in elements of the row-major flattened parameter; with of_shard,
    /// in elements of this rank's buffer. ndim entries, the others are 0.
    pub stride: [i64; 8],
    /// First element of the block, counted in the same way.
    pub flat_offset: i64,
    /// Bytes of its state, as kept by its owner.
    pub state_bytes: i64,
}

/// Where a plan is to be carried out. Begin with SHAMPOO_PLAN_DESC_INIT: one process, on the CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_plan_desc {
    /// sizeof(shampoo_plan_desc); set by the \_INIT macro.
    pub struct_size: usize,
    /// Device that the byte counts are for, and that optimizers of the plan are made on: SHAMPOO_CPU (default) or
    /// SHAMPOO_CUDA. A plan for CUDA can be made where there is none.
    pub device_type: i32,
    /// Threads that work on a step, the caller's among them, 0..4096. 0 (default): as the key "threads" says. If
    /// that is 0, too: up to all processors that the process may use by its affinity mask and the CPU quota of its control
    /// group; a step wakes as many threads as its work is worth.
    pub threads: i32,
    /// This process among those that hold the same parameters, in \[0, replica_world). Default: 0.
    pub replica_rank: i32,
    /// Number of processes that hold the same parameters, \>= 1. Default: 1. Each keeps the state of some of the blocks;
    /// an optimizer of more than one needs a communicator of as many (shampoo_optimizer_desc.replica_comm).
    pub replica_world: i32,
    /// This process among those that hold the shards of one copy of the parameters, in \[0, shard_world). Default: 0.
    pub shard_rank: i32,
    /// Number of shards of one copy, \>= 1. Default: 1.
    pub shard_world: i32,
}

/// What the caller's communicator can do. Begin with SHAMPOO_COMM_OPS_INIT; set rank, world and all_gather at least.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_comm_ops {
    /// sizeof(shampoo_comm_ops); set by the \_INIT macro.
    pub struct_size: usize,
    /// Handed to the callbacks as it is. Default: NULL.
    pub user: *mut c_void,
    /// This process among the ranks of the communicator, in \[0, world). Default: 0.
    pub rank: i32,
    /// Number of ranks, \>= 1. Default: 1.
    pub world: i32,
    /// What memory the callbacks take: SHAMPOO_CPU (default) or SHAMPOO_CUDA. It must be that of the optimizer.
    pub device_type: i32,
    /// All-gather: recv holds world segments of bytes_per_rank bytes (\> 0), segment r from rank r; send may be
    /// recv + rank \* bytes_per_rank. On CUDA it is ordered on stream; on the CPU stream is NULL, and the call returns when
    /// recv is filled. Every rank makes the same sequence of calls with the same sizes. Returns 0, or any other number for
    /// a failure, which is told in the error. It is called only on the thread that is inside a call with the optimizer.
    pub all_gather: Option<unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, usize, *mut c_void) -> i32>,
    /// Optional, for a shard_comm with "shard_mode" gather: sends send_bytes\[r\] bytes to each rank r, this one included,
    /// and receives recv_bytes\[r\] from it. In send and recv what goes to or comes from rank 0 is first, then that of rank
    /// 1, and so on, without gaps; a number of bytes may be 0. Order, memory and result are as of all_gather. All ranks
    /// have it, or none. NULL: all_gather is used in its place, which takes more memory and sends more.
    pub all_to_all: Option<unsafe extern "C" fn(*mut c_void, *const c_void, *const usize, *mut c_void, *const usize, *mut c_void) -> i32>,
    /// Optional: asks for a failure that came later than the call that caused it; 0: none. Asked before each
    /// all_gather and all_to_all.
    pub async_error: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    /// Optional: makes collectives of other ranks that wait for this one fail. Called once, after a collective failed on
    /// this rank. The communicator stays the caller's to destroy.
    pub abort: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Optional: called once, after the last use: when the shampoo_comm and every optimizer made with it are gone.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Optional: the memory of the host in place of the library's own. Begin with SHAMPOO_ALLOCATOR_INIT, and set both
/// allocate and deallocate. On the CPU it serves the arena of the state (unless that is given) and the workspace; small
/// tables and the scratch memory of the solver stay on the library's heap. On CUDA it serves memory of the device:
/// arena, workspace and the buffers of exchanges; what cuBLAS and cuSOLVER allocate for themselves is not among it. It
/// is called only inside shampoo_optimizer_create() and shampoo_optimizer_destroy(), and inside shampoo_save() and
/// shampoo_load() where world takes memory of the device, on the thread that calls them; never by a step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_allocator {
    /// sizeof(shampoo_allocator); set by the \_INIT macro.
    pub struct_size: usize,
    /// Handed to the callbacks as it is. Default: NULL.
    pub user: *mut c_void,
    /// Returns bytes (\> 0) of memory aligned to align (a power of two), or NULL, which makes the caller fail with
    /// SHAMPOO_E_NOMEM. device_type and device_id are those of the optimizer, stream that of its desc: the memory is used
    /// in the order of that stream. On the CPU they are SHAMPOO_CPU, 0 and NULL.
    pub allocate: Option<unsafe extern "C" fn(*mut c_void, usize, usize, i32, i32, *mut c_void) -> *mut c_void>,
    /// Takes back what allocate returned, with the same bytes. Must not fail. On CUDA all work on it is done by then.
    pub deallocate: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i32, i32, *mut c_void)>,
    /// Called once, after the last use: for runtimes that count references to user. Not called where
    /// shampoo_optimizer_create() fails: user is then still the caller's. Default: NULL, nothing to do.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Optional: the threads of the host in place of the library's pool. Begin with SHAMPOO_EXECUTOR_INIT, and set threads
/// and parallel_for. Results are the same bits with every executor. On CUDA there is no work for it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_executor {
    /// sizeof(shampoo_executor); set by the \_INIT macro.
    pub struct_size: usize,
    /// Handed to the callbacks as it is. Default: NULL.
    pub user: *mut c_void,
    /// The most tasks that parallel_for is asked to run in one call, \>= 1. The threads of the plan are a limit, too,
    /// since workspace is allocated for as many.
    pub threads: i32,
    /// Runs task(argument, i) once for every i in \[0, count), on any threads, in any order, at once or one after another,
    /// and returns when all have returned. count is at most threads. A task must see what the calling thread wrote before,
    /// and the other way round, as every lock or join guarantees. It is called on a thread that is inside a call with the
    /// optimizer, and must not throw or end the thread.
    pub parallel_for: Option<unsafe extern "C" fn(*mut c_void, Option<unsafe extern "C" fn(*mut c_void, i64)>, *mut c_void, i64)>,
    /// Called once, after the last use: for runtimes that count references to user. Not called where
    /// shampoo_optimizer_create() fails: user is then still the caller's. Default: NULL, nothing to do.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// What an optimizer is made on. Begin with SHAMPOO_OPTIMIZER_DESC_INIT: the CPU, with memory and threads made here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_optimizer_desc {
    /// sizeof(shampoo_optimizer_desc); set by the \_INIT macro.
    pub struct_size: usize,
    /// SHAMPOO_CPU (default) or SHAMPOO_CUDA: that of the plan.
    pub device_type: i32,
    /// Which device of that type, counted as CUDA does. Default: 0, the only one on the CPU.
    pub device_id: i32,
    /// Ranks that hold the same parameters, as many as the plan's replica_world, this one being its replica_rank. NULL
    /// (default): one rank. The optimizer holds it by itself: the caller may destroy its own hold at any time. On CUDA one
    /// of memory of the device.
    pub replica_comm: *mut shampoo_comm,
    /// Ranks that hold the shards of one copy, as many as the plan's shard_world, this one being its shard_rank. NULL
    /// (default): shards are stepped without asking each other, which "shard_mode" gather cannot. Held in the same way. On
    /// CUDA it must be NULL.
    pub shard_comm: *mut shampoo_comm,
    /// Where memory comes from; copied. NULL (default): the library's own.
    pub allocator: *const shampoo_allocator,
    /// Where parallel work runs; copied. NULL (default): the library's pool, one per process, whose threads start with
    /// the first optimizer that needs them and end with the last.
    pub executor: *const shampoo_executor,
    /// On CUDA the stream in whose order memory is allocated and the state initialised. Must be NULL (default) on the
    /// CPU.
    pub stream: *mut c_void,
    /// NULL (default): the arena of the state is allocated here. Otherwise memory of the host, on CUDA of its device,
    /// aligned to 64 bytes; it is initialised here, stays the host's, and must live until the optimizer is destroyed or
    /// another arena is bound.
    pub state: *mut c_void,
    /// Size of state in bytes, at least what shampoo_plan_bytes() gives for "state". Default: 0; not read where state is
    /// NULL.
    pub state_bytes: usize,
}

/// Memory of one parameter: addresses on the host, on CUDA on the device, each aligned for its dtype, dense and
/// row-major in the shape of the parameter, or of the shard where this rank holds one. Begin with SHAMPOO_BUFFERS_INIT.
/// out may be the same address as param where both have the same dtype; otherwise what is written (out, copy) must
/// overlap none of the others.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_buffers {
    /// sizeof(shampoo_buffers); set by the \_INIT macro.
    pub struct_size: usize,
    /// Read by a step: the parameter, in param_dtype. May be NULL only where the other three are NULL, too.
    pub param: *const c_void,
    /// Read by a step: the gradient, in grad_dtype. NULL: none; the parameter is not moved, not even by weight decay or
    /// momentum, and its state is frozen; out and copy, where given, still receive the value of param (out receives zeros
    /// with the key "output" set to updates), so that outputs are always whole.
    pub grad: *const c_void,
    /// Written by a step: the new parameter in out_dtype, or with the key "output" set to updates the update that is to
    /// be added to it. May be NULL only where grad is NULL, too.
    pub out: *mut c_void,
    /// Written by a step: the new parameter once more, in copy_dtype, such as a bfloat16 model beside float32 master
    /// weights. NULL: no such copy.
    pub copy: *mut c_void,
}

/// One entry of the state, as filled by shampoo_state_describe(). Begin with SHAMPOO_STATE_ENTRY_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct shampoo_state_entry {
    /// sizeof(shampoo_state_entry); set by the \_INIT macro.
    pub struct_size: usize,
    /// Its name, unique within the optimizer. It lives as long as the optimizer.
    pub key: *const c_char,
    /// Shape in elements, outermost dim first; ndim entries, the others are 0.
    pub shape: [i64; 8],
    /// Of an entry in the shape of its block: the first element of the block within the whole flattened parameter, in
    /// elements. -1: an entry that does not lie over elements of the parameter.
    pub flat_offset: i64,
    /// Bytes as kept in the arena: of a factor matrix or inverse root of order 128 or more one triangle only. To read or
    /// write the whole entry takes the number of its elements times the size of its dtype, whatever is kept.
    pub stored_bytes: i64,
    /// Number of dims.
    pub ndim: i32,
    /// Dtype of the elements that are read and written.
    pub dtype: i32,
    /// 1: a symmetric matrix, of which one triangle is stored; read and write use the full matrix. 0: anything else.
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
    /// sizeof(shampoo_root_info); set by the \_INIT macro.
    pub struct_size: usize,
    /// What gave the root: 0 scalar (n is 1), 1 diagonal (every element off the diagonal is exactly 0), 2
    /// eigen, 3 newton, 4 higher_order. 0 and 1 are shortcuts of eigen.
    pub method: i32,
    /// Iterations of an iterative method; 0 with the others.
    pub iterations: i32,
    /// 1: converged to root_tolerance; 0: root_max_iterations was reached, and x is what the last iteration gave, be it a
    /// root or not: look at residual; -1: stopped as it got no better, close to a root. Always 1 with methods 0 to 2.
    pub converged: i32,
    /// Further attempts after the first failed; the recovery is that of shampoo_optimizer_step().
    pub retried: i32,
    /// max |A x^p - I|, elementwise, in float64: A is the matrix whose root was taken, epsilon included, and p undoes the
    /// exponent, root_num / (root_den \* exponent_multiplier). With pseudo_inverse the projector on the directions that
    /// were kept takes the place of I. NaN where x has no such power; 0 where the exponent is 0.
    pub residual: f64,
}

extern "C" {
    /// Version of the library that is loaded, to be compared with the SHAMPOO_VERSION\_ macros of the header.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - returns major \* 10000 + minor \* 100 + patch: 100 for 0.1.0.
    ///
    /// Since 0.1.
    pub fn shampoo_version() -> i32;
    /// What this build is, for logs and bug reports.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - returns one JSON object as text: version, compiler, the BLAS and the kernel of it that runs on this CPU, and what
    ///   this version knows: "backends" (shampoo_backend_describe() tells which of them can be used here) and
    ///   "root_methods". Readers skip members that they do not know. Never NULL; it lives as long as the library.
    ///
    /// Since 0.1.
    pub fn shampoo_build_info() -> *const c_char;
    /// Name of a status code.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - `status` any number.
    /// - returns its spelling in this header, such as "SHAMPOO_E_STATE"; "unknown status" for a number that is none. Never
    ///   NULL; it lives as long as the library.
    ///
    /// Since 0.1.
    pub fn shampoo_status_name(status: shampoo_status) -> *const c_char;
    /// Text of the last failure of a call on this thread. Success does not clear it, so look at it only after a failure.
    /// For the failures of one optimizer, whatever the thread, see shampoo_optimizer_error().
    ///
    /// Blocks: no. Threads: any; each has a text of its own.
    ///
    /// - returns the text, in English, without a newline at its end; "" where no call has failed yet. Never NULL. It is valid
    ///   until this thread's next call of the library: copy it to keep it. It has at most 4095 bytes; a longer one is cut
    ///   and ends in " ... (cut off)".
    ///
    /// Since 0.1.
    pub fn shampoo_last_error() -> *const c_char;
    /// Sets the one log callback of the process. Without one, which is how the library starts, messages are dropped:
    /// nothing is ever printed. A message that is being delivered on another thread meanwhile may still reach the earlier
    /// callback shortly after this function has returned.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - `callback` called for each message; NULL: silence.
    /// - `user` handed to the callback as it is; the library never looks behind it.
    /// - `max_level` messages above this level are not delivered: 0 errors only ... 3 everything.
    /// - returns `SHAMPOO_OK`: done.
    /// - returns `SHAMPOO_E_INVALID`: max_level is not in \[0, 3\].
    ///
    /// Since 0.1.
    pub fn shampoo_set_log(callback: shampoo_log_callback, user: *mut c_void, max_level: i32) -> shampoo_status;
    /// Loads the backend for CUDA, once per process. It need not be called: where the library lies beside this one, or where
    /// the system finds it, plans and optimizers find it by themselves. Nothing asks for a driver or a GPU here;
    /// shampoo_backend_describe() does.
    ///
    /// Blocks: while libraries are loaded. Threads: any.
    ///
    /// - `name_or_path` "cuda": libshampoo_cuda.so.0 (0 is the major version), or else libshampoo_cuda.so, in the folder
    ///   of this library, or else libshampoo_cuda.so.0 as dlopen finds it. Otherwise the path of that file. Must not be
    ///   NULL.
    /// - returns `SHAMPOO_OK`: it is loaded, now or before.
    /// - returns `SHAMPOO_E_INVALID`: name_or_path is NULL or empty.
    /// - returns `SHAMPOO_E_STATE`: it was loaded from another file before.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: it is not there, it needs a library that is not there (cuBLAS, cuSOLVER), or it is of
    ///   another version than this library; the text tells which.
    ///
    /// Since 0.1.
    pub fn shampoo_backend_load(name_or_path: *const c_char) -> shampoo_status;
    /// Number of backends that this library knows, usable or not: 2 in this version, the CPU and CUDA.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - returns the number, at least 1. It does not fall while the library is loaded.
    ///
    /// Since 0.1.
    pub fn shampoo_backend_count() -> i32;
    /// Describes a backend. For CUDA it loads libshampoo_cuda.so if that is not loaded yet, and asks the driver: as with
    /// every use of CUDA, not in a process that is to fork and use it in the child.
    ///
    /// Blocks: while libraries and the driver are loaded. Threads: any.
    ///
    /// - `index` in \[0, shampoo_backend_count()): 0 is the CPU, 1 is CUDA.
    /// - `info` filled; struct_size must be set before. Must not be NULL.
    /// - returns `SHAMPOO_OK`: info is filled.
    /// - returns `SHAMPOO_E_INVALID`: index is out of range, or info is NULL or has a wrong struct_size.
    ///
    /// Since 0.1.
    pub fn shampoo_backend_describe(index: i32, info: *mut shampoo_backend_info) -> shampoo_status;
    /// Makes a config in which every key has its default.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - `out` receives the config, which the caller ends with shampoo_config_destroy(). Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*out is set.
    /// - returns `SHAMPOO_E_INVALID`: out is NULL.
    ///
    /// Since 0.1.
    pub fn shampoo_config_create(out: *mut *mut shampoo_config) -> shampoo_status;
    /// Makes a config with the values of another, such as for a second parameter group that differs in two keys.
    ///
    /// Blocks: no. Threads: config, which is only read.
    ///
    /// - `out` receives the new config, which the caller ends with shampoo_config_destroy(). Must not be NULL.
    /// - `config` whose values are copied; the two are independent afterwards. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*out is set.
    /// - returns `SHAMPOO_E_INVALID`: out or config is NULL.
    ///
    /// Since 0.1.
    pub fn shampoo_config_clone(out: *mut *mut shampoo_config, config: *const shampoo_config) -> shampoo_status;
    /// Ends a config. Plans that were made from it have copied its values and are not affected.
    ///
    /// Blocks: no. Threads: config.
    ///
    /// - `config` to be ended, with all strings that shampoo_config_get() returned for it; NULL is allowed.
    ///
    /// Since 0.1.
    pub fn shampoo_config_destroy(config: *mut shampoo_config);
    /// Sets a key of type "f64".
    ///
    /// Blocks: no. Threads: config.
    ///
    /// - `config` to be changed. Must not be NULL.
    /// - `key` name of a key of type "f64".
    /// - `value` within the range of the key.
    /// - returns `SHAMPOO_OK`: the value is set.
    /// - returns `SHAMPOO_E_INVALID`: there is no such key (the error proposes a near name), it is of another type (the error
    ///   names the function to use), the value is out of range, or a pointer is NULL. The value is as before.
    ///
    /// Since 0.1.
    pub fn shampoo_config_set_f64(config: *mut shampoo_config, key: *const c_char, value: f64) -> shampoo_status;
    /// Sets a key of type "i64", "bool" or "f64" from an integer.
    ///
    /// Blocks: no. Threads: config.
    ///
    /// - `config` to be changed. Must not be NULL.
    /// - `key` name of a key of type "i64", "bool" or "f64".
    /// - `value` within the range of the key; of a "bool" 0 is false and 1 is true.
    /// - returns `SHAMPOO_OK`: the value is set.
    /// - returns `SHAMPOO_E_INVALID`: there is no such key, it is of another type, the value is out of range (of a "bool":
    ///   neither 0 nor 1), or a pointer is NULL. The value is as before.
    ///
    /// Since 0.1.
    pub fn shampoo_config_set_i64(config: *mut shampoo_config, key: *const c_char, value: i64) -> shampoo_status;
    /// Sets a key of any type from text: what a command line or a settings file gives can be handed on as it is.
    ///
    /// Blocks: no. Threads: config.
    ///
    /// - `config` to be changed. Must not be NULL.
    /// - `key` name of any key.
    /// - `value` the value in the spelling given at the head of this section; blanks and tabs around it are skipped. Must
    ///   not be NULL.
    /// - returns `SHAMPOO_OK`: the value is set.
    /// - returns `SHAMPOO_E_INVALID`: there is no such key, the text cannot be read as its type, the value is out of range, or a
    ///   pointer is NULL. The value is as before.
    ///
    /// Since 0.1.
    pub fn shampoo_config_set_str(
        config: *mut shampoo_config,
        key: *const c_char,
        value: *const c_char,
    ) -> shampoo_status;
    /// Value of a key as text, in a spelling that shampoo_config_set_str() reads back to the same value: numbers are in
    /// their shortest exact form.
    ///
    /// Blocks: no. Threads: config, which is only read.
    ///
    /// - `config` to be read. Must not be NULL.
    /// - `key` name of any key.
    /// - returns the value; it belongs to the config and is valid until the config is changed or destroyed. NULL: there is no
    ///   such key, or an argument is NULL. This is an answer and no failure: the last error stays as it was.
    ///
    /// Since 0.1.
    pub fn shampoo_config_get(config: *const shampoo_config, key: *const c_char) -> *const c_char;
    /// Number of keys.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - returns the number; constant while the library is loaded.
    ///
    /// Since 0.1.
    pub fn shampoo_config_key_count() -> i32;
    /// Describes a key. The order of keys is that of docs/keys.md; it may change between versions, names do not.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - `index` in \[0, shampoo_config_key_count()).
    /// - `info` filled; struct_size must be set before. Must not be NULL.
    /// - returns `SHAMPOO_OK`: info is filled.
    /// - returns `SHAMPOO_E_INVALID`: index is out of range, or info is NULL or has a wrong struct_size.
    ///
    /// Since 0.1.
    pub fn shampoo_config_describe_key(index: i32, info: *mut shampoo_key_info) -> shampoo_status;
    /// Begins a plan.
    ///
    /// Blocks: no. Threads: any; config is only read.
    ///
    /// - `out` receives the plan, which the caller ends with shampoo_plan_destroy(). Must not be NULL.
    /// - `config` hyper-parameters of group 0, and of the optimizer as a whole (keys of scope 0); its values are copied.
    ///   Must not be NULL.
    /// - `desc` where the plan is to be carried out; copied. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*out is set.
    /// - returns `SHAMPOO_E_INVALID`: values of the config contradict each other, or epsilon is 0 without
    ///   root_relative_epsilon and root_rank_handling pseudo_inverse; a rank is not below its world; threads is out of
    ///   range; desc has a wrong struct_size; or a pointer is NULL.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: device_type is neither SHAMPOO_CPU nor SHAMPOO_CUDA; a key has a value that does not
    ///   work on CUDA yet, which the text names; or desc has fields that this version does not know.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_create(
        out: *mut *mut shampoo_plan,
        config: *const shampoo_config,
        desc: *const shampoo_plan_desc,
    ) -> shampoo_status;
    /// Ends a plan. Optimizers that were made from it have copied what they need.
    ///
    /// Blocks: no. Threads: plan, and nobody may be reading it.
    ///
    /// - `plan` to be ended; NULL is allowed.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_destroy(plan: *mut shampoo_plan);
    /// Adds a parameter group: parameters that share hyper-parameters and a step counter of their own.
    ///
    /// Blocks: no. Threads: plan; config is only read.
    ///
    /// - `plan` not finished yet. Must not be NULL.
    /// - `config` hyper-parameters of the group; its values are copied. Keys of scope 0 belong into the config given to
    ///   shampoo_plan_create(); one that is set here must be set to the same. Must not be NULL.
    /// - `group_out` receives the number of the group: 1 for the first that is added, then 2, ... NULL: not wanted.
    /// - returns `SHAMPOO_OK`: the group is there.
    /// - returns `SHAMPOO_E_INVALID`: values of the config contradict each other, epsilon is 0 without
    ///   root_relative_epsilon and root_rank_handling pseudo_inverse, a key of scope 0 differs from the plan's, or plan or
    ///   config is NULL.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished: add groups before, or begin another plan.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: a key has a value that does not work on CUDA yet, and the plan is for that.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_add_group(
        plan: *mut shampoo_plan,
        config: *const shampoo_config,
        group_out: *mut i32,
    ) -> shampoo_status;
    /// Adds a parameter.
    ///
    /// Blocks: no. Threads: plan.
    ///
    /// - `plan` not finished yet. Must not be NULL.
    /// - `desc` name, shape, dtypes and group of the parameter; copied. Must not be NULL.
    /// - `index_out` receives the index of the parameter, counted from 0 in the order of adding: the number by which
    ///   shampoo_optimizer_bind() knows it. NULL: not wanted.
    /// - returns `SHAMPOO_OK`: the parameter is there.
    /// - returns `SHAMPOO_E_INVALID`: the name is NULL, empty or already taken; a dim, dtype, group or shard is out of range;
    ///   there are more than 2^59 elements; desc has a wrong struct_size; or plan or desc is NULL.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished: add parameters before, or begin another plan.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: desc has fields that this version does not know.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_add_param(
        plan: *mut shampoo_plan,
        desc: *const shampoo_param_desc,
        index_out: *mut i32,
    ) -> shampoo_status;
    /// Tells what another shard rank holds of a parameter, which "shard_mode" gather needs to know of all of them. It need
    /// not be told where the cut is one of the regular ones, which are recognised by this rank's own: equal chunks of the
    /// flattened parameter (ceil(elements / shard_world) elements each, as far as they go), equal chunks of dim 0
    /// (ceil(shape\[0\] / shard_world) rows each), or the whole parameter on every rank. Otherwise it is told for every rank
    /// but this one (this one is allowed). Every rank tells the same.
    ///
    /// Blocks: no. Threads: plan.
    ///
    /// - `plan` not finished yet. Must not be NULL.
    /// - `param` index of a parameter that has been added.
    /// - `shard_rank` in \[0, shard_world).
    /// - `desc` of its fields those that describe a shard are read: shard_form, flat_offset, flat_count, local_offset,
    ///   local_shape (as many entries as the parameter has dims). Must not be NULL.
    /// - returns `SHAMPOO_OK`: done.
    /// - returns `SHAMPOO_E_INVALID`: param or shard_rank is out of range, the shard is not within the parameter, it differs from
    ///   what this rank has told for that rank before, desc has a wrong struct_size, or a pointer is NULL.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: desc has fields that this version does not know.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_add_shard(
        plan: *mut shampoo_plan,
        param: i32,
        shard_rank: i32,
        desc: *const shampoo_param_desc,
    ) -> shampoo_status;
    /// Works out blocks, owners and bytes. Afterwards the plan does not change any more: nothing can be added, the functions
    /// below can be called, from any number of threads, and optimizers can be made from it, any number.
    ///
    /// Blocks: no. Threads: plan.
    ///
    /// - `plan` not finished yet. Must not be NULL.
    /// - returns `SHAMPOO_OK`: the plan is finished.
    /// - returns `SHAMPOO_E_INVALID`: plan is NULL, a block has a dim above 32750 or more than 2^31 - 1 elements, or there are
    ///   more than 2^20 blocks: choose another "max_preconditioner_dim"; or a number of a config cannot be held by the
    ///   arithmetic of a parameter ("computation_dtype"): the error names both. With "shard_mode" gather: the cut of
    ///   a rank is not known, or the shards of a parameter do not hold each element once.
    /// - returns `SHAMPOO_E_STATE`: the plan is finished already.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_finish(plan: *mut shampoo_plan) -> shampoo_status;
    /// Number of blocks of the plan, of all owners together.
    ///
    /// Blocks: no. Threads: plan.
    ///
    /// - `plan` finished. Must not be NULL.
    /// - `count_out` receives the number. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*count_out is set.
    /// - returns `SHAMPOO_E_INVALID`: a pointer is NULL.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_block_count(plan: *const shampoo_plan, count_out: *mut i64) -> shampoo_status;
    /// Describes a block. Blocks are in the order of the plan: by parameter, then by stacked tensor, then by piece of the
    /// shard as it lies in memory, then by chunk, the chunks of the first dim outermost.
    ///
    /// Blocks: no. Threads: plan.
    ///
    /// - `plan` finished. Must not be NULL.
    /// - `index` in \[0, number of blocks).
    /// - `info` filled; struct_size must be set before. Must not be NULL.
    /// - returns `SHAMPOO_OK`: info is filled.
    /// - returns `SHAMPOO_E_INVALID`: index is out of range, info has a wrong struct_size, or a pointer is NULL.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_block(plan: *const shampoo_plan, index: i64, info: *mut shampoo_block_info) -> shampoo_status;
    /// Bytes of state and workspace that an optimizer made from the plan will allocate on one rank, true to within 1 %; on
    /// CUDA the workspace is an upper bound. Tables of the blocks (names, addresses, counters) come on top, on the host:
    /// about 2 kB for each block.
    ///
    /// Blocks: no. Threads: plan.
    ///
    /// - `plan` finished. Must not be NULL.
    /// - `rank` replica rank, in \[0, replica_world); with "shard_mode" gather over several shard ranks replica rank \*
    ///   shard_world + shard rank, in \[0, replica_world \* shard_world). -1: this rank, with whatever shards.
    /// - `what` "state": the arena of all state, exact, and so the size that shampoo_optimizer_desc.state and
    ///   shampoo_optimizer_bind_state() need. "workspace": all that a step needs beside it. "total": the sum of the two.
    ///   "comm": what the rank sends to other ranks in a step: of each all-gather its own segment, of each all-to-all what
    ///   goes to others, padding and headers included; not what a step sends of status (docs/many_ranks.md), or more where
    ///   it refuses gradients. With "shard_mode" gather these hold for a shard_comm with
    ///   all_to_all; "workspace.all_gather", "total.all_gather" and "comm.all_gather" for one without.
    /// - `bytes_out` receives the number of bytes. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*bytes_out is set.
    /// - returns `SHAMPOO_E_INVALID`: rank is out of range, what is none of these, or a pointer is NULL.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    ///
    /// Since 0.1.
    pub fn shampoo_plan_bytes(
        plan: *const shampoo_plan,
        rank: i32,
        what: *const c_char,
        bytes_out: *mut i64,
    ) -> shampoo_status;
    /// Makes a communicator from the caller's functions.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - `out` receives the communicator, which the caller ends with shampoo_comm_destroy(). Must not be NULL.
    /// - `ops` copied; what user stands for stays the caller's and must live until release is called. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*out is set.
    /// - returns `SHAMPOO_E_INVALID`: a pointer is NULL, all_gather is NULL, rank is not below world, device_type is neither
    ///   SHAMPOO_CPU nor SHAMPOO_CUDA, or ops has a wrong struct_size. release is not called then.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: ops has fields that this version does not know.
    ///
    /// Since 0.1.
    pub fn shampoo_comm_from_ops(out: *mut *mut shampoo_comm, ops: *const shampoo_comm_ops) -> shampoo_status;
    /// Makes a communicator from an ncclComm_t, through the copy of NCCL that the process has loaded already; the library
    /// never loads one of its own. For callers that cannot compile \<shampoo/shampoo_nccl.h\>, such as Python and Java.
    ///
    /// Blocks: no. Threads: any.
    ///
    /// - `out` receives the communicator, which the caller ends with shampoo_comm_destroy(). Must not be NULL.
    /// - `nccl_comm` the caller's ncclComm_t, which must live as long as the shampoo_comm and optimizers made with it.
    ///   Must not be NULL.
    /// - `libnccl_path` the file from which NCCL was loaded, or its soname. NULL: libnccl.so.2.
    /// - returns `SHAMPOO_OK`: \*out is set.
    /// - returns `SHAMPOO_E_INVALID`: out or nccl_comm is NULL, or NCCL refuses nccl_comm.
    /// - returns `SHAMPOO_E_STATE`: the process has not loaded NCCL by this name: load it before, or give the name.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: what was found lacks a function of NCCL 2.
    ///
    /// Since 0.1.
    pub fn shampoo_comm_from_nccl(
        out: *mut *mut shampoo_comm,
        nccl_comm: *mut c_void,
        libnccl_path: *const c_char,
    ) -> shampoo_status;
    /// Gives up the caller's hold of a communicator. Optimizers made with it keep theirs: they may live longer.
    ///
    /// Blocks: no. Threads: any, once.
    ///
    /// - `comm` to be given up; NULL is allowed.
    ///
    /// Since 0.1.
    pub fn shampoo_comm_destroy(comm: *mut shampoo_comm);
    /// Makes an optimizer and initialises its state. All state, workspace and threads are made here, so that later calls of
    /// shampoo_optimizer_step() allocate nothing. Call it after fork, never before: a child has none of the threads.
    ///
    /// Collective where a communicator is given: plans are compared over its ranks, and where one differs, or one rank
    /// fails, all fail, with an error that names the rank and what differs.
    ///
    /// Blocks: while memory is allocated and set, and until the other ranks have come here. Threads: plan; two creates may
    /// run at once.
    ///
    /// - `out` receives the optimizer, which the caller ends with shampoo_optimizer_destroy(). Must not be NULL.
    /// - `plan` finished, the same on all ranks. What is needed of it is copied. Must not be NULL.
    /// - `desc` device, memory and threads; copied, with the structs that it points to. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*out is set.
    /// - returns `SHAMPOO_E_INVALID`: a pointer is NULL; state is misaligned or state_bytes too small; a callback of the
    ///   allocator or executor is missing, or executor-\>threads below 1; device_type is not that of the plan; there is no
    ///   device of that number; stream is not NULL on the CPU; or a struct_size is wrong; a communicator has another world
    ///   or rank than the plan, or is missing; the plans of two ranks differ. What another rank refuses is its code, and
    ///   its text.
    /// - returns `SHAMPOO_E_STATE`: the plan is not finished.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: a communicator takes memory of another type of device; device_type is neither
    ///   SHAMPOO_CPU nor SHAMPOO_CUDA; CUDA cannot be used here, for the reason that shampoo_backend_describe() tells,
    ///   too; or a struct has fields that this version does not know.
    /// - returns `SHAMPOO_E_COMM`: a collective failed.
    /// - returns `SHAMPOO_E_NOMEM`: memory or threads ran out; the error tells the bytes or the number. Ask shampoo_plan_bytes()
    ///   before, and try smaller blocks ("max_preconditioner_dim"), narrower states ("factor_dtype", ...) or fewer
    ///   "threads".
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_create(
        out: *mut *mut shampoo_optimizer,
        plan: *const shampoo_plan,
        desc: *const shampoo_optimizer_desc,
    ) -> shampoo_status;
    /// Ends an optimizer: frees what it allocated, then calls the release callbacks. Bound buffers and an arena of the host
    /// are not touched.
    ///
    /// Blocks: until threads of the pool that nobody else needs have ended, on CUDA until all steps are done.
    /// Threads: optimizer.
    ///
    /// - `opt` to be ended, with all strings that it returned; NULL is allowed.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_destroy(opt: *mut shampoo_optimizer);
    /// Says where parameters and gradients are. It holds until the same parameters are bound anew, so a host whose arrays
    /// stay in place calls it once, and one whose arrays move calls it before each step. Only addresses are looked at here:
    /// contents are read and written by the steps.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` whose parameters are bound. Must not be NULL.
    /// - `first` index of the first parameter.
    /// - `count` number of parameters, \>= 0: first .. first + count - 1 are bound, all or, on failure, none.
    /// - `buffers` one element per parameter, buffers\[0\].struct_size bytes apart, all with the same struct_size. Copied;
    ///   the memory behind the pointers stays the caller's. May be NULL only if count is 0.
    /// - returns `SHAMPOO_OK`: all are bound.
    /// - returns `SHAMPOO_E_INVALID`: a parameter is out of range, a pointer that is needed is NULL, an address is misaligned for
    ///   its dtype, out or copy overlaps another buffer of its parameter (other than by out == param), or a struct_size is
    ///   wrong or differs between elements.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: buffers has fields that this version does not know.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_bind(
        opt: *mut shampoo_optimizer,
        first: i32,
        count: i32,
        buffers: *const shampoo_buffers,
    ) -> shampoo_status;
    /// Binds a hyper-parameter to a number in the host's memory, which every step reads when it begins: for hosts whose
    /// learning rate or loss scale is itself computed. While bound, it takes precedence over shampoo_optimizer_set(). On
    /// CUDA the number lies in memory of the device: a step reads it in the order of its stream, a captured one at each
    /// replay.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` to be changed. Must not be NULL.
    /// - `group` a group of the plan; 0 is that of the plan's own config.
    /// - `key` "lr" or "gradient_scale".
    /// - `dtype` of the number: SHAMPOO_F32 or SHAMPOO_F64. Not looked at where value is NULL.
    /// - `value` one number, of any alignment, which must live until another is bound, it is unbound, or the optimizer is
    ///   destroyed; a step checks it as shampoo_config_set_f64() would. NULL unbinds: the value read last stays in force,
    ///   until shampoo_optimizer_set() changes it. On CUDA an address of the device, aligned for its dtype, and after NULL
    ///   the value that was set last is in force.
    /// - returns `SHAMPOO_OK`: done.
    /// - returns `SHAMPOO_E_INVALID`: there is no such group, the key or dtype is another, value is misaligned on CUDA, or opt or
    ///   key is NULL.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_bind_scalar(
        opt: *mut shampoo_optimizer,
        group: i32,
        key: *const c_char,
        dtype: i32,
        value: *const c_void,
    ) -> shampoo_status;
    /// Steps from one arena of state into another, so that a step is a pure function of its inputs. All state, the step
    /// counters included, lies in one arena whose layout depends on the plan alone: a copy of its bytes keeps it.
    ///
    /// It holds until it is called again: where the arenas are distinct, each further step reads the same state_in again
    /// unless others are bound. The functions of the section State use the last state_out.
    ///
    /// On CUDA the host must know how many steps a state has made. Where state_in is the arena that the last step has
    /// written, it knows; of any other arena the next step reads it, which waits for the stream once. A host that has
    /// written an arena by itself, to bring back a copy, first calls this with NULL and NULL, so that nothing is taken for
    /// known; otherwise one step is refused (SHAMPOO_E_STATE), before the number is read, or, where the number is the same
    /// and with "root_async", roots that are under way may be those of the other state.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` to be changed. Must not be NULL.
    /// - `state_in` read by steps: an arena with the bytes of an optimizer of an equal plan. It is not initialised here.
    /// - `state_out` written by steps. The same address as state_in is the ordinary case, a step in place; otherwise the
    ///   two must not overlap. Both are aligned to 64 bytes, have the bytes that shampoo_plan_bytes() gives for "state",
    ///   stay the host's, and must live until others are bound or the optimizer is destroyed; on CUDA they are memory of
    ///   the device. Both NULL: back to the arena that the optimizer was created with.
    /// - returns `SHAMPOO_OK`: bound.
    /// - returns `SHAMPOO_E_INVALID`: one of the two is NULL, an address is misaligned, the arenas overlap in part, or opt is
    ///   NULL.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_bind_state(
        opt: *mut shampoo_optimizer,
        state_in: *const c_void,
        state_out: *mut c_void,
    ) -> shampoo_status;
    /// Changes a hyper-parameter of a group from the next step on: learning-rate schedules, loss scaling.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` to be changed. Must not be NULL.
    /// - `group` a group of the plan; 0 is that of the plan's own config.
    /// - `key` one whose shampoo_key_info.changeable is 1: "lr", "beta1", "beta2", "epsilon",
    ///   "root_relative_epsilon", "momentum", "weight_decay", "grafting_beta2", "grafting_epsilon" or "gradient_scale".
    /// - `value` within the range of the key, and of the arithmetic of the group's blocks; of
    ///   epsilon and root_relative_epsilon the one that the group was made with stays above 0 and the other one 0; both
    ///   are 0 with root_rank_handling pseudo_inverse; grafting_beta2 is 1 with the grafting method adagrad.
    /// - returns `SHAMPOO_OK`: the value is set.
    /// - returns `SHAMPOO_E_INVALID`: there is no such group or key, the key is fixed once a plan is made, the value is out of
    ///   range, or a pointer is NULL.
    /// - returns `SHAMPOO_E_STATE`: beta1 or momentum is 0 in the plan, so that it has no state, and cannot become another
    ///   number: make the plan with a number above 0, and set it to 0 until it is wanted.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_set(
        opt: *mut shampoo_optimizer,
        group: i32,
        key: *const c_char,
        value: f64,
    ) -> shampoo_status;
    /// Value of a hyper-parameter of a group: the one set last, by the config, by shampoo_optimizer_set() or by a step that
    /// read a bound scalar (but not on CUDA, where the host does not see it). "auto", -1 of "start_preconditioning_step" and
    /// 0 of "threads" are worked out.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` to be read. Must not be NULL.
    /// - `group` a group of the plan; 0 is that of the plan's own config.
    /// - `key` one of type "f64", "i64" or "bool" (0 or 1).
    /// - `value_out` receives the value. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*value_out is set.
    /// - returns `SHAMPOO_E_INVALID`: there is no such group or key, the key has no number to give, or a pointer is NULL.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_get(
        opt: *const shampoo_optimizer,
        group: i32,
        key: *const c_char,
        value_out: *mut f64,
    ) -> shampoo_status;
    /// One step of all groups, as told at the head of this section. What is told first holds everywhere, and is all there is
    /// to know for one process on a CPU; what several ranks and CUDA add follows.
    ///
    /// First everything is checked, before anything is written: that all parameters are bound, that no gradient (with
    /// coupled weight decay, no parameter) has a NaN, an infinity, or a magnitude that would overflow a factor matrix or
    /// another state in its dtype, and, where roots are due, that every factor matrix is finite. So a step that fails has
    /// changed neither parameters nor state nor step counters, and the caller may go on: skip the batch, lower the loss
    /// scale, and call again. A step allocates nothing.
    ///
    /// With the key "on_nonfinite" set to skip_block or skip_step the blocks with such a gradient, or the whole step, are
    /// left as they are instead, outputs completed as for a gradient of NULL, and the call succeeds.
    ///
    /// An inverse root that its method cannot compute is tried again: by the same method in float64, by eigendecomposition
    /// in float64, by the other drivers of LAPACK. If all fail the block goes on with its previous root. Each is told in the
    /// log once per refresh, and counted (shampoo_optimizer_stat()). When a factor matrix has failed at more refreshes in a
    /// row than the key "root_failure_tolerance" says, the next step reports that, once per refresh, before it writes
    /// anything.
    ///
    /// The direction of a block is known only after its states are written. Where it is not finite, or would overflow the
    /// momentum, the parameter, or the copy in its dtype, the block is left where it is: it is told in the log and counted
    /// ("nonfinite_blocks"), and with "on_nonfinite" = error the next step reports it, once, before it writes anything.
    ///
    /// \*\*Several ranks.\*\* The call is collective: the checks of all ranks count, and a failure of one is the same error on
    /// all, with its text after "rank 2: ". With a shard_comm ranks agree before anything is written. With a replica_comm
    /// gradients are the same on all ranks, and so is what is found in them; for what one rank finds alone (gradients that
    /// differ after all, a state of its own that would overflow) the others have begun the step: parameters are as they were
    /// on every rank, and the state of the blocks that the others own has taken the gradient in. A step counter that
    /// differs, a gradient that one rank lacks, another learning rate are such errors, too. With "shard_mode" gather a state
    /// that would overflow is known to the owner of its block alone, when the step has begun: the block is left where it is,
    /// whatever "on_nonfinite" says, and with error the next step reports it. A collective that fails is for good:
    /// parameters may be partly written, and every later step fails.
    ///
    /// \*\*CUDA.\*\* The step is put into the stream, and checks what is told above there: what it refuses has changed nothing,
    /// as on the CPU, but is known only later. With the key status_lag 1 (default) a call first takes what the step before
    /// has found, for which it waits if need be, so that at most one step is on its way. Was that refused, the call says so,
    /// and has not made a step of its own: the host may go on by calling again. With status_lag 0 a call waits for its own
    /// step and tells its own failure. After the last step, or at any time between, shampoo_optimizer_status() tells.
    /// Buffers, bound scalars and arenas are read until the step is done. Inverse roots that the GPU could not compute are
    /// tried again on the host, by the call that learns of it, which allocates memory for it; but with status_lag 1 not
    /// where state_in and state_out are distinct: there the previous root stays.
    ///
    /// \*\*CUDA, several ranks.\*\* One that cannot make its step, for what its host has found, takes part in the exchanges to
    /// say so, and returns SHAMPOO_OK with status_lag 1: all ranks tell of it by the next call. They step, and ask for the
    /// status, alike, and capture alike.
    ///
    /// \*\*CUDA, graphs.\*\* A step may be captured into a graph: stream is in the state of capture, and the call waits for
    /// nothing and takes nothing. Addresses and hyper-parameters are those of the call, numbers of
    /// shampoo_optimizer_bind_scalar() are read anew by each replay, and so is the step counter. At most steps no inverse
    /// roots are due (nor, with "root_async", used for the first time), and those alone can be captured: the others are made
    /// by a call outside of a capture. A replay at such a step, or at one whose direction is formed by another rule than
    /// that of the step that was captured (before and after start_preconditioning_step), is refused. After a replay that was
    /// refused all further ones are, until a step is made by a call outside of a capture. Once a step has been captured, a
    /// call outside of a capture first waits for the stream, to learn how many replays there were.
    ///
    /// Blocks: until the step is done; on CUDA as told above. Threads: optimizer; the work is spread over the threads of the
    /// plan or the executor.
    ///
    /// - `opt` to be stepped. Must not be NULL.
    /// - `stream` on CUDA that which the step is put into. Must be NULL on the CPU.
    /// - returns `SHAMPOO_OK`: parameters, copies and state are written; on CUDA they will be, in the order of stream, unless the
    ///   step is refused.
    /// - returns `SHAMPOO_E_INVALID`: opt is NULL, stream is not, or a bound scalar is out of range; or ranks have gradients for
    ///   other parameters, or other hyper-parameters.
    /// - returns `SHAMPOO_E_STATE`: a parameter has never been bound; the error names it. Call shampoo_optimizer_bind(), with
    ///   grad NULL where it has no gradient. Or a step counter in the state is out of range, or differs between ranks, or
    ///   parameters do (key "verify_replicas"). On CUDA also: inverse roots are due, or used for the first time, and
    ///   stream is being captured; a replay was one that cannot be; the arena was written by something else
    ///   (shampoo_optimizer_bind_state()).
    /// - returns `SHAMPOO_E_NUMERIC`: a gradient is not finite, or a state would overflow: the error names the parameter, the
    ///   block and the element, and what to try; or a factor matrix that the host wrote is not finite, or the inverse root
    ///   of one has failed too often: the error names it. The step has changed nothing, but for
    ///   what is said above of several ranks.
    /// - returns `SHAMPOO_E_COMM`: a collective failed, in this step or an earlier one.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_step(opt: *mut shampoo_optimizer, stream: *mut c_void) -> shampoo_status;
    /// Tells what steps on CUDA have found since a call has told it last, as shampoo_optimizer_step() would tell it: once,
    /// here or there. Roots that failed, and blocks that could not move, are still left to the next step to tell. On the CPU
    /// there is never anything to tell.
    ///
    /// Collective where there are several ranks. Blocks: with wait, until all steps so far are done, replays in the stream
    /// of the last call among them. Threads: optimizer.
    ///
    /// - `opt` to be asked. Must not be NULL.
    /// - `wait` 0: tell what is known already; several ranks do not, as each may know something else, and wait. Otherwise
    ///   wait.
    /// - `step_out` receives which step was refused: the number of its call, among the calls of shampoo_optimizer_step()
    ///   that have put a step into a stream, from 1 on; a replay has that of the call that was captured. 0: none. NULL:
    ///   not wanted.
    /// - returns `SHAMPOO_OK`: no step has been refused since.
    /// - returns `SHAMPOO_E_INVALID`: opt is NULL; or as of shampoo_optimizer_step(), of a step that was refused.
    /// - returns `SHAMPOO_E_STATE`: as of shampoo_optimizer_step().
    /// - returns `SHAMPOO_E_NUMERIC`: as of shampoo_optimizer_step(): a gradient was not finite, or a state would have
    ///   overflowed.
    /// - returns `SHAMPOO_E_COMM`: a collective failed.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_status(opt: *mut shampoo_optimizer, wait: i32, step_out: *mut i64) -> shampoo_status;
    /// Text of the last failure of a call that may change this optimizer (those that do not take it as const), whatever the
    /// thread: for hosts that move an optimizer from thread to thread, such as task runtimes.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` to be asked; NULL gives "".
    /// - returns the text; "" where no such call has failed. Never NULL. It belongs to the optimizer and is valid until the
    ///   next call with it.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_error(opt: *const shampoo_optimizer) -> *const c_char;
    /// A counter of the optimizer, since it was created unless it says otherwise. On CUDA it counts what calls have told of
    /// steps by now. Keys:
    ///
    /// - "steps": steps made.
    /// - "step.G": the step counter of group G, a part of the state: a load or a write of the state sets it, and a step in
    ///   which no parameter of the group has a gradient does not count. It is that of the last state_out, as with the
    ///   functions of the section State. On CUDA it is read in the order of the stream of the last call, for which the call
    ///   waits; for replays in other streams it does not.
    /// - "skipped_steps": calls of shampoo_optimizer_step() that changed nothing because of the key "on_nonfinite" =
    ///   skip_step; they are not among the steps.
    /// - "nonfinite_blocks": blocks that were found to have a gradient that cannot be used, and were skipped by that key,
    ///   alone or with their step. With "shard_mode" gather a rank counts the blocks that it owns or holds a part of.
    /// - "root_computed": inverse roots computed; of these, by what gave them: "root_scalar", "root_diagonal", "root_eigen",
    ///   "root_newton", "root_higher_order".
    /// - "root_retried": of these, those that needed the recovery; of these, by the rung that gave them:
    ///   "root_retried_float64" (the same method in float64), "root_retried_eigen" (eigendecomposition in float64),
    ///   "root_retried_dsyevr", "root_retried_dsyev" (other drivers of LAPACK).
    /// - "root_reused": previous roots kept because no rung could compute a new one.
    /// - "seconds.check", "seconds.factor_update", "seconds.roots", "seconds.preconditioning", "seconds.elementwise", with
    ///   the key "track_times": thread time in seconds of a part of all steps.
    /// - "root_error.W", with the key "track_root_residuals", over the last refresh of each factor matrix: the largest
    ///   |X - X64| relative to the largest |X64|, X64 the root in float64.
    /// - "root_residual.W", likewise: the largest |X^(-1/e) - (A + epsilon I)| relative to the largest |A + epsilon I|,
    ///   e the exponent (infinity: X has no such power).
    ///
    /// W is mean, median, p90 (90 % are not above it), max, or worst: which factor matrix has the max, counted over all
    /// blocks in the order of the plan; -1: nothing is tracked. The log names it (level 2).
    ///
    /// Blocks: no, but for "step.G" on CUDA. Threads: optimizer.
    ///
    /// - `opt` to be asked. Must not be NULL.
    /// - `key` one of those above.
    /// - `value_out` receives the number. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*value_out is set.
    /// - returns `SHAMPOO_E_INVALID`: there is no such key, or a pointer is NULL.
    /// - returns `SHAMPOO_E_STATE`: of "step.G": the state was spoiled by a load that failed; or, on CUDA, the stream of the last
    ///   call is being captured.
    /// - returns `SHAMPOO_E_DEVICE`: of "step.G" on CUDA: the device has failed.
    ///
    /// Since 0.1.
    pub fn shampoo_optimizer_stat(
        opt: *const shampoo_optimizer,
        key: *const c_char,
        value_out: *mut f64,
    ) -> shampoo_status;
    /// Number of entries. It depends on the plan alone.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` to be asked. Must not be NULL.
    /// - `count_out` receives the number. Must not be NULL.
    /// - returns `SHAMPOO_OK`: \*count_out is set.
    /// - returns `SHAMPOO_E_INVALID`: a pointer is NULL.
    ///
    /// Since 0.1.
    pub fn shampoo_state_count(opt: *const shampoo_optimizer, count_out: *mut i64) -> shampoo_status;
    /// Describes an entry. The order of entries depends on the plan alone.
    ///
    /// Blocks: no. Threads: optimizer.
    ///
    /// - `opt` to be asked. Must not be NULL.
    /// - `index` in \[0, number of entries).
    /// - `entry` filled; struct_size must be set before. Must not be NULL.
    /// - returns `SHAMPOO_OK`: entry is filled.
    /// - returns `SHAMPOO_E_INVALID`: index is out of range, entry has a wrong struct_size, or a pointer is NULL.
    ///
    /// Since 0.1.
    pub fn shampoo_state_describe(
        opt: *const shampoo_optimizer,
        index: i64,
        entry: *mut shampoo_state_entry,
    ) -> shampoo_status;
    /// Copies elements of an entry out of the state, out of the last state_out where arenas are bound. On CUDA that is of
    /// the state after all steps in the stream.
    ///
    /// Blocks: until the copy is done. Threads: optimizer.
    ///
    /// - `opt` to be read. Must not be NULL.
    /// - `index` in \[0, number of entries).
    /// - `first` first element, in row-major order of the shape of the entry; of a symmetric entry, of the full matrix.
    /// - `count` number of elements; first + count is at most the number of elements of the entry.
    /// - `dst` receives count elements of the dtype of the entry, dense; memory of the caller.
    /// - `dst_bytes` size of dst in bytes, at least count times the size of the dtype.
    /// - `dst_device_type` where dst is: SHAMPOO_CPU; or SHAMPOO_CUDA, if the optimizer is there.
    /// - `stream` on CUDA that in whose order it is copied. Must be NULL on the CPU.
    /// - returns `SHAMPOO_OK`: dst is filled.
    /// - returns `SHAMPOO_E_INVALID`: index or elements are out of range, dst_bytes is too small, a pointer that is needed is
    ///   NULL, or stream is not NULL.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: dst_device_type is neither SHAMPOO_CPU nor that of the optimizer.
    ///
    /// Since 0.1.
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
    /// Copies elements into an entry of the state, that of the last state_out where arenas are bound.
    ///
    /// Blocks: until the copy is done. Threads: optimizer.
    ///
    /// - `opt` to be changed. Must not be NULL.
    /// - `index` in \[0, number of entries).
    /// - `first` first element, in row-major order of the shape of the entry; of a symmetric entry, of the full matrix,
    ///   of which the elements on and below the diagonal count.
    /// - `count` number of elements; first + count is at most the number of elements of the entry.
    /// - `src` count elements of the dtype of the entry, dense; memory of the caller.
    /// - `src_bytes` size of src in bytes, at least count times the size of the dtype.
    /// - `src_device_type` where src is: SHAMPOO_CPU; or SHAMPOO_CUDA, if the optimizer is there.
    /// - `stream` on CUDA that in whose order it is copied. Must be NULL on the CPU.
    /// - returns `SHAMPOO_OK`: the elements are written.
    /// - returns `SHAMPOO_E_INVALID`: index or elements are out of range, src_bytes is too small, a pointer that is needed is
    ///   NULL, or stream is not NULL.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: src_device_type is neither SHAMPOO_CPU nor that of the optimizer.
    ///
    /// Since 0.1.
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
    /// Saves the states of optimizers, of all ranks, as one checkpoint: safetensors files, one or more for each rank, and a
    /// JSON index that tells what is in them. Where arenas are bound, that is the last state_out. Parameters are the host's
    /// to save. docs/checkpoints.md describes the files.
    ///
    /// A checkpoint exists once its index is there, which is written last. A save that fails, or is killed at any moment,
    /// leaves the earlier checkpoints of the directory whole. One that succeeds removes all but the last checkpoint_keep.
    ///
    /// Collective over world. Blocks: until the files are on the disk. Threads: optimizer, of all of them.
    ///
    /// - `opts` the optimizers of this rank, count of them. Where all ranks have one optimizer, it is that; ranks may
    ///   have others, too, as where experts have replicas of their own. A name is one parameter on all ranks of world: not
    ///   in two of the optimizers, and where ranks have it in optimizers of their own, copies with the same states.
    /// - `count` number of optimizers of this rank, at least 0.
    /// - `world` communicator of all ranks of the job, whatever their replicas and shards; one of host memory, or of
    ///   memory of a GPU where every rank has an optimizer on CUDA. NULL: there is one rank.
    /// - `directory` path of a directory that all ranks see, UTF-8. It is made if it is not there; what it is in must be.
    /// - `stream` of optimizers on CUDA, that in whose order states are copied. Must be NULL on the CPU.
    /// - returns `SHAMPOO_OK`: the checkpoint is on the disk.
    /// - returns `SHAMPOO_E_INVALID`: an argument is wrong on some rank, a name is in two optimizers, or on two ranks with states
    ///   that differ, or world is smaller than the replicas times the shards of an optimizer.
    /// - returns `SHAMPOO_E_STATE`: the state of an optimizer was spoiled by a load that failed.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: world takes memory of a GPU, and no optimizer of this rank is on CUDA.
    /// - returns `SHAMPOO_E_IO`: a file could not be written; the text names it and the reason. The same on all ranks.
    /// - returns `SHAMPOO_E_COMM`: a collective failed. Ranks do not know then whether the new checkpoint is whole; what a load
    ///   takes is. Where it failed on one rank alone, the others wait, unless the communicator has an abort.
    /// - returns `SHAMPOO_E_NOMEM`: buffers of some MiB could not be had.
    ///
    /// Since 0.1.
    pub fn shampoo_save(
        opts: *const *mut shampoo_optimizer,
        count: i32,
        world: *mut shampoo_comm,
        directory: *const c_char,
        stream: *mut c_void,
    ) -> shampoo_status;
    /// Loads a checkpoint into optimizers, whatever the number of ranks, of threads and of shards that saved it. Parameters
    /// are known by their names, and blocks by their places in them. Training then goes on with the bits of the run that
    /// saved it, if its parameters have been brought back, too, and hyper-parameters are the same.
    ///
    /// What must agree: names and shapes of all parameters, the dtypes of states, and the grafting method where it keeps a
    /// state. Other hyper-parameters are those of the optimizer that loads, and the log tells which differ. Blocks that were
    /// cut in another way: see the key on_block_mismatch. A load that fails leaves the optimizers as they were. (One case is
    /// left: a state of more than 24 MiB that is not that of create, or lies in memory of the host, and a failure after all
    /// files have been read and checked, as they are read again: a file that cannot be, memory that ends, a collective. The
    /// optimizer then refuses to step from that arena, with SHAMPOO_E_STATE, until a load succeeds or a step from another
    /// arena has written it as its state_out.)
    ///
    /// Collective over world. Blocks: until it is done. Threads: optimizer, of all of them.
    ///
    /// - `opts` the optimizers of this rank, count of them, together on all ranks those of all parameters of the
    ///   checkpoint. Where arenas are bound, the state is written to the last state_out: bind it as the next state_in.
    /// - `count` number of optimizers of this rank, at least 0.
    /// - `world` communicator of all ranks of the job, as for shampoo_save(); NULL: there is one rank.
    /// - `directory` path of a directory that checkpoints were saved into, of which the last is loaded; or of the index
    ///   of one of them. UTF-8.
    /// - `stream` of optimizers on CUDA, that in whose order states are copied. Must be NULL on the CPU.
    /// - returns `SHAMPOO_OK`: the states, and the step counters, are those of the checkpoint.
    /// - returns `SHAMPOO_E_INVALID`: an argument is wrong on some rank, or the checkpoint is of other parameters, dtypes,
    ///   grafting or blocks; the text names the first.
    /// - returns `SHAMPOO_E_IO`: there is no checkpoint, or a file is missing, unreadable, cut off or damaged; the text names the
    ///   file, and the entry. The same on all ranks.
    /// - returns `SHAMPOO_E_UNSUPPORTED`: the checkpoint is of a later format, or world as of shampoo_save().
    /// - returns `SHAMPOO_E_COMM`: a collective failed. Where it failed on one rank alone, the others wait, unless the
    ///   communicator has an abort.
    /// - returns `SHAMPOO_E_NOMEM`: buffers of some MiB could not be had.
    ///
    /// Since 0.1.
    pub fn shampoo_load(
        opts: *const *mut shampoo_optimizer,
        count: i32,
        world: *mut shampoo_comm,
        directory: *const c_char,
        stream: *mut c_void,
    ) -> shampoo_status;
    /// Inverse root of a symmetric matrix: x = (a + e I)^(-exponent_multiplier \* root_den / root_num). e is
    /// root_relative_epsilon times the mean eigenvalue of a (its trace divided by n), or epsilon where that key is set
    /// instead.
    ///
    /// root_method eigen: by eigendecomposition, or, for an inverse square root in float32 of an order of 8 to 512, by a
    /// rational approximation with the same error; where the smallest eigenvalue is negative, all are raised until it is 0;
    /// then e is added to all. A 1x1 matrix and a diagonal one are computed element by element, without that first
    /// raise (unless the result would not be finite without it). With root_rank_handling pseudo_inverse, eigenvalues that
    /// count as 0 are left out instead (root_rank_rtol, root_rank_atol). root_method newton: by the coupled inverse Newton
    /// iteration; root_num / root_den must be whole. root_method higher_order: by a coupled iteration of order root_order;
    /// epsilon, where it is used, is relative: max(epsilon \* L, 1e-16) is added, L a bound on the largest eigenvalue. A
    /// matrix of zeros or subnormal numbers has the identity as its root with root_relative_epsilon. This is what a step
    /// does with a factor matrix, its recovery included; but here the result of root_max_iterations is given as it is.
    ///
    /// Blocks: until done. It allocates its workspace and runs on the calling thread. Threads: any; config is only read.
    ///
    /// - `config` of which it reads all keys that begin with "root\_", "epsilon" and "exponent_multiplier"; epsilon may be
    ///   0 here. "root_dtype" auto is dtype. Must not be NULL.
    /// - `n` order of the matrix, 1..32750.
    /// - `dtype` of a and x: SHAMPOO_F32 or SHAMPOO_F64.
    /// - `a` n \* n elements, row-major, symmetric, of which those on and below the diagonal are read.
    /// - `x` n \* n elements, row-major. Written, and exactly symmetric. May be a, and must not overlap it otherwise.
    /// - `root_num` numerator of the root, \>= 1: 4 for the inverse fourth root.
    /// - `root_den` denominator of the root, \>= 1: 1 for the inverse fourth root.
    /// - `info` filled; struct_size must be set before. NULL: not wanted.
    /// - returns `SHAMPOO_OK`: x and info are written.
    /// - returns `SHAMPOO_E_INVALID`: n, dtype or the root is out of range, the root is not whole with newton, values of the
    ///   config contradict each other, a pointer that is needed is NULL, or info has a wrong struct_size.
    /// - returns `SHAMPOO_E_NUMERIC`: a has a NaN or an infinity, the root is not finite (an eigenvalue that is not above 0 with
    ///   an epsilon of 0), or every rung of the recovery failed. x is as before.
    ///
    /// Since 0.1.
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
