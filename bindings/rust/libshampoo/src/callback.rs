// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// Runs callbacks of the program: methods of communicators and executors, and log callbacks. Panics are caught, because
// they must not unwind into the library. If a communicator fails, its error is stored until the library call that ran
// the communicator returns. Then check() in error.rs takes the error. If a callback itself calls the library, this
// inner call must not take the error that is stored for the outer call.

use std::any::Any;
use std::cell::RefCell;
use std::mem::{forget, swap};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// An error of any type. The methods of a [`Communicator`](crate::Communicator) return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

thread_local! {
    // The error or the panic message of a communicator that failed on this thread.
    static FAILURE: RefCell<Option<BoxError>> = RefCell::new(None);
}

/// Swaps `failure` with `FAILURE`. Drops neither of the two errors, because their destructors may call this crate,
/// which would borrow `FAILURE` again. Does nothing if the thread is exiting and its thread-local storage no longer
/// exists. In this case, the error of the library call does not contain the error of the communicator.
fn exchange(failure: &mut Option<BoxError>) {
    let _ = FAILURE.try_with(|stored| swap(&mut *stored.borrow_mut(), failure));
}

/// Converts the payload of a panic to a panic message.
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

/// Runs a callback. `FAILURE` is empty when the callback starts, and is restored afterwards. If the callback panics,
/// Err is the message of the panic.
pub(crate) fn run<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    let mut failure = None;
    exchange(&mut failure);
    let result = contain(code);
    exchange(&mut failure);
    let _ = contain(|| drop(failure));
    result
}

/// Stores the error of a communicator in `FAILURE`. The error of the library call in progress will contain it.
pub(crate) fn keep_failure(failure: BoxError) {
    let mut failure = Some(failure);
    exchange(&mut failure);
    let _ = contain(|| drop(failure));
}

/// Removes the error from `FAILURE` and returns it.
pub(crate) fn take_failure() -> Option<BoxError> {
    let mut failure = None;
    exchange(&mut failure);
    failure
}
