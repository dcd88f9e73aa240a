// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! All calls to libshampoo, except `libshampoo::version()`.

use crate::mlp::TENSORS;
use crate::options::Result;
use libshampoo::{Buffers, Config, Optimizer, Param, PlanBuilder, PlanOptions};

pub struct WithShampoo {
    optimizer: Optimizer,
    /// Initial learning rate.
    pub lr: f64,
    /// Size of the optimizer's state.
    pub state_bytes: usize,
}

impl WithShampoo {
    /// Creates an optimizer for the parameters of the network. `settings` are keys and values as in docs/keys.md.
    pub fn new(settings: &[(String, String)]) -> Result<Self> {
        // 1. The hyper-parameters.
        let mut config = Config::new()?;
        for (key, value) in settings {
            config.set(key, value.as_str())?;
        }

        // 2. The shapes of the parameters.
        let mut plan = PlanBuilder::new(&config, PlanOptions::default())?;
        for tensor in &TENSORS {
            plan.param(Param::new(tensor.name, tensor.shape))?;
        }
        let plan = plan.finish()?;

        // 3. The optimizer. Optimizer::new allocates all its memory; steps of the C library allocate nothing.
        let optimizer = Optimizer::new(&plan)?;
        Ok(WithShampoo { lr: optimizer.get(0, "lr")?, optimizer, state_bytes: plan.bytes("state")? })
    }

    /// Makes one step: reads the gradients and updates the parameters in the flat buffers of the network.
    pub fn step(&mut self, mut params: &mut [f32], mut grads: &[f32]) -> Result<()> {
        let mut buffers = Vec::with_capacity(TENSORS.len());
        for tensor in &TENSORS {
            let (param, other_params) = params.split_at_mut(tensor.count());
            let (grad, other_grads) = grads.split_at(tensor.count());
            buffers.push(Buffers::new(param).with_grad(grad));
            (params, grads) = (other_params, other_grads);
        }
        Ok(self.optimizer.step(&mut buffers)?)
    }

    /// Changes the learning rate from the next step on.
    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        Ok(self.optimizer.set_lr(lr)?)
    }

    /// Returns the number of inverse roots computed so far.
    pub fn roots(&self) -> Result<f64> {
        Ok(self.optimizer.stat("root_computed")?)
    }
}
