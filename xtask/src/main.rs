//! The project's own commands: `cargo xtask demo | test | kernels | man | tidy | ci`.

mod failure;
mod workspace;
mod process;
mod model;
mod install;
mod demo;
mod tally;
mod libtest;
mod nextest;
mod scope;
mod test;
mod kernels;
mod man;
mod tidy;

use failure::Failure;
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command>

  demo [PROMPT]           build in release, install under target/demo, answer a prompt on a real model
  test                    run every test and check, fetching what they need
  test FILTER             run only the tests whose name contains FILTER
  test --list             list the tests
  kernels [--setup]       compile device code for the vendor backends; --setup installs the compiler if there is none
  man                     write the manual pages to target/man
  tidy                    check the rules that no compiler checks (CONTRIBUTING.md says which)
  ci                      run .ci/run, exactly what continuous integration runs";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = Workspace::locate().and_then(|workspace| match words.as_slice() {
        ["demo"] => demo::run(&workspace, demo::DEFAULT_PROMPT),
        ["demo", prompt] if !prompt.starts_with('-') => demo::run(&workspace, prompt),
        ["test"] => test::everything(&workspace),
        ["test", "--list"] => test::list(&workspace),
        ["test", filter] if !filter.starts_with('-') => test::matching(&workspace, filter),
        ["kernels"] => kernels::run(&workspace, false),
        ["kernels", "--setup"] => kernels::run(&workspace, true),
        ["man"] => man::run(&workspace),
        ["tidy"] => tidy::run(&workspace),
        ["ci"] => process::run(workspace.command(workspace.root().join(".ci/run"))),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => Err(Failure::usage("a command is expected")),
        _ => Err(Failure::usage(format!("`{}` is not a command of xtask", words.join(" ")))),
    });
    if let Err(failure) = outcome {
        eprintln!("xtask: {failure}");
        if failure.is_usage() {
            eprintln!("{USAGE}");
        }
        std::process::exit(failure.exit_code());
    }
}
