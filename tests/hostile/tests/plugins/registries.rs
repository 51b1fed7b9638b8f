//! Registries read without hardware: of plugins that said in order that they cannot work, of no others.

use cajeta_plugin_host::{Stage, registries};

use crate::folder::{Folder, assert_refused, options};

#[test]
fn rows_are_read_where_the_driver_is_missing() {
    let folder = Folder::new();
    folder.plugin("has-no-driver", "zebra");
    folder.plugin("lists-no-device", "yak");
    folder.plugin("honest", "cpu");
    let installed = registries(&options(&[&folder], None)).expect("nothing is restricted");
    let names: Vec<&str> = installed.iter().map(|plugin| plugin.candidate.id.as_str()).collect();
    assert_eq!(names, ["cpu", "yak", "zebra"]);
    for plugin in &installed {
        let backend = plugin.backend.as_ref().expect("its rows are data");
        assert_eq!(backend.rows()[0].name.as_str(), "copy");
        assert_eq!(plugin.candidate.is_usable(), plugin.candidate.id == "cpu");
    }
    let named = registries(&options(&[&folder], Some("zebra"))).expect("a name");
    assert_eq!(named.len(), 1);
}

#[test]
fn what_crashed_or_was_refused_is_not_opened() {
    for (behaviour, stage) in [
        ("panics-in-probe", Stage::Probe),
        ("exits-in-probe", Stage::Probe),
        ("aborts-in-shutdown", Stage::Device),
        ("has-a-row-twice", Stage::Layout),
        ("aborts-in-a-constructor", Stage::Open),
    ] {
        let folder = Folder::new();
        folder.plugin(behaviour, "zebra");
        let installed = registries(&options(&[&folder], None)).expect("nothing is restricted");
        let refusal = installed[0].backend.as_ref().expect_err(behaviour);
        assert_refused(refusal, stage, &[]);
    }
}
