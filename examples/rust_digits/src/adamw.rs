// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! AdamW, the baseline: Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101).

pub struct AdamW {
    pub lr: f64,
    weight_decay: f64,
    step: i32,
    /// First moment: moving average of the gradient.
    first: Vec<f32>,
    /// Second moment: moving average of the squared gradient.
    second: Vec<f32>,
}

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f32 = 1e-8;

impl AdamW {
    pub fn new(count: usize, lr: f64, weight_decay: f64) -> Self {
        AdamW { lr, weight_decay, step: 0, first: vec![0.0; count], second: vec![0.0; count] }
    }

    /// Makes one step: reads grads and updates params.
    pub fn step(&mut self, params: &mut [f32], grads: &[f32]) {
        self.step += 1;
        // Bias correction, because the moving averages `first` and `second` start at 0.
        let correction1 = 1.0 - BETA1.powf(self.step.into());
        let correction2 = 1.0 - BETA2.powf(self.step.into());
        let (beta1, beta2) = (BETA1 as f32, BETA2 as f32);
        let (step_size, root_scale) = ((self.lr / correction1) as f32, (1.0 / correction2.sqrt()) as f32);
        let keep = (1.0 - self.lr * self.weight_decay) as f32;
        let averages = self.first.iter_mut().zip(&mut self.second);
        for ((param, &g), (first, second)) in params.iter_mut().zip(grads).zip(averages) {
            *first = beta1 * *first + (1.0 - beta1) * g;
            *second = beta2 * *second + (1.0 - beta2) * g * g;
            *param = keep * *param - step_size * *first / (second.sqrt() * root_scale + EPSILON);
        }
    }
}
