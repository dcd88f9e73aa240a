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
                "parameter {name:?}: {what} is of {}, and the plan says {}",
                self.dtype.name(),
                dtype.name()
            )));
        }
        if self.count != param.count {
            return Err(Error::invalid(format!(
                "parameter {name:?}: {what} has {} elements, and the plan says {}",
                self.count, param.count
            )));
        }
        Ok(self.pointer)
    }
}

/// Memory of one parameter for [`Optimizer::step`](crate::Optimizer::step): slices that are borrowed for `'a`, dense
/// and row-major in the shape of the parameter, or of the shard where this rank holds one. Nothing is copied.
///
/// It can be made anew for each step, or kept, where it gives the slices back between steps:
///
/// ```
/// use libshampoo::{Buffers, Config, Optimizer, Param, Place, PlanBuilder};
///
/// let mut plan = PlanBuilder::new(&Config::new()?, Place::default())?;
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
/// While it is kept, what it borrows is not to be had in another way:
///
/// ```compile_fail,E0502
/// # use libshampoo::Buffers;
/// let mut weight = vec![1.0f32; 4];
/// let buffers = Buffers::new(&mut weight);
/// let first = weight[0];
/// drop(buffers);
/// ```
///
/// and it cannot outlive it:
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
/// What a step writes overlaps nothing else:
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

// SAFETY: it is borrowed slices, whose elements are Send and Sync.
unsafe impl Send for Buffers<'_> {}
unsafe impl Sync for Buffers<'_> {}

impl<'a> Buffers<'a> {
    /// A parameter that is stepped in place, without a gradient yet: a step leaves it and its state as they are.
    pub fn new<T: Element>(param: &'a mut [T]) -> Self {
        Buffers::of(Slot::write(param))
    }

    /// A parameter that a step only reads: with [`with_out`](Buffers::with_out), where a step writes.
    pub fn read_only<T: Element>(param: &'a [T]) -> Self {
        Buffers::of(Slot::read(param))
    }

    fn of(param: Slot) -> Self {
        Buffers { param, grad: None, out: None, copy: None, borrowed: PhantomData }
    }

    /// With the gradient of the next steps.
    pub fn with_grad<T: Element>(mut self, grad: &'a [T]) -> Self {
        self.grad = Some(Slot::read(grad));
        self
    }

    /// With the gradient, which [`grad_mut`](Buffers::grad_mut) gives back to be written between steps.
    pub fn with_grad_mut<T: Element>(mut self, grad: &'a mut [T]) -> Self {
        self.grad = Some(Slot::write(grad));
        self
    }

    /// With a place for the new parameter, or with the key "output" set to updates for what is to be added to it.
    pub fn with_out<T: Element>(mut self, out: &'a mut [T]) -> Self {
        self.out = Some(Slot::write(out));
        self
    }

    /// With a place for the new parameter once more, such as a bfloat16 model beside f32 master weights.
    pub fn with_copy<T: Element>(mut self, copy: &'a mut [T]) -> Self {
        self.copy = Some(Slot::write(copy));
        self
    }

    /// The parameter; None: it is not of `T`.
    pub fn param<T: Element>(&self) -> Option<&[T]> {
        look(Some(&self.param))
    }

    /// The parameter, to be written; None: it is not of `T`, or read only.
    pub fn param_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        look_mut(Some(&mut self.param))
    }

    /// The gradient; None: there is none, or it is not of `T`.
    pub fn grad<T: Element>(&self) -> Option<&[T]> {
        look(self.grad.as_ref())
    }

    /// The gradient, to be written; None: it was not given by [`with_grad_mut`](Buffers::with_grad_mut), or is not of
    /// `T`.
    pub fn grad_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        look_mut(self.grad.as_mut())
    }

    /// What a step has written to `with_out`; None: there is no such place, or it is not of `T`.
    pub fn out<T: Element>(&self) -> Option<&[T]> {
        look(self.out.as_ref())
    }

    /// What a step has written to `with_copy`; None: there is no such place, or it is not of `T`.
    pub fn copy<T: Element>(&self) -> Option<&[T]> {
        look(self.copy.as_ref())
    }

    /// Looks at everything against the plan, and gives the addresses.
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
                    "parameter {:?}: where a step writes is missing: with_out() gives it, where the parameter is read \
                     only, \"output\" is updates, or out_dtype is another",
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

fn look<T: Element>(slot: Option<&Slot>) -> Option<&[T]> {
    let slot = slot.filter(|slot| slot.dtype == T::DTYPE)?;
    // SAFETY: the slice is borrowed for longer than the slot, and of a type with the same bits (Element).
    Some(unsafe { slice::from_raw_parts(slot.pointer as *const T, slot.count) })
}

fn look_mut<T: Element>(slot: Option<&mut Slot>) -> Option<&mut [T]> {
    let slot = slot.filter(|slot| slot.dtype == T::DTYPE && slot.writable)?;
    // SAFETY: as above; it was a mutable slice, and the slot is borrowed mutably.
    Some(unsafe { slice::from_raw_parts_mut(slot.pointer as *mut T, slot.count) })
}
