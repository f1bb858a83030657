mod batches;
mod beside;
mod ids;
mod imports;
mod joined;
mod likes;
mod names;
mod order;
mod overlap;
mod prolific;
mod record;
mod requests;
mod young;

use std::{collections::HashSet, sync::Arc};

use futures::future::join_all;
use prost::Message as _;
use thesis_proto::filter::CompiledFilter;

use super::*;
use crate::{
    domain::{
        derivation::DERIVE_EVERY_MS,
        entry::{DatasetTotals, Entry, Kind, SequencedEntry, ThesisCreated, TokenActivity, Totals},
        event_id::thesis_event_id,
        observation::{ObservedProfile, ObservedThesis, ObservedToken},
        row::{NewThesis, Profile, Thesis, Token},
    },
    log::{fan_out::FAN_OUT, forward::read_forward},
    service::Core,
    store::{Change, Consistency, schema},
    tables::{
        log::{AppendOutcome, LogStore, checkpoint_change, decode, room},
        theses::creation_changes,
    },
    tests::harness::{ManualClock, SharedMemory, core, memory, new_thesis, observed_thesis, shared_memory},
};

async fn entries(core: &Core, dataset: &Dataset) -> Vec<SequencedEntry> {
    let name = dataset.to_string();
    // The core's own store would return entries from memory.
    let log = LogStore::new(Arc::clone(&core.shared.backend));
    let head = log.head(&name, 0, Consistency::Serial).await.unwrap();
    let rows = log.read(&name, 0, head, usize::MAX).await.unwrap();
    assert_eq!(rows.len() as u64, head, "the log has a gap");
    rows.into_iter().map(|(seq, body)| SequencedEntry { seq, entry: decode(seq, body).unwrap() }).collect()
}

fn entry(core: &Core, id: String, kind: Kind) -> Entry {
    Entry { id, created_at: clock_now(core), test: true, kind: Some(kind), ..Entry::default() }
}

/// The first thesis of all.
fn created(new: &NewThesis) -> Kind {
    let in_dataset = DatasetTotals { theses: 1, profiles: 1, tokens: 1 };
    Kind::ThesisCreated(ThesisCreated {
        thesis: Thesis { sequence: Some(1), ..new.thesis.clone() },
        profile: new.profile.clone(),
        token: new.token.clone(),
        introduces_profile: true,
        introduces_token: true,
        totals: Totals { theses: 1, authors: 1, of_author: 1, in_dataset: Some(in_dataset), by_author: 1 },
    })
}

fn theses_of(entries: &[SequencedEntry]) -> Vec<String> {
    let created = entries.iter().filter_map(|sequenced| match &sequenced.entry.kind {
        Some(Kind::ThesisCreated(created)) => Some(created.thesis.id.clone()),
        _ => None,
    });
    created.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_cores_appending_the_same_at_once_write_each_once_and_leave_no_gap() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    let dataset = Dataset::of_project("race");
    let writes = (0..200).flat_map(|number| cores.iter().map(move |core| (core, number))).map(|(core, number)| {
        let dataset = &dataset;
        async move { core.datasets.create_thesis(dataset, new_thesis(dataset, number)).await.unwrap() }
    });
    let written = join_all(writes).await;

    let log = entries(&cores[0], &dataset).await;
    let theses = theses_of(&log);
    assert_eq!(theses.len(), 200);
    assert_eq!(theses.iter().collect::<HashSet<_>>().len(), 200, "a thesis stands twice in the log");
    for sequenced in written {
        assert_eq!(log[sequenced.seq as usize - 1].entry.id, sequenced.entry.id, "answered with another place");
    }
    assert!(log.windows(2).all(|pair| pair[0].entry.created_at <= pair[1].entry.created_at));
    let introduced = |pick: fn(&ThesisCreated) -> bool| {
        let created = log.iter().filter_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) => Some(created),
            _ => None,
        });
        created.filter(|created| pick(created)).count()
    };
    assert_eq!(introduced(|created| created.introduces_profile), 3);
    assert_eq!(introduced(|created| created.introduces_token), 2);
}

#[tokio::test]
async fn what_is_acknowledged_can_be_read_at_once() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("own");
    for number in 0..20 {
        let new = new_thesis(&dataset, number);
        let written = core.datasets.create_thesis(&dataset, new.clone()).await.unwrap();
        let view = crate::domain::dataset::View::test("own");
        let (home, thesis) = core.shared.theses.thesis(&view, &new.thesis.id).await.unwrap().unwrap();
        let (sequence, recorded_at) = (Some(written.seq), written.entry.created_at);
        let expected = Thesis { sequence, recorded_at, ..new.thesis };
        assert_eq!((home, Thesis::clone(&thesis)), (dataset.clone(), expected));
        assert!(core.datasets.refresh(&dataset).await.unwrap() >= written.seq);
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_was_appended_but_not_projected_is_projected_by_the_next_writer() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let first = core(Arc::clone(&backend), &clock, 1).await;
    let dataset = Dataset::of_project("orphan");
    let new = new_thesis(&dataset, 1);
    let entry = entry(&first, thesis_event_id(&new.thesis.id), created(&new));
    // The state after a core that died right after its append.
    let name = dataset.to_string();
    first.shared.log.append(&name, 0, [9; 16], &[entry.encode_to_vec().into()]).await.unwrap();

    let second = core(backend, &clock, 2).await;
    let again = second.datasets.create_thesis(&dataset, new.clone()).await.unwrap();
    assert_eq!(again.seq, 1, "found where it stands, not written again");
    let view = crate::domain::dataset::View::test("orphan");
    assert!(second.shared.theses.thesis(&view, &new.thesis.id).await.unwrap().is_some());
    assert_eq!(theses_of(&entries(&second, &dataset).await).len(), 1);
}

#[tokio::test]
async fn what_another_core_has_projected_is_not_projected_again_and_its_counts_are_known() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let cores = [core(backend.clone(), &clock, 1).await, core(backend.clone(), &clock, 2).await];
    let dataset = Dataset::of_project("both");
    let before = backend.applied(&schema::THESIS);
    // Each finds the other was faster. 0, 6 and 12 share author and token; 3 is the same author's on another token.
    for (turn, number) in [0, 6, 3, 1, 12].into_iter().enumerate() {
        cores[turn % 2].datasets.create_thesis(&dataset, new_thesis(&dataset, number)).await.unwrap();
    }
    assert_eq!(backend.applied(&schema::THESIS) - before, 5);
    let log = entries(&cores[0], &dataset).await;
    let totals: Vec<[i64; 3]> = log
        .iter()
        .filter_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) => Some(&created.totals),
            _ => None,
        })
        .map(|totals| [totals.theses, totals.authors, totals.of_author])
        .collect();
    assert_eq!(totals, [[1, 1, 1], [2, 1, 2], [1, 1, 1], [2, 2, 1], [3, 1, 3]]);
    let in_dataset: Vec<[i64; 3]> = log
        .iter()
        .filter_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) => created.totals.in_dataset,
            _ => None,
        })
        .map(|totals| [totals.theses, totals.profiles, totals.tokens])
        .collect();
    assert_eq!(in_dataset, [[1, 1, 1], [2, 1, 1], [3, 1, 2], [4, 2, 2], [5, 2, 2]]);
}

fn clock_now(core: &Core) -> i64 {
    core.shared.clock.now_ms()
}

async fn until_derived(core: &Core, dataset: &Dataset, pairs: usize) -> Vec<SequencedEntry> {
    let mut position = core.datasets.position(dataset).await.unwrap();
    loop {
        let log = entries(core, dataset).await;
        let is_derived = |sequenced: &&SequencedEntry| matches!(sequenced.entry.kind, Some(Kind::TokenActivity(_)));
        if log.iter().filter(is_derived).count() >= pairs {
            return log;
        }
        position.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_reads_a_log_passes_over_the_filler_at_the_end_of_a_bucket() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(backend.clone(), &clock, 1).await, core(backend, &clock, 2).await];
    let dataset = Dataset::of_project("filled");
    let (log, name, now_ms) = (&cores[0].shared.log, dataset.to_string(), clock_now(&cores[0]));
    // With the thesis the bucket has room for one entry, and a thesis's pair of derived events is not split.
    let bucket = room(0) as u64;
    let mut head = 0;
    while head < bucket - 2 {
        let end = bucket - 2;
        let places = head + 1..=end.min(head + 500);
        let bodies: Vec<_> = places.map(|seq| Entry::filler(seq, now_ms).encode_to_vec().into()).collect();
        let batch = [u8::try_from(head / 500).unwrap() + 1; 16];
        assert_eq!(log.append(&name, head, batch, &bodies).await.unwrap(), AppendOutcome::Done);
        head += bodies.len() as u64;
    }
    let post = async |core: &Arc<Core>, number: u32| {
        let mut new = new_thesis(&dataset, number * 6);
        new.thesis.created_at = clock_now(core);
        core.datasets.create_here(&dataset, new).await.unwrap().seq
    };
    assert_eq!(post(&cores[0], 1).await, bucket - 1);
    let all = until_derived(&cores[0], &dataset, 1).await;
    let end: Vec<bool> = all[all.len() - 4..].iter().map(|sequenced| sequenced.entry.kind.is_some()).collect();
    assert_eq!((all.len() as u64, &end[..]), (bucket + 2, &[true, false, true, true][..]));
    // Streams, search, webhooks and the writer of another core all come to the end.
    let head = bucket + 2;
    let filter = CompiledFilter::default();
    let read = read_forward(&cores[0].shared, &dataset, &filter, bucket - 2, head).await.unwrap();
    assert_eq!((read.events.len(), read.position), (3, head));
    assert_eq!(post(&cores[1], 2).await, head + 1);
    for core in &cores {
        core.search.request_dataset(&dataset);
        core.datasets.refresh(&dataset).await.unwrap();
        core.search.wait_for_position(&dataset, head + 1).await;
    }
    while log.checkpoint(&name, FAN_OUT).await.unwrap() < head {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn derived_events_follow_at_most_once_in_five_seconds_and_the_last_is_never_lost() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("derived");
    let post = async |number: u32| {
        let mut new = new_thesis(&dataset, number * 6);
        new.thesis.created_at = clock_now(&core);
        core.datasets.create_thesis(&dataset, new).await.unwrap();
    };
    post(1).await;
    let log = until_derived(&core, &dataset, 1).await;
    assert_eq!(log.len(), 3);
    post(2).await;
    post(3).await;
    assert_eq!(entries(&core, &dataset).await.len(), 5, "nothing is derived again within five seconds");
    clock.advance(DERIVE_EVERY_MS);
    let log = until_derived(&core, &dataset, 2).await;
    let Some(Kind::TokenActivity(activity)) = &log[5].entry.kind else { panic!("no activity: {log:?}") };
    assert_eq!((activity.thesis_count_1h, activity.thesis_count_24h, activity.unique_authors_24h), (3, 3, 1));
    let Some(Kind::ThesisVelocity(velocity)) = &log[6].entry.kind else { panic!("no velocity: {log:?}") };
    assert_eq!((velocity.last_5m, velocity.last_1h, velocity.previous_1h, velocity.change_pct()), (3, 3, 0, None));
}

#[tokio::test(start_paused = true)]
async fn a_writer_on_a_cluster_counts_a_busy_token_in_memory_until_another_core_writes() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let cores = [core(backend.clone(), &clock, 1).await, core(backend.clone(), &clock, 2).await];
    // A live key sees no other dataset.
    let dataset = Dataset::Live;
    let mut pairs = 0;
    // Gives the reads of the token's theses, and what was counted.
    let mut post = async |core: usize, number: u32| {
        let mut new = new_thesis(&dataset, number * 6);
        new.thesis.created_at = clock_now(&cores[core]);
        let reads = || backend.scans(&schema::THESIS_INDEX);
        let before = reads();
        cores[core].datasets.create_here(&dataset, new).await.unwrap();
        clock.advance(2 * DERIVE_EVERY_MS);
        pairs += 1;
        let log = until_derived(&cores[core], &dataset, pairs).await;
        let counted = log.iter().rev().find_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::TokenActivity(activity)) => Some(activity.thesis_count_24h),
            _ => None,
        });
        (reads() - before, counted.unwrap())
    };
    for number in 1..4 {
        assert_eq!(post(0, number).await.1, i64::from(number));
    }
    assert_eq!(post(0, 4).await, (0, 4), "nothing is read");
    assert_eq!(post(1, 5).await.1, 5);
    let (reads, counted) = post(0, 6).await;
    assert!(reads > 0 && counted == 6, "{reads} reads, {counted} counted");
}

#[tokio::test]
async fn what_comes_while_a_writer_ends_is_still_taken() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("ending");
    let fanned_out = watch::Sender::new(0);
    let (shared, peers) = (Arc::clone(&core.shared), Arc::clone(&core.peers));
    let mut writer = Writer::new(shared, peers, dataset.clone(), watch::Sender::new(0), fanned_out.subscribe());
    let (jobs, mut waiting) = mpsc::channel(8);
    let (response, _received) = tokio::sync::oneshot::channel();
    let job = Job { command: Command::Create(Box::new(new_thesis(&dataset, 1))), response };
    jobs.send(job).await.ok().unwrap();
    let mut taken = Vec::new();
    assert!(!writer.ends(&mut waiting, &mut taken).await);
    assert!(taken.len() == 1 && jobs.is_closed());
    // While fan-out is behind, it does not end.
    (writer.head, taken) = (1, Vec::new());
    assert!(!writer.ends(&mut waiting, &mut taken).await);
    fanned_out.send_replace(1);
    assert!(!writer.ends(&mut waiting, &mut taken).await, "the fan-out has not stored its position");
    core.shared.backend.apply(vec![checkpoint_change(&dataset.to_string(), FAN_OUT, 1)]).await.unwrap();
    assert!(writer.ends(&mut waiting, &mut taken).await);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_derived_waits_alone() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("damaged");
    // Two tokens take turns.
    let mut first = new_thesis(&dataset, 2);
    first.thesis.created_at = clock_now(&core);
    let damaged = first.token.id.clone();
    core.datasets.create_thesis(&dataset, first.clone()).await.unwrap();
    until_derived(&core, &dataset, 1).await;
    let mut rows = Vec::new();
    creation_changes(&dataset.to_string(), &first.thesis, 1_000, |_, _| false, &mut rows);
    rows.retain(|row| row.table.name == schema::THESIS_INDEX.name);
    let unreadable = |row: Change| Change { body: Some(bytes::Bytes::from_static(b"\xff")), ..row };
    core.shared.backend.apply(rows.into_iter().map(unreadable).collect()).await.unwrap();
    // The next writer does not have the day of the token in memory.
    tokio::time::sleep(2 * REST).await;
    for number in [4, 1, 6, 3] {
        core.datasets.create_thesis(&dataset, new_thesis(&dataset, number)).await.unwrap();
        clock.advance(2 * DERIVE_EVERY_MS);
    }
    let log = until_derived(&core, &dataset, 3).await;
    let derived = log.iter().filter_map(|sequenced| match &sequenced.entry.kind {
        Some(Kind::TokenActivity(activity)) => Some(activity.token.id != damaged),
        _ => None,
    });
    assert_eq!(derived.collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(theses_of(&log).len(), 5);
}

#[tokio::test]
async fn what_another_core_derived_meanwhile_counts() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("meanwhile");
    let new = new_thesis(&dataset, 1);
    let thesis = |seq| SequencedEntry { seq, entry: entry(&core, format!("thesis {seq}"), created(&new)) };
    let activity = TokenActivity { token: new.token.clone(), ..TokenActivity::default() };
    let derived = SequencedEntry { seq: 2, entry: entry(&core, "derived".to_owned(), Kind::TokenActivity(activity)) };
    let mut pending = PendingDerivations::new(Arc::clone(&core.shared), dataset.to_string());
    pending.apply_entries(&[thesis(1)], 0);
    assert_eq!(pending.time_until_due(), Some(Duration::ZERO));
    // While the events were pending here, the other core derived them. It wrote one more thesis, and derives its events
    // first.
    pending.apply_entries(&[derived, thesis(3)], FOLLOWER_DERIVE_DELAY_MS);
    assert_eq!(
        pending.time_until_due(),
        Some(Duration::from_millis((DERIVE_EVERY_MS + FOLLOWER_DERIVE_DELAY_MS).unsigned_abs()))
    );
}
