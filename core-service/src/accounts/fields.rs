//! The rules of the fields of people.

use std::ops::RangeInclusive;

use thesis_proto::error::{ApiError, FieldError};

use crate::{domain::account::PASSWORD_LENGTH, error::Result};

/// Fewest and most characters of an e-mail.
const EMAIL_LENGTH: RangeInclusive<usize> = 3..=254;
/// Fewest and most characters of a name.
const NAME_LENGTH: RangeInclusive<usize> = 1..=200;

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    EMAIL_LENGTH.contains(&text.chars().count())
        && !text.chars().any(|letter| letter.is_whitespace() || letter.is_control())
        && !local.is_empty()
        && !domain.contains('@')
        && domain.trim_matches('.') == domain
        && domain.contains('.')
}

/// What is wrong with an e-mail, if anything is. Spaces around it do not count.
#[must_use]
pub fn email_fault(param: &str, text: &str) -> Option<FieldError> {
    (!is_email(text.trim())).then(|| FieldError::new(param, "must be an e-mail address such as name@example.com"))
}

fn length_fault(param: &str, text: &str, length: RangeInclusive<usize>) -> Option<FieldError> {
    let fault = || FieldError::new(param, format!("must have {} to {} characters", length.start(), length.end()));
    (!length.contains(&text.chars().count())).then(fault)
}

/// What is wrong with a new password, if anything is.
#[must_use]
pub fn password_fault(param: &str, text: &str) -> Option<FieldError> {
    length_fault(param, text, PASSWORD_LENGTH)
}

/// What is wrong with a name, if anything is.
#[must_use]
pub fn name_fault(param: &str, text: &str) -> Option<FieldError> {
    // Spaces alone are none.
    length_fault(param, if text.trim().is_empty() { "" } else { text }, NAME_LENGTH)
}

/// Refuses a request with faults.
///
/// # Errors
/// `VALIDATION_FAILED`, which lists them all.
pub fn refuse<const N: usize>(faults: [Option<FieldError>; N]) -> Result<()> {
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
        for wrong in ["", "a", "a@b", "@b.c", "a@.c", "a@b.", "a@b@c.d", "a b@c.d", "a@b.c\r\nBcc: d@e.f", &long] {
            assert!(email_fault("email", wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn passwords_have_12_to_128_characters_of_any_kind() {
        let fault = |length| password_fault("password", &"ß".repeat(length)).map(|fault| fault.message);
        assert_eq!((fault(12), fault(128)), (None, None));
        let text = || Some("must have 12 to 128 characters".to_owned());
        assert_eq!((fault(11), fault(129)), (text(), text()));
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
