//! Reads the rows for all commands of a batch together, so a batch waits for the store about as often as one command:
//! once for the rows that the commands name, and once for what these rows lead to.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use thesis_proto::reference::address_form;

use super::Draft;
use crate::{
    domain::{
        id,
        observation::{Observation, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        row::Thesis,
    },
    log::writer::command::Command,
    store::StoreResult,
};

/// Ids of the rows that commands name.
#[derive(Default)]
struct NamedRows {
    theses: BTreeSet<String>,
    profiles: BTreeSet<String>,
    tokens: BTreeSet<String>,
}

impl NamedRows {
    fn add(&mut self, draft: &Draft<'_>, command: &Command) {
        match command {
            Command::Create(new) => {
                let thesis = &new.thesis;
                self.theses.insert(thesis.id.clone());
                if !thesis.sandbox_profile && !draft.known.profiles.contains(&thesis.profile_id) {
                    self.profiles.insert(thesis.profile_id.clone());
                }
                if !thesis.sandbox_token && !draft.known.tokens.contains(&thesis.token_id) {
                    self.tokens.insert(thesis.token_id.clone());
                }
            }
            Command::Observe(observation) => self.add_observed(draft.name(), observation),
            Command::DeleteSurplus { id, .. } | Command::EraseText { id } => drop(self.theses.insert(id.clone())),
            Command::CloseTime { .. } | Command::AddFile(_) | Command::Import(_) => {}
        }
    }

    fn add_observed(&mut self, name: &str, observation: &Observation) {
        match &observation.seen {
            ObservedThing::Thesis(seen) => {
                self.theses.insert(id::of_thesis(name, &seen.upstream_id));
                let (on, author) = token_and_author(name, seen);
                self.profiles.insert(author);
                self.tokens.insert(on);
            }
            ObservedThing::Engagement(seen) => drop(self.theses.insert(id::of_thesis(name, &seen.upstream_id))),
            ObservedThing::Deletion(upstream_id) => drop(self.theses.insert(id::of_thesis(name, upstream_id))),
            ObservedThing::Profile(seen) => drop(self.profiles.insert(profile(name, seen))),
            ObservedThing::Token(seen) => drop(self.tokens.insert(token(name, seen))),
            ObservedThing::Wallets(upstream_id, _) => drop(self.profiles.insert(id::of_profile(name, upstream_id))),
        }
    }
}

/// The unknown rows that creations and deletions need besides.
#[derive(Default)]
struct RelatedRows {
    /// Authors and tokens of deleted theses, by id, with their datasets.
    profiles: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
    /// Tokens whose theses are counted.
    counted_tokens: BTreeSet<String>,
    /// Authors whose theses are counted.
    counted_authors: BTreeSet<String>,
    /// Pairs of token and author whose theses are counted.
    counted_pairs: BTreeSet<(String, String)>,
}

impl RelatedRows {
    fn is_empty(&self) -> bool {
        self.profiles.is_empty()
            && self.tokens.is_empty()
            && self.counted_tokens.is_empty()
            && self.counted_authors.is_empty()
            && self.counted_pairs.is_empty()
    }
}

fn profile(name: &str, seen: &ObservedProfile) -> String {
    id::of_profile(name, &seen.upstream_id)
}

fn token(name: &str, seen: &ObservedToken) -> String {
    id::of_token(name, &seen.chain, &address_form(&seen.address))
}

fn token_and_author(name: &str, seen: &ObservedThesis) -> (String, String) {
    (token(name, &seen.token), profile(name, &seen.profile))
}

fn keys<'a>(name: &str, ids: &'a BTreeSet<String>) -> Vec<(String, &'a str)> {
    ids.iter().map(|id| (name.to_owned(), id.as_str())).collect()
}

fn keys_in(ids: &BTreeMap<String, String>) -> Vec<(String, &str)> {
    ids.iter().map(|(id, dataset)| (dataset.clone(), id.as_str())).collect()
}

fn owned<'a, M: Clone + 'a>(rows: Vec<Option<Arc<M>>>) -> impl Iterator<Item = Option<Cow<'a, M>>> {
    rows.into_iter().map(|row| row.map(|row| Cow::Owned(Arc::unwrap_or_clone(row))))
}

impl Draft<'_> {
    /// Reads the unknown rows that commands will need.
    pub(in crate::log::writer) async fn lookup(&mut self, commands: impl Iterator<Item = &Command>) -> StoreResult<()> {
        let commands: Vec<&Command> = commands.collect();
        let mut named = NamedRows::default();
        for command in &commands {
            named.add(self, command);
        }
        let NamedRows { mut theses, mut profiles, mut tokens } = named;
        theses.retain(|id| !self.theses.contains_key(id));
        profiles.retain(|id| !self.profiles.contains_key(id) && self.known.profiles.get(id).is_none());
        tokens.retain(|id| !self.tokens.contains_key(id) && self.known.tokens.get(id).is_none());
        let (name, store) = (self.name(), &self.shared.theses);
        let (thesis_keys, profile_keys, token_keys) = (keys(name, &theses), keys(name, &profiles), keys(name, &tokens));
        let in_dataset = async { if self.counts_all { self.dataset_totals().await.map(Some) } else { Ok(None) } };
        let found = tokio::try_join!(
            store.theses(&thesis_keys),
            store.profiles(&profile_keys),
            store.tokens(&token_keys),
            in_dataset,
        )?;
        let (theses_found, profiles_found, tokens_found, in_dataset) = found;
        self.in_dataset = in_dataset;
        self.theses.extend(theses.into_iter().zip(owned(theses_found)));
        // These are the rows at the head, or at a later one. In that case the append fails, and the writer applies the
        // entries between before it drafts again.
        profiles_found.iter().flatten().for_each(|profile| self.known.put_profile(profile));
        tokens_found.iter().flatten().for_each(|token| self.known.put_token(token));
        self.profiles.extend(profiles.into_iter().zip(owned(profiles_found)));
        self.tokens.extend(tokens.into_iter().zip(owned(tokens_found)));
        let related = self.related_rows(&commands);
        if related.is_empty() { Ok(()) } else { self.lookup_related(related).await }
    }

    /// The token and the author of a thesis that a command adds to the log.
    fn created_by(&self, command: &Command) -> Option<(String, String)> {
        let (thesis, pair) = match command {
            Command::Create(new) => {
                let thesis = &new.thesis;
                (thesis.id.clone(), (thesis.token_id.clone(), thesis.profile_id.clone()))
            }
            Command::Observe(observation) => match &observation.seen {
                ObservedThing::Thesis(seen) => {
                    (id::of_thesis(self.name, &seen.upstream_id), token_and_author(self.name, seen))
                }
                _ => return None,
            },
            Command::DeleteSurplus { .. } | Command::EraseText { .. } | Command::CloseTime { .. } => return None,
            Command::AddFile(_) | Command::Import(_) => return None,
        };
        let found = self.theses.get(&thesis).and_then(Option::as_deref);
        found.is_none_or(Thesis::is_awaited).then_some(pair)
    }

    /// The thesis that a command deletes, if it is in the store.
    fn deleted_by(&self, command: &Command) -> Option<&Thesis> {
        let id = match command {
            Command::DeleteSurplus { id, .. } => id.clone(),
            Command::Observe(observation) => match &observation.seen {
                ObservedThing::Deletion(upstream_id) => id::of_thesis(self.name, upstream_id),
                _ => return None,
            },
            Command::Create(_) | Command::EraseText { .. } | Command::CloseTime { .. } => return None,
            Command::AddFile(_) | Command::Import(_) => return None,
        };
        self.theses.get(&id)?.as_deref().filter(|thesis| thesis.deleted_at.is_none() && !thesis.is_awaited())
    }

    /// Finds the unknown rows that creations and deletions need, once their theses are read. Authors and tokens without
    /// a row have no theses yet.
    fn related_rows(&mut self, commands: &[&Command]) -> RelatedRows {
        let mut related = RelatedRows::default();
        let mut pairs: BTreeSet<(String, String)> =
            commands.iter().filter_map(|command| self.created_by(command)).collect();
        for thesis in commands.iter().filter_map(|command| self.deleted_by(command)) {
            pairs.insert((thesis.token_id.clone(), thesis.profile_id.clone()));
            let (author, on) = (&thesis.profile_id, &thesis.token_id);
            if !self.profiles.contains_key(author) && self.known.profiles.get(author).is_none() {
                related.profiles.insert(author.clone(), self.dataset(thesis.sandbox_profile));
            }
            if !self.tokens.contains_key(on) && self.known.tokens.get(on).is_none() {
                related.tokens.insert(on.clone(), self.dataset(thesis.sandbox_token));
            }
        }
        for (token, author) in pairs {
            let is_new_token = matches!(self.tokens.get(&token), Some(None));
            let is_new_author = matches!(self.profiles.get(&author), Some(None));
            if !self.totals.contains_key(&token) && self.known.totals.get(&token).is_none() {
                if is_new_token {
                    self.totals.insert(token.clone(), (0, 0));
                } else {
                    related.counted_tokens.insert(token.clone());
                }
            }
            if !self.by_author.contains_key(&author) && self.known.by_author.get(&author).is_none() {
                if is_new_author {
                    self.by_author.insert(author.clone(), 0);
                } else {
                    related.counted_authors.insert(author.clone());
                }
            }
            let pair = (token, author);
            if !self.of_author.contains_key(&pair) && self.known.of_author.get(&pair).is_none() {
                if is_new_token || is_new_author {
                    self.of_author.insert(pair, 0);
                } else {
                    related.counted_pairs.insert(pair);
                }
            }
        }
        related
    }

    async fn lookup_related(&mut self, related: RelatedRows) -> StoreResult<()> {
        let RelatedRows { profiles, tokens, counted_tokens, counted_authors, counted_pairs } = related;
        let (name, store) = (self.name(), &self.shared.theses);
        let (profile_keys, token_keys) = (keys_in(&profiles), keys_in(&tokens));
        let token_ids: Vec<&str> = counted_tokens.iter().map(String::as_str).collect();
        let author_ids: Vec<&str> = counted_authors.iter().map(String::as_str).collect();
        let pair_ids: Vec<_> = counted_pairs.iter().map(|(token, author)| (token.as_str(), author.as_str())).collect();
        let found = tokio::try_join!(
            store.profiles(&profile_keys),
            store.tokens(&token_keys),
            store.totals(name, &token_ids),
            store.counts_by_author(name, &author_ids),
            store.author_counts(name, &pair_ids),
        )?;
        let (profiles_found, tokens_found, totals, by_author, of_author) = found;
        self.profiles.extend(profiles.into_keys().zip(owned(profiles_found)));
        self.tokens.extend(tokens.into_keys().zip(owned(tokens_found)));
        let totals = totals.into_iter().map(|of| (of.theses, of.authors));
        self.totals.extend(counted_tokens.into_iter().zip(totals));
        self.by_author.extend(counted_authors.into_iter().zip(by_author));
        self.of_author.extend(counted_pairs.into_iter().zip(of_author));
        Ok(())
    }
}
