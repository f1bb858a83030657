//! Errors and their causes.

use std::{error::Error, iter::successors};

/// An error, and then its causes.
pub(crate) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        error.source()
    })
}

/// The text of an error with its causes. A cause that only repeats the one before is left out.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
