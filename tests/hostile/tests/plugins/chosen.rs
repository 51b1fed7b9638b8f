//! Selection among working and broken plugins: the order, the names, and what an error says.

use cajeta_plugin_host::{SelectError, explain, select};

use crate::folder::{Folder, options, selected};

fn reason_of(selected: &cajeta_plugin_host::Selected, id: &str) -> String {
    let candidate = selected.explanation.candidates.iter().find(|candidate| candidate.id == id);
    candidate.expect("it was found").state()
}

#[test]
fn the_first_that_works_in_the_fixed_order() {
    let folder = Folder::new();
    folder.plugin("honest", "cpu");
    folder.plugin("honest", "vulkan");
    folder.plugin("has-no-driver", "cuda");
    folder.plugin("honest", "aardvark");
    let selected = selected(&[&folder], None).expect("vulkan works");
    assert_eq!(selected.backend.id(), "vulkan");
    assert!(reason_of(&selected, "cuda").contains("refused at probe"));
    assert!(reason_of(&selected, "cpu").contains("not tried: `vulkan` works and comes first"));
    assert!(reason_of(&selected, "aardvark").contains("CAJETA_XPU_BACKEND=aardvark takes it"));
}

#[test]
fn a_third_party_is_taken_only_when_named() {
    let folder = Folder::new();
    folder.plugin("honest", "zebra");
    let error = selected(&[&folder], None).expect_err("nothing of the fixed order");
    assert!(error.to_string().contains("no plugin of the fixed order is installed"), "{error}");
    assert_eq!(selected(&[&folder], Some("zebra")).expect("named").backend.id(), "zebra");
}

#[test]
fn the_variable_filters_and_never_falls_back() {
    let folder = Folder::new();
    folder.plugin("honest", "cpu");
    folder.plugin("honest", "vulkan");
    folder.plugin("panics-in-probe", "cuda");
    assert_eq!(selected(&[&folder], Some("cpu, VULKAN")).expect("both work").backend.id(), "vulkan");
    assert_eq!(selected(&[&folder], Some("cpu,cuda")).expect("one works").backend.id(), "cpu");
    let error = selected(&[&folder], Some("cuda")).expect_err("no fallback outside the list");
    let text = error.to_string();
    for words in ["CAJETA_XPU_BACKEND=cuda", "probe:", "SIGABRT", "the card is on fire"] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    assert!(!text.contains("vulkan"), "only what was asked for is answered:\n{text}");
}

#[test]
fn a_name_that_is_not_installed() {
    let folder = Folder::new();
    folder.plugin("honest", "cpu");
    let empty = Folder::new();
    let text = selected(&[&folder, &empty], Some("cuda")).expect_err("not installed").to_string();
    for words in [
        "CAJETA_XPU_BACKEND=cuda",
        "no cuda plugin is installed",
        &folder.path.display().to_string(),
        &empty.path.display().to_string(),
        "cajeta-backend-cuda",
        "CAJETA_PLUGIN_ADD_PATH",
        "unset CAJETA_XPU_BACKEND",
    ] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
}

#[test]
fn nothing_at_all() {
    let text = selected(&[], None).expect_err("nothing").to_string();
    assert!(text.contains("no backend can be used") && text.contains("no folder at all"), "{text}");
}

#[test]
fn a_forced_name_wins_over_the_variable() {
    let folder = Folder::new();
    folder.plugin("honest", "cpu");
    folder.plugin("honest", "zebra");
    let mut options = options(&[&folder], Some("cpu"));
    options.force = Some("zebra".into());
    assert_eq!(select(&options).expect("forced").backend.id(), "zebra");
    options.force = Some("no such name".into());
    assert!(matches!(select(&options), Err(SelectError::BadName { .. })));
}

#[test]
fn a_software_device_is_a_cpu_in_disguise() {
    let folder = Folder::new();
    folder.plugin("is-software", "vulkan");
    folder.plugin("honest", "cpu");
    let unnamed = selected(&[&folder], None).expect("the CPU works");
    assert_eq!(unnamed.backend.id(), "cpu");
    let state = reason_of(&unnamed, "vulkan");
    assert!(state.contains("refused at policy") && state.contains("software"), "{state}");
    assert_eq!(selected(&[&folder], Some("vulkan")).expect("named").backend.id(), "vulkan");
}

#[test]
fn explaining_probes_all_and_chooses_alike() {
    let folder = Folder::new();
    folder.plugin("honest", "cpu");
    folder.plugin("honest", "vulkan");
    folder.plugin("honest", "zebra");
    folder.plugin("hangs-in-the-host", "cuda");
    let mut options = options(&[&folder], Some("vulkan,cpu"));
    let explanation = explain(&options).expect("explained");
    assert!(explanation.candidates.iter().all(|candidate| candidate.is_usable()), "{explanation}");
    assert_eq!(explanation.chosen.as_deref(), Some("vulkan"));
    let text = explanation.to_string();
    assert!(text.contains("policy: left out by CAJETA_XPU_BACKEND=vulkan,cpu"), "{text}");
    let json = serde_json::to_value(&explanation).expect("serialises");
    assert_eq!(json["candidates"][0]["outcome"]["state"], "usable");
    assert_eq!(json["chosen"], "vulkan");
    options.device = Some(5);
    let error = select(&options).expect_err("no such device");
    assert!(error.to_string().contains("device 5 was asked for; it lists 1"), "{error}");
}

#[test]
fn the_backend_of_a_process_is_chosen_once() {
    let folder = Folder::new();
    folder.plugin("honest", "cpu");
    folder.plugin("honest", "zebra");
    let mut options = options(&[&folder], Some("zebra"));
    let first = cajeta_plugin_host::activate(&options).expect("works");
    assert_eq!(first.backend.id(), "zebra");
    options.variable = Some("cpu".into());
    let again = cajeta_plugin_host::activate(&options).expect("cached");
    assert!(std::ptr::eq(first, again));
    assert!(cajeta_plugin_host::active_backend().is_some_and(|active| std::ptr::eq(active, first)));
    options.force = Some("cpu".into());
    let error = cajeta_plugin_host::activate(&options).expect_err("another one runs");
    assert!(matches!(error, SelectError::AlreadyActive { .. }), "{error}");
}
