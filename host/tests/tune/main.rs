//! Measured choices on real devices, as built: the processor's backend, and the reference backend, whose
//! device completes later than it is asked and shows nobody its memory.

mod commands;
mod calibrate;
mod load;
mod columns;
mod widened;
#[allow(dead_code)]
#[path = "../cli/program.rs"]
mod program;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cajeta::tune::bench::{RowBench, plain_scalars};
use cajeta::tune::store::{Autotune, BuildParts, DeviceKey, list};
use cajeta::tune::timer::{DeviceQueue, KernelTimer, Tier};
use cajeta::tune::{Answers, Nowhere, Prewarm, Spent, Tuning};
use cajeta_abi::{FormatId, Problem, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::{Device, open_path};

const Q4_K: FormatId = FormatId(12);

fn device() -> Device {
    open("cpu")
}

fn open(backend: &str) -> Device {
    let folder = Path::new(env!("CARGO_BIN_EXE_cajeta")).parent().expect("a folder");
    let library = folder.join(format!("libcajeta_backend_{backend}.so"));
    assert!(
        library.exists(),
        "{} is not built: run `cargo xtask test`, or `cargo build -p cajeta-backend-{backend}` first",
        library.display()
    );
    let backend = open_path(&library, None).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    backend.open(0).expect("the device opens")
}

/// Choices kept in a folder, on a device that nobody else uses: what the machine does meanwhile is not
/// what is tested.
fn tuning(device: &Device, folder: &Path) -> Tuning {
    let key = DeviceKey::new(device.backend().id(), device.facts());
    let parts = BuildParts::new(device.backend().version(), device.facts());
    Tuning::over(Autotune::open(Some(folder), &key), parts, Box::new(|| None))
}

/// Whether a device has what a row needs.
fn usable(device: &Device) -> impl Fn(&Row) -> bool + '_ {
    |row| row.needs.iter().all(|need| device.supports(need.capability).unwrap_or(false))
}

/// The first row of some ops, a regime and a format that the device supports.
fn row(device: &Device, ops: &[Op], regime: Regime) -> usize {
    let serves = |row: &Row| {
        let same = row.steps.iter().map(|step| step.op).eq(ops.iter().map(|op| op.id()));
        let reads = row.args.iter().any(|spec| spec.format == Q4_K);
        let runs = usable(device)(row);
        same && reads && runs && row.regime == regime
    };
    let found = device.backend().rows().iter().position(serves);
    found.unwrap_or_else(|| panic!("no row computes {ops:?}"))
}

/// Settles a prefill product, a mat-vec, a fused segment and the pay of columns.
fn settle(device: &Device, tuning: &Tuning) -> Answers {
    let usable = usable(device);
    let mut prewarm = Prewarm::new(tuning, device, &usable).expect("a queue");
    let problem = |m| Problem { m, n: 256, k: 512, batch: 1, aux: 0 };
    let launches = [
        (row(device, &[Op::Matmul], Regime::PREFILL_BATCH), problem(32)),
        (row(device, &[Op::Matmul], Regime::DECODE_ROW), problem(1)),
        (row(device, &[Op::Matmul, Op::Matmul, Op::Glu], Regime::DECODE_COLS), problem(4)),
        (row(device, &[Op::Matmul], Regime::DECODE_COLS), problem(4)),
    ];
    for (row, problem) in launches {
        let scalars = plain_scalars(&device.backend().rows()[row]).expect("no model needed");
        prewarm.launch(row, &problem, &scalars, &mut Nowhere).expect("settled");
    }
    end_step(device, &mut prewarm, 4);
    prewarm.finish()
}

/// The launch that ends a step: what the step asks as a whole is asked then.
fn end_step(device: &Device, prewarm: &mut Prewarm<'_>, m: u64) {
    let ends = |row: &Row| row.steps.iter().map(|step| step.op).eq([Op::Advance.id()]);
    let row = device.backend().rows().iter().position(ends).expect("a row ends steps");
    prewarm.launch(row, &Problem { m, ..Problem::default() }, &[], &mut Nowhere).expect("settled");
}

#[test]
fn a_second_load_runs_no_probe_and_says_the_same() {
    let (device, folder) = (device(), tempfile::tempdir().expect("a folder"));
    let first = tuning(&device, folder.path());
    let answers = settle(&device, &first);
    assert!(first.spent().stored > 0 && first.spent().memory == 0, "{:?}", first.spent());
    assert!(answers.cols_question(Q4_K, 4).is_some());

    let names: BTreeSet<String> =
        list(folder.path()).expect("listed").iter().map(|entry| entry.name()).collect();
    let expected = [
        "colsPays-q4k-b4",
        "colsSeg-gateup-512x512-b4.q4k",
        "mvVariant-q4k-256x512-c1",
        "shape.q4kPanelGemm.32x256x512",
        "shape.q4kPanelGemm.32x256x512.margin",
    ];
    // A processor without vector units has one member of each family, and nothing to choose.
    if device.facts().target.as_str() != "portable" {
        for name in expected {
            assert!(names.contains(name), "{name} is missing: {names:?}");
        }
    }

    let second = tuning(&device, folder.path());
    let again = settle(&device, &second);
    assert_eq!(second.spent(), Spent::default(), "everything was remembered");
    assert_eq!(again.len(), answers.len());
    let each = |answers: &Answers| answers.launch_each(Q4_K, 4).is_some();
    assert_eq!(each(&again), each(&answers));
}

#[test]
fn a_spent_budget_times_nothing_and_still_answers_what_is_remembered() {
    let (device, folder) = (device(), tempfile::tempdir().expect("a folder"));
    let usable = usable(&device);
    let index = row(&device, &[Op::Matmul], Regime::DECODE_ROW);
    let scalars = plain_scalars(&device.backend().rows()[index]).expect("no model needed");
    let load = |budget: Duration, n: u64| {
        let tuning = tuning(&device, folder.path());
        let mut prewarm = Prewarm::new(&tuning, &device, &usable).expect("a queue").within(budget);
        let problem = Problem { m: 1, n, k: 256, batch: 1, aux: 0 };
        prewarm.launch(index, &problem, &scalars, &mut Nowhere).expect("settled");
        (prewarm.finish().len(), tuning.spent().stored > 0)
    };
    let (settled, timed) = load(Duration::from_secs(3600), 128);
    assert_eq!(load(Duration::ZERO, 128), (settled, false), "remembered");
    assert_eq!(load(Duration::ZERO, 64), (0, false), "another shape");
    assert_eq!(timed, settled > 0);
}

#[test]
fn a_held_trial_launches_nothing_and_keeps_nothing() {
    let (device, folder) = (device(), tempfile::tempdir().expect("a folder"));
    let tuning = tuning(&device, folder.path());
    let hold = tuning.hold();
    let answers = settle(&device, &tuning);
    assert_eq!((tuning.spent(), answers.len()), (Spent::default(), 0));
    drop(hold);
    assert!(list(folder.path()).expect("listed").is_empty());
}

#[test]
fn a_store_that_cannot_be_written_tunes_once_in_a_run() {
    let (device, folder) = (device(), tempfile::tempdir().expect("a folder"));
    let blocked: PathBuf = folder.path().join("a file");
    std::fs::write(&blocked, "in the way").expect("written");
    let tuning = tuning(&device, &blocked);
    settle(&device, &tuning);
    let spent = tuning.spent();
    assert!(spent.stored > 0);
    settle(&device, &tuning);
    assert_eq!(tuning.spent(), spent, "the run remembers what the disk could not");
}

#[test]
fn the_devices_clock_agrees_with_the_hosts() {
    let device = device();
    let mut timer = KernelTimer::new(DeviceQueue::new(&device).expect("a queue"));
    let index = row(&device, &[Op::Matmul], Regime::DECODE_ROW);
    let problem = Problem { m: 1, n: 256, k: 512, batch: 1, aux: 0 };
    let scalars = plain_scalars(&device.backend().rows()[index]).expect("no model needed");
    let queue = timer.queue().queue();
    let bench = RowBench::new(&device, queue, index, &problem, &scalars, &|_| None).expect("operands");
    let side = std::cell::RefCell::new(device.queue().expect("a queue"));
    let arm = cajeta::tune::timer::Arm {
        name: "product".into(),
        launches: 1,
        most: u32::MAX,
        bracket_ns: cajeta::tune::timer::BRACKET_NS,
        prepare: Box::new(|launches| bench.list(&mut side.borrow_mut(), index, launches)),
    };
    let timings = timer.compare(&[arm]).expect("timed");
    assert!(timings[0].median_ns > 0.0, "{timings:?}");
    let Some(Tier::Event { scale }) = timer.tier() else { panic!("{:?}", timer.tier()) };
    assert!((0.5..=2.0).contains(&scale), "{scale}");
    // Every launch that ran is counted: two to warm, the clock's, a warm bracket and five rounds.
    assert!(timer.launches() >= 2 + 5, "{}", timer.launches());
}

#[test]
fn every_row_that_needs_no_model_is_settled_on_a_device_that_answers_late() {
    let (device, folder) = (open("reference"), tempfile::tempdir().expect("a folder"));
    let usable = usable(&device);
    let settle = || {
        let tuning = tuning(&device, folder.path());
        let mut prewarm = Prewarm::new(&tuning, &device, &usable).expect("a queue");
        let mut asked = 0;
        for (index, row) in device.backend().rows().iter().enumerate() {
            // One format, as in a model: keys of fused segments name none.
            let reads = row.args.iter().any(|spec| spec.format == Q4_K);
            let Some(scalars) = plain_scalars(row).ok().filter(|_| reads) else { continue };
            let problem = Problem { m: 2, n: 32, k: 256, batch: 1, aux: 0 };
            prewarm
                .launch(index, &problem, &scalars, &mut Nowhere)
                .unwrap_or_else(|error| panic!("{}: {error}", row.name));
            asked += 1;
        }
        end_step(&device, &mut prewarm, 2);
        (asked, prewarm.finish(), tuning.spent())
    };
    let (asked, answers, spent) = settle();
    assert!(asked >= 6 && !answers.is_empty() && spent.stored > 0, "{asked} rows, {spent:?}");
    let (_, again, spent) = settle();
    assert_eq!((again.len(), spent), (answers.len(), Spent::default()));
}
