//! The wrong forms of each kind of field in a body, and some right ones at the border.

use serde_json::{Value, json};

use super::{
    forms::{CONTROL, Expected, NO_HANDLE, NO_TOKEN, NOT_A_TIME, NOT_TIMES, length},
    table::{EVENT_TYPES, Form, METRICS},
};

/// A wrong value of a field, the suffix of the field's name in the answer, and the expected answer.
pub(super) type WrongField = (Value, &'static str, Expected);

fn of_type(values: &[Value], message: &str) -> Vec<WrongField> {
    values.iter().map(|value| (value.clone(), "", Expected::Field(message.to_owned()))).collect()
}

fn body_texts(min: usize, max: usize) -> (Vec<WrongField>, Vec<Value>) {
    let mut wrong = of_type(
        &[json!(true), json!(1), json!(1.5), json!(u64::MAX), json!(1e300), json!([]), json!(["a"]), json!({"a": "b"})],
        "must be a string",
    );
    wrong.extend(of_type(&[json!("a\u{0}"), json!("\u{1b}a"), json!("\u{85}")], CONTROL));
    let long = [json!("é".repeat(max + 1)), json!("x".repeat(10 * max))];
    wrong.extend(of_type(&long, &length(min, max)));
    if min > 0 {
        wrong.extend(of_type(&[json!("")], &length(min, max)));
    }
    (wrong, vec![json!("x"), json!("é".repeat(max))])
}

/// Wrong and right forms in a body.
pub(super) fn in_body(form: &Form) -> (Vec<WrongField>, Vec<Value>) {
    match form {
        Form::Text(min, max) => {
            let (wrong, mut right) = body_texts(*min, *max);
            // One of the two author fields must be there.
            if *max != 64 {
                right.push(Value::Null);
            }
            (wrong, right)
        }
        Form::OrNull(max) => {
            let (mut wrong, mut right) = body_texts(0, *max);
            for (value, _, expected) in &mut wrong {
                if !value.is_string() {
                    *expected = Expected::Field("must be a string or null".to_owned());
                }
            }
            right.push(Value::Null);
            (wrong, right)
        }
        Form::Needed(max) => {
            let (mut wrong, right) = body_texts(1, *max);
            wrong.extend(of_type(&[Value::Null], "is required"));
            (wrong, right)
        }
        Form::NewHandle | Form::NewSymbol => {
            let (max, sign) = if matches!(form, Form::NewHandle) { (41, "@") } else { (140, "$") };
            let (mut wrong, _) = in_body(&Form::Needed(max));
            let others =
                [json!(sign), json!("a b"), json!("a/b"), json!(format!("a{sign}")), json!("🚀"), json!("a\n")];
            let rule = format!("must be letters, digits, `_`, `.`, `-` after an optional `{sign}`");
            wrong.extend(of_type(&others, &rule));
            (wrong, vec![json!(format!("{sign}A_.-")), json!("x".repeat(max))])
        }
        Form::Flag => {
            let wrong = [json!("true"), json!(1), json!(""), json!([true]), json!({})];
            (of_type(&wrong, "must be true or false"), vec![json!(false), Value::Null])
        }
        Form::Time | Form::NeededTime | Form::PastTime => {
            let texts = NOT_TIMES.iter().filter(|text| !text.contains('%') && !text.contains('+'));
            let mut values: Vec<Value> = texts.map(|text| json!(text)).collect();
            values.extend([
                json!(0),
                json!(1_767_225_600),
                json!(true),
                json!([]),
                json!({}),
                json!("2026-01-31\u{0}"),
            ]);
            let mut wrong = of_type(&values, NOT_A_TIME);
            if matches!(form, Form::Time) {
                return (wrong, vec![json!("9999-12-31"), Value::Null]);
            }
            wrong.extend(of_type(&[Value::Null], "is required"));
            let ahead = match form {
                Form::PastTime => "must not be in the future",
                _ => "must not be later than now, where the window ends unless told",
            };
            wrong.extend(of_type(&[json!("9999-12-31")], ahead));
            (wrong, Vec::new())
        }
        Form::Events => {
            let mut wrong = of_type(
                &[json!(true), json!(1), json!("thesis.created"), json!({}), json!([1]), json!([null]), json!([[]])],
                "must be an array of strings",
            );
            let unknown = [json!([""]), json!(["thesis.created", "x"]), json!(["a\u{0}"])];
            let rule = format!("must be of: {}", EVENT_TYPES.join(", "));
            wrong.extend(of_type(&unknown, &rule));
            let near = [json!(["Thesis.Created"]), json!(["thesis.craeted", "x"])];
            wrong.extend(of_type(&near, &format!("{rule}; did you mean `thesis.created`?")));
            let number = [json!([]), json!(vec![EVENT_TYPES[0]; 11]), Value::Null];
            wrong.extend(of_type(&number, "must have 1 to 10 items"));
            (wrong, vec![json!(EVENT_TYPES), json!(vec![EVENT_TYPES[0]; 10])])
        }
        Form::Filters => {
            (wrong_filters(), vec![json!({}), json!({"token": ["$RUN"], "handle": [], "chain": ["x"]}), Value::Null])
        }
        Form::Status => {
            let mut wrong = of_type(&[json!(1), json!(true), json!([]), json!({})], "must be a string");
            wrong.extend(of_type(&[json!(""), json!("disabled_failing")], "must be of: enabled, disabled"));
            let near = "must be of: enabled, disabled; did you mean `enabled`?";
            wrong.extend(of_type(&[json!("Enabled"), json!("enabled ")], near));
            (wrong, vec![json!("disabled"), json!("enabled"), Value::Null])
        }
        Form::FinalStatus => {
            let mut wrong = of_type(&[json!(1), json!(true), json!([]), json!({})], "must be a string");
            wrong.extend(of_type(&[json!(""), json!("pending")], "must be of: failed, delivered"));
            let near = "must be of: failed, delivered; did you mean `failed`?";
            wrong.extend(of_type(&[json!("Failed"), json!("failed ")], near));
            // A second replay might be refused while the first is under way.
            (wrong, vec![json!("delivered")])
        }
        Form::Headers(may_be_null) => {
            let right = [json!({}), json!({"X-Key": "k", "Authorization": "Bearer a b"}), Value::Null];
            (wrong_headers(*may_be_null), right.into())
        }
        Form::Payload => {
            let mut wrong = of_type(&[json!(1), json!(true), json!([]), json!({})], "must be a string");
            wrong.extend(of_type(&[json!(""), json!("unspecified")], "must be of: full, thin"));
            let near = "must be of: full, thin; did you mean `thin`?";
            wrong.extend(of_type(&[json!("Thin"), json!("thin ")], near));
            (wrong, vec![json!("thin"), json!("full"), Value::Null])
        }
        Form::Metric => {
            let rule = format!("must be of: {}", METRICS.join(", "));
            let mut wrong = of_type(&[json!(1), json!(true), json!([]), json!({})], "must be a string");
            wrong.extend(of_type(&[json!(""), Value::Null], &rule));
            wrong.extend(of_type(&[json!("Change_pct")], &format!("{rule}; did you mean `change_pct`?")));
            (wrong, METRICS.iter().map(|metric| json!(metric)).collect())
        }
        Form::Number => {
            let wrong = [json!("1"), json!(""), json!(true), json!([]), json!([1]), json!({})];
            (of_type(&wrong, "must be a number or null"), Vec::new())
        }
        Form::AlertSpan => {
            let mut wrong = of_type(&[json!(1), json!(true), json!([]), json!({})], "must be a string");
            let texts = ["", "5", "m", "-1s", "1w", "8d", "1.5h", "5m\u{0}"].map(|text| json!(text));
            wrong.extend(of_type(&texts, "must be a number and s, m, h or d, such as 5m, up to 7d"));
            (wrong, vec![json!("0s"), json!("90s"), json!("7d"), Value::Null])
        }
        Form::Url => {
            let (mut wrong, _) = in_body(&Form::Needed(2048));
            for (refused, reason) in [
                ("x", "scheme"),
                ("https://", "hostname"),
                ("ftp://example.com/", "scheme"),
                ("http://localhost/", "loopback"),
                ("http://10.0.0.1/", "private"),
                ("http://0x7f.1:22/", "port"),
                ("https://a:b@example.com/", "credentials"),
            ] {
                wrong.push((json!(refused), "", Expected::Refused(reason)));
            }
            (wrong, vec![json!("http://127.0.0.1:19997/")])
        }
        Form::Disabled => {
            let values =
                [Value::Null, json!(true), json!(7), json!(""), json!([]), json!("a\u{0}"), json!("x".repeat(501))];
            let off = |value| (value, "", Expected::Whole(404, "FEATURE_DISABLED"));
            (values.map(off).into(), vec![json!(1)])
        }
        _ => panic!("no form of a body"),
    }
}

/// Wrong filters of a webhook.
fn wrong_filters() -> Vec<WrongField> {
    let mut wrong = of_type(&[json!(true), json!("RUN"), json!(7), json!([]), json!([{}])], "must be an object");
    let mut within = |name: &'static str, value: Value, message: &str| {
        let filters = json!({ name[1..]: value });
        wrong.push((filters, name, Expected::Field(message.to_owned())));
    };
    for name in [".token", ".handle", ".chain", ".text"] {
        for value in [json!("RUN"), json!([1]), json!([null]), json!({}), Value::Null] {
            within(name, value, "must be an array of strings");
        }
        for value in [json!([""]), json!(["é".repeat(201)])] {
            within(name, value, "each value must have 1 to 200 characters");
        }
        let many: Vec<String> = (0..51).map(|number| format!("x{number}")).collect();
        within(name, json!(many), "has more than 50 values; send 50 at most");
        within(name, json!(["a\u{0}"]), CONTROL);
    }
    within(".token", json!(["$"]), NO_TOKEN);
    within(".handle", json!(["@"]), NO_HANDLE);
    within(".text", json!(["moon", "OR"]), "has an OR without both its sides");
    within(".chains", json!([]), "unknown; did you mean `filters.chain`?");
    within(".colour", json!([]), "unknown; leave it out");
    wrong
}

/// Wrong headers of a webhook.
fn wrong_headers(may_be_null: bool) -> Vec<WrongField> {
    let mut wrong = of_type(&[json!(true), json!("X"), json!(7), json!([]), json!([{}])], "must be an object");
    let names =
        [json!({"": "x"}), json!({"a b": "x"}), json!({"a:": "x"}), json!({"é": "x"}), json!({"n".repeat(257): "x"})];
    wrong.extend(of_type(&names, "each name must have 1 to 256 letters, digits or any of !#$%&'*+-.^_`|~"));
    let mut within = |name: &'static str, value: Value, message: &str| {
        let headers = json!({ name[1..]: value });
        wrong.push((headers, name, Expected::Field(message.to_owned())));
    };
    let no_text = if may_be_null { "must be a string or null" } else { "must be a string" };
    for value in [json!(7), json!(["x"]), json!({})] {
        within(".X-Key", value, no_text);
    }
    if !may_be_null {
        within(".X-Key", Value::Null, no_text);
    }
    for value in ["", " x", "é", "a\r\nb", "a\u{0}"] {
        within(".X-Key", json!(value), "must have visible ASCII characters, and spaces only between them");
    }
    for name in [".Host", ".content-type", ".Webhook-Id", ".Service-Signature", ".user-agent", ".Proxy-Authorization"] {
        within(name, json!("x"), "HTTP, signatures or this service use this name; take another");
    }
    let many: serde_json::Map<String, Value> = (0..11).map(|number| (format!("X-{number}"), json!("x"))).collect();
    wrong.extend(of_type(&[Value::Object(many)], "a webhook has 10 headers at most"));
    let long = json!({"X-Key": "x".repeat(4_092)});
    wrong.extend(of_type(&[long], "names and values of a webhook have 4096 bytes together at most"));
    wrong
}

/// Makes a body that has a field twice.
pub(super) fn name_twice(body: &Value, name: &str) -> String {
    let text = body.to_string();
    format!("{{\"{name}\":{},{}", body[name], &text[1..])
}
