//! Verifications of theses.

use serde::Serialize;
use utoipa::ToSchema;

use super::{ServedFrom, Time, VerificationReason, constant, part};
use crate::v1;

/// Whether an identity posted a thesis on a token inside a window; never whether it was a good one.
#[derive(Debug, Serialize, ToSchema)]
pub struct ThesisVerification<'a> {
    #[schema(schema_with = constant::thesis_verification)]
    object: &'static str,
    /// Whether a thesis matches everything that was asked.
    verified: bool,
    /// Id of the profile; null when it was not found.
    #[schema(required)]
    profile_id: Option<&'a str>,
    /// Id of the newest thesis concerned; set for `VERIFIED`, `TEXT_NOT_FOUND` and `THESIS_DELETED`.
    #[schema(required)]
    thesis_id: Option<&'a str>,
    /// When that thesis was posted.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    created_at: Option<Time>,
    /// Symbol of the token.
    #[schema(required)]
    token: Option<&'a str>,
    /// The single checks.
    checks: VerificationChecks,
    /// Why it came out so: the first reason that applies.
    reason: VerificationReason,
    /// How fresh the data is.
    freshness: VerificationFreshness,
    /// True for live data, false for test data.
    livemode: bool,
}

impl<'a> From<&'a v1::ThesisVerification> for ThesisVerification<'a> {
    fn from(verification: &'a v1::ThesisVerification) -> Self {
        Self {
            object: "thesis_verification",
            verified: verification.verified,
            profile_id: verification.profile_id.as_deref(),
            thesis_id: verification.thesis_id.as_deref(),
            created_at: verification.created_at.as_ref().map(Time::from),
            token: verification.token.as_deref(),
            checks: part(&verification.checks),
            reason: VerificationReason::from(&verification.reason),
            freshness: part(&verification.freshness),
            livemode: verification.livemode,
        }
    }
}

/// The single checks of a verification; one not reached is false.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct VerificationChecks {
    /// The profile was found.
    identity: bool,
    /// The token was found.
    token: bool,
    /// One of the profile's theses on the token is in the window.
    time_window: bool,
    /// The profile ever posted on the token, deleted theses included.
    thesis_exists: bool,
    /// One of those in the window is not deleted.
    not_deleted: bool,
    /// Null when no text was asked for.
    #[schema(required)]
    contains: Option<bool>,
}

impl From<&v1::VerificationChecks> for VerificationChecks {
    fn from(checks: &v1::VerificationChecks) -> Self {
        Self {
            identity: checks.identity,
            token: checks.token,
            time_window: checks.time_window,
            thesis_exists: checks.thesis_exists,
            not_deleted: checks.not_deleted,
            contains: checks.contains,
        }
    }
}

/// How fresh a verification's data is.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct VerificationFreshness {
    /// When the check was made.
    #[schema(value_type = String, format = DateTime)]
    checked_at: Time,
    /// When the token's theses were last in step with the upstream, when known.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    upstream_synced_at: Option<Time>,
    /// Whether the upstream was asked for this check.
    served_from: ServedFrom,
}

impl From<&v1::VerificationFreshness> for VerificationFreshness {
    fn from(freshness: &v1::VerificationFreshness) -> Self {
        Self {
            checked_at: part(&freshness.checked_at),
            upstream_synced_at: freshness.upstream_synced_at.as_ref().map(Time::from),
            served_from: ServedFrom::from(&freshness.served_from),
        }
    }
}
