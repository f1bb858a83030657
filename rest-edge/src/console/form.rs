//! Forms: guarded when they are posted, and shown again with what is wrong.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, de::DeserializeOwned};
use thesis_proto::error::{ApiError, ErrorCode, FieldError};
use tonic::Status;

use super::{
    Console,
    view::{Failed, sentence, status_of},
    visit::Visit,
};

/// The fields of a posted form. Who posts it was checked: a page of this service, for this browser. A list may be named
/// several times; text that is missing is a fault of the form, unless the field has a `serde` default.
pub(crate) struct Posted<T>(pub(crate) T);

/// A form with a button and no fields.
#[derive(Deserialize)]
pub(crate) struct NoFields {}

/// A form with a button whose work is done once, however often it is sent.
#[derive(Deserialize)]
pub(crate) struct Once {
    /// The page's token for it.
    #[serde(default)]
    pub(crate) once: String,
}

#[derive(Deserialize)]
struct Guarded {
    #[serde(default)]
    csrf: String,
}

impl<T: DeserializeOwned> FromRequest<Arc<Console>> for Posted<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, console: &Arc<Console>) -> Result<Self, Failed> {
        let (mut parts, body) = request.into_parts();
        let Ok(visit) = Visit::from_request_parts(&mut parts, console).await;
        if !visit.is_own {
            return Err(refused("the form was sent by another site"));
        }
        let body = Bytes::from_request(Request::from_parts(parts, body), console).await;
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

/// What is wrong with a form that was sent.
#[derive(Default)]
pub(crate) struct Faults {
    status: StatusCode,
    whole: Option<String>,
    /// The fields, with sentences.
    fields: Vec<FieldError>,
}

impl Faults {
    /// Nothing.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// The faults that core tells.
    ///
    /// # Errors
    /// When the form cannot be shown again: nobody is signed in, the thing is not there, or core failed.
    pub(crate) fn of(status: &Status) -> Result<Self, Failed> {
        let error = ApiError::from_status(status);
        let http = error.code.http_status();
        if error.code == ErrorCode::SignInRequired || http == 404 || http >= 500 {
            return Err(error.into());
        }
        Ok(Self::new(&error))
    }

    fn new(error: &ApiError) -> Self {
        let fields = error.field_errors().map(|fault| FieldError::new(fault.param, sentence(&fault.message)));
        let fields: Vec<_> = fields.collect();
        let whole = if fields.is_empty() {
            sentence(&error.message)
        } else {
            "Nothing was changed. See what is marked below.".to_owned()
        };
        Self { status: status_of(error), whole: Some(whole), fields }
    }

    /// What is wrong with a field.
    pub(crate) fn field(&self, param: &str) -> Option<&str> {
        self.fields.iter().find(|fault| fault.param == param).map(|fault| fault.message.as_str())
    }

    /// What is wrong with the form as a whole.
    pub(crate) fn whole(&self) -> Option<&str> {
        self.whole.as_deref()
    }

    /// What is wrong with a question as a whole, if its fields do not say it. Questions change nothing.
    pub(crate) fn rest(&self) -> Option<&str> {
        self.whole().filter(|_| self.fields.is_empty())
    }

    /// The status of the page with the form.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }
}

/// Seconds, as people say it.
pub(super) fn span(seconds: u32) -> String {
    match seconds {
        0 | 1 => "a second".to_owned(),
        2..=119 => format!("{seconds} seconds"),
        120..=7_199 => format!("{} minutes", seconds.div_ceil(60)),
        7_200..=172_799 => format!("{} hours", seconds.div_ceil(3_600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}
