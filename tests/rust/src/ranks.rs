// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Tests of several ranks. Each rank is a thread with a communicator that is written in Rust.

use crate::tools::{bits, builder, config, gradients, in_threads, model, steps, trained, Meeting, Thread, SHAPES};
use libshampoo::{BoxError, Buffers, Code, Comm, Communicator, Optimizer, Param, PlanBuilder, PlanOptions, Shard};
use std::os::raw::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

#[test]
fn replicas_are_bit_identical_to_one_rank() {
    for world in [2, 3] {
        let meeting = Meeting::new(world);
        let all = in_threads(world, |rank| {
            let comm = Comm::new(Thread { meeting: meeting.clone(), rank, all_to_all: false }).unwrap();
            let plan = builder(&config(), PlanOptions::default().replica(rank, world).threads(1)).finish().unwrap();
            let mut opt = Optimizer::builder(&plan).replica_comm(&comm).build().unwrap();
            drop((comm, plan)); // the optimizer keeps its own references to the communicator and the plan
            let mut values = model();
            steps(&mut opt, &mut values, 0, 4);
            values
        });
        for values in all {
            assert_eq!(bits(&values), bits(&trained()), "{world} ranks");
        }
    }
}

/// Returns the range of elements of a parameter that one of two ranks holds. If `odd` is true, the library cannot
/// derive the ranges from the number of ranks, so each rank must describe both ranges to its plan.
fn cut(count: usize, rank: usize, odd: bool) -> std::ops::Range<usize> {
    let middle = if odd { count / 3 } else { (count + 1) / 2 };
    if rank == 0 {
        0..middle
    } else {
        middle..count
    }
}

fn gathered(all_to_all: bool, odd: bool) {
    let meeting = Meeting::new(2);
    let parts = in_threads(2, |rank| {
        let mut config = config();
        config.set("shard_mode", "gather").unwrap();
        let shard = |count: usize, rank: usize| {
            let held = cut(count, rank, odd);
            Shard::Flat { offset: held.start, count: held.len() }
        };
        let mut plan = PlanBuilder::new(&config, PlanOptions::default().shard(rank, 2).threads(1)).unwrap();
        for (p, shape) in SHAPES.iter().enumerate() {
            let count = shape.iter().product();
            plan.param(Param::new(format!("p{p}"), shape).shard(shard(count, rank))).unwrap();
            if odd {
                plan.shard(p, 1 - rank, &shard(count, 1 - rank)).unwrap();
            }
        }
        let comm = Comm::new(Thread { meeting: meeting.clone(), rank, all_to_all }).unwrap();
        let mut opt = Optimizer::builder(&plan.finish().unwrap()).shard_comm(&comm).build().unwrap();
        let own = |whole: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            whole.iter().map(|value| value[cut(value.len(), rank, odd)].to_vec()).collect()
        };
        let mut values = own(model());
        for t in 0..4 {
            let grads = own(gradients(&model(), t));
            let buffers = values.iter_mut().zip(&grads).map(|(value, grad)| Buffers::new(value).with_grad(grad));
            opt.step(&mut buffers.collect::<Vec<_>>()).unwrap();
        }
        values
    });
    let whole: Vec<Vec<f32>> = (0..SHAPES.len()).map(|p| [parts[0][p].clone(), parts[1][p].clone()].concat()).collect();
    assert_eq!(bits(&whole), bits(&trained()), "all_to_all {all_to_all}, odd {odd}");
    assert_eq!(meeting.all_to_alls.load(Ordering::SeqCst) > 0, all_to_all);
}

#[test]
fn gathered_shards_are_bit_identical_to_one_rank() {
    gathered(false, false);
    gathered(true, false);
    gathered(true, true);
}

/// Data that a test shares with its communicator of the type `Fails`.
#[derive(Default)]
struct Seen {
    /// The test sets this flag before the first step. Until then, the communicator works.
    stepping: AtomicBool,
    aborted: AtomicUsize,
    dropped: AtomicUsize,
}

/// A communicator that fails from the first step on, in the way that `how` names.
struct Fails {
    thread: Thread,
    how: &'static str,
    seen: Arc<Seen>,
}

impl Communicator for Fails {
    fn rank(&self) -> usize {
        self.thread.rank
    }

    fn world(&self) -> usize {
        self.thread.world()
    }

    fn all_gather(&self, segments: &mut [u8]) -> Result<(), BoxError> {
        match self.how {
            _ if !self.seen.stepping.load(Ordering::SeqCst) => self.thread.all_gather(segments),
            "panic" => panic!("the network is {}", "gone"),
            "error" => Err(Box::new(std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the cable is out"))),
            _ => std::panic::panic_any(7),
        }
    }

    fn async_error(&self) -> Result<(), BoxError> {
        match self.how {
            "later" if self.seen.stepping.load(Ordering::SeqCst) => Err("failed later".into()),
            _ => Ok(()),
        }
    }

    fn has_abort(&self) -> bool {
        true
    }

    fn abort(&self) {
        self.seen.aborted.fetch_add(1, Ordering::SeqCst);
        panic!("an intended panic of an abort callback");
    }
}

impl Drop for Fails {
    fn drop(&mut self) {
        self.seen.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_failure_in_a_communicator_is_an_error_of_the_step() {
    for (how, text) in [
        ("panic", "panicked: the network is gone"),
        ("error", "the cable is out"),
        ("later", "failed later"),
        ("odd", "panicked with a payload that is not text"),
    ] {
        let (meeting, ready) = (Meeting::new(2), std::sync::Barrier::new(2));
        in_threads(2, |rank| {
            let seen: Arc<Seen> = Arc::default();
            let thread = Thread { meeting: meeting.clone(), rank, all_to_all: false };
            let comm = Comm::new(Fails { thread, how, seen: Arc::clone(&seen) }).unwrap();
            let plan = builder(&config(), PlanOptions::default().replica(rank, 2).threads(1)).finish().unwrap();
            let mut opt = Optimizer::builder(&plan).replica_comm(&comm).build().unwrap();
            ready.wait();
            seen.stepping.store(true, Ordering::SeqCst);
            let (mut values, grads) = (model(), gradients(&model(), 0));
            let error = crate::tools::step(&mut opt, &mut values, &grads).unwrap_err();
            assert_eq!(error.code(), Code::Comm, "{error}");
            assert!(error.message().contains(text), "{error}");
            let source = std::error::Error::source(&error).unwrap();
            assert_eq!(source.to_string(), text);
            assert_eq!(source.is::<std::io::Error>(), how == "error");
            assert_eq!(seen.aborted.load(Ordering::SeqCst), 1);
            // The next step fails, too, and its error has no source.
            let error = crate::tools::step(&mut opt, &mut values, &grads).unwrap_err();
            assert_eq!(error.code(), Code::Comm);
            assert!(std::error::Error::source(&error).is_none());
            drop(comm);
            assert_eq!(seen.dropped.load(Ordering::SeqCst), 0, "the communicator was dropped before its optimizer");
            drop(opt);
            assert_eq!(seen.dropped.load(Ordering::SeqCst), 1);
        });
    }
}

/// A communicator without abort. If `failing` is true, the next exchange fails and sets `failing` to false.
struct FailsOnce {
    thread: Thread,
    failing: Arc<AtomicBool>,
}

impl Communicator for FailsOnce {
    fn rank(&self) -> usize {
        self.thread.rank
    }

    fn world(&self) -> usize {
        self.thread.world()
    }

    fn all_gather(&self, segments: &mut [u8]) -> Result<(), BoxError> {
        if self.failing.swap(false, Ordering::SeqCst) {
            return Err("the cable is out".into());
        }
        self.thread.all_gather(segments)
    }
}

#[test]
fn without_abort_the_next_step_of_a_failed_rank_ends_the_wait_of_the_other_rank() {
    let meeting = Meeting::new(2);
    let errors = in_threads(2, |rank| {
        let failing: Arc<AtomicBool> = Arc::default();
        let thread = Thread { meeting: meeting.clone(), rank, all_to_all: false };
        let comm = Comm::new(FailsOnce { thread, failing: Arc::clone(&failing) }).unwrap();
        let plan = builder(&config(), PlanOptions::default().replica(rank, 2).threads(1)).finish().unwrap();
        let mut opt = Optimizer::builder(&plan).replica_comm(&comm).build().unwrap();
        failing.store(rank == 1, Ordering::SeqCst);
        let (mut values, grads) = (model(), gradients(&model(), 0));
        // Rank 0 waits in this step until rank 1 steps again.
        let error = crate::tools::step(&mut opt, &mut values, &grads).unwrap_err();
        if rank == 1 {
            crate::tools::step(&mut opt, &mut values, &grads).unwrap_err();
        }
        error
    });
    assert!(errors[1].message().contains("the cable is out"), "{}", errors[1]);
    assert_eq!(errors[0].code(), Code::Comm, "{}", errors[0]);
    assert!(errors[0].message().contains("rank 1: a collective or a CUDA call failed before"), "{}", errors[0]);
}

#[test]
fn a_rejected_communicator_is_dropped() {
    let seen: Arc<Seen> = Arc::default();
    let thread = Thread { meeting: Meeting::new(2), rank: 2, all_to_all: false };
    let error = Comm::new(Fails { thread, how: "", seen: Arc::clone(&seen) }).unwrap_err();
    assert!(error.message().contains("is 2: expected less than world(), which is 2"), "{error}");
    assert_eq!(seen.dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn one_communicator_serves_several_optimizers() {
    let meeting = Meeting::new(2);
    let all = in_threads(2, |rank| {
        let comm = Comm::new(Thread { meeting: meeting.clone(), rank, all_to_all: false }).unwrap();
        let plan = builder(&config(), PlanOptions::default().replica(rank, 2).threads(1)).finish().unwrap();
        let make = || Optimizer::builder(&plan).replica_comm(&comm).build().unwrap();
        let (mut first, mut second) = (make(), make());
        drop(comm);
        let (mut ours, mut theirs) = (model(), model());
        for t in 0..4 {
            steps(&mut first, &mut ours, t, t + 1);
            steps(&mut second, &mut theirs, t, t + 1);
        }
        drop(first);
        drop(second);
        (ours, theirs)
    });
    for (ours, theirs) in all {
        assert_eq!(bits(&ours), bits(&trained()));
        assert_eq!(bits(&theirs), bits(&trained()));
    }
}

/// The all-gather of a single rank.
unsafe extern "C" fn alone(
    user: *mut c_void,
    send: *const c_void,
    recv: *mut c_void,
    bytes: usize,
    _stream: *mut c_void,
) -> i32 {
    (*user.cast::<AtomicUsize>()).fetch_add(1, Ordering::SeqCst);
    std::ptr::copy(send, recv, bytes);
    0
}

#[test]
fn communicators_can_be_functions_in_c() {
    let calls = AtomicUsize::new(0);
    let mut ops = libshampoo::sys::shampoo_comm_ops::new();
    ops.user = &calls as *const AtomicUsize as *mut c_void;
    // SAFETY: `calls` outlives the communicator and the optimizer.
    let error = unsafe { Comm::from_ops(&ops) }.unwrap_err();
    assert!(error.code() == Code::Invalid && error.message().contains("all_gather"), "{error}");
    ops.all_gather = Some(alone);
    let comm = unsafe { Comm::from_ops(&ops) }.unwrap();
    let plan = builder(&config(), PlanOptions::default()).finish().unwrap();
    let mut opt = Optimizer::builder(&plan).replica_comm(&comm).build().unwrap();
    let mut values = model();
    steps(&mut opt, &mut values, 0, 4);
    assert_eq!(bits(&values), bits(&trained()));
    assert!(calls.load(Ordering::SeqCst) > 0);
}
