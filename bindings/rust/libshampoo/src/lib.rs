// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod buffers;
mod builder;
mod callback;
mod checkpoint;
mod comm;
mod comm_use;
mod config;
mod dtype;
mod error;
mod executor;
mod keys;
mod library;
mod log;
mod optimizer;
mod param;
mod plan;
mod raw;
mod root;
mod state;

pub use buffers::Buffers;
pub use builder::OptimizerBuilder;
pub use callback::BoxError;
pub use checkpoint::{load, save};
pub use comm::{Comm, Communicator};
pub use config::{Config, Value};
pub use dtype::{Bf16, Dtype, Element, F16};
pub use error::{Code, Error, Result};
pub use executor::Executor;
pub use keys::{keys, Key};
pub use library::{backends, build_info, load_backend, version, Backend, Device};
pub use libshampoo_sys as sys;
pub use log::{clear_log, set_log, Level};
pub use optimizer::Optimizer;
pub use param::{Fan, Param, Role, Shard};
pub use plan::{Block, Plan, PlanBuilder, PlanOptions};
pub use root::{inverse_root, orthogonalize, RootInfo, RootMethod};
pub use state::StateEntry;
