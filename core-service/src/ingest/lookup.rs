//! One lookup: checks the budget, sends the request and applies the response.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use thesis_proto::{
    reference::{address_form, handle_form},
    v1::{self, look_up_request::Thing, looked_up_page::Scope},
};

use super::{
    client::{LookupError, ThesisScope},
    objects::{self, Refusal},
    pace::{Admission, LookupPurpose},
    upstream::{LookupOutcome, Upstream},
};
use crate::{
    domain::{
        observation::{Observation, ObservedThing},
        window::MINUTE_MS,
    },
    error,
};

/// Maximum number of pages of a token's theses that a verification looks up.
const RESYNC_PAGES: usize = 10;
/// Seconds until the next try after an unusable response.
const FAILURE_RETRY_S: u32 = 5;

const UNUSABLE: LookupOutcome = LookupOutcome::Unavailable { after_s: FAILURE_RETRY_S };

fn seconds(ms: i64) -> u32 {
    u32::try_from((ms + 999) / 1_000).unwrap_or(1).max(1)
}

/// The reason why a response is not applied.
enum Unfit {
    Refused(Refusal),
    /// The response is about another object than the request.
    Another,
}

impl From<Refusal> for Unfit {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Upstream {
    /// Looks an object up and applies the response.
    pub(super) async fn send_lookup(self: &Arc<Self>, thing: &Thing) -> LookupOutcome {
        let body = match thing {
            Thing::Page(page) => return self.lookup_page(page, LookupPurpose::Backfill).await,
            Thing::Resync(resync) => return self.lookup_resync(resync).await,
            Thing::Profile(id) => self.send_request(LookupPurpose::OnDemand, true, self.client.profile(id)).await,
            Thing::Handle(handle) => {
                let handle = handle.strip_prefix('@').unwrap_or(handle);
                self.send_request(LookupPurpose::OnDemand, true, self.client.profile_by_handle(handle)).await
            }
            Thing::Token(token) => {
                self.send_request(LookupPurpose::OnDemand, true, self.client.token(&token.chain, &token.address)).await
            }
            Thing::Wallets(id) => self.send_request(LookupPurpose::OnDemand, true, self.client.wallets(id)).await,
        };
        let body = match body {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        match self.read_observation(thing, &body) {
            Ok(observation) => match self.intake.apply(&[observation]).await {
                Ok(_) => LookupOutcome::Found(None),
                Err(error) => {
                    tracing::warn!(%error, "applying a response of the upstream failed");
                    UNUSABLE
                }
            },
            Err(Unfit::Refused(refusal)) => {
                self.status.count_refused(refusal);
                UNUSABLE
            }
            Err(Unfit::Another) => {
                self.status.failed("a look-up", "the upstream answers with something else than what was asked for");
                LookupOutcome::Missing
            }
        }
    }

    fn read_observation(&self, thing: &Thing, body: &[u8]) -> Result<Observation, Unfit> {
        let now_ms = self.now_ms();
        let value = objects::json(body)?;
        let (revision, seen) = match thing {
            Thing::Token(requested) => {
                let token = objects::token(&value, now_ms)?;
                let is_requested =
                    token.chain == requested.chain && address_form(&token.address) == address_form(&requested.address);
                is_requested.then_some(()).ok_or(Unfit::Another)?;
                (token.revision, ObservedThing::Token(Box::new(token)))
            }
            Thing::Wallets(id) => (None, ObservedThing::Wallets(id.clone(), objects::wallets(&value, now_ms)?)),
            _ => {
                let profile = objects::profile(&value, now_ms)?;
                let is_requested = match thing {
                    Thing::Handle(handle) => handle_form(&profile.handle) == handle_form(handle),
                    Thing::Profile(id) => profile.upstream_id == *id,
                    _ => true,
                };
                is_requested.then_some(()).ok_or(Unfit::Another)?;
                (profile.revision, ObservedThing::Profile(Box::new(profile)))
            }
        };
        Ok(Observation { observed_at: now_ms, revision, seen })
    }

    /// Sends a request if the budget allows one. `may_be_missing` is true if the upstream may not have the object.
    async fn send_request(
        &self,
        purpose: LookupPurpose,
        may_be_missing: bool,
        request: impl Future<Output = Result<Bytes, LookupError>>,
    ) -> Result<Bytes, LookupOutcome> {
        let admission = self.pace.lock().admit(purpose, self.now_ms());
        match admission {
            Admission::Go => {}
            Admission::Spent { ms } | Admission::Held { ms } => {
                self.status.count_lookup(|count| count.held_back += 1, "held_back");
                return Err(LookupOutcome::Unavailable { after_s: seconds(ms) });
            }
        }
        let answer = request.await;
        let now_ms = self.now_ms();
        match answer {
            Ok(body) => {
                self.pace.lock().succeeded(now_ms);
                self.status.count_lookup(|count| count.made += 1, "found");
                Ok(body)
            }
            Err(LookupError::NotFound) if may_be_missing => {
                self.pace.lock().succeeded(now_ms);
                self.status.count_lookup(|count| count.made += 1, "missing");
                Err(LookupOutcome::Missing)
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
                self.status.count_lookup(failed, "failed");
                let after_s = retry_after_s.and_then(|after| u32::try_from(after).ok());
                Err(LookupOutcome::Unavailable { after_s: after_s.unwrap_or(FAILURE_RETRY_S).max(1) })
            }
        }
    }

    async fn lookup_page(&self, page: &v1::LookedUpPage, purpose: LookupPurpose) -> LookupOutcome {
        let scope = match &page.scope {
            Some(Scope::Token(token)) => ThesisScope::Token { chain: &token.chain, address: &token.address },
            Some(Scope::Profile(id)) => ThesisScope::Profile(id),
            _ => ThesisScope::Everything,
        };
        let request = self.client.theses(scope, Some(page.since_ms), page.cursor.as_deref());
        let body = match self.send_request(purpose, false, request).await {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let read = match objects::page(&body, self.now_ms()) {
            Err(refusal) => {
                self.status.count_refused(refusal);
                return UNUSABLE;
            }
            Ok(read) => read,
        };
        // Some upstreams may not know `since`; theses come newest first. A cursor that repeats ends the pages.
        let goes_on = read.newest_ms.is_none_or(|newest| newest >= page.since_ms);
        let mut result = v1::PageResult {
            theses: read.theses.len() as u64,
            oldest_ms: read.oldest_ms,
            next_cursor: read.next_cursor.filter(|next| goes_on && page.cursor.as_ref() != Some(next)),
            ..v1::PageResult::default()
        };
        if let Err(error) = self.apply_theses(read.theses, &mut result).await {
            tracing::warn!(%error, "taking in a page of the upstream failed");
            return UNUSABLE;
        }
        match read.broken_off {
            // A backfill needs all pages and tries again; a verification has seen the newest theses.
            Some(refusal) if purpose == LookupPurpose::Backfill => {
                self.status.count_refused(refusal);
                UNUSABLE
            }
            broken_off => {
                broken_off.into_iter().for_each(|refusal| self.status.count_refused(refusal));
                LookupOutcome::Found(Some(result))
            }
        }
    }

    /// Applies the theses of a page, and counts those that it changed.
    async fn apply_theses(
        &self,
        theses: Vec<Result<Vec<Observation>, Refusal>>,
        result: &mut v1::PageResult,
    ) -> error::Result<()> {
        let mut observations = Vec::new();
        // The end of each thesis's observations; a tombstone has two.
        let mut ends = Vec::new();
        for thesis in theses {
            match thesis {
                Ok(seen) => {
                    observations.extend(seen);
                    ends.push(observations.len());
                }
                Err(refusal) => self.status.count_refused(refusal),
            }
        }
        let outcomes = self.intake.apply(&observations).await?;
        let (old, mut begin) = (self.now_ms() - MINUTE_MS, 0);
        for end in ends {
            let mut applied = outcomes[begin..end].iter().filter(|outcome| outcome.applied).peekable();
            if applied.peek().is_some() {
                result.applied += 1;
                let is_old = observations[begin].revision.is_some_and(|changed_at| changed_at < old);
                result.missed_by_feed += u64::from(is_old && applied.any(|outcome| !outcome.was_known));
            }
            begin = end;
        }
        Ok(())
    }

    /// Looks up the latest theses of a token.
    async fn lookup_resync(&self, resync: &v1::Resync) -> LookupOutcome {
        let scope = resync.token.clone().map(Scope::Token);
        let mut page = v1::LookedUpPage { scope, since_ms: resync.since_ms, cursor: None };
        for _ in 0..RESYNC_PAGES {
            match self.lookup_page(&page, LookupPurpose::OnDemand).await {
                LookupOutcome::Found(Some(v1::PageResult { next_cursor: Some(cursor), .. })) => {
                    page.cursor = Some(cursor);
                }
                LookupOutcome::Found(_) | LookupOutcome::Missing => break,
                outcome @ LookupOutcome::Unavailable { .. } => return outcome,
            }
        }
        LookupOutcome::Found(None)
    }
}
