//! Where the device compiler is: CUDA_HOME, PATH, or the packages `--setup` installs below the target folder.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::process;
use crate::workspace::Workspace;

/// What to do without a compiler.
pub(super) const MISSING: &str = "no nvcc in CUDA_HOME or on PATH; `cargo xtask kernels --setup` installs one (270 MB) \
                                  below the target folder through pip";

/// The compiler's own packages. Newer ones make code that the drivers of 2025 do not load.
const PACKAGES: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// A folder with `nvcc` and `ptxas`.
pub(super) struct Toolkit {
    programs: PathBuf,
}

impl Toolkit {
    /// The first toolkit that has both programs.
    pub(super) fn find(workspace: &Workspace) -> Option<Toolkit> {
        let home = std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let named = home.into_iter().chain(std::env::split_paths(&path));
        let mut folders = named.chain([folder(workspace).join("nvidia/cu13/bin")]);
        let programs =
            folders.find(|folder| folder.join("nvcc").is_file() && folder.join("ptxas").is_file())?;
        Some(Toolkit { programs })
    }

    /// One of its programs.
    pub(super) fn program(&self, workspace: &Workspace, name: &str) -> Command {
        workspace.command(self.programs.join(name))
    }

    /// What the compiler calls itself, for instance `nvcc 13.0 (V13.0.88)`.
    pub(super) fn version(&self, workspace: &Workspace) -> Outcome<String> {
        let mut command = self.program(workspace, "nvcc");
        let output = command.arg("--version").output();
        let output = output.map_err(|error| Failure::work(format!("cannot start nvcc: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // "Cuda compilation tools, release 13.0, V13.0.88"
        let parsed = text.lines().find_map(|line| {
            let (_, rest) = line.split_once("release ")?;
            let (release, build) = rest.split_once(", ")?;
            Some(format!("nvcc {release} ({})", build.trim()))
        });
        parsed.ok_or_else(|| Failure::work(format!("nvcc --version said no release: {text:?}")))
    }
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("kernels/toolkit")
}

/// Installs the compiler below the target folder.
pub(super) fn install(workspace: &Workspace) -> Outcome<Toolkit> {
    let mut pip = workspace.command("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--upgrade"]);
    pip.arg("--target").arg(folder(workspace)).args(PACKAGES);
    process::run(pip)?;
    Toolkit::find(workspace).ok_or_else(|| {
        Failure::work(format!("pip succeeded, and {} has no nvcc and ptxas", folder(workspace).display()))
    })
}
