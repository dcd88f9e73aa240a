// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::dtype::Dtype;
use crate::error::{to_i32, to_i64, Error, Result};
use libshampoo_sys as sys;
use std::ffi::CStr;

/// The part of a parameter that one rank holds. On that rank, the buffers of the parameter contain only this part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shard {
    /// Elements `offset .. offset + count` of the row-major flattened parameter.
    Flat {
        /// Index of the first element.
        offset: usize,
        /// Number of elements; may be 0.
        count: usize,
    },
    /// A rectangle, which is stored contiguously in row-major order.
    Rectangle {
        /// First index along each dim.
        offset: Vec<usize>,
        /// Size along each dim.
        shape: Vec<usize>,
    },
}

/// Role of a parameter in the model. With the methods `shampoo`, `soap` and `kl_shampoo`, only parameters with the role
/// `Hidden` have factor matrices, unless the group has `route=off`. A bias or a scale that is stored as a vector needs
/// no role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A weight inside the model.
    #[default]
    Hidden,
    /// A bias or a scale that is stored as a matrix.
    Vector,
    /// An embedding table, of which each training step uses only some rows.
    Embedding,
    /// The last layer, with one output for each class or token.
    Head,
}

impl Role {
    fn code(self) -> i32 {
        match self {
            Role::Hidden => sys::SHAMPOO_HIDDEN,
            Role::Vector => sys::SHAMPOO_VECTOR,
            Role::Embedding => sys::SHAMPOO_EMBEDDING,
            Role::Head => sys::SHAMPOO_HEAD,
        }
    }
}

/// Position of the output dim of a weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// The first dim is the output dim.
    #[default]
    OutIn,
    /// The last dim is the output dim.
    InOut,
}

impl Fan {
    fn code(self) -> i32 {
        match self {
            Fan::OutIn => sys::SHAMPOO_OUT_IN,
            Fan::InOut => sys::SHAMPOO_IN_OUT,
        }
    }
}

/// Description of a parameter: name, shape, dtypes and group. The default is an f32 parameter that is not sharded.
#[derive(Clone, Debug)]
pub struct Param {
    name: String,
    shape: Vec<usize>,
    stack_dims: usize,
    role: Role,
    fan: Fan,
    row_splits: Vec<usize>,
    group: usize,
    dtype: Dtype,
    grad_dtype: Dtype,
    out_dtype: Option<Dtype>,
    copy_dtype: Option<Dtype>,
    shard: Option<Shard>,
}

impl Param {
    /// Describes a parameter. Checkpoints identify it by its name. The shape has the outermost dim first; `&[]` is a
    /// scalar.
    pub fn new(name: impl Into<String>, shape: &[usize]) -> Self {
        Param {
            name: name.into(),
            shape: shape.to_vec(),
            stack_dims: 0,
            role: Role::Hidden,
            fan: Fan::OutIn,
            row_splits: Vec::new(),
            group: 0,
            dtype: Dtype::F32,
            grad_dtype: Dtype::F32,
            out_dtype: None,
            copy_dtype: None,
            shard: None,
        }
    }

    /// Sets the dtype of the parameter and of its gradient.
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self.grad_dtype = dtype;
        self
    }

    /// Sets the dtype of the gradient.
    pub fn grad_dtype(mut self, dtype: Dtype) -> Self {
        self.grad_dtype = dtype;
        self
    }

    /// Sets the dtype of the memory that is passed to [`Buffers::with_out`](crate::Buffers::with_out).
    pub fn out_dtype(mut self, dtype: Dtype) -> Self {
        self.out_dtype = Some(dtype);
        self
    }

    /// Sets the dtype of the memory that is passed to [`Buffers::with_copy`](crate::Buffers::with_copy).
    pub fn copy_dtype(mut self, dtype: Dtype) -> Self {
        self.copy_dtype = Some(dtype);
        self
    }

    /// Sets the group of the parameter to a number that [`PlanBuilder::group`](crate::PlanBuilder::group) has returned.
    /// The default is 0, the group that uses the config of the plan.
    pub fn group(mut self, group: usize) -> Self {
        self.group = group;
        self
    }

    /// Sets the number of leading dims that only stack separate tensors. For example, it is 1 for the weights of L
    /// layers in one array of shape (L, m, n).
    pub fn stack_dims(mut self, count: usize) -> Self {
        self.stack_dims = count;
        self
    }

    /// Sets the role in the model.
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Divides a parameter that stores several tensors in one array, such as the projections q, k and v of attention.
    /// `sizes` has the size of each part along the output dim, which `fan` selects. A single size is repeated along the
    /// whole dim.
    pub fn row_splits(mut self, sizes: &[usize], fan: Fan) -> Self {
        self.row_splits = sizes.to_vec();
        self.fan = fan;
        self
    }

    /// Sets the part that this rank holds. [`new`](Param::new) still takes the shape of the whole parameter.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.shard = Some(shard);
        self
    }

    /// Returns the description as a struct of the C API. The field `name` of the struct points into the argument
    /// `name`.
    pub(crate) fn desc(&self, name: &CStr) -> Result<sys::shampoo_param_desc> {
        let who = format!("parameter {:?}:", self.name);
        let mut desc = sys::shampoo_param_desc::new();
        desc.name = name.as_ptr();
        desc.role = self.role.code();
        desc.fan = self.fan.code();
        if self.row_splits.contains(&0) {
            return Err(Error::invalid(format!(
                "{who} row_splits is {:?}; expected sizes of at least 1",
                self.row_splits
            )));
        }
        desc.row_splits = dims(&format!("{who} row_splits"), &self.row_splits)?;
        desc.ndim = to_i32(&format!("{who} the number of dims"), self.shape.len())?;
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
                        "{who} the shard has an offset of length {} and a shape of length {}; expected the length {ndim} for both",
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

/// Properties of a parameter against which its buffers are checked.
#[derive(Clone, Debug)]
pub(crate) struct ParamInfo {
    pub name: String,
    /// Number of elements that this rank holds.
    pub count: usize,
    pub ndim: usize,
    pub dtype: Dtype,
    pub grad_dtype: Dtype,
    pub out_dtype: Dtype,
    pub copy_dtype: Dtype,
    /// Whether the config has `output=updates`.
    pub updates: bool,
}

fn dims(what: &str, values: &[usize]) -> Result<[i64; 8]> {
    let mut out = [0; 8];
    if values.len() > out.len() {
        return Err(Error::invalid(format!("{what} {values:?} has {} numbers; expected at most 8", values.len())));
    }
    for (dim, value) in out.iter_mut().zip(values) {
        *dim = to_i64(&format!("{what} contains a number that"), *value)?;
    }
    Ok(out)
}

fn count(shape: &[usize]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().product() // the library allows at most 2^59 elements, so the product cannot overflow
}
