//! One look-up: the budget, the request, and its answer taken in.

use std::sync::Arc;

use bytes::Bytes;
use thesis_proto::{
    reference::{address_form, handle_form},
    v1::{self, look_up_request::Thing, looked_up_page::Scope},
};

use super::{
    client::{LookupError, Of},
    objects::{self, Refusal},
    pace::{Admission, Use},
    upstream::{Told, Upstream},
};
use crate::domain::{
    observation::{Observation, ObservedThing},
    window::MINUTE_MS,
};

/// Most pages of a token's theses that a verification looks up.
const RESYNC_PAGES: usize = 10;
/// Seconds until the next try after an answer that cannot be used.
const AFTER_FAILURE_S: u32 = 5;

const UNUSABLE: Told = Told::Unavailable { after_s: AFTER_FAILURE_S };

fn seconds(ms: i64) -> u32 {
    u32::try_from((ms + 999) / 1_000).unwrap_or(1).max(1)
}

/// Why an answer is not taken in.
enum Unfit {
    Refused(Refusal),
    /// It is not what was asked for.
    Another,
}

impl From<Refusal> for Unfit {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Upstream {
    /// Looks a thing up and takes the answer in.
    pub(super) async fn lookup(self: &Arc<Self>, thing: &Thing) -> Told {
        let body = match thing {
            Thing::Page(page) => return self.page(page, Use::Backfill).await,
            Thing::Resync(resync) => return self.resync(resync).await,
            Thing::Profile(id) => self.get(Use::OnDemand, true, self.client.profile(id)).await,
            Thing::Handle(handle) => {
                let handle = handle.strip_prefix('@').unwrap_or(handle);
                self.get(Use::OnDemand, true, self.client.profile_by_handle(handle)).await
            }
            Thing::Token(token) => self.get(Use::OnDemand, true, self.client.token(&token.chain, &token.address)).await,
            Thing::Wallets(id) => self.get(Use::OnDemand, true, self.client.wallets(id)).await,
        };
        let body = match body {
            Ok(body) => body,
            Err(told) => return told,
        };
        match self.observed(thing, &body) {
            Ok(observation) => match self.intake.take(&[observation]).await {
                Ok(_) => Told::Found(None),
                Err(error) => {
                    tracing::warn!(%error, "taking in what the upstream told failed");
                    UNUSABLE
                }
            },
            Err(Unfit::Refused(refusal)) => {
                self.status.refused(refusal);
                UNUSABLE
            }
            Err(Unfit::Another) => {
                self.status.failed("a look-up", "the upstream answers with something else than what was asked for");
                Told::Missing
            }
        }
    }

    fn observed(&self, thing: &Thing, body: &[u8]) -> Result<Observation, Unfit> {
        let now_ms = self.now_ms();
        let value = objects::json(body)?;
        let (revision, seen) = match thing {
            Thing::Token(asked) => {
                let token = objects::token(&value, now_ms)?;
                let is_asked =
                    token.chain == asked.chain && address_form(&token.address) == address_form(&asked.address);
                is_asked.then_some(()).ok_or(Unfit::Another)?;
                (token.revision, ObservedThing::Token(Box::new(token)))
            }
            Thing::Wallets(id) => (None, ObservedThing::Wallets(id.clone(), objects::wallets(&value, now_ms)?)),
            _ => {
                let profile = objects::profile(&value, now_ms)?;
                let is_asked = match thing {
                    Thing::Handle(handle) => handle_form(&profile.handle) == handle_form(handle),
                    Thing::Profile(id) => profile.upstream_id == *id,
                    _ => true,
                };
                is_asked.then_some(()).ok_or(Unfit::Another)?;
                (profile.revision, ObservedThing::Profile(Box::new(profile)))
            }
        };
        Ok(Observation { observed_at: now_ms, revision, seen })
    }

    /// Makes a look-up, if the budget has one left. `may_be_missing` says that there may be no such thing.
    async fn get(
        &self,
        use_: Use,
        may_be_missing: bool,
        asking: impl Future<Output = Result<Bytes, LookupError>>,
    ) -> Result<Bytes, Told> {
        let admission = self.pace.lock().admit(use_, self.now_ms());
        match admission {
            Admission::Go => {}
            Admission::Spent { ms } | Admission::Held { ms } => {
                self.status.lookup(|count| count.held_back += 1, "held_back");
                return Err(Told::Unavailable { after_s: seconds(ms) });
            }
        }
        let answer = asking.await;
        let now_ms = self.now_ms();
        match answer {
            Ok(body) => {
                self.pace.lock().succeeded(now_ms);
                self.status.lookup(|count| count.made += 1, "found");
                Ok(body)
            }
            Err(LookupError::NotFound) if may_be_missing => {
                self.pace.lock().succeeded(now_ms);
                self.status.lookup(|count| count.made += 1, "missing");
                Err(Told::Missing)
            }
            Err(error) => {
                let retry_after_s = match &error {
                    LookupError::Failed { retry_after_s, .. } => *retry_after_s,
                    LookupError::NotFound => None,
                };
                let why = error.to_string();
                self.pace.lock().failed(retry_after_s, now_ms);
                self.status.failed("a look-up", &why);
                let failed = |count: &mut v1::LookUps| {
                    count.made += 1;
                    count.failed += 1;
                };
                self.status.lookup(failed, "failed");
                let after_s = retry_after_s.and_then(|after| u32::try_from(after).ok());
                Err(Told::Unavailable { after_s: after_s.unwrap_or(AFTER_FAILURE_S).max(1) })
            }
        }
    }

    /// Looks up a page of theses and takes it in.
    async fn page(&self, page: &v1::LookedUpPage, use_: Use) -> Told {
        let of = match &page.scope {
            Some(Scope::Token(token)) => Of::Token { chain: &token.chain, address: &token.address },
            Some(Scope::Profile(id)) => Of::Profile(id),
            _ => Of::Everything,
        };
        let asking = self.client.theses(of, Some(page.since_ms), page.cursor.as_deref());
        let body = match self.get(use_, false, asking).await {
            Ok(body) => body,
            Err(told) => return told,
        };
        let read = match objects::page(&body, self.now_ms()) {
            Err(refusal) => {
                self.status.refused(refusal);
                return UNUSABLE;
            }
            Ok(read) => read,
        };
        // Some upstreams may not know `since`; theses come newest first. And no page comes after itself.
        let goes_on = read.newest_ms.is_none_or(|newest| newest >= page.since_ms);
        let broken_off = read.broken_off;
        let next_cursor = read.next_cursor.filter(|next| goes_on && page.cursor.as_ref() != Some(next));
        let mut result = v1::PageResult {
            theses: read.theses.len() as u64,
            oldest_ms: read.oldest_ms,
            next_cursor,
            ..v1::PageResult::default()
        };
        let mut observations = Vec::new();
        // Where the observations of each thesis end; a tombstone gives two.
        let mut ends = Vec::new();
        for thesis in read.theses {
            match thesis {
                Ok(seen) => {
                    observations.extend(seen);
                    ends.push(observations.len());
                }
                Err(refusal) => self.status.refused(refusal),
            }
        }
        let news = match self.intake.take(&observations).await {
            Ok(news) => news,
            Err(error) => {
                tracing::warn!(%error, "taking in a page of the upstream failed");
                return UNUSABLE;
            }
        };
        let (old, mut begin) = (self.now_ms() - MINUTE_MS, 0);
        for end in ends {
            if news[begin..end].contains(&true) {
                result.applied += 1;
                let changed_at = observations[begin].revision;
                result.untold += u64::from(changed_at.is_some_and(|changed_at| changed_at < old));
            }
            begin = end;
        }
        match broken_off {
            // Who needs all of it asks again; a verification has seen the newest.
            Some(refusal) if use_ == Use::Backfill => {
                self.status.refused(refusal);
                UNUSABLE
            }
            broken_off => {
                broken_off.into_iter().for_each(|refusal| self.status.refused(refusal));
                Told::Found(Some(result))
            }
        }
    }

    /// Looks up the latest theses of a token.
    async fn resync(&self, resync: &v1::Resync) -> Told {
        let scope = resync.token.clone().map(Scope::Token);
        let mut page = v1::LookedUpPage { scope, since_ms: resync.since_ms, cursor: None };
        for _ in 0..RESYNC_PAGES {
            match self.page(&page, Use::OnDemand).await {
                Told::Found(Some(v1::PageResult { next_cursor: Some(cursor), .. })) => page.cursor = Some(cursor),
                Told::Found(_) | Told::Missing => break,
                told @ Told::Unavailable { .. } => return told,
            }
        }
        Told::Found(None)
    }
}
