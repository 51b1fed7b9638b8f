//! Rows that compute one op in the catalog's own layouts.

use cajeta_plugin_api::abi::{Arith, Regime};
use cajeta_plugin_api::catalog::op::{Op, attr};

use super::draft::{Draft, spelled};
use super::{PLAIN, REGIMES};
use crate::layouts::decodable;

pub(super) fn drafts() -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (regime, word) in REGIMES {
        for format in decodable() {
            let name = |stem: &str| format!("ref{stem}{}{word}", spelled(format));
            let embed = Draft::new(name("Embed"), regime, PLAIN).op(Op::Embed, attr::SCALE, Some(format));
            drafts.push(Draft { arith: Arith::NONE, ..embed });
            let attrs = attr::BIAS | attr::SOFTCAP;
            drafts.push(Draft::new(name("MatMul"), regime, PLAIN).op(Op::Matmul, attrs, Some(format)));
        }
        drafts.extend(forward(regime, word));
    }
    drafts.extend(tail());
    drafts
}

/// The ops of the forward pass that read no weight in blocks.
fn forward(regime: Regime, word: &str) -> Vec<Draft> {
    let draft =
        |stem: &str, op, attrs| Draft::new(format!("ref{stem}{word}"), regime, PLAIN).op(op, attrs, None);
    let rope = attr::ROPE_FACTORS | attr::ROPE_YARN;
    vec![
        draft("Norm", Op::Norm, attr::NORM_OFFSET).in_place_of(0),
        draft("Add", Op::Add, 0).in_place_of(0),
        draft("GluSilu", Op::Glu, 0).in_place_of(0),
        draft("GluGelu", Op::Glu, attr::GLU_GELU).in_place_of(0),
        draft("RopeAppendHalves", Op::RopeAppend, rope),
        draft("RopeAppendPairs", Op::RopeAppend, rope | attr::ROPE_PAIRS),
        draft("Attention", Op::Attention, attr::SOFTCAP | attr::WINDOW | attr::SINKS),
        copy(word, regime),
    ]
}

fn copy(word: &str, regime: Regime) -> Draft {
    let draft = Draft::new(format!("refCopy{word}"), regime, PLAIN).op(Op::Copy, attr::INDEXED, None);
    Draft { arith: Arith::NONE, ..draft }
}

/// From logits to the next step's state.
fn tail() -> Vec<Draft> {
    let draft =
        |stem: &str, op| Draft::new(format!("ref{stem}Tail"), Regime::FUSED_TAIL, PLAIN).op(op, 0, None);
    vec![
        Draft { arith: Arith::NONE, ..draft("Argmax", Op::Argmax) },
        draft("Sample", Op::Sample),
        Draft { arith: Arith::NONE, ..draft("Advance", Op::Advance) },
        copy("Tail", Regime::FUSED_TAIL),
    ]
}
