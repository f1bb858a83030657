//! Finds the webhooks that an event concerns. The cost grows with the webhooks that it may concern, not with all.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use thesis_proto::{
    filter::{AwaitedKeys, CompiledFilter, EventKeys, Interest},
    names::is_of_alerts,
};

use crate::{
    convert::control::{event_types, filters},
    domain::{
        control::Webhook,
        dataset::{Dataset, View},
    },
};

#[derive(Debug)]
struct WebhookFilter {
    webhook: Arc<Webhook>,
    filter: CompiledFilter,
}

/// The enabled webhooks that see one dataset, by interest.
#[derive(Debug, Default)]
struct DatasetWebhooks {
    by_interest: HashMap<Interest, Vec<Arc<WebhookFilter>>>,
    count: usize,
    awaited: AwaitedKeys,
}

/// The enabled webhooks, by dataset and interest.
#[derive(Debug, Default)]
pub(super) struct Matching {
    by_dataset: HashMap<Dataset, DatasetWebhooks>,
    known: HashMap<String, Arc<WebhookFilter>>,
}

/// The datasets that a webhook sees. It sees those of alerts only if it names one of their events.
fn datasets(webhook: &Webhook) -> Vec<Dataset> {
    let view = if webhook.live { View::live() } else { View::test(&webhook.project_id) };
    let sees_alerts = event_types(webhook).into_iter().any(is_of_alerts);
    if sees_alerts { view.with_alerts(&webhook.project_id) } else { view }.datasets().to_vec()
}

impl Matching {
    /// Adds a webhook, or replaces it with its new state.
    pub(super) fn set(&mut self, webhook: &Arc<Webhook>) {
        self.remove(&webhook.id);
        // Filters were compiled before they were stored.
        let Ok(filter) = CompiledFilter::new(&event_types(webhook), Some(&filters(webhook))) else { return };
        if !webhook.is_enabled() {
            return;
        }
        let entry = Arc::new(WebhookFilter { webhook: Arc::clone(webhook), filter });
        for dataset in datasets(webhook) {
            let webhooks = self.by_dataset.entry(dataset).or_default();
            webhooks.count += 1;
            for interest in entry.filter.interests() {
                webhooks.awaited.add(&interest);
                webhooks.by_interest.entry(interest).or_default().push(Arc::clone(&entry));
            }
        }
        self.known.insert(webhook.id.clone(), entry);
    }

    pub(super) fn remove(&mut self, id: &str) {
        let Some(entry) = self.known.remove(id) else { return };
        for dataset in datasets(&entry.webhook) {
            let Some(webhooks) = self.by_dataset.get_mut(&dataset) else { continue };
            webhooks.count -= 1;
            for interest in entry.filter.interests() {
                webhooks.awaited.remove(&interest);
                if let Some(of) = webhooks.by_interest.get_mut(&interest) {
                    of.retain(|other| !Arc::ptr_eq(other, &entry));
                    if of.is_empty() {
                        webhooks.by_interest.remove(&interest);
                    }
                }
            }
            if webhooks.count == 0 {
                self.by_dataset.remove(&dataset);
            }
        }
    }

    pub(super) fn is_unseen(&self, dataset: &Dataset) -> bool {
        !self.by_dataset.contains_key(dataset)
    }

    /// The enabled webhooks that an event of a dataset concerns, each once.
    pub(super) fn matching(&self, dataset: &Dataset, keys: &EventKeys) -> Vec<Arc<Webhook>> {
        let found = self.candidates(dataset, keys).into_iter().filter(|entry| entry.filter.matches_keys(keys));
        found.map(|entry| Arc::clone(&entry.webhook)).collect()
    }

    /// The webhooks whose filters are compared with an event, each once although it may wait for several of its
    /// properties.
    fn candidates(&self, dataset: &Dataset, keys: &EventKeys) -> Vec<&WebhookFilter> {
        let Some(webhooks) = self.by_dataset.get(dataset) else { return Vec::new() };
        let mut seen = HashSet::new();
        let interests = keys.interests(&webhooks.awaited);
        let near = interests.filter_map(|interest| webhooks.by_interest.get(&interest)).flatten();
        near.filter(|entry| seen.insert(Arc::as_ptr(entry))).map(Arc::as_ref).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thesis_proto::{
        filter::EventText,
        v1::{EventType, TokenRef, WebhookStatus},
    };

    use super::*;

    fn webhooks() -> impl Strategy<Value = Webhook> {
        let texts = |all: &'static [&'static str]| {
            prop::collection::vec(prop::sample::select(all).prop_map(str::to_owned), 0..3)
        };
        let events = prop::collection::vec(1..=6_i32, 1..3);
        let of = (any::<bool>(), prop::sample::select(vec!["a", "b"]), 0..4_u8, 1..=2_i32);
        let words = texts(&["moon", "sun -moon", "mo*", "\"to the\" OR sun", "\"to the moon\"", "\"the to\""]);
        let others = (texts(&["$RUN", "tk_2", "base:0xab"]), texts(&["ann", "@BOB"]), texts(&["base", "sol"]), words);
        (of, events, others).prop_map(|((live, project, id, status), events, (tokens, handles, chains, texts))| {
            Webhook {
                id: format!("wh_{id}"),
                project_id: project.to_owned(),
                live,
                events,
                tokens,
                handles,
                chains,
                texts,
                status,
                ..Webhook::default()
            }
        })
    }

    fn events() -> impl Strategy<Value = EventKeys> {
        let token = prop::sample::select(vec![("tk_1", "$RUN", "base", "0xAB"), ("tk_2", "$TWO", "sol", "So1")]);
        let handle = prop::option::of(prop::sample::select(vec!["@Ann", "@bob"]).prop_map(str::to_owned));
        let text = prop::option::of(prop::sample::select(vec!["", "To the MOON!", "sun", "moon and sun"]));
        (1..=6_i32, prop::option::of(token), handle, text).prop_map(|(kind, token, handle, text)| EventKeys {
            event_type: EventType::try_from(kind).unwrap(),
            token: token.map(|(id, symbol, chain, address)| TokenRef {
                id: id.to_owned(),
                symbol: symbol.to_owned(),
                chain: chain.to_owned(),
                address: address.to_owned(),
                ..TokenRef::default()
            }),
            handle,
            text: text.map(|text| EventText::new(text.to_owned())),
        })
    }

    proptest! {
        #[test]
        fn the_index_finds_the_same_webhooks_as_a_scan(
            changes in prop::collection::vec((webhooks(), prop::bool::weighted(0.2)), 0..12), keys in events(),
        ) {
            let (mut matching, mut plain) = (Matching::default(), HashMap::new());
            for (webhook, gone) in changes {
                if gone {
                    matching.remove(&webhook.id);
                    plain.remove(&webhook.id);
                } else {
                    let webhook = Arc::new(webhook);
                    matching.set(&webhook);
                    plain.insert(webhook.id.clone(), webhook);
                }
            }
            let of_alerts = Dataset::of_alerts("a", true);
            for dataset in [Dataset::Live, Dataset::Sandbox, Dataset::of_project("a"), of_alerts] {
                let mut found = matching.matching(&dataset, &keys);
                found.sort_by(|a, b| a.id.cmp(&b.id));
                let mut expected: Vec<Arc<Webhook>> = plain.values().filter(|webhook| {
                    let filter = CompiledFilter::new(&event_types(webhook), Some(&filters(webhook))).unwrap();
                    webhook.is_enabled() && datasets(webhook).contains(&dataset) && filter.matches_keys(&keys)
                }).cloned().collect();
                expected.sort_by(|a, b| a.id.cmp(&b.id));
                prop_assert_eq!(found, expected);
            }
            for id in 0..4 {
                matching.remove(&format!("wh_{id}"));
            }
            prop_assert!(matching.by_dataset.is_empty() && matching.known.is_empty());
        }
    }

    #[test]
    fn a_text_is_compared_only_with_filters_whose_words_it_has_side_by_side() {
        let mut matching = Matching::default();
        for (id, text) in [
            ("wh_word", "week"),
            ("wh_phrase", "\"through the week\""),
            ("wh_prefix", "wee*"),
            ("wh_excluded", "\"the week\" -holding"),
            ("wh_other_order", "\"week the\""),
            ("wh_other_words", "\"holding the week\""),
            ("wh_long", "\"through the week as before\""),
            ("wh_other_word", "weeks"),
            ("wh_other_prefix", "moon*"),
        ] {
            matching.set(&Arc::new(Webhook {
                id: id.to_owned(),
                project_id: "a".to_owned(),
                live: true,
                events: vec![EventType::ThesisCreated.into()],
                texts: vec![text.to_owned()],
                status: WebhookStatus::Enabled.into(),
                ..Webhook::default()
            }));
        }
        let text = Some(EventText::new("holding through the week, before as".to_owned()));
        let keys = EventKeys { event_type: EventType::ThesisCreated, text, ..EventKeys::default() };
        let mut compared: Vec<&str> =
            matching.candidates(&Dataset::Live, &keys).into_iter().map(|entry| entry.webhook.id.as_str()).collect();
        compared.sort_unstable();
        assert_eq!(compared, ["wh_excluded", "wh_phrase", "wh_prefix", "wh_word"]);
        assert_eq!(matching.matching(&Dataset::Live, &keys).len(), 3);
    }
}
