// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::callback::{take_failure, BoxError};
use libshampoo_sys as sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::c_char;

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure it is, and so what there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// An argument or a value of a key is wrong: fix the call.
    Invalid,
    /// The call is right and the moment is wrong: fix the order of the calls.
    State,
    /// This version, build or machine cannot do it: another may.
    Unsupported,
    /// Memory or another resource of the system ran out: free some, or ask for less.
    OutOfMemory,
    /// NaN or infinity was met. A step that tells so has changed nothing, and training may go on.
    Numeric,
    /// A collective failed: tear the job down.
    Comm,
    /// A GPU or its runtime failed: end the process.
    Device,
    /// A file is missing, unreadable or damaged, or the disk is full; the text names the file.
    Io,
    /// A bug of the library: please report it, with the text and [`build_info`](crate::build_info).
    Internal,
    /// A status that this crate does not know.
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

/// Why a call failed. A call that fails changes nothing, unless its documentation says so.
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

    /// What kind of failure it is.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The text: which argument was wrong, its value, what was expected and what to do.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Which step on CUDA was refused, where [`Optimizer::status`](crate::Optimizer::status) tells of it: the number of
    /// its call, from 1 on.
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
    /// What a communicator in Rust has failed with, on the rank where it did.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Makes a result of a status, with the text of the last failure of this thread.
pub(crate) fn check(status: i32) -> Result<()> {
    if status == sys::SHAMPOO_OK {
        return Ok(());
    }
    // SAFETY: it gives a text that is valid until the next call of this thread.
    let mut message = unsafe { text(sys::shampoo_last_error()) }.to_owned();
    let code = Code::of(status);
    let source = take_failure().filter(|_| code == Code::Comm);
    if let Some(failure) = &source {
        message = format!("{message}. The communicator says: {failure}");
    }
    Err(Error { code, message, source, step: None })
}

/// Looks at a text of the library. Those of this version are UTF-8, but for what they quote.
///
/// # Safety
///
/// `pointer` is NULL or a C string that lives for `'a`.
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

/// Makes a C string; `what` names it in the error.
pub(crate) fn c_string(what: &str, value: &str) -> Result<CString> {
    CString::new(value)
        .map_err(|_| Error::invalid(format!("{what} {value:?} has a zero byte, which no C string can hold")))
}

/// Makes a 32-bit number of a count.
pub(crate) fn to_i32(what: &str, value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::invalid(format!("{what} {value}: at most {} is possible", i32::MAX)))
}

/// Makes a 64-bit number of a count.
pub(crate) fn to_i64(what: &str, value: usize) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::invalid(format!("{what} {value}: at most {} is possible", i64::MAX)))
}
