// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Checks that wrong data from a communicator, and wrong values in a state, cause no undefined behavior.

use crate::tools::{builder, config, gradients, model, step, SHAPES};
use libshampoo::{BoxError, Comm, Communicator, Dtype, Optimizer, Param, PlanBuilder, PlanOptions, Shard};

/// The communicator of the first of three ranks. The all-gather copies the segment of this rank to the other segments.
/// If the seed is odd, the all-gather then overwrites the other segments with noise. If the seed is even and above 0,
/// and segments have more than 64 bytes, the all-gather overwrites only the second half of each of the other segments.
/// The all-to-all delivers only noise.
struct FaultyComm {
    seed: u64,
    all_to_all: bool,
}

impl FaultyComm {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.seed;
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 33) as u8;
        }
    }
}

impl Communicator for FaultyComm {
    fn rank(&self) -> usize {
        0
    }

    fn world(&self) -> usize {
        3
    }

    fn all_gather(&self, segments: &mut [u8]) -> Result<(), BoxError> {
        let (own, others) = segments.split_at_mut(segments.len() / 3);
        for other in others.chunks_exact_mut(own.len()) {
            other.copy_from_slice(own);
            let first = if self.seed % 2 == 0 { own.len() / 2 } else { 0 };
            if self.seed > 1 && own.len() > 64 || self.seed % 2 == 1 {
                self.fill(&mut other[first..]);
            }
        }
        Ok(())
    }

    fn has_all_to_all(&self) -> bool {
        self.all_to_all
    }

    fn all_to_all(&self, _: &[u8], _: &[usize], recv: &mut [u8], _: &[usize]) -> Result<(), BoxError> {
        self.fill(recv);
        Ok(())
    }
}

/// Calls may fail or compute wrong numbers. But `Communicator` is a safe trait, so even a wrong implementation must not
/// cause undefined behavior. The test rust.valgrind runs this test in valgrind.
#[test]
fn a_communicator_with_wrong_results_causes_no_undefined_behaviour() {
    let mut rejected = 0;
    for seed in 0..6 {
        for (gather, all_to_all) in [(false, false), (true, false), (true, true)] {
            let mut config = config();
            config.set("shard_mode", if gather { "gather" } else { "local" }).unwrap();
            let options = PlanOptions::default().threads(1);
            let options = if gather { options.shard(0, 3) } else { options.replica(0, 3) };
            let held = |count: usize| if gather { (count + 2) / 3 } else { count };
            let mut plan = PlanBuilder::new(&config, options).unwrap();
            for (p, shape) in SHAPES.iter().enumerate() {
                let param = Param::new(format!("p{p}"), shape);
                let flat = Shard::Flat { offset: 0, count: held(shape.iter().product()) };
                plan.param(if gather { param.shard(flat) } else { param }).unwrap();
            }
            let plan = plan.finish().unwrap();
            let comm = Comm::new(FaultyComm { seed, all_to_all }).unwrap();
            let optimizer = Optimizer::builder(&plan);
            let made = if gather { optimizer.shard_comm(&comm) } else { optimizer.replica_comm(&comm) }.build();
            let mut opt = match made {
                Ok(opt) => opt,
                Err(_) => {
                    rejected += 1;
                    continue;
                }
            };
            let cut = |whole: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
                whole.into_iter().map(|value| value[..held(value.len())].to_vec()).collect()
            };
            let (mut values, grads) = (cut(model()), cut(gradients(&model(), 0)));
            let folder = std::env::temp_dir().join(format!("shampoo-rust-faults-{}", std::process::id()));
            rejected += usize::from(step(&mut opt, &mut values, &grads).is_err());
            rejected += usize::from(opt.save(Some(&comm), &folder).is_err());
            rejected += usize::from(opt.load(Some(&comm), &folder).is_err());
            let _ = std::fs::remove_dir_all(folder);
        }
    }
    assert!(rejected >= 18, "{rejected} calls were rejected; expected at least 18, one for each optimizer");
}

/// The caller can write any values to a state. Each later step must either reject the values or succeed.
#[test]
fn a_state_with_wrong_values_causes_no_undefined_behaviour() {
    let mut rejected = 0;
    for root_async in [0, 1] {
        for wrong in [i64::MIN, -1, 1, 1 << 31, 1 << 52, i64::MAX] {
            let mut config = config();
            config.set("root_async", root_async).unwrap().set("momentum", 0.5).unwrap();
            let mut opt = Optimizer::new(&builder(&config, PlanOptions::default()).finish().unwrap()).unwrap();
            let (mut values, grads) = (model(), gradients(&model(), 0));
            step(&mut opt, &mut values, &grads).unwrap();
            for entry in opt.state().unwrap() {
                match entry.dtype {
                    Dtype::I64 => opt.write_state(entry.index, 0, &[wrong]).unwrap(),
                    Dtype::I32 => opt.write_state(entry.index, 0, &vec![wrong as i32; entry.count()]).unwrap(),
                    _ => opt.write_state(entry.index, 0, &vec![wrong as f32; entry.count()]).unwrap(),
                }
            }
            rejected += (0..3).filter(|_| step(&mut opt, &mut values, &grads).is_err()).count();
        }
    }
    assert!(rejected > 0, "no step was rejected; expected an error at least for a negative step counter");
}
