// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::error::{c_string, check, text, Code, Error, Result};
use libshampoo_sys as sys;
use std::sync::atomic::{AtomicBool, Ordering};

const HEADER: (i32, i32, i32) = (sys::SHAMPOO_VERSION_MAJOR, sys::SHAMPOO_VERSION_MINOR, sys::SHAMPOO_VERSION_PATCH);

/// Checks that the version of the loaded library matches this crate.
pub(crate) fn start() -> Result<()> {
    static CHECKED: AtomicBool = AtomicBool::new(false);
    if CHECKED.load(Ordering::Relaxed) {
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
                 {wanted_major}.{wanted_minor}.{wanted_patch}; set LD_LIBRARY_PATH to the folder of libshampoo \
                 {wanted_major}.{wanted_minor}.{wanted_patch}, or use the crate of version {major}.{minor}.{patch}"
            ),
        ));
    }
    CHECKED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns the version of the loaded library: major, minor, patch.
pub fn version() -> (i32, i32, i32) {
    // SAFETY: the function has no arguments.
    let number = unsafe { sys::shampoo_version() };
    (number / 10000, number / 100 % 100, number % 100)
}

/// Describes the build of the library as a JSON object, for logs and bug reports.
pub fn build_info() -> &'static str {
    // SAFETY: the string exists while the library is loaded.
    unsafe { text(sys::shampoo_build_info()) }
}

/// A type of device.
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

/// A backend of the library, which runs optimizers on one type of device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// "cpu" or "cuda".
    pub name: &'static str,
    /// A sentence that explains why the backend cannot be used, or "" if the backend can be used.
    pub unavailable_reason: &'static str,
    /// Whether optimizers in this process can use the backend.
    pub usable: bool,
    /// Number of devices of the backend, or 0 if `usable` is false. The CPU counts as one device.
    pub device_count: usize,
}

/// Describes the backends, first the CPU and then CUDA. The call loads the CUDA backend.
///
/// # Errors
///
/// [`Code::Unsupported`]: the version of the loaded library does not match this crate.
pub fn backends() -> Result<Vec<Backend>> {
    start()?;
    // SAFETY: the function has no arguments.
    (0..unsafe { sys::shampoo_backend_count() })
        .map(|index| {
            let mut info = sys::shampoo_backend_info::new();
            // SAFETY: info has a valid size, and its strings exist while the library is loaded.
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

/// Loads the CUDA backend. `name_or_path` is "cuda" or the path of `libshampoo_cuda.so`. This call is not necessary if
/// `libshampoo_cuda.so` is in the folder of the library.
///
/// # Errors
///
/// - [`Code::Unsupported`]: the backend is missing, or its version differs from the version of the library; the message
///   explains the reason.
/// - [`Code::State`]: the backend has been loaded from another file.
pub fn load_backend(name_or_path: &str) -> Result<()> {
    start()?;
    let name = c_string("backend", name_or_path)?;
    // SAFETY: name is a C string, which the library copies.
    check(unsafe { sys::shampoo_backend_load(name.as_ptr()) })
}
