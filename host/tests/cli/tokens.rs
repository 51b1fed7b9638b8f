//! `tokenize` and `detokenize`: exactly the reference's tokens, without plugins.

use serde_json::Value;

use crate::program::{bare, feed, finish, ids, model, root};

fn cases() -> Vec<Value> {
    let path = root().join("tests/data/reference/tales-5m.Q4_K_M.tokenization.json");
    let text = std::fs::read_to_string(path).expect("the reference data");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    value["tokenization"].as_array().expect("a list").clone()
}

#[test]
fn every_reference_case_through_standard_input() {
    let model = model();
    let cases = cases();
    assert!(cases.len() > 50);
    for case in &cases {
        let text = case["text"].as_str().expect("a text");
        let plain = feed(bare(&["tokenize", &model, "-", "--json"]), text.as_bytes()).json();
        assert_eq!(plain["ids"], case["ids"], "{text:?}");
        let special = feed(bare(&["tokenize", &model, "-", "--json", "--special"]), text.as_bytes()).json();
        assert_eq!(special["ids"], case["ids_special"], "{text:?}");
        let list = case["ids"].to_string();
        let back = feed(bare(&["detokenize", &model, "-", "--json"]), list.as_bytes()).json();
        assert_eq!(back["text"], case["detok"], "{text:?}");
    }
}

#[test]
fn the_begin_token_comes_when_asked_and_once() {
    let model = model();
    let encode = |args: &[&str]| {
        let mut all = vec!["tokenize", &model, "--json"];
        all.extend(args);
        ids(&finish(bare(&all)).json()["ids"])
    };
    assert_eq!(encode(&["Hello world"]), [1427, 1001]);
    assert_eq!(encode(&["Hello world", "--bos"]), [4092, 1427, 1001]);
    assert_eq!(encode(&["<|begin_of_text|>Hello world", "--bos", "--special"]), [4092, 1427, 1001]);
    assert_eq!(encode(&[""]), [0; 0]);
    assert_eq!(encode(&["", "--bos"]), [4092]);
}

#[test]
fn ids_are_taken_in_every_form() {
    let model = model();
    for form in [&["1427 1001"][..], &["1427", "1001"], &["1427,1001"], &["[1427, 1001]"]] {
        let mut args = vec!["detokenize", &model];
        args.extend(form);
        assert_eq!(finish(bare(&args)).success(), "Hello world", "{form:?}");
    }
    let special = finish(bare(&["detokenize", &model, "4092 1427", "--special"])).success();
    assert_eq!(special, "<|begin_of_text|>Hello");
    assert_eq!(finish(bare(&["detokenize", &model, "4092 1427"])).success(), "Hello");
    assert_eq!(feed(bare(&["detokenize", &model, "-", "--json"]), b"").json()["text"], "");
}

#[test]
fn tokens_are_listed_for_people() {
    let out = finish(bare(&["tokenize", &model(), "Hello\n"])).success();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines, ["   1427  \"Hello\"", "    198  \"\\n\""]);
}

#[test]
fn what_is_no_text_or_no_id_is_refused() {
    let model = model();
    feed(bare(&["tokenize", &model, "-"]), b"ab\xffcd").failure(1, &["0xff", "offset 2"]);
    finish(bare(&["detokenize", &model, "1 99999"])).failure(1, &["99999", "position 1"]);
    finish(bare(&["detokenize", &model, "1 two"])).failure(1, &["\"two\""]);
    finish(bare(&["detokenize", &model, "[1, -2]"])).failure(1, &["JSON list"]);
}
