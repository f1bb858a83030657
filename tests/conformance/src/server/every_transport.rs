//! Rules of every transport about cursors and events.

use serde_json::Value;

use super::{
    item::Query,
    stream::{Stream, Transport},
    target::Target,
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

pub(super) async fn first_cursor(target: &Target, transport: Transport) -> Verdict {
    let mut stream = Stream::open(target, transport, &Query::of(&target.new_token())).await?;
    ensure!(!stream.cursor().await?.is_empty(), "the first cursor is empty");
    Ok(())
}

pub(super) async fn quiet_resume(target: &Target, transport: Transport) -> Verdict {
    let token = target.new_token();
    let query = Query::of(&token);
    let cursor = Stream::open(target, transport, &query).await?.cursor().await?;
    let event = target.post(&token, "while nobody listens").await?;
    Stream::open(target, transport, &query.after(&cursor)).await?.expect(&event).await
}

pub(super) async fn exact_resume(target: &Target, transport: Transport) -> Verdict {
    let token = target.new_token();
    let query = Query::of(&token);
    let mut stream = Stream::open(target, transport, &query).await?;
    let mut seen = Vec::new();
    for number in 0..4 {
        target.post(&token, &number.to_string()).await?;
        seen.push(stream.event().await?);
    }
    let last = target.post(&token, "after the break").await?;
    drop(stream);
    for (position, (cursor, _)) in seen.iter().enumerate() {
        let mut resumed = Stream::open(target, transport, &query.after(cursor)).await?;
        for expected in &seen[position + 1..] {
            let replayed = resumed.event().await?;
            // The cursors may differ: one also names positions of data that the filters leave out.
            ensure!(replayed.1 == expected.1, "after {cursor} comes {replayed:?} instead of {expected:?}");
        }
        resumed.expect(&last).await?;
    }
    let cursor = &seen[seen.len() - 1].0;
    let mut resumed = Stream::open(target, transport, &query.after(cursor)).await?;
    resumed.expect(&last).await?;
    let live = target.post(&token, "live").await?;
    resumed.expect(&live).await
}

pub(super) async fn shared_cursor(target: &Target, transport: Transport) -> Verdict {
    let token = target.new_token();
    let query = Query::of(&token);
    let cursor = Stream::open(target, transport, &query).await?.cursor().await?;
    let event = target.post(&token, "over any transport").await?;
    for other in Transport::ALL {
        match Stream::open(target, *other, &query.after(&cursor)).await {
            Ok(mut resumed) => resumed.expect(&event).await?,
            Err(Miss::NotApplicable(_)) => {}
            Err(failed) => return Err(failed),
        }
    }
    Ok(())
}

pub(super) async fn other_filters(target: &Target, transport: Transport) -> Verdict {
    let (first, second) = (target.new_token(), target.new_token());
    let cursor = Stream::open(target, transport, &Query::of(&first)).await?.cursor().await?;
    target.post(&first, "matches the old filter").await?;
    let event = target.post(&second, "matches the new filter").await?;
    Stream::open(target, transport, &Query::of(&second).after(&cursor)).await?.expect(&event).await
}

pub(super) async fn invalid_cursor(target: &Target, transport: Transport) -> Verdict {
    let query = Query::of(&target.new_token());
    let cursor = Stream::open(target, transport, &query).await?.cursor().await?;
    for wrong in ["x", "not a cursor", &format!("{cursor}A")] {
        let key = &target.options.key;
        Stream::expect_refusal(target, transport, key, &query.after(wrong), (400, "INVALID_CURSOR")).await?;
    }
    Ok(())
}

pub(super) async fn filters(target: &Target, transport: Transport) -> Verdict {
    let tokens = vec![target.new_token(), target.new_token()];
    let query = Query { tokens: tokens.clone(), handle: Some("@conformance_a".to_owned()), ..Query::default() };
    let mut stream = Stream::open(target, transport, &query).await?;
    let mut matching = Vec::new();
    for (handle, token, matches) in [
        ("conformance_b", tokens[0].clone(), false),
        ("conformance_a", target.new_token(), false),
        ("conformance_a", tokens[1].clone(), true),
        ("conformance_b", tokens[1].clone(), false),
        ("conformance_a", tokens[0].clone(), true),
    ] {
        let event = target.post_as(handle, &token, "x").await?;
        if matches {
            matching.push(event);
        }
    }
    for event in &matching {
        stream.expect(event).await?;
    }
    Ok(())
}

pub(super) async fn same_event(target: &Target, transport: Transport) -> Verdict {
    let token = target.new_token();
    let mut stream = Stream::open(target, transport, &Query::of(&token)).await?;
    let text = "two\nlines, \"quotes\" and \u{1f680}";
    target.post(&token, text).await?;
    let (_, event) = stream.event().await?;
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = target.get(&format!("/v1/events/{}", id(&event["id"]))).await?;
    ensure!(read == event, "GET /v1/events/{{id}} has {read} instead of {event}");
    let thesis = target.get(&format!("/v1/theses/{}", id(&event["data"]["thesis_id"]))).await?;
    ensure!(thesis["text"] == text && event["data"]["text"] == text, "the text is {}", thesis["text"]);
    Ok(())
}

pub(super) async fn heartbeat(target: &Target, transport: Transport) -> Verdict {
    let (token, other) = (target.new_token(), target.new_token());
    let mut stream = Stream::open(target, transport, &Query::of(&token)).await?;
    let first = stream.cursor().await?;
    let passed = target.post(&other, "does not match").await?;
    // The next one may have been under way already.
    let mut cursor = stream.cursor().await?;
    if cursor == first {
        cursor = stream.cursor().await?;
    }
    ensure!(cursor != first, "the cursor does not move past an event that does not match");
    if let Stream::Sse(sse) = &stream {
        ensure!(sse.raw.windows(8).any(|part| part == b"\n: ping\n"), "the heartbeat has no comment `: ping`");
    }
    let event = target.post(&other, "comes next").await?;
    let mut resumed = Stream::open(target, transport, &Query::of(&other).after(&cursor)).await?;
    match resumed.event().await?.1 {
        next if next == event => Ok(()),
        next if next == passed => Err("the cursor of the heartbeat is before an event that was passed over".into()),
        next => Err(format!("{next} comes instead of {event}").into()),
    }
}

pub(super) async fn bad_key(target: &Target, transport: Transport) -> Verdict {
    let key = format!("svc_test_{}", "0".repeat(40));
    Stream::expect_refusal(target, transport, &key, &Query::default(), (401, "INVALID_API_KEY")).await
}

pub(super) async fn missing_scope(target: &Target, transport: Transport) -> Verdict {
    let key = target.options.narrow_key.as_deref().ok_or(Miss::NotApplicable("needs --narrow-key"))?;
    Stream::expect_refusal(target, transport, key, &Query::default(), (403, "INSUFFICIENT_SCOPE")).await
}
