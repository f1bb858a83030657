//! The reasons why a handler shows no page, and redirects to other pages.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header::LOCATION};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use thesis_proto::error::{ApiError, ErrorCode};
use tonic::Status;

use super::HOME;

/// Redirects a browser after a successful form to the next page.
pub(crate) fn see_other(path: &str) -> Response {
    redirect(StatusCode::SEE_OTHER, path)
}

/// Redirects permanently to the right path of a page.
pub(super) fn moved(path: &str) -> Response {
    redirect(StatusCode::PERMANENT_REDIRECT, path)
}

fn redirect(status: StatusCode, path: &str) -> Response {
    let mut response = status.into_response();
    // Paths encode all texts, so the conversion succeeds.
    let location = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static(HOME));
    response.headers_mut().insert(LOCATION, location);
    response
}

/// The path of the sign-in page, which redirects to `next` afterwards.
pub(crate) fn sign_in_path(next: &str) -> String {
    if next.is_empty() || next == HOME {
        return "/console/sign-in".to_owned();
    }
    format!("/console/sign-in?next={}", utf8_percent_encode(next, NON_ALPHANUMERIC))
}

/// Makes a sentence of core's message, which starts in lower case and has no full stop.
pub(crate) fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first = chars.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let stop = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}

pub(crate) fn status_of(error: &ApiError) -> StatusCode {
    StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The reason why a handler shows no page.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The console shows a page with this error.
    Error(Box<ApiError>),
    /// Nobody is signed in. The sign-in returns to this path unless it is empty.
    SignIn(String),
    /// This response explains the reason.
    Shown(Box<Response>),
}

impl Failed {
    /// The page does not exist, or this user may not see it.
    pub(crate) fn missing() -> Self {
        not_found().into()
    }
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        match error.code {
            ErrorCode::SignInRequired => Self::SignIn(String::new()),
            _ => Self::Error(Box::new(error)),
        }
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        ApiError::from_status(&status).into()
    }
}

/// Marks the redirect to the sign-in of a visitor without a valid session.
#[derive(Clone)]
pub(super) struct SessionEnded;

/// The error of a response whose page is not rendered yet.
#[derive(Clone)]
pub(super) struct PageError(pub(super) ApiError);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn(next) => {
                let mut response = see_other(&sign_in_path(&next));
                // A page that names the path to open next keeps no form.
                if next.is_empty() {
                    response.extensions_mut().insert(SessionEnded);
                }
                response
            }
            Self::Shown(response) => *response,
            Self::Error(error) => {
                let mut response = status_of(&error).into_response();
                response.extensions_mut().insert(PageError(*error));
                response
            }
        }
    }
}

pub(super) fn not_found() -> ApiError {
    ApiError::new(ErrorCode::RouteNotFound, "there is no such page, or it is not yours to see")
}

/// A number of seconds as a readable duration.
pub(super) fn readable_duration(seconds: u32) -> String {
    match seconds {
        0 | 1 => "a second".to_owned(),
        2..=119 => format!("{seconds} seconds"),
        120..=7_199 => format!("{} minutes", seconds.div_ceil(60)),
        7_200..=172_799 => format!("{} hours", seconds.div_ceil(3_600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}
