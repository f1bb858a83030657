//! The properties that filters wait for, so that an event finds the filters that it may concern without a scan.

use std::collections::HashSet;

use super::{CompiledFilter, EventKeys};
use crate::{
    reference::{address_form, handle_form, symbol_form},
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
    /// Events whose text has a word, by any form of it.
    Word(String),
    /// Events with a text.
    Text,
}

impl CompiledFilter {
    /// The properties that the filter waits for: an event that passes it has one of them.
    #[must_use]
    pub fn interests(&self) -> HashSet<Interest> {
        // A word is the rarest property of an event.
        if let Some(words) = self.needed_words() {
            return words.into_iter().map(|word| Interest::Word(word.to_owned())).collect();
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
        if !self.texts.is_empty() {
            return HashSet::from([Interest::Text]);
        }
        if !self.types.is_empty() {
            return self.types.iter().copied().map(Interest::Type).collect();
        }
        HashSet::from([Interest::All])
    }

    /// True if the filter waits for words: then [`EventKeys::interests`] must name those of an event.
    #[must_use]
    pub fn waits_for_words(&self) -> bool {
        self.needed_words().is_some()
    }

    /// Returns words such that each matching event has at least one. None if an event without any of them may match.
    fn needed_words(&self) -> Option<Vec<&str>> {
        self.texts.needed_words().filter(|words| !words.is_empty())
    }
}

impl EventKeys {
    /// Returns the properties of the event. It includes words only if a filter waits for words, because reading them
    /// takes time.
    pub fn interests(&self, with_words: bool) -> impl Iterator<Item = Interest> {
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
        let words = self.text.as_ref().filter(|_| with_words).into_iter().flat_map(|text| text.index().forms());
        let words = words.map(|form| Interest::Word(form.to_owned()));
        let text = self.text.as_ref().map(|_| Interest::Text);
        let all = [Interest::All, Interest::Type(self.event_type)].into_iter().chain(text);
        all.chain(handle).chain(token.into_iter().flatten()).chain(words)
    }
}
