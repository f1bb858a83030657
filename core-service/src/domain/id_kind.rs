//! The kinds of ids, and the errors for an id of the wrong kind.

use thesis_proto::error::{ApiError, ErrorCode};

/// Minimum number of characters of an id behind its prefix.
const MIN_ID_CHARS: usize = 24;

pub(crate) struct IdKind {
    pub(crate) prefix: &'static str,
    /// The error for an unknown object of the kind.
    pub(crate) code: ErrorCode,
    name: &'static str,
    /// The request with which a customer reads an object.
    request: &'static str,
    /// The command with which an operator lists the objects, if there is one.
    command: Option<&'static str>,
}

/// Every kind whose ids callers send.
pub(crate) static KINDS: [IdKind; 10] = [
    kind("th_", ErrorCode::ThesisNotFound, "a thesis", "read it with GET /v1/theses/{id}"),
    kind("fp_", ErrorCode::ProfileNotFound, "a profile", "read it with GET /v1/profiles/{ref}"),
    kind("tk_", ErrorCode::TokenNotFound, "a token", "read it with GET /v1/tokens/{ref}"),
    kind("evt_", ErrorCode::EventNotFound, "an event", "read it with GET /v1/events/{id}"),
    kind("wh_", ErrorCode::WebhookNotFound, "a webhook", "read it with GET /v1/webhooks/{id}")
        .listed_with("list a project's with `trade-thesis admin webhook list --project ID`"),
    kind("al_", ErrorCode::AlertNotFound, "an alert", "read it with GET /v1/alerts/{id}"),
    kind("del_", ErrorCode::DeliveryNotFound, "a delivery", "find it with GET /v1/webhooks/{id}/deliveries"),
    kind("org_", ErrorCode::OrganizationNotFound, "an organization", "read your own with GET /v1/me")
        .listed_with("list them with `trade-thesis admin organization list`"),
    kind("prj_", ErrorCode::ProjectNotFound, "a project", "read your own with GET /v1/me")
        .listed_with("list them with `trade-thesis admin project list`"),
    kind("key_", ErrorCode::KeyNotFound, "an API key", "read your own with GET /v1/me")
        .listed_with("list a project's with `trade-thesis admin key list --project ID`"),
];

const fn kind(prefix: &'static str, code: ErrorCode, name: &'static str, request: &'static str) -> IdKind {
    IdKind { prefix, code, name, request, command: None }
}

impl IdKind {
    const fn listed_with(self, command: &'static str) -> Self {
        Self { command: Some(command), ..self }
    }
}

/// The kind of an id, by its form. The object need not exist.
fn kind_of(given: &str) -> Option<&'static IdKind> {
    let is_id = |kind: &&IdKind| {
        let rest = given.strip_prefix(kind.prefix).unwrap_or_default();
        rest.len() >= MIN_ID_CHARS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    KINDS.iter().find(is_id)
}

/// The error for a customer who sent an id of another kind than the code's; none for other texts.
pub(crate) fn mistaken(code: ErrorCode, given: &str) -> Option<ApiError> {
    let kind = kind_of(given).filter(|kind| kind.code != code)?;
    Some(ApiError::new(code, format!("{}… is the id of {}; {}", kind.prefix, kind.name, kind.request)))
}

/// The error for an operator who names an unknown object of the code's kind. It names the command that lists the
/// existing ones.
pub(crate) fn unknown_to_operator(code: ErrorCode, given: &str) -> ApiError {
    let wanted = KINDS.iter().find(|kind| kind.code == code);
    let (name, advice) = wanted.map_or(("a thing", None), |kind| (kind.name, kind.command));
    let fault = match kind_of(given).filter(|kind| kind.code != code) {
        Some(other) => format!("{}… is the id of {}, and this needs {name}'s", other.prefix, other.name),
        None => format!("there is no such {}", name.trim_start_matches("an ").trim_start_matches("a ")),
    };
    let advice = advice.unwrap_or("see `trade-thesis admin --help`");
    ApiError::new(code, format!("{fault}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdefghjkmnpq";

    #[test]
    fn operators_learn_the_command_that_lists() {
        let message = |code, given: &str| {
            let error = unknown_to_operator(code, given);
            assert_eq!((error.code, &error.param), (code, &None));
            error.message
        };
        let list = "list them with `trade-thesis admin organization list`";
        for given in ["org_unknown", "", "prj_x", &format!("org_{ID}"), &format!("usr_{ID}")] {
            let text = message(ErrorCode::OrganizationNotFound, given);
            assert_eq!(text, format!("there is no such organization; {list}"), "{given}");
        }
        let text = message(ErrorCode::OrganizationNotFound, &format!("prj_{ID}"));
        assert_eq!(text, format!("prj_… is the id of a project, and this needs an organization's; {list}"));
        for (code, what, command) in [
            (ErrorCode::ProjectNotFound, "project", "`trade-thesis admin project list`"),
            (ErrorCode::KeyNotFound, "API key", "`trade-thesis admin key list --project ID`"),
            (ErrorCode::WebhookNotFound, "webhook", "`trade-thesis admin webhook list --project ID`"),
        ] {
            let text = message(code, "x");
            assert!(text.starts_with(&format!("there is no such {what}; ")) && text.ends_with(command), "{text}");
        }
    }

    #[test]
    fn customers_learn_where_a_thing_of_another_kind_is_read() {
        for kind in &KINDS {
            let id = format!("{}{ID}", kind.prefix);
            assert!(mistaken(kind.code, &id).is_none(), "{id}");
            let message = mistaken(ErrorCode::InvitationNotFound, &id).expect("it is of another kind").message;
            assert!(message.starts_with(kind.prefix) && message.ends_with(kind.request), "{message}");
        }
        // A handle may begin like an id.
        assert!(mistaken(ErrorCode::ProfileNotFound, "th_alice").is_none());
    }
}
