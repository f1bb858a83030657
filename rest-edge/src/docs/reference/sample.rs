//! Example requests in several languages, and example responses, as Markdown.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, value::RawValue};

use super::text_of;
use crate::{
    docs::site::Site,
    openapi::ExampleText,
    route::{Route, SuccessResponse},
};

/// Stands for the reader's key. `docs.js` puts a test key in its place that the reader made in this browser.
const KEY: &str = "svc_test_…";
/// The letters of a value that URLs write as they are not. A shell would read some others in quotes.
const VALUE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':').remove(b'@');

pub(super) fn example(text: &str) -> Option<ExampleText<'_>> {
    serde_json::from_str(text).ok()
}

/// The text of a value that is one level deep in its file.
pub(super) fn pretty(raw: &RawValue) -> String {
    raw.get().replace("\n  ", "\n")
}

/// A response under its heading.
pub(super) fn response(title: &str, language: &str, text: &str) -> String {
    format!("## {title}\n\n```{language}\n{}\n```\n\n", text.trim_end())
}

/// A request that works once the key and the parts in angle brackets are filled in.
struct Request<'a> {
    method: &'a str,
    url: String,
    needs_key: bool,
    body: Option<String>,
    answers: &'a SuccessResponse,
}

pub(super) fn request(site: &Site, route: &Route, operation: &Value, example: Option<&ExampleText<'_>>) -> String {
    if matches!(route.answers, SuccessResponse::Upgrade) {
        return socket(site);
    }
    let body = example.map(|example| pretty(example.request)).filter(|body| body != "null");
    let request = Request {
        method: route.method.as_str(),
        url: url(site, operation, route),
        needs_key: route.operation.is_some(),
        body,
        answers: &route.answers,
    };
    let mut out = format!("## Example request\n\n```sh\n{}\n```\n\n", request.curl());
    // The guide of streams has libraries for them.
    if !matches!(route.answers, SuccessResponse::Events) {
        out.push_str(&format!("```python\n{}\n```\n\n```js\n{}\n```\n\n", request.python(), request.node()));
    }
    out
}

/// The first messages of a WebSocket.
fn socket(site: &Site) -> String {
    let url = site.public_url.replacen("http", "ws", 1);
    format!(
        "## Example\n\nOpen `{url}/v1/stream`, and send:\n\n```json\n{{\"op\": \"auth\", \"key\": \"{KEY}\"}}\n```\n\n\
         ```json\n{{\n  \"op\": \"subscribe\",\n  \"sub\": \"run\",\n  \"types\": [\"thesis.created\"],\n  \
         \"filters\": {{\"token\": [\"$RUN\"]}}\n}}\n```\n\n"
    )
}

/// The URL with the examples of its parameters.
fn url(site: &Site, operation: &Value, route: &Route) -> String {
    let (mut path, mut query) = (route.path.replace("{*", "{"), String::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = text_of(parameter, "name");
        let value = parameter["example"].as_str().map(|value| utf8_percent_encode(value, VALUE).to_string());
        if parameter["in"] == "path" {
            path = path.replace(&format!("{{{name}}}"), &value.unwrap_or_else(|| format!("<{name}>")));
        } else if parameter["in"] == "query"
            && let Some(value) = value
        {
            let mark = if query.is_empty() { '?' } else { '&' };
            query.push_str(&format!("{mark}{name}={value}"));
        }
    }
    format!("{}{path}{query}", site.public_url)
}

impl Request<'_> {
    fn curl(&self) -> String {
        let streams = if matches!(self.answers, SuccessResponse::Events) { "-N " } else { "" };
        let method = if self.method == "GET" { String::new() } else { format!("-X {} ", self.method) };
        let mut lines = vec![format!("curl {streams}{method}\"{}\"", self.url)];
        if self.needs_key {
            lines.push(format!("-H \"Authorization: Bearer {KEY}\""));
        }
        if let Some(body) = &self.body {
            lines.push("-H \"Content-Type: application/json\"".to_owned());
            lines.push(format!("-d '{}'", body.replace('\'', "'\\''")));
        }
        lines.join(" \\\n  ")
    }

    fn python(&self) -> String {
        let mut out =
            format!("import httpx\n\nresponse = httpx.{}(\n    \"{}\",\n", self.method.to_lowercase(), self.url);
        if self.needs_key {
            out.push_str(&format!("    headers={{\"Authorization\": \"Bearer {KEY}\"}},\n"));
        }
        if let Some(body) = &self.body {
            out.push_str(&format!("    json={},\n", python_literal(body).replace('\n', "\n    ")));
        }
        let shown = match self.answers {
            SuccessResponse::Bytes { kind, .. } if kind.starts_with("text/") => "response.text",
            SuccessResponse::Bytes { .. } => "len(response.content)",
            _ => "response.json()",
        };
        out.push_str(&format!(")\nresponse.raise_for_status()\nprint({shown})"));
        out
    }

    fn node(&self) -> String {
        let mut headers = Vec::new();
        if self.needs_key {
            headers.push(format!("Authorization: \"Bearer {KEY}\""));
        }
        if self.body.is_some() {
            headers.push("\"Content-Type\": \"application/json\"".to_owned());
        }
        let mut options = String::new();
        if self.method != "GET" {
            options.push_str(&format!("  method: \"{}\",\n", self.method));
        }
        if !headers.is_empty() {
            options.push_str(&format!("  headers: {{ {} }},\n", headers.join(", ")));
        }
        if let Some(body) = &self.body {
            options.push_str(&format!("  body: JSON.stringify({}),\n", body.replace('\n', "\n  ")));
        }
        let options = if options.is_empty() { options } else { format!(", {{\n{options}}}") };
        let shown = match self.answers {
            SuccessResponse::Bytes { kind, .. } if kind.starts_with("text/") => "text()",
            SuccessResponse::Bytes { .. } => "arrayBuffer()",
            _ => "json()",
        };
        let url = &self.url;
        format!(
            "const response = await fetch(\"{url}\"{options});\n\
             if (!response.ok) throw new Error(await response.text());\nconsole.log(await response.{shown});"
        )
    }
}

/// A JSON text as Python writes it. In examples only the last word of a line can be one of these.
fn python_literal(json: &str) -> String {
    let line = |line: &str| {
        let (text, comma) = line.strip_suffix(',').map_or((line, ""), |text| (text, ","));
        for (json, python) in [("true", "True"), ("false", "False"), ("null", "None")] {
            if let Some(rest) = text.strip_suffix(json)
                && rest.ends_with(' ')
            {
                return format!("{rest}{python}{comma}");
            }
        }
        format!("{text}{comma}")
    };
    json.lines().map(line).collect::<Vec<_>>().join("\n")
}
