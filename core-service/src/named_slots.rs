//! Slots that are counted by name, so that nobody takes more than a share of something.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Counts the taken slots of each name.
#[derive(Clone, Default)]
pub(crate) struct NamedSlots(Arc<Mutex<HashMap<String, usize>>>);

/// Slots that stay taken until this is dropped.
pub(crate) struct TakenSlots {
    slots: NamedSlots,
    names: Vec<String>,
}

impl NamedSlots {
    /// Takes a slot of each name, or none at all. The error is the index of the first name whose limit is reached.
    pub(crate) fn take_slots(&self, limits: impl Into<Vec<(String, usize)>>) -> Result<TakenSlots, usize> {
        let limits = limits.into();
        let mut taken = self.0.lock();
        let is_full = |(name, limit): &(String, usize)| taken.get(name).copied().unwrap_or(0) >= *limit;
        if let Some(full) = limits.iter().position(is_full) {
            return Err(full);
        }
        let names: Vec<String> = limits.into_iter().map(|(name, _)| name).collect();
        for name in &names {
            *taken.entry(name.clone()).or_default() += 1;
        }
        drop(taken);
        Ok(TakenSlots { slots: self.clone(), names })
    }
}

#[cfg(test)]
impl NamedSlots {
    /// True if no slot is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Drop for TakenSlots {
    fn drop(&mut self) {
        let mut taken = self.slots.0.lock();
        for name in &self.names {
            if let Some(count) = taken.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    taken.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_free_again_and_all_or_none_are_taken() {
        let slots = NamedSlots::default();
        let take = |whose: &str| slots.take_slots([("all".to_owned(), 3), (whose.to_owned(), 2)]);
        let (first, second) = (take("ada"), take("ada"));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(take("ada").err(), Some(1));
        let other = take("bob");
        assert!(other.is_ok());
        assert_eq!(take("bob").err(), Some(0));
        drop(first);
        assert!(take("bob").is_ok());
        drop((second, other));
        assert!(slots.is_empty());
    }
}
