//! A logged request as code that makes the same call, with the key from the environment.

use thesis_proto::v1;

use super::sdk::SdkCall;
use crate::{
    Operation,
    workspace::code_sample::{CodeSample, literal, shell},
};

/// The calls in each language, and by the SDKs where one of `operations` is the call. `has_body` is true if the call sends
/// JSON.
pub(super) fn samples(
    request: &v1::LoggedRequest,
    operations: &[Operation],
    public_url: &str,
    has_body: bool,
) -> Vec<CodeSample> {
    if request.method == "gRPC" {
        return vec![grpc(request, public_url)];
    }
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    let (url, method) = (format!("{public_url}{}{query}", request.path), request.method.as_str());
    let mut samples = vec![CodeSample { name: "curl", id: "curl", text: curl(&url, method, has_body) }];
    if let Some(call) = SdkCall::of(request, operations) {
        samples.push(CodeSample { name: "Python SDK", id: "python-sdk", text: call.python(public_url) });
        samples.push(CodeSample { name: "TypeScript SDK", id: "ts-sdk", text: call.typescript(public_url) });
    }
    samples.extend([
        CodeSample { name: "Python", id: "python", text: python(&url, method, has_body) },
        CodeSample { name: "JavaScript", id: "js", text: javascript(&url, method, has_body) },
        CodeSample { name: "Go", id: "go", text: go(&url, method, has_body) },
    ]);
    samples
}

fn curl(url: &str, method: &str, has_body: bool) -> String {
    let how = match method {
        "GET" => String::new(),
        "HEAD" => " --head".to_owned(),
        _ => format!(" -X {}", shell(method)),
    };
    let body = if has_body { " \\\n  -H 'Content-Type: application/json' -d '{}'" } else { "" };
    format!("curl --fail-with-body -sS{how} -H \"Authorization: Bearer $API_KEY\"{body} \\\n  {}", shell(url))
}

fn python(url: &str, method: &str, has_body: bool) -> String {
    let body = if has_body { "\n    json={}," } else { "" };
    format!(
        "import os\n\nimport httpx\n\nresponse = httpx.request(\n    {},\n    {},\n    \
         headers={{\"Authorization\": f\"Bearer {{os.environ['API_KEY']}}\"}},{body}\n)\n\
         response.raise_for_status()\nprint(response.text)",
        literal(method),
        literal(url),
    )
}

fn javascript(url: &str, method: &str, has_body: bool) -> String {
    let (kind, body) =
        if has_body { (", \"Content-Type\": \"application/json\"", "\n  body: JSON.stringify({}),") } else { ("", "") };
    format!(
        "const response = await fetch({}, {{\n  method: {},\n  \
         headers: {{ Authorization: `Bearer ${{process.env.API_KEY}}`{kind} }},{body}\n}});\n\
         if (!response.ok) throw new Error(await response.text());\nconsole.log(await response.text());",
        literal(url),
        literal(method),
    )
}

fn go(url: &str, method: &str, has_body: bool) -> String {
    let (import, body, kind) = if has_body {
        ("\n\t\"strings\"", "strings.NewReader(`{}`)", "\n\trequest.Header.Set(\"Content-Type\", \"application/json\")")
    } else {
        ("", "nil", "")
    };
    format!(
        "package main\n\nimport (\n\t\"io\"\n\t\"log\"\n\t\"net/http\"\n\t\"os\"{import}\n)\n\nfunc main() {{\n\t\
         request, err := http.NewRequest({}, {}, {body})\n\tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\t\
         request.Header.Set(\"Authorization\", \"Bearer \"+os.Getenv(\"API_KEY\")){kind}\n\t\
         response, err := http.DefaultClient.Do(request)\n\tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\t\
         defer response.Body.Close()\n\tlog.Print(response.Status)\n\tio.Copy(os.Stdout, response.Body)\n}}",
        literal(method),
        literal(url),
    )
}

/// A call over gRPC. The log does not keep messages.
fn grpc(request: &v1::LoggedRequest, public_url: &str) -> CodeSample {
    let host = public_url.split_once("://").map_or(public_url, |(_, host)| host);
    let host = host.split('/').next().unwrap_or_default();
    let plain = if public_url.starts_with("https://") { "" } else { " -plaintext" };
    let method = request.path.trim_start_matches('/');
    let text = format!(
        "grpcurl{plain} -H \"Authorization: Bearer $API_KEY\" -d '{{}}' \\\n  {} {}",
        shell(host),
        shell(method)
    );
    CodeSample { name: "grpcurl", id: "grpcurl", text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, query: &str) -> v1::LoggedRequest {
        let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
        v1::LoggedRequest { method, path, query, ..v1::LoggedRequest::default() }
    }

    #[test]
    fn a_read_is_the_same_call_in_each_language() {
        let shown = samples(&request("GET", "/v1/theses", "token=%24RUN"), &[], "https://api.example.com", false);
        let url = "https://api.example.com/v1/theses?token=%24RUN";
        assert_eq!(shown.len(), 4);
        assert!(shown.iter().all(|sample| sample.text.contains(url) && sample.text.contains("API_KEY")));
        assert_eq!(
            shown[0].text,
            format!("curl --fail-with-body -sS -H \"Authorization: Bearer $API_KEY\" \\\n  '{url}'")
        );
        assert!(!shown.iter().any(|sample| sample.text.contains("Content-Type")));
    }

    #[test]
    fn a_change_has_a_body_and_its_method() {
        for sample in samples(&request("PATCH", "/v1/webhooks/wh_1", ""), &[], "https://api.example.com", true) {
            assert!(sample.text.contains("PATCH") && sample.text.contains("{}"), "{}", sample.text);
        }
    }

    #[test]
    fn an_address_cannot_leave_its_quotes() {
        let hostile = request("GET", "/v1/x'; rm -rf ~; '", "a=\"b\\");
        let shown = samples(&hostile, &[], "https://api.example.com", false);
        assert!(
            shown[0].text.ends_with("'https://api.example.com/v1/x'\\''; rm -rf ~; '\\''?a=\"b\\'"),
            "{}",
            shown[0].text
        );
        assert!(shown[1].text.contains("?a=\\\"b\\\\\""), "{}", shown[1].text);
    }

    #[test]
    fn a_call_over_grpc_names_host_and_method() {
        let call = request("gRPC", "/thesis.v1.MetaService/GetMe", "");
        let shown = samples(&call, &[], "http://127.0.0.1:8080", false);
        assert_eq!(shown.len(), 1);
        assert!(
            shown[0].text.contains("-plaintext")
                && shown[0].text.ends_with("'127.0.0.1:8080' 'thesis.v1.MetaService/GetMe'")
        );
    }
}
