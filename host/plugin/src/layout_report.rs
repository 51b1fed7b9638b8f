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

/// The first difference of the report, on one line. The types are printed before it, so it is looked
/// for behind the count of errors.
fn first_error(pages: &str) -> String {
    let lines = pages.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut telling = lines.skip_while(|line| !line.ends_with("error(s).")).skip(1).take(5).peekable();
    if telling.peek().is_none() {
        // The checker leaves out a space where it nests.
        return printable::line(&pages.replace("(s)inside", "(s) inside"), 160);
    }
    printable::line(&telling.collect::<Vec<_>>().join(" "), 160)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told_and_not_the_types() {
        let pages = "Compared <this>:\n  size:64\n\n1 error(s).\n\n\nError:mismatched type\nExpected:\n    A\nFound:\n    B\n";
        assert_eq!(first_error(pages), "Error:mismatched type Expected: A Found: B");
        assert_eq!(first_error("something else"), "something else");
        assert_eq!(first_error("4 error(s)inside:\n a"), "4 error(s) inside: a");
    }
}
