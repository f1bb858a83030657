//! The settings of accounts and mail.

use clap::{ArgAction, Args, ValueEnum};
use core_service::{AccountSettings, MailSettings};
use secrecy::SecretString;

use super::Refused;

/// The rule for sign-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SignUp {
    /// Anyone
    Open,
    /// Who was invited
    Invited,
}

/// People's accounts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accounts")]
pub(crate) struct Accounts {
    /// Who may sign up
    #[arg(long, env = "SVC_SIGN_UP", value_enum, default_value_t = SignUp::Open)]
    sign_up: SignUp,
    /// With SVC_SIGN_UP=invited owners may invite people who have no account; otherwise administrators alone may
    #[arg(long, env = "SVC_INVITE_STRANGERS", value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    invite_strangers: bool,
    // Checked below: the command line's parser would print a wrong one, which may hold credentials.
    /// The server that sends mail: smtp://host:port, or smtps://user:password@host:port for TLS from the beginning
    /// [default: none; links are shown to be handed over]
    #[arg(long, env = "SVC_SMTP_URL", value_name = "URL")]
    smtp_url: Option<SecretString>,
    /// The sender of mail, such as `Theses <noreply@example.com>`; required beside SVC_SMTP_URL [default: none]
    #[arg(long, env = "SVC_MAIL_FROM", value_name = "ADDRESS")]
    mail_from: Option<String>,
}

impl Accounts {
    /// The settings for core, but for the address at which people reach the service; `set_up` is true if the start
    /// makes the link for the first administrator.
    pub(crate) fn settings(&self, set_up: bool) -> Result<AccountSettings, Refused> {
        let invited_only = self.sign_up == SignUp::Invited;
        let invites_strangers = self.invite_strangers;
        Ok(AccountSettings { invited_only, invites_strangers, public_url: String::new(), mail: self.mail()?, set_up })
    }

    fn mail(&self) -> Result<Option<MailSettings>, Refused> {
        match (&self.smtp_url, &self.mail_from) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(Refused::new("SVC_MAIL_FROM", "is not set, but is required beside SVC_SMTP_URL")
                .remedy("set it to the sender, such as `Theses <noreply@example.com>`, or unset SVC_SMTP_URL")),
            (None, Some(_)) => Err(Refused::new("SVC_SMTP_URL", "is not set, but is required beside SVC_MAIL_FROM")
                .remedy("set it to the mail server, such as smtp://mail.example.com:25, or unset SVC_MAIL_FROM")),
            (Some(url), Some(from)) => {
                let settings = MailSettings::new(url.clone(), from.clone());
                settings.map(Some).map_err(|(setting, reason)| match setting {
                    "SVC_MAIL_FROM" => unusable_sender(from, reason),
                    _ => Refused::new(setting, reason),
                })
            }
        }
    }
}

/// Tells that nobody of this form can send mail.
fn unusable_sender(from: &str, form: &str) -> Refused {
    // The value is a URL, so it belongs to another setting, and may hold credentials.
    let value = if from.contains("://") { "its value".to_owned() } else { format!("`{from}`") };
    Refused::new("SVC_MAIL_FROM", format!("{value} is no sender: {form}"))
        .remedy("set it to the sender, such as `Theses <noreply@example.com>`")
}
