//! `score`: predictions along given tokens, the same for every way of computing them.

use serde_json::Value;

use crate::program::{feed, finish, ids, keys, model, with_plugins};

const TEXT: &str = "Once upon a time, there was a brave mouse named Nora. Nora lived in a small hole.";

fn score(args: &[&str], input: &str) -> Value {
    let model = model();
    feed(with_plugins(&[&["score", &model, "--json"], args].concat()), input.as_bytes()).json()
}

#[test]
fn text_and_its_ids_score_alike() {
    let by_text = score(&["--text", "-", "--top", "3"], TEXT);
    assert_eq!(keys(&by_text), ["ids", "mean_nll", "ppl", "steps"]);
    let given = ids(&by_text["ids"]);
    assert_eq!(given[0], 4092, "the begin token, as the file says");
    let by_ids = score(&["--ids", "-", "--top", "3"], &by_text["ids"].to_string());
    assert_eq!(by_text, by_ids);
    let steps = by_text["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), given.len());
    for (step, id) in steps.iter().zip(&given) {
        assert_eq!(keys(step), ["id", "lse", "top"]);
        assert_eq!(step["id"], *id);
        let logits: Vec<f64> = step["top"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|c| c["logit"].as_f64().expect("a logit"))
            .collect();
        assert_eq!(logits.len(), 3);
        assert!(
            logits.is_sorted_by(|a, b| a >= b) && logits[0] <= step["lse"].as_f64().expect("a sum") + 1e-4
        );
    }
    let (nll, ppl) = (by_text["mean_nll"].as_f64().expect("a mean"), by_text["ppl"].as_f64().expect("a ppl"));
    assert!((nll.exp() - ppl).abs() < 1e-9 && ppl > 1.0 && ppl < 10.0, "{nll} {ppl}");
}

#[test]
fn one_row_at_a_time_agrees_with_many() {
    let mean = |rows| score(&["--text", "-", "--rows", rows], TEXT)["mean_nll"].as_f64().expect("a mean");
    let many = mean("64");
    for rows in ["1", "5"] {
        assert!((mean(rows) - many).abs() < 0.02, "{rows} rows: {} and {many}", mean(rows));
    }
}

#[test]
fn special_tokens_in_a_text_are_text() {
    let value = score(&["--text", "-", "--top", "0"], "<|user|>");
    assert!(!ids(&value["ids"]).contains(&4094), "{value}");
    let model = model();
    let run = feed(with_plugins(&["score", &model, "--text", "-"]), TEXT.as_bytes());
    let out = run.success();
    assert!(out.contains("ppl") && out.lines().count() == 3, "{out}");
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let model = model();
    let ids = |input: &str| feed(with_plugins(&["score", &model, "--ids", "-"]), input.as_bytes());
    ids("[]").failure(1, &["empty"]);
    ids("[1, 99999]").failure(1, &["99999", "4096"]);
    ids("[1, 2").failure(1, &["JSON list"]);
    ids(&format!("{:?}", vec![1; 2000])).failure(1, &["2000 tokens", "1024"]);
    finish(with_plugins(&["score", &model, "--text", "/nonexistent"])).failure(1, &["/nonexistent"]);
}
