//! The properties that filters wait for, so that an event finds the filters that it may concern without a scan.

use std::collections::HashSet;

use super::{CompiledFilter, EventKeys};
use crate::{
    reference::{address_form, handle_form, symbol_form},
    search::{KEY_KINDS, TextKey},
    v1::EventType,
};

/// One property of events by which a filter is indexed. A filter is indexed by the values of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// Every event.
    All,
    /// Events of a type.
    Type(EventType),
    /// Events about tokens of a chain.
    Chain(String),
    /// Events that name a handle, by its form.
    Handle(String),
    /// Events about a token, by its id.
    TokenId(String),
    /// Events about a token, by the form of its address, and its chain.
    TokenOnChain(String, String),
    /// Events about tokens with an address, by its form.
    Address(String),
    /// Events about tokens with a symbol, by its form.
    Symbol(String),
    /// Events whose text has a key.
    Text(TextKey),
}

impl CompiledFilter {
    /// The properties that the filter waits for: an event that passes it has one of them.
    #[must_use]
    pub fn interests(&self) -> HashSet<Interest> {
        let text_keys = self.texts.needed_keys();
        let texts = || -> HashSet<Interest> { text_keys.iter().copied().map(Interest::Text).collect() };
        // Whole words are the rarest property of an event, but many words have the same beginning.
        if !text_keys.is_empty() && text_keys.iter().all(TextKey::is_of_whole_words) {
            return texts();
        }
        if !self.handles.is_empty() {
            return self.handles.iter().cloned().map(Interest::Handle).collect();
        }
        if !self.tokens.is_empty() {
            let readings = self.tokens.iter().flat_map(|token| {
                let on_chain = token.on_chain.clone().map(|(chain, address)| Interest::TokenOnChain(address, chain));
                let id = token.id.clone().map(Interest::TokenId);
                let address = token.address.clone().map(Interest::Address);
                [id, on_chain, address, Some(Interest::Symbol(token.symbol.clone()))].into_iter().flatten()
            });
            return readings.collect();
        }
        if !self.chains.is_empty() {
            return self.chains.iter().cloned().map(Interest::Chain).collect();
        }
        if !text_keys.is_empty() {
            return texts();
        }
        if !self.types.is_empty() {
            return self.types.iter().copied().map(Interest::Type).collect();
        }
        HashSet::from([Interest::All])
    }
}

/// The kinds of keys that filters wait for. An event names no others, because each takes time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwaitedKeys {
    /// Number of keys, by kind.
    counts: [usize; KEY_KINDS],
}

impl AwaitedKeys {
    /// Adds the kind of an interest of a filter, if it is in a key.
    pub fn add(&mut self, interest: &Interest) {
        if let Interest::Text(key) = interest {
            self.counts[key.kind as usize] += 1;
        }
    }

    /// Removes an interest that was added.
    pub fn remove(&mut self, interest: &Interest) {
        if let Interest::Text(key) = interest {
            self.counts[key.kind as usize] -= 1;
        }
    }

    fn kinds(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.counts).filter(|(_, count)| **count > 0).map(|(kind, _)| kind)
    }
}

impl EventKeys {
    /// Returns the properties of the event. Of the keys of its text it includes those of awaited kinds.
    pub fn interests(&self, awaited: &AwaitedKeys) -> impl Iterator<Item = Interest> {
        let token = self.token.as_ref().map(|token| {
            let address = address_form(&token.address);
            [
                Interest::TokenId(token.id.clone()),
                Interest::TokenOnChain(address.clone(), token.chain.clone()),
                Interest::Address(address),
                Interest::Symbol(symbol_form(&token.symbol)),
                Interest::Chain(token.chain.clone()),
            ]
        });
        let handle = self.handle.as_ref().map(|handle| Interest::Handle(handle_form(handle)));
        // Without an awaited kind its words are not read.
        let keys = self.text.iter().flat_map(move |text| awaited.kinds().flat_map(move |kind| text.index().keys(kind)));
        let all = [Interest::All, Interest::Type(self.event_type)].into_iter();
        all.chain(handle).chain(token.into_iter().flatten()).chain(keys.map(Interest::Text))
    }
}
