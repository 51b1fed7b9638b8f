//! The manifest beside a library: `cajeta-backend-NAME.toml`, schema 1.
//!
//! ```toml
//! schema = 1
//! id = "example"                        # NAME of the file
//! version = "0.1.0"
//! license = "MIT"
//! library = "libcajeta_backend_example.so"   # relative, inside this folder
//! arch = "x86_64"
//! os = "linux"
//! tables = ["backend/1", "device/1"]
//! sha256 = "…"                          # of the library; required unless `build_tree = true`
//! build_tree = false
//! visibility_variables = []             # environment variables that hide devices
//! driver_files = []                     # files whose content changes with the driver
//! [[driver_libraries]]                  # for the remedy and the stored probe, never a filter
//! name = "libexample.so.1"
//! remedy = "install the Example driver"
//! ```
//!
//! Unknown keys are refused: within a schema nothing is added, so a key that is not here is a
//! spelling mistake whose rule would silently not hold. `build_tree` marks a manifest that a build
//! wrote: the library changes with every build, so it has no hash; the system folder refuses it.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::candidate::{Refusal, Stage};
use crate::printable;

/// Most bytes of a manifest.
pub const MANIFEST_BYTES_MAX: u64 = 64 * 1024;
/// What the names of manifests begin with.
pub const FILE_PREFIX: &str = "cajeta-backend-";
/// What the names of manifests end with.
pub const FILE_SUFFIX: &str = ".toml";
const SCHEMA: i64 = 1;
const REMEDY: &str = "reinstall the plugin, or write the manifest as the plugin guide says";

/// A manifest that keeps its rules.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginManifest {
    schema: i64,
    /// The file it was read from, if it was.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// The backend id.
    pub id: String,
    /// Version of the plugin.
    pub version: String,
    /// SPDX expression.
    pub license: String,
    /// The library, relative to the manifest's folder.
    pub library: String,
    /// Machine, in Rust's words (`x86_64`, `aarch64`).
    pub arch: String,
    /// Operating system, in Rust's words (`linux`).
    pub os: String,
    /// Interface ids the library answers.
    pub tables: Vec<String>,
    /// Hash of the library in lowercase hexadecimal.
    pub sha256: Option<String>,
    /// A build wrote it: there is no hash.
    #[serde(default)]
    pub build_tree: bool,
    /// Environment variables that hide or choose devices of this backend.
    #[serde(default)]
    pub visibility_variables: Vec<String>,
    /// Files whose content changes when the driver does.
    #[serde(default)]
    pub driver_files: Vec<String>,
    /// Driver libraries the plugin opens in its probe.
    #[serde(default)]
    pub driver_libraries: Vec<DriverLibrary>,
}

/// A driver library a backend opens, and what to do when it is missing.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverLibrary {
    /// Its file name.
    pub name: String,
    /// What to install.
    pub remedy: String,
}

/// Whether `id` can be a backend id: 1 to 32 lowercase ASCII letters, digits and `-`, beginning
/// with a letter.
pub fn is_backend_id(id: &str) -> bool {
    id.len() <= 32
        && id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The backend name in the file name of a manifest.
pub fn name_of_file(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix(FILE_PREFIX)?.strip_suffix(FILE_SUFFIX)
}

impl PluginManifest {
    /// Reads the manifest at `path`.
    ///
    /// # Errors
    /// Stage manifest: the file does not read, is too large, or breaks a rule.
    pub fn read(path: &Path) -> Result<PluginManifest, Refusal> {
        let unread = |error: std::io::Error| refusal(format!("{} does not read: {error}", path.display()));
        let mut text = String::new();
        let file = File::open(path).map_err(unread)?;
        file.take(MANIFEST_BYTES_MAX + 1).read_to_string(&mut text).map_err(unread)?;
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(refusal(format!("{} is larger than {MANIFEST_BYTES_MAX} bytes", path.display())));
        }
        let mut manifest =
            PluginManifest::parse(&text).map_err(|rule| refusal(format!("{}: {rule}", path.display())))?;
        manifest.path = Some(path.to_owned());
        match name_of_file(path) {
            Some(name) if name != manifest.id => Err(refusal(format!(
                "{} is named after `{name}` but its id is `{}`",
                path.display(),
                manifest.id
            ))),
            _ => Ok(manifest),
        }
    }

    /// Parses the text of a manifest.
    ///
    /// # Errors
    /// The rule that is broken, in one line.
    pub fn parse(text: &str) -> Result<PluginManifest, String> {
        let manifest: PluginManifest =
            toml::from_str(text).map_err(|error| printable::line(&error.to_string(), 400))?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema {} is not known; this host reads schema {SCHEMA}", self.schema));
        }
        if !is_backend_id(&self.id) {
            return Err("`id` is not 1 to 32 lowercase letters, digits and `-`".into());
        }
        let fields = [
            ("version", &self.version),
            ("license", &self.license),
            ("library", &self.library),
            ("arch", &self.arch),
            ("os", &self.os),
        ];
        for (name, value) in fields {
            check_text(name, value)?;
        }
        let library = Path::new(&self.library);
        if !library.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err("`library` is not a path inside the manifest's folder".into());
        }
        if self.tables.is_empty() {
            return Err("`tables` is empty".into());
        }
        let lists = [
            ("tables", &self.tables),
            ("visibility_variables", &self.visibility_variables),
            ("driver_files", &self.driver_files),
        ];
        for (name, values) in lists {
            check_count(name, values.len())?;
            values.iter().try_for_each(|value| check_text(name, value))?;
        }
        check_count("driver_libraries", self.driver_libraries.len())?;
        for driver in &self.driver_libraries {
            check_text("driver_libraries.name", &driver.name)?;
            check_text("driver_libraries.remedy", &driver.remedy)?;
        }
        match (&self.sha256, self.build_tree) {
            (None, false) => Err("`sha256` is missing; only a manifest of a build tree may lack it".into()),
            (Some(hash), _) if !is_hash(hash) => {
                Err("`sha256` is not 64 lowercase hexadecimal digits".into())
            }
            _ => Ok(()),
        }
    }
}

fn refusal(reason: String) -> Refusal {
    Refusal::new(Stage::Manifest, reason, REMEDY)
}

fn check_text(name: &str, value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > 512 || !printable::is_printable(value) {
        return Err(format!("`{name}` is empty, longer than 512 bytes, or holds control characters"));
    }
    Ok(())
}

fn check_count(name: &str, count: usize) -> Result<(), String> {
    if count > 64 { Err(format!("`{name}` has {count} entries; at most 64")) } else { Ok(()) }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"
        schema = 1
        id = "example"
        version = "0.1.0"
        license = "MIT"
        library = "libexample.so"
        arch = "x86_64"
        os = "linux"
        tables = ["backend/1", "device/1"]
        build_tree = true
        [[driver_libraries]]
        name = "libexample.so.1"
        remedy = "install it"
    "#;

    fn with(from: &str, to: &str) -> Result<PluginManifest, String> {
        assert!(GOOD.contains(from), "{from}");
        PluginManifest::parse(&GOOD.replace(from, to))
    }

    #[test]
    fn a_manifest_reads() {
        let manifest = PluginManifest::parse(GOOD).unwrap();
        assert_eq!(manifest.id, "example");
        assert_eq!(manifest.driver_libraries[0].remedy, "install it");
        assert!(manifest.build_tree && manifest.sha256.is_none());
    }

    #[test]
    fn each_broken_rule_is_named() {
        let cases = [
            ("schema = 1", "schema = 2", "schema 2 is not known"),
            ("id = \"example\"", "id = \"Example\"", "`id` is not"),
            ("id = \"example\"", "", "missing field `id`"),
            ("\"libexample.so\"", "\"../libexample.so\"", "inside the manifest's folder"),
            ("\"libexample.so\"", "\"/usr/lib/libexample.so\"", "inside the manifest's folder"),
            ("\"libexample.so\"", "\"\"", "`library` is empty"),
            ("\"libexample.so\"", "\"lib\\u0000.so\"", "control characters"),
            ("[\"backend/1\", \"device/1\"]", "[]", "`tables` is empty"),
            ("build_tree = true", "", "`sha256` is missing"),
            ("build_tree = true", "sha256 = \"abc\"", "64 lowercase hexadecimal"),
            ("build_tree = true", "build_treee = true", "unknown field `build_treee`"),
            ("os = \"linux\"", "os = 3", "invalid type"),
        ];
        for (from, to, expected) in cases {
            let error = with(from, to).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_file_name_carries_the_backend_name() {
        assert_eq!(name_of_file(Path::new("a/cajeta-backend-cpu.toml")), Some("cpu"));
        assert_eq!(name_of_file(Path::new("cajeta-backend-cpu.toml.bak")), None);
        assert_eq!(name_of_file(Path::new("backend-cpu.toml")), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,400}") {
            let _ = PluginManifest::parse(&text);
        }

        #[test]
        fn no_damage_to_a_manifest_panics_or_escapes_the_folder(
            at in 0..GOOD.len(), with in "[ -~\n]{0,12}", cut in 0usize..20,
        ) {
            let end = (at + cut).min(GOOD.len());
            let damaged = format!("{}{with}{}", &GOOD[..at], &GOOD[end..]);
            if let Ok(manifest) = PluginManifest::parse(&damaged) {
                prop_assert!(is_backend_id(&manifest.id));
                prop_assert!(!manifest.library.contains(".."));
                prop_assert!(!manifest.library.starts_with('/'));
            }
        }
    }
}
