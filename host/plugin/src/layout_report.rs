//! Layout errors: one line for people, the pages that explain it in a file.

use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::candidate::{Refusal, Stage};
use crate::printable;
use crate::search::cache_directory;

/// The refusal for a type that is not the host's. The checker prints pages; they go to a file below
/// the cache folder, and the line says where.
pub(crate) fn refusal(library: &Path, what: &str, pages: &str) -> Refusal {
    let first = first_error(pages);
    let place = match write(library, pages) {
        Some(path) => format!("; the full comparison is in {}", path.display()),
        None => String::new(),
    };
    Refusal::new(
        Stage::Layout,
        format!("the types of {what} are not this host's: {first}{place}"),
        "rebuild the plugin against the current cajeta-plugin-api, or install its release for this host",
    )
}

/// The first line of the report that names a difference.
fn first_error(pages: &str) -> String {
    let lines: Vec<&str> = pages.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let telling = lines.iter().position(|line| line.starts_with("Error:") || line.starts_with("0 error(s)"));
    let start = telling.unwrap_or(0);
    printable::line(
        &lines.get(start..).unwrap_or_default().iter().take(3).copied().collect::<Vec<_>>().join(" "),
        160,
    )
}

fn write(library: &Path, pages: &str) -> Option<PathBuf> {
    let folder = cache_directory()?.join("layout");
    std::fs::create_dir_all(&folder).ok()?;
    let digest = Sha256::digest(library.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(format!("{name}.txt"));
    let mut file = std::fs::File::create(&path).ok()?;
    writeln!(file, "{}\n\n{pages}", library.display()).ok()?;
    Some(path)
}
