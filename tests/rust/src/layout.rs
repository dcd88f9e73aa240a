// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Checks that declarations have the same sizes, offsets, constants and initial values in Rust as in C, and that Rust
//! declares all exported functions.

use crate::tools::from_environment;
use libshampoo_sys::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem::{align_of, size_of, MaybeUninit};
use std::ptr::{addr_of, addr_of_mut};

fn pointee_size<T>(_pointer: *const T) -> usize {
    size_of::<T>()
}

/// Returns the bytes of a struct as hexadecimal digits. The caller must have initialized the padding of the struct.
fn hex<T>(value: &MaybeUninit<T>) -> String {
    let bytes = unsafe { std::slice::from_raw_parts(value.as_ptr().cast::<u8>(), size_of::<T>()) };
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

thread_local! {
    /// The addresses of the functions that the macro `function` has checked so far.
    static PLACES: RefCell<BTreeSet<usize>> = RefCell::default();
}

macro_rules! constant {
    ($lines:ident, $name:ident) => {
        $lines.push(format!("constant {} {}", stringify!($name), $name))
    };
}

macro_rules! layout {
    ($lines:ident, $type:ident, $($field:ident),*) => {
        $lines.push(format!("struct {} {} {}", stringify!($type), size_of::<$type>(), align_of::<$type>()));
        let place = MaybeUninit::<$type>::uninit();
        let start = place.as_ptr();
        $(
            let field = unsafe { addr_of!((*start).$field) };
            let offset = field as usize - start as usize;
            let (kind, name) = (stringify!($type), stringify!($field));
            $lines.push(format!("field {kind}.{name} {offset} {}", pointee_size(field)));
        )*
        // Writes each field over zeros, because a copy of the whole struct would leave the padding undefined.
        let (initial, mut bytes) = ($type::new(), MaybeUninit::<$type>::zeroed());
        $(unsafe { addr_of_mut!((*bytes.as_mut_ptr()).$field).write(initial.$field) };)*
        $lines.push(format!("init {} {}", stringify!($type), hex(&bytes)));
    };
}

macro_rules! function {
    ($lines:ident, $name:ident) => {
        // Using the address of the function also checks that the function links. All addresses must differ.
        assert!(PLACES.with(|places| places.borrow_mut().insert($name as *const () as usize)));
        $lines.push(format!("function {}", stringify!($name)));
    };
}

#[test]
fn declarations_have_the_layout_of_the_c_compiler() {
    let mut lines: Vec<String> = Vec::new();
    include!(env!("SHAMPOO_LAYOUT"));
    let expected = std::fs::read_to_string(from_environment("SHAMPOO_LAYOUT_EXPECTED")).unwrap();
    let (ours, theirs): (BTreeSet<&str>, BTreeSet<&str>) =
        (lines.iter().map(String::as_str).collect(), expected.lines().collect());
    let differ: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(differ.is_empty(), "only in Rust or only in C: {differ:#?}");
    assert!(ours.len() > 150, "{} lines", ours.len());
}
