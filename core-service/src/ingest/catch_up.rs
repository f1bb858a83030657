//! Looks up changes that the feed did not deliver: all changes of a time without the feed, and regularly a sample of
//! the busiest tokens.

use std::{sync::Arc, time::Duration};

use thesis_net::backoff::Backoff;
use thesis_proto::v1::{self, look_up_request::Thing, looked_up_page::Scope};
use tokio::time::sleep;

use super::upstream::{LookupOutcome, Upstream};
use crate::domain::window::HOUR_MS;

/// The first and the maximum pause before a page is requested again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Number of failures in a row after which the lookup drops the cursor.
const MAX_FAILURES: u32 = 8;
/// Maximum number of pages of pending changes: ten million theses.
const MAX_PAGES: usize = 50_000;
/// Number of busiest tokens that are compared with the upstream.
const SAMPLE_TOKENS: usize = 5;
/// Age of the oldest changes that are compared, in milliseconds.
const SAMPLE_MS: i64 = HOUR_MS;
/// Maximum number of pages for one token.
const MAX_SAMPLE_PAGES: usize = 5;

impl Upstream {
    /// Requests the next page, here or through the leading core, until the upstream returns it. A cursor that fails too
    /// often may be too old: then the next page is the first one.
    pub async fn next_page(self: &Arc<Self>, page: &mut v1::LookedUpPage) -> v1::PageResult {
        let mut backoff = Backoff::new(FIRST_PAUSE, MAX_PAUSE);
        let mut failures = 0;
        loop {
            match self.lookup(Thing::Page(page.clone())).await {
                LookupOutcome::Found(result) => {
                    let result = result.unwrap_or_default();
                    page.cursor.clone_from(&result.next_cursor);
                    return result;
                }
                // The upstream always has a page, perhaps an empty one.
                LookupOutcome::Missing => sleep(MAX_PAUSE).await,
                LookupOutcome::Unavailable { after_s } => {
                    failures += 1;
                    if failures % MAX_FAILURES == 0 {
                        page.cursor = None;
                    }
                    let pause = backoff.next(self.shared.ids.as_ref());
                    // The budget allows the next lookup within a second.
                    let requested = if after_s > 1 { Duration::from_secs(after_s.into()) } else { Duration::ZERO };
                    sleep(pause.max(requested.min(MAX_PAUSE))).await;
                }
            }
        }
    }

    /// Looks up all pending changes while this core leads.
    pub(super) async fn resolve_pending(self: &Arc<Self>) {
        loop {
            let since_ms = {
                let mut pending = self.pending.lock();
                (pending.running, pending.waiting) = (pending.since(), None);
                pending.running
            };
            let Some(since_ms) = since_ms else { return };
            let mut page = v1::LookedUpPage { scope: Some(Scope::All(true)), since_ms, cursor: None };
            tracing::info!(since_ms, "looking up what the feed did not tell");
            let (mut theses, mut applied) = (0, 0);
            for _ in 0..MAX_PAGES {
                if !self.leads() {
                    return;
                }
                let result = self.next_page(&mut page).await;
                (theses, applied) = (theses + result.theses, applied + result.applied);
                if page.cursor.is_none() {
                    break;
                }
            }
            tracing::info!(theses, applied, "looked up what the feed did not tell");
            self.pending.lock().running = None;
        }
    }

    /// Compares the tokens with the most frames with the upstream. If the upstream has a change that the feed should
    /// have delivered, all changes of that time are looked up.
    pub(super) async fn compare_sample(self: &Arc<Self>) {
        if self.pending.lock().since().is_some() {
            // Missing changes are known already, and their lookups may not have reached the sample yet.
            return;
        }
        let mut busy: Vec<_> = std::mem::take(&mut *self.busy.lock()).into_iter().collect();
        busy.sort_unstable_by_key(|(_, theses)| std::cmp::Reverse(*theses));
        let since_ms = self.now_ms() - SAMPLE_MS;
        let tokens = busy.into_iter().take(SAMPLE_TOKENS);
        let tokens = tokens.map(|((chain, address), _)| Scope::Token(v1::BackfillToken { chain, address }));
        let mut scopes: Vec<_> = tokens.collect();
        if scopes.is_empty() {
            // A feed without frames may have no changes, or be broken.
            scopes.push(Scope::All(true));
        }
        let mut missed = 0;
        for scope in scopes {
            let mut page = v1::LookedUpPage { scope: Some(scope), since_ms, cursor: None };
            for _ in 0..MAX_SAMPLE_PAGES {
                let LookupOutcome::Found(Some(result)) = self.lookup(Thing::Page(page.clone())).await else { break };
                missed += result.missed_by_feed;
                let Some(cursor) = result.next_cursor else { break };
                page.cursor = Some(cursor);
            }
        }
        if missed > 0 {
            crate::metrics::MISSED_BY_FEED.one().increment(missed);
            tracing::warn!(theses = missed, "the upstream has changes of theses that its feed did not send");
            self.add_pending(since_ms);
        }
    }
}
