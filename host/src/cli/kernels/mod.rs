//! `cajeta kernels`: the selected backend's rows, or those that would serve a model, op by op.

mod registry;
mod decisions;
mod report;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cajeta::engine::{
    DEFAULT_CHUNK, DeviceRegistry, EngineOptions, Extent, Model, QUESTION_PASSES, ask_premises,
};
use cajeta::lower::{Placed, Segment, Sizes};
use cajeta::route::Registry;
use cajeta::tune::store::{Autotune, DeviceKey, tune_directory};
use cajeta::tune::{Nowhere, Prewarm, Tuning};
use cajeta_model_arch::plan::Plan;
use cajeta_plugin_host::SelectOptions;
use clap::Args;

use super::failure::{Failure, Outcome};
use super::lowering::{Lowering, open, usual_context};
use super::model::{BackendFlags, TuneFlags, load};
use super::output;
use decisions::Decisions;
use report::{Report, SegmentFacts, Shape};

const EXAMPLES: &str = "\
Examples:
  cajeta kernels                         every row of the selected backend
  cajeta kernels model.gguf              what a decode step and a prefill chunk of the model run on
  cajeta kernels model.gguf --all        with every row that stands behind, in its order
  cajeta kernels model.gguf --measure    measure what a load asks and has no answer yet, and keep it
  cajeta kernels model.gguf --prefer q4kWaveMatVec=q4kWaveMatVecAvx2
  cajeta kernels model.gguf --rows 64 --ctx 4096 --batch 4 --json
A row is declared, measured, stored or overridden. Under each table: what was measured, members of a
family that the device cannot run with the limit each exceeds, and rows that come first and do not serve
with the gates that refuse them. Whether matrix cores and widened weights pay is found by each load anew, \
and shown with --measure alone.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The GGUF file; its weights are not loaded unless something is measured
    model: Option<PathBuf>,
    /// Rows of the prefill chunk
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHUNK, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: u32,
    /// Positions the attention reaches; the model's trained context, at most 8192, if absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    /// Also show a decode step of this many sequences
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
    /// Load the model, measure what is not remembered, and keep it
    #[arg(long, requires = "model")]
    measure: bool,
    /// Also list every admitted row that stands behind, in its order
    #[arg(long, requires = "model")]
    all: bool,
    #[command(flatten)]
    tune: TuneFlags,
    #[command(flatten)]
    backend: BackendFlags,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Prints rows.
pub(crate) fn run(flags: Flags) -> Outcome {
    let select = flags.backend.resolve()?;
    let Some(path) = &flags.model else {
        let device = open(&select)?;
        // What is typed wrong is said, though there is nothing to prefer it for.
        Tuning::new(&device, None).fix(&flags.tune.prefer, device.backend().rows())?;
        return registry::print(&device, flags.json);
    };
    let model = Model::open(path)?;
    let trained = model.config.n_ctx_train;
    let ctx = flags.ctx.unwrap_or_else(|| usual_context(trained));
    if ctx > trained {
        return Err(Failure::work(format!(
            "--ctx {ctx} is more than the {trained} the model was trained for"
        )));
    }
    // Rotary factors may depend on how long the context is.
    let plan = Plan::build_for_context(&model.config, &model.file, ctx)?;
    let extent = Extent { ctx, chunk: flags.rows.min(ctx), seqs: flags.batch };
    let settled = if flags.measure {
        measured(path, &flags, select, &plan, extent)?
    } else {
        remembered(&flags, &select, &plan, extent)?
    };
    let Settled { lowering, tuning } = &settled;
    let device = lowering.registry.device();
    let key = DeviceKey::new(device.backend().id(), device.facts());
    let files = Autotune::open(tune_directory(flags.tune.tune_dir.as_deref()).as_deref(), &key);
    let answers = lowering.registry.answers();
    let decisions = Decisions { device, answers, tuning, files: &files };
    let report = Report {
        model: path.display().to_string(),
        backend: device.backend().id().to_owned(),
        device: device.facts().name.to_string(),
        segments: segments(lowering, &decisions)?,
        unused_overrides: tuning.unused_overrides(),
    };
    if flags.json { output::json(&report) } else { output::text(&text::describe(&report, flags.all)) }
}

fn segments(lowering: &Lowering<'_>, decisions: &Decisions<'_>) -> Outcome<Vec<SegmentFacts>> {
    let extent = lowering.extent;
    let prefill = extent.prefill(extent.chunk, 1);
    let mut segments = vec![("decode step", Segment::Step, extent.decode(1))];
    if extent.seqs > 1 {
        segments.push(("decode step", Segment::Step, extent.decode(extent.seqs)));
    }
    segments.push(("prefill chunk", Segment::Body, prefill));
    segments.push(("prefill tail", Segment::TailToken, prefill));
    let facts = |(name, segment, sizes): (&'static str, Segment, Sizes)| {
        let (program, choices) = (lowering.program(segment, &sizes)?, lowering.explain(segment, &sizes)?);
        let Sizes { rows, seqs, context, .. } = sizes;
        let shape = Shape { name, rows, sequences: seqs, context };
        Ok(SegmentFacts::new(shape, lowering, decisions, &program, &choices))
    };
    segments.into_iter().map(facts).collect()
}

/// A model lowered by what is known of its kernels.
struct Settled<'a> {
    lowering: Lowering<'a>,
    tuning: Arc<Tuning>,
}

/// By what is fixed, and what earlier runs measured about what a load asks. Nothing is timed.
fn remembered<'a>(
    flags: &Flags,
    select: &SelectOptions,
    plan: &'a Plan,
    extent: Extent,
) -> Outcome<Settled<'a>> {
    let device = open(select)?;
    let tuning = Tuning::new(&device, tune_directory(flags.tune.tune_dir.as_deref()).as_deref());
    tuning.fix(&flags.tune.prefer, device.backend().rows())?;
    let hold = tuning.hold();
    let mut registry = DeviceRegistry::new(device.clone());
    registry.obey(&tuning);
    let budget = flags.tune.widen_budget;
    registry.assume(ask_premises(&registry, &tuning, plan, extent.chunk, budget != Some(0))?);
    let mut lowering = Lowering::new(registry, plan, extent, budget)?;
    let everything = DeviceRegistry::new(device.clone());
    let usable = |row: &cajeta_abi::Row| everything.can_run(row);
    let mut prewarm = Prewarm::new(&tuning, &device, &usable)?;
    // A fusion that lost leaves its parts to be asked about.
    for _ in 0..QUESTION_PASSES {
        let known = prewarm.answers().len();
        for (segment, sizes) in extent.questions(&lowering.registry) {
            for Placed { row, problem, scalars, what, .. } in lowering.program(segment, &sizes)?.launches {
                match prewarm.launch(row, &problem, &scalars, &mut Nowhere) {
                    // As a load has it: what cannot be settled stays as declared.
                    Err(error) if !error.is_lost() => output::note(&format!("{what}: {error}")),
                    asked => asked?,
                }
            }
        }
        lowering.registry.settle(prewarm.answers().clone());
        if prewarm.answers().len() == known {
            break;
        }
    }
    lowering.registry.settle(prewarm.finish());
    drop(hold);
    Ok(Settled { lowering, tuning: Arc::new(tuning) })
}

/// By what a load knows, which measures what is not remembered and keeps it.
fn measured<'a>(
    path: &Path,
    flags: &Flags,
    select: SelectOptions,
    plan: &'a Plan,
    extent: Extent,
) -> Outcome<Settled<'a>> {
    if tune_directory(flags.tune.tune_dir.as_deref()).is_none() {
        let by = match flags.tune.tune_dir {
            Some(_) => "as --tune-dir says; name a folder there",
            None => "by CAJETA_LLM_TUNE_DIR or the settings; give --tune-dir DIR",
        };
        return Err(Failure::work(format!("measured choices are kept nowhere, {by}")));
    }
    let mut options = EngineOptions::new(path, select);
    options.ctx = Some(extent.ctx);
    options.chunk = extent.chunk;
    options.max_seqs = extent.seqs;
    options.warm_up = false;
    options.measure_all = true;
    flags.tune.apply(&mut options);
    let engine = load(&options)?;
    let known = &engine.runner().registry;
    let (premises, answers) = (known.premises().clone(), known.answers().clone());
    let (device, tuning) = (known.device().clone(), engine.tuning().clone());
    // Its memory is free again before the layouts that fit are chosen.
    drop(engine);
    let mut registry = DeviceRegistry::new(device);
    registry.obey(&tuning);
    registry.assume(premises);
    let mut lowering = Lowering::new(registry, plan, extent, flags.tune.widen_budget)?;
    lowering.registry.settle(answers);
    Ok(Settled { lowering, tuning })
}
