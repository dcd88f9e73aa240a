// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Tests of optimizers on the fake CUDA, which runs on the CPU. CMakeLists.txt runs each test in its own process,
//! because a process loads the backend only once.

use crate::tools::{bits, from_environment, gradients, in_threads, model, Meeting, Thread, SHAPES};
use libshampoo::{sys, Buffers, Code, Comm, Config, Device, Optimizer, Param, PlanBuilder, PlanOptions, Shard};
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

/// The functions of the fake CUDA runtime that the tests need. The tests never free device memory.
struct Cuda(*mut c_void);

// SAFETY: the functions may be called by several threads.
unsafe impl Sync for Cuda {}

impl Cuda {
    /// Loads the backend with the fake CUDA.
    fn load() -> Self {
        let path = from_environment("SHAMPOO_CUDA_FAKE");
        let path = path.to_str().unwrap();
        libshampoo::load_backend(path).unwrap();
        Cuda::open(path)
    }

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

    fn get(&self, address: *const c_void, count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        unsafe {
            assert_eq!(transmute::<*mut c_void, Call>(self.find("cudaDeviceSynchronize"))(), 0);
            let copy = transmute::<*mut c_void, Memcpy>(self.find("cudaMemcpy"));
            assert_eq!(copy(values.as_mut_ptr().cast(), address, size_of_val(&values[..]), 2), 0);
        }
        values
    }
}

fn optimizer(device: Device) -> Optimizer {
    let mut config = Config::new().unwrap();
    config.set("lr", 0.1).unwrap().set("grafting", "adam").unwrap().set("use_merge_dims", false).unwrap();
    config.set("weight_ema", 0.5).unwrap();
    config.set("epsilon", 1e-3).unwrap(); // keeps the inverse roots well conditioned, so that CPU and CUDA agree
    let mut plan = PlanBuilder::new(&config, PlanOptions::default().device(device)).unwrap();
    plan.param(Param::new("w", &[6, 4])).unwrap();
    Optimizer::new(&plan.finish().unwrap()).unwrap()
}

fn assert_near(values: &[f32], expected: &[f32]) {
    for (value, wanted) in values.iter().zip(expected) {
        assert!((value - wanted).abs() <= 1e-6 + 1e-4 * wanted.abs(), "{value} {wanted}");
    }
}

#[test]
#[ignore = "needs the fake CUDA and its own process"]
fn steps_on_a_stream() {
    let cuda = Cuda::load();
    let backends = libshampoo::backends().unwrap();
    assert!(backends[1].usable && backends[1].device_count > 0, "{backends:?}");
    let stream = cuda.stream();

    let w: [f32; 24] = std::array::from_fn(|i| (i as f32 * 1.7).sin());
    let grad: [f32; 24] = std::array::from_fn(|i| (i as f32 * 0.9).cos());
    let mut expected = w;
    let mut on_cpu = optimizer(Device::Cpu);
    for _ in 0..3 {
        on_cpu.step(&mut [Buffers::new(&mut expected).with_grad(&grad)]).unwrap();
    }
    let mut expected_average = [0.0; 24];
    on_cpu.export(1.0, &mut [Buffers::read_only(&expected).with_out(&mut expected_average)]).unwrap();

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
    let average = cuda.put(&[0.0f32; 24]);
    // SAFETY: as above.
    unsafe {
        opt.export_raw(1.0, &[average]).unwrap();
        opt.export_raw(0.5, &[null_mut()]).unwrap(); // writes nothing
        assert_eq!(opt.export_raw(1.0, &[]).unwrap_err().code(), Code::Invalid);
    }
    let values = cuda.get(param, 24);
    assert_near(&values, &expected);
    assert_near(&cuda.get(average, 24), &expected_average);
    assert_ne!(values, expected_average);
    let entries = opt.state().unwrap();
    let step = entries.iter().find(|entry| entry.key == "group.0/step").unwrap();
    let mut made = [0i64];
    opt.read_state(step.index, 0, &mut made).unwrap();
    assert_eq!(made, [3]);

    // The device rejects step 4. The next call reports the error, with the number of that step.
    buffers.grad = bad;
    // SAFETY: as above.
    unsafe {
        opt.bind_raw(0, &[buffers]).unwrap();
        opt.step_raw().unwrap();
    }
    let error = opt.status(true).unwrap_err();
    assert_eq!((error.code(), error.step()), (Code::Numeric, Some(4)), "{error}");
    assert_eq!(cuda.get(param, 24), values);

    // Slices are host memory, which this optimizer rejects.
    let (mut host, grad) = ([1.0f32; 24], [1.0f32; 24]);
    let error = opt.step(&mut [Buffers::new(&mut host).with_grad(&grad)]).unwrap_err();
    assert_eq!(error.code(), Code::State);
    assert!(error.message().contains("use bind_raw() and step_raw()"), "{error}");
    let error = opt.export(1.0, &mut [Buffers::read_only(&host)]).unwrap_err();
    assert!(error.message().contains("use bind_raw() and export_raw()"), "{error}");
}

/// Returns the range of elements that the shard rank `rank` holds of a flattened parameter with `count` elements.
fn shard_of(count: usize, rank: usize, shards: usize) -> std::ops::Range<usize> {
    let most = (count + shards - 1) / shards;
    (rank * most).min(count)..((rank + 1) * most).min(count)
}

/// Trains the model for six steps on the device. Returns the part of the parameters that this rank holds. `comm`
/// exchanges data in host memory. If `gathers` is true, the ranks are shard ranks, and blocks are gathered. If it is
/// false, the ranks are replicas.
fn train(cuda: &Cuda, comm: Option<Thread>, world: usize, gathers: bool) -> Vec<Vec<f32>> {
    let rank = comm.as_ref().map_or(0, |comm| comm.rank);
    let (shard, shards) = if gathers { (rank, world) } else { (0, 1) };
    let mut config = crate::tools::config();
    config.set("shard_mode", "gather").unwrap();
    let options = PlanOptions::default().device(Device::Cuda).threads(1);
    let options = if gathers { options.shard(rank, world) } else { options.replica(rank, world) };
    let mut plan = PlanBuilder::new(&config, options).unwrap();
    for (p, shape) in SHAPES.iter().enumerate() {
        let param = Param::new(format!("p{p}"), shape);
        let held = shard_of(shape.iter().product(), shard, shards);
        let form = Shard::Flat { offset: held.start, count: held.len() };
        plan.param(if gathers { param.shard(form) } else { param }).unwrap();
    }
    let plan = plan.finish().unwrap();
    let comm = comm.map(|comm| Comm::new(comm).unwrap());
    let mut builder = Optimizer::builder(&plan);
    if let Some(comm) = &comm {
        builder = if gathers { builder.shard_comm(comm) } else { builder.replica_comm(comm) };
    }
    let mut opt = builder.build().unwrap();
    let own = |whole: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
        whole.iter().map(|values| values[shard_of(values.len(), shard, shards)].to_vec()).collect()
    };
    let first = own(model());
    let params: Vec<*mut c_void> = first.iter().map(|values| cuda.put(values)).collect();
    let stream = cuda.stream();
    for t in 0..6 {
        let grads = own(gradients(&model(), t));
        let buffers = params.iter().zip(&grads).map(|(&param, grad)| {
            let mut buffers = sys::shampoo_buffers::new();
            buffers.param = param;
            buffers.out = param;
            buffers.grad = cuda.put(grad);
            buffers
        });
        let buffers: Vec<_> = buffers.collect();
        // SAFETY: memory and stream exist until the process exits.
        unsafe {
            opt.set_stream(stream);
            opt.bind_raw(0, &buffers).unwrap();
            opt.step_raw().unwrap();
        }
    }
    opt.status(true).unwrap();
    params.iter().zip(&first).map(|(&param, values)| cuda.get(param, values.len())).collect()
}

#[test]
#[ignore = "needs the fake CUDA and its own process"]
fn ranks_exchange_through_host_memory() {
    let cuda = &Cuda::load();
    let alone = train(cuda, None, 1, false);
    let mut on_cpu = model();
    crate::tools::steps(&mut crate::tools::optimizer(), &mut on_cpu, 0, 6);
    for (values, expected) in alone.iter().flatten().zip(on_cpu.iter().flatten()) {
        assert!((values - expected).abs() <= 1e-3, "{values} {expected}");
    }
    for (gathers, all_to_all) in [(false, false), (true, false), (true, true)] {
        let meeting = Meeting::new(2);
        let ranks =
            in_threads(2, |rank| train(cuda, Some(Thread { meeting: meeting.clone(), rank, all_to_all }), 2, gathers));
        let found = match gathers {
            true => ranks[0].iter().zip(&ranks[1]).map(|(first, second)| [&first[..], second].concat()).collect(),
            false => ranks[1].clone(),
        };
        if gathers {
            assert_eq!(bits(&found), bits(&alone), "all_to_all {all_to_all}");
        } else {
            assert_eq!(bits(&found), bits(&ranks[0]));
            for (values, expected) in found.iter().flatten().zip(alone.iter().flatten()) {
                // Two replicas batch matrix products differently than one rank, so results are rounded differently.
                assert!((values - expected).abs() <= 1e-5, "{values} {expected}");
            }
        }
        assert_eq!(meeting.all_to_alls.load(std::sync::atomic::Ordering::SeqCst) > 0, all_to_all);
    }
}
