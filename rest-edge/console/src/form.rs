//! Forms: the guard that checks posted forms, and the faults that a page shows with a form.
//!
//! The guard demands the token that the page put into the form, an HMAC keyed by the session's token or, for visitors
//! without one, by their form cookie. `Origin`, where it is sent, must be this site.

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, de::DeserializeOwned};
use thesis_proto::error::{ApiError, ErrorCode, FieldError};
use tonic::Status;

use super::{
    failure::{Failed, sentence, status_of},
    visit::Visit,
};

/// The fields of a posted form. The guard has checked that a page of this service sent it from this browser. A list may
/// occur several times. A missing text is a fault of the form, unless the field has a `serde` default.
pub(crate) struct Posted<T>(pub(crate) T);

#[derive(Deserialize)]
pub(crate) struct NoFields {}

/// A form with a button. Core does its work once, even if the browser sends the form again.
#[derive(Deserialize)]
pub(crate) struct Once {
    /// The idempotency token that the page put into the form.
    #[serde(default)]
    pub(crate) once: String,
}

#[derive(Deserialize)]
struct Guarded {
    #[serde(default)]
    csrf: String,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Posted<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failed> {
        let (mut parts, body) = request.into_parts();
        let Ok(visit) = Visit::from_request_parts(&mut parts, state).await;
        if !visit.is_own {
            return Err(refused("the form was sent by another site"));
        }
        let body = Bytes::from_request(Request::from_parts(parts, body), state).await;
        let body = body.map_err(|_| unreadable())?;
        let guarded: Guarded = serde_html_form::from_bytes(&body).map_err(|_| unreadable())?;
        if !visit.accepts(&guarded.csrf) {
            return Err(refused("the form is out of date; go back, reload the page and send it again"));
        }
        serde_html_form::from_bytes(&body).map(Self).map_err(|_| unreadable())
    }
}

fn refused(message: &str) -> Failed {
    ApiError::new(ErrorCode::InsufficientRole, message).into()
}

fn unreadable() -> Failed {
    let message = "the form could not be read; go back, reload the page and send it again";
    ApiError::new(ErrorCode::ValidationFailed, message).into()
}

/// The faults of a submitted form.
#[derive(Default)]
pub(crate) struct Faults {
    status: StatusCode,
    whole: Option<String>,
    /// The faults of single fields, as sentences.
    fields: Vec<FieldError>,
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Reads the faults from core's status.
    ///
    /// # Errors
    /// Fails when the page cannot show the form again: nobody is signed in, the change needs a confirmation, the
    /// resource does not exist, or core failed.
    pub(crate) fn of(status: &Status) -> Result<Self, Failed> {
        let error = ApiError::from_status(status);
        let http = error.code.http_status();
        let leads_away = [ErrorCode::SignInRequired, ErrorCode::ConfirmationRequired].contains(&error.code);
        if leads_away || http == 404 || http >= 500 {
            return Err(error.into());
        }
        let faults = Self::new(&error);
        let whole =
            faults.whole.map(|whole| if faults.fields.is_empty() { whole } else { format!("Not saved. {whole}") });
        Ok(Self { whole, ..faults })
    }

    /// Splits the result of a page's query: an empty response with faults if the query was wrong.
    ///
    /// # Errors
    /// Fails when another query would fail too.
    pub(crate) fn of_query<T: Default>(answer: Result<T, Status>) -> Result<(T, Self), Failed> {
        let status = match answer {
            Ok(answer) => return Ok((answer, Self::none())),
            Err(status) => status,
        };
        let error = ApiError::from_status(&status);
        match error.code {
            ErrorCode::ValidationFailed
            | ErrorCode::InvalidCursor
            | ErrorCode::HistoryLimit
            | ErrorCode::AmbiguousToken => Ok((T::default(), Self::new(&error))),
            _ => Err(error.into()),
        }
    }

    /// The fault of one field that a page checks itself.
    pub(crate) fn wrong(param: &str, message: &str) -> Self {
        Self::new(&ApiError::validation(&[FieldError::new(param, message)]))
    }

    fn new(error: &ApiError) -> Self {
        let (mut fields, mut sentences) = (Vec::new(), Vec::new());
        for FieldError { param, message } in error.field_errors() {
            // Not every fault has a field on the page, so the message of the whole form lists it too.
            sentences.push(sentence(&format!("{}: {message}", label(&param))));
            fields.push(FieldError::new(param, sentence(&message)));
        }
        let whole = if sentences.is_empty() { sentence(&error.message) } else { sentences.join(" ") };
        Self { status: status_of(error), whole: Some(whole), fields }
    }

    /// The fault of a field.
    pub(crate) fn field(&self, param: &str) -> Option<&str> {
        self.fields.iter().find(|fault| fault.param == param).map(|fault| fault.message.as_str())
    }

    /// Returns the first fault of any part of a field, such as `headers.Host` of `headers`.
    pub(crate) fn first_within(&self, param: &str) -> Option<&str> {
        let is_within = |fault: &&FieldError| fault.param.strip_prefix(param).is_some_and(|rest| rest.starts_with('.'));
        self.fields.iter().find(is_within).map(|fault| fault.message.as_str())
    }

    /// The faults of the form as a whole.
    pub(crate) fn whole(&self) -> Option<&str> {
        self.whole.as_deref()
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }
}

/// The readable name of a field: `created after` for `filters.created_after`.
pub(crate) fn label(param: &str) -> String {
    let name = param.rsplit('.').next().unwrap_or(param);
    match name {
        "q" => "search".to_owned(),
        "url" => "URL".to_owned(),
        "profile_id" => "profile's id".to_owned(),
        "organization_name" => "organization".to_owned(),
        "expires_at" => "expiry".to_owned(),
        "confirm" => "confirmation".to_owned(),
        // The scope of a key, such as `wallets:read`.
        scope if scope.contains(':') => format!("scope {scope}"),
        _ => name.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong() -> Status {
        let faults = [FieldError::new("cursor", "must be shorter"), FieldError::new("filters.chain", "must be known")];
        ApiError::validation(&faults).to_status("")
    }

    #[test]
    fn all_faults_are_listed_by_name() {
        let posted = Faults::of(&wrong()).unwrap();
        let sentences = "Not saved. Cursor: must be shorter. Chain: must be known.";
        assert_eq!((posted.whole(), posted.field("filters.chain")), (Some(sentences), Some("Must be known.")));
    }

    #[test]
    fn a_fault_names_its_field_as_people_know_it() {
        let names = ["q", "url", "wallets:read", "filters.created_after", "as_of"].map(label);
        assert_eq!(names, ["search", "URL", "scope wallets:read", "created after", "as of"]);
    }

    #[test]
    fn a_wrong_query_is_reported_on_its_page() {
        let ((), faults) = Faults::of_query(Err(wrong())).unwrap();
        assert_eq!(faults.whole(), Some("Cursor: must be shorter. Chain: must be known."));
        assert_eq!(faults.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let cursor = ApiError::new(ErrorCode::InvalidCursor, "the cursor is wrong").to_status("");
        let ((), faults) = Faults::of_query(Err(cursor)).unwrap();
        assert_eq!((faults.whole(), faults.status()), (Some("The cursor is wrong."), StatusCode::BAD_REQUEST));
        let limited = ApiError::new(ErrorCode::RateLimited, "too many").to_status("");
        assert!(Faults::of_query::<()>(Err(limited)).is_err());
        assert!(Faults::of_query(Ok(1)).is_ok_and(|(answer, faults)| answer == 1 && faults.whole().is_none()));
    }
}
