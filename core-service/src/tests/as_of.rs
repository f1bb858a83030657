//! Compares the figures of tokens as of random times with a recount of the logs' entries up to then. The history has
//! late posts, edits, deletions, and theses that authors and tokens of the sandbox share with a project.

mod beside_a_writer;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt as _, stream};
use thesis_net::clock::{Clock as _, IdSource as _, SystemClock};
use thesis_proto::{
    error::ErrorCode,
    time::{from_millis, to_millis},
    v1,
};

use crate::{
    access::gate::{Call, RequestMeta},
    domain::{
        dataset::{Dataset, View},
        entry::{Kind, SequencedEntry, ThesisCreated, ThesisEdited},
        id,
        observation::{Observation, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        operation::Operation,
        row::{NewThesis, Profile, Thesis},
        window::{DAY_MS, HOUR_MS, MINUTE_MS},
    },
    operations::{
        get_thesis_velocity::get_thesis_velocity, get_token::get_token, get_token_activity::get_token_activity,
    },
    sandbox::a_profile_and_token,
    service::Core,
    store::{
        SharedBackend,
        scylla::{ScyllaStore, tests::options},
    },
    tests::harness::{
        CountingIds, LIVE_KEY, ManualClock, NOON, TEST_KEY, core, ids, memory, new_thesis, shared_memory,
    },
};

/// Number of random times at which each view is compared.
const TIMES: usize = 5_000;
/// Number of random times on stores with many times slower reads. `tests/soak as-of` compares at all times there too.
const FEW_TIMES: usize = 500;
/// Number of steps of a history. They take about two days, without the quiet days.
const STEPS: u32 = 300;
const LIVE_TOKENS: u32 = 3;
const CONCURRENT: usize = 16;

/// The state that the steps of a history share.
struct History {
    random: Arc<CountingIds>,
    /// Creation times of the live theses, by number. All observations of a thesis have the same time.
    created_at: HashMap<u32, i64>,
}

impl History {
    fn below(&self, limit: i64) -> i64 {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes);
        i64::from_be_bytes(bytes).rem_euclid(limit)
    }
}

fn call(core: &Core, key: &str) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {key}").into()), ..RequestMeta::default() };
    let mut call = core.gate.admit(meta, Operation::GetToken).unwrap_or_else(|refused| panic!("{}", refused.error));
    (call.caller.plan.requests_per_month, call.caller.plan.history_days) = (1_000_000_000, 60);
    call
}

fn project() -> Dataset {
    Dataset::of_project(&id::derive("prj_", &["default"]))
}

fn live_token(number: u32) -> String {
    id::of_token("live", "base", &format!("0xa{number}"))
}

async fn observe(core: &Arc<Core>, dataset: &Dataset, version: u32, seen: ObservedThing) {
    let observation = Observation { observed_at: 0, revision: Some(version.into()), seen };
    core.datasets.observe_here(dataset, observation).await.unwrap();
}

/// Posts the live thesis of a number, or observes it with another text.
async fn observe_live(core: &Arc<Core>, number: u32, version: u32, created_at: i64) {
    let (author, token) = (number % 5, number % LIVE_TOKENS);
    let profile = ObservedProfile {
        upstream_id: format!("user {author}"),
        handle: format!("h{author}"),
        ..ObservedProfile::default()
    };
    let token = ObservedToken {
        chain: "base".to_owned(),
        address: format!("0xA{token}"),
        symbol: format!("tok{token}"),
        ..ObservedToken::default()
    };
    let thesis = ObservedThesis {
        upstream_id: format!("post {number}"),
        profile,
        token,
        text: format!("{number} in version {version}"),
        created_at,
        updated_at: created_at,
        ..ObservedThesis::default()
    };
    observe(core, &Dataset::Live, version, ObservedThing::Thesis(Box::new(thesis))).await;
}

/// Posts the project's thesis of a number on a token of the sandbox. Its author is from the sandbox, or the project's
/// own.
async fn post_test(core: &Arc<Core>, number: u32, now: i64) {
    let (dataset, (of_sandbox, token)) = (project(), a_profile_and_token());
    let is_of_sandbox = number.is_multiple_of(4);
    let own = new_thesis(&dataset, number);
    let profile: Profile = if is_of_sandbox { of_sandbox } else { own.profile };
    let thesis = Thesis {
        id: id::of_thesis(dataset.name(), &format!("post {number}")),
        profile_id: profile.id.clone(),
        token_id: token.id.clone(),
        chain: token.chain.clone(),
        sandbox_profile: is_of_sandbox,
        sandbox_token: true,
        created_at: now,
        updated_at: now,
        ..own.thesis
    };
    let new = NewThesis { thesis, profile, token, test: true, at: None, trace: Vec::new(), max_theses: None };
    core.datasets.create_here(&dataset, new).await.unwrap();
}

/// Runs a step of the history of a log. Theses with lower numbers come from earlier steps.
async fn step(core: &Arc<Core>, clock: &ManualClock, history: &mut History, dataset: &Dataset, number: u32) {
    let now = clock.now_ms();
    let earlier = u32::try_from(history.below(i64::from(number.max(1)))).unwrap();
    // Some posts are recorded late, up to three days.
    let age = if history.below(3) == 0 { history.below(3 * DAY_MS) } else { 0 };
    match (history.below(10), dataset) {
        (8.., _) if number > 9 => {
            observe(core, dataset, number, ObservedThing::Deletion(format!("post {earlier}"))).await;
        }
        (verb, Dataset::Live) => {
            let of = if verb >= 6 && number > 9 { earlier } else { number };
            let created_at = *history.created_at.entry(of).or_insert(now - age);
            observe_live(core, of, number, created_at).await;
        }
        _ => post_test(core, number, now).await,
    }
    clock.advance(history.below(3) * history.below(20 * MINUTE_MS));
}

/// Returns the theses that exist after the entries up to `at`.
fn theses_at(logs: &[SequencedEntry], at: i64) -> HashMap<&str, &Thesis> {
    let mut theses = HashMap::new();
    for entry in logs.iter().map(|sequenced| &sequenced.entry).filter(|entry| entry.created_at <= at) {
        match &entry.kind {
            Some(
                Kind::ThesisCreated(ThesisCreated { thesis, .. }) | Kind::ThesisEdited(ThesisEdited { thesis, .. }),
            ) => {
                theses.insert(thesis.id.as_str(), thesis);
            }
            Some(Kind::ThesisDeleted(deleted)) => {
                theses.remove(deleted.thesis.id.as_str());
            }
            _ => {}
        }
    }
    theses
}

/// The tokens of the theses that the steps of a log post.
fn tokens_of(dataset: &Dataset) -> Vec<String> {
    match dataset {
        Dataset::Live => (0..LIVE_TOKENS).map(live_token).collect(),
        _ => vec![a_profile_and_token().1.id],
    }
}

async fn logs(core: &Core, view: &View) -> Vec<SequencedEntry> {
    let mut all = Vec::new();
    for dataset in view.datasets() {
        let projected = core.datasets.refresh(dataset).await.unwrap();
        all.extend(core.shared.log.entries(dataset.name(), 0, projected).await.unwrap());
    }
    all
}

/// The responses to the three requests as of a time.
#[derive(Clone, Debug, PartialEq)]
struct Responses {
    /// Theses and authors of all times, theses of the last day, and the last activity.
    token: (i64, i64, i64, Option<i64>),
    activity: v1::TokenActivity,
    velocity: v1::ThesisVelocity,
}

async fn request_figures(core: &Arc<Core>, call: &Call, token: &str, at: i64) -> Responses {
    let (r#ref, as_of) = (token.to_owned(), Some(from_millis(at)));
    let request = v1::GetTokenRequest { r#ref: r#ref.clone(), chain: None, as_of };
    let found = get_token(core, call, request).await.unwrap().token.unwrap();
    let request = v1::GetTokenActivityRequest { r#ref: r#ref.clone(), chain: None, recent: Some(5), as_of };
    let activity = get_token_activity(core, call, request).await.unwrap().activity.unwrap();
    let request = v1::GetThesisVelocityRequest { r#ref, chain: None, as_of };
    let velocity = get_thesis_velocity(core, call, request).await.unwrap().velocity.unwrap();
    let last_activity = found.last_activity_at.as_ref().map(to_millis);
    let token = (found.thesis_count, found.unique_thesis_authors, found.recent_thesis_count, last_activity);
    Responses { token, activity, velocity }
}

fn authors<'a>(theses: impl Iterator<Item = &'a &'a Thesis>) -> i64 {
    theses.map(|thesis| thesis.profile_id.as_str()).collect::<HashSet<_>>().len() as i64
}

/// Compares the responses as of a time with a recount.
fn compare(logs: &[SequencedEntry], present: &HashMap<&str, &Thesis>, token: &str, at: i64, answers: &Responses) {
    let theses: Vec<&Thesis> = theses_at(logs, at).into_values().filter(|thesis| thesis.token_id == token).collect();
    let within = |from: i64, to: i64| {
        theses.iter().filter(move |thesis| thesis.created_at > at - from && thesis.created_at <= at - to)
    };
    let count = |from: i64, to: i64| within(from, to).count() as i64;
    let newest = theses.iter().map(|thesis| thesis.created_at).filter(|created_at| *created_at <= at).max();
    let all = (theses.len() as i64, authors(theses.iter()), count(DAY_MS, 0), newest);
    assert_eq!(answers.token, all, "{token} at {at}");

    let Responses { activity, velocity, .. } = answers;
    let expected = (count(HOUR_MS, 0), count(DAY_MS, 0), authors(within(DAY_MS, 0)), newest);
    let last_activity = activity.last_activity_at.as_ref().map(to_millis);
    let found = (activity.thesis_count_1h, activity.thesis_count_24h, activity.unique_authors_24h, last_activity);
    assert_eq!(found, expected, "{token} at {at}");
    assert_eq!((&activity.computed_at, &velocity.computed_at), (&Some(from_millis(at)), &Some(from_millis(at))));
    assert_eq!(activity.timeline.len(), 24);
    for (bucket, hours) in activity.timeline.iter().zip((1..=24).rev()) {
        let (from, to) = (hours * HOUR_MS, (hours - 1) * HOUR_MS);
        let expected = (from_millis(at - from), count(from, to), authors(within(from, to)));
        assert_eq!((bucket.bucket_start.unwrap(), bucket.theses, bucket.unique_authors), expected, "{token} at {at}");
    }
    let expected = [count(5 * MINUTE_MS, 0), count(HOUR_MS, 0), count(2 * HOUR_MS, HOUR_MS)];
    assert_eq!([velocity.last_5m, velocity.last_1h, velocity.previous_1h], expected, "{token} at {at}");

    let mut recent: Vec<&&Thesis> = theses.iter().filter(|thesis| thesis.created_at <= at).collect();
    recent.retain(|thesis| present.contains_key(thesis.id.as_str()));
    recent.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let expected: Vec<_> = recent.iter().take(5).map(|thesis| (&thesis.id, &thesis.text)).collect();
    let found: Vec<_> = activity.recent_theses.iter().map(|thesis| (&thesis.id, &thesis.text)).collect();
    assert_eq!(found, expected, "{token} at {at}");
}

/// Compares a view at random times. Repeats some of the requests after more of the history.
async fn compare_view(core: &Arc<Core>, clock: &ManualClock, dataset: &Dataset, key: &str, times: usize) {
    let mut history = History { random: ids(11), created_at: HashMap::new() };
    for number in 0..STEPS {
        if number == STEPS / 2 && *dataset == project() {
            delete_fixtures(core).await;
        }
        if number == STEPS / 3 {
            // Quiet days: the newest thesis becomes older than a day. Some later posts have times in these days.
            clock.advance(3 * DAY_MS);
        }
        step(core, clock, &mut history, dataset, number).await;
    }
    // The clock has jumped since the core last read it.
    core.shared.control.refresh().await.unwrap();
    let call = call(core, key);
    let logs = logs(core, &call.caller.view).await;
    let tokens = tokens_of(dataset);
    let times: Vec<(&String, i64)> = (0..times)
        .map(|number| {
            let span = call.now_ms - NOON + DAY_MS;
            let any = call.now_ms - history.below(span);
            // Half of the times are the time of an entry, or a millisecond before it.
            let entry = &logs[usize::try_from(history.below(logs.len() as i64)).unwrap()].entry;
            let at = if number.is_multiple_of(2) { any } else { entry.created_at - history.below(2) };
            (&tokens[number % tokens.len()], at.max(NOON - 30 * DAY_MS))
        })
        .collect();
    let requests = stream::iter(&times).map(|(token, at)| request_figures(core, &call, token, *at));
    let answers: Vec<Responses> = requests.buffered(CONCURRENT).collect().await;
    let present = theses_at(&logs, i64::MAX);
    for ((token, at), answers) in times.iter().zip(&answers) {
        compare(&logs, &present, token, *at, answers);
    }
    assert!(answers.iter().any(|answers| answers.velocity.previous_1h > 0 && answers.token.0 > answers.token.2));
    assert!(answers.iter().any(|answers| answers.token.2 == 0 && answers.token.3.is_some()));
    for number in STEPS..STEPS + STEPS / 5 {
        step(core, clock, &mut history, dataset, number).await;
    }
    for ((token, at), mut before) in times.iter().zip(answers).take(times.len() / 20) {
        let mut later = request_figures(core, &call, token, *at).await;
        // The recent theses leave out theses that were deleted since.
        later.activity.recent_theses.clear();
        before.activity.recent_theses.clear();
        assert_eq!(later, before, "{token} at {at}");
    }
    // These steps changed theses of hours that are in memory.
    core.shared.control.refresh().await.unwrap();
    let (call, logs) = (self::call(core, key), self::logs(core, &call.caller.view).await);
    let present = theses_at(&logs, i64::MAX);
    for at in (0..20).map(|hours| call.now_ms - hours * HOUR_MS) {
        for token in &tokens {
            compare(&logs, &present, token, at, &request_figures(core, &call, token, at).await);
        }
    }
}

/// Deletes the fixtures of the author who also wrote theses of the project.
async fn delete_fixtures(core: &Arc<Core>) {
    let (profile, token) = a_profile_and_token();
    let log = logs(core, &Dataset::Sandbox.counted_with()).await;
    let shared = |thesis: &&Thesis| thesis.profile_id == profile.id && thesis.token_id == token.id;
    let ids: Vec<String> =
        theses_at(&log, i64::MAX).into_values().filter(shared).map(|thesis| thesis.upstream_id.clone()).collect();
    assert!(!ids.is_empty());
    for id in ids {
        observe(core, &Dataset::Sandbox, 1, ObservedThing::Deletion(id)).await;
    }
}

async fn figures_equal_a_recount_on(backend: SharedBackend, clock: &Arc<ManualClock>, times: usize) {
    let core = core(backend, clock, 1).await;
    compare_view(&core, clock, &Dataset::Live, LIVE_KEY, times).await;
    compare_view(&core, clock, &project(), TEST_KEY, times).await;
}

#[tokio::test]
async fn figures_as_of_a_time_equal_a_recount_on_the_embedded_store() {
    let clock = ManualClock::new();
    figures_equal_a_recount_on(memory(&clock), &clock, TIMES).await;
}

#[tokio::test]
async fn figures_as_of_a_time_equal_a_recount_where_several_cores_write() {
    let clock = ManualClock::new();
    figures_equal_a_recount_on(shared_memory(&clock), &clock, FEW_TIMES).await;
}

/// Connects to a cluster with a keyspace of this run, if there is one.
async fn cluster(name: &str) -> Option<SharedBackend> {
    let options = options(&format!("{name}_{}_{}", SystemClock.now_ms(), std::process::id()))?;
    Some(Arc::new(ScyllaStore::connect(options, Arc::new(SystemClock)).await.unwrap()))
}

/// Compares on a cluster. Returns false if there is none.
async fn figures_equal_a_recount_on_a_cluster(times: usize) -> bool {
    let Some(store) = cluster("as_of").await else { return false };
    figures_equal_a_recount_on(store, &ManualClock::new(), times).await;
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_as_of_a_time_equal_a_recount_on_a_cluster() {
    figures_equal_a_recount_on_a_cluster(FEW_TIMES).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn figures_as_of_many_times_equal_a_recount_on_a_cluster() {
    assert!(figures_equal_a_recount_on_a_cluster(TIMES).await, "TEST_SCYLLA_NODES names a node");
}

#[tokio::test]
async fn a_time_that_is_not_in_the_history_is_refused() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    observe_live(&core, 0, 1, NOON).await;
    let mut call = call(&core, LIVE_KEY);
    call.caller.plan.history_days = 7;
    let wrong = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
    for (as_of, rule) in [
        (from_millis(NOON + 1), "must not be in the future"),
        (from_millis(NOON - 8 * DAY_MS), "must be in the plan's history, which reaches 7 days back"),
        (wrong, "must be a time of the years 1 to 9999"),
    ] {
        let request = v1::GetTokenRequest { r#ref: live_token(0), chain: None, as_of: Some(as_of) };
        let error = get_token(&core, &call, request).await.unwrap_err().api;
        assert_eq!(error.code, ErrorCode::ValidationFailed);
        let details = serde_json::to_string(&error.details).unwrap();
        assert!(details.contains("as_of") && details.contains(rule), "{details}");
    }
}
