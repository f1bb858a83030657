//! One question, asked over REST or over gRPC, with one form of answer.

use reqwest::Url;
use serde::Serialize;
use serde_json::{Value, json};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    json as canonical, names,
    time::to_millis,
    v1::{
        self, event_service_client::EventServiceClient, profile_service_client::ProfileServiceClient,
        search_service_client::SearchServiceClient, thesis_service_client::ThesisServiceClient,
        token_service_client::TokenServiceClient,
    },
};
use tonic::{Request, Status, transport::Channel};

use crate::harness::{Client, iso};

/// A question.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Theses(v1::ListThesesRequest),
    Thesis(String),
    Profile(v1::GetProfileRequest),
    Token(v1::GetTokenRequest),
    Activity(v1::GetTokenActivityRequest),
    Velocity(v1::GetThesisVelocityRequest),
    Verify(v1::VerifyThesisRequest),
    Search(v1::SearchRequest),
    Events(v1::ListEventsRequest),
    Event(String),
}

/// A refusal, and why.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: String,
    /// Its text, without the request's id.
    pub(super) text: String,
    /// The near names that it tells.
    pub(super) near: Vec<String>,
    /// The tokens that an ambiguous reference names, in no order.
    candidates: Vec<String>,
}

/// An answer.
pub(super) type Outcome = Result<Value, Failure>;

impl Failure {
    pub(super) fn of(code: &str) -> Self {
        Self { code: code.to_owned(), text: String::new(), near: Vec::new(), candidates: Vec::new() }
    }

    pub(super) fn ambiguous(candidates: Vec<Value>) -> Self {
        Self { candidates: in_no_order(&candidates), ..Self::of("AMBIGUOUS_TOKEN") }
    }

    fn read(code: &str, message: &str, details: &Value) -> Self {
        let candidates = details["candidates"].as_array().map(|rows| in_no_order(rows)).unwrap_or_default();
        let near = details["near"].as_array().into_iter().flatten();
        let near = near.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Self { code: code.to_owned(), text: format!("{message} {details}"), near, candidates }
    }
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        (&self.code, &self.candidates) == (&other.code, &other.candidates)
    }
}

fn in_no_order(rows: &[Value]) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    rows.sort_unstable();
    rows
}

/// A caller with a key.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) key: String,
    pub(super) rest: Client,
    pub(super) grpc: Channel,
}

fn tree<T: Serialize>(resource: T) -> Value {
    serde_json::to_value(resource).unwrap()
}

impl Caller {
    /// Asks over REST or gRPC.
    pub(super) async fn ask(&self, ask: &Ask, over_grpc: bool) -> Outcome {
        let mut outcome = if over_grpc {
            self.over_grpc(ask).await.map_err(|status| {
                let error = ApiError::from_status(&status);
                Failure::read(error.code.as_str(), &error.message, &error.details.map_or(Value::Null, |value| *value))
            })
        } else {
            self.over_rest(ask).await
        };
        if let Ok(answer) = &mut outcome {
            round_change(answer);
        }
        outcome
    }

    fn with_key<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", format!("Bearer {}", self.key).parse().unwrap());
        request
    }

    async fn over_grpc(&self, ask: &Ask) -> Result<Value, Status> {
        macro_rules! call {
            ($client:ident, $method:ident, $request:expr) => {
                $client::new(self.grpc.clone()).$method(self.with_key($request)).await?.into_inner()
            };
        }
        Ok(match ask.clone() {
            Ask::Theses(ask) => tree(canonical::ThesisList::from(&call!(ThesisServiceClient, list_theses, ask))),
            Ask::Thesis(id) => {
                let answer = call!(ThesisServiceClient, get_thesis, v1::GetThesisRequest { id });
                tree(canonical::Thesis::from(&answer.thesis.unwrap()))
            }
            Ask::Profile(ask) => {
                let answer = call!(ProfileServiceClient, get_profile, ask);
                tree(canonical::Profile::from(&answer.profile.unwrap()))
            }
            Ask::Token(ask) => tree(canonical::Token::from(&call!(TokenServiceClient, get_token, ask).token.unwrap())),
            Ask::Activity(ask) => {
                let answer = call!(TokenServiceClient, get_token_activity, ask);
                tree(canonical::TokenActivity::from(&answer.activity.unwrap()))
            }
            Ask::Velocity(ask) => {
                let answer = call!(TokenServiceClient, get_thesis_velocity, ask);
                tree(canonical::ThesisVelocity::from(&answer.velocity.unwrap()))
            }
            Ask::Verify(ask) => {
                let answer = call!(ThesisServiceClient, verify_thesis, ask);
                tree(canonical::ThesisVerification::from(&answer.verification.unwrap()))
            }
            Ask::Search(ask) => {
                tree(canonical::SearchResult::from(&call!(SearchServiceClient, search, ask).result.unwrap()))
            }
            Ask::Events(ask) => tree(canonical::EventList::from(&call!(EventServiceClient, list_events, ask))),
            Ask::Event(id) => {
                let answer = call!(EventServiceClient, get_event, v1::GetEventRequest { id });
                tree(canonical::Event::from(&answer.event.unwrap()))
            }
        })
    }

    async fn over_rest(&self, ask: &Ask) -> Outcome {
        let answer = match ask {
            Ask::Verify(ask) => self.rest.post("/v1/verify/thesis", &claim(ask)).await,
            _ => self.rest.get(&target(ask)).await,
        };
        if answer.status == 200 {
            return Ok(answer.json());
        }
        let code = answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
        let status = ErrorCode::parse(&code).expect("a code of the table").http_status();
        let error = answer.error(status, &code);
        Err(Failure::read(&code, error["message"].as_str().unwrap_or_default(), &error["details"]))
    }
}

/// A quotient is not compared to its last digit.
fn round_change(answer: &mut Value) {
    if let Some(change) = answer.get("change_pct").and_then(Value::as_f64) {
        answer["change_pct"] = rounded(change);
    }
}

/// A quotient as it is compared.
pub(super) fn rounded(quotient: f64) -> Value {
    json!((quotient * 1e6).round() / 1e6)
}

fn claim(ask: &v1::VerifyThesisRequest) -> Value {
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().map(|at| iso(to_millis(at)));
    let mut body = json!({
        "handle": ask.handle, "profile_id": ask.profile_id, "token": ask.token, "chain": ask.chain,
        "created_after": time(&ask.created_after), "created_before": time(&ask.created_before),
        "contains": ask.contains,
    });
    body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    body
}

/// Path and query of a question.
fn target(ask: &Ask) -> String {
    let mut url = Url::parse("http://edge/v1").unwrap();
    let path: Vec<&str> = match ask {
        Ask::Theses(_) => vec!["theses"],
        Ask::Thesis(id) => vec!["theses", id],
        Ask::Profile(ask) => ["profiles"].into_iter().chain(ask.r#ref.as_deref()).collect(),
        Ask::Token(ask) => vec!["tokens", &ask.r#ref],
        Ask::Activity(ask) => vec!["tokens", &ask.r#ref, "activity"],
        Ask::Velocity(ask) => vec!["tokens", &ask.r#ref, "thesis-velocity"],
        Ask::Verify(_) => vec!["verify", "thesis"],
        Ask::Search(_) => vec!["search"],
        Ask::Events(_) => vec!["events"],
        Ask::Event(id) => vec!["events", id],
    };
    url.path_segments_mut().unwrap().extend(path);
    let given = parameters(ask).into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in given {
        url.query_pairs_mut().append_pair(name, &value);
    }
    url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
}

fn parameters(ask: &Ask) -> Vec<(&'static str, Option<String>)> {
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().map(|at| iso(to_millis(at)));
    let number = |number: Option<i32>| number.map(|number| number.to_string());
    match ask {
        Ask::Theses(ask) => vec![
            ("profile", ask.profile.clone()),
            ("handle", ask.handle.clone()),
            ("token", ask.token.clone()),
            ("chain", ask.chain.clone()),
            ("created_after", time(&ask.created_after)),
            ("created_before", time(&ask.created_before)),
            ("since", ask.since.clone()),
            ("sort", Some(names::thesis_sort_name(ask.sort()).to_owned())),
            ("limit", number(ask.limit)),
            ("cursor", ask.cursor.clone()),
        ],
        Ask::Profile(ask) => vec![
            ("id", ask.id.clone()),
            ("handle", ask.handle.clone()),
            ("upstream_user_id", ask.upstream_user_id.clone()),
        ],
        Ask::Token(ask) => vec![("chain", ask.chain.clone())],
        Ask::Activity(ask) => vec![("chain", ask.chain.clone()), ("recent", number(ask.recent))],
        Ask::Velocity(ask) => vec![("chain", ask.chain.clone())],
        Ask::Search(ask) => vec![
            ("q", Some(ask.q.clone())),
            ("types", joined(ask.types().map(names::search_type_name))),
            ("chain", ask.chain.clone()),
            ("token", ask.token.clone()),
            ("handle", ask.handle.clone()),
            ("created_after", time(&ask.created_after)),
            ("created_before", time(&ask.created_before)),
            ("sort", Some(names::search_sort_name(ask.sort()).to_owned())),
            ("limit", number(ask.limit)),
        ],
        Ask::Events(ask) => vec![
            ("types", joined(ask.types().map(names::event_type_name))),
            ("token", ask.filters.as_ref().and_then(|filters| joined(filters.token.iter()))),
            ("handle", ask.filters.as_ref().and_then(|filters| joined(filters.handle.iter()))),
            ("chain", ask.filters.as_ref().and_then(|filters| joined(filters.chain.iter()))),
            ("created_after", time(&ask.created_after)),
            ("created_before", time(&ask.created_before)),
            ("limit", number(ask.limit)),
            ("cursor", ask.cursor.clone()),
        ],
        Ask::Thesis(_) | Ask::Verify(_) | Ask::Event(_) => Vec::new(),
    }
}

fn joined(values: impl Iterator<Item: AsRef<str>>) -> Option<String> {
    let values: Vec<String> = values.map(|value| value.as_ref().to_owned()).collect();
    (!values.is_empty()).then(|| values.join(","))
}
