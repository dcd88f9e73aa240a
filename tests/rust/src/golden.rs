// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Checks that the steps of recorded trajectories give bit-identical parameters in Rust and in C. Each trajectory is
//! replayed from a tape: a file with commands, and a file with data, such as the parameters that the C API has
//! computed. tests/golden/tapes.py describes the format.

use crate::tools::from_environment;
use libshampoo::{Bf16, Buffers, Config, Dtype, Element, Optimizer, Param, PlanBuilder, PlanOptions, F16};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Values of one of the four dtypes.
enum Numbers {
    F32(Vec<f32>),
    F64(Vec<f64>),
    F16(Vec<F16>),
    Bf16(Vec<Bf16>),
}

fn words<const N: usize, T>(bytes: &[u8], make: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.chunks_exact(N).map(|word| make(word.try_into().unwrap())).collect()
}

impl Numbers {
    fn read(dtype: Dtype, bytes: &[u8]) -> Self {
        match dtype {
            Dtype::F32 => Numbers::F32(words(bytes, f32::from_ne_bytes)),
            Dtype::F64 => Numbers::F64(words(bytes, f64::from_ne_bytes)),
            Dtype::F16 => Numbers::F16(words(bytes, |word| F16(u16::from_ne_bytes(word)))),
            _ => Numbers::Bf16(words(bytes, |word| Bf16(u16::from_ne_bytes(word)))),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Numbers::F32(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Numbers::F64(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Numbers::F16(values) => values.iter().flat_map(|value| value.0.to_ne_bytes()).collect(),
            Numbers::Bf16(values) => values.iter().flat_map(|value| value.0.to_ne_bytes()).collect(),
        }
    }
}

fn with_grad<'a, T: Element>(param: &'a mut [T], grad: Option<&'a [T]>) -> Buffers<'a> {
    let buffers = Buffers::new(param);
    match grad {
        Some(grad) => buffers.with_grad(grad),
        None => buffers,
    }
}

/// A parameter of a tape.
struct Tensor {
    dtype: Dtype,
    bytes: usize,
    value: Numbers,
    grad: Option<Numbers>,
}

impl Tensor {
    fn buffers(&mut self) -> Buffers<'_> {
        macro_rules! buffers {
            ($param:ident, $kind:ident) => {
                with_grad(
                    $param,
                    self.grad.as_ref().map(|grad| match grad {
                        Numbers::$kind(grad) => &grad[..],
                        _ => unreachable!("a gradient has the dtype of its parameter"),
                    }),
                )
            };
        }
        match &mut self.value {
            Numbers::F32(param) => buffers!(param, F32),
            Numbers::F64(param) => buffers!(param, F64),
            Numbers::F16(param) => buffers!(param, F16),
            Numbers::Bf16(param) => buffers!(param, Bf16),
        }
    }
}

/// Executes the lines of a tape. Returns the number of its "expect" lines, which compare a parameter with the tape.
fn replay(path: &Path) -> usize {
    let tape = fs::read_to_string(path).unwrap();
    let data = fs::read(path.with_extension("bin")).unwrap();
    let mut rest = &data[..];
    let mut configs: Vec<Config> = Vec::new();
    let mut plan: Option<PlanBuilder> = None;
    let mut optimizer: Option<Optimizer> = None;
    let mut tensors: Vec<Tensor> = Vec::new();
    let mut index = HashMap::new();
    let mut met = 0;
    for line in tape.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut take = |count: usize| {
            let (head, tail) = rest.split_at(count);
            rest = tail;
            head
        };
        if words[0] != "key" && plan.is_none() && optimizer.is_none() {
            let mut made = PlanBuilder::new(&configs[0], PlanOptions::default()).unwrap();
            for config in &configs[1..] {
                made.group(config).unwrap();
            }
            plan = Some(made);
        }
        if !["key", "param"].contains(&words[0]) {
            if let Some(plan) = plan.take() {
                optimizer = Some(Optimizer::new(&plan.finish().unwrap()).unwrap());
            }
        }
        match words[0] {
            "key" => {
                let group: usize = words[1].parse().unwrap();
                if group == configs.len() {
                    configs.push(Config::new().unwrap());
                }
                configs[group].set(words[2], words[3]).unwrap();
            }
            "param" => {
                let all = [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16];
                let dtype = all.into_iter().find(|dtype| dtype.name() == words[3]).unwrap();
                let shape: Vec<usize> = words[4..].iter().map(|dim| dim.parse().unwrap()).collect();
                let param = Param::new(words[1], &shape).dtype(dtype).group(words[2].parse().unwrap());
                assert_eq!(plan.as_mut().unwrap().param(param).unwrap(), tensors.len());
                index.insert(words[1], tensors.len());
                let bytes = shape.iter().product::<usize>() * dtype.size();
                tensors.push(Tensor { dtype, bytes, value: Numbers::read(dtype, take(bytes)), grad: None });
            }
            "lr" => {
                let group = words[1].parse().unwrap();
                optimizer.as_mut().unwrap().set(group, "lr", words[2].parse().unwrap()).unwrap();
            }
            "grad" => {
                let tensor = &mut tensors[index[words[1]]];
                tensor.grad = Some(Numbers::read(tensor.dtype, take(tensor.bytes)));
            }
            "step" => {
                let mut buffers: Vec<_> = tensors.iter_mut().map(Tensor::buffers).collect();
                optimizer.as_mut().unwrap().step(&mut buffers).unwrap();
                tensors.iter_mut().for_each(|tensor| tensor.grad = None);
            }
            "expect" => {
                let tensor = &tensors[index[words[1]]];
                assert_eq!(tensor.value.bytes(), take(tensor.bytes), "{path:?}: {line}");
                met += 1;
            }
            other => panic!("{path:?}: a line begins with {other:?}, which is unknown"),
        }
    }
    assert!(rest.is_empty(), "{path:?}: unused bytes");
    met
}

#[test]
fn all_tapes_are_bit_identical_to_c() {
    let folder = fs::read_dir(from_environment("SHAMPOO_TAPES")).unwrap();
    let mut tapes: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    tapes.retain(|path| path.extension().map_or(false, |extension| extension == "tape"));
    tapes.sort();
    let met: usize = tapes.iter().map(|path| replay(path)).sum();
    println!("{} tapes, {met} comparisons", tapes.len());
    // The expected numbers are constants, so that the test fails if a tape is missing.
    assert_eq!((tapes.len(), met), (217, 6171));
}
