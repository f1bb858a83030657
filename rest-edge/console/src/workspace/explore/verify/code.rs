//! A verification as code that sends the same request to the API.

use serde_json::{Map, Value};
use thesis_proto::{
    time::{format_millis, to_millis},
    v1,
};

pub(super) struct RequestCode {
    pub(super) shell: String,
    pub(super) python: String,
}

/// The body of the request. All its values are texts, which Python writes as JSON does.
fn body(message: &v1::VerifyThesisRequest) -> String {
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().map(|at| format_millis(to_millis(at)));
    let fields = [
        ("handle", message.handle.clone()),
        ("profile_id", message.profile_id.clone()),
        ("token", message.token.clone()),
        ("chain", message.chain.clone()),
        ("created_after", time(&message.created_after)),
        ("created_before", time(&message.created_before)),
        ("contains", message.contains.clone()),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?))));
    format!("{:#}", Value::Object(given.collect::<Map<_, _>>()))
}

impl RequestCode {
    pub(super) fn of(message: &v1::VerifyThesisRequest, public_url: &str) -> Self {
        let body = body(message);
        // In a shell, `'\''` ends the quoted text, adds a quotation mark, and opens the quotes again.
        let quoted = body.replace('\'', r"'\''");
        let shell = format!(
            "curl -sS -H \"Authorization: Bearer $API_KEY\" -H 'Content-Type: application/json' \\\n  \
             -d '{quoted}' \\\n  \"{public_url}/v1/verify/thesis\""
        );
        let indented = body.replace('\n', "\n    ");
        let python = format!(
            "import os\n\nimport httpx\n\nresponse = httpx.post(\n    \"{public_url}/v1/verify/thesis\",\n    \
             headers={{\"Authorization\": f\"Bearer {{os.environ['API_KEY']}}\"}},\n    json={indented},\n)\n\
             print(response.json())"
        );
        Self { shell, python }
    }
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    #[test]
    fn the_code_has_the_fields_of_the_verification() {
        let message = v1::VerifyThesisRequest {
            handle: Some("@ada".to_owned()),
            token: Some("$RUN".to_owned()),
            created_after: Some(from_millis(1_795_442_700_000)),
            contains: Some("it's \"so\"".to_owned()),
            ..v1::VerifyThesisRequest::default()
        };
        let code = RequestCode::of(&message, "https://a.example");
        let created_after = r#""created_after": "2026-11-23T14:05:00.000Z""#;
        assert!(code.shell.contains(created_after) && code.python.contains(created_after));
        assert!(code.shell.contains(r#""contains": "it'\''s \"so\"""#), "{}", code.shell);
        assert!(code.python.contains(r#""contains": "it's \"so\"""#), "{}", code.python);
        assert!(code.shell.ends_with("\"https://a.example/v1/verify/thesis\"") && !code.shell.contains("chain"));
        assert!(code.python.contains("\"handle\": \"@ada\""), "{}", code.python);
    }
}
