//! Refused while opening: what the loader, the header, the layouts and the rows give away.

use std::fs;

use cajeta_plugin_host::{Stage, open_path};

use crate::folder::{Folder, Lines, assert_behaviour, assert_refused, only_candidate, refusal};

#[test]
fn no_symbol() {
    let folder = Folder::new();
    let library = folder.compiled("plain", "int nothing(void) { return 1; }\n", &[]);
    folder.manifest("zebra", &Lines::of("zebra", &library));
    assert_refused(&refusal(&folder), Stage::Symbol, &["does not export the header"]);
}

#[test]
fn a_symbol_that_is_no_header() {
    let folder = Folder::new();
    let source = "const char _1as_0lib_1header_0root_bmodule_bloader[4096] \
                  __attribute__((aligned(16))) = \"this is no header of anything\";\n";
    let library = folder.compiled("fake", source, &[]);
    folder.manifest("zebra", &Lines::of("zebra", &library));
    assert_refused(&refusal(&folder), Stage::Abi, &["binary interface"]);
}

#[test]
fn an_undefined_symbol() {
    let folder = Folder::new();
    let source = "int nowhere_to_be_found(void);\nint f(void) { return nowhere_to_be_found(); }\n";
    let library = folder.compiled("undefined", source, &[]);
    folder.manifest("zebra", &Lines::of("zebra", &library));
    assert_refused(&refusal(&folder), Stage::Open, &["undefined symbol", "nowhere_to_be_found"]);
}

#[test]
fn a_missing_dependency() {
    let folder = Folder::new();
    folder.compiled("vanishing", "int gone(void) { return 1; }\n", &[]);
    let at = folder.path.display().to_string();
    let source = "int gone(void);\nint f(void) { return gone(); }\n";
    let library = folder.compiled("needy", source, &["-L", &at, "-lvanishing"]);
    fs::remove_file(folder.path.join("libvanishing.so")).expect("removed");
    folder.manifest("zebra", &Lines::of("zebra", &library));
    let refused = refusal(&folder);
    assert_refused(&refused, Stage::Open, &["libvanishing.so"]);
    assert!(refused.remedy.contains("install the library"), "{refused}");
}

#[test]
fn a_truncated_library() {
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    folder.manifest("zebra", &Lines::of("zebra", &library));
    let path = folder.path.join(&library);
    let bytes = fs::read(&path).expect("read");
    for keep in [64, 4096, 65536] {
        fs::write(&path, &bytes[..keep]).expect("written");
        // The loader may refuse it or die of it; both end in the child process.
        assert_refused(&refusal(&folder), Stage::Open, &[]);
    }
}

#[test]
fn another_layout() {
    let folder = Folder::new();
    folder.plugin("has-another-layout", "zebra");
    let refused = refusal(&folder);
    let words = ["`backend/1`", "not this host's", "Expected: BackendV1 Found: OtherBackend"];
    assert_refused(&refused, Stage::Layout, &words);
    // One line here, the pages in a file, where there is a home to put it in.
    if let Some((_, path)) = refused.reason.split_once("comparison is in ") {
        let pages = fs::read_to_string(path).expect("the comparison is there");
        assert!(pages.lines().count() > 20, "{pages}");
    }
}

#[test]
fn an_absent_layout() {
    assert_behaviour("has-no-layout", Stage::Layout, &["`device/1`", "without the layout"]);
}

#[test]
fn an_absent_table() {
    assert_behaviour("has-no-device-table", Stage::Abi, &["does not answer", "`device/1`"]);
}

#[test]
fn tables_that_are_none() {
    assert_behaviour("has-null-functions", Stage::Layout, &["no function at position 0"]);
    assert_behaviour("is-misaligned", Stage::Layout, &["not aligned"]);
}

#[test]
fn a_root_that_panics() {
    assert_behaviour("panics-in-its-root", Stage::Abi, &["panicked"]);
}

#[test]
fn an_identity_that_is_not_the_manifests() {
    assert_behaviour("lies-about-its-id", Stage::Manifest, &["id `zebra`", "`somebody-else`"]);
    assert_behaviour("lies-about-its-tables", Stage::Manifest, &["tables", "device/9"]);
    assert_behaviour("says-bad-utf8", Stage::Abi, &["its version is not text"]);
    let folder = Folder::new();
    let library = folder.library("honest", "zebra");
    folder.manifest("zebra", &Lines::of("zebra", &library).with("version", "\"2.0.0\""));
    assert_refused(&refusal(&folder), Stage::Manifest, &["version `2.0.0`", "`1.0.0`"]);
    folder.manifest("zebra", &Lines::of("zebra", &library).with("license", "\"GPL-3.0\""));
    assert_refused(&refusal(&folder), Stage::Manifest, &["licence"]);
}

#[test]
fn malformed_rows() {
    for (behaviour, words) in [
        ("has-rows-at-null", "3 rows at"),
        ("has-too-many-rows", "at most 65536"),
        ("has-a-row-twice", "row 1: the name `copy` is taken"),
        ("has-a-row-of-a-bad-name", "row 1 has no printable name"),
        ("has-a-row-of-no-steps", "row 0 `copy`: it has no step"),
        ("wires-past-its-arguments", "argument 700 of 2"),
        ("wires-too-few-operands", "wires 1 operands, the op has 3"),
        ("reads-before-writing", "internal value 4 before"),
        ("aliases-nothing", "may alias argument 9"),
        ("has-a-layout-it-lacks", "has layout 300"),
        ("has-a-gate-of-zero", "`K % 0` asks for a multiple of zero"),
        ("has-a-nameless-need", "need 0 has no printable name"),
        ("has-gates-that-exclude-each-other", "row 0 `copy`: no size passes `M <= 1` and `M >= 64`"),
        ("reads-a-layout-nobody-makes", "row 0 `copy`: argument 0 reads layout `lonely`, which no row makes"),
        ("needs-nothing-that-is", "row 0 `copy`: need `thrust` is of capability 0"),
        ("has-a-row-of-no-op", "row 0 `copy`: op 0 is none"),
        ("is-all-of-tomorrow", "no row can be used; row 0 `copy`: need `anti-gravity` is capability 4711"),
        ("has-a-grid-of-nothing", "row 0 `copy`: its geometry at M 1 N 1 K 1 has no block"),
        ("has-a-block-of-everything", "row 0 `copy`: its geometry at M 1 N 1 K 1 has a block of"),
        ("splits-backwards", "row 0 `copy`: its geometry at M 1 N 1 K 1 splits in at least 9"),
    ] {
        assert_behaviour(behaviour, Stage::Layout, &[words, &format!("lib{behaviour}__zebra.so")]);
    }
}

#[test]
fn a_row_of_tomorrow_is_refused_alone() {
    for (behaviour, words) in [
        ("has-a-row-of-tomorrow", "op 9999 is not in this host's catalog"),
        ("needs-a-capability-of-tomorrow", "need `anti-gravity` is capability 4711"),
    ] {
        let folder = Folder::new();
        let manifest = folder.plugin(behaviour, "zebra");
        let candidate = only_candidate(&folder);
        assert!(candidate.is_usable(), "{}", candidate.state());
        let backend = open_path(&manifest, None).expect("its other row serves");
        let [refused] = backend.refused_rows() else { panic!("{:?}", backend.refused_rows()) };
        assert_eq!((refused.row, refused.name.as_str()), (0, "tomorrow"));
        assert!(refused.reason.contains(words), "{refused:?}");
    }
}
