// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Tests of the buffers, groups, hyper-parameters and threads of an optimizer.

use crate::tools::{bits, builder, config, gradients, model, optimizer, steps, trained, SHAPES};
use libshampoo::{Bf16, Buffers, Config, Dtype, Fan, Optimizer, Param, PlanBuilder, PlanOptions, Role, Shard, F16};

fn one_param(config: &Config, param: Param) -> Optimizer {
    let mut plan = PlanBuilder::new(config, PlanOptions::default()).unwrap();
    plan.param(param).unwrap();
    Optimizer::new(&plan.finish().unwrap()).unwrap()
}

#[test]
fn averages_are_exported() {
    let mut opt = Optimizer::create("method=sgd lr=0.5 weight_ema=0.75", [Param::new("w", &[2])]).unwrap();
    let mut w = [1.0f32, 2.0];
    let mut average = [0.0f32; 2];
    for gradient in [[1.0f32, 0.0], [1.0, 2.0]] {
        opt.step(&mut [Buffers::new(&mut w).with_grad(&gradient)]).unwrap();
    }
    assert_eq!(w, [0.0, 1.0]);
    opt.export(1.0, &mut [Buffers::read_only(&w).with_out(&mut average)]).unwrap();
    assert_eq!(average, [0.75 * 0.5, 0.75 * 2.0 + 0.25]);
    opt.export(0.0, &mut [Buffers::read_only(&w).with_out(&mut average)]).unwrap();
    assert_eq!(average, w);
    opt.export(1.0, &mut [Buffers::read_only(&w)]).unwrap(); // skips a parameter without an output

    let error = opt.export(1.5, &mut [Buffers::read_only(&w).with_out(&mut average)]).unwrap_err();
    assert!(error.message().contains("blend is 1.5"), "{error}");
    let error = opt.export(1.0, &mut []).unwrap_err();
    assert!(error.message().contains("export: 0 buffers; expected 1"), "{error}");
}

#[test]
fn create_gives_the_same_results_as_a_config_and_a_plan() {
    let options = "lr=0.25 beta1=0.5";
    let mut config = Config::new().unwrap();
    config.parse(options).unwrap();
    let mut full = one_param(&config, Param::new("w", &[2, 3]));
    let mut simple = Optimizer::create(options, [Param::new("w", &[2, 3])]).unwrap();
    let (mut w, mut v) = ([2.0f32; 6], [2.0f32; 6]);
    for _ in 0..3 {
        simple.step(&mut [Buffers::new(&mut w).with_grad(&[1.0f32; 6])]).unwrap();
        full.step(&mut [Buffers::new(&mut v).with_grad(&[1.0f32; 6])]).unwrap();
    }
    assert_eq!(w, v);
    assert!(w[0] < 2.0);
    for (options, says) in [("lr", "key lr has no value"), ("lrr=1", "did you mean lr?"), ("a=\0", "options")] {
        let error = Optimizer::create(options, [Param::new("w", &[2])]).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Returns the loss of a linear model, and writes the gradients of the loss. The values that minimize the loss are
/// between -1/2 and 1/2.
fn loss_of(w: &[f32; 12], b: &[f32; 3], of_w: &mut [f32; 12], of_b: &mut [f32; 3]) -> f32 {
    let mut loss = 0.0;
    (*of_w, *of_b) = ([0.0; 12], [0.0; 3]);
    for sample in 0..8 {
        let input = [0, 1, 2, 3].map(|j| ((1 + 5 * sample + 2 * j) as f32).sin());
        for i in 0..3 {
            let off = |at: usize| w[at] - ((at % 5) as f32 - 2.0) * 0.25;
            let error: f32 = b[i] - (i as f32 - 1.0) * 0.5 + (0..4).map(|j| off(4 * i + j) * input[j]).sum::<f32>();
            (0..4).for_each(|j| of_w[4 * i + j] += error * input[j]);
            of_b[i] += error;
            loss += 0.5 * error * error;
        }
    }
    loss
}

#[test]
fn an_optimizer_from_the_preset_soap_trains() {
    let params = [Param::new("w", &[3, 4]), Param::new("b", &[3])];
    let mut opt = Optimizer::create("preset = soap", params).unwrap();
    let keys: Vec<_> = opt.state().unwrap().into_iter().map(|entry| entry.key).collect();
    let bases: Vec<_> = keys.iter().filter(|key| key.contains("basis")).collect();
    assert_eq!(bases, ["w/0/basis.0", "w/0/basis.1"], "expected bases for the matrix only");
    let (mut w, mut b, mut of_w, mut of_b) = ([0.0f32; 12], [0.0f32; 3], [0.0f32; 12], [0.0f32; 3]);
    let first = loss_of(&w, &b, &mut of_w, &mut of_b);
    let mut loss = first;
    for step in 0..300 {
        opt.step(&mut [Buffers::new(&mut w).with_grad(&of_w), Buffers::new(&mut b).with_grad(&of_b)]).unwrap();
        loss = loss_of(&w, &b, &mut of_w, &mut of_b);
        assert!(loss <= first, "step {step}: {loss}");
    }
    assert!(loss < 0.01 * first, "{first} {loss}");
}

#[test]
fn updates_are_written_to_a_separate_buffer() {
    let mut updates = config();
    updates.set("output", "updates").unwrap();
    let (start, grad) = ([1.0f32, 2.0, 3.0], [0.5f32, -0.5, 1.0]);
    let mut stepped = start;
    one_param(&config(), Param::new("w", &[3])).step(&mut [Buffers::new(&mut stepped).with_grad(&grad)]).unwrap();

    let mut out = [7.0f32; 3];
    let mut opt = one_param(&updates, Param::new("w", &[3]));
    let mut buffers = [Buffers::read_only(&start).with_grad(&grad).with_out(&mut out)];
    opt.step(&mut buffers).unwrap();
    assert!(buffers[0].param_mut::<f32>().is_none(), "a read-only parameter was returned as mutable");
    assert_eq!(buffers[0].out::<f32>().unwrap().len(), 3);
    for i in 0..3 {
        assert_eq!(start[i] + out[i], stepped[i]);
    }
    // This step would write the update over the parameter, so the library rejects the step.
    let mut values = start;
    let error = opt.step(&mut [Buffers::new(&mut values).with_grad(&grad)]).unwrap_err();
    assert!(error.message().contains("with_out()"), "{error}");
    assert_eq!(values, start);
}

#[test]
fn a_group_that_outputs_updates_leaves_its_parameters_unchanged() {
    for (first, second) in [("parameters", "updates"), ("updates", "parameters")] {
        let mut configs = [config(), config()];
        configs[0].set("output", first).unwrap();
        configs[1].set("output", second).unwrap();
        let mut plan = PlanBuilder::new(&configs[0], PlanOptions::default()).unwrap();
        let group = plan.group(&configs[1]).unwrap();
        let (updated, other) = if second == "updates" { (group, 0) } else { (0, group) };
        plan.param(Param::new("updated", &[2]).group(updated)).unwrap();
        plan.param(Param::new("stepped", &[2]).group(other)).unwrap();
        let mut opt = Optimizer::new(&plan.finish().unwrap()).unwrap();
        let (mut updated, mut stepped, mut out, grad) = ([1.0f32; 2], [1.0f32; 2], [7.0f32; 2], [1.0f32; 2]);
        let mut in_place = [Buffers::new(&mut updated).with_grad(&grad), Buffers::new(&mut stepped).with_grad(&grad)];
        let error = opt.step(&mut in_place).unwrap_err();
        assert!(error.message().contains("\"updated\"") && error.message().contains("with_out()"), "{error}");
        let apart = Buffers::new(&mut updated).with_grad(&grad).with_out(&mut out);
        opt.step(&mut [apart, Buffers::new(&mut stepped).with_grad(&grad)]).unwrap();
        assert_eq!(updated, [1.0; 2]);
        assert_eq!(1.0 + out[0], stepped[0]);
    }
}

#[test]
fn roles_and_row_splits_describe_a_parameter() {
    let blocks = |param: Param| {
        let mut plan = PlanBuilder::new(&Config::new().unwrap(), PlanOptions::default()).unwrap();
        plan.param(param).unwrap();
        let plan = plan.finish().unwrap();
        let shapes: Vec<_> = plan.blocks().unwrap().into_iter().map(|block| block.shape).collect();
        (plan.bytes("state").unwrap(), shapes)
    };
    let (hidden, _) = blocks(Param::new("w", &[6, 4]));
    for role in [Role::Vector, Role::Embedding, Role::Head] {
        assert!(blocks(Param::new("w", &[6, 4]).role(role)).0 < hidden);
    }
    let rows = Param::new("w", &[9, 5]).row_splits(&[4, 2, 3], Fan::OutIn);
    assert_eq!(blocks(rows).1, [[4, 5], [2, 5], [3, 5]]);
    let columns = Param::new("w", &[5, 6]).row_splits(&[2], Fan::InOut);
    assert_eq!(blocks(columns).1, [[5, 2], [5, 2], [5, 2]]);
}

#[test]
fn a_copy_is_the_rounded_parameter() {
    let mut opt = one_param(&config(), Param::new("w", &[2, 2]).copy_dtype(Dtype::Bf16));
    let (mut w, grad, mut copy) = ([1.0f32, -2.0, 3.0, -4.0], [1.0f32; 4], [Bf16(0); 4]);
    let mut buffers = [Buffers::new(&mut w).with_grad(&grad).with_copy(&mut copy)];
    opt.step(&mut buffers).unwrap();
    assert!(buffers[0].copy::<f32>().is_none(), "the copy was returned with a wrong dtype");
    for (value, copied) in w.iter().zip(copy) {
        let widened = f32::from_bits(u32::from(copied.0) << 16);
        assert!((widened - value).abs() <= value.abs() / 256.0, "{widened} {value}");
    }
}

#[test]
fn a_parameter_without_a_gradient_does_not_change() {
    let (mut values, grads, mut opt) = (model(), gradients(&model(), 0), optimizer());
    let mut buffers: Vec<_> = values.iter_mut().map(|value| Buffers::new(value)).collect();
    let second = buffers.remove(1).with_grad(&grads[1]);
    buffers.insert(1, second);
    opt.step(&mut buffers).unwrap();
    let (now, before) = (bits(&values), bits(&model()));
    assert_eq!([now[0] == before[0], now[1] == before[1], now[2] == before[2]], [true, false, true]);
}

#[test]
fn groups_have_their_own_hyper_parameters() {
    let mut other = config();
    other.set("lr", 0.01).unwrap();
    let mut plan = PlanBuilder::new(&config(), PlanOptions::default()).unwrap();
    let group = plan.group(&other).unwrap();
    plan.param(Param::new("a", &[4])).unwrap();
    plan.param(Param::new("b", &[4]).group(group)).unwrap();
    let plan = plan.finish().unwrap();
    assert_eq!((plan.param_count(), plan.group_count(), group), (2, 2, 1));
    let mut opt = Optimizer::new(&plan).unwrap();
    assert_eq!((opt.get(0, "lr").unwrap(), opt.get(1, "lr").unwrap()), (0.1, 0.01));
    opt.set(1, "lr", 0.5).unwrap();
    assert_eq!((opt.get(0, "lr").unwrap(), opt.get(1, "lr").unwrap()), (0.1, 0.5));
    opt.set_lr(0.0).unwrap();
    assert_eq!((opt.get(0, "lr").unwrap(), opt.get(1, "lr").unwrap()), (0.0, 0.0));
    let (mut a, mut b, grad) = ([1.0f32; 4], [2.0f32; 4], [1.0f32; 4]);
    opt.step(&mut [Buffers::new(&mut a).with_grad(&grad), Buffers::new(&mut b).with_grad(&grad)]).unwrap();
    assert_eq!((a, b), ([1.0; 4], [2.0; 4]), "a learning rate of 0 must not change parameters");
    opt.status(true).unwrap();
    assert_eq!(opt.stat("steps").unwrap(), 1.0);
}

#[test]
fn a_learning_rate_is_set_in_all_groups_or_in_none() {
    let mut plan = PlanBuilder::new(&config(), PlanOptions::default()).unwrap();
    let group = plan.group(&config()).unwrap();
    plan.param(Param::new("wide", &[4]).dtype(Dtype::F64)).unwrap();
    plan.param(Param::new("narrow", &[4]).group(group)).unwrap();
    let mut opt = Optimizer::new(&plan.finish().unwrap()).unwrap();
    let error = opt.set_lr(1e300).unwrap_err(); // valid for "wide", but above the largest float32
    assert!(error.message().contains("lr"), "{error}");
    assert_eq!((opt.get(0, "lr").unwrap(), opt.get(1, "lr").unwrap()), (0.1, 0.1));
    opt.set_lr(0.5).unwrap();
    assert_eq!((opt.get(0, "lr").unwrap(), opt.get(1, "lr").unwrap()), (0.5, 0.5));
}

#[test]
fn an_optimizer_outlives_its_config_and_plan_and_moves_to_another_thread() {
    let plan = builder(&config(), PlanOptions::default()).finish().unwrap();
    let mut first = Optimizer::new(&plan).unwrap();
    drop(plan);
    let mut values = model();
    steps(&mut first, &mut values, 0, 2);
    let values = std::thread::spawn(move || {
        steps(&mut first, &mut values, 2, 4);
        values
    });
    assert_eq!(bits(&values.join().unwrap()), bits(&trained()));
}

#[test]
fn descriptions_of_parameters_take_effect() {
    let mut plan = PlanBuilder::new(&config(), PlanOptions::default().shard(1, 2).threads(3)).unwrap();
    plan.param(Param::new("stacked", &[2, 2, 3]).stack_dims(1)).unwrap();
    let rectangle = Shard::Rectangle { offset: vec![0, 3], shape: vec![8, 4] };
    plan.param(Param::new("cut", &[8, 7]).shard(rectangle)).unwrap();
    let plan = plan.finish().unwrap();
    let blocks = plan.blocks().unwrap();
    assert_eq!((blocks[0].param, blocks[1].param, blocks[2].param), (0, 0, 1));
    assert_eq!(blocks[1].flat_offset, 6, "each stacked tensor must have its own block");
    assert_eq!((&blocks[2].shape[..], blocks[2].of_shard), (&[8, 4][..], true));
    let mut opt = Optimizer::new(&plan).unwrap();
    assert_eq!(opt.get(0, "threads").unwrap(), 3.0);
    let (mut stacked, mut cut) = ([1.0f32; 12], [1.0f32; 32]);
    opt.step(&mut [Buffers::new(&mut stacked), Buffers::new(&mut cut)]).unwrap();
}

#[test]
fn each_buffer_may_have_its_own_dtype() {
    let (start, grad) = ([1.0f32, -2.0, 3.0, 0.5], [1.0f32, -1.0, 2.0, 0.5]);
    let mut stepped = start;
    one_param(&config(), Param::new("w", &[4])).step(&mut [Buffers::new(&mut stepped).with_grad(&grad)]).unwrap();

    let narrow = grad.map(|value| Bf16((value.to_bits() >> 16) as u16)); // exact, because the lower 16 bits are 0
    let (mut out, mut copy) = ([0.0f64; 4], [F16(0); 4]);
    let param = Param::new("w", &[4]).grad_dtype(Dtype::Bf16).out_dtype(Dtype::F64).copy_dtype(Dtype::F16);
    let buffers = Buffers::read_only(&start).with_grad(&narrow).with_out(&mut out).with_copy(&mut copy);
    one_param(&config(), param).step(&mut [buffers]).unwrap();
    assert_eq!(out, stepped.map(f64::from));
    for (half, value) in copy.iter().zip(&stepped) {
        // A normal binary16 number has 5 bits of exponent, with bias 15, and 10 bits of fraction.
        let (exponent, fraction) = (i32::from(half.0 >> 10 & 31) - 15, f32::from(half.0 & 1023) / 1024.0);
        let sign = if half.0 >> 15 == 1 { -1.0 } else { 1.0 };
        let widened = sign * (1.0 + fraction) * 2f32.powi(exponent);
        assert!((widened - value).abs() <= value.abs() / 2048.0, "{widened} {value}");
    }
}

#[test]
fn a_plan_describes_blocks_and_bytes() {
    let plan = builder(&config(), PlanOptions::default().replica(1, 2)).finish().unwrap();
    let blocks = plan.blocks().unwrap();
    assert_eq!(blocks[0].shape, [8, 8]);
    assert_eq!(blocks[0].stride, [8, 1]);
    let held: usize = blocks.iter().map(|block| block.shape.iter().product::<usize>()).sum();
    assert_eq!(held, SHAPES.iter().map(|shape| shape.iter().product::<usize>()).sum());
    assert!(blocks.iter().any(|block| block.owner == 0) && blocks.iter().any(|block| block.owner == 1));
    let total = plan.bytes("state").unwrap() + plan.bytes("workspace").unwrap();
    assert_eq!(plan.bytes("total").unwrap(), total);
    assert_eq!(plan.bytes_on(1, "total").unwrap(), total);
    assert!(plan.bytes("comm").unwrap() > 0);
    assert!(plan.to_string().contains("3 parameters"), "{plan}");
}
