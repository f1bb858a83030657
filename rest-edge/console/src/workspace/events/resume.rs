//! The code that continues a stream behind a cursor, with the filters of a page.

use thesis_proto::v1;

use super::query::stream_path;
use crate::workspace::{
    code_sample::{CodeSample, literal, shell},
    filters::FilterFields,
};

/// Stands in the place of the cursor. Each sample has it after the filters, so that its last occurrence is the place.
const CURSOR: &str = "CURSOR";

/// The values of a filter by its name.
type Filters = [(&'static str, Vec<String>); 5];

/// The list of a filter's values as a literal of Python and TypeScript.
fn list(values: &[String]) -> String {
    format!("[{}]", values.iter().map(|value| literal(value)).collect::<Vec<_>>().join(", "))
}

pub(super) fn samples(fields: &FilterFields, public_url: &str) -> Vec<CodeSample> {
    let v1::EventFilters { token, handle, chain, text } = fields.filters().unwrap_or_default();
    let types: Vec<_> = fields.types.iter().filter(|name| !name.is_empty()).cloned().collect();
    let filters = [("types", types), ("token", token), ("handle", handle), ("chain", chain), ("text", text)];
    vec![
        CodeSample { name: "curl", id: "curl", text: curl(fields, public_url) },
        CodeSample { name: "Python SDK", id: "python-sdk", text: python(&filters, public_url) },
        CodeSample { name: "TypeScript SDK", id: "ts-sdk", text: typescript(&filters, public_url) },
        CodeSample { name: "Go SDK", id: "go-sdk", text: go(&filters, public_url) },
    ]
}

fn curl(fields: &FilterFields, public_url: &str) -> String {
    let url = shell(&format!("{public_url}{}", stream_path(fields)));
    format!("curl -N {url} \\\n  -H \"Authorization: Bearer $API_KEY\" \\\n  -H 'Last-Event-ID: {CURSOR}'")
}

/// The filters that have values, each as its name, a separator and its list.
fn arguments(filters: &Filters, separator: &str) -> Vec<String> {
    let given = filters.iter().filter(|(_, values)| !values.is_empty());
    given.map(|(name, values)| format!("{name}{separator}{}", list(values))).collect()
}

fn python(filters: &Filters, public_url: &str) -> String {
    let mut arguments = arguments(filters, "=");
    arguments.push(format!("cursor=\"{CURSOR}\""));
    format!(
        "import os\n\nfrom trade_thesis import Client\n\nwith (\n    \
         Client({}, os.environ[\"API_KEY\"]) as client,\n    client.stream_events({}) as stream,\n):\n    \
         for message in stream:\n        print(message)",
        literal(public_url),
        arguments.join(", "),
    )
}

fn typescript(filters: &Filters, public_url: &str) -> String {
    let arguments = arguments(filters, ": ");
    let query = if arguments.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", arguments.join(", ")) };
    format!(
        "import {{ Client }} from \"trade-thesis\";\n\n\
         const client = new Client({}, process.env.API_KEY ?? \"\");\n\
         for await (const message of client.streamEvents({query}, {{ cursor: \"{CURSOR}\" }})) {{\n  \
         console.log(message);\n}}",
        literal(public_url),
    )
}

fn go(filters: &Filters, public_url: &str) -> String {
    let field = |(name, values): &(&'static str, Vec<String>)| {
        let (field, kind) = match *name {
            "types" => ("Types", "tradethesis.EventType"),
            "token" => ("Token", "string"),
            "handle" => ("Handle", "string"),
            "chain" => ("Chain", "string"),
            _ => ("Text", "string"),
        };
        let values: Vec<_> = values.iter().map(|value| literal(value)).collect();
        format!("\t\t{field}: []{kind}{{{}}},\n", values.join(", "))
    };
    let fields: String = filters.iter().filter(|(_, values)| !values.is_empty()).map(field).collect();
    format!(
        "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\t\"log\"\n\t\"os\"\n\n\
         \ttradethesis \"trade-thesis.example/go\"\n)\n\nfunc main() {{\n\
         \tclient, err := tradethesis.New({}, os.Getenv(\"API_KEY\"))\n\
         \tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\
         \tstream := client.Stream(&tradethesis.StreamEventsParams{{\n{fields}\t\tFromCursor: \"{CURSOR}\",\n\t}})\n\
         \tfor message, err := range stream.Messages(context.Background()) {{\n\
         \t\tif err != nil {{\n\t\t\tlog.Fatal(err)\n\t\t}}\n\t\tfmt.Printf(\"%+v\\n\", message)\n\t}}\n}}",
        literal(public_url),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://a.example";

    #[test]
    fn each_sample_has_the_filters_and_then_the_cursor() {
        let fields = FilterFields {
            types: vec!["thesis.created".to_owned()],
            token: "$RUN, $SOL".to_owned(),
            text: "the \"CURSOR\"".to_owned(),
            ..FilterFields::default()
        };
        let shown = samples(&fields, URL);
        let texts: Vec<_> = shown.iter().map(|sample| sample.text.as_str()).collect();
        let [curl, python, typescript, go] = texts[..] else { panic!("{texts:?}") };
        let query = "types=thesis.created&token=%24RUN%2C%24SOL&text=the%20%22CURSOR%22";
        assert!(curl.starts_with(&format!("curl -N 'https://a.example/v1/events/stream?{query}'")), "{curl}");
        assert!(curl.ends_with("-H 'Last-Event-ID: CURSOR'"), "{curl}");
        let lists = [r#"["thesis.created"]"#, r#"["$RUN", "$SOL"]"#, r#"["the \"CURSOR\""]"#];
        let call = format!("stream_events(types={}, token={}, text={}, cursor=", lists[0], lists[1], lists[2]);
        assert!(python.contains(&call), "{python}");
        let call = format!("streamEvents({{ types: {}, token: {}, text: {} }},", lists[0], lists[1], lists[2]);
        assert!(typescript.contains(&call), "{typescript}");
        assert!(
            go.contains("\t\tTypes: []tradethesis.EventType{\"thesis.created\"},\n\t\tToken: []string{\"$RUN\""),
            "{go}"
        );
        for text in [python, typescript, go] {
            let at = text.rfind(CURSOR).unwrap();
            assert!(text[..at].trim_end_matches('"').trim_end().ends_with(['=', ':']), "{text}");
            assert!(text[..at].contains("the \\\"CURSOR"), "{text}");
        }
    }

    #[test]
    fn without_filters_the_cursor_is_the_only_argument() {
        let shown = samples(&FilterFields::default(), URL);
        assert!(shown[1].text.contains("client.stream_events(cursor=\"CURSOR\")"), "{}", shown[1].text);
        assert!(shown[2].text.contains("client.streamEvents({}, { cursor: \"CURSOR\" })"), "{}", shown[2].text);
        assert!(shown[3].text.contains("Params{\n\t\tFromCursor: \"CURSOR\",\n"), "{}", shown[3].text);
    }
}
