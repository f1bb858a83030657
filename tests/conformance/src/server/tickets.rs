//! Rules of tickets, with which browsers open streams.

use std::time::Duration;

use reqwest::Method;
use tokio::time::sleep;

use super::{
    item::Query,
    socket::{Socket, upgrade},
    sse::Sse,
    stream::{Stream, Transport},
    target::{Refusal, Target, retried},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// A ticket's old connection ends within 2 seconds. The rest is for a busy machine and the way to the server.
const REPLACED_TIMEOUT: Duration = Duration::from_secs(2 + 3);
/// A ticket opens its stream within this time.
const TICKET_LIFE: Duration = Duration::from_secs(60);
/// Time after the end of a ticket from which it is surely refused.
const EXPIRY_SLACK: Duration = Duration::from_secs(2);

/// The error with which an opening with a ticket ends; none if the stream opens.
async fn refusal(
    target: &Target,
    transport: Transport,
    ticket: &str,
    key: Option<&str>,
) -> Result<Option<Refusal>, Miss> {
    let request = || match transport {
        Transport::WebSocket => upgrade(target, key, &format!("?ticket={ticket}"), "13"),
        _ => target.request(Method::GET, &format!("/v1/events/stream?ticket={ticket}"), key),
    };
    Ok(target.send_retried(request).await?.err())
}

async fn open_sse(target: &Target, ticket: &str, query: &Query) -> Result<Sse, Miss> {
    let path = format!("{}&ticket={ticket}", query.path());
    retried(async || Sse::open(target, target.request(Method::GET, &path, None)).await).await
}

pub(super) async fn one_connection(target: &Target, transport: Transport) -> Verdict {
    let ticket = target.ticket().await?;
    if transport == Transport::WebSocket {
        let query = format!("?ticket={ticket}");
        let mut first = Socket::open(target, None, &query).await?;
        first.expect("welcome").await?;
        let mut second = Socket::open(target, None, &query).await?;
        second.expect("welcome").await?;
        return first.closed(REPLACED_TIMEOUT, 4505).await;
    }
    let token = target.new_token();
    let query = Query::of(&token);
    let mut first = open_sse(target, &ticket, &query).await?;
    let mut second = Stream::Sse(Box::new(open_sse(target, &ticket, &query).await?));
    first.end(REPLACED_TIMEOUT).await?;
    // The stream goes on over the new connection.
    let event = target.post(&token, "after the change").await?;
    second.expect(&event).await
}

pub(super) async fn ticket_and_key(target: &Target, transport: Transport) -> Verdict {
    let ticket = target.ticket().await?;
    match refusal(target, transport, &ticket, Some(&target.options.key)).await? {
        Some(refusal) => refusal.expect(400, "INVALID_REQUEST"),
        None => Err("a stream opens with both".into()),
    }
}

pub(super) async fn bad_ticket(target: &Target, transport: Transport) -> Verdict {
    match refusal(target, transport, "tkt_0123456789abcdef", None).await? {
        Some(refusal) => refusal.expect(401, "INVALID_API_KEY"),
        None => Err("an unknown ticket opens a stream".into()),
    }
}

pub(super) async fn ticket_expiry(target: &Target, transport: Transport) -> Verdict {
    let ticket = target.ticket().await?;
    sleep(TICKET_LIFE + EXPIRY_SLACK).await;
    let refused = refusal(target, transport, &ticket, None).await?;
    ensure!(refused.is_some(), "a ticket opens its stream after {} seconds", TICKET_LIFE.as_secs());
    Ok(())
}
