//! The same observations in any order, any of them repeated, lead to the same rows.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::*;
use crate::{
    domain::{
        id,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        row::{Age, Wallet},
    },
    log::projection::Projector,
    tables::{
        index_scope::IndexScope,
        theses::{IndexSlice, ThesisStore},
    },
};

const THESES: u8 = 5;
const AUTHORS: u8 = 2;
const TOKENS: u8 = 2;
const FORMS: i64 = 3;

#[derive(Clone, Copy, Debug)]
enum What {
    Thesis(u8),
    Engagement(u8),
    Deletion(u8),
    Profile(u8),
    Token(u8),
}

type Step = (What, i64, Option<i64>);

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        5 => (0..THESES).prop_map(What::Thesis),
        3 => (0..THESES).prop_map(What::Engagement),
        1 => (0..THESES).prop_map(What::Deletion),
        2 => (0..AUTHORS).prop_map(What::Profile),
        2 => (0..TOKENS).prop_map(What::Token),
    ];
    (what, 1..12_i64, prop::option::weighted(0.3, 1..12_i64))
}

/// One of few handles or symbols, so that they repeat.
fn form(age: &Age) -> i64 {
    age.revision.unwrap_or(age.observed_at) % FORMS
}

/// An author as seen at an age; the fields depend only on the age.
fn author(number: u8, age: Age) -> ObservedProfile {
    ObservedProfile {
        upstream_id: format!("u{number}"),
        handle: format!("h{}", form(&age)),
        bio: Some(age.name()),
        created_at: (age.observed_at % 2 == 0).then_some(7),
        source_updated_at: (age.observed_at % 3 == 0).then_some(age.observed_at),
        wallets: Some(vec![Wallet { address: age.name(), ..Wallet::default() }]),
        ..ObservedProfile::default()
    }
}

/// Case comes and goes too, and changes nothing about where a token is found.
fn token(number: u8, age: Age) -> ObservedToken {
    let [first, hexadecimal] = if age.revision.unwrap_or(age.observed_at) % 2 == 0 { ["s", "a"] } else { ["S", "A"] };
    ObservedToken {
        chain: "base".to_owned(),
        address: format!("0x{hexadecimal}{number}"),
        symbol: format!("{first}{number}_{}", form(&age)),
        name: Some(age.name()),
        source_updated_at: (age.observed_at % 3 == 0).then_some(age.observed_at),
        ..ObservedToken::default()
    }
}

fn created_at(number: u8) -> i64 {
    1_000 + i64::from(number)
}

fn observation((what, observed_at, revision): Step) -> Observation {
    // Two authors are never seen at once: which of them holds a handle would be decided by their ids.
    let observed_at = match what {
        What::Thesis(number) | What::Engagement(number) | What::Deletion(number) | What::Profile(number) => {
            observed_at * i64::from(AUTHORS) + i64::from(number % AUTHORS)
        }
        What::Token(_) => observed_at,
    };
    let version = revision.unwrap_or(observed_at);
    let (own, beside) = (Age::own(revision, observed_at), Age::beside(observed_at));
    let figures = Some(version * 3 % 5);
    let upstream_id = |number: u8| format!("post {number}");
    let seen = match what {
        What::Thesis(number) => ObservedThing::Thesis(Box::new(ObservedThesis {
            upstream_id: upstream_id(number),
            profile: author(number % AUTHORS, beside),
            token: token(number / 2 % TOKENS, beside),
            text: format!("text {}", version % 4),
            likes: figures,
            replies: None,
            created_at: created_at(number),
            updated_at: created_at(number) + version,
        })),
        What::Engagement(number) => ObservedThing::Engagement(ObservedEngagement {
            upstream_id: upstream_id(number),
            likes: figures,
            replies: None,
        }),
        What::Deletion(number) => ObservedThing::Deletion(upstream_id(number)),
        What::Profile(number) => ObservedThing::Profile(Box::new(author(number, own))),
        What::Token(number) => ObservedThing::Token(Box::new(token(number, own))),
    };
    Observation { observed_at, revision, seen }
}

/// What readers can see of a dataset, without its own ids and times.
type Visible = BTreeMap<String, String>;

async fn visible(store: &ThesisStore, dataset: &Dataset) -> Visible {
    let name = dataset.to_string();
    let view = crate::domain::dataset::View::test(name.strip_prefix("project/").unwrap());
    let mut seen = Visible::new();
    let everything = IndexSlice { from: 0, to: 10_000, after: None, descending: false };
    let listed = async |scope: IndexScope| {
        let rows = store.direct_reader().slices(dataset, &[scope], &everything, 100).await.unwrap();
        rows.into_iter().map(|row| row.created_at).collect::<Vec<_>>()
    };
    let rows = store.slice(dataset, &IndexScope::All, &everything, 100).await.unwrap();
    for row in &rows {
        let (_, thesis) = store.thesis(&view, &row.id).await.unwrap().unwrap();
        assert!(thesis.deleted_at.is_none());
        let shown = (&thesis.text, thesis.likes, thesis.created_at, thesis.updated_at);
        seen.insert(thesis.upstream_id.clone(), format!("{shown:?}"));
    }
    let totals = store.dataset_totals(&name).await.unwrap();
    assert_eq!(totals.theses, rows.len() as i64, "the total of the dataset is off");
    seen.insert("chain".to_owned(), format!("{:?}", listed(IndexScope::Chain("base".to_owned())).await));
    for by in 0..AUTHORS {
        let id = id::of_profile(&name, &format!("u{by}"));
        if let Some((_, profile)) = store.profile(&view, &id).await.unwrap() {
            let row = Profile {
                id: String::new(),
                first_seen_at: 0,
                updated_at: 0,
                age: None,
                wallets_age: None,
                ..Profile::clone(&profile)
            };
            seen.insert(format!("profile {by}"), format!("{row:?}"));
        }
        for form in 0..FORMS {
            let held = store.direct_reader().profile_id_by_handle(&view, &format!("h{form}")).await.unwrap();
            seen.insert(format!("handle {form} of {by}"), (held.as_ref() == Some(&id)).to_string());
        }
        seen.insert(format!("by {by}"), format!("{:?}", listed(IndexScope::Profile(id.clone())).await));
        for on in 0..TOKENS {
            let token = id::of_token(&name, "base", &format!("0xa{on}"));
            let of = store.author_counts(&name, &[(&token, &id)]).await.unwrap();
            let here = listed(IndexScope::ProfileToken(id.clone(), token.clone())).await;
            let gone = listed(IndexScope::Deleted(id.clone(), token)).await;
            assert_eq!(of, [here.len() as i64], "a count of theses by an author on a token is off");
            seen.insert(format!("by {by} on {on}"), format!("{here:?}, deleted {gone:?}"));
        }
    }
    for on in 0..TOKENS {
        let id = id::of_token(&name, "base", &format!("0xa{on}"));
        if let Some((_, token)) = store.token(&view, &id).await.unwrap() {
            let row = Token { id: String::new(), first_seen_at: 0, updated_at: 0, age: None, ..Token::clone(&token) };
            seen.insert(format!("token {on}"), format!("{row:?}"));
        }
        for form in 0..FORMS {
            let symbol = format!("$S{on}_{form}");
            let held = store.direct_reader().token_ids_by_symbol(&view, &symbol, None, 9).await.unwrap();
            seen.insert(format!("symbol {on} {form}"), (held.first() == Some(&id)).to_string());
        }
        let here = store.slice(dataset, &IndexScope::Token(id.clone()), &everything, 100).await.unwrap();
        let authors: BTreeSet<&str> = here.iter().map(|row| row.indexed.profile_id.as_str()).collect();
        let totals = store.totals(&name, &[&id]).await.unwrap().remove(0);
        assert_eq!((totals.theses, totals.authors), (here.len() as i64, authors.len() as i64), "a total is off");
    }
    seen
}

#[test]
fn any_order_and_any_repetition_lead_to_the_same_rows() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = ManualClock::new();
    let core = runtime.block_on(core(memory(&clock), &clock, 1));
    let cases = std::cell::Cell::new(0);
    let both = prop::collection::vec(step(), 1..30).prop_flat_map(|steps| {
        let again = [steps.clone(), steps[..steps.len() / 2].to_vec()].concat();
        (Just(steps), Just(again).prop_shuffle())
    });
    let test = async |steps: Vec<Step>, again: Vec<Step>| {
        cases.set(cases.get() + 1);
        let [one, other] = ["one", "other"].map(|order| Dataset::of_project(&format!("{order}{}", cases.get())));
        for step in steps {
            core.datasets.observe_here(&one, observation(step)).await.unwrap();
        }
        // Observations in the other order are appended in groups.
        for group in again.chunks(4) {
            let written = group.iter().map(|step| core.datasets.observe_here(&other, observation(*step)));
            for written in tokio::task::unconstrained(join_all(written)).await {
                assert_eq!(written.unwrap().refused, None);
            }
        }
        let expected = visible(&core.shared.theses, &one).await;
        assert_eq!(visible(&core.shared.theses, &other).await, expected);
        for dataset in [one, other] {
            let log = entries(&core, &dataset).await;
            let ids: HashSet<&str> = log.iter().map(|sequenced| sequenced.entry.id.as_str()).collect();
            assert_eq!(ids.len(), log.len(), "something stands in the log twice");
            // The log is the whole truth: on an empty store it makes the same rows.
            let empty = memory(&clock);
            let store = ThesisStore::new(Arc::clone(&empty));
            let name = dataset.to_string();
            let event_ids = core.shared.event_positions.ids.clone();
            let projector = Projector::new(empty, store.clone(), name.clone(), event_ids);
            projector.append_and_project(0, &log).await;
            assert_eq!(visible(&store, &dataset).await, expected);
            let totals = core.shared.theses.dataset_totals(&name).await.unwrap();
            assert_eq!(store.dataset_totals(&name).await.unwrap(), totals);
        }
    };
    TestRunner::new(Config { cases: 24, ..Config::default() })
        .run(&both, |(steps, again)| {
            runtime.block_on(test(steps, again));
            Ok(())
        })
        .unwrap();
}
