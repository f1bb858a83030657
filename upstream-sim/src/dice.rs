//! Repeatable random numbers.

/// Repeatable random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Separate numbers for one part, so that its rolls do not change the rolls of other parts.
    pub(crate) fn part(seed: u64, part: u64) -> Self {
        let mut dice = Self(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(dice.roll())
    }

    /// Any number.
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..length`; 0 when there is no length.
    pub(crate) fn below(&mut self, length: usize) -> usize {
        (self.roll() % (length as u64).max(1)) as usize
    }

    /// From 0 up to, but not including, 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True in this share of all cases. A share of 0 takes no roll.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.fraction() < share
    }

    /// One of a list, which is not empty.
    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// One of `0..length`, the first ones much oftener than the last, as Zipf's law says.
    pub(crate) fn popular(&mut self, length: usize) -> usize {
        let place = ((length + 1) as f64).powf(self.fraction());
        (place as usize).saturating_sub(1).min(length.saturating_sub(1))
    }

    /// A random text of these letters.
    pub(crate) fn text(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(self.pick(alphabet))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_parts_differ() {
        let rolls = |mut dice: Dice| (0..20).map(|_| dice.below(1_000)).collect::<Vec<_>>();
        assert_eq!(rolls(Dice::new(7)), rolls(Dice::new(7)));
        assert_ne!(rolls(Dice::new(7)), rolls(Dice::new(8)));
        assert_ne!(rolls(Dice::part(7, 1)), rolls(Dice::part(7, 2)));
    }

    #[test]
    fn the_first_are_the_most_popular() {
        let mut dice = Dice::new(1);
        let mut times = [0; 50];
        for _ in 0..10_000 {
            times[dice.popular(50)] += 1;
        }
        assert!(times[0] > 1_000 && times[0] > 5 * times[10] && times[49] > 0, "{times:?}");
        assert_eq!((dice.popular(1), dice.popular(0)), (0, 0));
    }
}
