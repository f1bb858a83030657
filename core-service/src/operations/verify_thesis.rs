//! Verifies that an identity posted a thesis on a token within a window. It does not judge the text. Fails with
//! `HISTORY_LIMIT`, `AMBIGUOUS_TOKEN` or `UPSTREAM_UNAVAILABLE`; if a receipt is wanted, also `RECEIPT_UNAVAILABLE`.

use std::sync::Arc;

use serde_json::Value;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    reference::default_fold,
    time::from_millis,
    v1::{self, look_up_request::Thing},
};

use super::{
    fields::Fields,
    missing::missing,
    receipts, refresh, resolve,
    theses::{Slices, by_time},
};
use crate::{
    access::gate::Call,
    domain::{
        dataset::{Dataset, View},
        reference::{ProfileReference, TokenReference},
        row::{Thesis, Token},
        window::{Floor, MINUTE_MS},
    },
    error::Result,
    ingest::upstream::LookupOutcome,
    service::Core,
    tables::{index_scope::IndexScope, signed_trees::SignedTree, theses::RowReader},
};

/// A negative answer needs the upstream until this long after the end of the window, in milliseconds.
const RESYNC_MS: i64 = 15 * MINUTE_MS;
/// Index rows of one read.
const PAGE: usize = 100;

/// The claim to verify.
struct Claim {
    author: ProfileReference,
    token: TokenReference,
    /// Window start, inclusive.
    from: i64,
    /// Window end, inclusive.
    to: i64,
    /// Text that the thesis must contain.
    contains: Option<String>,
}

impl Claim {
    fn read(message: v1::VerifyThesisRequest, now_ms: i64) -> Result<Self> {
        let mut fields = Fields::default();
        fields.optional_length("handle", message.handle.as_deref(), 1..=64);
        fields.optional_length("profile_id", message.profile_id.as_deref(), 1..=64);
        if message.handle.is_some() == message.profile_id.is_some() {
            fields.reject("handle", "give exactly one of handle and profile_id");
        }
        fields.required("token", message.token.as_deref(), 1..=140);
        fields.optional_length("chain", message.chain.as_deref(), 1..=32);
        fields.optional_length("contains", message.contains.as_deref(), 0..=500);
        if message.created_after.is_none() {
            fields.reject("created_after", "is required");
        }
        let (from, to) = fields.window(message.created_after.as_ref(), message.created_before.as_ref());
        let from = from.unwrap_or_default();
        if to.is_none() && from > now_ms {
            fields.reject("created_after", "must not be later than now, where the window ends unless told");
        }
        fields.finish()?;
        let author = match message.handle {
            Some(handle) => ProfileReference::Handle(handle),
            None => ProfileReference::AnyId(message.profile_id.unwrap_or_default()),
        };
        let token = TokenReference::new(message.token.unwrap_or_default(), message.chain);
        Ok(Self { author, token, from, to: to.unwrap_or(now_ms), contains: message.contains })
    }
}

pub async fn verify_thesis(
    core: &Core,
    call: &Call,
    message: v1::VerifyThesisRequest,
) -> Result<v1::VerifyThesisResponse> {
    let wanted = message.receipt.unwrap_or_default().then(|| receipts::claim(&message));
    let claim = Claim::read(message, call.now_ms)?;
    call.charge().await?;
    let wanted = match wanted {
        Some(claim) => Some(WantedReceipt::begin(core, call, claim).await?),
        None => None,
    };
    let floor = call.history_floor(Some(claim.from))?;
    let (mut answer, mut token) = verify_rows(core, call, &claim, floor).await?;
    let is_missing = answer.reason() == v1::VerificationReason::ProfileNotFound;
    let mut again = is_missing && refresh::request_profile(core, call, &claim.author).await?;
    again |= token.is_none() && refresh::request_token(core, call, &claim.token).await?;
    if again {
        (answer, token) = verify_rows(core, call, &claim, floor).await?;
    }
    let is_fresh = !call.caller.key.live || answer.verified || claim.to < call.now_ms - RESYNC_MS;
    let mut served_from = v1::ServedFrom::Cache;
    if !is_fresh && resync(core, call, &claim, token.as_deref()).await? {
        served_from = v1::ServedFrom::LiveSync;
        (answer, token) = verify_rows(core, call, &claim, floor).await?;
    }
    answer.freshness = Some(v1::VerificationFreshness {
        checked_at: Some(from_millis(call.now_ms)),
        upstream_synced_at: synced_at(core, call, token.as_deref()).await?.map(from_millis),
        served_from: served_from.into(),
    });
    if let Some(wanted) = wanted {
        wanted.add_to(core, call, &mut answer).await?;
    }
    Ok(v1::VerifyThesisResponse { verification: Some(answer) })
}

/// A receipt or a statement that the caller wants.
struct WantedReceipt {
    claim: Value,
    /// The dataset whose checkpoint a statement names.
    dataset: Dataset,
    /// The newest checkpoint before the verdict, so that the verdict covers all of its entries.
    signed: SignedTree,
}

impl WantedReceipt {
    async fn begin(core: &Core, call: &Call, claim: Value) -> Result<Self> {
        let dataset = if call.caller.key.live { Dataset::Live } else { Dataset::Sandbox };
        let signed = receipts::checkpoint(core, &dataset).await?;
        Ok(Self { claim, dataset, signed })
    }

    /// Adds the receipt of a verified thesis, or the statement of any other verdict.
    async fn add_to(&self, core: &Core, call: &Call, answer: &mut v1::ThesisVerification) -> Result<()> {
        if let Some(id) = answer.thesis_id.as_deref().filter(|_| answer.verified) {
            let found = core.shared.theses.thesis(&call.caller.view, id).await?;
            let (dataset, thesis) = found.ok_or_else(|| missing(ErrorCode::ThesisNotFound, id))?;
            answer.receipt = Some(receipts::receipt(core, &dataset, &thesis).await?);
        } else {
            let statement = receipts::statement(core, &self.dataset, &self.signed, &self.claim, answer)?;
            answer.statement = Some(statement);
        }
        Ok(())
    }
}

/// Verifies a claim against the stored rows. Returns the token too.
async fn verify_rows(
    core: &Core,
    call: &Call,
    claim: &Claim,
    floor: Floor,
) -> Result<(v1::ThesisVerification, Option<Arc<Token>>)> {
    let mut answer = v1::ThesisVerification {
        checks: Some(v1::VerificationChecks {
            contains: claim.contains.as_ref().map(|_| false),
            ..v1::VerificationChecks::default()
        }),
        livemode: call.caller.key.live,
        ..v1::ThesisVerification::default()
    };
    let view = &call.caller.view;
    let reader = core.shared.theses.reader(view).await?;
    let profile = resolve::profile_id(&reader, view, &claim.author).await?;
    let token = match resolve::token(&reader, view, &claim.token).await {
        Ok(found) => found.map(|(_, token)| token),
        // A missing profile has precedence over an ambiguous token.
        Err(error) if profile.is_none() && error.api.code == ErrorCode::AmbiguousToken => None,
        Err(error) => return Err(error),
    };
    let reason = check_claim(&reader, view, claim, floor, profile, token.as_deref(), &mut answer).await?;
    answer.verified = reason == v1::VerificationReason::Verified;
    answer.reason = reason.into();
    Ok((answer, token))
}

/// Requests the latest theses of the token. Returns false if a connected feed makes that unnecessary. Fails with
/// `UPSTREAM_UNAVAILABLE` when neither can rule out that the thesis exists.
async fn resync(core: &Core, call: &Call, claim: &Claim, token: Option<&Token>) -> Result<bool> {
    let mut after_s = 60;
    if let Some(upstream) = refresh::upstream_for(core, call) {
        if let Some(token) = token {
            let token = Some(refresh::upstream_token(token));
            let resync = v1::Resync { token, since_ms: claim.from };
            match upstream.lookup(Thing::Resync(resync)).await {
                LookupOutcome::Found(_) => return Ok(true),
                LookupOutcome::Missing => {}
                LookupOutcome::Unavailable { after_s: seconds } => after_s = seconds,
            }
        }
        if upstream.feed().await.0 {
            return Ok(false);
        }
        if token.is_none() && claim.token.chain_and_address().is_some() {
            // A lookup has just found that the upstream has no such token.
            return Ok(true);
        }
    }
    if core.pushes.up_since().await?.is_some() {
        return Ok(false);
    }
    let text = "the upstream cannot be asked, and the window ended too recently to say no without it; try again later";
    Err(ApiError::new(ErrorCode::UpstreamUnavailable, text).with_retry_after(after_s).into())
}

/// Time at which the token was last up to date: its last lookup or the last frame of the feed, whichever is later.
async fn synced_at(core: &Core, call: &Call, token: Option<&Token>) -> Result<Option<i64>> {
    if !call.caller.key.live {
        return Ok(None);
    }
    let pushed = core.pushes.up_since().await?;
    let Some(upstream) = refresh::upstream_for(core, call) else { return Ok(pushed) };
    let synced = match token {
        Some(token) => upstream.synced_at(refresh::upstream_token(token)).await,
        None => None,
    };
    Ok(pushed.max(synced).max(upstream.feed().await.1))
}

async fn check_claim(
    reader: &RowReader<'_>,
    view: &View,
    claim: &Claim,
    floor: Floor,
    profile: Option<String>,
    token: Option<&Token>,
    answer: &mut v1::ThesisVerification,
) -> Result<v1::VerificationReason> {
    use v1::VerificationReason as Reason;

    let checks = answer.checks.get_or_insert_default();
    let Some(profile) = profile else { return Ok(Reason::ProfileNotFound) };
    answer.profile_id = Some(profile.clone());
    checks.identity = true;
    let Some(token) = token else { return Ok(Reason::TokenNotFound) };
    answer.token = Some(token.symbol.clone());
    checks.token = true;

    let posted = IndexScope::ProfileToken(profile.clone(), token.id.clone());
    let deleted = IndexScope::Deleted(profile, token.id.clone());
    let alive = newest_theses(reader, view, claim, floor, &posted).await?;
    checks.not_deleted = alive.seen.is_some();
    let is_posted = checks.not_deleted || has_any(reader, view, posted).await?;
    // A deletion moves a thesis from one list to the other. So the second list is read after the first, and from the
    // store: a cached one may be older than what was read before.
    let reader = &reader.direct();
    let gone = match alive.seen {
        Some(_) => NewestTheses::default(),
        None => newest_theses(reader, view, claim, floor, &deleted).await?,
    };
    checks.time_window = checks.not_deleted || gone.seen.is_some();
    checks.thesis_exists = is_posted || checks.time_window || has_any(reader, view, deleted).await?;
    if claim.contains.is_some() {
        checks.contains = Some(alive.matching.is_some());
    }
    let (reason, thesis) = match (alive.matching, alive.seen, gone.seen) {
        (Some(thesis), ..) => (Reason::Verified, thesis),
        (None, Some(thesis), _) => (Reason::TextNotFound, thesis),
        (None, None, Some(thesis)) => (Reason::ThesisDeleted, thesis),
        (None, None, None) => return Ok(Reason::NoThesisInWindow),
    };
    answer.thesis_id = Some(thesis.id.clone());
    answer.created_at = Some(from_millis(thesis.created_at));
    Ok(reason)
}

/// The newest theses of a scope in the window: any, and one whose text matches.
#[derive(Default)]
struct NewestTheses {
    seen: Option<Arc<Thesis>>,
    matching: Option<Arc<Thesis>>,
}

async fn newest_theses(
    reader: &RowReader<'_>,
    view: &View,
    claim: &Claim,
    floor: Floor,
    scope: &IndexScope,
) -> Result<NewestTheses> {
    let wanted = claim.contains.as_deref().map(default_fold);
    // Without a text to find, the newest row is enough.
    let page = if wanted.is_some() { PAGE } else { 1 };
    let slices = Slices { scopes: vec![scope.clone()], floor, to: claim.to, descending: true, as_of: None };
    let (mut found, mut after) = (NewestTheses::default(), None);
    // Rows come newest first, so the first match is the newest.
    while found.matching.is_none() {
        let rows = by_time(reader, view, &slices, after, page).await?;
        let Some(last) = rows.last() else { break };
        after = Some((last.created_at, last.id.clone()));
        let keys: Vec<(&str, &str)> = rows.iter().map(|row| (row.dataset.name(), row.id.as_str())).collect();
        let theses = reader.theses(&keys).await?.into_iter().flatten();
        for thesis in theses.filter(|thesis| !thesis.is_awaited()) {
            if wanted.as_ref().is_none_or(|wanted| default_fold(&thesis.text).contains(wanted)) {
                found.matching.get_or_insert_with(|| Arc::clone(&thesis));
            }
            found.seen.get_or_insert(thesis);
        }
        if rows.len() < page {
            break;
        }
    }
    Ok(found)
}

async fn has_any(reader: &RowReader<'_>, view: &View, scope: IndexScope) -> Result<bool> {
    let slices = Slices { scopes: vec![scope], floor: Floor::NONE, to: i64::MAX / 2, descending: true, as_of: None };
    Ok(!by_time(reader, view, &slices, None, 1).await?.is_empty())
}
