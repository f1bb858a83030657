//! Theses: found by id, or by the time of their last change.

use std::{collections::HashMap, sync::Arc};

use serde::{Serialize, Serializer};

use super::{Order, Profile, Token};
use crate::time;

/// A thesis, or its tombstone.
#[derive(Clone, Debug)]
pub(crate) struct Thesis {
    pub(crate) number: usize,
    /// Number of its author.
    pub(crate) author: usize,
    /// Number of its token.
    pub(crate) coin: usize,
    /// The author as known when the text was last changed.
    pub(crate) profile: Arc<Profile>,
    /// The token as known then.
    pub(crate) token: Arc<Token>,
    /// The text; a tombstone may have none.
    pub(crate) text: Option<String>,
    pub(crate) likes: Option<u64>,
    pub(crate) replies: Option<u64>,
    pub(crate) created_at: i64,
    /// Time of the last change of any field.
    pub(crate) updated_at: i64,
    pub(crate) deleted: bool,
}

impl Thesis {
    pub(crate) fn id(&self) -> String {
        format!("t_{}", self.number + 1)
    }
}

/// A position that somebody holds: the service must not store it.
#[derive(Serialize)]
struct Holding {
    side: &'static str,
    note: &'static str,
}

const HOLDINGS: [Holding; 1] = [Holding { side: "long", note: "never-stored" }];

impl Serialize for Thesis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Object<'a> {
            id: String,
            profile: &'a Profile,
            token: &'a Token,
            #[serde(skip_serializing_if = "Option::is_none")]
            text: Option<&'a str>,
            likes: Option<u64>,
            replies: Option<u64>,
            #[serde(serialize_with = "time::required")]
            created_at: i64,
            #[serde(serialize_with = "time::required")]
            updated_at: i64,
            #[serde(skip_serializing_if = "Option::is_none")]
            deleted: Option<bool>,
            positions: [Holding; 1],
        }
        let object = Object {
            id: self.id(),
            profile: &self.profile,
            token: &self.token,
            text: self.text.as_deref(),
            likes: self.likes,
            replies: self.replies,
            created_at: self.created_at,
            updated_at: self.updated_at,
            deleted: self.deleted.then_some(true),
            positions: HOLDINGS,
        };
        object.serialize(serializer)
    }
}

/// The theses that a lookup lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Listed {
    Everything,
    /// The theses of a profile, by its number.
    Author(usize),
    /// The theses about a token, by its number.
    Coin(usize),
}

/// All theses, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Theses {
    all: Vec<Thesis>,
    everything: Order,
    of_author: HashMap<usize, Order>,
    of_coin: HashMap<usize, Order>,
    /// Number of tombstones.
    pub(crate) deleted: usize,
}

impl Theses {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn at(&self, number: usize) -> &Thesis {
        &self.all[number]
    }

    /// All theses, in the order of their creation.
    pub(crate) fn all(&self) -> &[Thesis] {
        &self.all
    }

    pub(crate) fn number(&self, id: &str) -> Option<usize> {
        let number = id.strip_prefix("t_")?.parse::<usize>().ok()?.checked_sub(1)?;
        self.all.get(number).filter(|thesis| thesis.id() == id).map(|_| number)
    }

    /// Listed theses in the order of their last change; none when there are none.
    pub(crate) fn order(&self, listed: Listed) -> Option<&Order> {
        match listed {
            Listed::Everything => Some(&self.everything),
            Listed::Author(number) => self.of_author.get(&number),
            Listed::Coin(number) => self.of_coin.get(&number),
        }
    }

    pub(super) fn add(&mut self, thesis: Thesis) {
        let place = (thesis.updated_at, thesis.number);
        self.everything.insert(place);
        self.of_author.entry(thesis.author).or_default().insert(place);
        self.of_coin.entry(thesis.coin).or_default().insert(place);
        self.all.push(thesis);
    }

    /// Changes a thesis at a time after its last one, and moves it in all orders.
    pub(super) fn change(&mut self, number: usize, now: i64, change: impl FnOnce(&mut Thesis)) {
        let thesis = &mut self.all[number];
        let old = (thesis.updated_at, number);
        change(thesis);
        thesis.updated_at = time::after(old.0, now);
        let new = (thesis.updated_at, number);
        let of_author = self.of_author.entry(thesis.author).or_default();
        let of_coin = self.of_coin.entry(thesis.coin).or_default();
        for order in [&mut self.everything, of_author, of_coin] {
            order.remove(old);
            order.insert(new);
        }
    }
}
