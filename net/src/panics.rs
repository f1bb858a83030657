//! A panic's message.

use std::any::Any;

/// The message of a panic that was caught, for the log only.
pub fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}
