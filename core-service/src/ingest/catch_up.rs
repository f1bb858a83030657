//! Looks up what the feed did not tell: what changed while it was not followed, and now and then a sample of the busiest
//! tokens.

use std::{sync::Arc, time::Duration};

use thesis_net::backoff::Backoff;
use thesis_proto::v1::{self, look_up_request::Thing, looked_up_page::Scope};
use tokio::time::sleep;

use super::upstream::{Told, Upstream};
use crate::domain::window::HOUR_MS;

/// The first and the longest pause before a page is asked for again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Failures in a row after which a cursor is given up.
const MAX_FAILURES: u32 = 8;
/// Most pages of what is owed: ten million theses.
const MAX_PAGES: usize = 50_000;
/// Busiest tokens that are compared with the upstream.
const SAMPLE: usize = 5;
/// How far back these are compared, in milliseconds.
const COMPARED_MS: i64 = HOUR_MS;
/// Most pages of one of these.
const COMPARED_PAGES: usize = 5;

impl Upstream {
    /// Asks for the next page, here or at the core that leads, until the upstream tells what it held. A cursor that fails
    /// too often may be too old: then it begins again with the first page.
    pub async fn next_page(self: &Arc<Self>, page: &mut v1::LookedUpPage) -> v1::PageResult {
        let mut backoff = Backoff::new(FIRST_PAUSE, MAX_PAUSE);
        let mut failures = 0;
        loop {
            match self.ask(Thing::Page(page.clone())).await {
                Told::Found(result) => {
                    let result = result.unwrap_or_default();
                    page.cursor.clone_from(&result.next_cursor);
                    return result;
                }
                // There is always a page, perhaps an empty one.
                Told::Missing => sleep(MAX_PAUSE).await,
                Told::Unavailable { after_s } => {
                    failures += 1;
                    if failures % MAX_FAILURES == 0 {
                        page.cursor = None;
                    }
                    let pause = backoff.next(self.shared.ids.as_ref());
                    // The budget's next look-up comes within a second.
                    let told = if after_s > 1 { Duration::from_secs(after_s.into()) } else { Duration::ZERO };
                    sleep(pause.max(told.min(MAX_PAUSE))).await;
                }
            }
        }
    }

    /// Looks up everything that is owed, while this core leads.
    pub(super) async fn pay(self: &Arc<Self>) {
        loop {
            let since_ms = {
                let mut owed = self.owed.lock();
                (owed.paying, owed.waiting) = (owed.since(), None);
                owed.paying
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
            self.owed.lock().paying = None;
        }
    }

    /// Compares the tokens that the feed told most of with the upstream. If it has something that the feed should have
    /// told, everything of that time is looked up.
    pub(super) async fn compare(self: &Arc<Self>) {
        let mut busy: Vec<_> = std::mem::take(&mut *self.busy.lock()).into_iter().collect();
        busy.sort_unstable_by_key(|(_, theses)| std::cmp::Reverse(*theses));
        let since_ms = self.now_ms() - COMPARED_MS;
        let tokens = busy.into_iter().take(SAMPLE);
        let tokens = tokens.map(|((chain, address), _)| Scope::Token(v1::BackfillToken { chain, address }));
        let mut scopes: Vec<_> = tokens.collect();
        if scopes.is_empty() {
            // A feed that tells nothing may have nothing to tell, or be broken.
            scopes.push(Scope::All(true));
        }
        for scope in scopes {
            let mut page = v1::LookedUpPage { scope: Some(scope), since_ms, cursor: None };
            for _ in 0..COMPARED_PAGES {
                let Told::Found(Some(result)) = self.ask(Thing::Page(page.clone())).await else { break };
                if result.untold > 0 {
                    crate::metrics::UNTOLD.one().increment(result.untold);
                    tracing::warn!(theses = result.untold, "the upstream has theses that its feed did not tell");
                    self.owe(since_ms);
                }
                let Some(cursor) = result.next_cursor else { break };
                page.cursor = Some(cursor);
            }
        }
    }
}
