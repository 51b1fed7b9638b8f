//! `cajeta inspect`: what a model file holds, and whether it runs on this machine.

use std::path::PathBuf;

use cajeta::engine::human_bytes;
use cajeta_model_arch::gguf::{GgufFile, MetaValue};
use cajeta_plugin_host::printable;
use clap::Args;

use super::contents::Contents;
use super::failure::{Failure, Outcome, one_sentence};
use super::model::PlacementFlags;
use super::output;
use super::table::Table;
use super::verdict::{Verdict, Where};
use super::weights::{FormatShare, spoken};

const EXAMPLES: &str = "\
Examples:
  cajeta inspect model.gguf
  cajeta inspect model.gguf --ctx 32768
  cajeta inspect model.gguf --tensors
  cajeta inspect model.gguf --template
  cajeta inspect model.gguf --json | jq .runs
A file that this build or machine cannot run is inspected all the same; the reason is in the answer.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The GGUF file
    model: PathBuf,
    /// List every tensor
    #[arg(long, help_heading = "Output")]
    tensors: bool,
    /// List every metadata key
    #[arg(long, help_heading = "Output")]
    metadata: bool,
    /// Print the chat template and nothing else
    #[arg(long, help_heading = "Output", conflicts_with_all = ["tensors", "metadata", "json"])]
    template: bool,
    #[command(flatten)]
    placement: PlacementFlags,
    /// Print everything as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Prints what a file holds.
pub(crate) fn run(flags: Flags) -> Outcome {
    let file = GgufFile::open(&flags.model)?;
    if flags.template {
        return match file.metadata().str("tokenizer.chat_template")? {
            Some(template) => output::piece(&format!("{}\n", template.trim_end_matches('\n'))),
            None => Err(Failure::work(format!("{} has no chat template", file.path().display()))),
        };
    }
    let select = flags.placement.backend.resolve()?;
    let place = Where { select: &select, ctx: flags.placement.ctx, chunk: flags.placement.chunk };
    let mut contents = Contents::read(&file, &place)?;
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
    let parameters = contents.parameters;
    line("parameters", format!("{} ({parameters}) in {} tensors", spoken(parameters), contents.n_tensors));
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
        let kind = |kind: &Option<String>| kind.clone().unwrap_or_else(|| "none named".into());
        let (model, pre) = (kind(&vocabulary.model), kind(&vocabulary.pre));
        line("tokenizer", format!("{model}, word rules {pre}, {} tokens", vocabulary.tokens));
        let token = |token: &super::contents::Token| format!("{} {:?}", token.id, token.text);
        let added = |added: bool| if added { "added to prompts" } else { "not added" };
        if let Some(bos) = &vocabulary.bos {
            line("begin token", format!("{}, {}", token(bos), added(vocabulary.add_bos)));
        }
        let ends: Vec<String> = vocabulary.end.iter().map(token).collect();
        line("end tokens", if ends.is_empty() { "none".into() } else { ends.join(", ") });
    }
    line("chat template", template(contents));
    let memory = &contents.memory;
    line("weights", human_bytes(memory.weight_bytes));
    if let (Some(per_1k), Some(context), Some(bytes)) =
        (memory.kv_bytes_per_1k_tokens, memory.context, memory.kv_bytes)
    {
        let [per_1k, bytes] = [per_1k, bytes].map(human_bytes);
        line("K/V cache", format!("{bytes} at context {context} ({per_1k} per 1024 positions)"));
    }
    out.push_str(&runs(&contents.runs));
    out.push_str(&format!("\n{}", by_class(contents)));
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

fn template(contents: &Contents) -> String {
    let Some(template) = &contents.template else {
        return if contents.chat_template { "yes, and it cannot be used" } else { "no" }.into();
    };
    let takes = |does: bool, what: &str| format!("{} {what}", if does { "takes" } else { "takes no" });
    format!(
        "{} bytes, {}, {}",
        template.bytes,
        takes(template.system, "instructions"),
        takes(template.tools, "tools")
    )
}

/// Whether it runs, and what it takes or what is in the way.
fn runs(verdict: &Verdict) -> String {
    let mut out = String::new();
    let mut line = |label: &str, value: String| out.push_str(&format!("{label:<14}{value}\n"));
    let on = verdict.backend.as_deref().zip(verdict.device.as_deref());
    let on = on.map(|(backend, device)| format!(" on {backend}: {device}")).unwrap_or_default();
    line(
        "runs here",
        format!("{}{on}", if verdict.yes { "yes," } else { "no," }).trim_end_matches(',').into(),
    );
    for reason in &verdict.reasons {
        line("", one_sentence(reason));
    }
    if let Some(needs) = &verdict.needs {
        let [weights, kv, work, total, mapped] =
            [needs.weight_bytes, needs.kv_bytes, needs.work_bytes, needs.total(), needs.mapped_bytes]
                .map(human_bytes);
        let free = verdict.free_bytes.map(|free| format!(" of {} free", human_bytes(free)));
        let free = free.unwrap_or_default();
        line("takes", format!("{total}{free}: {weights} weights, {kv} K/V cache, {work} work space"));
        if needs.mapped_bytes > 0 {
            line("", format!("and {mapped} of weights read in place from the file's pages"));
        }
    }
    out
}

/// What the tensors are for, and in which formats.
fn by_class(contents: &Contents) -> Table {
    let mut table = Table::new(&["tensors of", "count", "parameters", "bytes", "share", "formats"]);
    let total = contents.memory.weight_bytes.max(1) as f64;
    let formats = |shares: &[FormatShare]| {
        let named = shares.iter().map(|share| format!("{} x {}", share.tensors, share.format));
        named.collect::<Vec<_>>().join(", ")
    };
    let share = |bytes: u64| format!("{:.1} %", 100.0 * bytes as f64 / total);
    for class in &contents.classes {
        let [count, bytes] = [class.tensors.to_string(), human_bytes(class.bytes)];
        let parameters = spoken(class.parameters);
        table.row([
            class.class.into(),
            count,
            parameters,
            bytes,
            share(class.bytes),
            formats(&class.formats),
        ]);
    }
    let (count, bytes) = (contents.n_tensors.to_string(), human_bytes(contents.memory.weight_bytes));
    let all = formats(&contents.formats);
    table.row([
        "all".into(),
        count,
        spoken(contents.parameters),
        bytes,
        share(contents.memory.weight_bytes),
        all,
    ]);
    table
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
