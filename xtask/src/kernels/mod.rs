//! `cargo xtask kernels`: device code for the backends that embed it, and the gates it must pass.
//!
//! Each operation in `plugins/kernels/op` is compiled for each target on its own; what did not change is not compiled
//! again. What the assembler says of each kernel goes into a table beside the code, from which the plugin makes its
//! manifests. A kernel that spills, whose launch is unbounded, or that lacks a target fails the build by name.

mod toolkit;
mod compile;
mod assembler;
mod table;
#[path = "../../../plugins/kernels/digest.rs"]
mod digest;

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::workspace::Workspace;
use table::Kernel;
use toolkit::Toolkit;

/// The code targets a backend declares.
const TARGETS: [&str; 1] = ["sm_90a"];

/// Compiles what changed and writes the table. With `setup`, installs the compiler first where there is none.
pub(crate) fn run(workspace: &Workspace, setup: bool) -> Outcome<()> {
    let toolkit = match Toolkit::find(workspace) {
        Some(toolkit) => toolkit,
        None if setup => toolkit::install(workspace)?,
        None => return Err(Failure::work(toolkit::MISSING)),
    };
    let compiler = toolkit.version(workspace)?;
    let sources = workspace.root().join("plugins/kernels");
    let out = workspace.target().join("kernels/cuda");
    let compiled = |folder: &str, out: &Path| -> Outcome<Vec<Kernel>> {
        let mut kernels = Vec::new();
        fs::create_dir_all(out).map_err(|error| Failure::file("create", out, &error))?;
        for source in sources_in(&sources.join(folder))? {
            for target in TARGETS {
                kernels.extend(compile::operation(
                    workspace, &toolkit, &compiler, &sources, &source, target, out,
                )?);
            }
        }
        kernels.sort_by(|a, b| (&a.name, &a.target).cmp(&(&b.name, &b.target)));
        gates(&kernels)?;
        Ok(kernels)
    };
    let kernels = compiled("op", &out)?;
    // What measures the device: code beside the others, of no row.
    compiled("bench", &out.join("bench"))?;
    let digest = digest::of_sources(&sources).map_err(Failure::work)?;
    table::write(&out.join("kernels.tsv"), &digest, &compiler, &kernels)?;
    println!("{} kernels in {}, by {compiler}", kernels.len(), out.display());
    Ok(())
}

/// The sources of a folder, sorted.
fn sources_in(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::file("list", folder, &error))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    found.sort();
    Ok(found)
}

/// Whether the code that a table describes is of the sources as they are now.
pub(crate) fn is_current(workspace: &Workspace, table: &std::path::Path) -> bool {
    let text = fs::read_to_string(table).unwrap_or_default();
    let stamp = text.split(['\t', '\n']).next().unwrap_or_default();
    digest::of_sources(&workspace.root().join("plugins/kernels")).is_ok_and(|digest| digest == stamp)
}

/// Refuses kernels that must not ship, all of them in one message.
fn gates(kernels: &[Kernel]) -> Outcome<()> {
    let mut refused: Vec<String> = Vec::new();
    for kernel in kernels {
        if kernel.spill_bytes > 0 {
            refused.push(format!("{} ({}) spills {} bytes", kernel.name, kernel.target, kernel.spill_bytes));
        }
        if kernel.max_threads == 0 {
            refused.push(format!("{} ({}) declares no launch bounds", kernel.name, kernel.target));
        }
        let missing = TARGETS.iter().filter(|target| {
            !kernels.iter().any(|other| other.name == kernel.name && other.target == **target)
        });
        refused.extend(missing.map(|target| format!("{} has no code for {target}", kernel.name)));
    }
    refused.dedup();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Failure::work(format!("kernels that may not ship: {}", refused.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str) -> Kernel {
        Kernel { name: name.to_owned(), target: "sm_90a".to_owned(), max_threads: 128, ..Kernel::default() }
    }

    #[test]
    fn each_gate_names_its_kernel() {
        assert!(gates(&[kernel("good")]).is_ok());
        let spilling = Kernel { spill_bytes: 4, ..kernel("leaky") };
        let unbounded = Kernel { max_threads: 0, ..kernel("open") };
        let foreign = Kernel { target: "sm_10".to_owned(), ..kernel("foreign") };
        let text = gates(&[spilling, unbounded, foreign]).expect_err("three refusals").to_string();
        for part in ["leaky (sm_90a) spills 4", "open (sm_90a) declares no", "foreign has no code for sm_90a"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
