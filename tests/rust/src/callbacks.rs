// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Checks that a callback may panic with any payload, and that a callback may call the library.

use crate::tools::{bits, builder, config, gradients, model, optimizer, step, steps, trained};
use libshampoo::{BoxError, Code, Comm, Communicator, Config, Executor, Level, Optimizer, PlanOptions};
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// A panic payload that panics when it is dropped.
struct Thrown;

impl Drop for Thrown {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
        panic_any(Again);
    }
}

/// The payload of the panic in `Thrown::drop`. This payload panics, too, when it is dropped.
struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        panic!("an intended panic: a payload was dropped");
    }
}

/// The communicator of the first of two ranks. The other rank is simulated: in each exchange it sends a copy of what
/// this rank sends. Each exchange then calls the field `exchange`. The method `abort` calls the field `abort`.
struct Hooks {
    exchange: Box<dyn Fn() -> Result<(), BoxError> + Send + Sync>,
    abort: Box<dyn Fn() + Send + Sync>,
}

impl Communicator for Hooks {
    fn rank(&self) -> usize {
        0
    }

    fn world(&self) -> usize {
        2
    }

    fn all_gather(&self, segments: &mut [u8]) -> Result<(), BoxError> {
        let (own, other) = segments.split_at_mut(segments.len() / 2);
        other.copy_from_slice(own);
        (self.exchange)()
    }

    fn has_abort(&self) -> bool {
        true
    }

    fn abort(&self) {
        (self.abort)();
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_any(Thrown);
        }
    }
}

fn with_comm(comm: &Comm) -> Optimizer {
    let plan = builder(&config(), PlanOptions::default().replica(0, 2).threads(1)).finish().unwrap();
    Optimizer::builder(&plan).replica_comm(comm).build().unwrap()
}

/// Creates an optimizer. From its first step on, each exchange of its communicator calls `exchange`.
fn failing(
    exchange: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    abort: impl Fn() + Send + Sync + 'static,
) -> Optimizer {
    let made = Arc::new(AtomicUsize::new(0));
    let stepping = Arc::clone(&made);
    let exchange = move || if stepping.load(Ordering::SeqCst) == 0 { Ok(()) } else { exchange() };
    let opt = with_comm(&Comm::new(Hooks { exchange: Box::new(exchange), abort: Box::new(abort) }).unwrap());
    made.store(1, Ordering::SeqCst);
    opt
}

#[test]
fn a_panic_payload_may_panic_when_it_is_dropped() {
    let mut opt = failing(|| panic_any(Thrown), || panic_any(Thrown));
    let error = step(&mut opt, &mut model(), &gradients(&model(), 0)).unwrap_err();
    assert!(error.code() == Code::Comm && error.message().contains("is not text"), "{error}");
    drop(opt); // the drop of the communicator panics, too

    struct Throws;

    impl Executor for Throws {
        fn threads(&self) -> usize {
            2
        }

        fn parallel_for(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {
            panic_any(Thrown);
        }
    }

    impl Drop for Throws {
        fn drop(&mut self) {
            panic_any(Thrown);
        }
    }

    let plan = builder(&config(), PlanOptions::default().threads(2)).finish().unwrap();
    let mut opt = Optimizer::builder(&plan).executor(Throws).build().unwrap();
    let mut values = model();
    steps(&mut opt, &mut values, 0, 4);
    assert_eq!(bits(&values), bits(&trained()));
    drop(opt);
    assert!(DROPPED.load(Ordering::SeqCst) >= 5);
}

#[test]
fn a_log_callback_may_panic_with_any_payload() {
    let messages = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&messages);
    libshampoo::set_log(Level::Debug, move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        panic_any(Thrown);
    })
    .unwrap();
    let folder = std::env::temp_dir().join(format!("shampoo-rust-callbacks-{}", std::process::id()));
    let mut other = config();
    other.set("lr", 0.5).unwrap();
    optimizer().save(None, &folder).unwrap();
    let mut opt = Optimizer::new(&builder(&other, PlanOptions::default()).finish().unwrap()).unwrap();
    opt.load(None, &folder).unwrap(); // logs that the learning rate differs
    libshampoo::clear_log().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(messages.load(Ordering::SeqCst) > 0);
}

#[test]
fn library_calls_in_abort_do_not_replace_the_cause() {
    let fails_too = || {
        Config::new().unwrap().set("none", 1.0).unwrap_err();
    };
    let mut opt = failing(|| Err("the cable is out".into()), fails_too);
    let error = step(&mut opt, &mut model(), &gradients(&model(), 0)).unwrap_err();
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the cable is out");
}

/// The communicator returns an error of the type `Calls`. Dropping this error calls the library.
#[test]
fn the_destructor_of_an_error_of_a_communicator_may_call_the_library() {
    #[derive(Debug)]
    struct Calls;

    impl std::fmt::Display for Calls {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("it calls")
        }
    }

    impl std::error::Error for Calls {}

    impl Drop for Calls {
        fn drop(&mut self) {
            Config::new().unwrap().set("none", 1.0).unwrap_err();
        }
    }

    let mut opt = failing(|| Err(Box::new(Calls)), || ());
    for _ in 0..2 {
        let error = step(&mut opt, &mut model(), &gradients(&model(), 0)).unwrap_err();
        assert_eq!(error.code(), Code::Comm, "{error}");
    }
}

/// A communicator contains a buffer of the library. Two exchanges at the same time would both write to this buffer.
#[test]
fn calls_are_rejected_while_another_call_uses_their_communicator() {
    let other: Arc<Mutex<Option<Optimizer>>> = Arc::default();
    let rejected = Arc::new(AtomicUsize::new(0));
    let (inner, count) = (Arc::clone(&other), Arc::clone(&rejected));
    let exchange = move || -> Result<(), BoxError> {
        // While the optimizers are created, `other` is None, and exchanges succeed.
        if let Some(opt) = inner.try_lock().ok().as_mut().and_then(|opt| opt.as_mut()) {
            let error = step(opt, &mut model(), &gradients(&model(), 0)).unwrap_err();
            assert_eq!(error.code(), Code::State, "{error}");
            assert!(error.message().contains("one after another"), "{error}");
            assert_eq!(opt.status(true).unwrap_err().code(), Code::State);
            assert_eq!(opt.save(None, "nowhere").unwrap_err().code(), Code::State);
            assert_eq!(opt.stat("steps").unwrap(), 0.0);
            count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    };
    let comm = Comm::new(Hooks { exchange: Box::new(exchange), abort: Box::new(|| ()) }).unwrap();
    let mut first = with_comm(&comm);
    *other.lock().unwrap() = Some(with_comm(&comm));
    let (mut ours, mut theirs) = (model(), model());
    steps(&mut first, &mut ours, 0, 4);
    assert!(rejected.load(Ordering::SeqCst) > 0);
    // Both optimizers can step one after another.
    let mut second = other.lock().unwrap().take().unwrap();
    steps(&mut second, &mut theirs, 0, 4);
    assert_eq!(bits(&ours), bits(&theirs));
    let folder = std::env::temp_dir().join(format!("shampoo-rust-one-call-{}", std::process::id()));
    // `save` accepts the communicator of the optimizer, and exchanges data with it. Then `save` fails, because the
    // simulated rank reports the same files as this rank.
    assert_eq!(second.save(Some(&comm), &folder).unwrap_err().code(), Code::Io);
    std::fs::remove_dir_all(folder).unwrap();
}
