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
}
