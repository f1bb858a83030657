//! Fits an error into the header in which it travels over gRPC: HTTP proxies refuse responses with larger headers.

use serde_json::Value;
use tonic::Status;

use super::ApiError;

/// Maximum bytes of a status's details. In base64, as they travel, they stay under 4 KiB.
const MAX_DETAILS: usize = 3_060;
/// Maximum bytes of one text: a message, a field's name, a repeated part of a request.
const MAX_TEXT: usize = 400;
/// Maximum bytes that a list's item adds to its encoded texts, and that the list itself adds.
const ITEM: usize = 8;
const LIST: usize = 64;

/// The status of an error. Where its details are too large, long texts are cut, and then each list from its end.
pub(super) fn bounded(error: &ApiError, status: impl Fn(&ApiError) -> Status) -> Status {
    let fits = |status: &Status| status.details().len() <= MAX_DETAILS;
    let whole = status(error);
    if fits(&whole) {
        return whole;
    }
    let mut less = error.clone();
    cut_text(&mut less.message);
    less.param.iter_mut().for_each(cut_text);
    if let Some(details) = &mut less.details {
        cut_texts(details);
    }
    let lists: Vec<Vec<Value>> = lists(&mut less).map(std::mem::take).collect();
    let mut room = MAX_DETAILS.saturating_sub(status(&less).details().len() + LIST);
    for (list, mut items) in self::lists(&mut less).zip(lists) {
        let kept = items.iter().take_while(|item| {
            let size = item.to_string().len() + ITEM;
            let fits = size <= room;
            room = if fits { room - size } else { 0 };
            fits
        });
        let kept = kept.count();
        items.truncate(kept);
        *list = items;
    }
    let cut = status(&less);
    if fits(&cut) {
        return cut;
    }
    // The details left are no list.
    less.details = None;
    status(&less)
}

/// The lists in an error's details.
fn lists(error: &mut ApiError) -> impl Iterator<Item = &mut Vec<Value>> {
    let details = error.details.as_deref_mut().and_then(Value::as_object_mut);
    details.into_iter().flat_map(|details| details.values_mut()).filter_map(Value::as_array_mut)
}

fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) => cut_text(text),
        Value::Array(items) => items.iter_mut().for_each(cut_texts),
        Value::Object(fields) => fields.values_mut().for_each(cut_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut_text(text: &mut String) {
    const DOTS: &str = "…";
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT - DOTS.len()));
        text.push_str(DOTS);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::error::{ErrorCode, FieldError};

    /// The bytes of the header with the details.
    fn header(status: &Status) -> usize {
        status.clone().into_http::<()>().headers()["grpc-status-details-bin"].len()
    }

    #[test]
    fn what_fits_travels_whole() {
        let errors: Vec<_> = (0..40).map(|number| FieldError::new(format!("f{number}"), "is required")).collect();
        let error = ApiError::validation(&errors);
        let status = error.to_status("req_0123456789abcdef01234567");
        assert_eq!(ApiError::from_status(&status), error);
        assert!(header(&status) < 4096);
    }

    #[test]
    fn lists_lose_their_end_and_texts_are_cut() {
        let candidates: Vec<_> = (0..50).map(|number| json!({"id": number, "name": "🚀".repeat(30)})).collect();
        let details = json!({"candidates": candidates, "limit": 7});
        let error = ApiError::new(ErrorCode::AmbiguousToken, "x".repeat(9_000)).with_details(details);
        let status = error.to_status("req_0123456789abcdef01234567");
        assert!((3_500..4_096).contains(&header(&status)), "{}", header(&status));
        let error = ApiError::from_status(&status);
        let details = error.details.unwrap();
        let kept = details["candidates"].as_array().unwrap();
        assert!(kept.len() > 10 && kept[..] == candidates[..kept.len()]);
        assert_eq!(details["limit"], 7);
        assert!(error.message.ends_with("x…") && error.message.len() <= MAX_TEXT);
    }

    proptest! {
        #[test]
        fn details_never_take_more_than_their_header(
            message in "\\PC{0,2000}",
            errors in proptest::collection::vec(("\\PC{0,900}", ".{0,90}"), 0..20),
            // Long lists repeat short ones, since random texts take most of the time.
            repeats in 1_usize..=10,
            other in ".{0,900}",
            long in 0_usize..4_000,
        ) {
            let listed = errors.iter().cycle().take(errors.len() * repeats);
            let errors: Vec<_> = listed.map(|(param, rule)| FieldError::new(param, rule)).collect();
            let mut error = ApiError::fields(ErrorCode::ValidationFailed, Some(message), &errors).with_retry_after(7);
            let details = error.details.get_or_insert_with(|| json!({}).into());
            (details["echo"], details["more"]) = (other.into(), "\u{1}".repeat(long).into());
            prop_assert!(header(&error.to_status("req_0123456789abcdef01234567")) < 4_096);
        }
    }
}
