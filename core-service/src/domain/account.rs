//! People and their organizations. The control log holds all of it except passwords and sessions.

use thesis_proto::reference::default_fold;

use super::window::DAY_MS;

/// Lifetime of an invitation, in milliseconds.
pub const INVITATION_MS: i64 = 7 * DAY_MS;
/// Lifetime of a link for a new password, in milliseconds.
pub const RESET_MS: i64 = DAY_MS;
/// Lifetime of a link that confirms an e-mail, in milliseconds.
pub const CONFIRMATION_MS: i64 = DAY_MS;
/// Account age from which mails repeat texts of its user, in milliseconds.
pub const MIN_AGE_FOR_TEXTS_MS: i64 = DAY_MS;
/// Organizations that a user has founded and is still a member of.
pub const MAX_ORGANIZATIONS: usize = 5;
/// Unarchived projects of an organization.
pub const MAX_PROJECTS: usize = 20;
/// Unrevoked keys of a project.
pub const MAX_KEYS: usize = 50;
/// Open invitations of an organization.
pub const MAX_INVITATIONS: usize = 100;
/// Length of a password in characters.
pub const PASSWORD_LENGTH: std::ops::RangeInclusive<usize> = 12..=128;

/// A person who can sign in.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct User {
    /// `usr_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// E-mail, in the spelling of the user.
    #[prost(string, tag = "2")]
    pub email: String,
    /// True for an administrator of this installation.
    #[prost(bool, tag = "3")]
    pub administrator: bool,
    /// Unix milliseconds.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// Time at which the e-mail was confirmed, in Unix milliseconds; none before.
    #[prost(int64, optional, tag = "5")]
    pub email_confirmed_at: Option<i64>,
    /// True if the user has a second factor. At a sign-in the row of the factors decides, not this copy.
    #[prost(bool, tag = "6")]
    pub second_factor: bool,
}

impl User {
    /// True if the e-mail is confirmed.
    #[must_use]
    pub const fn is_confirmed(&self) -> bool {
        self.email_confirmed_at.is_some()
    }

    /// Returns the user with a confirmed e-mail. The time of an earlier confirmation stays.
    #[must_use]
    pub fn confirmed(&self, now_ms: i64) -> Self {
        Self { email_confirmed_at: self.email_confirmed_at.or(Some(now_ms)), ..self.clone() }
    }
}

/// Rights of a member: each role includes the rights of the one before. Numbers are those of `thesis.v1.Role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Role {
    /// Reads everything except the audit log.
    Viewer = 1,
    /// Creates projects and keys.
    Developer = 2,
    /// Decides who is a member.
    Owner = 3,
}

/// Membership of a user in an organization.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Member {
    /// The organization.
    #[prost(string, tag = "1")]
    pub organization_id: String,
    /// The user.
    #[prost(string, tag = "2")]
    pub user_id: String,
    /// Number of the [`Role`].
    #[prost(int32, tag = "3")]
    pub role: i32,
    /// Unix milliseconds.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// Number of its changes.
    #[prost(uint64, tag = "5")]
    pub revision: u64,
    /// True if the user founded the organization.
    #[prost(bool, tag = "6")]
    pub founder: bool,
}

impl Member {
    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        Role::try_from(self.role).unwrap_or(Role::Viewer)
    }
}

/// An invitation, or the link that creates the first administrator. It is deleted when it is used.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Invitation {
    /// `inv_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// The organization; none for a user without one.
    #[prost(string, optional, tag = "2")]
    pub organization_id: Option<String>,
    /// E-mail of the invited person; none in the set-up link, whose user chooses one.
    #[prost(string, optional, tag = "3")]
    pub email: Option<String>,
    /// Number of the [`Role`] in the organization.
    #[prost(int32, tag = "4")]
    pub role: i32,
    /// True if it creates an administrator.
    #[prost(bool, tag = "5")]
    pub administrator: bool,
    /// Unix milliseconds.
    #[prost(int64, tag = "6")]
    pub created_at: i64,
    /// Unix milliseconds; the set-up link lasts until there is an administrator.
    #[prost(int64, optional, tag = "7")]
    pub expires_at: Option<i64>,
    /// Id of the actor who created it.
    #[prost(string, tag = "8")]
    pub creator: String,
    /// True if its link went to the e-mail.
    #[prost(bool, tag = "9")]
    pub mailed: bool,
}

impl Invitation {
    /// True if only the holder of the e-mail, or a person for whom an operator vouches, has the link. An owner may hand
    /// a link to anybody.
    #[must_use]
    pub const fn proves_email(&self) -> bool {
        self.mailed || self.is_set_up() || self.organization_id.is_none()
    }

    /// True if it is valid at a time.
    #[must_use]
    pub fn is_open(&self, now_ms: i64) -> bool {
        self.expires_at.is_none_or(|end| now_ms < end)
    }

    /// True for the link that creates the first administrator.
    #[must_use]
    pub const fn is_set_up(&self) -> bool {
        self.email.is_none()
    }
}

/// An action for the audit log: actor, address and subject.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Act {
    /// Name of the action, such as `key.created`.
    #[prost(string, tag = "1")]
    pub action: String,
    /// A user's or a key's id, `operator` or `service`.
    #[prost(string, tag = "2")]
    pub actor: String,
    /// Address of the client.
    #[prost(string, optional, tag = "3")]
    pub address: Option<String>,
    /// The organization concerned, if one is.
    #[prost(string, optional, tag = "4")]
    pub organization_id: Option<String>,
    /// Id of the subject.
    #[prost(string, tag = "5")]
    pub subject: String,
    /// True if it was done in the name of this installation, not as a member.
    #[prost(bool, tag = "6")]
    pub by_administrator: bool,
    /// The reason that the actor gave, where the action asks for one.
    #[prost(string, optional, tag = "7")]
    pub reason: Option<String>,
    /// The hash of this entry and the one before it, for an entry of an organization that comes from the control log.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub chain: Option<Vec<u8>>,
}

/// The actor with the service credential.
pub const OPERATOR: &str = "operator";

/// The author of a change, with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// A user's or a key's id, `operator` or `service`.
    pub id: String,
    /// Address of the client.
    pub address: Option<String>,
    /// True for a person whose role in the organization decides. Others may do everything.
    pub is_member: bool,
}

impl Actor {
    /// The service itself.
    #[must_use]
    pub fn service() -> Self {
        Self { id: "service".to_owned(), address: None, is_member: false }
    }

    /// An operator with the service credential.
    #[must_use]
    pub fn operator(address: Option<String>) -> Self {
        Self { id: OPERATOR.to_owned(), address, is_member: false }
    }

    /// Builds an action of this actor. The caller adds organization and subject.
    #[must_use]
    pub fn does(&self, action: &str) -> Act {
        Act {
            action: action.to_owned(),
            actor: self.id.clone(),
            address: self.address.clone(),
            by_administrator: !self.is_member && self.id.starts_with("usr_"),
            ..Act::default()
        }
    }
}

impl Act {
    /// The act as members of the organization see it: without the name of an administrator, and without the address
    /// of an administrator or operator.
    #[must_use]
    pub fn for_members(mut self) -> Self {
        if self.by_administrator || self.actor == OPERATOR {
            self.address = None;
        }
        if self.by_administrator {
            "administrator".clone_into(&mut self.actor);
        }
        self
    }

    /// Sets the subject.
    #[must_use]
    pub fn to(self, subject: &str) -> Self {
        Self { subject: subject.to_owned(), ..self }
    }
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRow {
    /// Unix milliseconds.
    pub at: i64,
    /// Its own.
    pub id: String,
    /// The action.
    pub act: Act,
}

/// Requests of a key and class in an hour, of all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUsageRow {
    /// Start of the hour, in unix milliseconds.
    pub hour: i64,
    /// The key's id.
    pub key: String,
    /// Name of the class.
    pub class: String,
    /// All requests.
    pub requests: u64,
    /// Refused and failed requests.
    pub errors: u64,
}

/// Returns the form in which e-mails are compared.
#[must_use]
pub fn folded_email(email: &str) -> String {
    default_fold(email.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_open_for_seven_days() {
        assert_eq!(INVITATION_MS, 604_800_000);
        let invitation = |expires_at| Invitation { expires_at, ..Invitation::default() };
        assert!(invitation(Some(10)).is_open(9) && !invitation(Some(10)).is_open(10));
        assert!(invitation(None).is_open(i64::MAX), "the set-up link");
    }

    #[test]
    fn an_invitation_proves_the_email_unless_an_owner_may_hand_its_link_to_anybody() {
        let proves = |email: Option<&str>, organization: Option<&str>, mailed: bool| {
            let (email, organization_id) = (email.map(str::to_owned), organization.map(str::to_owned));
            Invitation { email, organization_id, mailed, ..Invitation::default() }.proves_email()
        };
        assert!(!proves(Some("ann@example.com"), Some("org_1"), false));
        assert!(proves(Some("ann@example.com"), Some("org_1"), true));
        assert!(proves(None, Some("org_1"), false));
        assert!(proves(Some("ann@example.com"), None, false));
    }

    #[test]
    fn the_first_confirmation_of_an_email_counts() {
        let user = User { id: "usr_1".to_owned(), ..User::default() };
        let confirmed = user.confirmed(5);
        assert_eq!((user.is_confirmed(), confirmed.is_confirmed()), (false, true));
        assert_eq!(confirmed.confirmed(9), confirmed);
        assert_eq!((confirmed.email_confirmed_at, confirmed.id), (Some(5), user.id));
    }

    #[test]
    fn only_a_person_who_acts_as_no_member_acts_for_the_installation() {
        let acts = |id: &str, is_member: bool| {
            let actor = Actor { id: id.to_owned(), address: Some("192.0.2.1".to_owned()), is_member };
            actor.does("key.created").to("key_1")
        };
        let act = acts("usr_1", false);
        assert!(
            act.by_administrator && !acts("usr_1", true).by_administrator && !acts("key_1", false).by_administrator
        );
        let expected = Act {
            action: "key.created".to_owned(),
            actor: "usr_1".to_owned(),
            address: Some("192.0.2.1".to_owned()),
            organization_id: None,
            subject: "key_1".to_owned(),
            by_administrator: true,
            reason: None,
            chain: None,
        };
        assert_eq!(act, expected);
        for (actor, id) in [(Actor::service(), "service"), (Actor::operator(None), "operator")] {
            assert_eq!((actor.id.as_str(), actor.is_member), (id, false));
        }
    }

    #[test]
    fn an_unknown_role_is_the_lowest() {
        let roles = [0, 1, 2, 3, 4].map(|role| Member { role, ..Member::default() }.role());
        assert_eq!(roles, [Role::Viewer, Role::Viewer, Role::Developer, Role::Owner, Role::Viewer]);
    }

    #[test]
    fn emails_are_compared_without_case_and_space() {
        assert_eq!(folded_email(" Ann@Example.COM "), "ann@example.com");
    }
}
