// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! What a run tells: a table while it goes on, and the curves as numbers and as a picture when it is done.

use crate::chart::{Chart, Panel};
use crate::numbers::significant;
use crate::options::Result;
use crate::progress::clear_progress;
use std::fmt::Write as _;
use std::io::Write as _;

pub const SHAMPOO: usize = 0;
pub const ADAMW: usize = 1;
const NAMES: [&str; 2] = ["Shampoo", "AdamW"];

/// What was measured of one of the two. The first entries are from before any step.
#[derive(Default)]
pub struct Curve {
    /// Mean cross entropy of all training images.
    pub loss: Vec<f64>,
    /// Share of the test images that are recognised.
    pub accuracy: Vec<f64>,
    /// All forward and backward passes.
    pub gradient_seconds: f64,
    /// All steps of the optimizer.
    pub update_seconds: f64,
}

impl Curve {
    /// Mean times of a step in milliseconds: gradient, update.
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
    let _ = std::io::stdout().flush(); // only a sight
}

/// Mean times of a step.
pub fn times(steps: usize, curves: &[Curve; 2]) {
    println!("\nmean time of a step    gradient   optimizer       whole");
    for (name, curve) in NAMES.iter().zip(curves) {
        let (gradient, update) = curve.times(steps);
        println!("{name:<19} {gradient:8.3} ms {update:8.3} ms {:8.3} ms", gradient + update);
    }
}

fn write(path: &str, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("{path}: {error}").into())
}

pub fn csv(path: &str, curves: &[Curve; 2]) -> Result<()> {
    let mut text =
        String::from("epoch,shampoo_train_loss,adamw_train_loss,shampoo_test_accuracy,adamw_test_accuracy\n");
    let [shampoo, adamw] = curves;
    for e in 0..shampoo.loss.len() {
        let accuracies = (shampoo.accuracy[e], adamw.accuracy[e]);
        writeln!(text, "{e},{},{},{},{}", shampoo.loss[e], adamw.loss[e], accuracies.0, accuracies.1)?;
    }
    write(path, &text)
}

/// The largest of 1, 2, 5 times a power of ten that is at most `value`.
fn round_down(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let digit = value / decade;
    decade
        * if digit >= 5.0 {
            5.0
        } else if digit >= 2.0 {
            2.0
        } else {
            1.0
        }
}

pub fn svg(path: &str, steps: usize, settings: &str, curves: &[Curve; 2]) -> Result<()> {
    let percent: [Vec<f64>; 2] = [0, 1].map(|c: usize| curves[c].accuracy.iter().map(|share| 100.0 * share).collect());
    let losses = || curves.iter().flat_map(|curve| &curve.loss).copied();
    let least_loss = losses().fold(f64::INFINITY, f64::min);
    let least_accuracy = percent.iter().flat_map(|each| &each[1..]).copied().fold(100.0, f64::min);
    let last_accuracy = percent.iter().filter_map(|each| each.last()).copied().fold(100.0, f64::min);
    // The first epochs may leave the frame at the bottom: what counts is where the curves end.
    let bottom = f64::max(least_accuracy, last_accuracy - 7.0).floor();
    let [shampoo, adamw] = [0, 1].map(|c: usize| curves[c].times(steps)).map(|(gradient, update)| gradient + update);
    let chart = Chart {
        title: "Handwritten digits, 8x8: a 64-128-64-10 network",
        notes: [
            settings,
            &format!("mean time of a step, gradient and update: Shampoo {shampoo:.2} ms, AdamW {adamw:.2} ms"),
        ],
        x_title: "epoch",
        names: NAMES,
        panels: [
            Panel {
                title: "Training loss (mean cross entropy)",
                logarithmic: true,
                y_min: round_down((0.8 * least_loss).max(1e-9)),
                y_max: losses().fold(5.0, f64::max),
                y_step: 0.0,
                format: |value| significant(value, 6, false),
                final_format: |value| significant(value, 2, true),
                y: [&curves[0].loss, &curves[1].loss],
            },
            Panel {
                title: "Test accuracy in %",
                logarithmic: false,
                y_min: bottom,
                y_max: 100.0,
                y_step: if 100.0 - bottom > 12.0 { 5.0 * ((100.0 - bottom) / 50.0).ceil() } else { 1.0 },
                format: |value| format!("{value:.0}"),
                final_format: |value| format!("{value:.2}"),
                y: [&percent[0], &percent[1]],
            },
        ],
    };
    write(path, &chart.draw())
}
