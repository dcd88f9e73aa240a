// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Optimizers on CUDA, with the fake of CUDA that runs on the CPU. CMakeLists.txt runs the test in its own process,
//! because a process loads the backend only once.

use crate::tools::from_environment;
use libshampoo::{sys, Buffers, Code, Config, Device, Optimizer, Param, PlanBuilder, PlanOptions};
use std::ffi::CString;
use std::mem::{size_of_val, transmute};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::null_mut;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Malloc = unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int;
type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int;
type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Call = unsafe extern "C" fn() -> c_int;

/// The functions of the CUDA runtime that the test needs. Memory is not freed before the process exits.
struct Cuda(*mut c_void);

impl Cuda {
    fn open(path: &str) -> Self {
        let path = CString::new(path).unwrap();
        let library = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!library.is_null());
        Cuda(library)
    }

    fn find(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        let found = unsafe { dlsym(self.0, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    fn stream(&self) -> *mut c_void {
        let mut stream = null_mut();
        assert_eq!(unsafe { transmute::<*mut c_void, Create>(self.find("cudaStreamCreate"))(&mut stream) }, 0);
        stream
    }

    fn put<T>(&self, values: &[T]) -> *mut c_void {
        let (mut address, bytes) = (null_mut(), size_of_val(values));
        unsafe {
            assert_eq!(transmute::<*mut c_void, Malloc>(self.find("cudaMalloc"))(&mut address, bytes), 0);
            let copy = transmute::<*mut c_void, Memcpy>(self.find("cudaMemcpy"));
            assert_eq!(copy(address, values.as_ptr().cast(), bytes, 1), 0);
        }
        address
    }

    fn get<const N: usize>(&self, address: *const c_void) -> [f32; N] {
        let mut values = [0.0; N];
        unsafe {
            assert_eq!(transmute::<*mut c_void, Call>(self.find("cudaDeviceSynchronize"))(), 0);
            let copy = transmute::<*mut c_void, Memcpy>(self.find("cudaMemcpy"));
            assert_eq!(copy(values.as_mut_ptr().cast(), address, size_of_val(&values), 2), 0);
        }
        values
    }
}

fn optimizer(device: Device) -> Optimizer {
    let mut config = Config::new().unwrap();
    config.set("lr", 0.1).unwrap().set("grafting", "adam").unwrap().set("use_merge_dims", false).unwrap();
    config.set("epsilon", 1e-3).unwrap(); // keeps the inverse roots well conditioned, so that CPU and CUDA agree
    let mut plan = PlanBuilder::new(&config, PlanOptions::default().device(device)).unwrap();
    plan.param(Param::new("w", &[6, 4])).unwrap();
    Optimizer::new(&plan.finish().unwrap()).unwrap()
}

#[test]
#[ignore = "needs the fake of CUDA and its own process"]
fn steps_on_a_stream() {
    let path = from_environment("SHAMPOO_CUDA_FAKE");
    let path = path.to_str().unwrap();
    libshampoo::load_backend(path).unwrap();
    let backends = libshampoo::backends().unwrap();
    assert!(backends[1].usable && backends[1].device_count > 0, "{backends:?}");
    let cuda = Cuda::open(path);
    let stream = cuda.stream();

    let w: [f32; 24] = std::array::from_fn(|i| (i as f32 * 1.7).sin());
    let grad: [f32; 24] = std::array::from_fn(|i| (i as f32 * 0.9).cos());
    let mut expected = w;
    let mut on_cpu = optimizer(Device::Cpu);
    for _ in 0..3 {
        on_cpu.step(&mut [Buffers::new(&mut expected).with_grad(&grad)]).unwrap();
    }

    let (param, gradient, bad) = (cuda.put(&w), cuda.put(&grad), cuda.put(&[f32::NAN; 24]));
    let mut buffers = sys::shampoo_buffers::new();
    buffers.param = param;
    buffers.out = param;
    buffers.grad = gradient;
    let mut opt = optimizer(Device::Cuda);
    // SAFETY: memory and stream exist until the process exits.
    unsafe {
        opt.set_stream(stream);
        opt.bind_raw(0, &[buffers]).unwrap();
        for _ in 0..3 {
            opt.step_raw().unwrap();
        }
    }
    opt.status(true).unwrap();
    let values: [f32; 24] = cuda.get(param);
    for (value, wanted) in values.iter().zip(&expected) {
        assert!((value - wanted).abs() <= 1e-6 + 1e-4 * wanted.abs(), "{value} {wanted}");
    }
    let entries = opt.state().unwrap();
    let step = entries.iter().find(|entry| entry.key == "group.0/step").unwrap();
    let mut made = [0i64];
    opt.read_state(step.index, 0, &mut made).unwrap();
    assert_eq!(made, [3]);

    // The next call after a rejected step reports it, with the number of that step.
    buffers.grad = bad;
    // SAFETY: as above.
    unsafe {
        opt.bind_raw(0, &[buffers]).unwrap();
        opt.step_raw().unwrap();
    }
    let error = opt.status(true).unwrap_err();
    assert_eq!((error.code(), error.step()), (Code::Numeric, Some(4)), "{error}");
    assert_eq!(cuda.get::<24>(param), values);

    // Slices are host memory, which this optimizer rejects.
    let (mut host, grad) = ([1.0f32; 24], [1.0f32; 24]);
    let error = opt.step(&mut [Buffers::new(&mut host).with_grad(&grad)]).unwrap_err();
    assert_eq!(error.code(), Code::State);
    assert!(error.message().contains("step_raw()"), "{error}");
}
