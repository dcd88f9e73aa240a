// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::dtype::Dtype;
use crate::error::{c_string, check, text, Result};
use crate::library::start;
use libshampoo_sys as sys;
use std::fmt;
use std::ptr::{null_mut, NonNull};

/// The value of a key. It can be made from numbers, `bool`, strings, [`Dtype`] and lists of integers. `None` becomes
/// the value "auto".
#[derive(Clone, Debug, PartialEq)]
pub struct Value(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    F64(f64),
    I64(i64),
    Text(String),
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value(Kind::F64(value))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value(Kind::I64(value))
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Value(Kind::I64(value.into()))
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Value(Kind::Text(value.to_string()))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value(Kind::Text(value.to_string()))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value(Kind::Text(value.to_owned()))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value(Kind::Text(value))
    }
}

impl From<Dtype> for Value {
    fn from(value: Dtype) -> Self {
        Value(Kind::Text(value.name().to_owned()))
    }
}

impl From<&[i64]> for Value {
    fn from(value: &[i64]) -> Self {
        let words: Vec<String> = value.iter().map(i64::to_string).collect();
        Value(Kind::Text(words.join(",")))
    }
}

impl<const N: usize> From<[i64; N]> for Value {
    fn from(value: [i64; N]) -> Self {
        Value::from(&value[..])
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| Value::from("auto"), Into::into)
    }
}

/// Hyper-parameters by name. [`keys`](crate::keys()) returns the table of keys.
///
/// ```
/// let mut config = libshampoo::Config::new()?;
/// config.set("lr", 0.03)?.set("grafting", "adam")?.set("precondition_frequency", 10)?;
/// assert_eq!(config.get("lr").as_deref(), Some("0.03"));
/// # Ok::<(), libshampoo::Error>(())
/// ```
pub struct Config {
    handle: NonNull<sys::shampoo_config>,
}

// SAFETY: a config is not bound to a thread, and functions that take a const config only read it.
unsafe impl Send for Config {}
unsafe impl Sync for Config {}

impl Config {
    /// Creates a config with the defaults of all keys.
    ///
    /// # Errors
    ///
    /// [`Code::Unsupported`](crate::Code::Unsupported): the version of the loaded library does not match this crate.
    pub fn new() -> Result<Self> {
        start()?;
        let mut handle = null_mut();
        // SAFETY: handle can receive the result.
        check(unsafe { sys::shampoo_config_create(&mut handle) })?;
        Ok(Config::own(handle))
    }

    /// Returns a copy, for example to set other values of some keys for a parameter group.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfMemory`](crate::Code::OutOfMemory): memory ran out.
    pub fn try_clone(&self) -> Result<Self> {
        let mut handle = null_mut();
        // SAFETY: both arguments are valid.
        check(unsafe { sys::shampoo_config_clone(&mut handle, self.as_ptr()) })?;
        Ok(Config::own(handle))
    }

    fn own(handle: *mut sys::shampoo_config) -> Self {
        Config { handle: NonNull::new(handle).expect("a successful call returns an object") }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::shampoo_config {
        self.handle.as_ptr()
    }

    /// Sets a key. Returns the config, so that calls can be chained.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): there is no such key (the message suggests a similar name), the value
    /// has the wrong type, or the value is out of range. If the call fails, the key keeps its value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<&mut Self> {
        let name = c_string("key", key)?;
        // SAFETY: the strings are C strings, which the library copies.
        check(unsafe {
            match value.into().0 {
                Kind::F64(value) => sys::shampoo_config_set_f64(self.as_ptr(), name.as_ptr(), value),
                Kind::I64(value) => sys::shampoo_config_set_i64(self.as_ptr(), name.as_ptr(), value),
                Kind::Text(value) => {
                    let value = c_string(&format!("key {key}:"), &value)?;
                    sys::shampoo_config_set_str(self.as_ptr(), name.as_ptr(), value.as_ptr())
                }
            }
        })?;
        Ok(self)
    }

    /// Sets keys from pairs such as "lr=0.1 grafting=adam", separated by blanks or line ends. "#" begins a comment that
    /// ends with its line. Returns the config, so that calls can be chained.
    ///
    /// ```
    /// let mut config = libshampoo::Config::new()?;
    /// config.parse("lr=0.03 momentum=0.9")?;
    /// assert_eq!(config.get("momentum").as_deref(), Some("0.9"));
    /// # Ok::<(), libshampoo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): a key or a value is wrong, as for [`set`](Config::set), or a key has no
    /// value. If the call fails, no key changes.
    pub fn parse(&mut self, options: &str) -> Result<&mut Self> {
        let options = c_string("options", options)?;
        // SAFETY: options is a C string, which the library copies.
        check(unsafe { sys::shampoo_config_parse(self.as_ptr(), options.as_ptr()) })?;
        Ok(self)
    }

    /// Returns the value of a key as a string, or None if there is no such key. If this string is passed to
    /// [`set`](Config::set), the key gets the same value again.
    pub fn get(&self, key: &str) -> Option<String> {
        let name = c_string("key", key).ok()?;
        // SAFETY: the string is valid until the config changes, and is copied before that.
        unsafe {
            let value = sys::shampoo_config_get(self.as_ptr(), name.as_ptr());
            (!value.is_null()).then(|| text(value).to_owned())
        }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: this object owns the handle, and no call uses it.
        unsafe { sys::shampoo_config_destroy(self.as_ptr()) }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = formatter.debug_map();
        for key in crate::keys().unwrap_or_default() {
            map.entry(&key.name, &self.get(key.name).unwrap_or_default());
        }
        map.finish()
    }
}
