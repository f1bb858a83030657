//! The sandbox: eight profiles, six tokens, the theses of the week before the first start, and the ticker's theses.
//!
//! Everything is a pure function of fixed numbers, so that every installation holds the same rows under the same ids.

mod catalog;
mod phrases;
mod theses;

pub use catalog::{PROFILES, TOKENS};
use phrases::{CLOSINGS, OBSERVATIONS, OPENINGS};
use theses::THESES;

use crate::domain::window::{DAY_MS, HOUR_MS};

/// The chain of every fixture token and the network of every fixture wallet; not a real chain.
pub const CHAIN: &str = "sandbox";

/// Spans of age: number of seeded theses, oldest and youngest age; oldest span first.
const SPANS: [(usize, i64, i64); 3] = [(114, 7 * DAY_MS, DAY_MS), (26, DAY_MS, HOUR_MS), (10, HOUR_MS, 0)];

/// The ticker's authors and tokens by index. Repeated ones are drawn more often.
const TICK_PROFILES: [usize; 16] = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7];
const TICK_TOKENS: [usize; 16] = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5];

/// A shared sandbox profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixtureProfile {
    /// `sbx_1` to `sbx_8`.
    pub upstream_user_id: &'static str,
    /// With the leading `@`.
    pub handle: &'static str,
    /// Ends with `(sandbox)`.
    pub display_name: &'static str,
    /// Description of the profile.
    pub bio: Option<&'static str>,
    /// True if the platform verified it.
    pub verified: bool,
    /// A picture.
    pub avatar_url: Option<&'static str>,
    /// The profile's page on the platform.
    pub profile_url: Option<&'static str>,
    /// The address of its public wallet on network `sandbox`.
    pub wallet: Option<&'static str>,
}

/// A shared sandbox token; it has no numeric chain id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixtureToken {
    /// With the leading `$`.
    pub symbol: &'static str,
    /// The full name.
    pub name: &'static str,
    /// The address on chain `sandbox`.
    pub address: &'static str,
    /// A picture.
    pub logo_url: Option<&'static str>,
    /// The token's page on the platform.
    pub platform_url: Option<&'static str>,
    /// Its approximate price, in ten-thousandths; the ticker's price levels lie around it.
    price: u64,
}

/// A thesis of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixtureThesis {
    /// Number: 1 to 150 for seeded theses, oldest first; the number of the tick for the ticker's.
    pub number: u64,
    /// The author's index in [`PROFILES`].
    pub profile: usize,
    /// The token's index in [`TOKENS`].
    pub token: usize,
    /// Its text.
    pub text: String,
    /// Age at the first start; 0 for the ticker, whose theses are posted at their tick.
    pub age_ms: i64,
    /// Number of likes.
    pub likes: i64,
    /// Number of replies.
    pub replies: i64,
}

/// The 150 theses of the seven days before the first start, oldest first.
pub fn seeded() -> Vec<FixtureThesis> {
    seeded_order()
        .into_iter()
        .zip(seeded_ages())
        .zip(1..)
        .map(|(((token, &(profile, text)), age_ms), number)| {
            // Most have a few likes; one in nine is popular.
            let draw = mix(number ^ 0x5eed);
            let popular = if draw.is_multiple_of(9) { 40 + (draw >> 8) % 260 } else { 0 };
            let likes = (draw >> 24) % 24 + popular;
            let replies = likes / 5 + (draw >> 40) % 4;
            FixtureThesis {
                number,
                profile,
                token,
                text: text.to_owned(),
                age_ms,
                likes: likes.cast_signed(),
                replies: replies.cast_signed(),
            }
        })
        .collect()
}

/// Builds the ticker's thesis with that number. Texts repeat after 11,520 ticks at the earliest.
pub fn tick(number: u64) -> FixtureThesis {
    let draw = mix(number);
    let token = TICK_TOKENS[pick(draw, TICK_TOKENS.len())];
    let profile = TICK_PROFILES[pick(draw >> 8, TICK_PROFILES.len())];
    // 7,919 shares no factor with the number of combinations, so each comes once before any repeats.
    let combinations = (OPENINGS.len() * OBSERVATIONS.len() * CLOSINGS.len()) as u64;
    let combination = number % combinations * 7_919 % combinations;
    let opening = OPENINGS[pick(combination, OPENINGS.len())];
    let rest = combination / OPENINGS.len() as u64;
    let observation = OBSERVATIONS[pick(rest, OBSERVATIONS.len())];
    let closing = CLOSINGS[pick(rest / OBSERVATIONS.len() as u64, CLOSINGS.len())];

    let level = TOKENS[token].price * (90 + (draw >> 16) % 21) / 100;
    let level = format!("{}.{:04}", level / 10_000, level % 10_000);
    FixtureThesis {
        number,
        profile,
        token,
        text: format!("{opening} {observation} {closing}")
            .replace("{sym}", TOKENS[token].symbol)
            .replace("{level}", &level),
        age_ms: 0,
        likes: ((draw >> 24) % 12).cast_signed(),
        replies: ((draw >> 32) % 4).cast_signed(),
    }
}

/// Merges the tokens' lists evenly but not regularly. Each list keeps its order, since its texts refer to each other.
fn seeded_order() -> Vec<(usize, &'static (usize, &'static str))> {
    let mut placed: Vec<_> = THESES
        .iter()
        .enumerate()
        .flat_map(|(token, list)| {
            let step = 1_000_000 / list.len() as u64;
            list.iter().zip(0u64..).map(move |(thesis, index)| {
                let jitter = mix(token as u64 * 1_000 + index) % step;
                (index * step + jitter, token, thesis)
            })
        })
        .collect();
    placed.sort_by_key(|&(place, token, _)| (place, token));
    placed.into_iter().map(|(_, token, thesis)| (token, thesis)).collect()
}

/// Computes strictly falling ages: mostly minutes to hours apart, with bunches in between.
fn seeded_ages() -> Vec<i64> {
    let mut ages = Vec::new();
    for (count, from, to) in SPANS {
        let gaps: Vec<i64> = (0..=count)
            .map(|index| {
                let draw = mix((from as u64) ^ index as u64);
                let gap = if draw.is_multiple_of(3) { 1 + (draw >> 8) % 3 } else { 20 + (draw >> 8) % 80 };
                gap.cast_signed()
            })
            .collect();
        let total: i64 = gaps.iter().sum();
        let mut passed = 0;
        for gap in &gaps[..count] {
            passed += gap;
            ages.push(from - (from - to) * passed / total);
        }
    }
    ages
}

/// Derives an index below `len`.
fn pick(draw: u64, len: usize) -> usize {
    (draw % len as u64) as usize
}

/// Spreads neighbouring numbers over all 64 bits (the finaliser of SplitMix64): variety, not secrecy.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::window::MINUTE_MS;
    use std::collections::HashSet;

    fn distinct<T: std::hash::Hash + Eq>(items: impl IntoIterator<Item = T>) -> usize {
        items.into_iter().collect::<HashSet<_>>().len()
    }

    #[test]
    fn profiles_and_tokens_are_labelled_and_distinct() {
        for (profile, number) in PROFILES.iter().zip(1..) {
            assert_eq!(profile.upstream_user_id, format!("sbx_{number}"));
            assert!(profile.handle.starts_with("@sbx_") && profile.handle.len() <= 41);
            assert!(profile.display_name.ends_with(" (sandbox)"));
        }
        assert_eq!(distinct(PROFILES.map(|profile| profile.handle)), 8);
        assert_eq!(distinct(PROFILES.iter().filter_map(|profile| profile.wallet)), 2);
        assert_eq!(TOKENS.map(|token| token.symbol), ["$RUN", "$SEEK", "$RACE", "$TAG", "$ART", "$CRAFT"]);
        assert_eq!(distinct(TOKENS.map(|token| token.address)), 6);
        for token in TOKENS {
            assert!(token.address.starts_with("sbx1") && token.address.len() >= 32);
            assert!(token.address.chars().all(|c| c.is_ascii_alphanumeric()));
        }
    }

    #[test]
    fn seeds_are_150_distinct_texts_on_their_token_by_every_profile() {
        let seeds = seeded();
        assert_eq!(seeds, seeded());
        assert_eq!(seeds.len(), 150);
        assert_eq!(distinct(seeds.iter().map(|seed| &seed.text)), 150);
        for (seed, number) in seeds.iter().zip(1..) {
            assert_eq!(seed.number, number);
            assert!(seed.text.contains(TOKENS[seed.token].symbol), "{}", seed.text);
            assert!((20..=400).contains(&seed.text.chars().count()), "{}", seed.text);
            assert!(seed.likes >= 0 && seed.replies >= 0);
        }
        for index in 0..PROFILES.len() {
            assert!(seeds.iter().filter(|seed| seed.profile == index).count() >= 10);
        }
        for index in 0..TOKENS.len() {
            assert!(seeds.iter().filter(|seed| seed.token == index).count() >= 10);
        }
    }

    #[test]
    fn seeds_run_from_oldest_to_newest_within_seven_days() {
        let ages: Vec<i64> = seeded().iter().map(|seed| seed.age_ms).collect();
        assert!(ages.is_sorted_by(|older, newer| older > newer));
        assert!(ages.iter().all(|&age| 0 < age && age < 7 * DAY_MS));
        assert!(ages.iter().filter(|&&age| age < HOUR_MS).count() >= 6);
        assert!(ages.iter().filter(|&&age| age < DAY_MS).count() >= 20);
        assert!(ages[0] > 6 * DAY_MS && ages[149] > MINUTE_MS);
    }

    #[test]
    fn ticks_are_repeatable_and_varied() {
        assert_eq!(tick(41), tick(41));
        assert_eq!(tick(u64::MAX).number, u64::MAX);
        let ticks: Vec<_> = (39_000_000..39_000_100).map(tick).collect();
        assert_eq!(distinct(ticks.iter().map(|tick| tick.profile)), 8);
        assert_eq!(distinct(ticks.iter().map(|tick| tick.token)), 6);
        for tick in &ticks {
            assert!(tick.text.contains(TOKENS[tick.token].symbol) && !tick.text.contains('{'));
        }
    }

    #[test]
    fn tick_texts_do_not_repeat_within_11_520() {
        assert_eq!(distinct((1_000..12_520).map(|number| tick(number).text)), 11_520);
    }
}
