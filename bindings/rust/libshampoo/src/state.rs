// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::dtype::{Dtype, Element};
use crate::error::{check, text, to_i64, Code, Error, Result};
use crate::optimizer::Optimizer;
use libshampoo_sys as sys;

/// One array of the state, known by its key; `shampoo.h` lists what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateEntry {
    /// Its name: "w/0/factor.1" is the second factor matrix of the first block of parameter w.
    pub key: String,
    /// Its place in the list.
    pub index: usize,
    /// Shape in elements, outermost dim first.
    pub shape: Vec<usize>,
    /// Dtype of the elements that are read and written.
    pub dtype: Dtype,
    /// First element of its block within the flattened parameter; None: it does not lie over elements of a parameter.
    pub flat_offset: Option<usize>,
    /// Bytes as kept in the arena, where of a large symmetric matrix one triangle is.
    pub stored_bytes: usize,
    /// Whether it is a symmetric matrix, of which one triangle counts; read and write show it in full.
    pub symmetric: bool,
    /// Replica rank that holds it: this one.
    pub owner: usize,
    /// Shard rank that holds it: this one.
    pub shard_owner: usize,
    /// Whether its block is one of this rank's shard, which is less than the parameter.
    pub of_shard: bool,
}

impl StateEntry {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Optimizer {
    /// Lists all state of this rank, in an order that depends on the plan alone.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfMemory`].
    pub fn state(&self) -> Result<Vec<StateEntry>> {
        let mut count = 0;
        // SAFETY: count is a place for the result.
        check(unsafe { sys::shampoo_state_count(self.as_ptr(), &mut count) })?;
        (0..count).map(|index| self.state_entry(index)).collect()
    }

    fn state_entry(&self, index: i64) -> Result<StateEntry> {
        let mut entry = sys::shampoo_state_entry::new();
        // SAFETY: entry has its size.
        check(unsafe { sys::shampoo_state_describe(self.as_ptr(), index, &mut entry) })?;
        let dtype = Dtype::of(entry.dtype);
        Ok(StateEntry {
            // SAFETY: the text lives as long as the optimizer.
            key: unsafe { text(entry.key) }.to_owned(),
            index: index as usize,
            shape: entry.shape[..entry.ndim as usize].iter().map(|dim| *dim as usize).collect(),
            dtype: dtype
                .ok_or_else(|| Error::new(Code::Unsupported, format!("a state is of dtype {}", entry.dtype)))?,
            flat_offset: usize::try_from(entry.flat_offset).ok(),
            stored_bytes: entry.stored_bytes as usize,
            symmetric: entry.symmetric == 1,
            owner: entry.owner as usize,
            shard_owner: entry.shard_owner as usize,
            of_shard: entry.of_shard == 1,
        })
    }

    fn state_dtype<T: Element>(&self, index: usize) -> Result<i64> {
        let index = to_i64("state", index)?;
        let entry = self.state_entry(index)?;
        if entry.dtype != T::DTYPE {
            return Err(Error::invalid(format!(
                "state {:?} is of {}, and not of {}",
                entry.key,
                entry.dtype.name(),
                T::DTYPE.name()
            )));
        }
        Ok(index)
    }

    /// Copies elements of an entry, from element `first` on, row-major; of a symmetric one of the full matrix.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such entry, it is not of `T`, or elements are out of range.
    pub fn read_state<T: Element>(&mut self, index: usize, first: usize, values: &mut [T]) -> Result<()> {
        let index = self.state_dtype::<T>(index)?;
        let (first, count) = (to_i64("first", first)?, to_i64("count", values.len())?);
        let (to, bytes) = (values.as_mut_ptr().cast(), std::mem::size_of_val(values));
        let (opt, stream) = (self.as_ptr(), self.stream);
        // SAFETY: values has so many bytes, and any bits are a value.
        check(unsafe { sys::shampoo_state_read(opt, index, first, count, to, bytes, sys::SHAMPOO_CPU, stream) })
    }

    /// Copies elements into an entry, from element `first` on; of a symmetric one those on and below the diagonal count.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such entry, it is not of `T`, or elements are out of range.
    pub fn write_state<T: Element>(&mut self, index: usize, first: usize, values: &[T]) -> Result<()> {
        let index = self.state_dtype::<T>(index)?;
        let (first, count) = (to_i64("first", first)?, to_i64("count", values.len())?);
        let (from, bytes) = (values.as_ptr().cast(), std::mem::size_of_val(values));
        let (opt, stream) = (self.as_ptr(), self.stream);
        // SAFETY: values has so many bytes.
        check(unsafe { sys::shampoo_state_write(opt, index, first, count, from, bytes, sys::SHAMPOO_CPU, stream) })
    }
}
