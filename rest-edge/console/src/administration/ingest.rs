//! The status of the ingest of live data.

use std::collections::{BTreeMap, HashMap};

use askama::Template;
use http::StatusCode;
use thesis_proto::v1;

use super::{ACTIVE, INGEST};
use crate::{
    Page,
    view::{Layout, Moment, moment, render},
    visit::Administrator,
};

#[derive(Template)]
#[template(path = "administration_ingest.html")]
struct IngestPage {
    layout: Layout,
    tab: &'static str,
    state: &'static str,
    last_frame: Moment,
    /// Name and value.
    facts: Vec<(&'static str, String)>,
    /// Heading, and counts by name.
    counts: [(&'static str, BTreeMap<String, u64>); 3],
}

const fn state(of: v1::IngestState) -> &'static str {
    match of {
        v1::IngestState::Up => "Connected: something came in the last 30 seconds.",
        v1::IngestState::Down => "Down: the upstream is not connected, or sends nothing.",
        v1::IngestState::Off => "Off: no upstream is configured.",
        v1::IngestState::Unspecified => "Unknown.",
    }
}

const fn breaker(of: v1::Breaker) -> &'static str {
    match of {
        v1::Breaker::Closed => "Closed: look-ups are made",
        v1::Breaker::Open => "Open: no look-up is made after failures",
        v1::Breaker::HalfOpen => "Half open: one look-up is tried",
        v1::Breaker::Unspecified => "Unknown",
    }
}

fn sorted(counts: HashMap<String, u64>) -> BTreeMap<String, u64> {
    counts.into_iter().collect()
}

pub(super) async fn show(Administrator(signed_in): Administrator) -> Page {
    let request = signed_in.request(v1::GetIngestStatusRequest {});
    let status = signed_in.core().admin.get_ingest_status(request).await?.into_inner().status.unwrap_or_default();
    let none = || "none".to_owned();
    let (state, breaker) = (state(status.state()), breaker(status.breaker()));
    let v1::IngestStatus { position, last_frame_at, lag_ms, last_error, frames, refused, look_ups, .. } = status;
    let v1::LookUps { made, failed, held_back } = look_ups.unwrap_or_default();
    let lookups = [("made", made), ("failed", failed), ("held back", held_back)];
    let page = IngestPage {
        layout: Layout::of(&signed_in, "Ingest", ACTIVE),
        tab: INGEST,
        state,
        last_frame: moment(last_frame_at.as_ref()),
        facts: vec![
            ("Lag", lag_ms.map_or_else(none, |lag| format!("{lag} ms"))),
            ("Position", position.unwrap_or_else(none)),
            ("Last error", last_error.unwrap_or_else(none)),
            ("Breaker", breaker.to_owned()),
        ],
        counts: [
            ("Frames by type", sorted(frames)),
            ("Refused by reason", sorted(refused)),
            ("Look-ups", lookups.map(|(name, count)| (name.to_owned(), count)).into()),
        ],
    };
    render(StatusCode::OK, &page)
}
