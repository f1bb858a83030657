//! The output of commands: lines, notes for people, and tables.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::termios::tcgetwinsize;
use serde_json::Value;

use crate::config;

/// Prints a line of the output.
pub(crate) fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Prints a line for people to stderr. Parts of it may come from a service.
pub(crate) fn note(text: &str) {
    eprintln!("{}", printable(&config::line(text)));
}

/// The width of the terminal in columns; none if the output is not a terminal, or its width is unknown.
pub(crate) fn width() -> Option<usize> {
    let stdout = io::stdout();
    let size = if stdout.is_terminal() { tcgetwinsize(&stdout).ok()? } else { return None };
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A value in a cell.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => printable(&other.to_string()),
    }
}

/// Escapes texts of strangers, so that they cannot control the terminal.
fn printable(text: &str) -> String {
    if text.contains(is_control) { text.escape_debug().to_string() } else { text.to_owned() }
}

/// True for characters that control a terminal, end a line or set the direction of the text.
pub(crate) fn is_control(letter: char) -> bool {
    let is_direction =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || is_direction
}

/// Aligns the cells of rows.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let mut widths = vec![0; rows.iter().map(Vec::len).max().unwrap_or_default()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Cuts each line of a text after a number of columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let line = |line: &str| {
        if line.chars().count() <= width {
            return line.to_owned();
        }
        line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_strangers_do_not_control_the_terminal() {
        assert_eq!(plain(&json!("a \u{1b}[31mb")), "a \\u{1b}[31mb");
        assert_eq!(plain(&json!("a\u{202e}b\n")), "a\\u{202e}b\\n");
        assert_eq!(plain(&json!(["🚀 שלום", null, {"a": "\u{200f}"}])), "🚀 שלום,-,{\\\"a\\\":\\\"\\u{200f}\\\"}");
    }

    #[test]
    fn lines_are_cut_at_the_width() {
        let rows = [["a", "bb"], ["ccc", "dddd"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a    bb\nccc  dddd");
        assert_eq!(cut(&table(&rows), 7), "a    bb\nccc  d…");
        assert_eq!(cut("🚀🚀🚀", 2), "🚀…");
    }
}
