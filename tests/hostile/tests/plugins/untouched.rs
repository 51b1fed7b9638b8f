//! Refused before anything is opened: manifests, owners and modes, links, hashes, other machines.

use std::fs;
use std::os::unix::fs::symlink;

use cajeta_plugin_host::{Outcome, Stage, discover};
use sha2::{Digest, Sha256};

use crate::folder::{Folder, Lines, assert_refused, explained, only_candidate, options, permit, refusal};

#[test]
fn garbage_for_a_manifest() {
    for content in
        [&b""[..], b"\xff\xfe\x00", b"schema = 1\nid = ", &[b'a'; 200_000], b"schema = 99999999999999999999"]
    {
        let folder = Folder::new();
        folder.file("cajeta-backend-zebra.toml", content);
        assert_refused(&refusal(&folder), Stage::Manifest, &["cajeta-backend-zebra.toml"]);
    }
}

#[test]
fn a_manifest_that_is_no_file() {
    let folder = Folder::new();
    fs::create_dir(folder.path.join("cajeta-backend-zebra.toml")).expect("made");
    assert_refused(&refusal(&folder), Stage::Trust, &["not a regular file"]);
}

#[test]
fn a_manifest_under_another_name() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    folder.manifest("cpu", &Lines::of("zebra", &library));
    assert_refused(&refusal(&folder), Stage::Manifest, &["named after `cpu`", "`zebra`"]);
}

#[test]
fn a_library_that_is_not_there() {
    let folder = Folder::new();
    folder.manifest("zebra", &Lines::of("zebra", "libnone.so"));
    assert_refused(&refusal(&folder), Stage::Manifest, &["libnone.so", "does not exist"]);
}

#[test]
fn files_and_folders_that_everybody_may_write() {
    let folder = Folder::new();
    let manifest = folder.plugin("honest", "zebra");
    let library = folder.path.join("libhonest__zebra.so");
    for (path, bad, good) in [
        (&library, 0o777, 0o755),
        (&manifest, 0o646, 0o644),
        (&folder.path, 0o777, 0o755),
        (&folder.path, 0o1777, 0o755),
    ] {
        permit(path, bad);
        let refused = refusal(&folder);
        assert_refused(&refused, Stage::Trust, &["writable by everybody", &path.display().to_string()]);
        assert!(refused.remedy.contains("chmod o-w"), "{refused}");
        permit(path, good);
    }
    assert!(only_candidate(&folder).is_usable());
}

#[test]
fn a_folder_in_between_that_everybody_may_write() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    let inner = folder.path.join("inner");
    fs::create_dir(&inner).expect("made");
    fs::rename(folder.path.join(&library), inner.join(&library)).expect("moved");
    folder.manifest("zebra", &Lines::of("zebra", &format!("inner/{library}")));
    permit(&inner, 0o1777);
    assert_refused(&refusal(&folder), Stage::Trust, &["inner", "writable by everybody"]);
    permit(&inner, 0o755);
    assert!(only_candidate(&folder).is_usable());
}

#[test]
fn links_that_leave_the_folder() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let library = elsewhere.library("honest", "zebra");
    symlink(elsewhere.path.join(&library), folder.path.join(&library)).expect("linked");
    folder.manifest("zebra", &Lines::of("zebra", &library));
    assert_refused(&refusal(&folder), Stage::Trust, &["outside its folder"]);

    let folder = Folder::new();
    let manifest = elsewhere.manifest("zebra", &Lines::of("zebra", &library));
    symlink(manifest, folder.path.join("cajeta-backend-zebra.toml")).expect("linked");
    assert_refused(&refusal(&folder), Stage::Trust, &["outside its folder"]);
}

#[test]
fn a_library_path_that_leaves_the_folder() {
    let folder = Folder::new();
    for path in ["../libhonest__zebra.so", "/usr/lib/libc.so", "a/../../b.so"] {
        folder.manifest("zebra", &Lines::of("zebra", path));
        assert_refused(&refusal(&folder), Stage::Manifest, &["inside the manifest's folder"]);
    }
}

#[test]
fn a_link_to_the_folder_and_a_link_inside_it_are_fine() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    symlink(&library, folder.path.join("link.so")).expect("linked");
    folder.manifest("zebra", &Lines::of("zebra", "link.so"));
    let other = Folder::new();
    let link = other.path.join("plugins");
    symlink(&folder.path, &link).expect("linked");
    let mut options = options(&[&folder], None);
    options.search.configured = vec![link];
    let found = discover(&options.search).candidates;
    assert!(matches!(found[0].outcome, Outcome::NotTried { .. }), "{found:?}");
}

#[test]
fn another_hash_than_the_manifest_promises() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    let digest = Sha256::digest(fs::read(folder.path.join(&library)).expect("read"));
    let right: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = Lines::of("zebra", &library).with("build_tree", "false");
    folder.manifest("zebra", &lines.clone().with("sha256", &format!("{:?}", "0".repeat(64))));
    assert_refused(&refusal(&folder), Stage::Trust, &["SHA-256", &right]);
    folder.manifest("zebra", &lines.clone().with("sha256", &format!("{right:?}")));
    assert!(only_candidate(&folder).is_usable());
    folder.manifest("zebra", &lines);
    assert_refused(&refusal(&folder), Stage::Manifest, &["`sha256` is missing"]);
}

#[test]
fn a_build_tree_in_the_system_folder() {
    let folder = Folder::new();
    folder.plugin("honest", "zebra");
    let mut options = options(&[], None);
    options.search.system_directory = Some(folder.path.clone());
    let found = discover(&options.search).candidates;
    let Outcome::Refused(refused) = &found[0].outcome else { panic!("{found:?}") };
    assert_refused(refused, Stage::Manifest, &["build tree", "system folder"]);
}

#[test]
fn another_machine() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    let lines = Lines::of("zebra", &library);
    folder.manifest("zebra", &lines.clone().with("arch", "\"pdp11\""));
    assert_refused(&refusal(&folder), Stage::Arch, &["pdp11", std::env::consts::ARCH]);
    folder.manifest("zebra", &lines.clone().with("os", "\"beos\""));
    assert_refused(&refusal(&folder), Stage::Arch, &["beos"]);
    // The manifest says this machine, the file another one: RISC-V.
    folder.manifest("zebra", &lines);
    let path = folder.path.join(&library);
    let mut bytes = fs::read(&path).expect("read");
    bytes[18..20].copy_from_slice(&243u16.to_le_bytes());
    fs::write(&path, bytes).expect("written");
    assert_refused(&refusal(&folder), Stage::Arch, &["riscv64"]);
}

#[test]
fn a_library_cut_to_nothing_or_made_of_text() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    folder.manifest("zebra", &Lines::of("zebra", &library));
    fs::write(folder.path.join(&library), b"").expect("written");
    assert_refused(&refusal(&folder), Stage::Arch, &["header"]);
    fs::write(folder.path.join(&library), b"#!/bin/sh\necho this is not a library\n").expect("written");
    assert_refused(&refusal(&folder), Stage::Arch, &["not an ELF file"]);
}

#[test]
fn a_newer_interface_only() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    folder.manifest("zebra", &Lines::of("zebra", &library).with("tables", "[\"backend/1\", \"device/2\"]"));
    let refused = refusal(&folder);
    assert_refused(&refused, Stage::Abi, &["device/2", "needs device/1"]);
    assert!(refused.remedy.contains("release"), "{refused}");
}

#[test]
fn the_same_id_twice() {
    let (first, second) = (Folder::new(), Folder::new());
    first.plugin("has-no-driver", "zebra");
    second.plugin("honest", "zebra");
    let explanation =
        cajeta_plugin_host::explain(&options(&[&first, &second], Some("zebra"))).expect("explained");
    let [_, duplicate] = explanation.candidates.as_slice() else { panic!("{explanation}") };
    let Outcome::Refused(refused) = &duplicate.outcome else { panic!("{explanation}") };
    assert_refused(refused, Stage::Policy, &[&first.path.display().to_string(), "comes first"]);
    assert_eq!(explanation.chosen, None, "the first one wins even when it does not work");
}

#[test]
fn files_that_are_no_manifests_are_nothing() {
    let folder = Folder::new();
    for name in ["cajeta-backend-zebra.toml.bak", "backend.toml", "libhonest.so", ".cajeta-backend-x.toml"] {
        folder.file(name, b"rubbish");
    }
    assert!(explained(&folder).candidates.is_empty());
}
