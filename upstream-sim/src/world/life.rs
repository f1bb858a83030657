//! The world's own changes: new theses, and other changes between them.

use super::{ProfileChange, Publish, TokenChange, World, coins, feed_event::FeedEvent, people, texts};

/// Probabilities of other changes for each new thesis.
const EDITS: f64 = 0.15;
const DELETIONS: f64 = 0.05;
const ENGAGEMENTS: f64 = 0.40;
const PROFILE_CHANGES: f64 = 0.03;
const TOKEN_CHANGES: f64 = 0.02;
/// Maximum tries to find a thesis that is not deleted.
const MAX_TRIES: usize = 8;

impl World {
    /// Creates a thesis, and sometimes makes another change.
    pub(crate) fn live(&mut self, now: i64, publish: Publish<'_>) {
        self.invent_thesis(now, publish);
        if self.dice.chance(EDITS)
            && let Some(number) = self.some_thesis()
        {
            let symbol = self.theses.at(number).token.symbol.clone();
            let text = texts::text(&mut self.dice, &symbol);
            self.edit(number, text, now);
            publish(self, FeedEvent::Edited(number));
        }
        if self.dice.chance(DELETIONS)
            && let Some(number) = self.some_thesis()
        {
            self.delete(number, now);
            publish(self, FeedEvent::Deleted(number));
        }
        if self.dice.chance(ENGAGEMENTS)
            && let Some(number) = self.some_thesis()
        {
            self.like(number, now);
            publish(self, FeedEvent::Engagement(number));
        }
        if self.dice.chance(PROFILE_CHANGES) && self.profiles.len() > 0 {
            let number = self.dice.popular(self.profiles.len());
            let change = self.invent_profile_change();
            self.profiles.change(number, change, now);
            publish(self, FeedEvent::Profile(number));
        }
        if self.dice.chance(TOKEN_CHANGES) && self.tokens.len() > 0 {
            let number = self.dice.popular(self.tokens.len());
            let change = self.invent_token_change(number);
            self.tokens.change(number, change, now);
            publish(self, FeedEvent::Token(number));
        }
    }

    /// A new thesis by a popular author about a popular token, if there are both.
    pub(crate) fn invent_thesis(&mut self, now: i64, publish: Publish<'_>) {
        if self.profiles.len() > 0 && self.tokens.len() > 0 {
            let (author, coin) = (self.some_author(), self.some_coin());
            let text = self.some_text(coin);
            let number = self.add_thesis(author, coin, text, now, now);
            publish(self, FeedEvent::Created(number));
        }
    }

    /// The number of a profile that exists.
    pub(crate) fn some_author(&mut self) -> usize {
        self.dice.popular(self.profiles.len())
    }

    /// The number of a token that exists.
    pub(crate) fn some_coin(&mut self) -> usize {
        self.dice.popular(self.tokens.len())
    }

    /// A text about a token.
    pub(crate) fn some_text(&mut self, coin: usize) -> String {
        texts::text(&mut self.dice, &self.tokens.at(coin).symbol)
    }

    /// A thesis that is not deleted, rather a young one.
    fn some_thesis(&mut self) -> Option<usize> {
        let count = self.theses.len();
        if count == 0 {
            return None;
        }
        for _ in 0..MAX_TRIES {
            let number = count - 1 - self.dice.popular(count);
            if !self.theses.at(number).deleted {
                return Some(number);
            }
        }
        None
    }

    /// Some more likes or replies than before.
    fn like(&mut self, number: usize, now: i64) {
        let thesis = self.theses.at(number);
        let (mut likes, mut replies) = (thesis.likes.unwrap_or_default(), thesis.replies.unwrap_or_default());
        if self.dice.chance(0.8) {
            likes += 1 + self.dice.below(20) as u64;
        } else {
            replies += 1 + self.dice.below(3) as u64;
        }
        self.engage(number, Some(Some(likes)), Some(Some(replies)), now);
    }

    fn invent_profile_change(&mut self) -> ProfileChange {
        let dice = &mut self.dice;
        let mut change = ProfileChange::default();
        match dice.below(4) {
            0 => {
                let old = if dice.chance(0.4) { self.profiles.given_up() } else { None };
                let free = old.filter(|handle| !self.profiles.is_taken(handle));
                change.handle =
                    Some(free.unwrap_or_else(|| people::handle(dice, |handle| self.profiles.is_taken(handle))));
            }
            1 => change.display_name = Some(people::display_name(dice)),
            2 => change.bio = Some(people::bio(dice)),
            _ => change.verified = Some(people::verified(dice)),
        }
        change
    }

    fn invent_token_change(&mut self, number: usize) -> TokenChange {
        let symbol = &self.tokens.at(number).symbol;
        let dice = &mut self.dice;
        let mut change = TokenChange::default();
        match dice.below(3) {
            0 => change.name = Some(coins::name(dice, symbol)),
            1 => change.logo_url = Some(coins::logo_url(dice)),
            _ => change.symbol = Some(coins::other_case(dice, symbol)),
        }
        change
    }
}
