//! The attempts that were reported lately.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// Number of attempts in each of the two halves.
const HALF: usize = 50_000;

/// The attempts that were reported lately. A delivery that is created or read again in that time is not sent again.
#[derive(Default)]
pub(super) struct SettledAttempts {
    new: HashSet<u64>,
    old: HashSet<u64>,
}

fn attempt_key(delivery: &str, number: i32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (delivery, number).hash(&mut hasher);
    hasher.finish()
}

impl SettledAttempts {
    pub(super) fn add(&mut self, delivery: &str, number: i32) {
        if self.new.len() >= HALF {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(attempt_key(delivery, number));
    }

    pub(super) fn has(&self, delivery: &str, number: i32) -> bool {
        let key = attempt_key(delivery, number);
        self.new.contains(&key) || self.old.contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut settled = SettledAttempts::default();
        (0..HALF * 2 + 1).for_each(|number| settled.add(&format!("del_{number}"), 1));
        assert!(settled.has(&format!("del_{}", HALF * 2), 1) && settled.has(&format!("del_{}", HALF + 1), 1));
        assert!(!settled.has("del_0", 1) && !settled.has(&format!("del_{}", HALF * 2), 2));
    }
}
