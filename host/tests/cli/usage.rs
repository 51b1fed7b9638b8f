//! Wrong usage ends with status 2 and one sentence; asking how to use the program does not.

use crate::program::{bare, finish, model};

#[test]
fn mistakes_end_with_two_and_one_sentence() {
    let model = model();
    for (args, part) in [
        (vec!["nonsense"], "nonsense"),
        (vec!["--nonsense"], "--nonsense"),
        (vec!["run"], "<MODEL>"),
        (vec!["tokenize"], "<MODEL>"),
        (vec!["run", &model, "text", "-p", "x"], "cannot be used with"),
        (vec!["run", &model, "one", "two"], "two"),
        (vec!["run", &model, "-p", "x", "-f", "y"], "cannot be used with"),
        (vec!["run", &model, "-p", "x", "-"], "cannot be used with"),
        (vec!["run", &model, "-p", "x", "--chat", "--raw"], "cannot be used with"),
        (vec!["run", &model, "-p", "x", "--raw", "--system", "y"], "cannot be used with"),
        (vec!["run", &model, "-p", "x", "-n", "-2"], "-2"),
        (vec!["run", &model, "-p", "x", "-n", "many"], "many"),
        (vec!["run", &model, "-p", "x", "--temp", "NaN"], "--temp NaN is out of range"),
        (vec!["run", &model, "-p", "x", "--temp", "-0.5"], "--temp -0.5 is out of range"),
        (vec!["run", &model, "-p", "x", "--temp", "inf"], "--temp inf is out of range"),
        (vec!["run", &model, "-p", "x", "--top-p", "0"], "--top-p 0 is out of range"),
        (vec!["run", &model, "-p", "x", "--top-p", "nan"], "--top-p NaN is out of range"),
        (vec!["run", &model, "-p", "x", "--min-p", "1.5"], "--min-p 1.5 is out of range"),
        (vec!["run", &model, "-p", "x", "--top-k", "-1"], "-1"),
        (vec!["run", &model, "-p", "x", "--seed", "x"], "--seed"),
        (vec!["run", &model, "-p", "x", "--seed", "-2"], "--seed"),
        // What does nothing here is not taken in silence.
        (vec!["run", &model, "-p", "x", "--repeat-penalty", "1.1"], "--repeat-penalty"),
        (vec!["run", &model, "-p", "x", "--mirostat", "2"], "--mirostat"),
        (vec!["chat", &model, "--typical", "0.9"], "--typical"),
        (vec!["run", &model, "-p", "x", "--ctx", "0"], "--ctx"),
        (vec!["run", &model, "-p", "x", "--chunk", "0"], "--chunk"),
        (vec!["chat", &model, "--temp", "NaN"], "--temp NaN is out of range"),
        (vec!["score", &model], "--text"),
        (vec!["score", &model, "--text", "a", "--ids", "b"], "cannot be used with"),
        (vec!["score", &model, "--text", "a", "--rows", "0"], "--rows"),
        (vec!["synth", "x.gguf", "--shape", "nonsense"], "nonsense"),
        (vec!["synth", "x.gguf", "--quant", "q9"], "q9"),
        (vec!["synth", "x.gguf", "--arch", "mystery"], "mystery"),
        (vec!["backends", "check"], "<PATH>"),
        (vec!["kernels", "--rows", "0"], "--rows"),
    ] {
        let run = finish(bare(&args));
        assert_eq!(run.out, "", "{args:?}");
        run.failure(2, &[part]);
    }
}

#[test]
fn help_teaches_on_standard_output() {
    let help = finish(bare(&["--help"])).success();
    for word in ["Usage:", "Examples:", "CAJETA_XPU_BACKEND", "Exit status"] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    for command in [
        "run",
        "chat",
        "score",
        "tokenize",
        "detokenize",
        "inspect",
        "devices",
        "backends",
        "synth",
        "completions",
    ] {
        assert!(help.contains(command), "{command}");
        let help = finish(bare(&["help", command])).success();
        assert!(help.contains("Usage:") && help.contains("Examples:"), "{help}");
    }
    let version = finish(bare(&["--version"])).success();
    assert_eq!(version, format!("cajeta {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_shows_the_help_on_standard_error() {
    let run = finish(bare(&[]));
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    assert!(run.err.contains("Usage:"), "{}", run.err);
}

#[test]
fn a_log_filter_that_is_none_is_wrong_usage() {
    let mut command = bare(&["devices"]);
    command.env("CAJETA_LOG", "a=b=c");
    finish(command).failure(2, &["CAJETA_LOG"]);
}
