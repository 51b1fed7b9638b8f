//! Embeds the device code that `cargo xtask kernels` made, and puts the plugin's manifest beside its library.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "../kernels/digest.rs"]
mod digest;

const MANIFEST: &str = "cajeta-backend-cuda.toml";
const SOURCES: &str = "../kernels";
const REMEDY: &str = "run `cargo xtask kernels` (with `--setup` where there is no nvcc), then build again";

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed={MANIFEST}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCES}");
    let out = PathBuf::from(variable("OUT_DIR")?);
    let table = find_table(&out)?;
    println!("cargo::rerun-if-changed={}", table.display());
    let text = fs::read_to_string(&table).map_err(|error| format!("{}: {error}", table.display()))?;
    let folder = table.parent().unwrap_or(Path::new("."));
    fs::write(out.join("kernels.rs"), generate(&text, folder)?)
        .map_err(|error| format!("{}: {error}", out.join("kernels.rs").display()))?;
    write_manifest(&out)
}

/// The table beside the compiled kernels, in the target folder this build works in.
fn find_table(out: &Path) -> Result<PathBuf, String> {
    // `<target>/<profile>/build/<crate>/out`, with one more folder when cross-compiling.
    let candidates = out.ancestors().skip(3).take(3).map(|folder| folder.join("kernels/cuda/kernels.tsv"));
    let found = candidates.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("the CUDA backend embeds device code that is not there yet: {REMEDY}"))
}

/// The embedded code and the table of kernels as Rust.
fn generate(text: &str, folder: &Path) -> Result<String, String> {
    let mut lines = text.lines();
    let (stamp, compiler) = lines.next().and_then(|line| line.split_once('\t')).unwrap_or_default();
    if stamp != digest::of_sources(Path::new(SOURCES))? {
        return Err(format!("the CUDA backend's device code is not of these sources: {REMEDY}"));
    }
    let mut codes: Vec<(String, String, String)> = Vec::new();
    let mut kernels = String::new();
    for line in lines {
        let words: Vec<&str> = line.split('\t').collect();
        let [name, target, code, digest, registers, spill, shared, threads, waits] = words.as_slice() else {
            return Err(format!("the table of kernels has a line that is not one: `{line}`; {REMEDY}"));
        };
        let index = codes.iter().position(|(file, ..)| file == code).unwrap_or_else(|| {
            codes.push(((*code).to_owned(), (*target).to_owned(), (*digest).to_owned()));
            codes.len() - 1
        });
        let _ = writeln!(
            kernels,
            "    Kernel {{ name: {name:?}, target: {target:?}, code: {index}, registers: {registers}, \
             spill_bytes: {spill}, static_shared: {shared}, max_threads: {threads}, waits: {waits} }},"
        );
    }
    let mut rust = format!("pub(crate) const COMPILER: &str = {compiler:?};\n");
    let _ = writeln!(rust, "pub(crate) static CODES: &[Code] = &[");
    for (file, target, digest) in &codes {
        let path = folder.join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        let path = path.to_str().ok_or_else(|| format!("{} is no UTF-8", path.display()))?;
        let _ = writeln!(
            rust,
            "    Code {{ file: {file:?}, target: {target:?}, digest: {digest:?}, bytes: include_bytes!({path:?}) }},"
        );
    }
    let _ = writeln!(rust, "];\npub(crate) static KERNELS: &[Kernel] = &[\n{kernels}];");
    Ok(rust)
}

/// Puts the manifest beside the library, so that a build tree is a plugin folder too.
fn write_manifest(out: &Path) -> Result<(), String> {
    let text = fs::read_to_string(MANIFEST).map_err(|error| format!("{MANIFEST}: {error}"))?;
    // What the build knows better than the file. A package removes `build_tree` and adds `sha256`.
    let built = format!(
        "version = \"{}\"\narch = \"{}\"\nos = \"{}\"\nbuild_tree = true\n{text}",
        variable("CARGO_PKG_VERSION")?,
        variable("CARGO_CFG_TARGET_ARCH")?,
        variable("CARGO_CFG_TARGET_OS")?
    );
    let folder = out.ancestors().nth(3);
    let folder = folder
        .ok_or_else(|| format!("OUT_DIR is {}, expected a path below the target folder", out.display()))?;
    let target = folder.join(MANIFEST);
    fs::write(&target, built).map_err(|error| format!("{}: {error}", target.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}; cargo sets it"))
}
