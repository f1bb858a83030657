//! The properties that filters wait for, so that an event finds the filters that it may concern without a scan.

use std::collections::HashSet;

use super::{CompiledFilter, EventKeys};
use crate::{
    reference::{address_form, handle_form, symbol_form},
    search::{RUN_LENGTHS, WordRun},
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
    /// Events whose text has these words side by side.
    Words(WordRun),
    /// Events with a text.
    Text,
}

impl CompiledFilter {
    /// The properties that the filter waits for: an event that passes it has one of them.
    #[must_use]
    pub fn interests(&self) -> HashSet<Interest> {
        // Words are the rarest property of an event.
        if !self.texts.needed_runs().is_empty() {
            return self.texts.needed_runs().iter().copied().map(Interest::Words).collect();
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
}

/// The lengths of the runs of words that filters wait for. An event names no others, because each takes time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwaitedLengths {
    /// Number of runs, by length.
    runs: [usize; RUN_LENGTHS],
}

impl AwaitedLengths {
    /// Adds those of a filter.
    pub fn add(&mut self, filter: &CompiledFilter) {
        filter.texts.needed_runs().iter().for_each(|run| self.runs[run.exponent as usize] += 1);
    }

    /// Removes those of a filter that was added.
    pub fn remove(&mut self, filter: &CompiledFilter) {
        filter.texts.needed_runs().iter().for_each(|run| self.runs[run.exponent as usize] -= 1);
    }

    /// The lengths, as powers of two.
    fn exponents(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.runs).filter(|(_, count)| **count > 0).map(|(exponent, _)| exponent)
    }
}

impl EventKeys {
    /// Returns the properties of the event. Of its words it includes runs of these lengths.
    pub fn interests(&self, awaited: &AwaitedLengths) -> impl Iterator<Item = Interest> {
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
        let runs = self.text.as_ref().into_iter().flat_map(move |text| {
            // Without a length its words are not read.
            awaited.exponents().flat_map(move |exponent| text.index().runs(exponent))
        });
        let text = self.text.as_ref().map(|_| Interest::Text);
        let all = [Interest::All, Interest::Type(self.event_type)].into_iter().chain(text);
        all.chain(handle).chain(token.into_iter().flatten()).chain(runs.map(Interest::Words))
    }
}
