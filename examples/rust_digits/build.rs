// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Adds the folder of the library to the program's rpath.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = std::env::var("DEP_SHAMPOO_LIB_DIR").expect("libshampoo-sys sets DEP_SHAMPOO_LIB_DIR");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
}
