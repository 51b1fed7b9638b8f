//! The `CAJETA_CPU_*` variables. A value that means nothing is a reason not to run, not to guess.

use cajeta_plugin_api::{Answer, Fault};

use crate::tier::Tier;

/// Most threads taken: above any machine, below what a system starts.
const MAX_THREADS: usize = 1024;

/// Whether every variable that is set means something; asked when the backend is probed.
pub(crate) fn check() -> Answer<()> {
    threads().and_then(|_| ceiling().map(|_| ()))
}

/// `CAJETA_CPU_THREADS`: threads to run, if it says.
pub(crate) fn threads() -> Answer<Option<usize>> {
    set("CAJETA_CPU_THREADS").as_deref().map(read_threads).transpose()
}

/// `CAJETA_CPU_SIMD`: the widest vectors to use, if it says.
pub(crate) fn ceiling() -> Answer<Option<Tier>> {
    set("CAJETA_CPU_SIMD").as_deref().map(read_tier).transpose()
}

/// A variable that is set, and not to nothing.
fn set(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().trim().to_owned();
    (!value.is_empty()).then_some(value)
}

fn read_threads(text: &str) -> Answer<usize> {
    let threads = text.parse().ok().filter(|threads| (1..=MAX_THREADS).contains(threads));
    threads.ok_or_else(|| {
        let expected = format!("expected a number of threads from 1 to {MAX_THREADS}");
        Fault::invalid(format!("CAJETA_CPU_THREADS is {text:?}; {expected}; correct it or unset it"))
    })
}

fn read_tier(text: &str) -> Answer<Tier> {
    let tier = Tier::ALL.iter().copied().find(|tier| tier.name().eq_ignore_ascii_case(text));
    tier.ok_or_else(|| {
        let names: Vec<&str> = Tier::ALL.iter().map(|tier| tier.name()).collect();
        let expected = format!("expected one of {}", names.join(", "));
        Fault::invalid(format!("CAJETA_CPU_SIMD is {text:?}; {expected}; correct it or unset it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_a_number_in_range() {
        assert_eq!(read_threads("1").ok(), Some(1));
        assert_eq!(read_threads("1024").ok(), Some(1024));
        for bad in ["0", "-1", "1025", "many", "2.0", "99999999999999999999"] {
            let fault = read_threads(bad).expect_err(bad);
            let said = format!("{fault:?}");
            assert!(said.contains("CAJETA_CPU_THREADS") && said.contains("1024"), "{said}");
        }
    }

    #[test]
    fn vectors_are_named() {
        assert!(matches!(read_tier("Portable"), Ok(Tier::Portable)));
        let said = format!("{:?}", read_tier("sse9").err());
        assert!(said.contains("sse9") && said.contains("portable"), "{said}");
    }
}
