//! Applies random observations in several datasets, and compares every response with a naive recount in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use proptest::prelude::*;
use thesis_proto::{
    error::ErrorCode,
    time::from_millis,
    v1::{self, ThesisSort},
};

use crate::{
    access::gate::{Call, RequestMeta},
    domain::{
        dataset::Dataset,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        operation::Operation,
        window::{DAY_MS, HOUR_MS, MINUTE_MS},
    },
    operations::{
        get_profile::get_profile, get_thesis_velocity::get_thesis_velocity, get_token::get_token,
        get_token_activity::get_token_activity, list_theses::list_theses, verify_thesis::verify_thesis,
    },
    service::Core,
    tests::harness::{LIVE_KEY, ManualClock, NOON, core, memory},
};

const CHAINS: [&str; 2] = ["ethereum", "solana"];

/// One step of a history.
#[derive(Clone, Debug)]
enum HistoryStep {
    Thesis { dataset: usize, number: u8, author: u8, token: u8, age_minutes: u16, text: u8, version: u8 },
    Engagement { dataset: usize, number: u8, likes: Option<u8>, version: u8 },
    Deletion { dataset: usize, number: u8 },
    Rename { dataset: usize, author: u8, handle: u8, version: u8 },
}

fn step() -> impl Strategy<Value = HistoryStep> {
    let dataset = 0..3_usize;
    prop_oneof![
        8 => (dataset.clone(), 0..40_u8, 0..4_u8, 0..6_u8, prop::bool::weighted(0.1)).prop_map(
            |(dataset, number, text, version, other)| {
                // A thesis keeps its author, token and time; an observation that differs is refused.
                let author = (number + u8::from(other)) % 5;
                let (token, age_minutes) = (number / 5 % 4, u16::from(number) * 547 % 2_000);
                HistoryStep::Thesis { dataset, number, author, token, age_minutes, text, version }
            }
        ),
        2 => (dataset.clone(), 0..40_u8, prop::option::of(0..5_u8), 0..6_u8)
            .prop_map(|(dataset, number, likes, version)| HistoryStep::Engagement { dataset, number, likes, version }),
        2 => (dataset.clone(), 0..40_u8).prop_map(|(dataset, number)| HistoryStep::Deletion { dataset, number }),
        1 => (dataset, 0..5_u8, 0..7_u8, 0..6_u8)
            .prop_map(|(dataset, author, handle, version)| HistoryStep::Rename { dataset, author, handle, version }),
    ]
}

/// A thesis of the recount.
#[derive(Clone, Debug)]
struct ModelThesis {
    author: u8,
    token: u8,
    created_at: i64,
    text: String,
    likes: Option<i64>,
    version: i64,
    engagement: i64,
    deleted: bool,
}

/// The author of a thesis with only an observed engagement or deletion.
const AWAITED: u8 = u8::MAX;

fn awaited() -> ModelThesis {
    ModelThesis {
        author: AWAITED,
        token: AWAITED,
        created_at: 0,
        text: String::new(),
        likes: None,
        version: 0,
        engagement: i64::MIN,
        deleted: false,
    }
}

type Model = BTreeMap<(usize, u8), ModelThesis>;

fn datasets() -> [Dataset; 3] {
    let project = crate::domain::id::derive("prj_", &["default"]);
    [Dataset::Sandbox, Dataset::of_project(&project), Dataset::Live]
}

fn author(author: u8, handle: u8) -> ObservedProfile {
    ObservedProfile {
        upstream_id: format!("user {author}"),
        handle: format!("h{handle}"),
        ..ObservedProfile::default()
    }
}

fn token(token: u8) -> ObservedToken {
    ObservedToken {
        chain: CHAINS[usize::from(token % 2)].to_owned(),
        address: format!("0xA{token}"),
        symbol: format!("tok{}", token / 2),
        ..ObservedToken::default()
    }
}

fn text(number: u8) -> String {
    ["Straße hoch", "buy the dip", "ΑΣ rising", "🚀 to the moon"][usize::from(number)].to_owned()
}

/// The observation of a step, with the number of its dataset.
fn observed(step: HistoryStep) -> (usize, Observation) {
    let (dataset, version, seen) = match step {
        HistoryStep::Thesis { dataset, number, author: by, token: on, age_minutes, text: said, version } => {
            let created_at = NOON - i64::from(age_minutes) * MINUTE_MS;
            let thesis = ObservedThesis {
                upstream_id: format!("post {number}"),
                profile: author(by, by),
                token: token(on),
                text: text(said),
                likes: None,
                replies: None,
                created_at,
                updated_at: created_at,
            };
            (dataset, version, ObservedThing::Thesis(Box::new(thesis)))
        }
        HistoryStep::Engagement { dataset, number, likes, version } => {
            let seen = ObservedEngagement {
                upstream_id: format!("post {number}"),
                likes: likes.map(i64::from),
                replies: None,
            };
            (dataset, version, ObservedThing::Engagement(seen))
        }
        HistoryStep::Deletion { dataset, number } => (dataset, 9, ObservedThing::Deletion(format!("post {number}"))),
        HistoryStep::Rename { dataset, author: by, handle, version } => {
            (dataset, version, ObservedThing::Profile(Box::new(author(by, handle))))
        }
    };
    (dataset, Observation { observed_at: 0, revision: Some(version.into()), seen })
}

async fn apply_step(core: &Arc<Core>, model: &mut Model, step: HistoryStep) {
    let (dataset, observation) = observed(step.clone());
    let written = core.datasets.observe_here(&datasets()[dataset], observation).await.unwrap();
    match step {
        HistoryStep::Thesis { dataset, number, author, token, age_minutes, text: said, version } => {
            let version = i64::from(version);
            let kept = model.entry((dataset, number)).or_insert_with(awaited);
            // The thesis wins over an engagement of the same version, in either order.
            let first = kept.author == AWAITED;
            if first {
                let created_at = NOON - i64::from(age_minutes) * MINUTE_MS;
                (kept.author, kept.token, kept.created_at) = (author, token, created_at);
                (kept.text, kept.version) = (text(said), version);
            }
            if kept.author != author {
                assert_eq!(written.refused, Some("thesis.profile.upstream_user_id"));
                return;
            }
            if !kept.deleted && version > kept.version {
                kept.text = text(said);
                kept.version = version;
            }
            if !kept.deleted && (version > kept.engagement || first && version == kept.engagement) {
                kept.likes = None;
                kept.engagement = version;
            }
        }
        HistoryStep::Engagement { dataset, number, likes, version } => {
            let kept = model.entry((dataset, number)).or_insert_with(awaited);
            if !kept.deleted && i64::from(version) > kept.engagement {
                kept.likes = likes.map(i64::from);
                kept.engagement = version.into();
            }
        }
        HistoryStep::Deletion { dataset, number } => {
            model.entry((dataset, number)).or_insert_with(awaited).deleted = true;
        }
        HistoryStep::Rename { .. } => {}
    }
}

fn call(core: &Arc<Core>) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {LIVE_KEY}").into()), ..RequestMeta::default() };
    match core.gate.admit(meta, Operation::ListTheses) {
        Ok(call) => call,
        Err(refused) => panic!("{}", refused.error),
    }
}

/// The theses of the model that a live key sees.
fn visible_theses(model: &Model) -> Vec<(usize, u8, ModelThesis)> {
    let rows = model.iter().filter(|((dataset, _), kept)| *dataset == 2 && !kept.deleted && kept.author != AWAITED);
    rows.map(|((dataset, number), kept)| (*dataset, *number, kept.clone())).collect()
}

async fn pages(core: &Arc<Core>, call: &Call, query: &v1::ListThesesRequest) -> Vec<v1::Thesis> {
    let (mut query, mut all) = (query.clone(), Vec::new());
    loop {
        let page = match list_theses(core, call, query.clone()).await {
            // A list by likes fails while the search index is not ready in time.
            Err(error) if error.api.code == ErrorCode::ServiceUnavailable => continue,
            page => page.unwrap(),
        };
        all.extend(page.data);
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return all,
        }
    }
}

async fn compare_lists(core: &Arc<Core>, model: &Model) {
    let call = call(core);
    let visible = visible_theses(model);
    for by in [None, Some(0), Some(3)] {
        for on in [None, Some(0), Some(3)] {
            for chain in [None, Some(CHAINS[0])] {
                for ascending in [false, true] {
                    let sort = if ascending { ThesisSort::CreatedAtAsc } else { ThesisSort::CreatedAtDesc };
                    let query = v1::ListThesesRequest {
                        profile: by.map(|by: u8| format!("user {by}")),
                        token: on.map(|on: u8| format!("0xa{on}")),
                        chain: chain.map(str::to_owned),
                        sort: sort.into(),
                        limit: Some(7),
                        ..v1::ListThesesRequest::default()
                    };
                    let listed = pages(core, &call, &query).await;
                    let times: Vec<i64> = listed
                        .iter()
                        .map(|row| thesis_proto::time::to_millis(row.created_at.as_ref().unwrap()))
                        .collect();
                    assert!(times.is_sorted_by(|a, b| if ascending { a <= b } else { a >= b }));
                    let ids: HashSet<&str> = listed.iter().map(|row| row.id.as_str()).collect();
                    assert_eq!(ids.len(), listed.len(), "a row came twice");
                    let expected: BTreeSet<(String, Option<i64>)> = visible
                        .iter()
                        .filter(|(_, _, kept)| {
                            by.is_none_or(|by| by == kept.author) && on.is_none_or(|on| on == kept.token)
                        })
                        .filter(|(_, _, kept)| chain.is_none_or(|chain| chain == CHAINS[usize::from(kept.token % 2)]))
                        .map(|(dataset, number, kept)| {
                            let name = datasets()[*dataset].to_string();
                            (crate::domain::id::of_thesis(&name, &format!("post {number}")), kept.likes)
                        })
                        .collect();
                    let found: BTreeSet<(String, Option<i64>)> =
                        listed.iter().map(|row| (row.id.clone(), row.likes)).collect();
                    assert_eq!(found, expected, "{query:?}");
                }
            }
        }
    }
}

/// The order is by likes with null last, then newest first, then by id.
async fn compare_likes(core: &Arc<Core>, model: &Model) {
    let call = call(core);
    let mut expected: Vec<(Option<i64>, i64, String)> = visible_theses(model)
        .into_iter()
        .map(|(dataset, number, kept)| {
            let name = datasets()[dataset].to_string();
            (kept.likes, kept.created_at, crate::domain::id::of_thesis(&name, &format!("post {number}")))
        })
        .collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let sort = ThesisSort::LikesDesc.into();
    let query = v1::ListThesesRequest { sort, limit: Some(7), ..v1::ListThesesRequest::default() };
    let listed: Vec<_> = pages(core, &call, &query)
        .await
        .into_iter()
        .map(|row| (row.likes, thesis_proto::time::to_millis(row.created_at.as_ref().unwrap()), row.id))
        .collect();
    assert_eq!(listed, expected);
}

async fn compare_counts(core: &Arc<Core>, model: &Model) {
    let call = call(core);
    for on in 0..4 {
        let theses: Vec<ModelThesis> =
            visible_theses(model).into_iter().map(|(_, _, kept)| kept).filter(|kept| kept.token == on).collect();
        let reference = format!("{}:0xa{on}", CHAINS[usize::from(on % 2)]);
        let known = model.iter().any(|((dataset, _), kept)| *dataset == 2 && kept.token == on);
        let request = v1::GetTokenRequest { r#ref: reference.clone(), ..v1::GetTokenRequest::default() };
        let token = get_token(core, &call, request).await;
        assert_eq!(token.is_ok(), known, "{reference}");
        let Ok(token) = token else { continue };
        let token = token.token.unwrap();
        let within = |from: i64, to: i64| {
            theses
                .iter()
                .filter(move |kept| kept.created_at > call.now_ms - from && kept.created_at <= call.now_ms - to)
        };
        let authors = |rows: &mut dyn Iterator<Item = &ModelThesis>| {
            rows.map(|kept| kept.author).collect::<HashSet<_>>().len() as i64
        };
        assert_eq!(token.thesis_count, theses.len() as i64);
        assert_eq!(token.unique_thesis_authors, authors(&mut theses.iter()));
        assert_eq!(token.recent_thesis_count, within(DAY_MS, 0).count() as i64);
        let newest = theses.iter().map(|kept| kept.created_at).max();
        assert_eq!(token.last_activity_at.as_ref().map(thesis_proto::time::to_millis), newest);

        let request = v1::GetTokenActivityRequest { r#ref: reference.clone(), recent: Some(5), ..Default::default() };
        let activity = get_token_activity(core, &call, request).await.unwrap().activity.unwrap();
        assert_eq!(activity.thesis_count_1h, within(HOUR_MS, 0).count() as i64);
        assert_eq!(activity.thesis_count_24h, within(DAY_MS, 0).count() as i64);
        assert_eq!(activity.unique_authors_24h, authors(&mut within(DAY_MS, 0)));
        assert_eq!(activity.timeline.len(), 24);
        for (bucket, hours) in activity.timeline.iter().zip((1..=24).rev()) {
            let inside = || within(hours * HOUR_MS, (hours - 1) * HOUR_MS);
            assert_eq!((bucket.theses, bucket.unique_authors), (inside().count() as i64, authors(&mut inside())));
        }
        let request = v1::GetThesisVelocityRequest { r#ref: reference, ..v1::GetThesisVelocityRequest::default() };
        let velocity = get_thesis_velocity(core, &call, request).await.unwrap().velocity.unwrap();
        assert_eq!(velocity.last_5m, within(5 * MINUTE_MS, 0).count() as i64);
        assert_eq!(velocity.previous_1h, within(2 * HOUR_MS, HOUR_MS).count() as i64);
    }
}

async fn compare_verification(core: &Arc<Core>, model: &Model) {
    use v1::VerificationReason as Reason;

    let call = call(core);
    let all: Vec<&ModelThesis> = model.iter().filter(|((dataset, _), _)| *dataset == 2).map(|(_, kept)| kept).collect();
    for (by, on, contains) in
        [(0, 0, None), (1, 2, Some("STRASSE")), (2, 1, Some("ας")), (3, 3, None), (4, 0, Some("dip"))]
    {
        let (from, to) = (NOON - DAY_MS, NOON - HOUR_MS);
        let author = format!("user {by}");
        let claim = v1::VerifyThesisRequest {
            profile_id: Some(author.clone()),
            token: Some(format!("0xA{on}")),
            created_after: Some(from_millis(from)),
            created_before: Some(from_millis(to)),
            contains: contains.map(str::to_owned),
            ..v1::VerifyThesisRequest::default()
        };
        let answer = verify_thesis(core, &call, claim.clone()).await.unwrap().verification.unwrap();
        let mine: Vec<&&ModelThesis> = all.iter().filter(|kept| kept.author == by && kept.token == on).collect();
        let inside: Vec<&&&ModelThesis> = mine.iter().filter(|kept| (from..=to).contains(&kept.created_at)).collect();
        let holds = |kept: &ModelThesis| match contains {
            Some("STRASSE") => kept.text.contains("Straße"),
            Some("ας") => kept.text.contains("ΑΣ"),
            Some(part) => kept.text.contains(part),
            None => true,
        };
        let profile = v1::GetProfileRequest { r#ref: Some(author), ..v1::GetProfileRequest::default() };
        let expected = if get_profile(core, &call, profile).await.is_err() {
            Reason::ProfileNotFound
        } else if !all.iter().any(|kept| kept.token == on) {
            Reason::TokenNotFound
        } else if inside.iter().any(|kept| !kept.deleted && holds(kept)) {
            Reason::Verified
        } else if inside.iter().any(|kept| !kept.deleted) {
            Reason::TextNotFound
        } else if !inside.is_empty() {
            Reason::ThesisDeleted
        } else {
            Reason::NoThesisInWindow
        };
        assert_eq!(answer.reason(), expected, "{claim:?} in {mine:?}");
        assert_eq!(answer.verified, expected == Reason::Verified);
        if answer.checks.unwrap().token {
            assert_eq!(answer.checks.unwrap().thesis_exists, !mine.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn every_answer_equals_a_naive_recount(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = ManualClock::new();
            let core = core(memory(&clock), &clock, 1).await;
            let mut model = Model::new();
            for step in steps {
                apply_step(&core, &mut model, step).await;
            }
            compare_lists(&core, &model).await;
            compare_likes(&core, &model).await;
            compare_counts(&core, &model).await;
            compare_verification(&core, &model).await;
        });
    }
}
