//! Harnesses of streams of events and of webhook URLs.

use url::Host;

use crate::{
    guard::{judge_address, judge_form, judge_url},
    sse::{Event, Parser, StreamItem},
};

thesis_fuzz::fuzz_tests!(sse, webhook_urls);

/// A stream has the same items whatever its pieces are, and none is too long.
fn sse(input: &[u8]) {
    const MAX_BYTES: usize = 64;
    let whole = Parser::new(MAX_BYTES).read(input);
    for item in &whole {
        if let StreamItem::Event(Event { data, .. }) = item {
            assert!(data.len() <= MAX_BYTES);
        }
    }
    let size = 1 + input.first().map_or(0, |byte| usize::from(byte % 16));
    let mut parser = Parser::new(MAX_BYTES);
    let pieces: Vec<_> = input.chunks(size).flat_map(|piece| parser.read(piece)).collect();
    assert_eq!(pieces, whole);
}

/// An allowed URL is public, and stays allowed in its normalised form.
fn webhook_urls(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let has_form = judge_form(&text).is_ok();
    for livemode in [false, true] {
        let Ok(target) = judge_url(&text, livemode, &[]) else { continue };
        assert!(target.url.scheme() == "https" || !livemode);
        assert_eq!(target.url.host_str(), Some(target.host.to_string().as_str()));
        match target.host {
            Host::Domain(_) => {}
            Host::Ipv4(address) => assert_eq!(judge_address(address.into(), &[]), Ok(())),
            Host::Ipv6(address) => assert_eq!(judge_address(address.into(), &[]), Ok(())),
        }
        if has_form {
            assert_eq!(judge_form(target.url.as_str()), Ok(()));
        }
        assert_eq!(judge_url(target.url.as_str(), livemode, &[]), Ok(target));
    }
}
