//! What was asked in this run, and which of its answers are for this run alone.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::store::BuildId;
use crate::record::Answered;

/// A question that was asked here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The arm that serves.
    pub arm: String,
    /// How that came about.
    pub answered: Answered,
    /// What the answer holds for: answers of other builds are no answers to it.
    pub build: BuildId,
}

/// Why an answer is for this run alone.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    /// Whether it was timed at all.
    pub(super) timed: bool,
    /// In words.
    pub(super) why: String,
}

/// What was asked so far, by name.
#[derive(Default, Debug)]
pub(super) struct AskedSoFar {
    asked: Mutex<BTreeMap<String, Asked>>,
    doubts: Mutex<BTreeMap<String, (BuildId, Doubt)>>,
}

impl AskedSoFar {
    /// Takes note of how a question was answered.
    pub(super) fn put(&self, name: &str, asked: Asked) {
        locked(&self.asked).insert(name.to_owned(), asked);
    }

    /// How a question was answered last.
    pub(super) fn of(&self, name: &str) -> Option<Asked> {
        locked(&self.asked).get(name).cloned()
    }

    /// Takes note of why the answer for a build is not kept.
    pub(super) fn put_doubt(&self, name: &str, build: &BuildId, doubt: Doubt) {
        locked(&self.doubts).insert(name.to_owned(), (build.clone(), doubt));
    }

    /// Why the answer for a build is not kept; nothing where it is.
    pub(super) fn doubt(&self, name: &str, build: &BuildId) -> Option<Doubt> {
        locked(&self.doubts).get(name).filter(|(of, _)| of == build).map(|(_, doubt)| doubt.clone())
    }
}

fn locked<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
