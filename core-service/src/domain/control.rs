//! The rows that operators and customers set up: organizations, projects, keys, webhooks, alerts. The control log holds
//! every change as the whole new row.

use super::{
    account::{Act, Invitation, Member, User},
    alert::Alert,
    window::{DAY_MS, HOUR_MS},
};

/// A customer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Organization {
    /// `org_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// For people to read.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Name of its plan.
    #[prost(string, tag = "3")]
    pub plan: String,
    /// Unix milliseconds.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// Number of its changes.
    #[prost(uint64, tag = "5")]
    pub revision: u64,
    /// True if its members need a second factor.
    #[prost(bool, tag = "6")]
    pub requires_second_factor: bool,
}

/// A project of an organization.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Project {
    /// `prj_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its organization.
    #[prost(string, tag = "2")]
    pub organization_id: String,
    /// For people to read.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Its live keys work.
    #[prost(bool, tag = "4")]
    pub live_approved: bool,
    /// Nothing of it works any more.
    #[prost(bool, tag = "5")]
    pub archived: bool,
    /// Unix milliseconds.
    #[prost(int64, tag = "6")]
    pub created_at: i64,
    /// Live deliveries created up to this time are cancelled: live access was withdrawn after them. Unix milliseconds.
    #[prost(int64, tag = "7")]
    pub live_cancelled_until: i64,
    /// Time of the open request for live access, in unix milliseconds; none once it is answered.
    #[prost(int64, optional, tag = "8")]
    pub live_requested_at: Option<i64>,
    /// Reason of the refusal, if the last request for live access was refused.
    #[prost(string, optional, tag = "9")]
    pub live_refusal: Option<String>,
    /// Number of its changes.
    #[prost(uint64, tag = "10")]
    pub revision: u64,
    /// The note of the last request for live access.
    #[prost(string, optional, tag = "11")]
    pub live_note: Option<String>,
    /// Time of the withdrawal, if that was the last decision about live access, in unix milliseconds.
    #[prost(int64, optional, tag = "12")]
    pub live_withdrawn_at: Option<i64>,
    /// The reason of the withdrawal.
    #[prost(string, optional, tag = "13")]
    pub live_withdrawal: Option<String>,
}

/// An API key. The raw key is not stored.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApiKey {
    /// `key_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its project.
    #[prost(string, tag = "2")]
    pub project_id: String,
    /// Live or test.
    #[prost(bool, tag = "3")]
    pub live: bool,
    /// For people to read.
    #[prost(string, tag = "4")]
    pub name: String,
    /// Display prefix.
    #[prost(string, tag = "5")]
    pub prefix: String,
    /// Keyed hash of the raw key.
    #[prost(bytes = "vec", tag = "6")]
    pub hash: Vec<u8>,
    /// Names of its scopes.
    #[prost(string, repeated, tag = "7")]
    pub scopes: Vec<String>,
    /// Unix milliseconds.
    #[prost(int64, tag = "8")]
    pub created_at: i64,
    /// Unix milliseconds.
    #[prost(int64, optional, tag = "9")]
    pub expires_at: Option<i64>,
    /// Unix milliseconds.
    #[prost(int64, optional, tag = "10")]
    pub revoked_at: Option<i64>,
    /// Networks from which the key may be sent. Empty: from anywhere.
    #[prost(string, repeated, tag = "11")]
    pub allowed_addresses: Vec<String>,
}

/// A webhook.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Webhook {
    /// `wh_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its project.
    #[prost(string, tag = "2")]
    pub project_id: String,
    /// Its environment.
    #[prost(bool, tag = "3")]
    pub live: bool,
    /// URL that receives its events.
    #[prost(string, tag = "4")]
    pub url: String,
    /// For people to read.
    #[prost(string, optional, tag = "5")]
    pub description: Option<String>,
    /// Numbers of the event types, each once.
    #[prost(int32, repeated, tag = "6")]
    pub events: Vec<i32>,
    /// Filter by token.
    #[prost(string, repeated, tag = "7")]
    pub tokens: Vec<String>,
    /// Filter by handle.
    #[prost(string, repeated, tag = "8")]
    pub handles: Vec<String>,
    /// Filter by chain.
    #[prost(string, repeated, tag = "9")]
    pub chains: Vec<String>,
    /// Number of the status.
    #[prost(int32, tag = "10")]
    pub status: i32,
    /// The signing secret, encrypted.
    #[prost(bytes = "vec", tag = "11")]
    pub secret: Vec<u8>,
    /// Display prefix of the secret.
    #[prost(string, tag = "12")]
    pub secret_prefix: String,
    /// Unix milliseconds.
    #[prost(int64, tag = "13")]
    pub created_at: i64,
    /// Unix milliseconds.
    #[prost(int64, tag = "14")]
    pub updated_at: i64,
    /// The secret before the last rotation, encrypted; it also signs until [`Self::old_secret_until`].
    #[prost(bytes = "vec", optional, tag = "15")]
    pub old_secret: Option<Vec<u8>>,
    /// Unix milliseconds.
    #[prost(int64, tag = "16")]
    pub old_secret_until: i64,
    /// Time since which it is disabled, in unix milliseconds; none while it is enabled.
    #[prost(int64, optional, tag = "17")]
    pub disabled_at: Option<i64>,
    /// Deliveries of events created up to this time are cancelled: it was enabled too late for them. Unix milliseconds.
    #[prost(int64, tag = "18")]
    pub cancelled_until: i64,
    /// Start of the last time span in which it was disabled, in unix milliseconds. Events of this span are never
    /// delivered, even if the fan-out comes to them later. 0 if it was never enabled again.
    #[prost(int64, tag = "19")]
    pub last_disabled_from: i64,
    /// End of that time span.
    #[prost(int64, tag = "20")]
    pub last_disabled_until: i64,
    /// The customer's own headers. Each name occurs once.
    #[prost(message, repeated, tag = "21")]
    pub headers: Vec<WebhookHeader>,
    /// Number of the payload's kind; 0 means full.
    #[prost(int32, tag = "22")]
    pub payload: i32,
    /// Filter by text.
    #[prost(string, repeated, tag = "23")]
    pub texts: Vec<String>,
    /// Time at which the endpoint of this URL answered a test, in unix milliseconds, if it had to.
    #[prost(int64, optional, tag = "24")]
    pub verified_at: Option<i64>,
}

/// A header that a customer gave to a webhook.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WebhookHeader {
    /// The name in the customer's spelling.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The value, encrypted.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

impl Webhook {
    /// Deliveries wait this long for a disabled webhook, and an old secret signs this long after a rotation, in
    /// milliseconds.
    pub const GRACE_PERIOD_MS: i64 = DAY_MS;

    /// The status that sends, as a number of `thesis.v1.WebhookStatus`.
    pub const ENABLED: i32 = 1;

    /// The payload without the event's data, as the number in `thesis.v1.WebhookPayload`.
    pub const THIN: i32 = 2;

    /// True if it gets events.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.status == Self::ENABLED
    }

    /// True if its deliveries leave out the event's data.
    #[must_use]
    pub const fn is_thin(&self) -> bool {
        self.payload == Self::THIN
    }

    /// Returns the `updated_at` of a change: always later than the one before, so that each change has its own.
    #[must_use]
    pub fn next_update(&self, now_ms: i64) -> i64 {
        now_ms.max(self.updated_at + 1)
    }

    /// Sets the status by its number. Enabling a webhook after a long time cancels its pending deliveries.
    pub fn set_status(&mut self, status: i32, now_ms: i64) {
        if status == Self::ENABLED {
            if let Some(at) = self.disabled_at.take() {
                (self.last_disabled_from, self.last_disabled_until) = (at, now_ms);
                if now_ms - at >= Self::GRACE_PERIOD_MS {
                    // What waited is about a day old, and the clock of a core that creates new events may be behind.
                    self.cancelled_until = now_ms - HOUR_MS;
                }
            }
        } else {
            self.disabled_at.get_or_insert(now_ms);
        }
        self.status = status;
    }
}

/// Time at which the fixtures of the sandbox were first created. Their ages count from here.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SandboxSeed {
    /// Unix milliseconds.
    #[prost(int64, tag = "1")]
    pub at: i64,
}

/// Several changes, without nested lists.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeList {
    /// Changes without an action of their own.
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<ControlEntry>,
}

/// One entry of the control log.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ControlEntry {
    /// Unix milliseconds.
    #[prost(int64, tag = "1")]
    pub created_at: i64,
    /// The new row.
    #[prost(oneof = "ControlChange", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15")]
    pub change: Option<ControlChange>,
    /// The action for the audit log.
    #[prost(message, optional, tag = "20")]
    pub act: Option<Act>,
}

/// A new row, or a deletion.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ControlChange {
    /// An organization.
    #[prost(message, tag = "2")]
    Organization(Organization),
    /// A project.
    #[prost(message, tag = "3")]
    Project(Project),
    /// A key.
    #[prost(message, tag = "4")]
    ApiKey(ApiKey),
    /// A webhook.
    #[prost(message, tag = "5")]
    Webhook(Webhook),
    /// The id of a deleted webhook.
    #[prost(string, tag = "6")]
    WebhookDeleted(String),
    /// The sandbox was filled.
    #[prost(message, tag = "7")]
    SandboxSeed(SandboxSeed),
    /// A user.
    #[prost(message, tag = "8")]
    User(User),
    /// A member of an organization.
    #[prost(message, tag = "9")]
    Member(Member),
    /// `organization/user` of a removed member.
    #[prost(string, tag = "10")]
    MemberGone(String),
    /// An invitation.
    #[prost(message, tag = "11")]
    Invitation(Invitation),
    /// The id of an invitation that is used or withdrawn.
    #[prost(string, tag = "12")]
    InvitationGone(String),
    /// Several changes, all or none.
    #[prost(message, tag = "13")]
    Several(ChangeList),
    /// An alert.
    #[prost(message, tag = "14")]
    Alert(Alert),
    /// The id of a deleted alert.
    #[prost(string, tag = "15")]
    AlertDeleted(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_for_a_day_is_cancelled_when_a_webhook_is_enabled() {
        const DISABLED: i32 = 2;
        let at = 10 * DAY_MS;
        for (disabled_for, cancelled_until) in [(DAY_MS - 1, 0), (DAY_MS, at + DAY_MS - HOUR_MS)] {
            let mut webhook = Webhook { status: Webhook::ENABLED, ..Webhook::default() };
            webhook.set_status(DISABLED, at);
            webhook.set_status(DISABLED, at + 5);
            assert_eq!((webhook.is_enabled(), webhook.disabled_at), (false, Some(at)));
            let now_ms = at + disabled_for;
            webhook.set_status(Webhook::ENABLED, now_ms);
            assert_eq!((webhook.is_enabled(), webhook.disabled_at), (true, None));
            assert_eq!((webhook.last_disabled_from, webhook.last_disabled_until), (at, now_ms));
            assert_eq!(webhook.cancelled_until, cancelled_until);
            let before = webhook.clone();
            webhook.set_status(Webhook::ENABLED, now_ms + 1);
            assert_eq!(webhook, before, "it was enabled already");
        }
    }

    #[test]
    fn each_change_of_a_webhook_has_a_later_time() {
        let webhook = Webhook { updated_at: 10, ..Webhook::default() };
        assert_eq!([9, 10, 11, 12].map(|now_ms| webhook.next_update(now_ms)), [11, 11, 11, 12]);
    }
}
