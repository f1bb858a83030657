//! Sign-in of people, and mail to them.
//!
//! What a user signs in with is one partition of the conditional table `account` (`tables/account.rs`). A new password
//! is one transaction: it writes the password and removes all links, known networks and devices, and it ends all
//! sessions.
//!
//! An attempt is reserved before the hash and given back when it succeeds, so attempts at several cores together do not
//! pass the limit. An unknown e-mail costs the same time as a wrong password. Failures from unknown networks only slow
//! each other down, so strangers keep no user out of a network or device that signed in before (`known`).

pub mod attempts;
pub mod common_passwords;
pub mod confirmations;
pub mod factors;
pub mod fields;
pub mod known;
pub mod mail;
pub mod notices;
pub mod passwords;
pub mod resets;
pub mod sessions;

use std::sync::Arc;

use self::{
    factors::passkeys::PasskeySite,
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
    /// True if only invited people may sign up.
    pub invited_only: bool,
    /// True if owners may invite people without an account although sign-up is closed. Administrators always may.
    pub invites_strangers: bool,
    /// The URL at which people reach the service, without a slash at its end; links begin with it.
    pub public_url: String,
    /// The mail server; none if people hand over links themselves.
    pub mail: Option<MailSettings>,
    /// True if a link creates the first administrator while there is none.
    pub set_up: bool,
}

pub struct Accounts {
    pub passwords: Passwords,
    pub mail: Option<Mail>,
    /// True if only invited people may sign up.
    pub invited_only: bool,
    /// The relying party of passkeys; none where browsers allow no passkeys.
    pub passkey_site: Option<PasskeySite>,
    invites_strangers: bool,
    public_url: String,
}

/// A person who is signed in.
#[derive(Clone, Debug)]
pub struct Person {
    /// The user.
    pub user: Arc<User>,
    /// The id of their session.
    pub session_id: String,
    /// The actor of their changes.
    pub actor: Actor,
    /// Time of the call, which its whole response uses.
    pub now_ms: i64,
    /// The last time the user proved the password or a second factor in this session.
    pub confirmed_at: i64,
}

impl Accounts {
    pub fn new(settings: AccountSettings) -> Result<Self> {
        Ok(Self {
            passwords: Passwords::default(),
            mail: settings.mail.map(Mail::new).transpose()?,
            invited_only: settings.invited_only,
            passkey_site: PasskeySite::new(&settings.public_url),
            invites_strangers: settings.invites_strangers,
            public_url: settings.public_url,
        })
    }

    /// True if an invitation by this user admits people without an account.
    pub fn may_invite_strangers(&self, creator: Option<&User>) -> bool {
        !self.invited_only || self.invites_strangers || creator.is_some_and(|user| user.administrator)
    }

    /// The public address of a path.
    pub fn address_of(&self, path: &str) -> String {
        format!("{}{path}", self.public_url)
    }

    /// Builds the link that people open, with its token.
    pub fn link(&self, token: &str) -> String {
        format!("{}/console/links/{token}", self.public_url)
    }
}
