// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use libshampoo_sys as sys;

/// The type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// IEEE 754 binary16. The Rust type is [`F16`].
    F16,
    /// The upper half of an IEEE 754 binary32. The Rust type is [`Bf16`].
    Bf16,
    /// `i32`, which only occurs in the state.
    I32,
    /// `i64`, which only occurs in the state.
    I64,
}

impl Dtype {
    const ALL: [(Dtype, i32, usize, &'static str); 6] = [
        (Dtype::F32, sys::SHAMPOO_F32, 4, "f32"),
        (Dtype::F64, sys::SHAMPOO_F64, 8, "f64"),
        (Dtype::F16, sys::SHAMPOO_F16, 2, "f16"),
        (Dtype::Bf16, sys::SHAMPOO_BF16, 2, "bf16"),
        (Dtype::I32, sys::SHAMPOO_I32, 4, "i32"),
        (Dtype::I64, sys::SHAMPOO_I64, 8, "i64"),
    ];

    pub(crate) fn code(self) -> i32 {
        Dtype::ALL[self as usize].1
    }

    pub(crate) fn of(code: i32) -> Option<Dtype> {
        Dtype::ALL.iter().find(|row| row.1 == code).map(|row| row.0)
    }

    /// Returns the size of an element in bytes.
    pub fn size(self) -> usize {
        Dtype::ALL[self as usize].2
    }

    /// Returns the name of the dtype: "f32", "f64", "f16", "bf16", "i32" or "i64".
    pub fn name(self) -> &'static str {
        Dtype::ALL[self as usize].3
    }
}

/// A Rust type for elements of a [`Dtype`].
///
/// # Safety
///
/// The type must have the size, the alignment and the meaning of the dtype, and every bit pattern must be a valid
/// value. For example, a `#[repr(transparent)]` struct over `u16` can implement this trait with the dtype
/// [`Dtype::F16`] or [`Dtype::Bf16`].
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype of elements of this type.
    const DTYPE: Dtype;
}

/// The bits of an IEEE 754 binary16. This crate does no arithmetic with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The bits of a bfloat16, the upper half of a binary32. This crate does no arithmetic with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bf16(pub u16);

// SAFETY: each type has the size, the alignment and the meaning of its dtype, and every bit pattern is a valid value.
unsafe impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
}
unsafe impl Element for f64 {
    const DTYPE: Dtype = Dtype::F64;
}
unsafe impl Element for F16 {
    const DTYPE: Dtype = Dtype::F16;
}
unsafe impl Element for Bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
}
unsafe impl Element for i32 {
    const DTYPE: Dtype = Dtype::I32;
}
unsafe impl Element for i64 {
    const DTYPE: Dtype = Dtype::I64;
}
