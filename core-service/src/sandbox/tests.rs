use thesis_proto::{
    time::from_millis,
    v1::{self, VerificationReason as Reason},
};

use super::*;
use crate::{
    access::gate::{Call, RequestMeta},
    domain::operation::Operation,
    log::writer::Import,
    operations::{get_token::get_token, verify_thesis::verify_thesis},
    service::Core,
    start::CoreSettings,
    store::Consistency,
    tables::log::ImportMark,
    tests::harness::{ManualClock, NOON, TEST_KEY, core, ids, settings, shared_memory},
};

const EVERY_MS: i64 = 45_000;
/// Old ticks: with the fixtures, more than one page.
const OLD: i64 = 60;

fn call(core: &Core) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {TEST_KEY}").into()), ..RequestMeta::default() };
    core.gate.admit(meta, Operation::GetToken).unwrap_or_else(|refused| panic!("{}", refused.error))
}

async fn listed(core: &Core) -> Vec<String> {
    let everything = IndexSlice { from: 0, to: i64::MAX / 2, after: None, descending: false };
    let rows = core.shared.theses.slice(&Dataset::Sandbox, &IndexScope::All, &everything, 1_000).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

async fn counts(core: &Core) -> (i64, i64) {
    let (mut theses, mut recent) = (0, 0);
    for fixture in &TOKENS {
        let request = v1::GetTokenRequest { r#ref: fixture.address.to_owned(), ..v1::GetTokenRequest::default() };
        let token = get_token(core, &call(core), request).await.unwrap().token.unwrap();
        theses += token.thesis_count;
        recent += token.recent_thesis_count;
    }
    (theses, recent)
}

async fn reason(core: &Core, number: i64) -> Reason {
    let fixture = fixtures::tick(number.unsigned_abs());
    let at = Some(from_millis(number * EVERY_MS));
    let claim = v1::VerifyThesisRequest {
        handle: Some(PROFILES[fixture.profile].handle.to_owned()),
        token: Some(TOKENS[fixture.token].address.to_owned()),
        created_after: at,
        created_before: at,
        ..v1::VerifyThesisRequest::default()
    };
    let mut call = call(core);
    // The theses verified here are older than any usual window.
    call.caller.plan.history_days = 90;
    verify_thesis(core, &call, claim).await.unwrap().verification.unwrap().reason()
}

#[tokio::test]
async fn what_was_ticked_more_than_thirty_days_ago_is_deleted_and_fixtures_stay() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    let first = NOON / EVERY_MS;
    for number in first - OLD + 1..=first {
        post(&cores[0].shared, &cores[0].datasets, number, EVERY_MS).await.unwrap();
    }
    clock.advance(20 * DAY_MS);
    let young = (NOON + 20 * DAY_MS) / EVERY_MS;
    post(&cores[0].shared, &cores[0].datasets, young, EVERY_MS).await.unwrap();
    let before = listed(&cores[0]).await;
    assert_eq!(before.len(), 150 + 60 + 1);

    // To the millisecond: the last old tick is not old enough yet.
    clock.advance(first * EVERY_MS + KEPT_MS - NOON - 20 * DAY_MS);
    let mut passed = [None, None];
    for _ in 0..3 {
        expire(&cores[0].shared, &cores[0].datasets, &mut passed[0]).await.unwrap();
    }
    assert_eq!(listed(&cores[0]).await.len(), 150 + 1 + 1);
    clock.advance(1);
    // Another core starts from the beginning and deletes the rest; later calls have nothing to do.
    for core in [1, 1, 1, 0, 0] {
        expire(&cores[core].shared, &cores[core].datasets, &mut passed[core]).await.unwrap();
    }
    let after = listed(&cores[0]).await;
    let gone: Vec<&String> = before.iter().filter(|id| !after.contains(id)).collect();
    let ticked: Vec<String> =
        (first - OLD + 1..=first).map(|number| thesis_id(TICKED, number.unsigned_abs())).collect();
    assert_eq!(gone, ticked.iter().collect::<Vec<_>>());
    let name = Dataset::Sandbox.to_string();
    let head = cores[0].shared.log.head(&name, 0, Consistency::Serial).await.unwrap();
    for (core, passed) in cores.iter().zip(&mut passed) {
        expire(&core.shared, &core.datasets, passed).await.unwrap();
        expire(&core.shared, &core.datasets, &mut None).await.unwrap();
        assert_eq!(counts(core).await, (151, 0));
        assert_eq!(reason(core, first - 3).await, Reason::ThesisDeleted);
        assert_eq!(reason(core, young).await, Reason::Verified);
    }
    assert_eq!(cores[0].shared.log.head(&name, head, Consistency::Serial).await.unwrap(), head, "deleted twice");
    // A core that is late with its tick does not bring it back.
    post(&cores[1].shared, &cores[1].datasets, first, EVERY_MS).await.unwrap();
    assert_eq!(listed(&cores[0]).await.len(), 151);
}

#[tokio::test]
async fn a_start_leaves_a_sandbox_alone_that_is_being_imported() {
    let clock = ManualClock::new();
    let name = Dataset::Sandbox.to_string();
    let source = core(shared_memory(&clock), &clock, 1).await;
    let head = source.shared.log.head(&name, 0, Consistency::Serial).await.unwrap();
    let entries: Vec<_> = source.shared.log.read(&name, 0, head, usize::MAX).await.unwrap();
    let entries: Vec<_> = entries.into_iter().map(|(seq, body)| decode(seq, body).unwrap()).collect();
    let mark = ImportMark { entries: head, sha256: [1; 32] };
    let import = |upto: usize| Import { mark, after: 0, entries: entries[..upto].to_vec() };

    let backend = shared_memory(&clock);
    let settings = || CoreSettings { sandbox_fixtures: false, ..settings() };
    let target = Core::start(Arc::clone(&backend), settings(), clock.clone(), ids(2)).await.unwrap();
    assert_eq!(target.datasets.import_here(&Dataset::Sandbox, import(20)).await.unwrap(), None);
    clock.advance(DAY_MS);
    let started = core(Arc::clone(&backend), &clock, 3).await;
    post(&started.shared, &started.datasets, (NOON + DAY_MS) / EVERY_MS, EVERY_MS).await.unwrap();
    assert_eq!(started.shared.log.head(&name, 0, Consistency::Serial).await.unwrap(), 20);
    assert_eq!(started.datasets.import_here(&Dataset::Sandbox, import(entries.len())).await.unwrap(), None);
    // The fixtures keep the times that they had at their source.
    let after = core(backend, &clock, 4).await;
    assert_eq!(after.shared.control.state().seed(), source.shared.control.state().seed());
    assert_eq!(listed(&after).await, listed(&source).await);
    assert_eq!(after.shared.log.head(&name, 0, Consistency::Serial).await.unwrap(), head);
}
