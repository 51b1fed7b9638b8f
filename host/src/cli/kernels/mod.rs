//! `cajeta kernels`: the selected backend's rows, or those that would serve a model, op by op.

mod registry;
mod decisions;
mod report;
mod text;

use std::path::{Path, PathBuf};

use cajeta::engine::{DEFAULT_CHUNK, EngineOptions, Extent, Model};
use cajeta::lower::{Placed, Segment, Sizes};
use cajeta::route::Registry;
use cajeta::tune::store::tune_directory;
use cajeta::tune::{Answers, Nowhere, Prewarm, Tuning};
use cajeta_model_arch::plan::Plan;
use cajeta_plugin_host::{Device, SelectOptions};
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
with the gates that refuse them.";

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
    let device = open(&select)?;
    let extent = Extent { ctx, chunk: flags.rows.min(ctx), seqs: flags.batch };
    let mut lowering = Lowering::new(&device, &plan, extent)?;
    let measured = if flags.measure { Some(measure(path, &flags, select, extent)?) } else { None };
    let tuning = Tuning::new(&device, tune_directory(flags.tune.tune_dir.as_deref()).as_deref());
    tuning.fix(&flags.tune.prefer, device.backend().rows())?;
    let remembered = remembered(&tuning, &device, &lowering)?;
    let answers = measured.unwrap_or(remembered);
    lowering.registry.settle(answers.clone());
    let report = Report {
        model: path.display().to_string(),
        backend: device.backend().id().to_owned(),
        device: device.facts().name.to_string(),
        segments: segments(
            &lowering,
            &Decisions { device: &device, answers: &answers, store: tuning.store() },
        )?,
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

/// What is fixed, and what earlier runs measured about what a load asks. Nothing is timed.
fn remembered(tuning: &Tuning, device: &Device, lowering: &Lowering<'_>) -> Outcome<Answers> {
    let _hold = tuning.hold();
    let supports = |capability| lowering.registry.supports(capability);
    let mut prewarm = Prewarm::new(tuning, device, &supports)?;
    for (segment, sizes) in lowering.extent.questions(&lowering.registry) {
        for Placed { row, problem, scalars, .. } in lowering.program(segment, &sizes)?.launches {
            let asked = prewarm.launch(row, &problem, &scalars, &mut Nowhere);
            asked.map_err(|error| Failure::work(error.to_string()))?;
        }
    }
    Ok(prewarm.finish())
}

/// Loads the model as a run would, which measures what is not remembered and keeps it.
fn measure(path: &Path, flags: &Flags, select: SelectOptions, extent: Extent) -> Outcome<Answers> {
    if tune_directory(flags.tune.tune_dir.as_deref()).is_none() {
        return Err(Failure::work(
            "measured choices are kept nowhere, by CAJETA_LLM_TUNE_DIR or the settings; give --tune-dir DIR",
        ));
    }
    let mut options = EngineOptions::new(path, select);
    options.ctx = Some(extent.ctx);
    options.chunk = extent.chunk;
    options.max_seqs = extent.seqs;
    options.warm_up = false;
    flags.tune.apply(&mut options);
    let engine = load(&options)?;
    Ok(engine.runner().registry.answers().clone())
}
