//! An install tree as a package would lay it out: `bin/`, `lib/cajeta/plugins/`, and what shells and `man` read in
//! `share/`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::model::sha256_of;
use crate::process;
use crate::workspace::Workspace;

/// Programs of the host: the front door, and the child that probes a plugin in safety.
const PROGRAMS: [&str; 2] = ["cajeta", "cajeta-probe"];

/// Lays out `<target>/demo` from a release build of the host and the named backend plugins.
/// Returns the path of the installed `cajeta`.
pub(crate) fn lay_out(workspace: &Workspace, backends: &[&str]) -> Outcome<PathBuf> {
    let built = workspace.target().join("release");
    let prefix = workspace.target().join("demo");
    let _ = fs::remove_dir_all(&prefix);
    let programs = prefix.join("bin");
    let plugins = prefix.join("lib/cajeta/plugins");
    // One level at a time: the host refuses plugins below any folder that others may write to.
    for folder in [&prefix, &programs, &prefix.join("lib"), &prefix.join("lib/cajeta"), &plugins] {
        fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
        permit(folder, 0o755)?;
    }
    for program in PROGRAMS {
        let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
        copy(&built.join(&name), &programs.join(&name), 0o755)?;
    }
    for backend in backends {
        // The build wrote it beside the library, with its own version and machine.
        let source = built.join(format!("cajeta-backend-{backend}.toml"));
        install_plugin(&source, &built, &plugins)?;
        install_records(backend, &workspace.root().join("plugins").join(backend), &plugins)?;
    }
    let cajeta = programs.join(format!("cajeta{}", std::env::consts::EXE_SUFFIX));
    share(workspace, &cajeta, &prefix.join("share"))?;
    Ok(cajeta)
}

/// Where each shell looks for its completions below `share/`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/cajeta"),
    ("zsh", "zsh/site-functions/_cajeta"),
    ("fish", "fish/vendor_completions.d/cajeta.fish"),
];

/// Manual pages and completions, written by the installed program itself.
fn share(workspace: &Workspace, cajeta: &Path, share: &Path) -> Outcome<()> {
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages).map_err(|error| Failure::file("create", &pages, &error))?;
    let mut command = workspace.command(cajeta);
    command.arg("man").arg(&pages);
    process::run(command)?;
    for (shell, place) in COMPLETIONS {
        let place = share.join(place);
        let folder = place.parent().unwrap_or(share);
        fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
        let mut command = workspace.command(cajeta);
        command.args(["completions", shell]);
        let script = process::output(command)?;
        fs::write(&place, script).map_err(|error| Failure::file("write", &place, &error))?;
    }
    Ok(())
}

/// Copies one plugin and writes its manifest with the SHA-256 of the library beside it.
fn install_plugin(manifest: &Path, built: &Path, plugins: &Path) -> Outcome<()> {
    let text = fs::read_to_string(manifest).map_err(|error| Failure::file("read", manifest, &error))?;
    let mut fields: toml::Table = text
        .parse()
        .map_err(|error| Failure::work(format!("{} is not a manifest: {error}", manifest.display())))?;
    let library = match fields.get("library") {
        Some(toml::Value::String(library)) => library.clone(),
        other => {
            return Err(Failure::work(format!(
                "{}: `library` should be a relative path, it is {other:?}",
                manifest.display()
            )));
        }
    };
    let installed = plugins.join(&library);
    copy(&built.join(&library), &installed, 0o755)?;
    // A package has a digest; only a build tree, whose library changes with every build, goes without.
    fields.remove("build_tree");
    fields.insert("sha256".to_owned(), toml::Value::String(sha256_of(&installed)?));
    let name = manifest.file_name().ok_or_else(|| Failure::work("a manifest needs a file name"))?;
    let target = plugins.join(name);
    fs::write(&target, fields.to_string()).map_err(|error| Failure::file("write", &target, &error))?;
    permit(&target, 0o644)
}

/// Copies what the plugin's folder has of records beside it: known defects, calibrations of fixed devices. One
/// that does not read is an error here, where its author sees it, and not a warning on every machine.
fn install_records(backend: &str, folder: &Path, plugins: &Path) -> Outcome<()> {
    let not = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::work(format!("{} is not what plugins ship: {error}", path.display()))
    };
    let read = |path: &Path| match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::file("read", path, &error)),
    };
    let name = format!("cajeta-defects-{backend}.toml");
    let path = folder.join(&name);
    if let Some(text) = read(&path)? {
        let fields: toml::Table = text.parse().map_err(|error| not(&path, &error))?;
        if fields.get("schema").and_then(toml::Value::as_integer) != Some(1) {
            return Err(not(&path, &"expected `schema = 1`"));
        }
        copy(&path, &plugins.join(&name), 0o644)?;
    }
    let name = format!("cajeta-backend-{backend}.calibration.json");
    let path = folder.join(&name);
    if let Some(text) = read(&path)? {
        let records: Vec<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_str(&text).map_err(|error| not(&path, &error))?;
        if let Some(at) = records.iter().position(|record| record.get("schema") != Some(&1.into())) {
            return Err(not(&path, &format!("record {at} has no `\"schema\": 1`")));
        }
        copy(&path, &plugins.join(&name), 0o644)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Outcome<()> {
    fs::copy(from, to).map_err(|error| Failure::file("install", from, &error))?;
    permit(to, mode)
}

/// Sets the mode explicitly: a permissive umask must not make a plugin that the host refuses.
#[cfg(unix)]
fn permit(path: &Path, mode: u32) -> Outcome<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| Failure::file("set the mode of", path, &error))
}

#[cfg(not(unix))]
fn permit(_path: &Path, _mode: u32) -> Outcome<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_manifest_keeps_its_fields_and_gains_the_digest() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (built, plugins) = (folder.path().join("built"), folder.path().join("plugins"));
        fs::create_dir_all(&built).expect("created");
        fs::create_dir_all(&plugins).expect("created");
        fs::write(built.join("libx.so"), "abc").expect("written");
        let manifest = folder.path().join("cajeta-backend-x.toml");
        fs::write(&manifest, "schema = 1\nid = \"x\"\nlibrary = \"libx.so\"\nbuild_tree = true\n")
            .expect("written");

        install_plugin(&manifest, &built, &plugins).expect("installed");

        let text = fs::read_to_string(plugins.join("cajeta-backend-x.toml")).expect("there");
        let fields: toml::Table = text.parse().expect("still TOML");
        assert_eq!(fields["id"].as_str(), Some("x"));
        assert!(!fields.contains_key("build_tree"), "a package is not a build tree");
        assert_eq!(
            fields["sha256"].as_str(),
            Some("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
        assert!(plugins.join("libx.so").is_file());
    }

    #[test]
    fn a_manifest_without_a_library_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let manifest = folder.path().join("cajeta-backend-x.toml");
        fs::write(&manifest, "id = \"x\"\n").expect("written");
        let failure = install_plugin(&manifest, folder.path(), folder.path()).expect_err("refused");
        assert!(failure.to_string().contains("library"), "{failure}");
    }

    #[test]
    fn records_beside_a_plugin_are_shipped_with_it_and_bad_ones_are_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (source, plugins) = (folder.path().join("source"), folder.path().join("plugins"));
        fs::create_dir_all(&source).expect("created");
        fs::create_dir_all(&plugins).expect("created");
        install_records("x", &source, &plugins).expect("none is fine");
        assert_eq!(fs::read_dir(&plugins).expect("a folder").count(), 0);

        let defects = ("cajeta-defects-x.toml", "schema = 1\n[[defect]]\nrow = 'a'\nreason = 'r'\n");
        let calibration = ("cajeta-backend-x.calibration.json", "[{\"schema\": 1, \"facts\": {}}]");
        for (name, text) in [defects, calibration] {
            fs::write(source.join(name), text).expect("written");
        }
        // Another plugin's, and what is no record, stay where they are.
        fs::write(source.join("cajeta-defects-y.toml"), "schema = 1").expect("written");
        install_records("x", &source, &plugins).expect("installed");
        for (name, text) in [defects, calibration] {
            assert_eq!(fs::read_to_string(plugins.join(name)).expect(name), text);
        }
        assert_eq!(fs::read_dir(&plugins).expect("a folder").count(), 2);

        for (name, text) in [
            (defects.0, "schema = 2"),
            (defects.0, "[[defect]]"),
            (defects.0, "rows: a"),
            (calibration.0, "{}"),
            (calibration.0, "[{\"schema\": 2}]"),
            (calibration.0, "[7]"),
            (calibration.0, "["),
        ] {
            let bad = folder.path().join("bad");
            fs::create_dir_all(&bad).expect("created");
            fs::write(bad.join(name), text).expect("written");
            let failure = install_records("x", &bad, &plugins).expect_err(text).to_string();
            assert!(failure.contains(name), "{failure}");
            fs::remove_file(bad.join(name)).expect("removed");
        }
    }
}
