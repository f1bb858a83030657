//! The wrong forms of each kind of parameter, and some right ones at the border.

use super::table::{Form, Reference};
use crate::harness::{iso, now_ms};

/// The expected answer to a wrong form.
#[derive(Debug)]
pub(super) enum Expected {
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
    pub(super) expected: Expected,
}

pub(super) const CONTROL: &str = "must not contain control characters";
pub(super) const NOT_A_TIME: &str = "must be an ISO 8601 date-time such as 2026-01-31T12:00:00Z";

pub(super) const NO_TOKEN: &str = "is not a valid reference; give $SYMBOL, an address, chain:address or a tk_ id";
pub(super) const NO_HANDLE: &str = "is not a valid reference; give a handle such as @name";

pub(super) const NOT_TIMES: &[&str] = &[
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
    let wrong = |value: String| Wrong { value, expected: Expected::Field(message.to_owned()) };
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

pub(super) fn length(min: usize, max: usize) -> String {
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
        Form::AsOf => {
            let mut wrong = fields(NOT_TIMES.iter().copied(), NOT_A_TIME);
            wrong.extend(fields([far_future()], "must not be in the future"));
            (wrong, vec![iso(now_ms() - 1_000)])
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
        Form::Speed => {
            let wrong = ["", "fast", "Max", "max%00", "1x", "1,5", "--1", "inf", "NaN", "%D9%A3", "%201"];
            (fields(wrong, "must be max, or a number from 0.1 to 3600"), vec!["max".to_owned(), "0.5".to_owned()])
        }
        Form::Words => {
            let (mut wrong, right) = texts(1, 512);
            wrong.extend(fields(["%22open"], "has a quotation mark without its pair"));
            wrong.extend(fields(["OR", "a%20OR", "OR%20a"], "has an OR without both its sides"));
            wrong.extend(fields(["%20", "%22%22", "..."], "must hold a word to look for"));
            wrong.extend(fields(["-run"], "must hold a word to look for beside those it excludes"));
            (wrong, right)
        }
        Form::Searches => {
            let each = "each value must have 1 to 200 characters";
            let mut wrong = fields(["", &wide(201)], each);
            wrong.extend(fields(["a%00", "%C2%85"], CONTROL));
            wrong.extend(fields(["%22open"], "has a quotation mark without its pair"));
            wrong.extend(fields(["OR", "a%20OR"], "has an OR without both its sides"));
            wrong.extend(fields(["%20", "..."], "must hold a word to look for"));
            (wrong, vec!["moon".to_owned(), "%22to%20the%22+-sun".to_owned(), wide(200)])
        }
        Form::Cursor => {
            let (mut wrong, _) = texts(1, 512);
            for value in ["abc", "0", "null", "%F0%9F%9A%80", &"x".repeat(512), &wide(512)] {
                wrong.push(Wrong { value: value.to_owned(), expected: Expected::Cursor });
            }
            (wrong, vec!["abc".to_owned()])
        }
        Form::Ticket => {
            let both =
                |value: &str| Wrong { value: value.to_owned(), expected: Expected::Whole(400, "INVALID_REQUEST") };
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
            wrong.push(Wrong { value: (*value).to_owned(), expected: Expected::Whole(status, code) });
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
            off.iter_mut().for_each(|wrong| wrong.expected = Expected::Whole(404, "FEATURE_DISABLED"));
            (off, Vec::new())
        }
        _ => panic!("no form of a path"),
    }
}
