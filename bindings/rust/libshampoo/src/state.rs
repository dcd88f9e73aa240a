// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::dtype::{Dtype, Element};
use crate::error::{check, text, to_i64, Code, Error, Result};
use crate::optimizer::Optimizer;
use libshampoo_sys as sys;

/// Description of an *entry*: one of the arrays that form the state of an optimizer. docs/checkpoints.md lists the
/// entries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateEntry {
    /// Name of the entry: "w/0/factor.1" is the second factor matrix of the first block of parameter w.
    pub key: String,
    /// Index in the list of entries.
    pub index: usize,
    /// Shape in elements, outermost dim first.
    pub shape: Vec<usize>,
    /// Dtype of the elements that are read and written.
    pub dtype: Dtype,
    /// For an entry whose elements correspond to those of a block: index of the block's first element in the flattened
    /// parameter. None for all other entries, including those whose elements are coordinates in an eigenbasis.
    pub flat_offset: Option<usize>,
    /// Size in the arena in bytes. The arena may contain only one triangle of a symmetric matrix.
    pub stored_bytes: usize,
    /// Whether the entry is a symmetric matrix. Reading and writing use the full matrix.
    pub symmetric: bool,
    /// Replica rank that stores the entry. It is always this rank.
    pub owner: usize,
    /// Shard rank that stores the entry. It is always this rank.
    pub shard_owner: usize,
    /// Whether the entry is a state of a block of this rank's shard, not of a block of the whole parameter.
    pub of_shard: bool,
}

impl StateEntry {
    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Optimizer {
    /// Returns the entries of this rank's state, in an order that depends only on the plan.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfMemory`]: memory ran out.
    pub fn state(&self) -> Result<Vec<StateEntry>> {
        let mut count = 0;
        // SAFETY: count can receive the result.
        check(unsafe { sys::shampoo_state_count(self.as_ptr(), &mut count) })?;
        (0..count).map(|index| self.state_entry(index)).collect()
    }

    fn state_entry(&self, index: i64) -> Result<StateEntry> {
        let mut entry = sys::shampoo_state_entry::new();
        // SAFETY: entry has a valid size.
        check(unsafe { sys::shampoo_state_describe(self.as_ptr(), index, &mut entry) })?;
        let dtype = Dtype::of(entry.dtype);
        Ok(StateEntry {
            // SAFETY: the string exists as long as the optimizer.
            key: unsafe { text(entry.key) }.to_owned(),
            index: index as usize,
            shape: entry.shape[..entry.ndim as usize].iter().map(|dim| *dim as usize).collect(),
            dtype: dtype.ok_or_else(|| {
                let text = "is unknown to this crate; use the same version of the crate and the library";
                Error::new(Code::Unsupported, format!("the dtype {} of a state entry {text}", entry.dtype))
            })?,
            flat_offset: usize::try_from(entry.flat_offset).ok(),
            stored_bytes: entry.stored_bytes as usize,
            symmetric: entry.symmetric == 1,
            owner: entry.owner as usize,
            shard_owner: entry.shard_owner as usize,
            of_shard: entry.of_shard == 1,
        })
    }

    fn state_dtype<T: Element>(&self, index: usize) -> Result<i64> {
        let index = to_i64("the index of the state entry", index)?;
        let entry = self.state_entry(index)?;
        if entry.dtype != T::DTYPE {
            return Err(Error::invalid(format!(
                "the values have the dtype {}; expected {}, the dtype of state {:?}",
                T::DTYPE.name(),
                entry.dtype.name(),
                entry.key
            )));
        }
        Ok(index)
    }

    /// Copies consecutive elements of entry `index` to `values`, in row-major order, starting with element `first`. For
    /// a symmetric matrix, elements are counted in the full matrix.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such entry, its dtype is not that of `T`, or elements are out of range.
    pub fn read_state<T: Element>(&mut self, index: usize, first: usize, values: &mut [T]) -> Result<()> {
        let index = self.state_dtype::<T>(index)?;
        let (first, count) = (to_i64("first", first)?, to_i64("count", values.len())?);
        let (to, bytes) = (values.as_mut_ptr().cast(), std::mem::size_of_val(values));
        let (opt, stream) = (self.as_ptr(), self.stream);
        // SAFETY: values has this number of bytes, and every bit pattern is a valid value.
        check(unsafe { sys::shampoo_state_read(opt, index, first, count, to, bytes, sys::SHAMPOO_CPU, stream) })
    }

    /// Copies `values` to consecutive elements of entry `index`, in row-major order, starting with element `first`. For
    /// a symmetric matrix, elements are counted in the full matrix, and those above the diagonal are ignored.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such entry, its dtype is not that of `T`, or elements are out of range.
    pub fn write_state<T: Element>(&mut self, index: usize, first: usize, values: &[T]) -> Result<()> {
        let index = self.state_dtype::<T>(index)?;
        let (first, count) = (to_i64("first", first)?, to_i64("count", values.len())?);
        let (from, bytes) = (values.as_ptr().cast(), std::mem::size_of_val(values));
        let (opt, stream) = (self.as_ptr(), self.stream);
        // SAFETY: values has this number of bytes.
        check(unsafe { sys::shampoo_state_write(opt, index, first, count, from, bytes, sys::SHAMPOO_CPU, stream) })
    }
}
