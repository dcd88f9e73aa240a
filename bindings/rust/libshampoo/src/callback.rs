// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// Code of the caller that the library calls: communicators, executors, receivers of messages. Nothing may unwind from
// there into the library, and what the code calls of the library itself must not take the failure that is on its way.

use std::any::Any;
use std::cell::RefCell;
use std::mem::{forget, swap};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Any error, as a [`Communicator`](crate::Communicator) returns it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

thread_local! {
    // Callbacks are called on the thread that is inside the call that they fail.
    static FAILURE: RefCell<Option<BoxError>> = RefCell::new(None);
}

/// Exchanges what is kept. It drops nothing, as that may be code of the caller, too. Where the thread ends there is no
/// place any more: the text is lost then, and the failure is told all the same.
fn exchange(failure: &mut Option<BoxError>) {
    let _ = FAILURE.try_with(|kept| swap(&mut *kept.borrow_mut(), failure));
}

/// What was thrown, as text.
fn panic_text(thrown: &(dyn Any + Send)) -> String {
    let text = thrown.downcast_ref::<&str>().copied();
    let text = text.or_else(|| thrown.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("with something that is no text"))
}

/// Runs code from which nothing unwinds; Err is the text of a panic.
fn contain<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|thrown| {
        let text = panic_text(&*thrown);
        // To drop what was thrown may panic, and so on: what comes of that is left where it is.
        forget(catch_unwind(AssertUnwindSafe(|| drop(thrown))));
        text
    })
}

/// Runs code of the caller inside a call of the library; Err is the text of a panic.
pub(crate) fn run<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    let mut failure = None;
    exchange(&mut failure);
    let result = contain(code);
    exchange(&mut failure);
    let _ = contain(|| drop(failure));
    result
}

/// Keeps what a callback failed with, for the error of the call that it was called from.
pub(crate) fn keep_failure(failure: BoxError) {
    let mut failure = Some(failure);
    exchange(&mut failure);
    let _ = contain(|| drop(failure));
}

/// Takes what a callback of this thread failed with.
pub(crate) fn take_failure() -> Option<BoxError> {
    let mut failure = None;
    exchange(&mut failure);
    failure
}
