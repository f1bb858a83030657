//! The readable texts of a verification.

use prost_types::Timestamp;
use thesis_proto::v1::{self, ServedFrom, ThesisVerification, VerificationReason as Reason};

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// An earlier check failed.
    NotReached,
    /// The query had no text for this check.
    NotRequested,
}

impl Outcome {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "Passed",
            Self::Failed => "Failed",
            Self::NotReached => "Not reached",
            Self::NotRequested => "Not asked",
        }
    }

    /// The name of the icon beside the check.
    pub(super) const fn icon(self) -> &'static str {
        match self {
            Self::Passed => "circle-check",
            Self::Failed => "circle-x",
            Self::NotReached => "circle",
            Self::NotRequested => "circle-dashed",
        }
    }

    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Passed => "badge good",
            Self::Failed => "badge bad",
            Self::NotReached | Self::NotRequested => "badge",
        }
    }
}

/// A check with its outcome and an explanation.
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) about: &'static str,
}

pub(super) struct Verdict {
    pub(super) is_verified: bool,
    /// The result in one sentence.
    pub(super) summary: &'static str,
    pub(super) checks: Vec<Check>,
    /// The time of the found thesis.
    pub(super) posted: Option<Timestamp>,
    pub(super) checked: Option<Timestamp>,
    pub(super) synced: Option<Timestamp>,
    pub(super) served_from: &'static str,
}

/// The texts of a check for each outcome.
struct CheckText {
    name: &'static str,
    passed: &'static str,
    failed: &'static str,
}

/// The checks in their order. Each check needs the previous ones.
const CHECK_TEXTS: [CheckText; 6] = [
    CheckText { name: "Identity", passed: "The profile is known.", failed: "No profile has this handle or id." },
    CheckText {
        name: "Token",
        passed: "The token is known.",
        failed: "No token has this name, address or id, or none on this chain.",
    },
    CheckText {
        name: "Thesis exists",
        passed: "The profile has posted on the token. Deleted theses count.",
        failed: "The profile has never posted on the token.",
    },
    CheckText {
        name: "Time window",
        passed: "It posted inside the window.",
        failed: "It posted on the token, but never inside the window.",
    },
    CheckText {
        name: "Not deleted",
        passed: "A thesis inside the window is still there.",
        failed: "All theses inside the window were deleted.",
    },
    CheckText {
        name: "Contains",
        passed: "Its text contains what you asked for. Capital and small letters are alike.",
        failed: "No thesis inside the window contains the text.",
    },
];

fn checks(checks: v1::VerificationChecks) -> Vec<Check> {
    let held = [
        Some(checks.identity),
        Some(checks.token),
        Some(checks.thesis_exists),
        Some(checks.time_window),
        Some(checks.not_deleted),
        checks.contains,
    ];
    let mut has_failed = false;
    let check = |(text, held): (&CheckText, Option<bool>)| {
        let (outcome, about) = match held {
            None => (Outcome::NotRequested, "You gave no text."),
            Some(true) => (Outcome::Passed, text.passed),
            Some(false) if has_failed => (Outcome::NotReached, "A check before it failed."),
            Some(false) => (Outcome::Failed, text.failed),
        };
        has_failed |= outcome == Outcome::Failed;
        Check { name: text.name, outcome, about }
    };
    CHECK_TEXTS.iter().zip(held).map(check).collect()
}

const fn summary(reason: Reason) -> &'static str {
    match reason {
        Reason::Verified => "Verified: the profile posted such a thesis. The newest one is named below.",
        Reason::ProfileNotFound => "Not verified: there is no such profile.",
        Reason::TokenNotFound => "Not verified: there is no such token.",
        Reason::NoThesisInWindow => "Not verified: the profile posted no thesis on the token inside the window.",
        Reason::TextNotFound => {
            "Not verified: no thesis inside the window contains the text. The newest one without it is named below."
        }
        Reason::ThesisDeleted => "Not verified: the thesis inside the window was deleted.",
        Reason::Unspecified => "Not verified.",
    }
}

const fn source(served_from: ServedFrom) -> &'static str {
    match served_from {
        ServedFrom::LiveSync => "The platform, asked for this verification",
        ServedFrom::Cache => "What the service has stored",
        ServedFrom::Unspecified => "unknown",
    }
}

/// The id of the thesis in a verification, if the thesis can be read.
pub(super) fn readable(verification: &ThesisVerification) -> Option<&str> {
    verification.thesis_id.as_deref().filter(|_| verification.reason() != Reason::ThesisDeleted)
}

impl Verdict {
    pub(super) fn of(verification: &ThesisVerification) -> Self {
        let freshness = verification.freshness.unwrap_or_default();
        Self {
            is_verified: verification.verified,
            summary: summary(verification.reason()),
            checks: checks(verification.checks.unwrap_or_default()),
            posted: verification.created_at,
            checked: freshness.checked_at,
            synced: freshness.upstream_synced_at,
            served_from: source(freshness.served_from()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Outcome::{Failed, NotReached, NotRequested, Passed},
        *,
    };

    fn outcomes(held: [bool; 5], contains: Option<bool>) -> Vec<Outcome> {
        let [identity, token, thesis_exists, time_window, not_deleted] = held;
        let checked = v1::VerificationChecks { identity, token, time_window, thesis_exists, not_deleted, contains };
        checks(checked).into_iter().map(|check| check.outcome).collect()
    }

    #[test]
    fn the_first_failed_check_differs_from_later_ones() {
        let none = [false; 5];
        assert_eq!(outcomes(none, None), [Failed, NotReached, NotReached, NotReached, NotReached, NotRequested]);
        assert_eq!(outcomes(none, Some(false)), [Failed, NotReached, NotReached, NotReached, NotReached, NotReached]);
        let elsewhen = [true, true, true, false, false];
        assert_eq!(outcomes(elsewhen, Some(false)), [Passed, Passed, Passed, Failed, NotReached, NotReached]);
        assert_eq!(outcomes([true; 5], Some(false)), [Passed, Passed, Passed, Passed, Passed, Failed]);
        assert_eq!(outcomes([true; 5], Some(true)), [Passed; 6]);
        assert_eq!(outcomes([true; 5], None)[5], NotRequested);
    }

    #[test]
    fn a_deleted_thesis_has_no_page() {
        let verification = |reason: Reason| ThesisVerification {
            thesis_id: Some("th_1".to_owned()),
            reason: reason.into(),
            ..ThesisVerification::default()
        };
        assert_eq!(readable(&verification(Reason::TextNotFound)), Some("th_1"));
        assert_eq!(readable(&verification(Reason::ThesisDeleted)), None);
    }
}
