// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Finds libshampoo: in the folder that SHAMPOO_LIB_DIR names, or by pkg-config.
//!
//! Dependents get its folder as DEP_SHAMPOO_LIB_DIR, and from pkg-config that of its header as DEP_SHAMPOO_INCLUDE.

use std::env;
use std::path::Path;
use std::process::{exit, Command};

/// Asks pkg-config; Err has what it, or the system, says.
fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    match Command::new(&program).args(arguments).arg("shampoo").output() {
        Err(error) => Err(format!("{program}: {error}")),
        Ok(output) if !output.status.success() => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("libshampoo was not found: {why}");
    eprintln!(
        "Install it (cmake --install), and set PKG_CONFIG_PATH to the folder of its shampoo.pc where that is not \
         one of the system's; or set SHAMPOO_LIB_DIR to the folder of libshampoo.so."
    );
    exit(1)
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["SHAMPOO_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return; // documentation links nothing
    }
    let lib_dir = match env::var("SHAMPOO_LIB_DIR") {
        Ok(folder) => {
            if !Path::new(&folder).join("libshampoo.so").exists() {
                fail(&format!("SHAMPOO_LIB_DIR is {folder:?}, and there is no libshampoo.so in it"));
            }
            folder
        }
        Err(_) => {
            let found = pkg_config(&["--modversion"]).unwrap_or_else(|why| fail(&why));
            let wanted = env!("CARGO_PKG_VERSION");
            // Before 1.0 each minor version may change the API.
            if found.split('.').take(2).ne(wanted.split('.').take(2)) {
                fail(&format!("pkg-config knows version {found}, and this crate is for {wanted}"));
            }
            if let Ok(include) = pkg_config(&["--variable=includedir"]) {
                println!("cargo:include={include}");
            }
            pkg_config(&["--variable=libdir"]).unwrap_or_else(|why| fail(&why))
        }
    };
    println!("cargo:rerun-if-changed={lib_dir}/libshampoo.so");
    println!("cargo:rustc-link-search=native={lib_dir}");
    println!("cargo:rustc-link-lib=dylib=shampoo");
    println!("cargo:lib_dir={lib_dir}");
}
