//! Writes every target's seeds to FOLDER/TARGET, for `cargo fuzz` to start from.

use std::path::Path;
use std::process::ExitCode;

use cajeta_fuzz::TARGETS;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: seeds FOLDER");
        return ExitCode::from(2);
    };
    for target in &TARGETS {
        let folder = Path::new(&folder).join(target.name);
        if let Err(error) = write(&folder, (target.seeds)()) {
            eprintln!("cannot write the seeds to {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn write(folder: &Path, seeds: Vec<Vec<u8>>) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    seeds
        .iter()
        .enumerate()
        .try_for_each(|(number, seed)| std::fs::write(folder.join(format!("seed-{number}")), seed))
}
