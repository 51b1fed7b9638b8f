//! Prepared lists by what they were lowered for; those not used for longest go when there are many.

use std::collections::HashMap;
use std::ops::Range;

use cajeta_plugin_host::List;

use crate::lower::{Segment, Sizes};

/// Lists kept prepared.
const MAX_LISTS: usize = 48;

/// A segment ready to be queued.
#[derive(Clone)]
pub(super) struct Prepared {
    /// The launches.
    pub list: List,
    /// Where in the arena the logits are, if the segment computes them.
    pub logits: Option<Range<u64>>,
}

/// The prepared lists of an engine.
#[derive(Default)]
pub(super) struct Lists {
    prepared: HashMap<(Segment, Sizes), (Prepared, u64)>,
    uses: u64,
}

impl Lists {
    /// The list of a segment, if it is prepared.
    pub(super) fn get(&mut self, segment: Segment, sizes: &Sizes) -> Option<Prepared> {
        self.uses += 1;
        let (prepared, last_used) = self.prepared.get_mut(&(segment, *sizes))?;
        *last_used = self.uses;
        Some(prepared.clone())
    }

    /// Keeps a list.
    pub(super) fn insert(&mut self, segment: Segment, sizes: Sizes, prepared: Prepared) {
        if self.prepared.len() >= MAX_LISTS
            && let Some(oldest) = self.prepared.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key)
        {
            self.prepared.remove(&oldest);
        }
        self.prepared.insert((segment, sizes), (prepared, self.uses));
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.prepared.clear();
    }
}
