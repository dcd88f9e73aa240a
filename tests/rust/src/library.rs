// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Tests of the functions that take no optimizer: version, keys, backends, log, inverse roots, orthogonalization.

use crate::tools::{builder, config, model, optimizer, steps};
use libshampoo::{inverse_root, orthogonalize, Code, Config, Level, Optimizer, PlanOptions, RootMethod};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn the_library_has_the_version_of_the_crates() {
    let (major, minor, patch) = libshampoo::version();
    assert_eq!(format!("{major}.{minor}.{patch}"), shampoo_version_of_header());
    assert!(libshampoo::build_info().contains(&format!("\"{major}.{minor}.{patch}\"")));
}

fn shampoo_version_of_header() -> String {
    use libshampoo_sys::{SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR, SHAMPOO_VERSION_PATCH};
    format!("{SHAMPOO_VERSION_MAJOR}.{SHAMPOO_VERSION_MINOR}.{SHAMPOO_VERSION_PATCH}")
}

/// The script other_version.py runs this test, with a library that reports version 9.7.5.
#[test]
#[ignore = "needs a library of another version"]
fn another_version_is_rejected() {
    let errors = [
        Config::new().map(|_| ()).unwrap_err(),
        libshampoo::keys().map(|_| ()).unwrap_err(),
        libshampoo::backends().map(|_| ()).unwrap_err(),
        libshampoo::set_log(Level::Debug, |_, _| {}).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.message().contains("libshampoo 9.7.5 was loaded"), "{error}");
        assert!(error.message().contains(&shampoo_version_of_header()), "{error}");
    }
}

#[test]
fn keys_and_backends_are_listed() {
    let keys = libshampoo::keys().unwrap();
    let config = Config::new().unwrap();
    for key in &keys {
        assert_eq!(config.get(key.name).as_deref(), Some(key.default), "{}", key.name);
        assert!(!key.doc.is_empty() && !key.range.is_empty() && !key.value_type.is_empty(), "{}", key.name);
    }
    assert!(keys.iter().any(|key| key.name == "grafting" && !key.changeable && key.per_group));
    assert!(keys.iter().any(|key| key.name == "threads" && !key.per_group));
    let backends = libshampoo::backends().unwrap();
    let cpu = &backends[0];
    assert_eq!((cpu.name, cpu.usable, cpu.device_count, cpu.unavailable_reason), ("cpu", true, 1, ""));
    assert_eq!(backends[1].usable, backends[1].unavailable_reason.is_empty());
}

#[test]
fn log_messages_reach_the_callback() {
    let folder = std::env::temp_dir().join(format!("shampoo-rust-log-{}", std::process::id()));
    optimizer().save(None, &folder).unwrap();
    let seen: Arc<Mutex<Vec<(Level, String)>>> = Arc::default();
    let keep = Arc::clone(&seen);
    libshampoo::set_log(Level::Debug, move |level, message| keep.lock().unwrap().push((level, message.to_owned())))
        .unwrap();
    let mut other = config();
    other.set("beta2", 0.5).unwrap();
    let mut opt = Optimizer::new(&builder(&other, PlanOptions::default()).finish().unwrap()).unwrap();
    opt.load(None, &folder).unwrap();
    let count = |seen: &[(Level, String)]| seen.iter().filter(|(_, message)| message.contains("beta2")).count();
    assert_eq!(count(&seen.lock().unwrap()), 1, "{seen:?}");
    // The next call of `load` must succeed, although this callback panics.
    libshampoo::set_log(Level::Debug, |_, _| panic!("an intended panic of a log callback")).unwrap();
    // The previous callback is dropped as soon as no thread runs it.
    let patience = Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(&seen) > 1 {
        assert!(Instant::now() < patience, "the previous callback was not dropped");
        std::thread::sleep(Duration::from_millis(1));
    }
    opt.load(None, &folder).unwrap();
    libshampoo::clear_log().unwrap();
    opt.load(None, &folder).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let mut values = model();
    steps(&mut opt, &mut values, 0, 1);
}

#[test]
fn an_inverse_root_is_written_to_the_output() {
    let mut config = Config::new().unwrap();
    config.set("epsilon", 0.0).unwrap();
    // A matrix with the eigenvalues 1 and 3.
    let a = [2.0f64, 1.0, 1.0, 2.0];
    let (mut x, mut narrow) = ([0.0f64; 4], [0.0f32; 4]);
    let info = inverse_root(&config, 2, &a, &mut x, (2, 1)).unwrap();
    assert_eq!((info.method, info.converged, info.retried), (RootMethod::Eigen, 1, 0));
    let (sum, difference) = (1.0, 1.0 / 3f64.sqrt());
    assert!((x[0] - (difference + sum) / 2.0).abs() < 1e-15, "{x:?}");
    assert!((x[1] - (difference - sum) / 2.0).abs() < 1e-15, "{x:?}");
    inverse_root(&config, 2, &a.map(|value| value as f32), &mut narrow, (2, 1)).unwrap();
    assert!((f64::from(narrow[0]) - x[0]).abs() < 1e-6);
    for (name, method) in
        [("newton", RootMethod::Newton), ("higher_order", RootMethod::HigherOrder), ("cans", RootMethod::Cans)]
    {
        config.set("root_method", name).unwrap();
        let info = inverse_root(&config, 2, &a, &mut x, (2, 1)).unwrap();
        assert!(info.method == method && info.iterations > 0 && info.residual < 1e-4, "{info:?}");
    }

    let error = inverse_root(&config, 3, &a, &mut x, (2, 1)).unwrap_err();
    assert!(error.message().contains("a has 4 elements"), "{error}");
    let error = inverse_root(&config, 2, &[1i32; 4], &mut [0; 4], (2, 1)).unwrap_err();
    assert_eq!(error.code(), Code::Invalid);
    let error = inverse_root(&config, 1, &[f64::NAN], &mut [0.0], (2, 1)).unwrap_err();
    assert_eq!(error.code(), Code::Numeric);
}

#[test]
fn a_matrix_is_orthogonalized() {
    let mut config = Config::new().unwrap();
    config.set("method", "muon").unwrap().set("ns_coefficients", "1.5,-0.5,0").unwrap().set("ns_steps", 60).unwrap();
    let a = [3.0f64, 0.0, 0.0, 0.0, 0.0, -0.25];
    let mut x = [0.0f64; 6];
    orthogonalize(&config, (2, 3), &a, &mut x).unwrap();
    assert!((x[0] - 1.0).abs() < 1e-14 && (x[5] + 1.0).abs() < 1e-14, "{x:?}");
    assert_eq!(x[1..5], [0.0; 4]);

    let error = orthogonalize(&config, (3, 3), &a, &mut x).unwrap_err();
    assert!(error.message().contains("a has 6 elements"), "{error}");
    let error = orthogonalize(&config, (1, 1), &[f64::NAN], &mut [0.0]).unwrap_err();
    assert_eq!(error.code(), Code::Numeric);
}
