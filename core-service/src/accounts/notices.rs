//! Mails that tell a user what was done with their account, so that they notice what they did not do themselves.
//!
//! Only a confirmed e-mail gets them: nobody asked the holder of another one. They have no text that a person chose.

use thesis_proto::time::format_millis;

use super::{
    Accounts,
    attempts::{self, NOTICES_OF_USER},
    mail::Letter,
};
use crate::{domain::account::User, shared::Shared};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    PasswordSet,
    KeyCreated { live: bool },
    FactorAdded,
    FactorRemoved,
    RecoveryCodesCreated,
    RecoveryCodeUsed,
    AdministratorMade,
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
            Self::AdministratorMade => "You are an administrator",
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
            Self::AdministratorMade => "Your account has the rights of an administrator of this installation.",
            Self::NewDevice => "Somebody signed in to your account from a device that was not used for it before.",
        }
    }
}

/// Queues a notice. It is left out where no mail is sent, and for a user who has had many today.
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
