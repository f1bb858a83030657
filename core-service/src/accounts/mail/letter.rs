//! The letters that the service writes: plain text, with one link.

use lettre::{
    Address, Message,
    message::{
        Body, Mailbox,
        header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0},
    },
};
use sha2::{Digest as _, Sha256};

use crate::domain::{
    account::{INVITATION_MS, RESET_MS},
    window::{DAY_MS, HOUR_MS},
};

/// Most characters of a name in a letter.
const NAME: usize = 200;

/// A letter to a person.
#[derive(Clone)]
pub struct Letter {
    to: String,
    subject: &'static str,
    text: String,
}

impl Letter {
    /// Invites somebody to an organization.
    #[must_use]
    pub fn invitation(to: &str, organization_name: &str, link: &str) -> Self {
        // Its members choose the name: it stays on its line, between quotation marks.
        let name: String = organization_name.chars().map(|each| if each.is_control() { ' ' } else { each }).collect();
        let name: String = name.chars().take(NAME).collect();
        let text = format!(
            "You are invited to join this organization: \"{name}\".\n\n\
             Open this link to accept:\n\n{link}\n\n\
             The link works once, and for {} days. If you do not know the organization, ignore this letter.\n",
            INVITATION_MS / DAY_MS
        );
        Self { to: to.to_owned(), subject: "You are invited to an organization", text }
    }

    /// Lets somebody choose a new password.
    #[must_use]
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

    /// Tells somebody that an operator made an account for them.
    #[must_use]
    pub fn welcome(to: &str, link: &str) -> Self {
        let text = format!(
            "An account is ready for you.\n\n\
             Open this link to choose your password:\n\n{link}\n\n\
             The link works once, and for {} days.\n",
            INVITATION_MS / DAY_MS
        );
        Self { to: to.to_owned(), subject: "Your account is ready", text }
    }

    /// The domain that it goes to; all that may be logged of it.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.to.rsplit_once('@').map_or("", |(_, domain)| domain)
    }

    /// The message that is sent.
    pub(super) fn message(&self, from: &Mailbox) -> Result<Message, &'static str> {
        if self.to.chars().any(char::is_control) {
            return Err("its address cannot be used");
        }
        let to: Address = self.to.trim().parse().map_err(|_| "its address cannot be used")?;
        // The same for each try, so that a letter that comes twice is shown once.
        let digest = Sha256::new().chain_update(&self.to).chain_update(&self.text).finalize();
        let id = format!("<{}@{}>", &hex::encode(digest)[..32], from.email.domain());
        let body = if self.text.is_ascii() {
            // As it is, with links in one piece: no line is longer than mail allows.
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
