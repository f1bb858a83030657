//! Reads the rows for all commands of a batch together, so a batch waits for the store about as often as one command.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::try_join_all;
use thesis_proto::reference::address_form;

use super::Draft;
use crate::{
    domain::{
        id,
        observation::{Observation, ObservedProfile, ObservedThing, ObservedToken},
    },
    log::writer::command::Command,
    store::StoreResult,
};

/// Ids of the rows that commands need.
#[derive(Default)]
struct WantedRows {
    theses: BTreeSet<String>,
    profiles: BTreeSet<String>,
    tokens: BTreeSet<String>,
    /// Pairs of token and author whose theses are counted.
    counted: BTreeSet<(String, String)>,
}

impl WantedRows {
    fn add(&mut self, draft: &Draft<'_>, command: &Command) {
        match command {
            Command::Create(new) => {
                let thesis = &new.thesis;
                self.theses.insert(thesis.id.clone());
                if !thesis.sandbox_profile && draft.known.profiles.get(&thesis.profile_id).is_none() {
                    self.profiles.insert(thesis.profile_id.clone());
                }
                if !thesis.sandbox_token && draft.known.tokens.get(&thesis.token_id).is_none() {
                    self.tokens.insert(thesis.token_id.clone());
                }
                self.counted.insert((thesis.token_id.clone(), thesis.profile_id.clone()));
            }
            Command::Observe(observation) => self.add_observed(draft.name(), observation),
            Command::DeleteSurplus { id, .. } => drop(self.theses.insert(id.clone())),
            Command::Import(_) => {}
        }
    }

    fn add_observed(&mut self, name: &str, observation: &Observation) {
        let profile = |seen: &ObservedProfile| id::of_profile(name, &seen.upstream_id);
        let token = |seen: &ObservedToken| id::of_token(name, &seen.chain, &address_form(&seen.address));
        match &observation.seen {
            ObservedThing::Thesis(seen) => {
                self.theses.insert(id::of_thesis(name, &seen.upstream_id));
                let (author, on) = (profile(&seen.profile), token(&seen.token));
                self.counted.insert((on.clone(), author.clone()));
                self.profiles.insert(author);
                self.tokens.insert(on);
            }
            ObservedThing::Engagement(seen) => drop(self.theses.insert(id::of_thesis(name, &seen.upstream_id))),
            ObservedThing::Deletion(upstream_id) => drop(self.theses.insert(id::of_thesis(name, upstream_id))),
            ObservedThing::Profile(seen) => drop(self.profiles.insert(profile(seen))),
            ObservedThing::Token(seen) => drop(self.tokens.insert(token(seen))),
            ObservedThing::Wallets(upstream_id, _) => drop(self.profiles.insert(id::of_profile(name, upstream_id))),
        }
    }
}

fn keys<'a>(name: &str, ids: &'a BTreeSet<String>) -> Vec<(String, &'a str)> {
    ids.iter().map(|id| (name.to_owned(), id.as_str())).collect()
}

fn owned<M: Clone>(rows: Vec<Option<Arc<M>>>) -> impl Iterator<Item = Option<M>> {
    rows.into_iter().map(|row| row.map(Arc::unwrap_or_clone))
}

impl Draft<'_> {
    /// Reads the unknown rows that commands will need.
    pub(in crate::log::writer) async fn lookup(&mut self, commands: impl Iterator<Item = &Command>) -> StoreResult<()> {
        let mut wanted = WantedRows::default();
        for command in commands {
            wanted.add(self, command);
        }
        let WantedRows { theses, profiles, tokens, counted } = wanted;
        let (name, store) = (self.name(), &self.shared.theses);
        let (thesis_keys, profile_keys, token_keys) = (keys(name, &theses), keys(name, &profiles), keys(name, &tokens));
        let totals_of: BTreeSet<&str> = counted.iter().map(|(token, _)| token.as_str()).collect();
        let totals_of: Vec<&str> = totals_of.into_iter().filter(|id| self.known.totals.get(*id).is_none()).collect();
        let pairs: Vec<_> = counted.iter().filter(|pair| self.known.of_author.get(*pair).is_none()).collect();
        let pair_keys: Vec<_> = pairs.iter().map(|(token, author)| (token.as_str(), author.as_str())).collect();
        let in_dataset = async { if self.counts_all { self.dataset_totals().await.map(Some) } else { Ok(None) } };
        let found = tokio::try_join!(
            store.theses(&thesis_keys),
            store.profiles(&profile_keys),
            store.tokens(&token_keys),
            store.totals(name, &totals_of),
            store.author_counts(name, &pair_keys),
            in_dataset,
        )?;
        let (theses_found, profiles_found, tokens_found, totals_found, author_counts, in_dataset) = found;
        self.in_dataset = in_dataset;
        let totals: Vec<_> = totals_of.into_iter().map(str::to_owned).zip(totals_found).collect();
        self.totals.extend(totals.into_iter().map(|(token, of)| (token, (of.theses, of.authors))));
        self.of_author.extend(pairs.into_iter().cloned().zip(author_counts));
        self.theses.extend(theses.into_iter().zip(owned(theses_found)));
        self.profiles.extend(profiles.into_iter().zip(owned(profiles_found)));
        self.tokens.extend(tokens.into_iter().zip(owned(tokens_found)));
        self.lookup_authors(counted.into_iter().map(|(_, author)| author).collect()).await
    }

    /// Reads how many theses the unknown ones of these authors have, once their profiles are read: a new profile has
    /// none.
    async fn lookup_authors(&mut self, authors: BTreeSet<String>) -> StoreResult<()> {
        let unknown = authors.into_iter().filter(|author| self.known.by_author.get(author).is_none());
        let is_new = |author: &String| matches!(self.profiles.get(author), Some(None));
        let (new, others): (Vec<String>, Vec<String>) = unknown.partition(is_new);
        let (name, store) = (self.name, &self.shared.theses);
        let counts = try_join_all(others.iter().map(|author| store.count_by_author(name, author))).await?;
        self.by_author.extend(new.into_iter().map(|author| (author, 0)));
        self.by_author.extend(others.into_iter().zip(counts));
        Ok(())
    }
}
