//! The requests to a loaded service: each operation that keys serve, then searches.

use core_service::{domain::window::DAY_MS, thesis_event_id};
use serde_json::Value;
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::time::{format_millis, parse_iso8601, to_millis};

use crate::{
    Failure,
    connection::{Connection, get},
    data::{COMMON_WORD, Facts, HOTTEST, MEDIAN, RARE_WORD, profile_id, symbol, thesis_id, token_id},
    process::{Service, test_key},
};

/// Number of theses whose authors, tokens and times requests use.
const SAMPLES: u64 = 2_000;
/// Number of places in the list from which a page is read.
const DEPTHS: usize = 64;
const HOUR_MS: i64 = 3_600_000;
/// Number of different `as_of` times in the requests.
const AS_OF_TIMES: i64 = 10_000;

/// The operations that read figures as of a time, each with the operation that reads the present figures.
pub(crate) const AS_OF: [(&str, &str); 4] = [
    ("token as of a time, hottest", "hottest token"),
    ("activity as of a time, hottest", "activity, hottest token"),
    ("activity as of a time, median", "activity, median token"),
    ("velocity as of a time, hottest", "velocity, hottest token"),
];

/// One operation with its requests, as the client takes them.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) requests: Vec<String>,
    /// A text in every answer, to check that the request was right.
    pub(crate) holds: &'static str,
    /// Number of matching theses, for a search with many.
    pub(crate) matches: Option<u64>,
}

impl Operation {
    fn new(name: &'static str, holds: &'static str, requests: Vec<String>) -> Self {
        Self { name, requests, holds, matches: None }
    }

    fn matching(self, theses: u64) -> Self {
        Self { matches: Some(theses), ..self }
    }
}

/// A loaded thesis.
struct Sample {
    profile: String,
    handle: String,
    token: String,
    symbol: String,
    created_at: i64,
}

impl Sample {
    fn of(thesis: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            profile: text(&thesis["profile"]["id"])?,
            handle: text(&thesis["profile"]["handle"])?.replace('@', ""),
            token: text(&thesis["token"]["id"])?,
            symbol: text(&thesis["token"]["symbol"])?.replace('$', ""),
            created_at: to_millis(&parse_iso8601(thesis["created_at"].as_str()?)?),
        })
    }

    /// Asks whether an author posted on a token around the time of this thesis.
    fn verify(&self, handle: &str, token: &str, before_ms: i64, after_ms: i64) -> String {
        let [from, to] = [self.created_at - before_ms, self.created_at + after_ms].map(format_millis);
        let body = serde_json::json!({ "handle": handle, "token": token, "created_after": from, "created_before": to });
        format!("/v1/verify/thesis\t{body}")
    }
}

async fn ask(connection: &mut Connection, path: &str) -> Result<Value, Failure> {
    Ok(serde_json::from_slice(connection.ask_ok(&get(path, &test_key())).await?.body)?)
}

/// Requests for pages from places spread over the whole list.
async fn deep_pages(connection: &mut Connection, samples: &[Sample]) -> Result<Vec<String>, Failure> {
    let mut pages = Vec::new();
    for sample in samples.iter().step_by((samples.len() / DEPTHS).max(1)) {
        let list = format!("/v1/theses?limit=25&created_before={}", format_millis(sample.created_at));
        if let Some(cursor) = ask(connection, &list).await?["next_cursor"].as_str() {
            pages.push(format!("{list}&cursor={cursor}"));
        }
    }
    Ok(pages)
}

/// The operations that keys serve, and the searches.
pub(crate) async fn of(service: &Service, facts: &Facts) -> Result<[Vec<Operation>; 2], Failure> {
    let mut connection = Connection::open(service.address("http")?).await?;
    let mut samples = Vec::new();
    for number in (0..facts.theses).step_by(usize::try_from(facts.theses / SAMPLES)?.max(1)) {
        let thesis = ask(&mut connection, &format!("/v1/theses/{}", thesis_id(number))).await?;
        samples.push(Sample::of(&thesis).ok_or("a thesis lacks fields")?);
    }
    let deep = deep_pages(&mut connection, &samples).await?;
    let keyed = keyed(facts, &samples, deep);
    let searches = searches(facts, &samples);
    for operation in keyed.iter().chain(&searches) {
        let line = operation.requests.first().ok_or_else(|| format!("{}: nothing to ask", operation.name))?;
        let answer = connection.ask_ok(&crate::client::request(line, &test_key())).await?;
        let answer = String::from_utf8_lossy(answer.body);
        if !answer.contains(operation.holds) {
            return Err(format!("{}: {line:?} was answered {answer}", operation.name).into());
        }
    }
    Ok([keyed, searches])
}

// Where answers could have more rows with more theses, the requests get full pages with few theses too, so that answers
// of one size are compared.
fn keyed(facts: &Facts, samples: &[Sample], deep: Vec<String>) -> Vec<Operation> {
    let all = |line: fn(u64) -> String| (0..facts.theses).map(line).collect::<Vec<_>>();
    let each = |line: fn(&Sample) -> String| samples.iter().map(line).collect::<Vec<_>>();
    let (hottest, median) = (symbol(HOTTEST), symbol(MEDIAN));
    let rows = r#""data":[{"#;
    let thesis = |name, path: &str| Operation::new(name, rows, vec![format!("/v1/theses?limit=25{path}")]);
    let events = |name, holds, path: &str| Operation::new(name, holds, vec![format!("/v1/events?limit=25{path}")]);
    let mut operations = vec![
        Operation::new(
            "thesis by id",
            r#""object":"thesis""#,
            all(|number| format!("/v1/theses/{}", thesis_id(number))),
        ),
        Operation::new("profile by id", r#""object":"profile""#, each(|of| format!("/v1/profiles/{}", of.profile))),
        Operation::new("profile by handle", r#""object":"profile""#, each(|of| format!("/v1/profiles/@{}", of.handle))),
        Operation::new("token by id", r#""object":"token""#, each(|of| format!("/v1/tokens/{}", of.token))),
        Operation::new("token by symbol", r#""object":"token""#, each(|of| format!("/v1/tokens/{}", of.symbol))),
        Operation::new("hottest token", r#""object":"token""#, vec![format!("/v1/tokens/{hottest}")]),
        Operation::new("activity, hottest token", "timeline", vec![format!("/v1/tokens/{hottest}/activity")]),
        Operation::new("activity, median token", "timeline", vec![format!("/v1/tokens/{median}/activity?recent=3")]),
        Operation::new("velocity, hottest token", "last_5m", vec![format!("/v1/tokens/{hottest}/thesis-velocity")]),
        Operation::new("token as of a time, hottest", r#""object":"token""#, as_of(&format!("/v1/tokens/{hottest}?"))),
        Operation::new("activity as of a time, hottest", "timeline", as_of(&format!("/v1/tokens/{hottest}/activity?"))),
        Operation::new(
            "activity as of a time, median",
            "timeline",
            as_of(&format!("/v1/tokens/{median}/activity?recent=3&")),
        ),
        Operation::new(
            "velocity as of a time, hottest",
            "last_5m",
            as_of(&format!("/v1/tokens/{hottest}/thesis-velocity?")),
        ),
        thesis("theses", ""),
        thesis("theses, oldest first", "&sort=created_at_asc"),
        Operation::new("theses, in the depth by cursor", rows, deep),
        thesis("theses of a chain", "&chain=sandbox"),
        thesis("theses on the hottest token", &format!("&token={hottest}")),
        Operation::new(
            "theses of a profile",
            rows,
            (0..10).map(|index| format!("/v1/theses?limit=25&profile={}", profile_id(index))).collect(),
        ),
        Operation::new(
            "theses of a profile on a token",
            rows,
            [(0, 0), (1, 0), (0, 1)]
                .map(|(by, on)| format!("/v1/theses?limit=25&profile={}&token={}", profile_id(by), token_id(on)))
                .to_vec(),
        ),
        events("events", rows, ""),
        events("events, thesis.created", rows, "&types=thesis.created"),
        events("events, hottest token", rows, &format!("&token={hottest}")),
        // Rare: its page ends after a bounded search and may be empty.
        events("events, median token", r#""object":"list""#, &format!("&token={median}")),
        Operation::new(
            "event by id",
            r#""object":"event""#,
            all(|number| format!("/v1/events/{}", thesis_event_id(&thesis_id(number)))),
        ),
    ];
    operations.extend(verifications(samples));
    operations
}

/// Requests for the figures of many times up to now.
fn as_of(path: &str) -> Vec<String> {
    let now = SystemClock.now_ms();
    (0..AS_OF_TIMES).map(|number| format!("{path}as_of={}", format_millis(now - number))).collect()
}

fn verifications(samples: &[Sample]) -> [Operation; 3] {
    let on_hottest = samples.iter().filter(|sample| sample.token == token_id(HOTTEST));
    let others = samples.iter().zip(samples.iter().skip(1));
    [
        Operation::new(
            "verification, hit",
            r#""verified":true"#,
            samples.iter().map(|of| of.verify(&of.handle, &of.token, HOUR_MS, HOUR_MS)).collect(),
        ),
        // The author of one thesis and the token of the next: nearly never together within two hours.
        Operation::new(
            "verification, miss",
            r#""verified":"#,
            others.map(|(one, next)| one.verify(&one.handle, &next.token, HOUR_MS, HOUR_MS)).collect(),
        ),
        Operation::new(
            "verification, hottest token",
            r#""verified":true"#,
            on_hottest.map(|of| of.verify(&of.handle, &of.token, DAY_MS, 0)).collect(),
        ),
    ]
}

fn searches(facts: &Facts, samples: &[Sample]) -> Vec<Operation> {
    let each = |line: fn(&Sample) -> String| samples.iter().map(line).collect::<Vec<_>>();
    let search = |name, query: &str| {
        Operation::new(name, r#""theses":[{"#, vec![format!("/v1/search?types=theses&limit=10&{query}")])
    };
    let by_likes = |name, path: &str| {
        Operation::new(name, r#""data":[{"#, vec![format!("/v1/theses?sort=likes_desc&limit=25{path}")])
    };
    vec![
        search("search, common word", &format!("q={COMMON_WORD}")).matching(facts.common),
        search("search, common word, newest", &format!("q={COMMON_WORD}&sort=created_at_desc")).matching(facts.common),
        search("search, rare word", &format!("q={RARE_WORD}")).matching(facts.rare),
        Operation::new(
            "search, a handle",
            r#""profiles":[{"#,
            each(|of| format!("/v1/search?limit=10&q=%40{}", of.handle)),
        )
        .matching(1),
        by_likes("theses by likes", "").matching(facts.theses),
        by_likes("theses by likes, hottest token", &format!("&token={}", symbol(HOTTEST))).matching(facts.hottest),
    ]
}
