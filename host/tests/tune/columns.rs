//! Whether one launch over several sequences pays: asked of the steps of a model, remembered, and obeyed
//! by the steps that run.

use cajeta::engine::{DeviceRegistry, Extent, LlmEngine, Model, Sampling};
use cajeta::lower::{self, Segment, WeightKey};
use cajeta::tune::probes::cols::{Asked, Pair, pair};
use cajeta::tune::{Answers, Nowhere, Prewarm, Spent, Tuning};
use cajeta_abi::{FormatId, Problem, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_model_arch::tokenizer::Special;
use cajeta_plugin_host::{Device, SearchOptions, SelectOptions};

use crate::program::{model, plugins};
use crate::{Q4_K, device, open, tuning, usable};

const Q6_K: FormatId = FormatId(14);
const SEQS: u64 = 4;
const PROMPTS: [&str; SEQS as usize] = [
    "Once upon a time, there was a brave mouse named Nora.",
    "One day, a little girl went to the park with her dog.",
    "The old man had a",
    "Ben and Lily were playing in the garden when it began to",
];
/// Kernels for one row and for many round differently; only logits this close may change places.
const TIE: f32 = 0.02;

/// The rows that a question is between.
fn rivals(device: &Device, format: FormatId, columns: u64) -> Pair {
    let asked = Asked { format, columns, n: 256, k: 256, layout: None };
    let usable = usable(device);
    let admits = |row: &Row, _: &Problem| usable(row);
    pair(device.backend().rows(), &asked, &admits).expect("rows of both kinds")
}

/// What fixes that one launch pays, or that a launch a sequence does, for every format of the model.
fn fixed(device: &Device, pays: bool) -> Vec<(String, String)> {
    let of = |(format, name): (FormatId, &str), columns: u64| {
        let Pair { cols, single, .. } = rivals(device, format, columns);
        let row = device.backend().rows()[if pays { cols } else { single }].name.to_string();
        (format!("colsPays-{name}-b{columns}"), row)
    };
    let formats = [(Q4_K, "q4k"), (Q6_K, "q6k")];
    formats.iter().flat_map(|&format| [2, SEQS].map(|columns| of(format, columns))).collect()
}

/// An engine of four sequences with these answers, which is the same however fast the machine is.
fn engine(overrides: Vec<(String, String)>) -> LlmEngine {
    let mut select = SelectOptions::of_process(Vec::new());
    let built = plugins();
    select.search = SearchOptions::only(&[&built]);
    select.probe.program = Some(built.join("cajeta-probe"));
    select.force = Some("cpu".into());
    let mut options = cajeta::engine::EngineOptions::new(model(), select);
    options.tune_dir = Some("off".into());
    options.warm_up = false;
    options.ctx = Some(200);
    options.max_seqs = SEQS as u32;
    options.overrides = overrides;
    LlmEngine::load(&options, &mut |_, _| {}).expect("loads")
}

/// Launches of a step that begin with a product, by regime.
fn products(engine: &LlmEngine, regime: Regime) -> usize {
    let rows = engine.backend().rows();
    let costs = engine.decode_costs(SEQS as u32, 64).expect("lowered");
    let begins = |row: &Row| row.regime == regime && row.steps.first().map(|s| s.op) == Some(Op::Matmul.id());
    costs.iter().filter(|launch| begins(&rows[launch.row])).count()
}

#[test]
fn a_step_of_four_sequences_draws_the_same_whether_one_launch_pays_or_not() {
    let device = device();
    let [mut together, mut each] = [true, false].map(|pays| engine(fixed(&device, pays)));
    let of = |engine: &LlmEngine| [Regime::DECODE_ROW, Regime::DECODE_COLS].map(|r| products(engine, r));
    let ([none, once], [many, left]) = (of(&together), of(&each));
    assert_eq!((none, left), (0, 0), "one form for all products");
    assert!(once > 0 && many >= once * SEQS as usize && many % SEQS as usize == 0, "{once} and {many}");

    let ids = |prompt: &str| {
        let tokenizer = together.tokenizer();
        tokenizer.with_bos(tokenizer.encode(prompt, Special::Plain))
    };
    let prompts = PROMPTS.map(ids);
    let asked: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let answers =
        |engine: &mut LlmEngine| engine.generate_together(&asked, 24, &Sampling::GREEDY).expect("generates");
    let (expected, found) = (answers(&mut together), answers(&mut each));
    for (prompt, (expected, found)) in asked.iter().zip(expected.iter().zip(&found)) {
        let Some(at) = expected.iter().zip(found).position(|(a, b)| a != b) else {
            assert_eq!(expected.len(), found.len());
            continue;
        };
        let before = [prompt, &expected[..at]].concat();
        let scored = together.score(&before, 2, 1).expect("scores");
        let top = &scored.steps.last().expect("a step").top;
        assert!(top[0].1 - top[1].1 < TIE, "token {at}: {expected:?} and {found:?}, of {top:?}");
    }
}

/// What the launches of the model's steps of two and four sequences ask.
fn ask(device: &Device, tuning: &Tuning) -> Answers {
    let (plan, usable) = (Model::open(model().as_ref()).expect("reads").plan, usable(device));
    let registry = DeviceRegistry::new(device.clone());
    let extent = Extent { ctx: 64, chunk: 8, seqs: SEQS as u32 };
    let mut prewarm = Prewarm::new(tuning, device, &usable).expect("a queue");
    for seqs in [2, SEQS as u32] {
        let sizes = extent.decode(seqs);
        let program = lower::lower(&registry, &plan, Segment::Step, &sizes, &WeightKey::is_file);
        for launch in program.expect("lowers").launches {
            prewarm.launch(launch.row, &launch.problem, &launch.scalars, &mut Nowhere).expect("settled");
        }
    }
    prewarm.finish()
}

#[test]
fn each_format_and_number_of_sequences_is_asked_once_and_by_no_other_load() {
    let (device, folder) = (device(), tempfile::tempdir().expect("a folder"));
    let first = tuning(&device, folder.path());
    let answers = ask(&device, &first);
    let asked = [(Q4_K, "q4k"), (Q6_K, "q6k")].map(|(format, name)| [2, SEQS].map(|n| (format, name, n)));
    for (format, name, columns) in asked.into_iter().flatten() {
        let stored = first.store().recall(&format!("colsPays-{name}-b{columns}")).expect("kept");
        let Pair { single, .. } = rivals(&device, format, columns);
        let each = stored.value == device.backend().rows()[single].name.as_str();
        assert!(answers.cols_question(format, columns).is_some());
        assert_eq!(answers.launch_each(format, columns).is_some(), each);
        assert_eq!(stored.timings.len(), 2, "both forms were timed");
    }
    let second = tuning(&device, folder.path());
    let again = ask(&device, &second);
    assert_eq!(second.spent(), Spent::default(), "everything was remembered");
    for (format, _, columns) in asked.into_iter().flatten() {
        let each = |answers: &Answers| answers.launch_each(format, columns).is_some();
        assert_eq!(each(&again), each(&answers));
    }
}

#[test]
fn a_row_over_layouts_of_the_backends_own_is_checked_too() {
    let (device, folder) = (open("reference"), tempfile::tempdir().expect("a folder"));
    let rows = device.backend().rows();
    let own = |row: &&Row| {
        let alone = row.steps.len() == 1 && row.steps.iter().all(|step| step.op == Op::Matmul.id());
        let own = row.args.iter().find(|spec| spec.format == Q4_K).is_some_and(|spec| spec.layout.0 >= 256);
        alone && own && row.regime == Regime::DECODE_COLS
    };
    let row = rows.iter().find(own).expect("the reference backend has such a row");
    let layout = row.args.iter().find(|spec| spec.format == Q4_K).map(|spec| spec.layout);
    let asked = Asked { format: Q4_K, columns: 2, n: 32, k: 256, layout };
    let usable = usable(&device);
    let admits = |row: &Row, _: &Problem| usable(row);
    let found = pair(rows, &asked, &admits).expect("rows of both kinds");
    assert_eq!(rows[found.cols].name, row.name, "the row that reads the weight as the step does");

    let tuning = tuning(&device, folder.path());
    let mut probe = cajeta::tune::bench::RowProbe::new(&device).expect("a queue");
    let admitted = |row: &Row, _: &Problem, _: &[u8]| usable(row);
    let mut nowhere = || Ok(None);
    let arms =
        &mut cajeta::tune::probes::cols::DeviceArms::new(&device, &mut probe, found, &admitted, &mut nowhere);
    let differs = cajeta::tune::probes::cols::Arms::differs(arms).expect("it runs");
    assert_eq!(differs, None);
    let settled = cajeta::tune::probes::cols::settle(&tuning, arms, &found).expect("settled");
    assert!(settled.is_some(), "it was checked, and timed");
}
