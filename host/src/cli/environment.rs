//! What variables say that no command could mean: wrong usage, as a flag is that says the same.

use cajeta::tune::overrides;

use super::failure::{Failure, Outcome};

/// Refuses what is not of the form its variable has.
pub(crate) fn check() -> Outcome {
    match overrides::of_process() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!("{}: {error}", overrides::VARIABLE))),
    }
}
