//! The credential of a person for public services.

use std::fmt;

/// The credential of a person for public services, in place of an API key: their session, in an environment of a
/// project. Its text replaces the id of a key. It is no secret: nobody can derive a token from the id of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberKey {
    pub user_id: String,
    pub session_id: String,
    pub project_id: String,
    /// True for its live environment.
    pub live: bool,
}

impl fmt::Display for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user_id, session_id, project_id, live } = self;
        let environment = if *live { "live" } else { "test" };
        write!(f, "{user_id}/{session_id}/{project_id}/{environment}")
    }
}

impl MemberKey {
    /// Parses the text; none for the id of an API key, which has no slash.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let &[user_id, session_id, project_id, environment] = parts.as_slice() else { return None };
        let (user_id, session_id, project_id) = (user_id.to_owned(), session_id.to_owned(), project_id.to_owned());
        Some(Self { user_id, session_id, project_id, live: environment == "live" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_text_can_be_read() {
        for live in [false, true] {
            let key = MemberKey {
                user_id: "usr_1".to_owned(),
                session_id: "ses_2".to_owned(),
                project_id: "prj_3".to_owned(),
                live,
            };
            assert_eq!(MemberKey::parse(&key.to_string()), Some(key));
        }
        assert_eq!(MemberKey::parse("key_0123"), None);
        assert_eq!(MemberKey::parse(""), None);
    }
}
