// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Shows a progress line if the standard output is a terminal.

use std::io::Write;
use std::os::raw::c_int;

extern "C" {
    fn isatty(descriptor: c_int) -> c_int;
}

fn on_terminal() -> bool {
    // SAFETY: isatty accepts any number; 1 is the standard output. std::io::IsTerminal would need Rust 1.70.
    unsafe { isatty(1) == 1 }
}

/// Removes the progress line, so that something else can be printed in its place.
pub fn clear_progress() {
    if on_terminal() {
        print!("\r\x1b[K");
    }
}

pub fn show_progress(step: usize, steps: usize) {
    const BAR: usize = 40;
    if on_terminal() {
        let done = step * BAR / steps;
        print!("\r\x1b[K{}{} step {step} of {steps}", "#".repeat(done), ".".repeat(BAR - done));
        let _ = std::io::stdout().flush(); // errors do not matter here
    }
}
