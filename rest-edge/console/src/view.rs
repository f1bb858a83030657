//! Renders pages, and formats values for them.

use askama::{Template, filters::HtmlSafeOutput};
use axum::response::{Html, IntoResponse as _, Response};
use http::{StatusCode, header::RETRY_AFTER};
use prost_types::Timestamp;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    time::{format_millis, to_millis},
};

use super::{
    Page,
    failure::{Failed, not_found, readable_duration, sentence, status_of},
    frame::Frame,
    visit::{SignedIn, Visit},
};

/// The data of `layout.html`, which every page extends.
pub(crate) struct Layout {
    /// The title in the browser.
    pub(crate) title: String,
    /// The main heading of the page.
    pub(crate) heading: String,
    /// The CSRF token, a hidden field of every form.
    pub(crate) csrf: String,
    /// The idempotency token, a hidden field of forms whose work core must do only once.
    pub(crate) once: String,
    /// The e-mail of the user who is signed in.
    pub(crate) user: Option<String>,
    /// The switcher, the sidebar and the breadcrumbs; none for a visitor who is not signed in.
    pub(crate) frame: Option<Frame>,
    /// True if the user administers the service.
    pub(crate) is_administrator: bool,
    /// The user's e-mail until it is confirmed.
    pub(crate) unconfirmed: Option<String>,
    /// True if this installation sends the confirmation link by mail.
    pub(crate) sends_mail: bool,
    /// The notice about the last change.
    pub(crate) notice: Option<String>,
    /// The active part of the console: `organizations`, `administration` or `account`.
    pub(crate) active: &'static str,
}

impl Layout {
    /// The layout for a user who is signed in.
    pub(crate) fn of(signed_in: &SignedIn, title: &str, active: &'static str) -> Self {
        Self {
            user: Some(signed_in.email().to_owned()),
            frame: Some(Frame::of(signed_in)),
            is_administrator: signed_in.is_administrator(),
            unconfirmed: (!signed_in.is_confirmed()).then(|| signed_in.email().to_owned()),
            sends_mail: signed_in.account.sends_mail,
            active,
            ..Self::visitor(&signed_in.visit, title)
        }
    }

    /// The layout for a visitor without a session.
    pub(crate) fn visitor(visit: &Visit, title: &str) -> Self {
        Self {
            title: title.to_owned(),
            heading: title.to_owned(),
            csrf: visit.csrf(),
            // The request id differs on every request.
            once: visit.request_id.to_str().unwrap_or_default().to_owned(),
            user: None,
            frame: None,
            is_administrator: false,
            unconfirmed: None,
            sends_mail: false,
            notice: None,
            active: "",
        }
    }

    /// Adds the notice for the word that a redirect put into `?done=`.
    pub(crate) fn with_notice(mut self, done: &str, texts: &[(&str, &str)]) -> Self {
        let found = texts.iter().find(|(word, _)| done == *word);
        self.notice = found.map(|(_, text)| (*text).to_owned());
        self
    }
}

pub(crate) fn render(status: StatusCode, template: &impl Template) -> Page {
    let text = template.render().map_err(|error| {
        tracing::error!(%error, "a page was not rendered");
        Failed::from(ApiError::internal())
    })?;
    Ok((status, Html(text)).into_response())
}

/// Formats a time in UTC to the minute; "never" if there is none.
pub(crate) fn time(at: Option<&Timestamp>) -> String {
    format_time(at, "YYYY-MM-DDTHH:MM".len())
}

/// Formats a time in UTC to the millisecond; "never" if there is none.
pub(crate) fn exact_time(at: Option<&Timestamp>) -> String {
    format_time(at, "YYYY-MM-DDTHH:MM:SS.mmm".len())
}

/// A time as markup.
pub(crate) type Moment = HtmlSafeOutput<String>;

/// A time as [`time`] formats it, which a script shows in the visitor's zone.
pub(crate) fn moment(at: Option<&Timestamp>) -> Moment {
    moment_of(at, time(at))
}

/// A time as [`exact_time`] formats it, which a script shows in the visitor's zone.
pub(crate) fn exact_moment(at: Option<&Timestamp>) -> Moment {
    moment_of(at, exact_time(at))
}

/// Neither part has characters that markup escapes.
fn moment_of(at: Option<&Timestamp>, text: String) -> Moment {
    HtmlSafeOutput(match at {
        Some(at) => format!("<time datetime=\"{}\">{text}</time>", format_millis(to_millis(at))),
        None => text,
    })
}

fn format_time(at: Option<&Timestamp>, length: usize) -> String {
    let Some(at) = at else { return "never".to_owned() };
    let text = format_millis(to_millis(at));
    format!("{} {} UTC", &text[..10], &text[11..length])
}

/// Cuts a text that has more than `max_chars` characters.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Badge {
    pub(crate) word: &'static str,
    /// The CSS class that gives the colour.
    pub(crate) class: &'static str,
}

pub(crate) struct Choice {
    /// The value that the form sends.
    pub(crate) value: &'static str,
    /// The readable name.
    pub(crate) name: &'static str,
    /// True for the selected choice.
    pub(crate) is_taken: bool,
}

/// The choice that selects all rows.
pub(crate) const ALL: (&str, &str) = ("", "All");

/// Builds choices from values and names. Browsers select the first one if none has the value `taken`.
pub(crate) fn choices(all: impl IntoIterator<Item = (&'static str, &'static str)>, taken: &str) -> Vec<Choice> {
    all.into_iter().map(|(value, name)| Choice { value, name, is_taken: value == taken }).collect()
}

/// Length of the longest bar of a chart, in units of the drawing.
pub(crate) const MAX_BAR: u64 = 200;

/// The length of a bar if the longest bar shows `max`. A bar above zero stays visible.
pub(crate) fn bar_length(number: u64, max: u64) -> u64 {
    let share = u128::from(number) * u128::from(MAX_BAR) / u128::from(max.max(1));
    let length = u64::try_from(share).unwrap_or(MAX_BAR).min(MAX_BAR);
    length.max(if number > 0 { 2 } else { 0 })
}

/// Groups the digits of a number: `1,234,567`.
pub(crate) fn group_digits(number: impl ToString) -> String {
    let digits = number.to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", &*digits), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Limit for the markup of an event or payload in bytes, so that pages stay small. A thesis may have 10,000 characters.
pub(crate) const MAX_SHOWN: usize = 40_000;

/// Cuts a text so that its markup has at most `max_bytes` bytes. Also returns true if the text is complete.
pub(crate) fn cut_markup(text: &str, max_bytes: usize) -> (&str, bool) {
    let mut size = 0;
    for (at, letter) in text.char_indices() {
        // Templates escape these characters, such as `&#34;`.
        size += if matches!(letter, '<' | '>' | '&' | '"' | '\'') { "&#34;".len() } else { letter.len_utf8() };
        if size > max_bytes {
            return (&text[..at], false);
        }
    }
    (text, true)
}

#[derive(Template)]
#[template(path = "failed.html")]
struct FailedPage<'a> {
    layout: Layout,
    message: String,
    /// True if the page opens once the user adds a second factor.
    needs_factor: bool,
    request_id: &'a str,
}

/// Renders the page of an error.
pub(super) fn failed(visit: &Visit, error: &ApiError) -> Response {
    let status = status_of(error);
    let title = match status.as_u16() {
        401 | 403 => "Not allowed",
        404 if error.code == ErrorCode::LinkNotFound => "This link does not work",
        404 => "Page not found",
        429 => "Too many tries",
        503 => "Not available right now",
        400..=499 => "That did not work",
        _ => "Something went wrong",
    };
    // Missing resources and resources of others must look the same.
    let message = match (status, error.code) {
        (_, ErrorCode::LinkNotFound) => sentence(&error.message),
        (StatusCode::NOT_FOUND, _) => sentence(&not_found().message),
        _ => sentence(&error.message),
    };
    let wait = error.retry_after.map(|seconds| format!(" Try again in {}.", readable_duration(seconds)));
    let page = FailedPage {
        layout: Layout::visitor(visit, title),
        message: message + &wait.unwrap_or_default(),
        needs_factor: error.code == ErrorCode::SecondFactorRequired,
        request_id: visit.request_id.to_str().unwrap_or_default(),
    };
    let mut response = render(status, &page).unwrap_or_else(|_| status.into_response());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use askama::filters::{Html, escape};
    use thesis_proto::time::from_millis;

    use super::*;

    #[test]
    fn times_are_said_in_utc() {
        let at = from_millis(1_795_442_700_012);
        assert_eq!(time(Some(&at)), "2026-11-23 14:05 UTC");
        assert_eq!(exact_time(Some(&at)), "2026-11-23 14:05:00.012 UTC");
        assert_eq!((time(None), exact_time(None)), ("never".to_owned(), "never".to_owned()));
        let marked = "<time datetime=\"2026-11-23T14:05:00.012Z\">2026-11-23 14:05 UTC</time>";
        assert_eq!((moment(Some(&at)).0.as_str(), exact_moment(None).0.as_str()), (marked, "never"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("für", 3), "für");
        assert_eq!(cut("für", 2), "fü…");
        assert_eq!(cut("🚀🚀", 1), "🚀…");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut_markup("{\"a\":1}", 100), ("{\"a\":1}", true));
        assert_eq!(cut_markup("ab\"c", 7), ("ab\"", false));
        assert_eq!(cut_markup("ab\"c", 6), ("ab", false));
        assert_eq!(cut_markup("a🚀", 4), ("a", false));
        assert_eq!(cut_markup("a🚀", 5), ("a🚀", true));
    }

    #[test]
    fn the_markup_of_a_beginning_has_the_size_that_is_allowed() {
        let markup = |text: &str| escape(text, Html).expect("it cannot fail").to_string();
        for letter in ["a", "é", "🚀", "\"", "'", "<", ">", "&", "\\", "\n", "\u{1}"] {
            let json = serde_json::to_string(&letter.repeat(300)).expect("texts always serialise");
            let max_bytes = markup(&json).len();
            assert_eq!(cut_markup(&json, max_bytes), (&*json, true), "{letter:?}");
            let (shown, is_whole) = cut_markup(&json, max_bytes - 1);
            let size = markup(shown).len();
            assert!(!is_whole && size < max_bytes && size + 5 >= max_bytes, "{letter:?}: {size} of {max_bytes}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(999), "999");
        assert_eq!(group_digits(1_000), "1,000");
        assert_eq!(group_digits(-1_234_567), "-1,234,567");
        assert_eq!(group_digits(u64::MAX), "18,446,744,073,709,551,615");
    }
}
