// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::dtype::Dtype;
use crate::error::{to_i32, to_i64, Error, Result};
use libshampoo_sys as sys;
use std::ffi::CStr;

/// What of a parameter this rank holds, and so what its buffers contain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shard {
    /// Elements `offset .. offset + count` of the row-major flattened parameter.
    Flat {
        /// First element.
        offset: usize,
        /// Number of elements; 0: nothing.
        count: usize,
    },
    /// A rectangle, contiguous row-major.
    Rectangle {
        /// First index along each dim.
        offset: Vec<usize>,
        /// Extent along each dim.
        shape: Vec<usize>,
    },
}

/// One parameter: name, shape, dtypes, group. Of f32 and whole, where nothing else is said.
#[derive(Clone, Debug)]
pub struct Param {
    name: String,
    shape: Vec<usize>,
    stack_dims: usize,
    group: usize,
    dtype: Dtype,
    grad_dtype: Dtype,
    out_dtype: Option<Dtype>,
    copy_dtype: Option<Dtype>,
    shard: Option<Shard>,
}

impl Param {
    /// A parameter of a name, by which checkpoints know it, and a shape, outermost dim first; `&[]` is a scalar.
    pub fn new(name: impl Into<String>, shape: &[usize]) -> Self {
        Param {
            name: name.into(),
            shape: shape.to_vec(),
            stack_dims: 0,
            group: 0,
            dtype: Dtype::F32,
            grad_dtype: Dtype::F32,
            out_dtype: None,
            copy_dtype: None,
            shard: None,
        }
    }

    /// Dtype of the parameter and of its gradient.
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self.grad_dtype = dtype;
        self
    }

    /// Dtype of the gradient, where it is another.
    pub fn grad_dtype(mut self, dtype: Dtype) -> Self {
        self.grad_dtype = dtype;
        self
    }

    /// Dtype of what a step writes with [`Buffers::with_out`](crate::Buffers::with_out), where it is another.
    pub fn out_dtype(mut self, dtype: Dtype) -> Self {
        self.out_dtype = Some(dtype);
        self
    }

    /// Dtype of what a step writes with [`Buffers::with_copy`](crate::Buffers::with_copy), where it is another.
    pub fn copy_dtype(mut self, dtype: Dtype) -> Self {
        self.copy_dtype = Some(dtype);
        self
    }

    /// A group from [`PlanBuilder::group`](crate::PlanBuilder::group); 0 is that of the plan's own config.
    pub fn group(mut self, group: usize) -> Self {
        self.group = group;
        self
    }

    /// How many leading dims only stack separate tensors: 1 for weights of layers kept as one array.
    pub fn stack_dims(mut self, count: usize) -> Self {
        self.stack_dims = count;
        self
    }

    /// What of it this rank holds; the shape is that of the whole parameter all the same.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.shard = Some(shard);
        self
    }

    /// Fills the struct, whose name points into `name`.
    pub(crate) fn desc(&self, name: &CStr) -> Result<sys::shampoo_param_desc> {
        let who = format!("parameter {:?}:", self.name);
        let mut desc = sys::shampoo_param_desc::new();
        desc.name = name.as_ptr();
        desc.ndim = to_i32(&who, self.shape.len())?;
        desc.shape = dims(&format!("{who} shape"), &self.shape)?;
        desc.stack_dims = to_i32(&format!("{who} stack_dims"), self.stack_dims)?;
        desc.group = to_i32(&format!("{who} group"), self.group)?;
        desc.param_dtype = self.dtype.code();
        desc.grad_dtype = self.grad_dtype.code();
        desc.out_dtype = self.out_dtype.map_or(0, Dtype::code);
        desc.copy_dtype = self.copy_dtype.map_or(0, Dtype::code);
        if let Some(shard) = &self.shard {
            shard.fill(&mut desc, &who, self.shape.len())?;
        }
        Ok(desc)
    }

    pub(crate) fn info(self, updates: bool) -> ParamInfo {
        let held = match &self.shard {
            None => count(&self.shape),
            Some(Shard::Flat { count, .. }) => *count,
            Some(Shard::Rectangle { shape, .. }) => count(shape),
        };
        ParamInfo {
            count: held,
            ndim: self.shape.len(),
            dtype: self.dtype,
            grad_dtype: self.grad_dtype,
            out_dtype: self.out_dtype.unwrap_or(self.dtype),
            copy_dtype: self.copy_dtype.unwrap_or(self.dtype),
            updates,
            name: self.name,
        }
    }

    pub(crate) fn group_number(&self) -> usize {
        self.group
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Shard {
    pub(crate) fn fill(&self, desc: &mut sys::shampoo_param_desc, who: &str, ndim: usize) -> Result<()> {
        match self {
            Shard::Flat { offset, count } => {
                desc.shard_form = 1;
                desc.flat_offset = to_i64(&format!("{who} offset"), *offset)?;
                desc.flat_count = to_i64(&format!("{who} count"), *count)?;
            }
            Shard::Rectangle { offset, shape } => {
                if offset.len() != ndim || shape.len() != ndim {
                    return Err(Error::invalid(format!(
                        "{who} the shard has {} offsets and {} extents, and the parameter {ndim} dims",
                        offset.len(),
                        shape.len()
                    )));
                }
                desc.shard_form = 2;
                desc.local_offset = dims(&format!("{who} offset"), offset)?;
                desc.local_shape = dims(&format!("{who} shape"), shape)?;
            }
        }
        Ok(())
    }
}

/// What buffers of a parameter are checked against.
#[derive(Clone, Debug)]
pub(crate) struct ParamInfo {
    pub name: String,
    /// Elements that this rank holds.
    pub count: usize,
    pub ndim: usize,
    pub dtype: Dtype,
    pub grad_dtype: Dtype,
    pub out_dtype: Dtype,
    pub copy_dtype: Dtype,
    /// Whether a step gives what is to be added to it.
    pub updates: bool,
}

fn dims(what: &str, values: &[usize]) -> Result<[i64; 8]> {
    let mut out = [0; 8];
    if values.len() > out.len() {
        return Err(Error::invalid(format!("{what} {values:?} has {} dims: at most 8 are possible", values.len())));
    }
    for (place, value) in out.iter_mut().zip(values) {
        *place = to_i64(what, *value)?;
    }
    Ok(out)
}

fn count(shape: &[usize]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().product() // the library has refused more than 2^59
}
