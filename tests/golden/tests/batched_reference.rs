//! Many sequences in one step, and steps queued ahead, change no answer: on the reference backend.

use cajeta_golden::batched::{COUNTS, TALES, TOKENS, ahead_changes_nothing, together_is_alone};

#[test]
fn together_is_alone_reference() {
    together_is_alone("reference", TALES, TOKENS, &COUNTS, true);
}

#[test]
fn ahead_changes_nothing_reference() {
    ahead_changes_nothing("reference");
}
