//! Files whose tensor table lies, and one whose weights are no numbers.

use super::case::{Case, Finder};
use super::draft::{Draft, TensorDraft};
use super::whole::whole;

const Q: &str = "blk.0.attn_q.weight";
const NORM: &str = "blk.0.attn_norm.weight";
const TABLE: &str = "token_embd.weight";

/// Bad shapes, formats and places; tensors that are not there, or too many.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = malformed();
    cases.extend(places());
    cases.extend(other_models());
    cases.push(Case::of(
        "weights-not-numbers",
        whole(),
        |draft| {
            let at = draft.tensor(NORM).offset as usize;
            draft.data[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        },
        (Finder::Step, "not numbers"),
    ));
    cases
}

fn opened(name: &str, says: &str, change: impl FnOnce(&mut Draft)) -> Case {
    Case::of(name, whole(), change, (Finder::Open, says))
}

fn malformed() -> Vec<Case> {
    let shape =
        |name: &str, dims: &[u64], says: &str| opened(name, says, |draft| draft.tensor(Q).dims = dims.into());
    let format =
        |id: u32, says: &str| opened(&format!("format-{id}"), says, |draft| draft.tensor(Q).format = id);
    let mut cases = vec![
        shape("no-dimension", &[], "has 0 dimensions"),
        shape("five-dimensions", &[2; 5], "has 5 dimensions"),
        shape("rows-of-nothing", &[0, 64], "no dimension may be zero"),
        shape("no-rows", &[64, 0], "no dimension may be zero"),
        shape("rows-without-end", &[u64::MAX, 64], "overflows"),
        shape("rows-to-the-sign", &[1 << 32, 1 << 31], "overflows"),
        shape("sizes-that-wrap-to-little", &[1 << 62, 4], "overflows"),
        shape("rows-of-partial-blocks", &[33, 64], "needs a multiple of 32"),
        shape("rows-past-the-end", &[64, 1 << 20], "but the data section has"),
        format(31, "has type Q4_0_4_4"),
        format(77, "has type id 77"),
        format(u32::MAX, "has type id 4294967295"),
        opened("name-twice", "stands twice", |draft| draft.tensor(Q).name = NORM.into()),
        opened("name-empty", "has an empty name", |draft| draft.tensor(Q).name.clear()),
        opened("name-too-long", "the length of the name of tensor number", |draft| {
            draft.tensor(Q).name = "q".repeat(300);
        }),
    ];
    // A table that says each tensor is the whole file: each fits, together they cannot.
    cases.push(opened("all-at-the-beginning", "overlap", |draft| {
        draft.tensors.iter_mut().for_each(|tensor| tensor.offset = 0);
    }));
    cases
}

fn places() -> Vec<Case> {
    let at =
        |name: &str, offset: u64, says: &str| opened(name, says, |draft| draft.tensor(Q).offset = offset);
    vec![
        at("misaligned", 40, "not a multiple of the alignment 32"),
        at("inside-another", 64, "overlap"),
        at("past-the-end", 1 << 40, "but the data section has"),
        at("at-the-last-multiple", u64::MAX - 31, "but the data section has"),
        at("at-the-sign", 1 << 63, "but the data section has"),
        opened("data-gone", "", |draft| draft.data.clear()),
    ]
}

/// Tables that hold together and make no model.
fn other_models() -> Vec<Case> {
    let model = |name: String, says: String, change: &dyn Fn(&mut Draft)| {
        Case::of(name, whole(), change, (Finder::Model, says))
    };
    let mut cases: Vec<Case> = whole()
        .tensors
        .iter()
        .map(|tensor| {
            let name = tensor.name.as_str();
            model(format!("no-{name}"), name.into(), &|draft| {
                draft.tensors.retain(|other| other.name != name)
            })
        })
        .collect();
    let like = |draft: &Draft, name: &str, dims: &[u64], format: u32| TensorDraft {
        name: name.into(),
        dims: dims.into(),
        format,
        offset: draft.data.len() as u64,
    };
    cases.push(model("one-tensor-more".into(), "blk.7.surprise.weight".into(), &|draft| {
        let more = like(draft, "blk.7.surprise.weight", &[8], 0);
        draft.tensors.push(more);
        draft.data.extend([0; 32]);
    }));
    cases.push(model("rows-and-width-swapped".into(), Q.replace("attn_q", "ffn_gate"), &|draft| {
        draft.tensor("blk.0.ffn_gate.weight").dims.reverse();
    }));
    cases.push(model("norm-of-half-numbers".into(), NORM.into(), &|draft| draft.tensor(NORM).format = 1));
    cases.push(model(
        "fewer-rows-than-tokens".into(),
        "tokens but the embedding table only 100".into(),
        &|draft| {
            draft.tensor(TABLE).dims[1] = 100;
        },
    ));
    cases.push(model("a-table-of-three-dimensions".into(), TABLE.into(), &|draft| {
        draft.tensor(TABLE).dims.push(1);
    }));
    cases
}
