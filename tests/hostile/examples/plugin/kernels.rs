//! Rows of which some do not copy: each misbehaves as its name says, once it runs.

use crate::behaviour::{hang, is};

/// In registry order, between honest ones.
pub(crate) const NAMES: [&str; 7] =
    ["copyFirst", "faults", "copyAfterFault", "hangs", "exits", "panics", "copyLast"];

/// Whether this copy of the library has them.
pub(crate) fn there_are() -> bool {
    is("has-bad-kernels")
}

/// What happens when a row runs; an honest one goes on.
pub(crate) fn run(row: u32) {
    match name(row) {
        "faults" => {
            let nowhere = std::hint::black_box(8 as *mut u32);
            // SAFETY: none; the fault is the point.
            unsafe { nowhere.write_volatile(1) };
        }
        "hangs" => {
            eprintln!("waiting for the card");
            hang();
        }
        "exits" => std::process::exit(0),
        "panics" => panic!("the kernel is on fire"),
        _ => {}
    }
}

fn name(row: u32) -> &'static str {
    if there_are() { NAMES.get(row as usize).copied().unwrap_or("") } else { "" }
}
