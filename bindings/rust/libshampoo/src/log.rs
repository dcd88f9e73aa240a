// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::callback;
use crate::error::{check, text, Result};
use crate::library::start;
use libshampoo_sys as sys;
use std::os::raw::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, RwLock};

/// How much a message of the library matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Something failed.
    Error,
    /// Something is not as it should be, and the library goes on.
    Warning,
    /// What it does.
    Info,
    /// Everything else.
    Debug,
}

type Callback = Arc<dyn Fn(Level, &str) + Send + Sync>;

// What a thread delivers just now outlives what takes its place: each delivery has a count of its own.
static CALLBACK: RwLock<Option<Callback>> = RwLock::new(None);

unsafe extern "C" fn deliver(_user: *mut c_void, level: i32, message: *const c_char) {
    let level = match level {
        0 => Level::Error,
        1 => Level::Warning,
        2 => Level::Info,
        _ => Level::Debug,
    };
    // A panic must not cross the library; what it says has gone to the panic hook.
    let _ = callback::run(|| {
        let callback = CALLBACK.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        if let Some(callback) = callback {
            callback(level, text(message));
        }
    });
}

fn put(callback: Option<Callback>) {
    let mut place = CALLBACK.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = std::mem::replace(&mut *place, callback);
    drop(place);
    drop(before); // without the lock: it may log, too
}

/// Has the messages of the library delivered, up to a level; in place of what was set before. Without it nothing is
/// printed.
///
/// The callback is called on threads that are inside a call of the library, on several at once. It must not use the
/// object that the interrupted call is using. A panic in it ends there.
///
/// # Errors
///
/// [`Code::Unsupported`](crate::Code::Unsupported): the library is of another version.
pub fn set_log(max_level: Level, callback: impl Fn(Level, &str) + Send + Sync + 'static) -> Result<()> {
    start()?;
    put(Some(Arc::new(callback)));
    // SAFETY: deliver lives as long as the program, and needs no user.
    check(unsafe { sys::shampoo_set_log(Some(deliver), null_mut(), max_level as i32) })
}

/// Ends the delivery of messages.
///
/// # Errors
///
/// [`Code::Unsupported`](crate::Code::Unsupported): the library is of another version.
pub fn clear_log() -> Result<()> {
    start()?;
    // SAFETY: NULL is silence.
    check(unsafe { sys::shampoo_set_log(None, null_mut(), 0) })?;
    put(None);
    Ok(())
}
