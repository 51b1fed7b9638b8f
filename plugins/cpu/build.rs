//! Puts the plugin's manifest beside its library, so that a build tree is a plugin folder too.

use std::path::{Path, PathBuf};
use std::{env, fs};

const MANIFEST: &str = "cajeta-backend-cpu.toml";

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed={MANIFEST}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=CAJETA_CPU_COMPILER={}", compiler()?);
    let text = fs::read_to_string(MANIFEST).map_err(|error| format!("{MANIFEST}: {error}"))?;
    // What the build knows better than the file. A package removes `build_tree` and adds `sha256`.
    let built = format!(
        "version = \"{}\"\narch = \"{}\"\nos = \"{}\"\nbuild_tree = true\n{text}",
        variable("CARGO_PKG_VERSION")?,
        variable("CARGO_CFG_TARGET_ARCH")?,
        variable("CARGO_CFG_TARGET_OS")?
    );
    let target = profile_folder()?.join(MANIFEST);
    fs::write(&target, built).map_err(|error| format!("{}: {error}", target.display()))
}

/// Where cargo puts the library: `<target>/<profile>`, above `build/<crate>/out`.
fn profile_folder() -> Result<PathBuf, String> {
    let out = PathBuf::from(variable("OUT_DIR")?);
    let folder = out.ancestors().nth(3).map(Path::to_path_buf);
    folder.ok_or_else(|| format!("OUT_DIR is {}, expected a path below the target folder", out.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}; cargo sets it"))
}

/// The compiler and its version, which the kernels' manifests name.
fn compiler() -> Result<String, String> {
    let rustc = variable("RUSTC")?;
    let output = std::process::Command::new(&rustc).arg("--version").output();
    let output = output.map_err(|error| format!("{rustc} --version: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
