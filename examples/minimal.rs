// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
use libshampoo::{Buffers, Optimizer, Param};

fn main() -> Result<(), libshampoo::Error> {
    let mut opt = Optimizer::create("lr=0.1", [Param::new("w", &[2, 3])])?;
    let mut w = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    for _ in 0..200 {
        let gradient = w; // of |w|^2 / 2
        opt.step(&mut [Buffers::new(&mut w).with_grad(&gradient)])?;
    }
    println!("w = {w:?}");
    Ok(())
}
