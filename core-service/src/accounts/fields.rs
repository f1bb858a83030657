//! Rules of the fields that people fill in.

use std::ops::RangeInclusive;

use thesis_proto::error::{ApiError, FieldError};

use super::common_passwords::is_common;
use crate::{domain::account::PASSWORD_LENGTH, error::Result};

const EMAIL_LENGTH: RangeInclusive<usize> = 3..=254;
const NAME_LENGTH: RangeInclusive<usize> = 1..=200;

/// True if a character is safe in a text that others read: it neither controls a terminal nor changes the direction of
/// the text after it.
fn is_harmless(letter: char) -> bool {
    let turns = ['\u{200e}', '\u{200f}', '\u{061c}'].contains(&letter)
        || ('\u{202a}'..='\u{202e}').contains(&letter)
        || ('\u{2066}'..='\u{2069}').contains(&letter);
    !letter.is_control() && !turns
}

fn is_email(text: &str) -> bool {
    // True for an address that mail can reach, with a dot in its domain.
    let has_dot = text.rsplit_once('@').is_some_and(|(_, domain)| domain.contains('.'));
    has_dot
        && EMAIL_LENGTH.contains(&text.chars().count())
        && text
            .chars()
            .all(|letter| is_harmless(letter) && !letter.is_whitespace() && !"<>,;:\"()[]\\".contains(letter))
        && text.parse::<lettre::Address>().is_ok()
}

/// Returns the fault of an e-mail, if it has one. It ignores spaces around the e-mail.
pub fn email_fault(param: &str, text: &str) -> Option<FieldError> {
    (!is_email(text.trim())).then(|| FieldError::new(param, "must be an e-mail address such as name@example.com"))
}

fn length_fault(param: &str, text: &str, length: RangeInclusive<usize>) -> Option<FieldError> {
    let fault = || FieldError::new(param, format!("must have {} to {} characters", length.start(), length.end()));
    (!length.contains(&text.chars().count())).then(fault)
}

/// Returns the fault of a new password, if it has one.
pub fn password_fault(param: &str, text: &str) -> Option<FieldError> {
    let fault = || FieldError::new(param, "is one of the commonest passwords; choose one that nobody guesses");
    length_fault(param, text, PASSWORD_LENGTH).or_else(|| is_common(text).then(fault))
}

/// Returns the fault of a name, if it has one. It ignores spaces around the name.
pub fn name_fault(param: &str, text: &str) -> Option<FieldError> {
    let fault = || FieldError::new(param, "must not have control characters or ones that turn the text's direction");
    length_fault(param, text.trim(), NAME_LENGTH).or_else(|| (!text.chars().all(is_harmless)).then(fault))
}

/// Refuses a request with faults. The error lists them all.
pub fn refuse(faults: impl IntoIterator<Item = Option<FieldError>>) -> Result<()> {
    let faults: Vec<_> = faults.into_iter().flatten().collect();
    if faults.is_empty() { Ok(()) } else { Err(ApiError::validation(&faults).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_mails_have_a_name_and_a_domain_with_a_dot() {
        for right in ["a@b.c", " ada@example.com ", "a+b@mail.example.com", "ä@exämple.de"] {
            assert_eq!(email_fault("email", right), None, "{right}");
        }
        let long = format!("{}@example.com", "a".repeat(243));
        for wrong in [
            "",
            "a",
            "a@b",
            "@b.c",
            "a@.c",
            "a@b.",
            "a@b@c.d",
            "a b@c.d",
            "a@b.c\r\nBcc: d@e.f",
            "a,b@c.d",
            "a@b..c",
            &long,
        ] {
            assert!(email_fault("email", wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn passwords_have_12_to_128_characters_of_any_kind() {
        let fault = |length| {
            let text: String = "ßπ 🐝ünit ¿x".chars().chain(std::iter::repeat('ß')).take(length).collect();
            password_fault("password", &text).map(|fault| fault.message)
        };
        assert_eq!((fault(12), fault(128)), (None, None));
        let text = || Some("must have 12 to 128 characters".to_owned());
        assert_eq!((fault(11), fault(129)), (text(), text()));
    }

    #[test]
    fn the_commonest_passwords_are_refused() {
        let fault = password_fault("password", "aaaaaaaaaaaa").unwrap();
        assert!(fault.message.contains("commonest"), "{}", fault.message);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(name_fault("name", " Hive 🐝 ünit "), None);
        let long = "a".repeat(201);
        for wrong in ["", "  ", "a\nb", "\u{1b}[31mred", "a\u{202e}b", &long] {
            assert!(name_fault("name", wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn every_fault_is_listed() {
        let faults = [email_fault("email", ""), None, name_fault("organization_name", " ")];
        let error = refuse(faults).unwrap_err();
        assert_eq!(error.api.param.as_deref(), Some("email"));
        let params: Vec<_> = error.api.field_errors().map(|error| error.param).collect();
        assert_eq!(params, ["email", "organization_name"]);
    }
}
