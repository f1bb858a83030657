//! The finding of a check.

use serde::Serialize;
use tokio::task::JoinError;

use crate::config::Refused;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    /// A start succeeds, but something will not work, or not well.
    Warning,
    /// A start fails, or the process can serve nobody.
    Problem,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    object: &'static str,
    pub(super) status: Status,
    name: &'static str,
    seen: String,
    #[serde(rename = "do")]
    todo: Option<String>,
}

impl Finding {
    fn new(status: Status, name: &'static str, seen: &str, todo: Option<String>) -> Self {
        Self { object: "check", status, name, seen: one_line(seen), todo: todo.as_deref().map(one_line) }
    }

    pub(super) fn ok(name: &'static str, seen: impl AsRef<str>) -> Self {
        Self::new(Status::Ok, name, seen.as_ref(), None)
    }

    pub(super) fn warning(name: &'static str, seen: impl AsRef<str>, todo: impl Into<String>) -> Self {
        Self::new(Status::Warning, name, seen.as_ref(), Some(todo.into()))
    }

    pub(super) fn problem(name: &'static str, seen: impl AsRef<str>, todo: impl Into<String>) -> Self {
        Self::new(Status::Problem, name, seen.as_ref(), Some(todo.into()))
    }

    /// The error that a start ends with.
    pub(super) fn refused(name: &'static str, refused: Refused) -> Self {
        let todo = refused.remedy.unwrap_or_else(|| "set it as `trade-thesis --help` tells".to_owned());
        Self::problem(name, format!("{}: {}", refused.setting, refused.reason), todo)
    }

    /// The check itself failed: a fault of the program.
    pub(super) fn broken_off(name: &'static str, error: &JoinError) -> Self {
        Self::problem(name, format!("looking at it failed: {error}"), "report this, with the line above")
    }

    /// Its lines for people.
    pub(super) fn text(&self) -> String {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Problem => "problem",
        };
        let todo = self.todo.as_ref().map(|todo| format!("         do: {todo}\n")).unwrap_or_default();
        format!("{status:<7}  {:<10}  {}\n{todo}", self.name, self.seen)
    }
}

/// A text of others must not break the line, nor control the terminal.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.contains(char::is_control) { line.escape_debug().to_string() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_what_to_do() {
        let refused = Refused::new("SVC_X", "`a\nb\u{1b}`: wrong").remedy("set c");
        let text = Finding::refused("settings", refused).text();
        assert_eq!(text, "problem  settings    SVC_X: `a b\\u{1b}`: wrong\n         do: set c\n");
        assert_eq!(Finding::ok("dns", "fine").text(), "ok       dns         fine\n");
    }
}
