//! The loaded data: theses of a project's dataset, with a skewed choice of authors and tokens.

use core_service::{
    domain::{
        id,
        row::{NewThesis, Profile, Thesis, Token},
        window::DAY_MS,
    },
    fixtures::{self, CHAIN},
};
use serde::{Deserialize, Serialize};

/// A word of many texts.
pub(crate) const COMMON_WORD: &str = "the";
/// A word of one text in 10,000.
pub(crate) const RARE_WORD: &str = "zugzwang";
const RARE: u64 = 10_000;
/// The index of the token that most theses are about.
pub(crate) const HOTTEST: usize = 0;
/// The index of a typical token.
pub(crate) const MEDIAN: usize = 500;
const LIKES: usize = 500;

const TOKENS: usize = 1_000;
const PROFILES: usize = 10_000;
/// Exponent with which the hottest of 1,000 tokens has a tenth of all theses.
const SKEW: f64 = 0.9;

/// Random enough, and the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}

/// Draws indices, low ones more often.
struct Skewed {
    /// The sum of weights up to each index, in parts of the whole.
    sums: Vec<f64>,
}

impl Skewed {
    fn new(count: usize) -> Self {
        let weights = (1..=count).map(|rank| (rank as f64).powf(-SKEW));
        let mut sums: Vec<f64> =
            weights.scan(0.0, |sum, weight| Some(*sum + weight).inspect(|new| *sum = *new)).collect();
        let whole = sums.last().copied().unwrap_or(1.0);
        sums.iter_mut().for_each(|sum| *sum /= whole);
        Self { sums }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let drawn = random.below(1 << 30) as f64 / f64::from(1 << 30);
        self.sums.partition_point(|sum| *sum <= drawn).min(self.sums.len() - 1)
    }
}

/// Counts of the loaded theses.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) theses: u64,
    /// With the common word.
    pub(crate) common: u64,
    /// With the rare word.
    pub(crate) rare: u64,
    /// About the hottest token.
    pub(crate) hottest: u64,
}

/// Makes the theses, one after the other.
pub(crate) struct Data {
    profiles: Vec<Profile>,
    tokens: Vec<Token>,
    /// Texts, and whether the common word is in them.
    texts: Vec<(String, bool)>,
    /// Counts of the theses made so far.
    pub(crate) facts: Facts,
    by_profile: Skewed,
    by_token: Skewed,
    random: Random,
    from: i64,
    step: f64,
}

/// The id of a profile; the first ones post most.
pub(crate) fn profile_id(index: usize) -> String {
    id::derive("fp_", &["benchmark", &index.to_string()])
}

/// The id of a token; the first ones are posted on most.
pub(crate) fn token_id(index: usize) -> String {
    id::derive("tk_", &["benchmark", &index.to_string()])
}

/// The symbol of a token, without its sigil.
pub(crate) fn symbol(index: usize) -> String {
    format!("BENCH{index}")
}

/// The id of a loaded thesis.
pub(crate) fn thesis_id(number: u64) -> String {
    id::derive("th_", &["benchmark", &number.to_string()])
}

impl Data {
    /// `theses` theses of the `days` before `now`, evenly spread.
    pub(crate) fn new(theses: u64, days: i64, now: i64) -> Self {
        let from = now - days * DAY_MS;
        Self {
            profiles: (0..PROFILES).map(|index| profile(index, from)).collect(),
            tokens: (0..TOKENS).map(|index| token(index, from)).collect(),
            texts: fixtures::seeded().into_iter().map(|thesis| with_common(thesis.text)).collect(),
            facts: Facts::default(),
            by_profile: Skewed::new(PROFILES),
            by_token: Skewed::new(TOKENS),
            random: Random::new(1),
            from,
            step: (days * DAY_MS) as f64 / theses as f64,
        }
    }

    /// The thesis with this number.
    pub(crate) fn thesis(&mut self, number: u64) -> NewThesis {
        let profile = self.profiles[self.by_profile.draw(&mut self.random)].clone();
        // So that the median token has a thesis even among few theses.
        let about = if number == 0 { MEDIAN } else { self.by_token.draw(&mut self.random) };
        let token = self.tokens[about].clone();
        let (mut text, common) = self.texts[self.random.below(self.texts.len())].clone();
        let rare = number.is_multiple_of(RARE);
        if rare {
            text = format!("{text} {RARE_WORD}");
        }
        self.facts.theses += 1;
        self.facts.common += u64::from(common);
        self.facts.rare += u64::from(rare);
        self.facts.hottest += u64::from(about == HOTTEST);
        let created_at = self.from + (number as f64 * self.step) as i64;
        let thesis = Thesis {
            id: thesis_id(number),
            profile_id: profile.id.clone(),
            token_id: token.id.clone(),
            chain: token.chain.clone(),
            text,
            likes: Some(self.random.below(LIKES) as i64),
            created_at,
            updated_at: created_at,
            ..Thesis::default()
        };
        NewThesis { thesis, profile, token, test: true, at: None, trace: Vec::new(), max_theses: None }
    }
}

fn with_common(text: String) -> (String, bool) {
    let common = text.split(|c: char| !c.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case(COMMON_WORD));
    (text, common)
}

fn profile(index: usize, seen_at: i64) -> Profile {
    let number = index.to_string();
    Profile {
        id: profile_id(index),
        handle: format!("@trader_{number}"),
        display_name: Some(format!("Trader {number}")),
        avatar_url: Some(format!("https://images.example/avatars/{number}.png")),
        verified: Some(index.is_multiple_of(10)),
        first_seen_at: seen_at,
        updated_at: seen_at,
        ..Profile::default()
    }
}

fn token(index: usize, seen_at: i64) -> Token {
    let number = index.to_string();
    Token {
        id: token_id(index),
        symbol: format!("${}", symbol(index)),
        name: Some(format!("Benchmark {number}")),
        chain: CHAIN.to_owned(),
        address: id::derive("bench", &["address", &number]),
        logo_url: Some(format!("https://images.example/tokens/{number}.png")),
        first_seen_at: seen_at,
        updated_at: seen_at,
        ..Token::default()
    }
}
