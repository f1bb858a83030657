//! The mails that the service writes: plain text, with one link of the service.

use lettre::{
    Address, Message,
    message::{
        Body, Mailbox,
        header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0},
    },
};
use sha2::{Digest as _, Sha256};

use crate::domain::{
    account::{CONFIRMATION_MS, INVITATION_MS, RESET_MS},
    window::{DAY_MS, HOUR_MS},
};

/// Characters of a name in a mail.
const NAME: usize = 200;
/// Characters that mail programs and browsers read as the dot of a host.
const DOTS: [char; 6] = ['.', '\u{2024}', '\u{3002}', '\u{fe52}', '\u{ff0e}', '\u{ff61}'];

/// True if a mail program could turn a part of a name into a link: a URL, a host or an address. A dot belongs to a host
/// unless it ends a word, since programs ignore invisible characters.
fn has_link(name: &str) -> bool {
    let mut pairs = name.chars().zip(name.chars().skip(1));
    let has_host = pairs.any(|(dot, next)| DOTS.contains(&dot) && !next.is_whitespace());
    has_host || name.contains(['/', '\\', ':', '@'])
}

/// A mail to a person.
#[derive(Clone)]
pub struct Letter {
    to: String,
    subject: &'static str,
    text: String,
}

impl Letter {
    /// Invites somebody to an organization. The mail has the name of the organization, if it is given and does not look
    /// like a link.
    pub fn invitation(to: &str, organization_name: Option<&str>, link: &str) -> Self {
        // Members choose the name, so it stays on its line, in quotation marks.
        let plain = |name: &str| {
            let shown = name.chars().map(|each| if each.is_control() || each == '"' { ' ' } else { each });
            shown.take(NAME).collect::<String>()
        };
        let name = organization_name.filter(|name| !has_link(name)).map(plain);
        let invitation =
            name.map_or_else(|| "an organization".to_owned(), |name| format!("this organization: \"{name}\""));
        let text = format!(
            "You are invited to join {invitation}.\n\n\
             Open this link to accept:\n\n{link}\n\n\
             The link works once, and for {} days. If you do not know the organization, ignore this letter.\n",
            INVITATION_MS / DAY_MS
        );
        Self { to: to.to_owned(), subject: "You are invited to an organization", text }
    }

    /// Builds a mail with a link to choose a new password.
    pub fn reset(to: &str, link: &str) -> Self {
        let text = format!(
            "Somebody asked for a new password for your account.\n\n\
             Open this link to choose one:\n\n{link}\n\n\
             The link works once, and for {} hours. If you did not ask for it, ignore this letter: your password stays as \
             it is.\n",
            RESET_MS / HOUR_MS
        );
        Self { to: to.to_owned(), subject: "Choose a new password", text }
    }

    /// Builds a mail with a link that confirms the e-mail of a new account.
    pub fn confirmation(to: &str, link: &str) -> Self {
        let text = format!(
            "Somebody signed up with your e-mail.\n\n\
             If that was you, open this link to confirm your e-mail:\n\n{link}\n\n\
             The link works for {} hours. If it was not you, do not open it, and ignore this letter.\n",
            CONFIRMATION_MS / HOUR_MS
        );
        Self { to: to.to_owned(), subject: "Confirm your e-mail", text }
    }

    /// Builds a mail about an account that an operator created.
    pub fn welcome(to: &str, link: &str) -> Self {
        let text = format!(
            "An account is ready for you.\n\n\
             Open this link to choose your password:\n\n{link}\n\n\
             The link works once, and for {} days.\n",
            INVITATION_MS / DAY_MS
        );
        Self { to: to.to_owned(), subject: "Your account is ready", text }
    }

    /// Builds a mail about a change to the account.
    pub fn notice(to: &str, subject: &'static str, text: String) -> Self {
        Self { to: to.to_owned(), subject, text }
    }

    /// Returns the domain of the address, the only part that may be logged.
    pub fn domain(&self) -> &str {
        self.to.rsplit_once('@').map_or("", |(_, domain)| domain)
    }

    /// Builds the message to send.
    pub(super) fn message(&self, from: &Mailbox) -> Result<Message, &'static str> {
        if self.to.chars().any(char::is_control) {
            return Err("its address cannot be used");
        }
        let to: Address = self.to.trim().parse().map_err(|_| "its address cannot be used")?;
        // Each attempt has the same id, so that a mail program shows a mail once that arrives twice.
        let digest = Sha256::new().chain_update(&self.to).chain_update(&self.text).finalize();
        let id = format!("<{}@{}>", &hex::encode(digest)[..32], from.email.domain());
        let body = if self.text.is_ascii() {
            // The text is sent unencoded, with links in one piece: no line is longer than mail allows.
            let lines = self.text.replace('\n', "\r\n").into_bytes();
            Body::dangerous_pre_encoded(lines, ContentTransferEncoding::SevenBit)
        } else {
            Body::new(self.text.clone())
        };
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        Message::builder()
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(self.subject)
            .message_id(Some(id))
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .header(MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN)
            .body(body)
            .map_err(|_| "its headers cannot be written")
    }
}
