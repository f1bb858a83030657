//! Mails about changes to an account, so that its user notices a change that somebody else made.
//!
//! They go to confirmed e-mail addresses only, since an unconfirmed one may belong to a stranger. They contain no text
//! that a person chose.

use thesis_proto::time::format_millis;

use super::{
    Accounts,
    attempts::{self, NOTICES_OF_USER},
    mail::Letter,
};
use crate::{domain::account::User, shared::Shared};

/// The change that a mail reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    PasswordSet,
    KeyCreated { live: bool },
    FactorAdded,
    FactorRemoved,
    RecoveryCodesCreated,
    RecoveryCodeUsed,
    BecameAdministrator,
    NewDevice,
}

impl Notice {
    const fn subject(self) -> &'static str {
        match self {
            Self::PasswordSet => "Your password was changed",
            Self::KeyCreated { .. } => "An API key was created",
            Self::FactorAdded => "A second factor was added",
            Self::FactorRemoved => "A second factor was removed",
            Self::RecoveryCodesCreated => "New recovery codes were created",
            Self::RecoveryCodeUsed => "A recovery code was used",
            Self::BecameAdministrator => "You are an administrator",
            Self::NewDevice => "A sign-in from a new device",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::PasswordSet => "Your account has a new password.",
            Self::KeyCreated { live: true } => "A live API key was created with your account.",
            Self::KeyCreated { live: false } => "A test API key was created with your account.",
            Self::FactorAdded => "Your account has another second factor.",
            Self::FactorRemoved => "Your account has a second factor less.",
            Self::RecoveryCodesCreated => "Your account has new recovery codes. The old ones do not work any more.",
            Self::RecoveryCodeUsed => "Somebody signed in to your account with a recovery code.",
            Self::BecameAdministrator => "Your account has the rights of an administrator of this installation.",
            Self::NewDevice => "Somebody signed in to your account from a device that was not used for it before.",
        }
    }
}

/// Queues a notice. It is dropped if this installation sends no mail, or the user got too many today.
pub async fn post(accounts: &Accounts, shared: &Shared, user: &User, notice: Notice, address: Option<&str>) {
    let Some(mail) = accounts.mail.as_ref().filter(|_| user.is_confirmed()) else { return };
    if let Err(error) = attempts::reserve(shared, &NOTICES_OF_USER, &user.id).await {
        tracing::warn!(%error, "a notice was not sent");
        return;
    }
    let time = format_millis(shared.clock.now_ms());
    let text = format!(
        "{}\n\nTime: {} {} UTC\nAddress: {}\n\n\
         If it was you, there is nothing to do. If not, set a new password, which ends all sessions:\n\n{}\n\n\
         Then look at your sessions, second factors and keys.\n",
        notice.text(),
        &time[..10],
        &time[11..19],
        address.unwrap_or("unknown"),
        accounts.address_of("/console/forgot"),
    );
    mail.post(Letter::notice(&user.email, notice.subject(), text));
}
