//! `run`: the right tokens, in every form of prompt and answer.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{Run, feed, finish, ids, keys, model, with_plugins};

const PROMPT: &str = "Once upon a time, there was a brave mouse named Nora.";

fn json(args: &[&str]) -> Value {
    let model = model();
    finish(with_plugins(&[&["run", &model, "--json"], args].concat())).json()
}

#[test]
fn greedy_tokens_are_the_reference_s() {
    let value = json(&["-p", PROMPT, "--raw", "-n", "8", "--temp", "0"]);
    let all =
        ["model", "backend", "device", "prompt_ids", "generated_ids", "text", "finish_reason", "timings"];
    assert_eq!(keys(&value), all);
    assert_eq!(keys(&value["timings"]), ["load_ms", "prefill_ms", "decode_ms", "prefill_tps", "decode_tps"]);
    assert_eq!(
        ids(&value["prompt_ids"]),
        [4092, 543, 561, 258, 454, 11, 366, 291, 258, 1511, 1102, 354, 984, 13]
    );
    assert_eq!(ids(&value["generated_ids"]), [984, 385, 299, 258, 515, 1049, 299, 261]);
    assert_eq!(value["text"], " Nora lived in a small hole in the");
    assert_eq!(value["finish_reason"], "length");
    assert_eq!(value["backend"], "cpu");
    assert!(value["timings"]["decode_tps"].as_f64().expect("a rate") > 0.0);
}

#[test]
fn the_stream_is_the_text_and_the_times_are_apart() {
    let model = model();
    let run = finish(with_plugins(&["run", &model, "-p", PROMPT, "--raw", "-n", "8", "--temp", "0"]));
    assert_eq!((run.code, run.out.as_str()), (Some(0), " Nora lived in a small hole in the\n"));
    for word in ["load", "prefill 14 tokens", "decode 7 tokens", "tok/s", "cpu"] {
        assert!(run.err.contains(word), "{}", run.err);
    }
}

#[test]
fn prompts_from_files_and_pipes_are_the_same() {
    let model = model();
    let args = ["run", &model, "--raw", "-n", "4", "--temp", "0", "--json"];
    let expected = json(&["-p", PROMPT, "--raw", "-n", "4", "--temp", "0"]);
    let same = |run: Run| {
        let value = run.json();
        assert_eq!(value["prompt_ids"], expected["prompt_ids"]);
        assert_eq!(value["generated_ids"], expected["generated_ids"]);
    };
    let line = format!("{PROMPT}\n");
    same(feed(with_plugins(&args), line.as_bytes()));
    same(feed(with_plugins(&[&args[..], &["-"]].concat()), line.as_bytes()));
    same(feed(with_plugins(&[&args[..], &["-f", "-"]].concat()), line.as_bytes()));
    same(finish(with_plugins(&[&args[..], &[PROMPT]].concat())));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, line).expect("written");
    let file = file.display().to_string();
    same(finish(with_plugins(&[&args[..], &["-f", &file]].concat())));
}

#[test]
fn the_template_is_used_unless_raw() {
    let user = 4094;
    let templated = ids(&json(&["-p", "hi", "-n", "1"])["prompt_ids"]);
    assert_eq!(templated[..2], [4092, user], "one begin token, then the user's mark");
    assert_eq!(ids(&json(&["-p", "hi", "-n", "1", "--chat"])["prompt_ids"]), templated);
    let raw = ids(&json(&["-p", "hi", "-n", "1", "--raw"])["prompt_ids"]);
    assert!(raw[0] == 4092 && !raw.contains(&user), "{raw:?}");
    let special = ids(&json(&["-p", "<|begin_of_text|><|user|>hi", "-n", "1", "--raw"])["prompt_ids"]);
    assert_eq!(special[..2], [4092, user], "special tokens are parsed, and the begin token is not doubled");
}

#[test]
fn a_seed_draws_the_same_text_again() {
    let draw = |seed: &str| {
        json(&["-p", PROMPT, "--raw", "-n", "24", "--temp", "1.5", "--top-k", "0", "--seed", seed])
    };
    let (first, again, other) = (draw("7"), draw("7"), draw("8"));
    assert_eq!(first["generated_ids"], again["generated_ids"]);
    assert_ne!(first["generated_ids"], other["generated_ids"]);
    assert_eq!(first["seed"], 7);
    let any = json(&["-p", PROMPT, "--raw", "-n", "1", "--seed", "-1"]);
    assert!(any["seed"].as_u64().expect("a seed") <= u64::from(u32::MAX));
    // A seed nobody gave is told, and draws the same again.
    let random = json(&["-p", PROMPT, "--raw", "-n", "24", "--temp", "1.5"]);
    let seed = random["seed"].to_string();
    let again = json(&["-p", PROMPT, "--raw", "-n", "24", "--temp", "1.5", "--seed", &seed]);
    assert_eq!(random["generated_ids"], again["generated_ids"]);
}

#[test]
fn other_names_of_options_mean_the_same() {
    let named = |args: &[&str]| json(&[&["-p", PROMPT, "--raw"], args].concat())["generated_ids"].clone();
    let ours = named(&["-n", "6", "--temp", "0", "--ctx", "64", "--chunk", "4", "--seed", "1"]);
    let theirs =
        named(&["--n-predict", "6", "--temperature", "0", "-c", "64", "--ubatch-size", "4", "-s", "1"]);
    assert_eq!(ours, theirs);
}

#[test]
fn an_answer_ends_where_the_model_ends_it() {
    let value = json(&["-p", "Hello", "--temp", "0"]);
    assert_eq!(value["finish_reason"], "stop", "{value}");
    assert_eq!(ids(&value["generated_ids"]).last(), Some(&4093));
    assert!(!value["text"].as_str().expect("a text").contains("<|"), "{value}");
}

#[test]
fn the_context_ends_an_answer_too() {
    let value = json(&["-p", PROMPT, "--raw", "--temp", "0", "--ctx", "20", "-n", "-1"]);
    assert_eq!(value["finish_reason"], "length");
    // Fourteen positions are the prompt's; the last token needs none.
    assert_eq!(ids(&value["generated_ids"]).len(), 20 - 14 + 1);
}

#[test]
fn no_tokens_and_no_prompt_are_in_order() {
    let none = json(&["-p", PROMPT, "-n", "0"]);
    assert_eq!((ids(&none["generated_ids"]).len(), none["text"].as_str()), (0, Some("")));
    let empty = json(&["-p", "", "--raw", "-n", "2", "--temp", "0"]);
    assert_eq!(ids(&empty["prompt_ids"]), [4092], "the begin token alone");
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers() {
    let model = model();
    let long = "word ".repeat(3000);
    feed(with_plugins(&["run", &model, "--raw"]), long.as_bytes()).failure(1, &["tokens", "1024", "--ctx"]);
    finish(with_plugins(&["run", &model, "-p", PROMPT, "--raw", "--ctx", "8"]))
        .failure(1, &["14 tokens", "holds 8"]);
    finish(with_plugins(&["run", &model, "-p", "x", "--ctx", "2000"])).failure(1, &["2000", "1024"]);
    feed(with_plugins(&["run", &model, "-"]), b"\xff").failure(1, &["standard input", "0xff", "offset 0"]);
    finish(with_plugins(&["run", &model, "-f", "/nonexistent/prompt"])).failure(1, &["/nonexistent/prompt"]);
}

#[test]
fn small_chunks_compute_the_same() {
    let args = ["-p", PROMPT, "--raw", "-n", "8", "--temp", "0"];
    let whole = json(&args);
    for chunk in ["1", "3", "5"] {
        let parts = json(&[&args[..], &["--chunk", chunk]].concat());
        assert_eq!(parts["generated_ids"], whole["generated_ids"], "chunks of {chunk}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let model = model();
    let mut command = with_plugins(&["run", &model, "-p", PROMPT, "--raw", "--temp", "0"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut stdout = child.stdout.take().expect("piped");
    let mut some = [0; 5];
    stdout.read_exact(&mut some).expect("some text");
    drop(stdout);
    let run = Run::of(child.wait_with_output().expect("the program ends"));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}
