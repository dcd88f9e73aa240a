// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::callback;
use libshampoo_sys as sys;
use std::os::raw::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs parallel work on threads of the program instead of the library's threads. Results do not depend on the
/// executor.
pub trait Executor: Send + Sync {
    /// Returns the largest `count` that [`parallel_for`](Executor::parallel_for) accepts. It must be above 0. In
    /// calls of the library, `count` also never exceeds the number of threads of the plan. The crate calls this method
    /// once for each optimizer.
    fn threads(&self) -> usize;

    /// Runs `task(i)` once for each i below `count`, on any threads, in parallel or one after another. Returns after
    /// all tasks have returned. If this method leaves out tasks, for example because it panics, the crate runs these
    /// tasks afterwards on the calling thread.
    fn parallel_for(&self, count: usize, task: &(dyn Fn(usize) + Sync));
}

type Task = unsafe extern "C" fn(*mut c_void, i64);

/// The argument that the library passes to its tasks. All threads use the same argument.
struct Argument(*mut c_void);

// SAFETY: the library's tasks can run at the same time with one argument.
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
        // An executor in safe Rust may run a task twice, which must not be undefined behavior.
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

/// Returns the struct through which the library calls the executor. The optimizer that is created with the struct calls
/// `release` after the last use of the executor. `release` drops the executor. If creating the optimizer fails, call
/// [`discard`].
pub(crate) fn describe(executor: Box<dyn Executor>) -> sys::shampoo_executor {
    let mut desc = sys::shampoo_executor::new();
    desc.threads = i32::try_from(executor.threads()).unwrap_or(i32::MAX);
    desc.user = Box::into_raw(Box::new(executor)).cast();
    desc.parallel_for = Some(parallel_for);
    desc.release = Some(release);
    desc
}

/// Drops the executor of a struct that [`describe`] returned.
pub(crate) fn discard(desc: &sys::shampoo_executor) {
    // SAFETY: describe set desc.user, and the library has not released the executor.
    unsafe { release(desc.user) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct RepeatsTasks;

    impl Executor for RepeatsTasks {
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
    fn each_task_runs_once_with_any_executor() {
        let runs: [AtomicUsize; 4] = Default::default();
        let desc = describe(Box::new(RepeatsTasks));
        // SAFETY: the argument has the type that the task expects.
        unsafe { parallel_for(desc.user, Some(count), &runs as *const _ as *mut c_void, 4) };
        discard(&desc);
        assert_eq!(runs.map(AtomicUsize::into_inner), [1; 4]);
    }
}
