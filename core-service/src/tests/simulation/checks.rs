//! The checks of a run's history against the rows that it left. The recount of all rows comes after them
//! (`faults::judge_rows`).

mod checkpoints;
mod requests;
mod streams;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(super) use self::checkpoints::ShownCheckpoint;
use self::{
    requests::{check_keys, check_revoked},
    streams::{End, LoggedEvent, Message},
    webhooks::StoredDelivery,
};
use super::{
    clients::text,
    cluster::CORES,
    history::{Fact, Outcome, Record, Request},
    linearizability::{self, Append, Listing},
    subscribers::Follower,
};
use crate::{
    convert,
    domain::{
        dataset::Dataset,
        delivery::{Attempt, Status},
        entry::{Kind, SequencedEntry},
        event_id::thesis_event_id,
        id,
    },
    log::tree::DATASETS,
    tests::{
        faults::{Acknowledged, deliveries, entries, logs},
        faulty::MemoryStore,
    },
};

/// Time within which a revocation acts: a core that has not read the control log for five seconds serves nothing.
const REVOKED_WITHIN_MS: i64 = 7_000;
/// The same while nothing is wrong.
const REVOKED_WITHIN_CALM_MS: i64 = 1_000;

/// The name of the dataset that the test key writes.
fn project_dataset() -> String {
    format!("project/{}", id::derive("prj_", &["default"]))
}

/// A request to create a thesis, with its response.
struct Creation {
    key: String,
    token: String,
    requested: usize,
    requested_ms: i64,
    responded: Option<usize>,
    event: Option<String>,
}

/// The requests and responses of a history.
#[derive(Default)]
struct Requests {
    creations: Vec<Creation>,
    listings: Vec<Listing>,
    revoked_ms: Option<i64>,
}

fn requests(records: &[Record]) -> Result<Requests, String> {
    let mut responses: HashMap<usize, (usize, &Outcome)> = HashMap::new();
    for (place, record) in records.iter().enumerate() {
        if let Fact::Responded(request, outcome) = &record.fact {
            responses.insert(*request, (place, outcome));
        }
    }
    let mut all = Requests::default();
    for (requested, record) in records.iter().enumerate() {
        let Fact::Requested(request) = &record.fact else { continue };
        let response = responses.get(&requested);
        if let Some((_, Outcome::Refused(status))) = response {
            return Err(format!("{request:?} of {} was refused: {status}", record.actor));
        }
        match (request, response) {
            (Request::Create { key, token }, response) => {
                let event = response.and_then(|(_, outcome)| match outcome {
                    Outcome::Created { event } => Some(event.clone()),
                    _ => None,
                });
                let (key, token, responded) = (key.clone(), token.clone(), response.map(|(place, _)| *place));
                let requested_ms = record.at_ms;
                all.creations.push(Creation { key, token, requested, requested_ms, responded, event });
            }
            (Request::List { token }, Some((responded, Outcome::Listed(ids)))) => {
                let (list, ids) = (token.clone(), ids.clone());
                all.listings.push(Listing { list, requested, responded: *responded, ids });
            }
            (Request::Revoke, Some((responded, _))) => all.revoked_ms = Some(records[*responded].at_ms),
            _ => {}
        }
    }
    Ok(all)
}

/// Checks everything that a history and the rows show.
pub(super) fn check(rows: &MemoryStore, records: &[Record], is_calm: bool) -> Result<(), String> {
    let requests = requests(records)?;
    let logs = logs(rows);
    let project = logs.get(&project_dataset()).map(|bodies| entries(bodies)).unwrap_or_default();
    let sandbox = logs.get("sandbox").map(|bodies| entries(bodies)).unwrap_or_default();
    check_appends(&requests, &project)?;
    let events = [events(&Dataset::parse(&project_dataset()).unwrap(), &project), events(&Dataset::Sandbox, &sandbox)];
    check_streams(&requests, records, &events, is_calm)?;
    check_webhooks(rows, records)?;
    check_shards(records)?;
    for dataset in DATASETS {
        let log = logs.get(dataset.name()).map(Vec::as_slice).unwrap_or_default();
        let shown = records.iter().filter_map(|record| match &record.fact {
            Fact::Signed(checkpoint) => Some(checkpoint),
            _ => None,
        });
        checkpoints::check(dataset.name(), log, shown)?;
    }
    check_stops(records)
}

/// The theses in a log: the key that created each, its id and its event.
fn created(log: &[SequencedEntry]) -> Vec<(&str, &str, &str)> {
    let created = log.iter().filter_map(|SequencedEntry { entry, .. }| match &entry.kind {
        Some(Kind::ThesisCreated(created)) => Some((&created.thesis.text, &created.thesis.id, &entry.id)),
        _ => None,
    });
    created.map(|(text, thesis, event)| (text.as_str(), thesis.as_str(), event.as_str())).collect()
}

/// Each key acted once, and the appends and lists have an order.
fn check_appends(requests: &Requests, log: &[SequencedEntry]) -> Result<(), String> {
    let by_text: HashMap<String, &Creation> =
        requests.creations.iter().map(|creation| (text(&creation.key), creation)).collect();
    let (mut logged, mut appends) = (Vec::new(), Vec::new());
    for (text, thesis, event) in created(log) {
        let creation = by_text.get(text).ok_or_else(|| format!("nobody requested {event}, `{text}`"))?;
        logged.push((creation.key.clone(), event.to_owned()));
        let (id, list) = (thesis.to_owned(), creation.token.clone());
        appends.push(Append { id, list, requested: creation.requested, responded: creation.responded });
    }
    let responses = requests.creations.iter();
    let responses: Vec<_> =
        responses.filter_map(|creation| Some((creation.key.clone(), creation.event.clone()?))).collect();
    check_keys(&responses, &logged)?;
    linearizability::check(&appends, &requests.listings)
}

/// The ids of the public events of a log, in their order.
fn events(dataset: &Dataset, log: &[SequencedEntry]) -> Vec<String> {
    log.iter().filter_map(|of| convert::entry::event(dataset, &of.entry)).map(|event| event.id).collect()
}

fn check_streams(requests: &Requests, records: &[Record], events: &[Vec<String>], is_calm: bool) -> Result<(), String> {
    let creations = || requests.creations.iter().filter_map(|creation| Some((creation.event.clone()?, creation)));
    let requested: BTreeMap<String, usize> = creations().map(|(event, creation)| (event, creation.requested)).collect();
    let requested_ms = creations().map(|(event, creation)| (event, creation.requested_ms)).collect();
    let logged = |ids: &Vec<String>| {
        ids.iter().map(|id| LoggedEvent { id: id.clone(), requested: requested.get(id).copied() }).collect()
    };
    let logs: Vec<Vec<LoggedEvent>> = events.iter().map(logged).collect();
    for follower in Follower::ALL {
        let name = follower.name();
        let mut messages = Vec::new();
        for (place, record) in records.iter().enumerate().filter(|(_, record)| record.actor == name) {
            messages.extend(match &record.fact {
                // A replay begins before everything that is requested.
                Fact::Opened if follower == Follower::Replaying => Some(Message::Opened(0)),
                Fact::Opened => Some(Message::Opened(place)),
                Fact::Event(id) => Some(Message::Event(id.clone())),
                Fact::Gap(skipped) => Some(Message::Gap(skipped.ok_or_else(|| format!("{name}: a long gap"))?)),
                _ => None,
            });
        }
        let end = if follower.is_revoked() { End::Early } else { End::Open };
        streams::check(&logs, &messages, end).map_err(|fault| format!("the {name} stream: {fault}"))?;
        if let (true, Some(revoked_ms)) = (follower.is_revoked(), requests.revoked_ms) {
            let received = messages.into_iter().filter_map(|message| match message {
                Message::Event(id) => Some(id),
                _ => None,
            });
            let limit_ms = if is_calm { REVOKED_WITHIN_CALM_MS } else { REVOKED_WITHIN_MS };
            check_revoked(&received.collect(), &requested_ms, revoked_ms, limit_ms)?;
        }
    }
    Ok(())
}

fn check_webhooks(rows: &MemoryStore, records: &[Record]) -> Result<(), String> {
    let stored = deliveries(rows).into_iter().map(|row| {
        let success = |attempt: &&Attempt| attempt.response_status.is_some_and(|status| (200..300).contains(&status));
        let delivered_by = row.attempts.iter().find(success).map(|attempt| attempt.number);
        let is_delivered = row.status() == Status::Delivered;
        StoredDelivery { id: row.id, event: row.event_id, delivered_by, is_delivered }
    });
    let received = records.iter().filter_map(|record| match &record.fact {
        Fact::Received(attempt) => Some(attempt.clone()),
        _ => None,
    });
    let received: Vec<_> = received.collect();
    if received.is_empty() {
        return Err("no endpoint has received an attempt".to_owned());
    }
    webhooks::check(&stored.collect::<Vec<_>>(), &received)
}

/// No two cores hand out the attempts of one shard of webhooks at the same time.
fn check_shards(records: &[Record]) -> Result<(), String> {
    for Record { fact, .. } in records {
        if let Fact::ServedTwice { shard, cores: [first, second] } = fact {
            return Err(format!("{first} and {second} serve shard {shard} at the same time"));
        }
    }
    Ok(())
}

/// Every core has stopped in order, without a task or memory that is left.
fn check_stops(records: &[Record]) -> Result<(), String> {
    let stopped: BTreeSet<&str> = records
        .iter()
        .filter(|record| matches!(record.fact, Fact::Stopped { tasks: 0, holders: 0 }))
        .map(|record| record.actor.as_str())
        .collect();
    if stopped.len() == CORES {
        return Ok(());
    }
    let stops = records.iter().filter(|record| matches!(record.fact, Fact::Stopped { .. }));
    Err(format!("not every core stopped with nothing left: {:?}", stops.collect::<Vec<_>>()))
}

/// The writes that a history acknowledges.
pub(super) fn acknowledged(records: &[Record], webhooks: &BTreeSet<String>) -> Acknowledged {
    let mut acknowledged = Acknowledged { webhooks: webhooks.clone(), ..Acknowledged::default() };
    for record in records {
        match &record.fact {
            Fact::Responded(_, Outcome::Created { event }) => {
                acknowledged.entries.insert((project_dataset(), event.clone()));
            }
            Fact::Responded(_, Outcome::Observed { theses, gone }) => {
                let entries = theses.iter().map(|id| ("live".to_owned(), thesis_event_id(id)));
                acknowledged.entries.extend(entries);
                acknowledged.gone.extend(gone.iter().cloned());
            }
            _ => {}
        }
    }
    acknowledged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(actor: &str, fact: Fact) -> Record {
        Record { at_ms: 0, actor: actor.to_owned(), fact }
    }

    #[test]
    fn every_core_stops_with_nothing_left() {
        let stop = |name: &str, tasks, holders| record(name, Fact::Stopped { tasks, holders });
        let mut stops = vec![stop("core-0", 0, 0), stop("core-1", 0, 0)];
        check_stops(&stops).unwrap_err();
        stops.push(stop("core-2", 0, 1));
        check_stops(&stops).unwrap_err();
        stops[2] = stop("core-2", 1, 0);
        check_stops(&stops).unwrap_err();
        stops[2] = stop("core-2", 0, 0);
        assert_eq!(check_stops(&stops), Ok(()));
    }

    #[test]
    fn a_shard_that_two_cores_serve_is_found() {
        let cores = ["core-0".to_owned(), "core-1".to_owned()];
        let twice = record("core-2", Fact::ServedTwice { shard: 3, cores });
        check_shards(&[record("core-0", Fact::Started), twice]).unwrap_err();
        assert_eq!(check_shards(&[record("core-0", Fact::Started)]), Ok(()));
    }

    #[test]
    fn a_request_that_is_refused_is_found() {
        let key = "k1".to_owned();
        let requested = record("writer", Fact::Requested(Request::Create { key, token: "T".to_owned() }));
        let responded = |outcome| [requested.clone(), record("writer", Fact::Responded(0, outcome))];
        assert!(requests(&responded(Outcome::Refused("no".to_owned()))).is_err());
        let found = requests(&responded(Outcome::Created { event: "e1".to_owned() })).unwrap();
        assert_eq!((found.creations[0].event.as_deref(), found.creations[0].responded), (Some("e1"), Some(1)));
    }
}
