//! The tools. Each is defined by an operation of the API.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Request, header::CONTENT_TYPE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use thesis_proto::error::{ApiError, ErrorCode, FieldError};

use super::results::{self, Event, EventPage, Profile, SearchResult, Thesis, ThesisPage, Token, TokenActivity, Usage};
use crate::{
    answer::JSON,
    input::{Kind, Param},
    openapi::parameter_schema,
    route::Route,
    v1,
};

const NOT_A_TEXT: &str = "must be a string";

/// The definition of a tool by an operation.
struct ToolSpec {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// The id of the operation.
    operation: &'static str,
    /// Name of the argument that becomes the path parameter, if the path has one.
    path_argument: Option<&'static str>,
    /// The argument for the size of the result, with a default that is smaller than the operation's.
    size: Option<(&'static str, i32)>,
    /// Adds the schema of the result.
    describe: fn(Tool) -> Tool,
    /// Makes the result of the operation's response.
    read: fn(&[u8]) -> serde_json::Result<Value>,
}

const SPECS: [ToolSpec; 9] = [
    ToolSpec {
        name: "search",
        title: "Search theses, profiles and tokens",
        about: "Finds theses by their words, and profiles and tokens by their names. Use it to find the handle or \
                token that a person means. For all theses of a token or an author, use list_theses.",
        operation: "search",
        path_argument: None,
        size: Some(("limit", 5)),
        describe: Tool::with_output_schema::<SearchResult>,
        read: results::read::<results::ApiSearchResult, SearchResult>,
    },
    ToolSpec {
        name: "list_theses",
        title: "List theses",
        about: "Lists theses, newest first, of a token, an author or a time. Filters combine. Long texts are cut; \
                get_thesis reads one in full.",
        operation: "listTheses",
        path_argument: None,
        size: Some(("limit", 10)),
        describe: Tool::with_output_schema::<ThesisPage>,
        read: results::read::<results::ApiPage<results::ApiThesis>, ThesisPage>,
    },
    ToolSpec {
        name: "get_thesis",
        title: "Read a thesis",
        about: "Reads one thesis in full, by its id.",
        operation: "getThesis",
        path_argument: Some("id"),
        size: None,
        describe: Tool::with_output_schema::<Thesis>,
        read: results::read::<results::ApiThesis, Thesis>,
    },
    ToolSpec {
        name: "get_profile",
        title: "Read a profile",
        about: "Reads the public profile of an author. list_theses with `handle` has what they posted.",
        operation: "getProfile",
        path_argument: Some("profile"),
        size: None,
        describe: Tool::with_output_schema::<Profile>,
        read: results::read::<Profile, Profile>,
    },
    ToolSpec {
        name: "get_token",
        title: "Read a token",
        about: "Reads a token's names, address and counts. If several tokens have the symbol, the error lists them as \
                candidates: ask which one is meant.",
        operation: "getToken",
        path_argument: Some("token"),
        size: None,
        describe: Tool::with_output_schema::<Token>,
        read: results::read::<Token, Token>,
    },
    ToolSpec {
        name: "get_token_activity",
        title: "Read a token's last 24 hours",
        about: "Counts a token's theses and authors of the last hour and day, by hour, with the newest theses. Hours \
                without a thesis are left out.",
        operation: "getTokenActivity",
        path_argument: Some("token"),
        size: Some(("recent", 5)),
        describe: Tool::with_output_schema::<TokenActivity>,
        read: results::read::<results::ApiTokenActivity, TokenActivity>,
    },
    ToolSpec {
        name: "verify_thesis",
        title: "Verify a thesis",
        about: "Tells whether an author posted a thesis on a token in a window of time, and why not. Give `handle` or \
                `profile_id`. With `receipt`, the result has a proof that anyone can check offline: save the object \
                `receipt` or `statement` unchanged as a file.",
        operation: "verifyThesis",
        path_argument: None,
        size: None,
        describe: Tool::with_output_schema::<results::Verification>,
        read: results::read::<results::Verification, results::Verification>,
    },
    ToolSpec {
        name: "list_events",
        title: "List events",
        about: "Lists what happened, newest first: theses, changes of profiles, activity of tokens, and with `types` \
                alerts. Long texts are cut; get_thesis reads one in full, and get_profile the bio of an author.",
        operation: "listEvents",
        path_argument: None,
        size: Some(("limit", 10)),
        describe: Tool::with_output_schema::<EventPage>,
        read: results::read::<results::ApiPage<Event>, EventPage>,
    },
    ToolSpec {
        name: "get_usage",
        title: "Read the usage of the key",
        about: "Tells how much is left of the plan's requests for this month, and of each rate class for this minute. \
                Every call of a tool counts as one request.",
        operation: "getUsage",
        path_argument: None,
        size: None,
        describe: Tool::with_output_schema::<Usage>,
        read: results::read::<Usage, Usage>,
    },
];

/// A tool with its operation.
pub(super) struct ApiTool {
    spec: ToolSpec,
    route: Route,
    description: Tool,
}

/// All tools, in the order of their list.
pub(super) fn all() -> &'static [ApiTool] {
    static TOOLS: LazyLock<Vec<ApiTool>> = LazyLock::new(|| {
        let mut routes = v1::routes();
        let tools = SPECS.into_iter().map(|spec| {
            let position = routes.iter().position(|route| route.id == spec.operation);
            ApiTool::new(spec, routes.swap_remove(position.expect("each tool names an operation of its own")))
        });
        tools.collect()
    });
    &TOOLS
}

pub(super) fn find(name: &str) -> Option<&'static ApiTool> {
    all().iter().find(|tool| tool.spec.name == name)
}

impl ApiTool {
    fn new(spec: ToolSpec, route: Route) -> Self {
        let annotations = ToolAnnotations::with_title(spec.title).read_only(true).open_world(false);
        let tool = Tool::new(spec.name, spec.about, input_schema(&spec, &route)).with_title(spec.title);
        let description = (spec.describe)(tool.with_annotations(annotations));
        Self { spec, route, description }
    }

    pub(super) fn name(&self) -> &'static str {
        self.spec.name
    }

    pub(super) fn description(&self) -> &Tool {
        &self.description
    }

    pub(super) fn read(&self, body: &[u8]) -> serde_json::Result<Value> {
        (self.spec.read)(body)
    }

    /// The request for these arguments. The API checks them, so they are sent unchanged. An argument of a query is
    /// refused here if a query has no form for its value.
    pub(super) fn request(&self, mut arguments: JsonObject) -> Result<Request<Bytes>, ApiError> {
        arguments.retain(|_, value| !value.is_null());
        if let Some((name, size)) = self.spec.size {
            arguments.entry(name).or_insert_with(|| size.into());
        }
        let mut target = self.path(&mut arguments)?;
        let mut request = Request::builder().method(self.route.method.clone());
        let mut body = Bytes::new();
        if self.route.method == Method::GET {
            target.push_str(&query(self.route.query, &arguments)?);
        } else {
            request = request.header(CONTENT_TYPE, JSON);
            body = Value::Object(arguments).to_string().into();
        }
        let too_long = "the arguments are too long for a URI; shorten them";
        request.uri(target).body(body).map_err(|_| ApiError::new(ErrorCode::PayloadTooLarge, too_long))
    }

    fn path(&self, arguments: &mut JsonObject) -> Result<String, ApiError> {
        let path = self.route.path;
        let Some(name) = self.spec.path_argument else { return Ok(path.to_owned()) };
        let wrong = |rule: &str| ApiError::validation(&[FieldError::new(name, rule)]);
        let value = arguments.remove(name).unwrap_or_default();
        if value.is_array() || value.is_object() {
            return Err(wrong(NOT_A_TEXT));
        }
        let value = Some(scalar(&value)).filter(|text| !value.is_null() && !text.is_empty());
        let value = value.ok_or_else(|| wrong("is required"))?;
        // A client of HTTP removes them from the path, encoded or not, and so would send another request.
        if [".", ".."].contains(&value.as_str()) {
            return Err(wrong("must not be `.` or `..`"));
        }
        let (before, parameter) = path.split_once('{').expect("the path has a parameter");
        let (_, after) = parameter.split_once('}').expect("the parameter ends");
        Ok(format!("{before}{}{after}", encoded(&value)))
    }
}

/// The query string of arguments; empty without any. The error names all whose values have no form in a query.
fn query(params: &[Param], arguments: &JsonObject) -> Result<String, ApiError> {
    let wrong = params.iter().filter_map(|param| {
        let rule = broken_rule(&param.kind, arguments.get(param.name)?)?;
        Some(FieldError::new(param.name, rule))
    });
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        return Err(ApiError::validation(&wrong));
    }
    let mut query = String::new();
    for (name, value) in arguments {
        let is_repeated = params.iter().any(|param| param.name == name && matches!(param.kind, Kind::Searches));
        let values = match value {
            Value::Array(values) if is_repeated => values.iter().map(scalar).collect(),
            value => vec![scalar(value)],
        };
        for value in values {
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(&format!("{}={}", encoded(name), encoded(&value)));
        }
    }
    Ok(query)
}

/// The rule that an array or an object breaks as the value of a parameter.
fn broken_rule(kind: &Kind, value: &Value) -> Option<&'static str> {
    let is_single = |value: &Value| !value.is_array() && !value.is_object() && !value.is_null();
    let is_list = kind.is_list() || matches!(kind, Kind::Searches);
    let fits = match value {
        Value::Array(values) if is_list => values.iter().all(is_single),
        value => is_single(value),
    };
    (!fits).then_some(match kind {
        Kind::Integer(..) => "must be a whole number",
        Kind::Flag => "must be true or false",
        _ if is_list => "must be a string or an array of strings",
        _ => NOT_A_TEXT,
    })
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A value in its form in a query.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(scalar).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}

/// The schema of a tool's arguments: the operation's parameters.
fn input_schema(spec: &ToolSpec, route: &Route) -> JsonObject {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    if let Some(name) = spec.path_argument {
        let about = route.path_parameter;
        let schema = json!({"type": "string", "minLength": 1, "maxLength": route.path_chars, "description": about});
        properties.insert(name.to_owned(), schema);
        required.push(name);
    }
    for param in route.body.unwrap_or(route.query) {
        let mut schema = match &param.kind {
            // The description of the API refers to enums by name.
            Kind::OneOf(values) => json!({"type": "string", "enum": values()}),
            kind => parameter_schema(kind),
        };
        schema["description"] = json!(param.about);
        if let Some((_, size)) = spec.size.filter(|(name, _)| *name == param.name) {
            schema["default"] = json!(size);
        }
        properties.insert(param.name.to_owned(), schema);
        if param.required {
            required.push(param.name);
        }
    }
    JsonObject::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), json!(required)),
        ("additionalProperties".to_owned(), json!(false)),
    ])
}
