//! The simulated platform: profiles, tokens and theses as they are now. The same seed and the same calls make the same
//! world; only times come from outside.

mod coins;
mod feed_event;
mod life;
mod order;
mod people;
mod profile;
#[cfg(test)]
mod tests;
mod texts;
mod thesis;
mod token;

use std::sync::Arc;

pub(crate) use self::{
    feed_event::{FeedEvent, FrameContent, Publish},
    order::{Order, cursor, parse_cursor},
    profile::{Profile, ProfileChange, Profiles},
    thesis::{Listed, Theses, Thesis},
    token::{Token, TokenChange, Tokens},
};
use crate::dice::Dice;

/// The initial state of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitialWorld {
    pub(crate) seed: u64,
    pub(crate) profiles: usize,
    pub(crate) tokens: usize,
    /// Number of existing theses.
    pub(crate) theses: usize,
    /// Milliseconds over which these theses are spread.
    pub(crate) history_ms: i64,
}

/// The simulated platform.
#[derive(Debug)]
pub(crate) struct World {
    dice: Dice,
    pub(crate) profiles: Profiles,
    pub(crate) tokens: Tokens,
    pub(crate) theses: Theses,
}

impl World {
    pub(crate) fn new(beginning: InitialWorld, now: i64) -> Self {
        let InitialWorld { seed, profiles, tokens, theses, history_ms } = beginning;
        let start = now - history_ms;
        let mut world = Self {
            dice: Dice::new(seed),
            profiles: Profiles::default(),
            tokens: Tokens::default(),
            theses: Theses::default(),
        };
        for number in 0..profiles {
            let handle = people::handle(&mut world.dice, |handle| world.profiles.is_taken(handle));
            let profile = people::profile(&mut world.dice, Profiles::id(number), handle, start);
            let wallets = people::wallets(&mut world.dice, start);
            world.profiles.add(profile, wallets);
        }
        for number in 0..tokens {
            world.tokens.add(coins::token(&mut world.dice, number, start));
        }
        for number in 0..theses {
            let at = start + (history_ms as f64 * (number as f64 / theses as f64)) as i64;
            world.live(at, &mut |_: &World, _: FeedEvent| {});
        }
        world
    }

    /// Adds a thesis; a time of creation ahead of `now` is its first time.
    pub(crate) fn add_thesis(&mut self, author: usize, coin: usize, text: String, created_at: i64, now: i64) -> usize {
        let number = self.theses.len();
        let at = now.max(created_at);
        let count = |dice: &mut Dice| (!dice.chance(0.1)).then_some(0);
        let thesis = Thesis {
            number,
            author,
            coin,
            profile: Arc::clone(self.profiles.at(author)),
            token: Arc::clone(self.tokens.at(coin)),
            text: Some(text),
            likes: count(&mut self.dice),
            replies: count(&mut self.dice),
            created_at,
            updated_at: at,
            deleted: false,
        };
        self.theses.add(thesis);
        number
    }

    /// Gives a thesis another text.
    pub(crate) fn edit(&mut self, number: usize, text: String, now: i64) {
        let author = Arc::clone(self.profiles.at(self.theses.at(number).author));
        let coin = Arc::clone(self.tokens.at(self.theses.at(number).coin));
        self.theses.change(number, now, |thesis| {
            thesis.text = Some(text);
            thesis.profile = author;
            thesis.token = coin;
        });
    }

    /// Gives a thesis other likes or replies; none leaves them as they are.
    pub(crate) fn engage(&mut self, number: usize, likes: Option<Option<u64>>, replies: Option<Option<u64>>, now: i64) {
        self.theses.change(number, now, |thesis| {
            thesis.likes = likes.unwrap_or(thesis.likes);
            thesis.replies = replies.unwrap_or(thesis.replies);
        });
    }

    /// Deletes a thesis that is not deleted; half of the tombstones keep their text.
    pub(crate) fn delete(&mut self, number: usize, now: i64) {
        let keeps_text = self.dice.chance(0.5);
        self.theses.change(number, now, |thesis| {
            thesis.deleted = true;
            thesis.text = thesis.text.take().filter(|_| keeps_text);
        });
        self.theses.deleted += 1;
    }

    /// Adds a profile whose handle is not taken.
    pub(crate) fn add_profile(
        &mut self,
        handle: String,
        display_name: Option<String>,
        bio: Option<String>,
        now: i64,
    ) -> usize {
        let mut profile = people::blank(Profiles::id(self.profiles.len()), handle, now);
        profile.display_name = display_name;
        profile.bio = bio;
        self.profiles.add(profile, Vec::new())
    }

    /// Adds a token whose address is new.
    pub(crate) fn add_token(
        &mut self,
        chain: &str,
        address: String,
        symbol: String,
        name: Option<String>,
        now: i64,
    ) -> usize {
        let mut token = coins::blank(chain, address, symbol, now);
        token.name = name;
        self.tokens.add(token)
    }
}
