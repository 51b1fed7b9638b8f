//! Rule: crates depend one way. `abi` is a leaf, plugins know `plugin-api` alone, nothing is a circle.

use super::Finding;
use super::tree::Tree;

/// Which of our crates each crate may depend on. Order is the order of the layers.
const ALLOWED: [(&str, &[&str]); 12] = [
    ("cajeta-abi", &[]),
    ("cajeta-catalog", &["cajeta-abi"]),
    ("cajeta-plugin-api", &["cajeta-abi", "cajeta-catalog"]),
    ("cajeta-model-arch", &["cajeta-catalog"]),
    ("cajeta-plugin-host", &["cajeta-abi", "cajeta-catalog"]),
    ("cajeta-conformance", &["cajeta-abi", "cajeta-catalog", "cajeta-plugin-host"]),
    (
        "cajeta",
        &["cajeta-abi", "cajeta-catalog", "cajeta-model-arch", "cajeta-plugin-host", "cajeta-conformance"],
    ),
    (
        "cajeta-golden",
        &["cajeta", "cajeta-catalog", "cajeta-model-arch", "cajeta-plugin-host", "cajeta-conformance"],
    ),
    ("cajeta-fuzz", &["cajeta-abi", "cajeta-catalog", "cajeta-model-arch", "cajeta-plugin-host"]),
    (
        "cajeta-hostile",
        &[
            "cajeta",
            "cajeta-abi",
            "cajeta-catalog",
            "cajeta-model-arch",
            "cajeta-plugin-host",
            "cajeta-plugin-api",
            "cajeta-conformance",
        ],
    ),
    // The tool reads the tree; it links nothing of it.
    ("xtask", &[]),
    // Every crate below plugins/ or tests/hostile/ that this table does not name: see `allowed_for`.
    ("(any plugin)", PLUGIN),
];

/// A plugin is written against the crate its author elsewhere would use, and nothing else of ours.
const PLUGIN: &[&str] = &["cajeta-plugin-api"];

/// A crate as its `Cargo.toml` says: name, path, and our crates among its dependencies.
struct Crate {
    name: String,
    path: String,
    depends_on: Vec<String>,
}

/// Dependencies that point the wrong way, unknown crates, and circles.
///
/// Dev-dependencies are left out: a crate's tests may use later layers to exercise it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let crates = read_crates(tree, &mut findings);
    for member in &crates {
        let Some(allowed) = allowed_for(member) else {
            findings.push(Finding::new(
                &member.path,
                0,
                format!("`{}` has no place in the layers; add it to tidy's table", member.name),
            ));
            continue;
        };
        for dependency in &member.depends_on {
            if !allowed.contains(&dependency.as_str()) {
                let message = format!("`{}` may not depend on `{dependency}`", member.name);
                findings.push(Finding::new(&member.path, 0, message));
            }
        }
        if reaches(&crates, &member.depends_on, &member.name) {
            findings.push(Finding::new(
                &member.path,
                0,
                format!("`{}` depends on itself in a circle", member.name),
            ));
        }
    }
    findings
}

fn allowed_for(member: &Crate) -> Option<&'static [&'static str]> {
    let named = ALLOWED.iter().find(|(name, _)| *name == member.name).map(|(_, allowed)| *allowed);
    let is_plugin = member.path.starts_with("plugins/") || member.path.starts_with("tests/hostile/");
    named.or_else(|| is_plugin.then_some(PLUGIN))
}

fn read_crates(tree: &Tree, findings: &mut Vec<Finding>) -> Vec<Crate> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let mut crates = Vec::new();
    for file in manifests {
        match file.text.parse::<toml::Table>() {
            Ok(table) => crates.extend(read_crate(&file.path, &table)),
            Err(error) => {
                findings.push(Finding::new(&file.path, 0, format!("not TOML: {}", error.message())))
            }
        }
    }
    let ours: Vec<String> = crates.iter().map(|member| member.name.clone()).collect();
    for member in &mut crates {
        member.depends_on.retain(|name| ours.contains(name) || name.starts_with("cajeta"));
    }
    crates
}

fn read_crate(path: &str, table: &toml::Table) -> Option<Crate> {
    let name = table.get("package")?.get("name")?.as_str()?.to_owned();
    let mut depends_on = Vec::new();
    collect_dependencies(table, &mut depends_on);
    // `[target.'cfg(…)'.dependencies]` counts as well.
    for target in table.get("target").and_then(toml::Value::as_table).into_iter().flat_map(|all| all.values())
    {
        if let Some(target) = target.as_table() {
            collect_dependencies(target, &mut depends_on);
        }
    }
    Some(Crate { name, path: path.to_owned(), depends_on })
}

fn collect_dependencies(table: &toml::Table, names: &mut Vec<String>) {
    for kind in ["dependencies", "build-dependencies"] {
        let Some(dependencies) = table.get(kind).and_then(toml::Value::as_table) else { continue };
        for (key, value) in dependencies {
            let renamed = value.get("package").and_then(toml::Value::as_str);
            names.push(renamed.unwrap_or(key).to_owned());
        }
    }
}

/// Whether following dependencies from `start` comes to `goal`.
fn reaches(crates: &[Crate], start: &[String], goal: &str) -> bool {
    let mut waiting: Vec<&str> = start.iter().map(String::as_str).collect();
    let mut seen: Vec<&str> = Vec::new();
    while let Some(name) = waiting.pop() {
        if name == goal {
            return true;
        }
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let next = crates.iter().filter(|member| member.name == name);
        waiting.extend(next.flat_map(|member| member.depends_on.iter().map(String::as_str)));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, dependencies: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[dependencies]\n{dependencies}")
    }

    fn messages(files: &[(&str, String)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        check(&Tree::of(&files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_plugin_that_reaches_around_the_api_is_found() {
        let found = messages(&[
            (
                "plugins/new/Cargo.toml",
                manifest("cajeta-backend-new", "cajeta-abi.workspace = true\nlibc = \"1\""),
            ),
            ("plugin-api/abi/Cargo.toml", manifest("cajeta-abi", "")),
        ]);
        assert_eq!(found, ["`cajeta-backend-new` may not depend on `cajeta-abi`"]);
    }

    #[test]
    fn a_renamed_or_target_specific_dependency_is_seen() {
        let renamed = manifest("cajeta-abi", "api = { package = \"cajeta-plugin-api\", path = \"..\" }");
        assert_eq!(messages(&[("plugin-api/abi/Cargo.toml", renamed)]).len(), 1);
        let targeted =
            "[package]\nname = \"cajeta-model-arch\"\n[target.'cfg(unix)'.dependencies]\ncajeta-abi = \"1\"";
        assert_eq!(messages(&[("model-arch/Cargo.toml", targeted.to_owned())]).len(), 1);
    }

    #[test]
    fn a_circle_is_found() {
        let found = messages(&[
            ("plugins/a/Cargo.toml", manifest("cajeta-backend-a", "cajeta-backend-b = \"1\"")),
            ("plugins/b/Cargo.toml", manifest("cajeta-backend-b", "cajeta-backend-a = \"1\"")),
        ]);
        assert_eq!(found.iter().filter(|message| message.contains("circle")).count(), 2);
    }

    #[test]
    fn a_crate_without_a_place_is_found_and_dev_dependencies_are_free() {
        let found = messages(&[("extra/Cargo.toml", manifest("cajeta-extra", ""))]);
        assert_eq!(found, ["`cajeta-extra` has no place in the layers; add it to tidy's table"]);
        let text = "[package]\nname = \"cajeta-abi\"\n[dev-dependencies]\ncajeta = \"1\"";
        assert!(messages(&[("plugin-api/abi/Cargo.toml", text.to_owned())]).is_empty());
    }
}
