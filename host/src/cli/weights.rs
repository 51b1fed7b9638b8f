//! A file's tensors by what they are for and how they are stored.

use std::collections::BTreeMap;

use cajeta_model_arch::gguf::TensorInfo;
use serde::Serialize;

/// The tensors of one format.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub(crate) struct FormatShare {
    pub(crate) format: &'static str,
    pub(crate) tensors: u64,
    pub(crate) bytes: u64,
}

/// The tensors of one class.
#[derive(Serialize, PartialEq, Debug)]
pub(crate) struct ClassShare {
    pub(crate) class: &'static str,
    pub(crate) tensors: u64,
    pub(crate) parameters: u64,
    pub(crate) bytes: u64,
    pub(crate) formats: Vec<FormatShare>,
}

/// The classes, in the order in which a token meets them.
const CLASSES: [&str; 7] =
    ["embedding", "attention", "feed-forward", "experts", "norms", "output head", "other"];

/// The formats of some tensors, the largest share first.
pub(crate) fn formats<'a>(tensors: impl Iterator<Item = &'a TensorInfo>) -> Vec<FormatShare> {
    let mut shares: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for tensor in tensors {
        let (count, bytes) = shares.entry(tensor.format.name()).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(tensor.bytes);
    }
    let share = |(format, (tensors, bytes))| FormatShare { format, tensors, bytes };
    let mut shares: Vec<FormatShare> = shares.into_iter().map(share).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

/// The classes of some tensors.
pub(crate) fn classes(tensors: &[TensorInfo]) -> Vec<ClassShare> {
    let of = |class: &'static str| {
        let mut share = ClassShare { class, tensors: 0, parameters: 0, bytes: 0, formats: Vec::new() };
        let members = || tensors.iter().filter(|tensor| class_of(&tensor.name) == class);
        for tensor in members() {
            share.tensors += 1;
            share.parameters = share.parameters.saturating_add(tensor.n_values());
            share.bytes = share.bytes.saturating_add(tensor.bytes);
        }
        share.formats = formats(members());
        share
    };
    CLASSES.map(of).into_iter().filter(|share| share.tensors > 0).collect()
}

/// What a tensor is for, by its name.
fn class_of(name: &str) -> &'static str {
    let in_layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).map(|(_, part)| part);
    let part = in_layer.unwrap_or(name);
    match part {
        _ if part.contains("norm") => "norms",
        _ if part.starts_with("token_embd") => "embedding",
        _ if in_layer.is_none() && part.starts_with("output") => "output head",
        _ if in_layer.is_some() && part.starts_with("attn") => "attention",
        _ if part.contains("_exps") || part.starts_with("ffn_gate_inp") => "experts",
        _ if part.starts_with("ffn") => "feed-forward",
        _ => "other",
    }
}

/// A number of parameters as people say it: `134.5M`.
pub(crate) fn spoken(count: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "B"), (1_000_000, "M"), (1_000, "K")];
    match UNITS.iter().find(|(unit, _)| count >= *unit) {
        Some((unit, name)) => format!("{:.1}{name}", count as f64 / *unit as f64),
        None => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_tensors_are_for() {
        for (name, class) in [
            ("token_embd.weight", "embedding"),
            ("output.weight", "output head"),
            ("output_norm.weight", "norms"),
            ("blk.0.attn_q.weight", "attention"),
            ("blk.12.attn_output.weight", "attention"),
            ("blk.3.attn_q_norm.weight", "norms"),
            ("blk.3.ffn_down.weight", "feed-forward"),
            ("blk.3.ffn_down_exps.weight", "experts"),
            ("blk.3.ffn_gate_inp.weight", "experts"),
            ("rope_freqs.weight", "other"),
            ("blk.", "other"),
            ("", "other"),
        ] {
            assert_eq!(class_of(name), class, "{name}");
            assert!(CLASSES.contains(&class));
        }
    }

    #[test]
    fn counts_are_spoken() {
        for (count, said) in
            [(7, "7"), (5_245_184, "5.2M"), (8_030_261_248, "8.0B"), (u64::MAX, "18446744.1T")]
        {
            assert_eq!(spoken(count), said);
        }
    }
}
