//! Changes as the feed publishes them.

use serde_json::json;

use super::World;
use crate::{response::bytes_of, time};

/// A change that the feed publishes, by the number of its object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FeedEvent {
    Created(usize),
    Edited(usize),
    Deleted(usize),
    Engagement(usize),
    Profile(usize),
    Token(usize),
}

/// Publishes a change at once, before the next one.
pub(crate) type Publish<'a> = &'a mut dyn FnMut(&World, FeedEvent);

/// The content of a frame.
#[derive(Clone, Debug)]
pub(crate) struct FrameContent {
    pub(crate) event: &'static str,
    pub(crate) data: Vec<u8>,
    /// The change's time.
    pub(crate) at: i64,
}

impl World {
    /// The frame of a change.
    pub(crate) fn content(&self, event: FeedEvent) -> FrameContent {
        let thesis = |event, number| {
            let thesis = self.theses.at(number);
            FrameContent { event, data: bytes_of(thesis), at: thesis.updated_at }
        };
        match event {
            FeedEvent::Created(number) => thesis("thesis.created", number),
            FeedEvent::Edited(number) => thesis("thesis.updated", number),
            FeedEvent::Deleted(number) => thesis("thesis.deleted", number),
            FeedEvent::Engagement(number) => {
                let thesis = self.theses.at(number);
                let at = thesis.updated_at;
                let data = json!({
                    "id": thesis.id(),
                    "likes": thesis.likes,
                    "replies": thesis.replies,
                    "updated_at": time::text(at),
                });
                FrameContent { event: "thesis.engagement", data: bytes_of(&data), at }
            }
            FeedEvent::Profile(number) => {
                let profile = self.profiles.at(number);
                FrameContent { event: "profile.updated", data: bytes_of(&**profile), at: profile.updated_at }
            }
            FeedEvent::Token(number) => {
                let token = self.tokens.at(number);
                FrameContent { event: "token.updated", data: bytes_of(&**token), at: token.updated_at }
            }
        }
    }
}
