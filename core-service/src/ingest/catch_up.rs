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
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Busiest tokens that are compared with the upstream.
const SAMPLE: usize = 5;
/// How far back these are compared, in milliseconds.
const COMPARED_MS: i64 = HOUR_MS;
/// Most pages of one of these.
const COMPARED_PAGES: usize = 5;

impl Upstream {
    /// Asks for pages from here or at the core that leads, until one tells what it held. Tries again and again.
    pub async fn page_at_last(self: &Arc<Self>, page: &v1::LookedUpPage) -> v1::PageResult {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            match self.ask(Thing::Page(page.clone())).await {
                Told::Found(result) => return result.unwrap_or_default(),
                Told::Missing => return v1::PageResult::default(),
                Told::Unavailable { after_s } => {
                    let pause = backoff.next(self.shared.ids.as_ref());
                    // The budget's next look-up comes within a second.
                    let told = if after_s > 1 { Duration::from_secs(after_s.into()) } else { Duration::ZERO };
                    sleep(pause.max(told.min(LONGEST_PAUSE))).await;
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
            loop {
                if !self.leads() {
                    return;
                }
                let result = self.page_at_last(&page).await;
                (theses, applied) = (theses + result.theses, applied + result.applied);
                match result.next_cursor {
                    Some(cursor) => page.cursor = Some(cursor),
                    None => break,
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
        for ((chain, address), _) in busy.into_iter().take(SAMPLE) {
            let scope = Some(Scope::Token(v1::BackfillToken { chain, address }));
            let mut page = v1::LookedUpPage { scope, since_ms, cursor: None };
            for _ in 0..COMPARED_PAGES {
                let Told::Found(Some(result)) = self.ask(Thing::Page(page.clone())).await else { break };
                if result.untold > 0 {
                    metrics::counter!("upstream_untold_total").increment(result.untold);
                    tracing::warn!(theses = result.untold, "the upstream has theses that its feed did not tell");
                    self.owe(since_ms);
                }
                let Some(cursor) = result.next_cursor else { break };
                page.cursor = Some(cursor);
            }
        }
    }
}
