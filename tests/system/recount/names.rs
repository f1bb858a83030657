//! Parts of random rows and questions, chosen so that datasets, chains and people share as much as possible.

use serde_json::Value;
use thesis_proto::{time::from_millis, v1};

use super::{
    random::Random,
    view::{DAY_MS, HOUR_MS, MINUTE_MS, Sight, View},
    world::{SANDBOX, World, claim, is_at},
};
use crate::harness::text;

/// The upstream users of each dataset.
pub(super) const USERS: [&str; 6] = ["u0", "u1", "u2", "u3", "u4", "u5"];
/// Handles that they take and leave.
const HANDLES: [&str; 10] = ["ann", "Bob", "cyd", "DEE", "eve", "fay", "gus", "u1", "ΟΔΟΣ", "οδος"];
/// Handles and symbols for test theses, and sometimes for the sandbox's people.
pub(super) const TEST_HANDLES: [&str; 3] = ["tess", "tom", "tia"];
pub(super) const TEST_SYMBOLS: [&str; 3] = ["FRESH", "NEW", "Ünit"];
const CHAINS: [&str; 3] = ["ethereum", "solana", "sandbox"];
const ADDRESSES: [&str; 4] = ["0xAa01", "0xB002", "MintOne", "MintTwo"];
const SYMBOLS: [&str; 8] = ["ALPHA", "alpha", "beta", "GAMMA", "MintOne", "mintONE", "οδος", "tk_x"];
/// Words of theses that can be searched for, then some that differ by more than ASCII's case.
pub(super) const WORDS: [&str; 8] = ["zorbit", "quandle", "mirvex", "plonko", "drimble", "vantor", "skelp", "oozle"];
const FOLDED: [&str; 6] = ["Straße", "STRASSE", "ΟΔΟΣ", "οδος", "ПОЛЁТ", "🚀"];
/// Lengths of windows.
const SPANS: [i64; 6] = [5 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, DAY_MS, 7 * DAY_MS, 30 * DAY_MS];
const NAMES: [&str; 3] = ["Nimbus", "Orbitals", "Pelican"];

/// Text as verification compares it.
pub(super) fn folded(text: &str) -> String {
    text.to_lowercase().replace('ß', "ss").replace('ς', "σ")
}

/// A text of a few words.
pub(super) fn saying(random: &mut Random) -> String {
    let count = random.between(1, 6);
    let word = |_| if random.chance(75) { random.pick(&WORDS) } else { random.pick(&FOLDED) };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// A part of a text that a thesis may have.
pub(super) fn part(random: &mut Random) -> String {
    let word = if random.chance(70) { random.pick(&WORDS) } else { random.pick(&FOLDED) };
    match random.below(4) {
        0 => word.to_uppercase(),
        1 => word.chars().skip(1).collect(),
        2 => format!("{word} "),
        _ => word.to_owned(),
    }
}

/// A time of the last forty days: often on the border of a window in the near future, or the time of another thesis.
pub(super) fn past(random: &mut Random, world: &World, now: i64) -> i64 {
    let known: Vec<i64> = world.theses().map(|thesis| thesis.created_at).collect();
    match random.below(10) {
        0..=2 => now - random.pick(&SPANS) + random.between(-2_000, 12_000),
        3 if !known.is_empty() => random.pick(&known),
        4..=6 => now - random.between(0, 26 * HOUR_MS),
        _ => now - random.between(0, 40 * DAY_MS),
    }
    .min(now)
}

/// A bound of a question, often exactly the time of a thesis.
pub(super) fn bound(random: &mut Random, world: &World, now: i64) -> i64 {
    let known: Vec<i64> = world.theses().map(|thesis| thesis.created_at).collect();
    match random.below(4) {
        0 => now - random.pick(&SPANS) + random.between(-90_000, 90_000),
        1 | 2 if !known.is_empty() => random.pick(&known) + random.between(-1, 1),
        _ => now - random.between(0, 40 * DAY_MS),
    }
}

/// A user known upstream.
pub(super) fn author(random: &mut Random, world: &World, dataset: usize) -> v1::ProfileObservation {
    let user = random.pick(&USERS);
    author_as(random, world, dataset, user)
}

/// A user known upstream, mostly as they are, sometimes changed.
pub(super) fn author_as(random: &mut Random, world: &World, dataset: usize, user: &str) -> v1::ProfileObservation {
    let known = world.datasets[dataset].profiles.iter().find(|profile| profile.upstream_id == user);
    let own = |row: &Value, field: &str| row[field].as_str().map(str::to_owned);
    let mut seen = v1::ProfileObservation { upstream_user_id: user.to_owned(), ..v1::ProfileObservation::default() };
    match known.map(|profile| &profile.row) {
        Some(row) if random.chance(70) => {
            seen.handle = text(row, "handle").trim_start_matches('@').to_owned();
            (seen.display_name, seen.bio) = (own(row, "display_name"), own(row, "bio"));
            seen.verified = row["verified"].as_bool();
        }
        _ => {
            let handle = if dataset == SANDBOX && random.chance(20) { &TEST_HANDLES[..] } else { &HANDLES };
            seen.handle = random.pick(handle).to_owned();
            seen.display_name = random.maybe(60, |random| random.pick(&NAMES).to_owned());
            seen.bio = random.maybe(30, |random| random.pick(&NAMES).to_owned());
            seen.verified = random.maybe(50, |random| random.chance(50));
            seen.created_at = random.maybe(30, |random| from_millis(1_600_000_000_000 + random.between(0, 9)));
            seen.source_updated_at = random.maybe(50, source_update);
        }
    }
    seen
}

fn source_update(random: &mut Random) -> prost_types::Timestamp {
    from_millis(1_700_000_000_000 + random.between(0, 9))
}

/// A token.
pub(super) fn token(random: &mut Random, world: &World, dataset: usize) -> v1::TokenObservation {
    // A test thesis takes the first token of its symbol on the sandbox's chain, so there is only one.
    let chains = if dataset == SANDBOX { &CHAINS[..] } else { &CHAINS[..2] };
    let chain = random.pick(chains);
    let at = if chain == "sandbox" { "ZapMint" } else { random.pick(&ADDRESSES) };
    token_as(random, world, dataset, chain, at)
}

/// The token at an address, mostly as it is, sometimes changed.
pub(super) fn token_as(
    random: &mut Random,
    world: &World,
    dataset: usize,
    chain: &str,
    at: &str,
) -> v1::TokenObservation {
    let symbols = if chain == "sandbox" { &["ZAP", "Zap", "FRESH"][..] } else { &SYMBOLS };
    let mut seen = crate::harness::ingest::token(chain, at, random.pick(symbols));
    let known = world.datasets[dataset].tokens.iter();
    let mut known = known.filter(|token| token.row["chain"] == chain && is_at(&token.row, at));
    match known.next().map(|token| &token.row) {
        Some(row) if random.chance(80) => {
            text(row, "symbol").trim_start_matches('$').clone_into(&mut seen.symbol);
            text(row, "address").clone_into(&mut seen.address);
            seen.name = row["name"].as_str().map(str::to_owned);
        }
        _ => {
            if at.starts_with("0x") && random.chance(30) {
                seen.address = at.to_lowercase();
            }
            seen.name = random.maybe(50, |random| random.pick(&NAMES).to_owned());
            seen.source_updated_at = random.maybe(50, source_update);
        }
    }
    seen
}

/// Makes references for the questions of a key: mostly to rows that it sees.
pub(super) struct References<'a> {
    pub(super) world: &'a World,
    pub(super) sight: &'a Sight,
}

impl<'a> References<'a> {
    pub(super) fn of(view: View<'a>) -> Self {
        Self { world: view.world, sight: view.sight }
    }

    /// A dataset, in three of four cases one that the key sees.
    pub(super) fn dataset(&self, random: &mut Random) -> usize {
        if random.chance(75) { random.pick(&self.sight.datasets) } else { random.below(self.world.datasets.len()) }
    }

    fn profile(&self, random: &mut Random) -> Option<&'a Value> {
        let profiles = &self.world.datasets[self.dataset(random)].profiles;
        (!profiles.is_empty()).then(|| &random.one_of(profiles).row)
    }

    pub(super) fn handle(&self, random: &mut Random) -> String {
        let row = self.profile(random).filter(|_| random.chance(90));
        let handle = row.map_or_else(|| random.pick(&HANDLES).to_owned(), |row| claim(text(row, "handle")));
        match random.below(3) {
            0 => format!("@{handle}"),
            1 => handle.to_uppercase(),
            _ => handle,
        }
    }

    pub(super) fn upstream_id(&self, random: &mut Random) -> String {
        let profiles = &self.world.datasets[self.dataset(random)].profiles;
        let known = profiles.iter().map(|profile| profile.upstream_id.as_str()).filter(|id| !id.is_empty());
        let known: Vec<&str> = known.collect();
        let id = if known.is_empty() { random.pick(&USERS) } else { random.pick(&known) };
        (*id).to_owned()
    }

    pub(super) fn profile_id(&self, random: &mut Random) -> String {
        self.profile(random).map_or("fp_unknown", |row| text(row, "id")).to_owned()
    }

    pub(super) fn any_profile(&self, random: &mut Random) -> String {
        match random.below(4) {
            0 => self.profile_id(random),
            1 => self.upstream_id(random),
            2 => self.handle(random),
            _ if random.chance(10) => "nobody".to_owned(),
            _ => self.handle(random),
        }
    }

    pub(super) fn any_token(&self, random: &mut Random) -> String {
        let tokens = &self.world.datasets[self.dataset(random)].tokens;
        if tokens.is_empty() || random.chance(4) {
            return "NOTHING".to_owned();
        }
        let row = &random.one_of(tokens).row;
        let (shown, at, chain) = (text(row, "symbol"), text(row, "address"), text(row, "chain"));
        match random.below(7) {
            0 | 1 => text(row, "id").to_owned(),
            2 if at.starts_with("0x") && random.chance(50) => at.to_uppercase(),
            2 => at.to_owned(),
            3 => format!("{chain}:{at}"),
            4 => shown.to_lowercase(),
            5 => shown.trim_start_matches('$').to_owned(),
            _ => shown.to_owned(),
        }
    }

    pub(super) fn chain(&self, random: &mut Random) -> String {
        random.pick(&CHAINS).to_owned()
    }
}
