// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::error::{check, text, Result};
use crate::library::start;
use libshampoo_sys as sys;

/// One row of the table of keys, which is part of the library.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Key {
    /// The key, such as "lr".
    pub name: &'static str,
    /// "f64", "i64", "bool", "choice", "dtype" or "list" (of integers).
    pub value_type: &'static str,
    /// The default as text; "auto": worked out from other keys or from the parameter.
    pub default: &'static str,
    /// The allowed values, for people.
    pub range: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Whether each parameter group has a value of its own.
    pub per_group: bool,
    /// Whether [`Optimizer::set`](crate::Optimizer::set) can change it.
    pub changeable: bool,
}

/// Gives every key with its documentation, in the order of docs/keys.md.
///
/// # Errors
///
/// [`Code::Unsupported`](crate::Code::Unsupported): the library is of another version than this crate.
///
/// ```
/// let keys = libshampoo::keys()?;
/// let lr = keys.iter().find(|key| key.name == "lr").unwrap();
/// assert!(lr.changeable && lr.per_group);
/// # Ok::<(), libshampoo::Error>(())
/// ```
pub fn keys() -> Result<Vec<Key>> {
    start()?;
    // SAFETY: it has no arguments.
    (0..unsafe { sys::shampoo_config_key_count() })
        .map(|index| {
            let mut info = sys::shampoo_key_info::new();
            // SAFETY: info has its size; its texts live as long as the library.
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
                })
            }
        })
        .collect()
}
