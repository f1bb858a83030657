//! The wrong forms of each kind of parameter, and some right ones at the border.

use serde_json::{Value, json};

use super::table::{EVENT_TYPES, Form, Reference};

/// The answer to a wrong form.
#[derive(Debug)]
pub(super) enum Told {
    /// 422 that names the field with this message.
    Field(String),
    /// A webhook's address that is refused for this reason.
    Refused(&'static str),
    /// A cursor that was not made for this request.
    Cursor,
    /// Only a status and a code.
    Whole(u16, &'static str),
}

/// A wrong value as it stands in a URL.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) value: String,
    pub(super) told: Told,
}

const CONTROL: &str = "must not contain control characters";
const NOT_A_TIME: &str = "must be an ISO 8601 date-time such as 2026-01-31T12:00:00Z";

const NO_TOKEN: &str = "is not a valid reference; give $SYMBOL, an address, chain:address or a tk_ id";
const NO_HANDLE: &str = "is not a valid reference; give a handle such as @name";

const NOT_TIMES: &[&str] = &[
    "",
    "noon",
    "2026",
    "2026-13-01",
    "2026-02-30",
    "2026-01-31T25:00:00Z",
    "2026-01-31T12:00:00%2B99:00",
    // A plus that is not escaped is a space.
    "2026-01-31T12:00:00+02:00",
    "2026-01-31T12:00:00Z[Europe/Berlin]",
    "1767225600",
    "1767225600000",
    "0000-12-31T23:59:59Z",
    "-000001-01-01",
    "99999-01-01",
    "99999999999999999999",
    "2026-01-31T12:00:00Z%00",
    "%0A2026-01-31",
];

const NOT_INTEGERS: &[&str] = &[
    "",
    "abc",
    "1.5",
    "1e3",
    "0x1",
    "+5",
    "%2B5",
    "%205",
    "5%00",
    "--5",
    "-",
    "5,6",
    "%D9%A3",
    "null",
    "true",
    "%E2%88%925",
    "NaN",
];

const HUGE: &[&str] = &["2147483648", "9223372036854775808", "99999999999999999999999999", "-99999999999999999999"];

fn fields(values: impl IntoIterator<Item = impl Into<String>>, message: &str) -> Vec<Wrong> {
    let wrong = |value: String| Wrong { value, told: Told::Field(message.to_owned()) };
    values.into_iter().map(|value| wrong(value.into())).collect()
}

/// This number of characters of two bytes.
fn wide(characters: usize) -> String {
    "%C3%A9".repeat(characters)
}

fn texts(min: usize, max: usize) -> (Vec<Wrong>, Vec<String>) {
    let mut wrong = fields(["a%00", "%1Ba", "a%7Fb", "%C2%85"], CONTROL);
    wrong.extend(fields([wide(max + 1), "x".repeat(max + 1), "x".repeat(10 * max)], &length(min, max)));
    if min > 0 {
        wrong.extend(fields([""], &length(min, max)));
    }
    (wrong, vec!["x".to_owned(), wide(max)])
}

fn length(min: usize, max: usize) -> String {
    format!("must have {min} to {max} characters")
}

/// Texts that are nearly known ones.
fn near(known: &[&str], message: &str) -> Vec<Wrong> {
    let first = known[0];
    let near = [
        first.to_uppercase(),
        format!("%20{first}"),
        format!("{first}%00"),
        format!("{first};"),
        first[1..].to_owned(),
    ];
    let rule = format!("{message}: {}", known.join(", "));
    let mut wrong = fields(near, &format!("{rule}; did you mean `{first}`?"));
    wrong.extend(fields([String::new(), "unspecified".to_owned(), "1".to_owned(), "x".repeat(5_000)], &rule));
    wrong
}

/// Wrong and right forms in a query.
pub(super) fn in_query(form: &Form) -> (Vec<Wrong>, Vec<String>) {
    match form {
        Form::Text(min, max) => texts(*min, *max),
        Form::Time => {
            let early = ["1969-12-31T23:59:59Z", "0001-01-01"].map(str::to_owned);
            (fields(NOT_TIMES.iter().copied(), NOT_A_TIME), [far_future()].into_iter().chain(early).collect())
        }
        Form::Date => {
            let wrong = ["", "2026-2-28", "2026-02-30", "20260228", "2026-02-28T00:00:00Z", "1969-12-31", "today"];
            (fields(wrong, "must be a date such as 2026-01-31"), vec!["9999-12-31".to_owned()])
        }
        Form::Integer(min, max) => {
            let mut wrong = fields(NOT_INTEGERS.iter().copied(), "must be a whole number");
            let beyond = [min - 1, max + 1, -1, i32::MAX].map(|number| number.to_string());
            let beyond = beyond.into_iter().chain(HUGE.iter().map(ToString::to_string));
            wrong.extend(fields(beyond, &format!("must be from {min} to {max}")));
            (wrong, vec![min.to_string(), max.to_string(), format!("00{max}")])
        }
        Form::OneOf(known) => (near(known, "must be one of"), known.iter().map(ToString::to_string).collect()),
        Form::SomeOf(known) => {
            let (first, mut wrong) = (known[0], near(known, "must be of"));
            let rule = format!("must be of: {}", known.join(", "));
            wrong.extend(fields([format!("{first},"), format!("{first},,{first}")], &rule));
            let near = format!("{rule}; did you mean `{first}`?");
            wrong.extend(fields([format!("{first},%20{first}")], &near));
            (wrong, vec![known.join(","), format!("{first},{first}")])
        }
        Form::References(reference) => references(*reference),
        Form::Span => {
            let wrong = [
                "",
                "s",
                "5",
                "5w",
                "-1h",
                "1.5h",
                "%2B1h",
                "1%20h",
                "1h%00",
                "%D9%A1h",
                "1H",
                "9999999999d",
                "99999999999999999999s",
            ];
            (fields(wrong, "must be a span such as 90s, 30m, 1h or 7d"), vec!["90s".to_owned(), "7d".to_owned()])
        }
        Form::Words => {
            let (mut wrong, right) = texts(1, 512);
            wrong.extend(fields(["%22open"], "has a quotation mark without its pair"));
            wrong.extend(fields(["OR", "a%20OR", "OR%20a"], "has an OR without both its sides"));
            wrong.extend(fields(["%20", "%22%22", "..."], "must hold a word to look for"));
            wrong.extend(fields(["-run"], "must hold a word to look for beside those it excludes"));
            (wrong, right)
        }
        Form::Cursor => {
            let (mut wrong, _) = texts(1, 512);
            for value in ["abc", "0", "null", "%F0%9F%9A%80", &"x".repeat(512), &wide(512)] {
                wrong.push(Wrong { value: value.to_owned(), told: Told::Cursor });
            }
            (wrong, vec!["abc".to_owned()])
        }
        Form::Ticket => {
            let both = |value: &str| Wrong { value: value.to_owned(), told: Told::Whole(400, "INVALID_REQUEST") };
            (["", "x", "tkt_0"].map(both).into(), Vec::new())
        }
        _ => panic!("no form of a query"),
    }
}

/// A lower bound within every plan's history, and an upper bound after every row.
fn far_future() -> String {
    "9999-12-31T23:59:59.999Z".to_owned()
}

fn references(reference: Reference) -> (Vec<Wrong>, Vec<String>) {
    let many = |count: usize| (0..count).map(|number| format!("x{number}")).collect::<Vec<_>>().join(",");
    let each = "each value must have 1 to 200 characters";
    let mut wrong = fields(["", ",", "a,", "a,,b", &format!("a,{}", wide(201))], each);
    wrong.extend(fields([many(51), ",".repeat(5_000)], "has more than 50 values; send 50 at most"));
    wrong.extend(fields(["a%00", "a,%1B", "%C2%85"], CONTROL));
    let (no_reference, rule): (&[&str], _) = match reference {
        Reference::Token => (&["$", ":a", "a:", "a,$"], NO_TOKEN),
        Reference::Handle => (&["@", "a,@"], NO_HANDLE),
        Reference::Chain => (&[], ""),
    };
    wrong.extend(fields(no_reference.iter().copied(), rule));
    (wrong, vec![many(50), wide(200)])
}

/// Wrong and right forms in a path.
pub(super) fn in_path(form: &Form) -> (Vec<Wrong>, Vec<String>) {
    let mut wrong = Vec::new();
    let mut whole = |values: &[&str], status, code| {
        for value in values {
            wrong.push(Wrong { value: (*value).to_owned(), told: Told::Whole(status, code) });
        }
    };
    whole(&["%zz", "%f", "%ff", "a%C3"], 400, "INVALID_REQUEST");
    match form {
        Form::Id(code) => {
            let long = "x".repeat(5_000);
            let ids =
                ["0", "th_", "TH_0", "%00", "a%1Bb", "a%2Fb", "%20", "-1", "99999999999999999999", &wide(65), &long];
            whole(&ids, 404, code);
            (wrong, vec![wide(64)])
        }
        Form::Ref(max, code) => {
            whole(&["%20", "unknown", "99999999999999999999", "a%2Fb"], 404, code);
            let (texts, right) = texts(1, *max);
            // An empty text would be another path.
            wrong.extend(texts.into_iter().filter(|wrong| !wrong.value.is_empty()));
            (wrong, right)
        }
        Form::Disabled => {
            let mut off = in_path(&Form::Ref(80, "")).0;
            off.iter_mut().for_each(|wrong| wrong.told = Told::Whole(404, "FEATURE_DISABLED"));
            (off, Vec::new())
        }
        _ => panic!("no form of a path"),
    }
}

/// A wrong value of a field, the rest of the field's name in the answer, and the answer.
type WrongField = (Value, &'static str, Told);

fn of_type(values: &[Value], message: &str) -> Vec<WrongField> {
    values.iter().map(|value| (value.clone(), "", Told::Field(message.to_owned()))).collect()
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
            for (value, _, told) in &mut wrong {
                if !value.is_string() {
                    *told = Told::Field("must be a string or null".to_owned());
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
        Form::Time | Form::NeededTime => {
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
            let ahead = "must not be later than now, where the window ends unless told";
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
            (filters(), vec![json!({}), json!({"token": ["$RUN"], "handle": [], "chain": ["x"]}), Value::Null])
        }
        Form::Status => {
            let mut wrong = of_type(&[json!(1), json!(true), json!([]), json!({})], "must be a string");
            wrong.extend(of_type(&[json!(""), json!("disabled_failing")], "must be of: enabled, disabled"));
            let near = "must be of: enabled, disabled; did you mean `enabled`?";
            wrong.extend(of_type(&[json!("Enabled"), json!("enabled ")], near));
            (wrong, vec![json!("disabled"), json!("enabled"), Value::Null])
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
                wrong.push((json!(refused), "", Told::Refused(reason)));
            }
            (wrong, vec![json!("http://127.0.0.1:19997/")])
        }
        Form::Disabled => {
            let values =
                [Value::Null, json!(true), json!(7), json!(""), json!([]), json!("a\u{0}"), json!("x".repeat(501))];
            let off = |value| (value, "", Told::Whole(404, "FEATURE_DISABLED"));
            (values.map(off).into(), vec![json!(1)])
        }
        _ => panic!("no form of a body"),
    }
}

fn filters() -> Vec<WrongField> {
    let mut wrong = of_type(&[json!(true), json!("RUN"), json!(7), json!([]), json!([{}])], "must be an object");
    let mut within = |name: &'static str, value: Value, message: &str| {
        let filters = json!({ name[1..]: value });
        wrong.push((filters, name, Told::Field(message.to_owned())));
    };
    for name in [".token", ".handle", ".chain"] {
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
    within(".chains", json!([]), "unknown; did you mean `filters.chain`?");
    within(".colour", json!([]), "unknown; leave it out");
    wrong
}

/// A body in which a field stands twice.
pub(super) fn name_twice(body: &Value, name: &str) -> String {
    let text = body.to_string();
    format!("{{\"{name}\":{},{}", body[name], &text[1..])
}
