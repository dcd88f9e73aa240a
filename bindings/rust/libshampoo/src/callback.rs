// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// Runs the callbacks of the caller: methods of communicators and executors, and receivers of log messages. A panic must
// not unwind into the library. If a callback calls the library, this inner call must not take the failure that is
// stored for the outer call.

use std::any::Any;
use std::cell::RefCell;
use std::mem::{forget, swap};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// An error of any type. The methods of a [`Communicator`](crate::Communicator) return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

thread_local! {
    // The failure of a callback on this thread. The library call that runs the callback reports it, on the same thread.
    static FAILURE: RefCell<Option<BoxError>> = RefCell::new(None);
}

/// Swaps `failure` with the stored failure. Drops neither of them, because their destructors may be code of the caller.
/// Does nothing if the thread is exiting and its thread-local storage no longer exists. The error of the library call
/// then lacks the failure.
fn exchange(failure: &mut Option<BoxError>) {
    let _ = FAILURE.try_with(|stored| swap(&mut *stored.borrow_mut(), failure));
}

/// Returns the payload of a panic as text.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "panicked with a payload that is not text".to_owned(), |text| format!("panicked: {text}"))
}

/// Runs code and catches its panics. Err is the message of the panic.
fn contain<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
        let text = panic_text(&*payload);
        // Dropping the payload may panic, too. The payload of this second panic is leaked, because its drop may panic.
        forget(catch_unwind(AssertUnwindSafe(|| drop(payload))));
        text
    })
}

/// Runs a callback. While it runs, the stored failure is set aside. Err is the message of a panic.
pub(crate) fn run<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    let mut failure = None;
    exchange(&mut failure);
    let result = contain(code);
    exchange(&mut failure);
    let _ = contain(|| drop(failure));
    result
}

/// Stores the failure of a callback for the error of the library call that runs the callback.
pub(crate) fn keep_failure(failure: BoxError) {
    let mut failure = Some(failure);
    exchange(&mut failure);
    let _ = contain(|| drop(failure));
}

/// Takes the stored failure of a callback on this thread.
pub(crate) fn take_failure() -> Option<BoxError> {
    let mut failure = None;
    exchange(&mut failure);
    failure
}
