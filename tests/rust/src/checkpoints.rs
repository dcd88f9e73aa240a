// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Tests that read and write the states of an optimizer, entry by entry and in checkpoints.

use crate::tools::{bits, builder, config, in_threads, model, optimizer, steps, trained, Meeting, Thread};
use libshampoo::{Code, Comm, Dtype, Optimizer, PlanOptions};
use std::path::PathBuf;

/// A folder that is deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Folder(std::env::temp_dir().join(format!("shampoo-rust-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn training_continues_bit_identically_from_restored_state_entries() {
    let (mut opt, mut values) = (optimizer(), model());
    steps(&mut opt, &mut values, 0, 2);
    let mut other = optimizer();
    let entries = opt.state().unwrap();
    assert_eq!(entries, other.state().unwrap());
    let factor = entries.iter().find(|entry| entry.key == "p0/0/factor.1").unwrap();
    assert!(factor.symmetric && factor.flat_offset.is_none() && factor.shape == [8, 8]);
    assert_eq!((factor.count(), factor.stored_bytes, factor.owner), (64, 256, 0));
    for entry in &entries {
        macro_rules! copy {
            ($type:ty) => {{
                let mut numbers = vec![<$type>::default(); entry.count()];
                opt.read_state(entry.index, 0, &mut numbers).unwrap();
                let (first, second) = numbers.split_at(entry.count() / 2);
                other.write_state(entry.index, 0, first).unwrap();
                other.write_state(entry.index, first.len(), second).unwrap();
            }};
        }
        match entry.dtype {
            Dtype::F32 => copy!(f32),
            Dtype::I32 => copy!(i32),
            Dtype::I64 => copy!(i64),
            other => panic!("{entry:?} is of {other:?}"),
        }
    }
    steps(&mut other, &mut values, 2, 4);
    assert_eq!(bits(&values), bits(&trained()));

    let error = opt.read_state(factor.index, 0, &mut [0.0f64; 64]).unwrap_err();
    assert!(error.message().contains("the values have the dtype f64; expected f32"), "{error}");
    assert_eq!(opt.read_state(factor.index, 60, &mut [0.0f32; 5]).unwrap_err().code(), Code::Invalid);
    assert_eq!(opt.write_state(entries.len(), 0, &[0.0f32]).unwrap_err().code(), Code::Invalid);
}

#[test]
fn training_continues_bit_identically_from_a_loaded_checkpoint() {
    let folder = Folder::new("checkpoints");
    let (mut opt, mut values) = (optimizer(), model());
    let error = opt.load(None, &folder.0).unwrap_err();
    assert_eq!(error.code(), Code::Io);
    assert!(error.message().contains(folder.0.to_str().unwrap()), "{error}");
    steps(&mut opt, &mut values, 0, 2);
    opt.save(None, &folder.0).unwrap();
    let mut other = optimizer();
    libshampoo::load(&mut [&mut other], None, &folder.0).unwrap();
    steps(&mut other, &mut values, 2, 4);
    assert_eq!(bits(&values), bits(&trained()));
}

#[test]
fn several_optimizers_are_saved_as_one_checkpoint() {
    let folder = Folder::new("several");
    let make = |name: &str| {
        let mut plan = libshampoo::PlanBuilder::new(&config(), PlanOptions::default()).unwrap();
        plan.param(libshampoo::Param::new(name, &[3])).unwrap();
        Optimizer::new(&plan.finish().unwrap()).unwrap()
    };
    let (mut a, mut b) = (make("a"), make("b"));
    libshampoo::save(&mut [&mut a, &mut b], None, &folder.0).unwrap();
    libshampoo::load(&mut [&mut b, &mut a], None, &folder.0).unwrap();
    assert_eq!(a.load(None, &folder.0).unwrap_err().code(), Code::Invalid, "loading needs b, too");
}

#[test]
fn one_rank_loads_a_checkpoint_of_two_ranks() {
    let folder = Folder::new("ranks");
    let meeting = Meeting::new(2);
    let values = in_threads(2, |rank| {
        let comm = Comm::new(Thread { meeting: meeting.clone(), rank, all_to_all: false }).unwrap();
        let plan = builder(&config(), PlanOptions::default().replica(rank, 2).threads(1)).finish().unwrap();
        let mut opt = Optimizer::builder(&plan).replica_comm(&comm).build().unwrap();
        let mut values = model();
        steps(&mut opt, &mut values, 0, 2);
        opt.save(Some(&comm), &folder.0).unwrap();
        values
    });
    let (mut opt, mut values) = (optimizer(), values[1].clone());
    opt.load(None, &folder.0).unwrap();
    steps(&mut opt, &mut values, 2, 4);
    assert_eq!(bits(&values), bits(&trained()));
}
