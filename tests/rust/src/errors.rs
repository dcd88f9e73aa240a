// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Checks that an error names the wrong input that has caused it, and that a call that fails changes nothing.

use crate::tools::{bits, builder, config, gradients, model, optimizer, step, steps, trained};
use libshampoo::{Buffers, Code, Comm, Config, Device, Error, Optimizer, Param, PlanBuilder, PlanOptions, Shard};

/// Checks the code of an error, and that its message contains all `words`.
#[track_caller]
fn expect<T: std::fmt::Debug>(result: Result<T, Error>, code: Code, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in {error}");
    }
}

#[test]
fn unknown_keys_and_wrong_values_are_rejected() {
    let mut config = Config::new().unwrap();
    expect(config.set("graftin", "adam").map(|_| ()), Code::Invalid, &["graftin", "grafting"]);
    expect(config.set("lr", -1.0).map(|_| ()), Code::Invalid, &["lr", "-1"]);
    expect(config.set("lr", "fast").map(|_| ()), Code::Invalid, &["lr", "fast"]);
    expect(config.set("precondition_frequency", 1.5).map(|_| ()), Code::Invalid, &["precondition_frequency"]);
    expect(config.set("precondition_frequency", usize::MAX).map(|_| ()), Code::Invalid, &["18446744073709551615"]);
    expect(config.set("lr", "1\0").map(|_| ()), Code::Invalid, &["lr", "zero byte"]);
    expect(config.set("l\0r", 1.0).map(|_| ()), Code::Invalid, &["zero byte"]);
    assert_eq!(config.get("lr").unwrap(), Config::new().unwrap().get("lr").unwrap());
    assert_eq!(config.get("graftin"), None);
}

#[test]
fn keys_accept_values_of_all_types() {
    let mut config = Config::new().unwrap();
    config
        .set("lr", 2)
        .unwrap()
        .set("use_nesterov", true)
        .unwrap()
        .set("factor_dtype", libshampoo::Dtype::Bf16)
        .unwrap();
    config.set("inverse_root_override", [0, 2, 4]).unwrap().set("grafting_beta2", None::<f64>).unwrap();
    config.set("beta1", Some(0.5)).unwrap().set("max_preconditioner_dim", 64usize).unwrap();
    config.set("grafting", String::from("sgd")).unwrap();
    for (key, value) in [
        ("lr", "2"),
        ("use_nesterov", "true"),
        ("factor_dtype", "bf16"),
        ("inverse_root_override", "0,2,4"),
        ("grafting_beta2", "auto"),
        ("beta1", "0.5"),
        ("max_preconditioner_dim", "64"),
        ("grafting", "sgd"),
    ] {
        assert_eq!(config.get(key).as_deref(), Some(value), "{key}");
        assert_eq!(config.try_clone().unwrap().get(key).as_deref(), Some(value), "{key}");
    }
    assert!(format!("{config:?}").contains("inverse_root_override"));
}

#[test]
fn wrong_parameters_and_plan_options_are_rejected() {
    let mut plan = PlanBuilder::new(&config(), PlanOptions::default()).unwrap();
    plan.param(Param::new("w", &[2, 3])).unwrap();
    expect(plan.param(Param::new("w", &[2])), Code::Invalid, &["w"]);
    expect(plan.param(Param::new("", &[2])), Code::Invalid, &["name"]);
    expect(plan.param(Param::new("a\0b", &[2])), Code::Invalid, &["zero byte"]);
    expect(plan.param(Param::new("nine", &[1; 9])), Code::Invalid, &["nine", "9 numbers", "8"]);
    expect(plan.param(Param::new("far", &[2]).group(3)), Code::Invalid, &["far", "3"]);
    expect(plan.param(Param::new("large", &[usize::MAX])), Code::Invalid, &["large", "18446744073709551615"]);
    expect(plan.param(Param::new("i", &[2]).dtype(libshampoo::Dtype::I32)), Code::Invalid, &["i"]);
    let rectangle = Shard::Rectangle { offset: vec![0], shape: vec![1, 3] };
    expect(
        plan.param(Param::new("r", &[2, 3]).shard(rectangle)),
        Code::Invalid,
        &["an offset of length 1", "expected the length 2"],
    );
    let flat = Shard::Flat { offset: 4, count: 3 };
    expect(plan.param(Param::new("f", &[2, 3]).shard(flat.clone())), Code::Invalid, &["f"]);
    expect(plan.shard(7, 0, &flat), Code::Invalid, &["parameter 7", "index below 1"]);
    assert_eq!(plan.param(Param::new("b", &[2])).unwrap(), 1, "a rejected parameter was added");
    let plan = plan.finish().unwrap();
    expect(plan.bytes("rent"), Code::Invalid, &["rent"]);
    expect(plan.bytes_on(1, "state"), Code::Invalid, &["1"]);
    expect(PlanBuilder::new(&config(), PlanOptions::default().replica(2, 2)), Code::Invalid, &["2"]);
    expect(PlanBuilder::new(&config(), PlanOptions::default().threads(1 << 40)), Code::Invalid, &["1099511627776"]);
}

#[test]
fn wrong_buffers_are_rejected() {
    let mut opt = optimizer();
    let (mut values, grads) = (model(), gradients(&model(), 0));
    steps(&mut opt, &mut values, 0, 1);
    let before = bits(&values);
    expect(opt.step(&mut []), Code::Invalid, &["0 buffers", "expected 3"]);
    let short = [0.0f32; 11];
    let (a, rest) = values.split_at_mut(1);
    let (b, c) = rest.split_at_mut(1);
    let (a, b, c) = (&mut a[0], &mut b[0], &mut c[0]);
    let mut buffers = [Buffers::new(a).with_grad(&grads[0]), Buffers::new(b).with_grad(&short), Buffers::new(c)];
    expect(opt.step(&mut buffers), Code::Invalid, &["\"p1\"", "the gradient has 11 elements", "expected 12"]);
    let [a, _, c] = buffers;
    let mut doubles = [0.0f64; 12];
    let mut buffers = [a, Buffers::new(&mut doubles), c];
    expect(opt.step(&mut buffers), Code::Invalid, &["\"p1\"", "the parameter has the dtype f64", "expected f32"]);
    let [a, _, c] = buffers;
    let frozen = [0.0f32; 12];
    let mut buffers = [a, Buffers::read_only(&frozen).with_grad(&grads[1]), c];
    expect(opt.step(&mut buffers), Code::Invalid, &["\"p1\"", "with_out()"]);
    assert_eq!(bits(&values), before);
    // If a rejected step had changed the state, later steps would give other parameters.
    steps(&mut opt, &mut values, 1, 4);
    assert_eq!(bits(&values), bits(&trained()));
}

#[test]
fn a_gradient_that_is_not_finite_changes_nothing() {
    let (mut opt, mut values) = (optimizer(), model());
    steps(&mut opt, &mut values, 0, 2);
    let before = bits(&values);
    let mut grads = gradients(&model(), 2);
    grads[1][3] = f32::NAN;
    expect(step(&mut opt, &mut values, &grads), Code::Numeric, &["p1", "3"]);
    assert_eq!(bits(&values), before);
    steps(&mut opt, &mut values, 2, 4);
    assert_eq!(bits(&values), bits(&trained()));
}

#[test]
fn wrong_keys_values_and_counters_are_rejected() {
    let mut opt = optimizer();
    expect(opt.set(0, "grafting", 1.0), Code::Invalid, &["grafting"]);
    expect(opt.set(5, "lr", 1.0), Code::Invalid, &["5"]);
    expect(opt.set(0, "momentum", 0.5), Code::State, &["momentum"]);
    expect(opt.set_lr(f64::NAN), Code::Invalid, &["lr"]);
    expect(opt.get(0, "grafting"), Code::Invalid, &["grafting"]);
    expect(opt.stat("luck"), Code::Invalid, &["luck"]);
    assert_eq!(opt.get(0, "lr").unwrap(), 0.1);
}

#[test]
fn missing_devices_and_backends_are_reported() {
    let plan = builder(&config(), PlanOptions::default()).finish().unwrap();
    expect(Optimizer::builder(&plan).device_id(3).build(), Code::Invalid, &["3"]);
    let plan = builder(&config(), PlanOptions::default().replica(0, 2)).finish().unwrap();
    expect(Optimizer::new(&plan), Code::Invalid, &["replica_comm"]);
    let cuda = libshampoo::backends().unwrap().into_iter().find(|backend| backend.name == "cuda").unwrap();
    if !cuda.usable {
        let plan = builder(&config(), PlanOptions::default().device(Device::Cuda)).finish().unwrap();
        expect(Optimizer::new(&plan), Code::Unsupported, &[]);
    }
    expect(libshampoo::load_backend("/no/such/file.so"), Code::Unsupported, &["/no/such/file.so"]);
    // SAFETY: the NULL handle is rejected before it is used.
    expect(unsafe { Comm::from_nccl(std::ptr::null_mut(), None) }, Code::Invalid, &["nccl_comm"]);
}

#[test]
fn errors_implement_the_traits_of_rust() {
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_error::<Error>();
    let error = optimizer().stat("luck").unwrap_err();
    assert_eq!(error.to_string(), error.message());
    assert_eq!(error.step(), None);
    assert!(std::error::Error::source(&error).is_none());
}
