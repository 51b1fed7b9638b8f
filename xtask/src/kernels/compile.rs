//! One operation for one target: source to assembly to machine code, unless that is there already.

use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::assembler;
use super::table::{self, Kernel};
use super::toolkit::Toolkit;
use crate::failure::{Failure, Outcome};
use crate::model::sha256_of;
use crate::process;
use crate::workspace::Workspace;

/// Kernels of one source for one target; the code is written as `<operation>.<target>.cubin`.
pub(super) fn operation(
    workspace: &Workspace,
    toolkit: &Toolkit,
    compiler: &str,
    sources: &Path,
    source: &Path,
    target: &str,
    out: &Path,
) -> Outcome<Vec<Kernel>> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let code = format!("{stem}.{target}.cubin");
    let part = out.join(format!("{stem}.{target}.tsv"));
    let stamp = stamp(sources, source, compiler)?;
    if let Some(kernels) = table::read(&part, &stamp)
        && out.join(&code).is_file()
    {
        return Ok(kernels);
    }
    let assembly = out.join(format!("{stem}.{target}.ptx"));
    let virtual_target = target.replace("sm_", "compute_");
    let mut compile = toolkit.program(workspace, "nvcc");
    compile.args(["-std=c++17", "-O3", "-ptx", "--gpu-architecture"]).arg(virtual_target);
    compile.arg(source).arg("-o").arg(&assembly);
    process::run(compile)?;
    let mut assemble = toolkit.program(workspace, "ptxas");
    assemble.arg("-arch").arg(target).args(["-v", "-O3"]).arg(&assembly).arg("-o").arg(out.join(&code));
    let said = said_by(assemble)?;
    let ptx = fs::read_to_string(&assembly).map_err(|error| Failure::file("read", &assembly, &error))?;
    let digest = sha256_of(&out.join(&code))?;
    let kernels = assembler::kernels(&said, &ptx, target, &code, &digest);
    if kernels.is_empty() {
        return Err(Failure::work(format!("{}: no kernel in what the assembler said", source.display())));
    }
    table::write(&part, &stamp, compiler, &kernels)?;
    Ok(kernels)
}

/// What the code depends on: its source, every shared header, the compiler and the build's own options.
fn stamp(sources: &Path, source: &Path, compiler: &str) -> Outcome<String> {
    let mut hasher = Sha256::new();
    hasher.update(compiler.as_bytes());
    hasher.update(include_str!("compile.rs").as_bytes());
    let mut files = vec![source.to_path_buf()];
    for folder in ["common", "shim"] {
        let folder = sources.join(folder);
        let entries = fs::read_dir(&folder).map_err(|error| Failure::file("list", &folder, &error))?;
        let mut headers: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        headers.sort();
        files.extend(headers);
    }
    for file in files {
        hasher.update(fs::read(&file).map_err(|error| Failure::file("read", &file, &error))?);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs a program and returns what it said on both streams.
fn said_by(mut command: Command) -> Outcome<String> {
    let line = process::spell(&command);
    eprintln!("$ {line}");
    let output =
        command.output().map_err(|error| Failure::work(format!("cannot start `{line}`: {error}")))?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(Failure::work(format!("`{line}` failed: {said}"))) }
}
