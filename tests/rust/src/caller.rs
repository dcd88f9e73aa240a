// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Tests of executors, allocators, arenas and addresses that the caller provides.

use crate::tools::{bits, builder, config, gradients, model, steps, trained};
use libshampoo::{Executor, Optimizer, PlanOptions};
use std::alloc::{alloc, dealloc, Layout};
use std::os::raw::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// An executor that starts threads in each call. `mistake` names the way in which the executor breaks its contract. If
/// `mistake` is "", the executor does not break its contract.
struct Scoped {
    mistake: &'static str,
    calls: Arc<AtomicUsize>,
    /// Number of calls in which the executor ran `count + 2` tasks without a panic.
    finished: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Scoped {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Executor for Scoped {
    fn threads(&self) -> usize {
        3
    }

    fn parallel_for(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.mistake {
            "leaves all out" => return,
            "panics" => panic!("an intended panic of an executor"),
            "runs twice, and too many" => {
                (0..count + 2).for_each(task);
                self.finished.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
        std::thread::scope(|scope| {
            for i in 0..count {
                scope.spawn(move || task(i));
            }
        });
    }
}

#[test]
fn any_executor_gives_bit_identical_results_even_if_it_breaks_its_contract() {
    for mistake in ["", "leaves all out", "panics", "runs twice, and too many"] {
        let (calls, finished, dropped) = (Arc::default(), Arc::default(), Arc::default());
        let executor = Scoped {
            mistake,
            calls: Arc::clone(&calls),
            finished: Arc::clone(&finished),
            dropped: Arc::clone(&dropped),
        };
        let plan = builder(&config(), PlanOptions::default().threads(3)).finish().unwrap();
        let mut opt = Optimizer::builder(&plan).executor(executor).build().unwrap();
        let mut values = model();
        steps(&mut opt, &mut values, 0, 4);
        assert_eq!(bits(&values), bits(&trained()), "{mistake}");
        let called = calls.load(Ordering::SeqCst);
        assert!(called > 0, "the executor was not called");
        let wanted = if mistake.starts_with("runs twice") { called } else { 0 };
        assert_eq!(finished.load(Ordering::SeqCst), wanted);
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(opt);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn an_executor_is_dropped_if_its_optimizer_cannot_be_created() {
    let dropped = Arc::default();
    let executor =
        Scoped { mistake: "", calls: Arc::default(), finished: Arc::default(), dropped: Arc::clone(&dropped) };
    let plan = builder(&config(), PlanOptions::default()).finish().unwrap();
    let builder = Optimizer::builder(&plan).executor(executor).device_id(99);
    builder.build().unwrap_err();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

/// Makes four steps with buffers that are bound by address, and with a bound learning rate. The optimizer is created
/// with its state in an arena of the caller. If `bind_other` is true, the state is moved to another arena before the
/// first step.
fn over_addresses(bind_other: bool) {
    let plan = builder(&config(), PlanOptions::default()).finish().unwrap();
    let bytes = plan.bytes("state").unwrap();
    let mut arenas = [vec![0u8; bytes + 64], vec![0u8; bytes + 64]];
    let start = |arena: &mut Vec<u8>| unsafe { arena.as_mut_ptr().add(arena.as_ptr().align_offset(64)) };
    let (created, other) = (start(&mut arenas[0]), start(&mut arenas[1]));
    let (mut values, lr) = (model(), 0.1f64);
    let grads: Vec<_> = (0..4).map(|t| gradients(&model(), t)).collect();
    // SAFETY: all bound memory outlives the optimizer, which is dropped at the end of the block.
    unsafe {
        let mut opt = Optimizer::builder(&plan).state(created.cast(), bytes).build().unwrap();
        opt.set(0, "lr", 0.0).unwrap();
        opt.bind_scalar(0, "lr", &lr).unwrap();
        if bind_other {
            std::ptr::copy_nonoverlapping(created, other, bytes);
            opt.bind_state(other.cast(), other.cast()).unwrap();
            std::ptr::write_bytes(created, 0xff, bytes); // the steps must not read this arena any more
        }
        for grads in &grads {
            let buffers = values.iter_mut().zip(grads).map(|(value, grad)| {
                let mut buffers = libshampoo::sys::shampoo_buffers::new();
                buffers.param = value.as_ptr().cast();
                buffers.out = value.as_mut_ptr().cast();
                buffers.grad = grad.as_ptr().cast();
                buffers
            });
            let buffers: Vec<_> = buffers.collect();
            opt.bind_raw(0, &buffers).unwrap();
            opt.step_raw().unwrap();
        }
    }
    assert_eq!(bits(&values), bits(&trained()));
    let used = arenas.map(|arena| arena.iter().any(|byte| *byte != 0));
    assert_eq!(used, [true, bind_other]);
}

#[test]
fn a_caller_can_provide_addresses_arenas_and_scalars() {
    over_addresses(false);
    over_addresses(true);
}

/// The counters of the allocator that the test provides.
#[derive(Default)]
struct Counts {
    /// Bytes that are allocated and not yet deallocated.
    held: AtomicUsize,
    /// Sum of the bytes of all calls of `allocate`.
    allocated: AtomicUsize,
    /// Number of calls of `release`.
    released: AtomicUsize,
}

unsafe extern "C" fn allocate(
    user: *mut c_void,
    bytes: usize,
    align: usize,
    _type: i32,
    _id: i32,
    _stream: *mut c_void,
) -> *mut c_void {
    let counts = &*user.cast::<Counts>();
    counts.held.fetch_add(bytes, Ordering::SeqCst);
    counts.allocated.fetch_add(bytes, Ordering::SeqCst);
    // The returned memory starts one page after the start of the allocation. `deallocate` receives no alignment, and
    // finds the start by subtracting one page.
    let whole = Layout::from_size_align(bytes + 4096, 4096).unwrap();
    assert!(align <= 4096);
    alloc(whole).add(4096).cast()
}

unsafe extern "C" fn deallocate(
    user: *mut c_void,
    block: *mut c_void,
    bytes: usize,
    _type: i32,
    _id: i32,
    _stream: *mut c_void,
) {
    (*user.cast::<Counts>()).held.fetch_sub(bytes, Ordering::SeqCst);
    dealloc(block.cast::<u8>().sub(4096), Layout::from_size_align(bytes + 4096, 4096).unwrap());
}

unsafe extern "C" fn release(user: *mut c_void) {
    (*user.cast::<Counts>()).released.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_caller_can_provide_an_allocator() {
    let counts = Counts::default();
    let mut allocator = libshampoo::sys::shampoo_allocator::new();
    allocator.user = &counts as *const Counts as *mut c_void;
    allocator.allocate = Some(allocate);
    allocator.deallocate = Some(deallocate);
    allocator.release = Some(release);
    let plan = builder(&config(), PlanOptions::default()).finish().unwrap();
    // SAFETY: `counts` outlives the optimizer, and the functions may be called on any thread.
    let mut opt = unsafe { Optimizer::builder(&plan).allocator(allocator).stream(null_mut()).build() }.unwrap();
    assert!(counts.allocated.load(Ordering::SeqCst) >= plan.bytes("state").unwrap());
    let mut values = model();
    steps(&mut opt, &mut values, 0, 4);
    assert_eq!(bits(&values), bits(&trained()));
    drop(opt);
    assert_eq!((counts.held.load(Ordering::SeqCst), counts.released.load(Ordering::SeqCst)), (0, 1));
}
