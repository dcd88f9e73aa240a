// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
#![allow(non_camel_case_types)]
#![deny(missing_docs)]

#[rustfmt::skip] // generated code
#[allow(missing_docs)] // some declarations have no documentation in the header
mod bindings;
mod init;

pub use bindings::*;
