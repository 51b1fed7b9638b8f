//! `cajeta synth`: writes a model file of a given shape and recipe with random weights.

use std::path::{Path, PathBuf};

use cajeta::engine::human_bytes;
use cajeta_model_arch::config::ARCHITECTURES;
use cajeta_model_arch::synth::{self, Recipe, Shape, SynthOptions};
use clap::Args;
use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::progress::Progress;
use super::{interrupt, output};

const EXAMPLES: &str = "\
Examples:
  cajeta synth --shape llama-3.2-1b --quant q4_k_m         writes llama-3.2-1b-q4_k_m.gguf here
  cajeta synth wide.gguf --shape tiny --width 1024 --heads 16 --kv-heads 4 --quant f16

Shapes: llama-3.1-8b, llama-3.2-1b, smollm2-135m, tiny.

Recipes: q4_k_m, q5_k_m, q3_k_m, q2_k, q4_0, q4_1, q5_0, q5_1, iq4_nl, iq4_xs, mxfp4 as published files \
are; q8_0, f16, bf16, f32, q6_k, q5_k, q4_k, q3_k, and pure-FORMAT, for every matrix in one format. \
The weights mean nothing: the file is for measuring and testing.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The file to write; SHAPE-RECIPE.gguf in the current folder if absent
    out: Option<PathBuf>,
    /// Dimensions of a published model, or of `tiny`; the options below replace single ones
    #[arg(long, value_name = "NAME", default_value = "tiny")]
    shape: String,
    /// Which format each tensor gets
    #[arg(long, value_name = "RECIPE", default_value = "q4_k_m")]
    quant: String,
    /// The architecture
    #[arg(long, value_name = "NAME", default_value = ARCHITECTURES[0])]
    arch: String,
    /// Equal seeds give equal files
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Context length written into the file
    #[arg(long, value_name = "N")]
    ctx: Option<u32>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dimensions: Dimensions,
}

/// Single dimensions that replace those of the shape.
#[derive(Args, Debug)]
#[command(next_help_heading = "Dimensions")]
struct Dimensions {
    /// Tokens of the vocabulary
    #[arg(long, value_name = "N")]
    vocab: Option<u32>,
    /// Width of the hidden state
    #[arg(long, value_name = "N")]
    width: Option<u32>,
    /// Layers
    #[arg(long, value_name = "N")]
    layers: Option<u32>,
    /// Width of the feed-forward part
    #[arg(long, value_name = "N")]
    ff: Option<u32>,
    /// Query heads
    #[arg(long, value_name = "N")]
    heads: Option<u32>,
    /// Key/value heads
    #[arg(long, value_name = "N")]
    kv_heads: Option<u32>,
    /// Values per head
    #[arg(long, value_name = "N")]
    head_dim: Option<u32>,
    /// Base of the rotary embedding
    #[arg(long, value_name = "X")]
    rope_base: Option<f32>,
    /// Whether the embedding table is also the output head
    #[arg(long, value_name = "BOOL")]
    tied: Option<bool>,
}

impl Dimensions {
    fn apply(&self, shape: &mut Shape) {
        let replace = |slot: &mut u32, value: Option<u32>| *slot = value.unwrap_or(*slot);
        replace(&mut shape.n_vocab, self.vocab);
        replace(&mut shape.n_embd, self.width);
        replace(&mut shape.n_layer, self.layers);
        replace(&mut shape.n_ff, self.ff);
        replace(&mut shape.n_head, self.heads);
        replace(&mut shape.n_head_kv, self.kv_heads);
        replace(&mut shape.head_dim, self.head_dim);
        shape.rope_base = self.rope_base.unwrap_or(shape.rope_base);
        shape.tied = self.tied.unwrap_or(shape.tied);
    }
}

/// What it means.
struct Options {
    out: PathBuf,
    force: bool,
    synth: SynthOptions,
}

impl Options {
    fn resolve(flags: &Flags) -> Outcome<Options> {
        let mut shape = Shape::named(&flags.shape).map_err(Failure::usage)?;
        let recipe = Recipe::named(&flags.quant).map_err(Failure::usage)?;
        if !ARCHITECTURES.contains(&flags.arch.as_str()) {
            let known = ARCHITECTURES.join(", ");
            return Err(Failure::usage(format!(
                "--arch {:?} is not known; expected one of {known}",
                flags.arch
            )));
        }
        flags.dimensions.apply(&mut shape);
        let usual = || PathBuf::from(format!("{}-{}.gguf", flags.shape, flags.quant.to_ascii_lowercase()));
        Ok(Options {
            out: flags.out.clone().unwrap_or_else(usual),
            force: flags.force,
            synth: SynthOptions {
                architecture: flags.arch.clone(),
                shape,
                recipe,
                seed: flags.seed,
                context: flags.ctx,
                threads: None,
            },
        })
    }
}

#[derive(Serialize)]
struct Report<'a> {
    path: &'a Path,
    bytes: u64,
    parameters: u64,
    tensor_bytes: u64,
    fallbacks: Vec<Fallback<'a>>,
}

/// A tensor that could not have the recipe's format.
#[derive(Serialize)]
struct Fallback<'a> {
    tensor: &'a str,
    wanted: &'static str,
    got: &'static str,
}

/// Writes the file.
pub(crate) fn run(flags: Flags) -> Outcome {
    let options = Options::resolve(&flags)?;
    let out = &options.out;
    match std::fs::symlink_metadata(out) {
        Ok(found) if found.is_dir() => {
            return Err(Failure::work(format!("{} is a folder; name the file to write", out.display())));
        }
        Ok(_) if !options.force => {
            let why =
                format!("{} exists already; give another name, or --force to replace it", out.display());
            return Err(Failure::work(why));
        }
        _ => {}
    }
    let mut partial = out.as_os_str().to_owned();
    partial.push(".partial");
    interrupt::remove_on_interrupt(partial.into())?;
    let mut progress = Progress::new("writing");
    let summary = synth::write(&options.synth, out, &mut |done, total| progress.update(done, total))?;
    drop(progress);
    let bytes = std::fs::metadata(out)?.len();
    let fallbacks = summary.fallbacks.iter().map(|fallback| Fallback {
        tensor: &fallback.tensor,
        wanted: fallback.wanted.name(),
        got: fallback.got.name(),
    });
    let report = Report {
        path: out,
        bytes,
        parameters: summary.parameters,
        tensor_bytes: summary.tensor_bytes,
        fallbacks: fallbacks.collect(),
    };
    if flags.json {
        return output::json(&report);
    }
    if let Some(first) = report.fallbacks.first() {
        output::note(&format!(
            "{} tensors have rows that are no whole blocks of {}; the first, {}, got {}",
            report.fallbacks.len(),
            first.wanted,
            first.tensor,
            first.got
        ));
    }
    let size = human_bytes(bytes);
    output::line(&format!(
        "{}: {size}, {} parameters, {}",
        out.display(),
        report.parameters,
        options.synth.recipe
    ))
}
