//! The walkthrough names files and kernels: they exist, and the model it follows runs on them.

use std::collections::BTreeSet;

use crate::program::{finish, model, root, with_plugins};

/// What stands between backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_file_it_names_is_there() {
    let text = std::fs::read_to_string(root().join("docs/walkthrough.md")).expect("the walkthrough");
    let paths: Vec<&str> = quoted(&text).into_iter().filter(|word| word.ends_with(".rs")).collect();
    assert!(paths.len() > 40, "{paths:?}");
    for path in paths {
        assert!(root().join(path).is_file(), "{path}");
    }
}

#[test]
fn the_kernels_it_names_are_those_that_serve() {
    let text = std::fs::read_to_string(root().join("docs/walkthrough.md")).expect("the walkthrough");
    let mut command = with_plugins(&["kernels", &model(), "--json"]);
    command.env("CAJETA_CPU_SIMD", "portable");
    let report = finish(command).json();
    let named = quoted(&text);
    let (mut rows, mut beside) = (BTreeSet::new(), BTreeSet::new());
    for segment in report["segments"].as_array().expect("segments") {
        let launches = segment["launches"].as_array().expect("launches");
        let said = format!("{} launches", launches.len());
        let count = launches.len().to_string();
        assert!(text.contains(&said) || text.contains(&format!("`TailToken`, {count}")), "{said}");
        rows.extend(launches.iter().map(|launch| launch["row"].as_str().expect("a name")));
        let arms = launches.iter().flat_map(|launch| launch["alternatives"].as_array().expect("a list"));
        beside.extend(arms.map(|arm| arm["row"].as_str().expect("a name")));
    }
    for row in &rows {
        assert!(named.contains(row), "the walkthrough leaves out {row}");
    }
    // Names of kernels are camel case over a format's or an op's name.
    let kernels = named.iter().filter(|word| {
        ["q4k", "q6k", "rmsNorm", "ropeAppend", "attn", "copyRows", "sampleRow"]
            .iter()
            .any(|start| word.starts_with(start) && word.chars().all(|c| c.is_ascii_alphanumeric()))
    });
    for kernel in kernels {
        // Of those that could serve the same, it names what widened weights would bring.
        let could = kernel.contains("Deq") && beside.contains(kernel);
        assert!(rows.contains(kernel) || could, "{kernel} serves nothing of this model");
    }
}
