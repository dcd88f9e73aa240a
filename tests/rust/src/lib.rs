// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! The tests of the crates `libshampoo` and `libshampoo-sys`.

// The test rust.guide compiles all Rust code in docs/rust.md, and runs the code that is not marked no_run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
pub struct Guide;

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod checkpoints;
#[cfg(test)]
mod cuda;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod layout;
#[cfg(test)]
mod library;
#[cfg(test)]
mod optimizer;
#[cfg(test)]
mod ranks;
#[cfg(test)]
mod tools;
