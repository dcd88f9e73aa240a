// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Computes the loss (the mean cross entropy) and its gradient for a small network, 64-128-64-10 with tanh between the
//! layers.
//!
//! All parameters are in one flat buffer and all gradients in another, in the order of [`TENSORS`]. A layer computes
//! y = W x + b. W is row-major and has one row per output. All sums have the same order as in examples/c_mlp/mlp.c.

pub const INPUTS: usize = 64;
const HIDDEN1: usize = 128;
const HIDDEN2: usize = 64;
pub const CLASSES: usize = 10;
/// Number of parameter values.
pub const VALUES: usize = HIDDEN1 * (INPUTS + 1) + HIDDEN2 * (HIDDEN1 + 1) + CLASSES * (HIDDEN2 + 1);

/// Name and shape of a parameter.
pub struct Tensor {
    pub name: &'static str,
    pub shape: &'static [usize],
}

impl Tensor {
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

pub const TENSORS: [Tensor; 6] = [
    Tensor { name: "W1", shape: &[HIDDEN1, INPUTS] },
    Tensor { name: "b1", shape: &[HIDDEN1] },
    Tensor { name: "W2", shape: &[HIDDEN2, HIDDEN1] },
    Tensor { name: "b2", shape: &[HIDDEN2] },
    Tensor { name: "W3", shape: &[CLASSES, HIDDEN2] },
    Tensor { name: "b3", shape: &[CLASSES] },
];

const B1: usize = HIDDEN1 * INPUTS;
const LAYER2: usize = B1 + HIDDEN1;
const B2: usize = LAYER2 + HIDDEN2 * HIDDEN1;
const LAYER3: usize = B2 + HIDDEN2;
const B3: usize = LAYER3 + CLASSES * HIDDEN2;

/// Returns the next number of the generator splitmix64, in [0, 1).
pub fn random_uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[derive(Clone)]
pub struct Mlp {
    pub params: Vec<f32>,
    pub grads: Vec<f32>,
    /// Largest number of images in a forward or backward pass.
    rows: usize,
    /// Outputs of the three layers, kept for the backward pass. softmax() replaces `scores` by probabilities.
    hidden1: Vec<f32>,
    hidden2: Vec<f32>,
    scores: Vec<f32>,
    /// Gradients of the loss with respect to hidden1, hidden2 and scores, in the same shapes. tanh_backward() replaces
    /// d1 and d2 by the gradients with respect to the inputs of tanh.
    d1: Vec<f32>,
    d2: Vec<f32>,
    d3: Vec<f32>,
}

impl Mlp {
    /// Creates a network for forward passes of at most `rows` images. All parameters are 0.
    pub fn new(rows: usize) -> Self {
        let zeros = |count: usize| vec![0.0; count];
        Mlp {
            params: zeros(VALUES),
            grads: zeros(VALUES),
            rows,
            hidden1: zeros(rows * HIDDEN1),
            hidden2: zeros(rows * HIDDEN2),
            scores: zeros(rows * CLASSES),
            d1: zeros(rows * HIDDEN1),
            d2: zeros(rows * HIDDEN2),
            d3: zeros(rows * CLASSES),
        }
    }

    /// Draws the weights of each layer uniformly between -bound and bound, where bound is sqrt(6 / (inputs + outputs))
    /// (Glorot and Bengio, 2010). Biases are 0.
    pub fn init(&mut self, random_state: &mut u64) {
        let mut values = self.params.iter_mut();
        for tensor in &TENSORS {
            let bound = match tensor.shape {
                [outputs, inputs] => (6.0 / (inputs + outputs) as f64).sqrt(),
                _ => 0.0,
            };
            for value in values.by_ref().take(tensor.count()) {
                *value = (bound * (2.0 * random_uniform(random_state) - 1.0)) as f32;
            }
        }
    }

    /// Returns the sum of the cross entropies, and the number of images that are classified correctly.
    fn forward(&mut self, x: &[f32], labels: &[usize]) -> (f64, usize) {
        let (n, p) = (labels.len(), &self.params);
        let hidden1 = &mut self.hidden1[..n * HIDDEN1];
        let hidden2 = &mut self.hidden2[..n * HIDDEN2];
        let scores = &mut self.scores[..n * CLASSES];
        layer_forward(INPUTS, x, &p[..B1], &p[B1..LAYER2], hidden1);
        hidden1.iter_mut().for_each(|y| *y = y.tanh());
        layer_forward(HIDDEN1, hidden1, &p[LAYER2..B2], &p[B2..LAYER3], hidden2);
        hidden2.iter_mut().for_each(|y| *y = y.tanh());
        layer_forward(HIDDEN2, hidden2, &p[LAYER3..B3], &p[B3..], scores);
        let (mut loss, mut correct) = (0.0, 0);
        for (row, &label) in scores.chunks_exact_mut(CLASSES).zip(labels) {
            let best = (1..CLASSES).fold(0, |best, c| if row[c] > row[best] { c } else { best });
            correct += usize::from(best == label);
            loss += softmax(row, label);
        }
        (loss, correct)
    }

    /// Returns the mean cross entropy of at most `rows` images, and writes its gradient to `grads`.
    pub fn gradient(&mut self, x: &[f32], labels: &[usize]) -> f64 {
        let (loss, _) = self.forward(x, labels);
        let n = labels.len();
        let (d1, d2) = (&mut self.d1[..n * HIDDEN1], &mut self.d2[..n * HIDDEN2]);
        let d3 = &mut self.d3[..n * CLASSES];
        // The gradient with respect to a score is (q - 1) / n for the score of the label, and q / n for all other
        // scores, where q is the probability that softmax() computed from the score.
        for (d, score) in d3.iter_mut().zip(&self.scores) {
            *d = score / n as f32;
        }
        for (row, &label) in d3.chunks_exact_mut(CLASSES).zip(labels) {
            row[label] -= 1.0 / n as f32;
        }
        let p = &self.params;
        let (g1, rest) = self.grads.split_at_mut(LAYER2);
        let (g2, g3) = rest.split_at_mut(LAYER3 - LAYER2);
        layer_backward(HIDDEN2, &self.hidden2, &p[LAYER3..B3], d3, g3, Some(&mut *d2));
        tanh_backward(&self.hidden2, d2);
        layer_backward(HIDDEN1, &self.hidden1, &p[LAYER2..B2], d2, g2, Some(&mut *d1));
        tanh_backward(&self.hidden1, d1);
        layer_backward(INPUTS, x, &p[..B1], d1, g1, None);
        loss / n as f64
    }

    /// Returns the mean cross entropy of any number of images, and the number of correctly classified images.
    pub fn evaluate(&mut self, x: &[f32], labels: &[usize]) -> (f64, usize) {
        let (mut loss, mut correct) = (0.0, 0);
        for (x, labels) in x.chunks(self.rows * INPUTS).zip(labels.chunks(self.rows)) {
            let (part, hits) = self.forward(x, labels);
            loss += part;
            correct += hits;
        }
        (loss / labels.len() as f64, correct)
    }
}

/// Returns the sum of a[i] * b[i]. With eight partial sums, compilers can use vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let last = a.remainder().iter().zip(b.remainder());
    for (a, b) in a.zip(b) {
        for j in 0..8 {
            sums[j] += a[j] * b[j];
        }
    }
    for (a, b) in last {
        sums[0] += a * b;
    }
    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

/// Computes y [n][outputs] = x [n][inputs] W^T + b.
fn layer_forward(inputs: usize, x: &[f32], w: &[f32], b: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(b.len())) {
        for ((y, w), b) in y.iter_mut().zip(w.chunks_exact(inputs)).zip(b) {
            *y = b + dot(x, w);
        }
    }
}

/// Writes the gradients of W and b to g: first dW [outputs][inputs] = dy^T x, then db [outputs], the column sums of
/// dy [n][outputs]. If dx is not None, also computes dx [n][inputs] = dy W.
fn layer_backward(inputs: usize, x: &[f32], w: &[f32], dy: &[f32], g: &mut [f32], mut dx: Option<&mut [f32]>) {
    let (dw, db) = g.split_at_mut(w.len());
    dw.fill(0.0);
    db.fill(0.0);
    if let Some(dx) = &mut dx {
        dx.fill(0.0);
    }
    for (r, (x, dy)) in x.chunks_exact(inputs).zip(dy.chunks_exact(db.len())).enumerate() {
        for (o, &d) in dy.iter().enumerate() {
            db[o] += d;
            for (dw, x) in dw[o * inputs..(o + 1) * inputs].iter_mut().zip(x) {
                *dw += d * x;
            }
            if let Some(dx) = &mut dx {
                let row = &mut dx[r * inputs..(r + 1) * inputs];
                for (dx, w) in row.iter_mut().zip(&w[o * inputs..(o + 1) * inputs]) {
                    *dx += d * w;
                }
            }
        }
    }
}

/// Multiplies dy by the derivative of tanh, which is 1 - y^2 where y is the output of tanh.
fn tanh_backward(y: &[f32], dy: &mut [f32]) {
    for (dy, y) in dy.iter_mut().zip(y) {
        *dy *= 1.0 - y * y;
    }
}

/// Replaces a row of scores by probabilities and returns the cross entropy -log(probability of the label). The largest
/// score is subtracted first so that no exponential overflows.
fn softmax(row: &mut [f32], label: usize) -> f64 {
    let largest = row[1..].iter().fold(row[0], |largest, &score| if score > largest { score } else { largest });
    let loss_score = f64::from(row[label] - largest);
    let mut sum = 0.0f32;
    for score in row.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    row.iter_mut().for_each(|score| *score /= sum);
    f64::from(sum).ln() - loss_score
}
