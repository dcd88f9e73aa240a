// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
#![allow(non_camel_case_types)]
#![deny(missing_docs)]

#[rustfmt::skip] // made by a program
#[allow(missing_docs)] // what the header says nothing about
mod bindings;
mod init;

pub use bindings::*;
