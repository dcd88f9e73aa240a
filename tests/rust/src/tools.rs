// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Helpers that several tests share: a small model, and a communicator for ranks that are threads.

use libshampoo::{BoxError, Buffers, Communicator, Config, Optimizer, Param, PlanBuilder, PlanOptions};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Returns the path in the environment variable `name`, which CMakeLists.txt sets.
pub fn from_environment(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: ctest sets it")).into()
}

pub const SHAPES: [&[usize]; 3] = [&[12, 8], &[12], &[5, 12]];

/// Returns arbitrary initial values of the parameters. No two values are equal.
pub fn model() -> Vec<Vec<f32>> {
    let values = |p: usize, count: usize| (0..count).map(|i| ((i * 7 + p * 3 + 1) as f32).sin()).collect();
    SHAPES.iter().enumerate().map(|(p, shape)| values(p, shape.iter().product())).collect()
}

/// Returns the gradients of the parameters `model` in step t.
pub fn gradients(model: &[Vec<f32>], t: usize) -> Vec<Vec<f32>> {
    model.iter().map(|values| values.iter().map(|value| (value + t as f32).sin()).collect()).collect()
}

pub fn config() -> Config {
    let mut config = Config::new().unwrap();
    config.set("lr", 0.1).unwrap().set("grafting", "adam").unwrap().set("max_preconditioner_dim", 8).unwrap();
    config.set("precondition_frequency", 2).unwrap();
    config
}

/// Creates a plan with the parameters of the model. The caller can add groups and parameters, and must finish the plan.
pub fn builder(config: &Config, options: PlanOptions) -> PlanBuilder {
    let mut plan = PlanBuilder::new(config, options).unwrap();
    for (p, shape) in SHAPES.iter().enumerate() {
        plan.param(Param::new(format!("p{p}"), shape)).unwrap();
    }
    plan
}

pub fn optimizer() -> Optimizer {
    Optimizer::new(&builder(&config(), PlanOptions::default()).finish().unwrap()).unwrap()
}

/// Trains the model from step `first` up to, but not including, step `last`.
pub fn steps(opt: &mut Optimizer, values: &mut [Vec<f32>], first: usize, last: usize) {
    for t in first..last {
        let grads = gradients(&model(), t);
        step(opt, values, &grads).unwrap();
    }
}

pub fn step(opt: &mut Optimizer, values: &mut [Vec<f32>], grads: &[Vec<f32>]) -> libshampoo::Result<()> {
    let buffers = values.iter_mut().zip(grads).map(|(value, grad)| Buffers::new(value).with_grad(grad));
    opt.step(&mut buffers.collect::<Vec<_>>())
}

/// Trains the model on one rank for four steps. Returns the parameters.
pub fn trained() -> Vec<Vec<f32>> {
    let mut values = model();
    steps(&mut optimizer(), &mut values, 0, 4);
    values
}

/// Returns the bits of all values.
pub fn bits(values: &[Vec<f32>]) -> Vec<Vec<u32>> {
    values.iter().map(|each| each.iter().map(|value| value.to_bits()).collect()).collect()
}

/// A barrier at which threads exchange bytes.
pub struct Meeting {
    slots: Mutex<Vec<(Vec<u8>, Vec<usize>)>>,
    /// Number of calls of `wait` by all ranks so far.
    arrived: Mutex<usize>,
    someone_came: Condvar,
    world: usize,
    /// Number of calls of all_to_all by all ranks.
    pub all_to_alls: AtomicUsize,
}

impl Meeting {
    pub fn new(world: usize) -> Arc<Self> {
        Arc::new(Meeting {
            slots: Mutex::new(vec![Default::default(); world]),
            arrived: Mutex::new(0),
            someone_came: Condvar::new(),
            world,
            all_to_alls: AtomicUsize::new(0),
        })
    }

    /// Waits until all ranks have called this function. Panics after a time limit, because a rank may have failed.
    fn wait(&self) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        let wanted = (*arrived + self.world - 1) / self.world * self.world;
        self.someone_came.notify_all();
        let patience = Duration::from_secs(60);
        let (_arrived, late) =
            self.someone_came.wait_timeout_while(arrived, patience, |arrived| *arrived < wanted).unwrap();
        assert!(!late.timed_out(), "another rank did not arrive");
    }

    /// Stores the bytes and counts of this rank, and passes those of all ranks to `see`. Returns the result of `see`.
    fn exchange<R>(
        &self,
        rank: usize,
        bytes: &[u8],
        counts: &[usize],
        see: impl FnOnce(&[(Vec<u8>, Vec<usize>)]) -> R,
    ) -> R {
        self.slots.lock().unwrap()[rank] = (bytes.to_vec(), counts.to_vec());
        self.wait();
        let seen = see(&self.slots.lock().unwrap());
        self.wait();
        seen
    }
}

/// The communicator of a rank that is a thread. The ranks exchange data at `meeting`.
pub struct Thread {
    pub meeting: Arc<Meeting>,
    pub rank: usize,
    pub all_to_all: bool,
}

impl Communicator for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.meeting.world
    }

    fn all_gather(&self, segments: &mut [u8]) -> Result<(), BoxError> {
        let size = segments.len() / self.meeting.world;
        let own = segments[self.rank * size..][..size].to_vec();
        self.meeting.exchange(self.rank, &own, &[], |slots| {
            for (segment, (sent, _)) in segments.chunks_mut(size).zip(slots) {
                segment.copy_from_slice(sent);
            }
        });
        Ok(())
    }

    fn has_all_to_all(&self) -> bool {
        self.all_to_all
    }

    fn all_to_all(
        &self,
        send: &[u8],
        counts: &[usize],
        recv: &mut [u8],
        recv_counts: &[usize],
    ) -> Result<(), BoxError> {
        self.meeting.all_to_alls.fetch_add(1, Ordering::SeqCst);
        self.meeting.exchange(self.rank, send, counts, |slots| {
            let mut place = 0;
            for ((sent, counts), expected) in slots.iter().zip(recv_counts) {
                let first: usize = counts[..self.rank].iter().sum();
                assert_eq!(counts[self.rank], *expected, "a rank sends an unexpected number of bytes");
                recv[place..][..*expected].copy_from_slice(&sent[first..][..*expected]);
                place += expected;
            }
        });
        Ok(())
    }
}

/// Calls `run(rank)` for all ranks at the same time, in one thread per rank. Returns the results in rank order.
pub fn in_threads<R: Send>(world: usize, run: impl Fn(usize) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let run = &run;
        let mut threads = Vec::new();
        for rank in 0..world {
            threads.push(scope.spawn(move || run(rank)));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
