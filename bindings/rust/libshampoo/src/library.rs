// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::error::{c_string, check, text, Code, Error, Result};
use libshampoo_sys as sys;
use std::sync::atomic::{AtomicBool, Ordering};

const HEADER: (i32, i32, i32) = (sys::SHAMPOO_VERSION_MAJOR, sys::SHAMPOO_VERSION_MINOR, sys::SHAMPOO_VERSION_PATCH);

/// Refuses a library of another version; all that makes something begins with it.
pub(crate) fn start() -> Result<()> {
    static RIGHT: AtomicBool = AtomicBool::new(false);
    if RIGHT.load(Ordering::Relaxed) {
        return Ok(());
    }
    let (major, minor, patch) = version();
    // Before 1.0 each minor version may change the API.
    if (major, minor) != (HEADER.0, HEADER.1) {
        let (wanted_major, wanted_minor, wanted_patch) = HEADER;
        return Err(Error::new(
            Code::Unsupported,
            format!(
                "libshampoo {major}.{minor}.{patch} was loaded, and this crate is for \
                 {wanted_major}.{wanted_minor}.{wanted_patch}: have the loader find that one (LD_LIBRARY_PATH), or take \
                 the crate of the library's version"
            ),
        ));
    }
    RIGHT.store(true, Ordering::Relaxed);
    Ok(())
}

/// Version of the library that is loaded: major, minor, patch.
pub fn version() -> (i32, i32, i32) {
    // SAFETY: it has no arguments.
    let number = unsafe { sys::shampoo_version() };
    (number / 10000, number / 100 % 100, number % 100)
}

/// What this build of the library is, as one JSON object, for logs and bug reports.
pub fn build_info() -> &'static str {
    // SAFETY: the text lives as long as the library.
    unsafe { text(sys::shampoo_build_info()) }
}

/// A device that optimizers can be made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The processors and the memory of the host.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

impl Device {
    pub(crate) fn code(self) -> i32 {
        match self {
            Device::Cpu => sys::SHAMPOO_CPU,
            Device::Cuda => sys::SHAMPOO_CUDA,
        }
    }
}

/// A backend of the library.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// "cpu" or "cuda".
    pub name: &'static str,
    /// Why it cannot be used here, as a sentence; "" where it can.
    pub unavailable_reason: &'static str,
    /// Whether optimizers can be made on it.
    pub usable: bool,
    /// Devices that it found; the CPU counts as one.
    pub device_count: usize,
}

/// Describes the backends: the CPU, then CUDA, whose library is loaded for that.
///
/// # Errors
///
/// [`Code::Unsupported`]: the library is of another version.
pub fn backends() -> Result<Vec<Backend>> {
    start()?;
    // SAFETY: it has no arguments.
    (0..unsafe { sys::shampoo_backend_count() })
        .map(|index| {
            let mut info = sys::shampoo_backend_info::new();
            // SAFETY: info has its size; its texts live as long as the library.
            unsafe {
                check(sys::shampoo_backend_describe(index, &mut info))?;
                Ok(Backend {
                    name: text(info.name),
                    unavailable_reason: text(info.unavailable_reason),
                    usable: info.usable == 1,
                    device_count: info.device_count as usize,
                })
            }
        })
        .collect()
}

/// Loads the backend for CUDA: "cuda", or the path of `libshampoo_cuda.so`. It need not be called where the file lies
/// beside the library.
///
/// # Errors
///
/// [`Code::Unsupported`]: it is not there, or not of this version; the text tells which. [`Code::State`]: it was loaded
/// from another file before.
pub fn load_backend(name_or_path: &str) -> Result<()> {
    start()?;
    let name = c_string("backend", name_or_path)?;
    // SAFETY: name is a C string, which is copied.
    check(unsafe { sys::shampoo_backend_load(name.as_ptr()) })
}
