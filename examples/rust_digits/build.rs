// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Has the program find the library at run time where it was found when it was compiled.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = std::env::var("DEP_SHAMPOO_LIB_DIR").expect("libshampoo-sys tells its folder");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
}
