// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::callback;
use crate::error::{check, text, Result};
use crate::library::start;
use libshampoo_sys as sys;
use std::os::raw::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, RwLock};

/// Severity of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// A call has failed.
    Error,
    /// There is a problem, but the library continues.
    Warning,
    /// Information for users.
    Info,
    /// Details for debugging.
    Debug,
}

type Callback = Arc<dyn Fn(Level, &str) + Send + Sync>;

// deliver() clones the Arc, so that a callback that is replaced while it runs still exists until it has returned.
static CALLBACK: RwLock<Option<Callback>> = RwLock::new(None);

unsafe extern "C" fn deliver(_user: *mut c_void, level: i32, message: *const c_char) {
    let level = match level {
        0 => Level::Error,
        1 => Level::Warning,
        2 => Level::Info,
        _ => Level::Debug,
    };
    // A panic must not unwind into the library. The panic hook has printed the panic message.
    let _ = callback::run(|| {
        let callback = CALLBACK.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        if let Some(callback) = callback {
            callback(level, text(message));
        }
    });
}

fn replace(callback: Option<Callback>) {
    let mut current = CALLBACK.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let previous = std::mem::replace(&mut *current, callback);
    drop(current);
    drop(previous); // after the lock was released, because dropping a callback may log, too
}

/// Sets the callback that receives log messages, and replaces the previous callback. Messages that are less severe
/// than `max_level` are discarded. If no callback is set, all messages are discarded.
///
/// The callback runs on the thread that called the library, possibly on several such threads at the same time. The
/// callback must not use the object of that call, such as the optimizer. If the callback panics, the call of the
/// library continues.
///
/// # Errors
///
/// [`Code::Unsupported`](crate::Code::Unsupported): the version of the loaded library does not match this crate.
pub fn set_log(max_level: Level, callback: impl Fn(Level, &str) + Send + Sync + 'static) -> Result<()> {
    start()?;
    replace(Some(Arc::new(callback)));
    // SAFETY: deliver is a static function, and does not use its user pointer.
    check(unsafe { sys::shampoo_set_log(Some(deliver), null_mut(), max_level as i32) })
}

/// Removes the callback that receives log messages.
///
/// # Errors
///
/// [`Code::Unsupported`](crate::Code::Unsupported): the version of the loaded library does not match this crate.
pub fn clear_log() -> Result<()> {
    start()?;
    // SAFETY: the library accepts NULL, which disables log messages.
    check(unsafe { sys::shampoo_set_log(None, null_mut(), 0) })?;
    replace(None);
    Ok(())
}
