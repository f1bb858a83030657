//! Random writes to all datasets at once, and the results that the service gives.

use futures::future::join_all;
use serde_json::{Value, json};
use thesis_proto::{
    time::from_millis,
    v1::{self, observation::Observed},
};

use super::{
    customer::Customer,
    log::{SEEN, adopt},
    names::{TEST_HANDLES, TEST_SYMBOLS, author, author_as, past, saying, token, token_as},
    observe::Became,
    random::Random,
    world::{
        PROJECTS, Rows, Thesis, World, bare_profile, bare_token, claim, is_called, profile_ref, symbol, token_ref,
    },
};
use crate::harness::{
    Service,
    ingest::{deletion, seen_at, thesis},
    now_ms, text, time,
};
use crate::ingest::refused::named;

/// Writes to the datasets, and remembers the observations.
pub(super) struct Writer {
    pub(super) random: Random,
    /// The time of the last observation, before all times of the service's own.
    pub(super) seen_at: i64,
    /// The observations of each dataset.
    pub(super) past: Vec<Vec<v1::Observation>>,
}

impl Writer {
    /// Writes up to `sizes` observations to each dataset; gives the stretch of time that it took.
    pub(super) async fn write(
        &mut self,
        service: &Service,
        world: &mut World,
        customers: &[Customer],
        sizes: usize,
    ) -> [i64; 2] {
        let before = now_ms();
        let batches: Vec<Vec<v1::Observation>> = (0..world.datasets.len())
            .map(|dataset| {
                let count = 1 + self.random.below(sizes);
                let mut new = world.datasets[dataset].theses.len();
                (0..count).map(|_| self.observation(world, dataset, &mut new)).collect()
            })
            .collect();
        let taken = world.datasets.iter().zip(&batches);
        let taken = taken.map(|(rows, batch)| service.try_ingest(&rows.name, batch.clone()));
        let results = join_all(taken).await;
        for (dataset, (batch, results)) in batches.into_iter().zip(results).enumerate() {
            let rows = &mut world.datasets[dataset];
            let mut refused = Vec::new();
            for (index, seen) in batch.iter().enumerate() {
                let result = results.as_ref().ok().map(|results| &results[index]);
                let became = rows.observe(dataset, seen, result.and_then(|result| result.event_id.as_deref()));
                refused.extend(became.refused.map(|field| format!("observations[{index}].{field}")));
                if let Some(v1::IngestResult { id, applied, event_id }) = result.cloned() {
                    let told = Became { id, applied, event: event_id.is_some(), refused: None };
                    assert_eq!(told, became, "of {seen:?} in {}", rows.name);
                }
            }
            // The other observations of a call are applied.
            assert_eq!(results.as_ref().map_or_else(named, |_| Vec::new()), refused, "in {}", rows.name);
            self.past[dataset].extend(batch);
        }
        for (customer, dataset) in customers.iter().zip(PROJECTS..world.datasets.len()) {
            for _ in 0..self.random.below(sizes.div_ceil(4)) {
                self.test_thesis(world, customer, dataset).await;
            }
        }
        let after = now_ms();
        fill_in(world, customers, [before, after]).await;
        world.quiet_since = now_ms();
        [before, after]
    }

    fn observation(&mut self, world: &World, dataset: usize, new: &mut usize) -> v1::Observation {
        self.seen_at += 1;
        let random = &mut self.random;
        if !self.past[dataset].is_empty() && random.chance(4) {
            return random.one_of(&self.past[dataset]).clone();
        }
        // Sometimes an observation is older than all known ones.
        let at = if random.chance(12) { self.seen_at - 1_000_000_000 } else { self.seen_at };
        let known: Vec<&Thesis> =
            world.datasets[dataset].theses.iter().filter(|thesis| !thesis.upstream_id.is_empty()).collect();
        // Some of the unknown theses come soon.
        let one = |random: &mut Random, new: usize| match known.as_slice() {
            known if !known.is_empty() && random.chance(80) => random.pick(known).upstream_id.clone(),
            _ => format!("post_{}", new + random.below(8)),
        };
        let chosen = random.below(100);
        let observed = match chosen {
            0..=49 => {
                *new += 1;
                let (by, on) = (author(random, world, dataset), token(random, world, dataset));
                let created_at = past(random, world, now_ms());
                Observed::Thesis(self.thesis(&format!("post_{new}"), &by, &on, created_at))
            }
            50..=61 if !known.is_empty() => {
                let edited = random.pick(&known).clone();
                Observed::Thesis(self.edit(world, dataset, &edited))
            }
            62..=77 => {
                let upstream_id = one(random, *new);
                let likes = random.maybe(85, |random| random.between(0, 9));
                let replies = random.maybe(50, |random| random.between(0, 9));
                Observed::Engagement(v1::EngagementObservation { upstream_id, likes, replies })
            }
            78..=86 => deletion(&one(random, *new)),
            87..=94 => Observed::Profile(author(random, world, dataset)),
            _ => Observed::Token(token(random, world, dataset)),
        };
        let revision = self.random.maybe(8, |random| at + random.between(-40, 40));
        v1::Observation { revision, ..seen_at(at, observed) }
    }

    fn thesis(
        &mut self,
        upstream_id: &str,
        by: &v1::ProfileObservation,
        on: &v1::TokenObservation,
        created_at: i64,
    ) -> v1::ThesisObservation {
        let random = &mut self.random;
        let mut seen = thesis(upstream_id, by, on, &saying(random), created_at);
        seen.likes = random.maybe(70, |random| random.between(0, 9));
        seen.updated_at = random.maybe(30, |random| from_millis(created_at + random.between(0, 1_000_000)));
        seen
    }

    /// An edit, sometimes one that contradicts known data.
    fn edit(&mut self, world: &World, dataset: usize, known: &Thesis) -> v1::ThesisObservation {
        let rows = &world.datasets[dataset];
        let random = &mut self.random;
        let by = &rows.profile(&known.profile).expect("its author").upstream_id;
        let on = &rows.token(&known.token).expect("its token").row;
        let other = |random: &mut Random| random.chance(8);
        let by = if other(random) { author(random, world, dataset) } else { author_as(random, world, dataset, by) };
        let on = if other(random) {
            token(random, world, dataset)
        } else {
            token_as(random, world, dataset, text(on, "chain"), text(on, "address"))
        };
        let created_at = known.created_at + i64::from(other(random));
        self.thesis(&known.upstream_id, &by, &on, created_at)
    }

    /// A project's own thesis, by an author and on a token that it sees or that are new.
    async fn test_thesis(&mut self, world: &mut World, customer: &Customer, dataset: usize) {
        let view = customer.view(world);
        let random = &mut self.random;
        let held = view.rows().flat_map(|rows| &rows.profiles).map(|profile| claim(text(&profile.row, "handle")));
        // A test thesis cannot have other handles.
        let held: Vec<String> = held.filter(|handle| handle.is_ascii()).collect();
        let held: Vec<&str> = held.iter().map(String::as_str).collect();
        let handle = if random.chance(70) { random.pick(&held) } else { random.pick(&TEST_HANDLES) };
        let here: Vec<&Value> = view.rows().flat_map(|rows| &rows.tokens).map(|token| &token.row).collect();
        let here: Vec<&Value> = here.into_iter().filter(|row| row["chain"] == "sandbox").collect();
        let on = if random.chance(70) { text(random.pick(&here), "symbol") } else { random.pick(&TEST_SYMBOLS) };
        let (on, said) = (symbol(on), saying(random));
        let body = json!({"handle": handle, "token": on, "text": said});
        let made = customer.caller.rest.post("/v1/test/theses", &body).await.ok(201);
        let (row, event) = (&made["thesis"], &made["event"]);

        let known = view.by_handle(handle).and_then(|id| view.profile(id)).map(|profile| profile.row.clone());
        let new_profile = known.is_none().then(|| bare_profile(dataset, text(&row["profile"], "id"), handle));
        let profile = known.or_else(|| new_profile.clone()).expect("an author");
        let known = here.into_iter().find(|row| is_called(row, &on)).cloned();
        let (id, at) = (text(&row["token"], "id"), text(&row["token"], "address"));
        let new_token = known.is_none().then(|| bare_token(dataset, id, &on, "sandbox", at));
        let token = known.or_else(|| new_token.clone()).expect("a token");
        let thesis = Thesis {
            dataset,
            upstream_id: String::new(),
            id: text(row, "id").to_owned(),
            profile: text(&profile, "id").to_owned(),
            token: text(&token, "id").to_owned(),
            text: said,
            likes: None,
            replies: None,
            created_at: time(row, "created_at"),
            updated_at: time(row, "created_at"),
            version: 0,
            engagement: 0,
            deleted: false,
        };
        let expected = json!({
            "object": "event", "id": event["id"], "type": "thesis.created", "created_at": event["created_at"],
            "livemode": false, "source": "sandbox", "test": true, "data": {
                "thesis_id": thesis.id, "profile": profile_ref(&profile), "token": token_ref(&token),
                "text": thesis.text, "created_at": row["created_at"], "public_url": null,
            },
        });
        assert_eq!(*event, expected, "{} posted {body}", customer.name);
        world.datasets[dataset].add_thesis(thesis.clone(), new_profile, new_token, expected);
        assert_eq!(*row, customer.view(world).thesis_row(&thesis), "{} posted {body}", customer.name);
    }
}

/// A customer who sees a dataset; for the sandbox, one with no data of their own.
fn reader(customers: &[Customer], dataset: usize) -> &Customer {
    let sees = |customer: &&Customer| customer.sight.datasets.last() == Some(&dataset);
    customers.iter().find(sees).expect("a key for each dataset")
}

/// Reads the times of new or changed rows that only the service knows.
async fn fill_in(world: &mut World, customers: &[Customer], within: [i64; 2]) {
    let mut filling = Vec::new();
    for (dataset, Rows { profiles, tokens, .. }) in world.datasets.iter_mut().enumerate() {
        let client = &reader(customers, dataset).caller.rest;
        let profiles = profiles.iter_mut().map(|profile| ("profiles", &mut profile.row));
        let rows = profiles.chain(tokens.iter_mut().map(|token| ("tokens", &mut token.row)));
        let unknown = rows.filter(|(_, row)| row["updated_at"].is_null() || row["first_seen_at"].is_null());
        filling.extend(unknown.map(|(kind, row)| async move {
            let found = client.get(&format!("/v1/{kind}/{}", text(row, "id"))).await.ok(200);
            adopt(row, &found, &SEEN, within);
        }));
    }
    join_all(filling).await;
}
