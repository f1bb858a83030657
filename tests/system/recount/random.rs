//! Random choices, the same for the same seed.

/// Random enough.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Another source, whose choices do not depend on how many are made here.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below a limit.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A number in `from..=to`.
    pub(super) fn between(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from + 1).unsigned_abs()).cast_signed()
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several; there is at least one.
    pub(super) fn one_of<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of several; there is at least one.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *self.one_of(from)
    }

    /// A made value in `percent` of a hundred cases.
    pub(super) fn maybe<T>(&mut self, percent: usize, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(percent).then(|| make(self))
    }
}
