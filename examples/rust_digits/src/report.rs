// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Prints a table during the training. At the end, prints the mean times of a step and writes the curves as CSV.

use crate::options::Result;
use crate::progress::clear_progress;
use std::fmt::Write as _;
use std::io::Write as _;

pub const SHAMPOO: usize = 0;
pub const ADAMW: usize = 1;
const NAMES: [&str; 2] = ["Shampoo", "AdamW"];

/// Results of one optimizer. `loss` and `accuracy` have one entry for the start and one for each epoch.
#[derive(Default)]
pub struct Curve {
    /// Mean cross entropy of all training images.
    pub loss: Vec<f64>,
    /// Share of the test images that are classified correctly.
    pub accuracy: Vec<f64>,
    /// Time of all forward and backward passes.
    pub gradient_seconds: f64,
    /// Time of all steps of the optimizer.
    pub update_seconds: f64,
}

impl Curve {
    /// Returns the mean times, in milliseconds, of a gradient computation and of an update.
    fn times(&self, steps: usize) -> (f64, f64) {
        (1e3 * self.gradient_seconds / steps as f64, 1e3 * self.update_seconds / steps as f64)
    }
}

pub fn head() {
    println!("\n         training loss         test accuracy");
    println!("epoch    Shampoo     AdamW    Shampoo     AdamW");
}

pub fn epoch(epoch: usize, curves: &[Curve; 2]) {
    clear_progress();
    let [shampoo, adamw] = curves;
    println!(
        "{epoch:5}  {:9.5} {:9.5}  {:7.2} % {:7.2} %",
        shampoo.loss[epoch],
        adamw.loss[epoch],
        100.0 * shampoo.accuracy[epoch],
        100.0 * adamw.accuracy[epoch]
    );
    let _ = std::io::stdout().flush(); // errors do not matter here
}

/// Prints the mean times of a step.
pub fn times(steps: usize, curves: &[Curve; 2]) {
    println!("\nmean time of a step    gradient   optimizer       whole");
    for (name, curve) in NAMES.iter().zip(curves) {
        let (gradient, update) = curve.times(steps);
        println!("{name:<19} {gradient:8.3} ms {update:8.3} ms {:8.3} ms", gradient + update);
    }
}

/// Writes the curves to a CSV file, with one row for the start and one for each epoch.
pub fn csv(path: &str, curves: &[Curve; 2]) -> Result<()> {
    let mut text =
        String::from("epoch,shampoo_train_loss,adamw_train_loss,shampoo_test_accuracy,adamw_test_accuracy\n");
    let [shampoo, adamw] = curves;
    for e in 0..shampoo.loss.len() {
        let accuracies = (shampoo.accuracy[e], adamw.accuracy[e]);
        writeln!(text, "{e},{},{},{},{}", shampoo.loss[e], adamw.loss[e], accuracies.0, accuracies.1)?;
    }
    std::fs::write(path, text).map_err(|error| format!("{path}: {error}").into())
}
