//! What people sign in with, and how the service writes to them.

pub mod attempts;
pub mod confirmations;
pub mod fields;
pub mod known;
pub mod mail;
pub mod passwords;
pub mod resets;
pub mod sessions;

use std::sync::Arc;

use self::{
    mail::{Mail, MailSettings},
    passwords::Passwords,
};
use crate::{
    domain::account::{Actor, User},
    error::Result,
};

/// Settings of accounts.
#[derive(Clone, Debug, Default)]
pub struct AccountSettings {
    /// Whether only who is invited may sign up.
    pub invited_only: bool,
    /// True if owners may then invite people without an account. Administrators always may.
    pub invites_strangers: bool,
    /// The URL at which people reach the service, without a slash at its end; links begin with it.
    pub public_url: String,
    /// How mail is sent; none to have links handed over.
    pub mail: Option<MailSettings>,
    /// Whether there is a link that makes the first administrator, while there is none.
    pub set_up: bool,
}

/// What people sign in with, and how the service writes to them.
pub struct Accounts {
    /// Hashes passwords.
    pub passwords: Passwords,
    /// Sends mail, if the service does.
    pub mail: Option<Mail>,
    /// Whether only who is invited may sign up.
    pub invited_only: bool,
    invites_strangers: bool,
    public_url: String,
}

/// A person who is signed in.
#[derive(Clone, Debug)]
pub struct Person {
    /// Who they are.
    pub user: Arc<User>,
    /// The id of their session.
    pub session_id: String,
    /// As whom they make changes.
    pub actor: Actor,
    /// When the call came; the one "now" of its answer.
    pub now_ms: i64,
}

impl Accounts {
    /// Takes the settings in.
    ///
    /// # Errors
    /// Fails if the settings of mail are wrong.
    pub fn new(settings: AccountSettings) -> Result<Self> {
        Ok(Self {
            passwords: Passwords::new(),
            mail: settings.mail.map(Mail::new).transpose()?,
            invited_only: settings.invited_only,
            invites_strangers: settings.invites_strangers,
            public_url: settings.public_url,
        })
    }

    /// True if an invitation by a user lets in people without an account.
    #[must_use]
    pub fn may_invite_strangers(&self, creator: Option<&User>) -> bool {
        !self.invited_only || self.invites_strangers || creator.is_some_and(|user| user.administrator)
    }

    /// The link that people open, with its token.
    #[must_use]
    pub fn link(&self, token: &str) -> String {
        format!("{}/console/links/{token}", self.public_url)
    }
}
