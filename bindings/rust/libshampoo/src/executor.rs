// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::callback;
use libshampoo_sys as sys;
use std::os::raw::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads of the program in place of the library's pool. Results are the same bits with every executor.
pub trait Executor: Send + Sync {
    /// The most tasks of one call, at least 1. Asked once. The threads of the plan are a limit, too.
    fn threads(&self) -> usize;

    /// Runs `task(i)` once for every i below `count`, on any threads, at once or one after another, and returns when
    /// all have returned. What it leaves out, or a panic, is made good on the calling thread.
    fn parallel_for(&self, count: usize, task: &(dyn Fn(usize) + Sync));
}

type Task = unsafe extern "C" fn(*mut c_void, i64);

/// The argument of the library's task, which tasks share among threads.
struct Argument(*mut c_void);

// SAFETY: the library says that its tasks may run at once.
unsafe impl Sync for Argument {}

impl Argument {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

unsafe extern "C" fn parallel_for(user: *mut c_void, task: Option<Task>, argument: *mut c_void, count: i64) {
    let executor = &*user.cast::<Box<dyn Executor>>();
    let (argument, count) = (Argument(argument), count as usize);
    let task = match task {
        Some(task) => task,
        None => return,
    };
    let taken: Vec<AtomicBool> = (0..count).map(|_| AtomicBool::new(false)).collect();
    let once = |index: usize| {
        // An executor in safe Rust may not be trusted to run each once.
        if index < count && !taken[index].swap(true, Ordering::Relaxed) {
            task(argument.get(), index as i64);
        }
    };
    let _ = callback::run(|| executor.parallel_for(count, &once));
    (0..count).for_each(once);
}

unsafe extern "C" fn release(user: *mut c_void) {
    let _ = callback::run(|| drop(Box::from_raw(user.cast::<Box<dyn Executor>>())));
}

/// The struct of the library, whose user is ended by release; where no optimizer comes of it, by [`discard`].
pub(crate) fn describe(executor: Box<dyn Executor>) -> sys::shampoo_executor {
    let mut desc = sys::shampoo_executor::new();
    desc.threads = i32::try_from(executor.threads()).unwrap_or(i32::MAX);
    desc.user = Box::into_raw(Box::new(executor)).cast();
    desc.parallel_for = Some(parallel_for);
    desc.release = Some(release);
    desc
}

/// Ends what [`describe`] has made.
pub(crate) fn discard(desc: &sys::shampoo_executor) {
    // SAFETY: describe made it, and nobody else has ended it.
    unsafe { release(desc.user) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Mistaken;

    impl Executor for Mistaken {
        fn threads(&self) -> usize {
            4
        }

        fn parallel_for(&self, _count: usize, task: &(dyn Fn(usize) + Sync)) {
            [2, 0, 2, 9].into_iter().for_each(task);
        }
    }

    unsafe extern "C" fn count(argument: *mut c_void, index: i64) {
        let runs = &*argument.cast::<[AtomicUsize; 4]>();
        runs[index as usize].fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn each_task_runs_once_whatever_an_executor_does() {
        let runs: [AtomicUsize; 4] = Default::default();
        let desc = describe(Box::new(Mistaken));
        // SAFETY: the argument is what the task takes.
        unsafe { parallel_for(desc.user, Some(count), &runs as *const _ as *mut c_void, 4) };
        discard(&desc);
        assert_eq!(runs.map(AtomicUsize::into_inner), [1; 4]);
    }
}
