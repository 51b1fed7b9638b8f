//! Generation-tagged handle tables: a stale, foreign or invented handle is
//! refused, never mistaken for a live object.
//!
//! A handle is `tag:16 | generation:24 | index:24`. Each table has its own tag,
//! so a buffer's handle is no queue's, nor another device's. Insert, get and
//! remove are O(1).

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cajeta_abi::Handle;

use crate::fault::{Answer, Fault};

const INDEX_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

static NEXT_TAG: AtomicU16 = AtomicU16::new(1);

struct Slot<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// A table of shared objects behind handles.
pub(crate) struct Handles<T> {
    what: &'static str,
    tag: u16,
    inner: RwLock<Slots<T>>,
}

impl<T> Handles<T> {
    /// An empty table whose messages call its objects `what`.
    pub(crate) fn new(what: &'static str) -> Handles<T> {
        // Tag 0 never occurs, so that handle 0 is no object. After 65,535
        // tables tags repeat; generations still tell the objects apart.
        let tag = NEXT_TAG.fetch_add(1, Ordering::Relaxed).max(1);
        Handles { what, tag, inner: RwLock::new(Slots { slots: Vec::new(), free: Vec::new() }) }
    }

    /// Keeps an object and gives out its handle.
    pub(crate) fn insert(&self, value: T) -> Answer<Handle> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let index = match inner.free.pop() {
            Some(index) => index,
            None if inner.slots.len() as u64 <= INDEX_MASK => {
                inner.slots.push(Slot { generation: 0, value: None });
                (inner.slots.len() - 1) as u32
            }
            None => return Err(Fault::out_of_memory(format!("too many live {} handles", self.what))),
        };
        let slot = &mut inner.slots[index as usize];
        slot.generation = (slot.generation + 1) & INDEX_MASK as u32;
        slot.value = Some(Arc::new(value));
        Ok(self.pack(index, slot.generation))
    }

    /// The object behind a handle.
    pub(crate) fn get(&self, handle: Handle) -> Answer<Arc<T>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let found = inner
            .slots
            .get((handle.0 & INDEX_MASK) as usize)
            .filter(|slot| self.pack((handle.0 & INDEX_MASK) as u32, slot.generation) == handle);
        found.and_then(|slot| slot.value.clone()).ok_or_else(|| self.stale(handle))
    }

    /// Takes the object out; the handle is stale from here on.
    pub(crate) fn remove(&self, handle: Handle) -> Answer<Arc<T>> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let index = (handle.0 & INDEX_MASK) as u32;
        let taken = match inner.slots.get_mut(index as usize) {
            Some(slot) if self.pack(index, slot.generation) == handle => slot.value.take(),
            _ => None,
        };
        let value = taken.ok_or_else(|| self.stale(handle))?;
        inner.free.push(index);
        Ok(value)
    }

    fn pack(&self, index: u32, generation: u32) -> Handle {
        Handle(u64::from(self.tag) << 48 | u64::from(generation) << INDEX_BITS | u64::from(index))
    }

    fn stale(&self, handle: Handle) -> Fault {
        Fault::invalid(format!(
            "{:#x} is no live {} handle: it was freed, or belongs to another device",
            handle.0, self.what
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_foreign_handles_are_refused() {
        let one = Handles::new("buffer");
        let two = Handles::new("queue");
        let first = one.insert(1).expect("room");
        two.insert(2).expect("room");
        assert_eq!(*one.get(first).expect("live"), 1);
        assert!(two.get(first).is_err());
        one.remove(first).expect("live");
        assert!(one.get(first).is_err());
        assert!(one.remove(first).is_err());
        let second = one.insert(3).expect("room");
        assert_ne!(first, second);
        assert!(one.get(first).is_err());
        assert!(one.get(Handle::NONE).is_err());
        assert!(one.get(Handle(u64::MAX)).is_err());
    }
}
