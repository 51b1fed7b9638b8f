//! `cajeta inspect`: what a model file holds, and whether it runs on this machine.

use std::path::PathBuf;

use cajeta::engine::human_bytes;
use cajeta_model_arch::gguf::{GgufFile, MetaValue};
use cajeta_plugin_host::SelectOptions;
use cajeta_plugin_host::printable;
use clap::Args;

use super::contents::{Contents, Verdict};
use super::failure::Outcome;
use super::model::BackendFlags;
use super::output;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  cajeta inspect model.gguf
  cajeta inspect model.gguf --tensors
  cajeta inspect model.gguf --json | jq .runs
A file that this build or machine cannot run is inspected all the same; the reason is in the answer.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The GGUF file
    model: PathBuf,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// List every metadata key
    #[arg(long)]
    metadata: bool,
    #[command(flatten)]
    backend: BackendFlags,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Prints what a file holds.
pub(crate) fn run(flags: Flags) -> Outcome {
    let file = GgufFile::open(&flags.model)?;
    let select: SelectOptions = flags.backend.resolve()?;
    let mut contents = Contents::read(&file, &select)?;
    if !flags.tensors {
        contents.tensors = None;
    }
    if flags.json {
        return output::json(&contents);
    }
    output::text(&describe(&contents))?;
    if flags.metadata {
        output::text(&metadata(&file))?;
    }
    Ok(())
}

fn describe(contents: &Contents) -> String {
    let mut out = String::new();
    let mut line = |label: &str, value: String| out.push_str(&format!("{label:<14}{value}\n"));
    let size = human_bytes(contents.bytes);
    line("file", format!("{} ({size}, GGUF version {})", contents.path.display(), contents.version));
    line("name", contents.name.clone().unwrap_or_else(|| "none given".into()));
    line("architecture", contents.architecture.clone().unwrap_or_else(|| "none given".into()));
    line("parameters", format!("{} in {} tensors", contents.parameters, contents.n_tensors));
    if let Some(shape) = &contents.shape {
        line(
            "shape",
            format!(
                "{} layers, width {}, feed-forward {}, {} heads of {}, {} key/value heads",
                shape.layers, shape.width, shape.feed_forward, shape.heads, shape.head_dim, shape.kv_heads
            ),
        );
        line("context", format!("{} positions trained", shape.context));
    }
    if let Some(vocabulary) = &contents.vocabulary {
        line("vocabulary", format!("{} tokens", vocabulary.tokens));
        let token = |token: &super::contents::Token| format!("{} {:?}", token.id, token.text);
        let added = |added: bool| if added { "added to prompts" } else { "not added" };
        if let Some(bos) = &vocabulary.bos {
            line("begin token", format!("{}, {}", token(bos), added(vocabulary.add_bos)));
        }
        let ends: Vec<String> = vocabulary.end.iter().map(token).collect();
        line("end tokens", if ends.is_empty() { "none".into() } else { ends.join(", ") });
    }
    line("chat template", if contents.chat_template { "yes" } else { "no" }.into());
    line("weights", human_bytes(contents.memory.weight_bytes));
    if let Some(bytes) = contents.memory.kv_bytes_per_1k_tokens {
        line("K/V cache", format!("{} per 1024 tokens", human_bytes(bytes)));
    }
    match &contents.runs {
        Verdict { yes: true, backend, device, note, .. } => {
            let on = format!("{}: {}", backend.as_deref().unwrap_or("?"), device.as_deref().unwrap_or("?"));
            line("runs here", format!("yes, on {on}{}", note.as_deref().unwrap_or_default()));
        }
        Verdict { reasons, .. } => {
            line("runs here", "no".into());
            for reason in reasons {
                line("", super::failure::one_sentence(reason));
            }
        }
    }
    let mut formats = Table::new(&["format", "tensors", "bytes", "share"]);
    let total: u64 = contents.formats.iter().map(|format| format.bytes).sum();
    for format in &contents.formats {
        let share = 100.0 * format.bytes as f64 / total.max(1) as f64;
        let [count, size] = [format.tensors.to_string(), human_bytes(format.bytes)];
        formats.row([format.format.to_owned(), count, size, format!("{share:.1} %")]);
    }
    out.push_str(&format!("\n{formats}"));
    if let Some(tensors) = &contents.tensors {
        let mut table = Table::new(&["tensor", "shape", "format", "bytes", "offset"]);
        for tensor in tensors {
            let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
            let [bytes, offset] = [tensor.bytes.to_string(), tensor.offset.to_string()];
            table.row([tensor.name.clone(), dims.join(" x "), tensor.format.to_owned(), bytes, offset]);
        }
        out.push_str(&format!("\n{table}"));
    }
    out
}

fn metadata(file: &GgufFile) -> String {
    let mut table = Table::new(&["key", "value"]);
    for (key, value) in file.metadata().iter() {
        table.row([printable::line(key, 100), brief(value)]);
    }
    format!("\n{table}")
}

fn brief(value: &MetaValue) -> String {
    match value {
        MetaValue::U8(v) => v.to_string(),
        MetaValue::I8(v) => v.to_string(),
        MetaValue::U16(v) => v.to_string(),
        MetaValue::I16(v) => v.to_string(),
        MetaValue::U32(v) => v.to_string(),
        MetaValue::I32(v) => v.to_string(),
        MetaValue::U64(v) => v.to_string(),
        MetaValue::I64(v) => v.to_string(),
        MetaValue::F32(v) => v.to_string(),
        MetaValue::F64(v) => v.to_string(),
        MetaValue::Bool(v) => v.to_string(),
        MetaValue::String(text) => printable::line(text, 80),
        MetaValue::Array(array) => format!("{} x {}", array.len(), array.element_type()),
    }
}
