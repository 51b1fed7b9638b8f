//! The error a backend answers with: a code and one sentence.

use cajeta_abi::Code;

/// A refused or failed call. The sentence says what was expected, what was
/// got, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What kind of failure.
    pub code: Code,
    /// One sentence.
    pub text: String,
}

/// What a fallible backend call answers.
pub type Answer<T> = Result<T, Fault>;

macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident => $code:ident;)*) => {
        impl Fault {
            $($(#[$meta])* pub fn $name(text: impl Into<String>) -> Fault {
                Fault { code: Code::$code, text: text.into() }
            })*
        }
    };
}

kinds! {
    /// This backend cannot do that, now or later.
    unsupported => UNSUPPORTED;
    /// Not on this machine: no driver, device or permission. Name a remedy.
    unavailable => UNAVAILABLE;
    /// The caller broke the contract. Name the rule.
    invalid => INVALID;
    /// No room. Name what was wanted and what is free.
    out_of_memory => OUT_OF_MEMORY;
    /// The device is gone. Name the row if known.
    lost => LOST;
    /// A fault of the backend itself.
    internal => INTERNAL;
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.text)
    }
}

impl std::error::Error for Fault {}
