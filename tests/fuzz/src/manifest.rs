//! The manifest beside a backend library.

use std::path::{Component, Path};

use cajeta_plugin_host::PluginManifest;
use cajeta_plugin_host::manifest::is_backend_id;
use cajeta_plugin_host::printable::is_printable;

use crate::Target;

/// This target.
pub const TARGET: Target = Target {
    name: "manifest",
    run,
    seeds,
    words: &[
        "schema = 1\n",
        "[[driver_libraries]]\n",
        "sha256 = \"",
        "build_tree = true\n",
        "\"../",
        "\"/",
        "\"\"\"",
        "\\u0000",
        "[",
        "]",
        "a.b.c = 1\n",
        "1979-05-27",
        "0x",
    ],
    replays: 500_000,
};

/// Parses a manifest; one that is taken keeps every rule that later stages rely on.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match PluginManifest::parse(&text) {
        Ok(manifest) => {
            assert!(is_backend_id(&manifest.id), "{manifest:?}");
            let mut parts = Path::new(&manifest.library).components();
            assert!(
                parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)),
                "{manifest:?}"
            );
            assert!(manifest.sha256.is_some() || manifest.build_tree, "{manifest:?}");
            let texts = [&manifest.version, &manifest.license, &manifest.arch, &manifest.os];
            assert!(texts.into_iter().all(|text| is_printable(text) && !text.is_empty()), "{manifest:?}");
        }
        Err(rule) => assert!(is_printable(&rule) && !rule.is_empty(), "{rule:?}"),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let small = "schema = 1\nid = \"cpu\"\nversion = \"0.1.0\"\nlicense = \"MIT\"\nlibrary = \"lib.so\"\n\
                 arch = \"x86_64\"\nos = \"linux\"\ntables = [\"backend/1\"]\nbuild_tree = true\n";
    let full = format!(
        "schema = 1\nid = \"example-2\"\nversion = '1'\nlicense = \"MIT OR Apache-2.0\"\n\
         library = \"sub/./lib.so\"\narch = \"aarch64\"\nos = \"linux\"\ntables = [\"backend/1\", \"device/1\"]\n\
         sha256 = \"{}\"\nvisibility_variables = [\"X\"]\ndriver_files = [\"/proc/version\"]\n\
         [[driver_libraries]]\nname = \"libx.so.1\"\nremedy = \"\"\"install\\\n  it\"\"\"\n",
        "0123456789abcdef".repeat(4)
    );
    vec![small.into(), full.into()]
}
