// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::dtype::{Dtype, Element};
use crate::error::{Error, Result};
use crate::param::ParamInfo;
use libshampoo_sys as sys;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{null, null_mut};
use std::slice;

/// A slice that a [`Buffers`] borrows: its address, its length, its dtype, and whether it is mutable.
#[derive(Clone, Copy, Debug)]
struct Slot {
    pointer: *mut c_void,
    count: usize,
    dtype: Dtype,
    writable: bool,
}

impl Slot {
    fn read<T: Element>(values: &[T]) -> Self {
        Slot { pointer: values.as_ptr() as *mut c_void, count: values.len(), dtype: T::DTYPE, writable: false }
    }

    fn write<T: Element>(values: &mut [T]) -> Self {
        Slot { pointer: values.as_mut_ptr().cast(), count: values.len(), dtype: T::DTYPE, writable: true }
    }

    fn check(&self, param: &ParamInfo, what: &str, dtype: Dtype) -> Result<*mut c_void> {
        let name = &param.name;
        if self.dtype != dtype {
            return Err(Error::invalid(format!(
                "parameter {name:?}: {what} has the dtype {}; expected {}, as in the plan",
                self.dtype.name(),
                dtype.name()
            )));
        }
        if self.count != param.count {
            return Err(Error::invalid(format!(
                "parameter {name:?}: {what} has {} elements; expected {}, as in the plan",
                self.count, param.count
            )));
        }
        Ok(self.pointer)
    }
}

/// The memory of one parameter for [`Optimizer::step`](crate::Optimizer::step): slices that are borrowed for `'a`. The
/// slices are row-major and have the shape of the parameter or, if this rank holds a shard, of the shard. Steps read
/// and write the slices directly.
///
/// Create new `Buffers` for each step, or keep one object and access the slices between steps through its methods:
///
/// ```
/// use libshampoo::{Buffers, Config, Optimizer, Param, PlanOptions, PlanBuilder};
///
/// let mut plan = PlanBuilder::new(&Config::new()?, PlanOptions::default())?;
/// plan.param(Param::new("w", &[2, 2]))?;
/// let mut opt = Optimizer::new(&plan.finish()?)?;
///
/// let (mut weight, mut gradient) = (vec![1.0f32; 4], vec![0.0f32; 4]);
/// let mut buffers = [Buffers::new(&mut weight).with_grad_mut(&mut gradient)];
/// for _ in 0..3 {
///     let values = buffers[0].param::<f32>().unwrap().to_vec();
///     buffers[0].grad_mut().unwrap().copy_from_slice(&values);
///     opt.step(&mut buffers)?;
/// }
/// assert!(weight[0] < 1.0);
/// # Ok::<(), libshampoo::Error>(())
/// ```
///
/// While `Buffers` exist, mutably borrowed slices cannot be accessed directly:
///
/// ```compile_fail,E0502
/// # use libshampoo::Buffers;
/// let mut weight = vec![1.0f32; 4];
/// let buffers = Buffers::new(&mut weight);
/// let first = weight[0];
/// drop(buffers);
/// ```
///
/// `Buffers` cannot outlive the slices:
///
/// ```compile_fail,E0597
/// # use libshampoo::Buffers;
/// let mut weight = vec![1.0f32; 4];
/// let buffers = {
///     let gradient = vec![1.0f32; 4];
///     Buffers::new(&mut weight).with_grad(&gradient)
/// };
/// drop(buffers);
/// ```
///
/// A slice that a step writes cannot overlap another slice:
///
/// ```compile_fail,E0502
/// # use libshampoo::Buffers;
/// let mut weight = vec![1.0f32; 4];
/// let buffers = Buffers::new(&mut weight).with_grad(&weight);
/// ```
#[derive(Debug)]
pub struct Buffers<'a> {
    param: Slot,
    grad: Option<Slot>,
    out: Option<Slot>,
    copy: Option<Slot>,
    borrowed: PhantomData<&'a mut ()>,
}

// SAFETY: the pointers come from borrowed slices, whose elements are Send and Sync.
unsafe impl Send for Buffers<'_> {}
unsafe impl Sync for Buffers<'_> {}

impl<'a> Buffers<'a> {
    /// Returns buffers of a parameter that steps update in place. Without a gradient, a step changes neither the
    /// parameter nor its state, except for states of averages (the keys "weight_ema" and "averaging").
    pub fn new<T: Element>(param: &'a mut [T]) -> Self {
        Buffers::of(Slot::write(param))
    }

    /// Returns buffers of a parameter that steps only read. Use [`with_out`](Buffers::with_out) to set the memory to
    /// which steps write.
    pub fn read_only<T: Element>(param: &'a [T]) -> Self {
        Buffers::of(Slot::read(param))
    }

    fn of(param: Slot) -> Self {
        Buffers { param, grad: None, out: None, copy: None, borrowed: PhantomData }
    }

    /// Sets the gradient.
    pub fn with_grad<T: Element>(mut self, grad: &'a [T]) -> Self {
        self.grad = Some(Slot::read(grad));
        self
    }

    /// Sets the gradient to a mutable slice, which [`grad_mut`](Buffers::grad_mut) returns between steps.
    pub fn with_grad_mut<T: Element>(mut self, grad: &'a mut [T]) -> Self {
        self.grad = Some(Slot::write(grad));
        self
    }

    /// Sets the memory to which steps write the new parameter. With `output=updates`, steps write the update instead,
    /// and the caller adds the update to the parameter.
    pub fn with_out<T: Element>(mut self, out: &'a mut [T]) -> Self {
        self.out = Some(Slot::write(out));
        self
    }

    /// Sets the memory to which steps write a copy of the new parameter, for example in bfloat16 for the model.
    pub fn with_copy<T: Element>(mut self, copy: &'a mut [T]) -> Self {
        self.copy = Some(Slot::write(copy));
        self
    }

    /// Returns the parameter, or None if its type is not `T`.
    pub fn param<T: Element>(&self) -> Option<&[T]> {
        view(Some(&self.param))
    }

    /// Returns the parameter for writing, or None if its type is not `T` or it is read-only.
    pub fn param_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        view_mut(Some(&mut self.param))
    }

    /// Returns the gradient, or None if there is none or its type is not `T`.
    pub fn grad<T: Element>(&self) -> Option<&[T]> {
        view(self.grad.as_ref())
    }

    /// Returns the gradient for writing, or None if it was not set with [`with_grad_mut`](Buffers::with_grad_mut) or
    /// its type is not `T`.
    pub fn grad_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        view_mut(self.grad.as_mut())
    }

    /// Returns the memory from [`with_out`](Buffers::with_out), or None if there is none or its type is not `T`.
    pub fn out<T: Element>(&self) -> Option<&[T]> {
        view(self.out.as_ref())
    }

    /// Returns the memory from [`with_copy`](Buffers::with_copy), or None if there is none or its type is not `T`.
    pub fn copy<T: Element>(&self) -> Option<&[T]> {
        view(self.copy.as_ref())
    }

    /// Returns the address of the memory from [`with_out`](Buffers::with_out), or NULL.
    pub(crate) fn out_address(&self) -> *mut c_void {
        self.out.as_ref().map_or(null_mut(), |out| out.pointer)
    }

    /// Checks the buffers against the plan, and returns their addresses.
    pub(crate) fn addresses(&mut self, param: &ParamInfo) -> Result<sys::shampoo_buffers> {
        let mut buffers = sys::shampoo_buffers::new();
        buffers.param = self.param.check(param, "the parameter", param.dtype)?;
        buffers.grad = match &self.grad {
            Some(grad) => grad.check(param, "the gradient", param.grad_dtype)?,
            None => null(),
        };
        buffers.out = match &self.out {
            Some(out) => out.check(param, "out", param.out_dtype)?,
            None if self.param.writable && !param.updates && param.out_dtype == param.dtype => self.param.pointer,
            None if self.grad.is_none() => null_mut(),
            None => {
                return Err(Error::invalid(format!(
                    "parameter {:?}: the output is missing; set it with with_out(), because the parameter is \
                     read-only, or output=updates is set, or out_dtype differs from dtype",
                    param.name
                )))
            }
        };
        buffers.copy = match &self.copy {
            Some(copy) => copy.check(param, "copy", param.copy_dtype)?,
            None => null_mut(),
        };
        Ok(buffers)
    }
}

fn view<T: Element>(slot: Option<&Slot>) -> Option<&[T]> {
    let slot = slot.filter(|slot| slot.dtype == T::DTYPE)?;
    // SAFETY: the borrow of the caller's slice outlives the slot. The slot has the dtype of T, and every bit pattern of
    // this dtype is a valid T (see Element).
    Some(unsafe { slice::from_raw_parts(slot.pointer as *const T, slot.count) })
}

fn view_mut<T: Element>(slot: Option<&mut Slot>) -> Option<&mut [T]> {
    let slot = slot.filter(|slot| slot.dtype == T::DTYPE && slot.writable)?;
    // SAFETY: as in view. The slot was made from a mutable slice, and is borrowed mutably.
    Some(unsafe { slice::from_raw_parts_mut(slot.pointer as *mut T, slot.count) })
}
