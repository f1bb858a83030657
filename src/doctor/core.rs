//! The cores that an edge or a worker needs: they must respond, accept the service token, and have the same time.

use std::{sync::Arc, time::Duration};

use jiff::fmt::rfc2822;
use thesis_net::{
    channel::{CoreChannel, remedy},
    clock::{Clock as _, SystemClock},
};
use thesis_proto::v1;
use tokio::time::timeout;
use tonic::{Code, Status, metadata::MetadataMap};
use tonic_health::pb::health_check_response::ServingStatus;

use super::{clock, finding::Finding};
use crate::{admin::client, config::Settings, health};

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Precision, in milliseconds, of the time in a response's head.
const SECOND_MS: i64 = 1_000;

/// The reason why a core is unreachable, and a remedy if the error suggests one.
struct Unreachable(String, Option<&'static str>);

/// Calls every core that the settings name.
pub(super) async fn check(settings: &Settings) -> Vec<Finding> {
    // The check of the settings reports wrong ones.
    let Ok(channel) = settings.core_channel(Arc::new(SystemClock)) else { return Vec::new() };
    let calls =
        settings.addresses.core_url.iter().zip(channel.each()).map(|(url, channel)| one(url, channel, settings));
    let results = futures::future::join_all(calls).await;
    let any = results.iter().any(|core| core.is_ok());
    let todo = if any {
        "start that core, or leave it out of SVC_CORE_URL"
    } else {
        "start core, set SVC_CORE_URL to its SVC_INTERNAL_ADDR (SVC_GRPC_ADDR without one), and let the network reach it"
    };
    let finding = |core: Result<Vec<Finding>, Unreachable>| match core {
        Ok(findings) => findings,
        Err(Unreachable(seen, remedy)) if any => vec![Finding::warning("core", seen, remedy.unwrap_or(todo))],
        Err(Unreachable(seen, remedy)) => vec![Finding::problem("core", seen, remedy.unwrap_or(todo))],
    };
    results.into_iter().flat_map(finding).collect()
}

async fn one(url: &str, channel: CoreChannel, settings: &Settings) -> Result<Vec<Finding>, Unreachable> {
    let sent_at = SystemClock.now_ms();
    let response = timeout(RESPONSE_TIMEOUT, health::of_core(channel.clone())).await;
    let took = SystemClock.now_ms() - sent_at;
    let response = match response {
        Err(_) => {
            let seen = format!("SVC_CORE_URL: {url} does not answer within {} s", RESPONSE_TIMEOUT.as_secs());
            return Err(Unreachable(seen, None));
        }
        Ok(Err(status)) => {
            let seen = format!("SVC_CORE_URL: no core answers at {url}: {}", status.message());
            return Err(Unreachable(seen, remedy(&status)));
        }
        Ok(Ok(response)) => response,
    };
    if response.get_ref().status() != ServingStatus::Serving {
        let seen = format!("SVC_CORE_URL: the core at {url} does not serve: it starts, stops or lacks its store");
        return Err(Unreachable(seen, None));
    }
    let mut findings = vec![Finding::ok("core", format!("{url} serves"))];
    findings.extend(time(response.metadata()).map(|there| {
        // The head's time was cut to a second.
        let ahead = there + SECOND_MS / 2 - sent_at - took / 2;
        clock::against(&format!("the clock of {url}"), ahead, took + SECOND_MS)
    }));
    findings.extend(token(url, channel, settings).await);
    Ok(findings)
}

fn time(head: &MetadataMap) -> Option<i64> {
    let date = head.get("date")?.to_str().ok()?;
    Some(rfc2822::parse(date).ok()?.timestamp().as_millisecond())
}

/// Checks that the core accepts the service token, by a call that changes nothing.
async fn token(url: &str, channel: CoreChannel, settings: &Settings) -> Option<Finding> {
    // The check of the settings reports a wrong one.
    let mut client = client::client(channel, settings).ok()?;
    let response = timeout(RESPONSE_TIMEOUT, client.get_ingest_status(v1::GetIngestStatusRequest {})).await;
    let silent = |why: &str| {
        let seen = format!("SVC_SERVICE_TOKEN: {url} did not say whether it takes the token: {why}");
        Finding::warning("token", seen, "look at that core's log, and try again")
    };
    Some(match response.unwrap_or_else(|_| Err(Status::unavailable("no answer in time"))) {
        // A core that has been sent too many wrong tokens says only that.
        Err(status) if matches!(status.code(), Code::Unauthenticated | Code::ResourceExhausted) => Finding::problem(
            "token",
            format!("SVC_SERVICE_TOKEN: the core at {url} has another token"),
            "set the token that core has; without one it is in the file service_token of core's data folder",
        ),
        Err(status) if status.code() == Code::Unavailable => silent(status.message()),
        _ => Finding::ok("token", format!("{url} takes the service token")),
    })
}
