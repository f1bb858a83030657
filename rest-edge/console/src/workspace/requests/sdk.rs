//! A logged request as a call of the SDKs for Python and TypeScript.

use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use thesis_proto::v1;

use crate::{Operation, workspace::code_sample::literal};

/// The call of an operation with its arguments.
pub(super) struct SdkCall<'a> {
    operation: &'a Operation,
    /// The parameters of the path, decoded.
    parts: Vec<String>,
    /// The parameters of the query, decoded.
    query: Vec<(String, String)>,
}

/// The names and values of a query.
pub(super) fn parameters(query: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// True if the decoded text is UTF-8. Code cannot name other values.
fn is_text(encoded: &str) -> bool {
    percent_decode_str(encoded).decode_utf8().is_ok()
}

/// The parameters of a path, which the route names in braces. None if the route is another one.
fn parts(route: &str, path: &str) -> Option<Vec<String>> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (mut rest, mut parts) = (path.split('/'), Vec::new());
    for name in route.split('/') {
        if name.starts_with("{*") {
            parts.push(decoded(&rest.by_ref().collect::<Vec<_>>().join("/")));
            continue;
        }
        let part = rest.next()?;
        if name.starts_with('{') {
            parts.push(decoded(part));
        } else if part != name {
            return None;
        }
    }
    rest.next().is_none().then_some(parts)
}

/// `list_theses` for `listTheses`.
fn snake(id: &str) -> String {
    let mut name = String::new();
    for letter in id.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

impl<'a> SdkCall<'a> {
    /// The call that sends a request. None if no method of the SDKs does: it opens a stream, or has a parameter twice or
    /// one that the operation does not have. None too if the log has not all of its arguments.
    pub(super) fn of(request: &v1::LoggedRequest, operations: &'a [Operation]) -> Option<Self> {
        let is_it = |one: &&Operation| one.method.as_str() == request.method && one.path == request.route;
        let operation = operations.iter().find(is_it)?;
        if !request.complete || !is_text(&request.path) || !is_text(&request.query) {
            return None;
        }
        let parts = parts(operation.path, &request.path)?;
        let query = parameters(&request.query);
        let has_each_once = {
            let names: HashSet<_> = query.iter().map(|(name, _)| name.as_str()).collect();
            names.len() == query.len() && names.iter().all(|name| operation.query.contains(name))
        };
        has_each_once.then_some(Self { operation, parts, query })
    }

    /// The value of an argument. All are texts but whole numbers.
    fn value(&self, name: &str, text: &str) -> String {
        let number = self.operation.integers.contains(&name).then(|| text.parse::<u32>().ok()).flatten();
        number.map_or_else(|| literal(text), |number| number.to_string())
    }

    pub(super) fn python(&self, public_url: &str) -> String {
        let query = self.query.iter().map(|(name, text)| {
            // `from` is a keyword.
            let argument = if name == "from" { "from_" } else { name.as_str() };
            format!("{argument}={}", self.value(name, text))
        });
        let body = self.operation.has_body.then(|| "**{}".to_owned());
        let arguments: Vec<_> = self.parts.iter().map(|part| literal(part)).chain(query).chain(body).collect();
        format!(
            "import os\n\nfrom trade_thesis import Client\n\n\
             with Client({}, os.environ[\"API_KEY\"]) as client:\n    print(client.{}({}))",
            literal(public_url),
            snake(self.operation.id),
            arguments.join(", "),
        )
    }

    pub(super) fn typescript(&self, public_url: &str) -> String {
        let query: Vec<_> =
            self.query.iter().map(|(name, text)| format!("{name}: {}", self.value(name, text))).collect();
        let query = (!query.is_empty()).then(|| format!("{{ {} }}", query.join(", ")));
        let body = self.operation.has_body.then(|| "{}".to_owned());
        let arguments: Vec<_> = self.parts.iter().map(|part| literal(part)).chain(body).chain(query).collect();
        format!(
            "import {{ Client }} from \"trade-thesis\";\n\n\
             const client = new Client({}, process.env.API_KEY ?? \"\");\nconsole.log(await client.{}({}));",
            literal(public_url),
            self.operation.id,
            arguments.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const URL: &str = "https://api.example.com";

    fn operations() -> Vec<Operation> {
        let operation = |method, path, id, query: &[&'static str], has_body| Operation {
            method,
            path,
            id,
            query: query.to_vec(),
            integers: vec!["limit", "recent"],
            has_body,
        };
        vec![
            operation(Method::GET, "/v1/theses", "listTheses", &["token", "limit"], false),
            operation(Method::GET, "/v1/tokens/{token}/activity", "getTokenActivity", &["recent"], false),
            operation(Method::PATCH, "/v1/webhooks/{id}", "updateWebhook", &[], true),
            operation(Method::GET, "/v1/archive/{date}/{*file}", "getArchiveFile", &[], false),
        ]
    }

    fn request(method: &str, route: &str, path: &str, query: &str) -> v1::LoggedRequest {
        let [method, route, path, query] = [method, route, path, query].map(str::to_owned);
        v1::LoggedRequest { method, route, path, query, complete: true, ..v1::LoggedRequest::default() }
    }

    #[test]
    fn a_request_is_a_call_of_its_operation() {
        let operations = operations();
        let listed = request("GET", "/v1/theses", "/v1/theses", "token=%24RUN&limit=2");
        let call = SdkCall::of(&listed, &operations).unwrap();
        assert!(
            call.python(URL).ends_with("print(client.list_theses(token=\"$RUN\", limit=2))"),
            "{}",
            call.python(URL)
        );
        assert!(call.typescript(URL).ends_with("client.listTheses({ token: \"$RUN\", limit: 2 }));"));
        let route = "/v1/tokens/{token}/activity";
        for (typed, shown) in [("5", "5"), ("007", "7"), ("", "\"\""), ("-1", "\"-1\"")] {
            let counted = request("GET", route, "/v1/tokens/a/activity", &format!("recent={typed}"));
            let call = SdkCall::of(&counted, &operations).unwrap();
            let expected = format!("client.get_token_activity(\"a\", recent={shown}))");
            assert!(call.python(URL).ends_with(&expected), "{}", call.python(URL));
        }
        let changed = request("PATCH", "/v1/webhooks/{id}", "/v1/webhooks/wh%22_1", "");
        let call = SdkCall::of(&changed, &operations).unwrap();
        assert!(call.python(URL).ends_with("client.update_webhook(\"wh\\\"_1\", **{}))"), "{}", call.python(URL));
        assert!(call.typescript(URL).ends_with("client.updateWebhook(\"wh\\\"_1\", {}));"));
        let route = "/v1/archive/{date}/{*file}";
        let file = request("GET", route, "/v1/archive/2026-01-31/theses.parquet", "");
        let call = SdkCall::of(&file, &operations).unwrap();
        assert!(call.python(URL).ends_with("client.get_archive_file(\"2026-01-31\", \"theses.parquet\"))"));
    }

    #[test]
    fn a_request_that_no_method_sends_is_no_call() {
        let operations = operations();
        for (method, route, query) in [
            ("GET", "/v1/theses", "token=a&token=b"),
            ("GET", "/v1/theses", "x)%3Bimport=1"),
            ("HEAD", "/v1/theses", ""),
            ("GET", "/v1/events/stream", ""),
        ] {
            assert!(
                SdkCall::of(&request(method, route, route, query), &operations).is_none(),
                "{method} {route}?{query}"
            );
        }
    }

    #[test]
    fn a_request_that_the_log_has_not_whole_is_no_call() {
        let operations = operations();
        let (theses, webhook) = ("/v1/theses", "/v1/webhooks/{id}");
        let is_call = |method, route, path: &str, query: &str| {
            SdkCall::of(&request(method, route, path, query), &operations).is_some()
        };
        assert!(is_call("GET", theses, theses, "token=***") && !is_call("GET", theses, theses, "token=%ff"));
        let cut = v1::LoggedRequest { complete: false, ..request("GET", theses, theses, "token=a") };
        assert!(SdkCall::of(&cut, &operations).is_none());
        for path in ["/v1/webhooks/%ff", "/v1/webhooks", "/v1/webhooks/a/b", "/v1/alerts/a"] {
            assert!(!is_call("PATCH", webhook, path, ""), "{path}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let shown = parameters("token=%24RUN&text=a+b&&flag&ticket=***&x=%ff");
        let expected = [("token", "$RUN"), ("text", "a b"), ("flag", ""), ("ticket", "***"), ("x", "\u{fffd}")];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
