//! The output of a command: JSON for programs, text for people.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use thesis_net::channel::remedy;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    json::{Error, List},
    metadata::SERVICE_TOKEN,
    time::{format_millis, to_millis},
    v1::{AbusiveAddress, AuditEntry, DatasetFile, Organization, Project, User},
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::terminal::{plain, table};

/// A resource's fields, in order. A field that does not apply yet is null.
pub(super) struct Resource(pub(super) Vec<(&'static str, Value)>);

impl Resource {
    /// The columns of a table, without the kind: all rows have the same.
    fn columns(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter().filter(|(name, _)| *name != "object")
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Lists the fields of a message for [`Resource`], with those that are times marked so.
macro_rules! resource {
    ($message:ident $(as $object:literal)? { $($field:ident $(: $kind:ident)?),* }) => {
        impl From<$message> for Resource {
            fn from(message: $message) -> Self {
                Self(vec![
                    $(("object", json!($object)),)?
                    $((stringify!($field), resource!(@ message.$field $(: $kind)?))),*
                ])
            }
        }
    };
    (@ $message:ident.$field:ident) => { json!($message.$field) };
    (@ $message:ident.$field:ident: time) => { time($message.$field.as_ref()) };
}

resource!(Organization as "organization" { id, name, plan, created_at: time });
resource!(Project as "project" {
    id, name, organization_id, live_approved, live_requested_at: time, live_note, live_refusal,
    live_withdrawn_at: time, live_withdrawal, archived, created_at: time
});
resource!(User as "user" {
    id, email, administrator, created_at: time, email_confirmed_at: time, second_factor
});
resource!(AuditEntry as "audit_entry" {
    id, created_at: time, action, actor, actor_email, address, subject, organization_id, reason, hash
});
resource!(DatasetFile as "archive_file" { dataset, date, kind, rows, bytes, sha256, position });
resource!(AbusiveAddress { address, failures, first_at: time, last_at: time });

pub(super) enum CommandOutput {
    One(Resource),
    List(Vec<Resource>),
    /// A page of a list, and the cursor of the next one.
    Page(Vec<Resource>, Option<String>),
    /// Nothing more: the command has written its output to stdout.
    Printed,
}

impl CommandOutput {
    /// A whole list from core.
    pub(super) fn list<T: Into<Resource>>(data: Vec<T>) -> Self {
        Self::List(data.into_iter().map(Into::into).collect())
    }

    /// One JSON document.
    pub(super) fn json(&self) -> String {
        let text = match self {
            Self::Printed => Ok(String::new()),
            Self::One(resource) => serde_json::to_string(resource),
            Self::List(resources) => serde_json::to_string(&List::new(resources.iter().collect(), None, false)),
            Self::Page(resources, cursor) => {
                serde_json::to_string(&List::new(resources.iter().collect(), cursor.as_deref(), cursor.is_some()))
            }
        };
        text.expect("maps with text keys can be written")
    }

    /// A resource with a line for each field, a list as a table.
    pub(super) fn text(&self) -> String {
        let columns = |resource: &Resource| resource.columns().map(|(_, value)| plain(value)).collect();
        let names = |resource: &Resource| resource.columns().map(|(name, _)| (*name).to_owned()).collect();
        match self {
            Self::Printed => String::new(),
            Self::One(resource) => table(
                &resource.0.iter().map(|(name, value)| vec![(*name).to_owned(), plain(value)]).collect::<Vec<_>>(),
            ),
            Self::List(resources) | Self::Page(resources, _) => match resources.first() {
                None => "none".to_owned(),
                Some(first) => {
                    table(&std::iter::once(names(first)).chain(resources.iter().map(columns)).collect::<Vec<_>>())
                }
            },
        }
    }
}

/// A point in time, or null.
pub(super) fn time(at: Option<&prost_types::Timestamp>) -> Value {
    at.map_or(Value::Null, |at| json!(format_millis(to_millis(at))))
}

/// The error of a call to a core at one of these addresses. A service token that core refuses is no error of the API,
/// so it has no code.
fn error(status: &Status, cores: &str) -> ApiError {
    if status.code() == Code::Unauthenticated {
        return ApiError::new(
            ErrorCode::InvalidApiKey,
            "core does not accept this SVC_SERVICE_TOKEN; set the one that core has",
        );
    }
    match status.code() {
        Code::ResourceExhausted if is_about_token(status) => {
            return ApiError::new(
                ErrorCode::RateLimited,
                "core was sent too many wrong service tokens from here; set SVC_SERVICE_TOKEN to the one that core has, \
                 and wait a minute",
            );
        }
        Code::Unimplemented => {
            let message = format!(
                "no core has this command at {cores}; set SVC_CORE_URL to core's SVC_INTERNAL_ADDR if it has one, and use \
                 core's version of this program"
            );
            return ApiError::new(ErrorCode::MethodNotAllowed, message);
        }
        _ => {}
    }
    let mut error = ApiError::from_status(status);
    // A response of core has details.
    if error.code == ErrorCode::ServiceUnavailable && status.details().is_empty() {
        let todo = remedy(status).map(|remedy| format!("; {remedy}")).unwrap_or_default();
        error.message = format!("core does not answer at {cores}: {}{todo}", status.message());
    }
    error
}

fn is_about_token(status: &Status) -> bool {
    let details = status.get_error_details();
    details.error_info().and_then(|info| info.metadata.get("param")).is_some_and(|param| param == SERVICE_TOKEN)
}

/// The bare error object.
pub(super) fn error_json(status: &Status, cores: &str) -> String {
    let details = status.get_error_details();
    let request_id = details.request_info().map(|info| info.request_id.as_str()).unwrap_or_default();
    object(&error(status, cores), request_id)
}

/// The error object of a command that was not understood, or has a wrong setting: there was no request.
pub(super) fn refused_json(reason: &str) -> String {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    object(&ApiError::new(ErrorCode::InvalidRequest, reason), "")
}

fn object(error: &ApiError, request_id: &str) -> String {
    serde_json::to_string(&Error::new(error, request_id)).expect("texts can be written")
}

pub(super) fn error_text(status: &Status, cores: &str) -> String {
    let error = error(status, cores);
    match error.code {
        ErrorCode::ServiceUnavailable => error.message,
        ErrorCode::InternalError => format!("{}: {}", error.code.as_str(), status.message()),
        _ => error.to_string(),
    }
}
