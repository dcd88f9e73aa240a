// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::error::{check, text, Result};
use crate::library::start;
use libshampoo_sys as sys;

/// A hyper-parameter in the library's table of keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Key {
    /// Name of the key, such as "lr".
    pub name: &'static str,
    /// Type of the value: "f64", "i64", "bool", "choice", "dtype", "list" (of integers) or "text".
    pub value_type: &'static str,
    /// The default as text. "auto" means that the library computes the value from other keys or from the parameter, as
    /// `doc` explains.
    pub default: &'static str,
    /// Description of the allowed values.
    pub range: &'static str,
    /// Description of the key.
    pub doc: &'static str,
    /// Whether parameter groups can have different values.
    pub per_group: bool,
    /// Whether [`Optimizer::set`](crate::Optimizer::set) can change the key.
    pub changeable: bool,
    /// Whether the key exists only to reproduce other implementations.
    pub for_replay: bool,
}

/// Returns all keys with their documentation, in the order of docs/keys.md.
///
/// # Errors
///
/// [`Code::Unsupported`](crate::Code::Unsupported): the version of the loaded library does not match this crate.
///
/// ```
/// let keys = libshampoo::keys()?;
/// let lr = keys.iter().find(|key| key.name == "lr").unwrap();
/// assert!(lr.changeable && lr.per_group);
/// # Ok::<(), libshampoo::Error>(())
/// ```
pub fn keys() -> Result<Vec<Key>> {
    start()?;
    // SAFETY: the function has no arguments.
    (0..unsafe { sys::shampoo_config_key_count() })
        .map(|index| {
            let mut info = sys::shampoo_key_info::new();
            // SAFETY: info has a valid size, and its strings exist while the library is loaded.
            unsafe {
                check(sys::shampoo_config_describe_key(index, &mut info))?;
                Ok(Key {
                    name: text(info.name),
                    value_type: text(info.value_type),
                    default: text(info.default_value),
                    range: text(info.range),
                    doc: text(info.doc),
                    per_group: info.scope == 1,
                    changeable: info.changeable == 1,
                    for_replay: info.for_replay == 1,
                })
            }
        })
        .collect()
}
