//! Repeatable random numbers.

use thesis_net::clock::{IdSource as _, SystemIdSource};

/// Repeatable random numbers.
pub(crate) struct Dice(u64);

impl Dice {
    /// Numbers by `TEST_SEED`, or new ones; prints the seed.
    pub(crate) fn new() -> Self {
        let mut seed = [0; 8];
        SystemIdSource.fill(&mut seed);
        let given = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(u64::from_le_bytes(seed));
        println!("TEST_SEED={seed}");
        Self(seed)
    }

    /// Other numbers, for a task of their own.
    pub(crate) fn another(&mut self) -> Self {
        Self(self.roll(u64::MAX))
    }

    /// One of the places of a list of this length.
    pub(crate) fn below(&mut self, length: usize) -> usize {
        usize::try_from(self.roll(length as u64)).expect("it is below a length")
    }

    /// One of `0..below`.
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}
