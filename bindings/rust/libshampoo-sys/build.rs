// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Finds libshampoo in the folder from the environment variable SHAMPOO_LIB_DIR, or with pkg-config. Links
//! libshampoo.so or, with the feature `static`, libshampoo.a.
//!
//! The build scripts of crates that depend directly on this crate find the folder of the library in the environment
//! variable DEP_SHAMPOO_LIB_DIR. If pkg-config was used, they find the folder of the header in DEP_SHAMPOO_INCLUDE.

use std::env;
use std::path::Path;
use std::process::{exit, Command};

/// Runs pkg-config and returns its output. The error is the message of pkg-config or of the system.
fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    match Command::new(&program).args(arguments).arg("shampoo").output() {
        Err(error) => Err(format!("{program}: {error}")),
        Ok(output) if !output.status.success() => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
    }
}

fn fail(reason: &str) -> ! {
    eprintln!("a suitable libshampoo was not found: {reason}");
    eprintln!(
        "Install libshampoo (cmake --install). If it is not in one of the system's folders, set PKG_CONFIG_PATH to the \
         folder of its shampoo.pc, or SHAMPOO_LIB_DIR to the folder of libshampoo.so."
    );
    if is_static() {
        eprintln!("The feature static needs libshampoo.a: build libshampoo with -DSHAMPOO_STATIC=ON.");
    }
    exit(1)
}

fn is_static() -> bool {
    env::var_os("CARGO_FEATURE_STATIC").is_some()
}

/// Returns the folder of the library, and the linker options for a program that contains libshampoo.a.
fn find() -> (String, String) {
    if let Ok(folder) = env::var("SHAMPOO_LIB_DIR") {
        return (folder, "-lstdc++ -lm -lpthread -ldl".into());
    }
    let query = |arguments: &[&str]| pkg_config(arguments).unwrap_or_else(|reason| fail(&reason));
    let found = query(&["--modversion"]);
    let wanted = env!("CARGO_PKG_VERSION");
    // Before 1.0 each minor version may change the API.
    if found.split('.').take(2).ne(wanted.split('.').take(2)) {
        fail(&format!("pkg-config found version {found}, but this crate needs {wanted}"));
    }
    println!("cargo:include={}", query(&["--variable=includedir"]));
    (query(&["--variable=libdir"]), query(&["--static", "--libs-only-l"]))
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["SHAMPOO_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return; // building documentation does not need the library
    }
    let (lib_dir, needs) = find();
    let file = if is_static() { "libshampoo.a" } else { "libshampoo.so" };
    if !Path::new(&lib_dir).join(file).exists() {
        fail(&format!("there is no {file} in {lib_dir:?}, the folder from SHAMPOO_LIB_DIR or pkg-config"));
    }
    println!("cargo:rerun-if-changed={lib_dir}/{file}");
    println!("cargo:rustc-link-search=native={lib_dir}");
    println!("cargo:lib_dir={lib_dir}");
    if !is_static() {
        println!("cargo:rustc-link-lib=dylib=shampoo");
        return;
    }
    println!("cargo:rustc-link-lib=static=shampoo");
    for name in needs.split_whitespace().filter_map(|word| word.strip_prefix("-l")) {
        if name != "shampoo" {
            println!("cargo:rustc-link-lib=dylib={name}");
        }
    }
}
