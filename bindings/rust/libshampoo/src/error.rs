// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::callback::{take_failure, BoxError};
use libshampoo_sys as sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::c_char;

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// An argument or the value of a key is wrong.
    Invalid,
    /// The call is not possible in the current state, such as a step without bound memory.
    State,
    /// This version, build or machine does not support the call.
    Unsupported,
    /// Memory or another resource of the system ran out.
    OutOfMemory,
    /// NaN or infinity was found. The call has changed no parameter, and training can continue.
    Numeric,
    /// A collective failed, and the job must be restarted.
    Comm,
    /// A GPU or its runtime failed, and the process must be restarted.
    Device,
    /// A file is missing, unreadable or damaged, or the disk is full. The message names the file.
    Io,
    /// A bug in the library. Please report it with the message and [`build_info`](crate::build_info).
    Internal,
    /// A status that is unknown to this crate.
    Other(i32),
}

impl Code {
    fn of(status: i32) -> Self {
        match status {
            sys::SHAMPOO_E_INVALID => Code::Invalid,
            sys::SHAMPOO_E_STATE => Code::State,
            sys::SHAMPOO_E_UNSUPPORTED => Code::Unsupported,
            sys::SHAMPOO_E_NOMEM => Code::OutOfMemory,
            sys::SHAMPOO_E_NUMERIC => Code::Numeric,
            sys::SHAMPOO_E_COMM => Code::Comm,
            sys::SHAMPOO_E_DEVICE => Code::Device,
            sys::SHAMPOO_E_IO => Code::Io,
            sys::SHAMPOO_E_INTERNAL => Code::Internal,
            other => Code::Other(other),
        }
    }
}

/// An error of a call. A call that fails changes nothing, unless its documentation says otherwise.
#[derive(Debug)]
pub struct Error {
    code: Code,
    message: String,
    source: Option<BoxError>,
    step: Option<i64>,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into(), source: None, step: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::new(Code::Invalid, message)
    }

    pub(crate) fn at_step(mut self, step: i64) -> Self {
        self.step = (step > 0).then_some(step);
        self
    }

    /// Returns the kind of the error.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the message. It names the wrong argument, its value and the expected values, and explains the remedy.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// If [`Optimizer::status`](crate::Optimizer::status) reported the failure of a step on CUDA with this error,
    /// returns the number of the step, at least 1. Returns `None` for all other errors.
    pub fn step(&self) -> Option<i64> {
        self.step
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    /// Returns the error or the panic message of a [`Communicator`](crate::Communicator) that failed on this rank.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Converts the status of a library call to a result. An error contains the message of the last call that failed on
/// this thread.
pub(crate) fn check(status: i32) -> Result<()> {
    if status == sys::SHAMPOO_OK {
        return Ok(());
    }
    // SAFETY: the message is valid until this thread's next call.
    let mut message = unsafe { text(sys::shampoo_last_error()) }.to_owned();
    let code = Code::of(status);
    let source = take_failure().filter(|_| code == Code::Comm);
    if let Some(failure) = &source {
        message = format!("{message}. The error of the communicator: {failure}");
    }
    Err(Error { code, message, source, step: None })
}

/// Returns a string of the library, up to the first byte that is not UTF-8. Only a message that quotes text from
/// outside the library, such as the name of a file, can contain such bytes.
///
/// # Safety
///
/// `pointer` must be NULL or a C string that is valid for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> &'a str {
    if pointer.is_null() {
        return "";
    }
    let bytes = CStr::from_ptr(pointer).to_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}

/// Converts a string to a C string. `what` is the name of the string in the error message.
pub(crate) fn c_string(what: &str, value: &str) -> Result<CString> {
    CString::new(value).map_err(|_| {
        Error::invalid(format!("{what} {value:?} contains a zero byte; expected none, because it ends a C string"))
    })
}

/// Converts a count to 32 bits. `what` is the name of the count in the error message.
pub(crate) fn to_i32(what: &str, value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::invalid(format!("{what} is {value}: expected at most {}", i32::MAX)))
}

/// Converts a count to 64 bits. `what` is the name of the count in the error message.
pub(crate) fn to_i64(what: &str, value: usize) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::invalid(format!("{what} is {value}: expected at most {}", i64::MAX)))
}
