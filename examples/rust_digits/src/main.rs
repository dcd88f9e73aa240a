// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Trains the network of mlp.rs on handwritten digits with Shampoo and with AdamW, side by side from the same weights
//! and on the same batches, so that only the optimizer differs. All losses are bit-identical to those of ../c_mlp.

mod adamw;
mod digits;
mod mlp;
mod options;
mod progress;
mod report;
mod with_shampoo;

use adamw::AdamW;
use digits::Digits;
use mlp::{Mlp, CLASSES, INPUTS, VALUES};
use options::{Options, Result};
use progress::show_progress;
use report::{Curve, ADAMW, SHAMPOO};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;
use with_shampoo::WithShampoo;

/// The images of a step.
struct Batch {
    x: Vec<f32>,
    labels: Vec<usize>,
}

impl Batch {
    fn gather(&mut self, digits: &Digits, rows: &[usize]) {
        self.x.clear();
        self.labels.clear();
        for &row in rows {
            self.x.extend_from_slice(&digits.images[row * INPUTS..(row + 1) * INPUTS]);
            self.labels.push(digits.labels[row]);
        }
    }
}

fn shuffle(rows: &mut [usize], random_state: &mut u64) {
    for i in (1..rows.len()).rev() {
        let j = (mlp::random_uniform(random_state) * (i + 1) as f64) as usize;
        rows.swap(i, j);
    }
}

fn evaluate(net: &mut Mlp, digits: &Digits, curve: &mut Curve) {
    let (train, test) = digits.images.split_at(digits.train_count * INPUTS);
    let (train_labels, test_labels) = digits.labels.split_at(digits.train_count);
    let (loss, _) = net.evaluate(train, train_labels);
    let (_, correct) = net.evaluate(test, test_labels);
    curve.loss.push(loss);
    curve.accuracy.push(correct as f64 / test_labels.len() as f64);
}

/// Checks that a file can be written, so that the program fails before the training and not after it.
fn check_writable(path: &str) -> Result<()> {
    if !path.is_empty() {
        File::options().append(true).create(true).open(path).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

fn run(options: &Options) -> Result<()> {
    let digits = Digits::load(&options.data)?;
    if options.batch > digits.train_count {
        return Err(format!("--batch {}: there are {} images", options.batch, digits.train_count).into());
    }
    check_writable(&options.csv)?;
    let mut losses = match &options.step_losses {
        Some(path) => Some(BufWriter::new(File::create(path).map_err(|error| format!("{path}: {error}"))?)),
        None => None,
    };

    let mut random_state = options.seed;
    let mut first = Mlp::new(options.batch);
    first.init(&mut random_state);
    let mut nets = [first.clone(), first];
    let mut curves = [Curve::default(), Curve::default()];
    let mut shampoo = WithShampoo::new(&options.settings)?;
    let mut adamw = AdamW::new(VALUES, options.adamw_lr, options.weight_decay);

    // An epoch leaves out the last images if they do not fill a batch.
    let steps_per_epoch = digits.train_count / options.batch;
    let steps = options.epochs * steps_per_epoch;
    let (major, minor, patch) = libshampoo::version();
    let test_count = digits.labels.len() - digits.train_count;
    println!("libshampoo {major}.{minor}.{patch}, float32");
    println!("digits      {} training images, {test_count} test images", digits.train_count);
    println!("network     64-128-64-{CLASSES}, tanh, {VALUES} parameters");
    println!("steps       {} epochs of {steps_per_epoch} steps with {} images each", options.epochs, options.batch);
    let kib = |bytes: usize| bytes as f64 / 1024.0;
    println!("state       Shampoo {:.0} KiB, AdamW {:.0} KiB", kib(shampoo.state_bytes), kib(2 * VALUES * 4));
    if let Some(losses) = &mut losses {
        writeln!(losses, "step,shampoo,adamw")?;
    }

    report::head();
    for (net, curve) in nets.iter_mut().zip(&mut curves) {
        evaluate(net, &digits, curve);
    }
    report::epoch(0, &curves);

    let mut rows: Vec<usize> = (0..digits.train_count).collect();
    let mut batch = Batch { x: Vec::new(), labels: Vec::new() };
    let mut step = 0;
    for epoch in 1..=options.epochs {
        shuffle(&mut rows, &mut random_state);
        for rows in rows.chunks_exact(options.batch) {
            show_progress(step, steps);
            batch.gather(&digits, rows);
            if options.cosine {
                let share = 0.5 * (1.0 + (std::f64::consts::PI * step as f64 / steps as f64).cos());
                shampoo.set_lr(share * shampoo.lr)?;
                adamw.lr = share * options.adamw_lr;
            }
            let mut loss = [0.0; 2];
            for c in [SHAMPOO, ADAMW] {
                let (net, curve) = (&mut nets[c], &mut curves[c]);
                let start = Instant::now();
                loss[c] = net.gradient(&batch.x, &batch.labels);
                let middle = Instant::now();
                if c == SHAMPOO {
                    shampoo.step(&mut net.params, &net.grads)?;
                } else {
                    adamw.step(&mut net.params, &net.grads);
                }
                curve.gradient_seconds += (middle - start).as_secs_f64();
                curve.update_seconds += middle.elapsed().as_secs_f64();
            }
            step += 1;
            if let Some(losses) = &mut losses {
                writeln!(losses, "{step},{},{}", loss[SHAMPOO], loss[ADAMW])?;
            }
        }
        for (net, curve) in nets.iter_mut().zip(&mut curves) {
            evaluate(net, &digits, curve);
        }
        report::epoch(epoch, &curves);
    }

    report::times(steps, &curves);
    println!("Shampoo computed {} inverse roots", shampoo.roots()?);
    if let Some(mut losses) = losses {
        losses.flush()?;
    }
    if !options.csv.is_empty() {
        report::csv(&options.csv, &curves)?;
    }
    Ok(())
}

fn main() {
    let result = Options::parse(std::env::args().skip(1)).and_then(|options| run(&options));
    if let Err(error) = result {
        eprintln!("train_digits: {error}");
        std::process::exit(1);
    }
}
