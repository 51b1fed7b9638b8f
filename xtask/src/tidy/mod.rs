//! `cargo xtask tidy`: the project's rules that no compiler checks, one file each.

mod tree;
mod code;
mod first_line;
mod length;
mod unsafe_code;
mod crates;
mod modules;
mod vendor_free;
mod leftovers;
mod workplace;

use crate::failure::{Failure, Outcome};
use crate::tally::Tally;
use crate::workspace::Workspace;
use tree::Tree;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Counted from one; zero when the whole file is meant.
    line: usize,
    /// What is wrong, and what to do.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

/// A named rule over the whole tree.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

/// The rules in the order in which they are reported.
const RULES: [Rule; 8] = [
    ("every file says on its first line what it is for", first_line::check),
    ("files stay short", length::check),
    ("unsafe is confined and proved", unsafe_code::check),
    ("crates depend one way", crates::check),
    ("host modules import earlier stages only", modules::check),
    ("the host names no vendor", vendor_free::check),
    ("nothing is left unfinished", leftovers::check),
    ("no path of a particular machine", workplace::check),
];

/// Checks all rules, printing each finding; each rule counts as one check.
pub(crate) fn check(workspace: &Workspace) -> Outcome<Tally> {
    let tree = Tree::read(workspace.root())?;
    let mut tally = Tally::default();
    for (name, rule) in RULES {
        let findings = rule(&tree);
        eprintln!("{} {name}", if findings.is_empty() { "ok     " } else { "BROKEN " });
        for Finding { path, line, message } in &findings {
            match line {
                0 => eprintln!("        {path}: {message}"),
                _ => eprintln!("        {path}:{line}: {message}"),
            }
        }
        tally.check(&format!("tidy: {name}"), findings.is_empty());
    }
    eprintln!("        {}", length::report(&tree));
    Ok(tally)
}

/// The command: fails when a rule is broken.
pub(crate) fn run(workspace: &Workspace) -> Outcome<()> {
    let tally = check(workspace)?;
    match tally.failed.len() {
        0 => Ok(()),
        count => Err(Failure::work(format!("{count} of {} rules are broken", RULES.len()))),
    }
}
