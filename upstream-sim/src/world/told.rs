//! Changes as the feed tells them.

use serde_json::json;

use super::World;
use crate::{answer::bytes_of, time};

/// A change that the feed tells, by the number of its object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Created(usize),
    Edited(usize),
    Deleted(usize),
    Engagement(usize),
    Profile(usize),
    Token(usize),
}

/// Takes a change as soon as it is made, before the next one.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&World, Told);

/// What a frame holds.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) event: &'static str,
    pub(crate) data: Vec<u8>,
    /// The change's time.
    pub(crate) at: i64,
}

impl World {
    /// The frame of a change.
    pub(crate) fn content(&self, told: Told) -> Content {
        let thesis = |event, number| {
            let thesis = self.theses.at(number);
            Content { event, data: bytes_of(thesis), at: thesis.updated_at() }
        };
        match told {
            Told::Created(number) => thesis("thesis.created", number),
            Told::Edited(number) => thesis("thesis.updated", number),
            Told::Deleted(number) => thesis("thesis.deleted", number),
            Told::Engagement(number) => {
                let thesis = self.theses.at(number);
                let at = thesis.engagement_at;
                let data = json!({
                    "id": thesis.id(),
                    "likes": thesis.likes,
                    "replies": thesis.replies,
                    "updated_at": time::text(at),
                });
                Content { event: "thesis.engagement", data: bytes_of(&data), at }
            }
            Told::Profile(number) => {
                let profile = self.profiles.at(number);
                Content { event: "profile.updated", data: bytes_of(&**profile), at: profile.updated_at }
            }
            Told::Token(number) => {
                let token = self.tokens.at(number);
                Content { event: "token.updated", data: bytes_of(&**token), at: token.updated_at }
            }
        }
    }
}
