//! The output of commands: lines, notes for people, and tables.

use std::{
    io::{self, ErrorKind, IsTerminal as _, Write as _},
    ops::Range,
};

use rustix::termios::tcgetwinsize;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::{Failure, config};

/// Between the columns of a table.
const GAP: &str = "  ";
/// Minimum width of a column whose texts are cut, in columns of the terminal. A shorter piece of a text tells the
/// reader nothing.
const MIN_TEXT: usize = 24;
/// The cell of a value that is null.
const NO_VALUE: &str = "-";

/// Prints a line of the output.
pub(crate) fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Prints a line for people to stderr. Parts of it may come from a service.
pub(crate) fn note(text: &str) {
    write_stderr(&format!("{}\n", printable(&config::line(text))));
}

/// Writes to stderr. A closed one is no error, since nobody reads it; `eprint!` would panic.
pub(crate) fn write_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// True if the reader of the output, such as `head`, has closed it.
pub(crate) fn is_closed_pipe(error: &Failure) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
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
        Value::Null => NO_VALUE.to_owned(),
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
    let widths = widths(rows);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| padded(cell, width));
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Aligns the cells of rows so that the lines fit into a width. Texts are cut, those of the last columns first. Columns
/// that do not fit even so follow on further lines, which are indented. Other cells than texts, such as ids, stay whole
/// although a line may then be too long. A further line without a value is left out.
pub(crate) fn fit(rows: &[Vec<String>], is_text: &[bool], width: usize) -> String {
    let mut widths = widths(rows);
    let min_text = MIN_TEXT.min(width.saturating_sub(GAP.len()));
    let min_width = |(&width, &is_text): (&usize, &bool)| if is_text { width.min(min_text) } else { width };
    let min_widths: Vec<usize> = widths.iter().zip(is_text).map(min_width).collect();
    let lines = lines(&min_widths, width);
    for columns in &lines {
        let mut excess = length(&widths, columns).saturating_sub(width);
        for column in columns.clone().rev() {
            let less = excess.min(widths[column] - min_widths[column]);
            widths[column] -= less;
            excess -= less;
        }
    }
    let mut text = Vec::new();
    for row in rows {
        for columns in &lines {
            if columns.start > 0 && row[columns.clone()].iter().all(|cell| matches!(cell.trim_end(), "" | NO_VALUE)) {
                continue;
            }
            let cells = columns.clone().map(|column| padded(&cut(&row[column], widths[column]), widths[column]));
            let cells = cells.collect::<Vec<_>>().join(GAP);
            text.push(format!("{}{cells}", indent(columns)).trim_end().to_owned());
        }
    }
    text.join("\n")
}

/// The columns of each line of a row. As many stand on a line as fit into a width, and at least one.
fn lines(widths: &[usize], width: usize) -> Vec<Range<usize>> {
    let mut lines: Vec<Range<usize>> = Vec::new();
    for column in 0..widths.len() {
        match lines.last_mut() {
            Some(line) if length(widths, &(line.start..column + 1)) <= width => line.end = column + 1,
            _ => lines.push(column..column + 1),
        }
    }
    lines
}

/// The length of a line with these columns.
fn length(widths: &[usize], columns: &Range<usize>) -> usize {
    indent(columns).len() + widths[columns.clone()].iter().sum::<usize>() + GAP.len() * (columns.len() - 1)
}

/// The indentation of a line with these columns.
fn indent(columns: &Range<usize>) -> &'static str {
    if columns.start == 0 { "" } else { GAP }
}

/// The width of each column of a table.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths = vec![0; rows.iter().map(Vec::len).max().unwrap_or_default()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    widths
}

/// Fills a text with spaces up to a width. Wide characters, such as emoji, take two columns of the terminal.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{:fill$}", "", fill = width.saturating_sub(text.width()))
}

/// Cuts each line of a text after a number of columns, between the characters that people see.
fn cut(text: &str, width: usize) -> String {
    let line = |line: &str| {
        if line.width() <= width {
            return line.to_owned();
        }
        let (mut kept, mut left) = (String::new(), width.saturating_sub(1));
        for character in line.graphemes(true) {
            let Some(rest) = left.checked_sub(character.width()) else { break };
            kept.push_str(character);
            left = rest;
        }
        kept + "…"
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
        assert_eq!(cut("🚀🚀🚀", 2), "…");
        assert_eq!(cut("🚀🚀🚀", 5), "🚀🚀…");
        assert_eq!(cut("漢字かな", 8), "漢字かな");
        assert_eq!(cut("漢字かな", 6), "漢字…");
        // A family is one character, of several letters; so is an accent with its letter.
        assert_eq!(cut("👩‍👩‍👧ab", 3), "👩‍👩‍👧…");
        assert_eq!(cut("👩‍👩‍👧ab", 2), "…");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let rows = [["漢字", "x"], ["🚀", "y"], ["abc", "z"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "漢字  x\n🚀    y\nabc   z");
        assert_eq!(padded("値", 4) + "|", "値  |");
        assert_eq!(padded("longer", 4), "longer");
    }

    #[test]
    fn only_texts_are_cut_and_the_last_ones_first() {
        let rockets = "🚀".repeat(15);
        let rows = [["th_12345", "@writer", "to the moon and back again"], ["th_1", "@漢字", rockets.as_str()]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let fitted = |width| fit(&rows, &[false, true, true], width);
        assert_eq!(fitted(49), table(&rows));
        let rockets = "🚀".repeat(11);
        assert_eq!(fitted(43), format!("th_12345  @writer  to the moon and back ag…\nth_1      @漢字    {rockets}…"));
        assert!(fitted(44).contains("back aga…"));
    }

    #[test]
    fn columns_that_do_not_fit_follow_on_further_lines() {
        let rockets = "🚀".repeat(15);
        let rows = [["th_12345", "@writer", "to the moon and back again"], ["th_1", "@漢字", rockets.as_str()]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let fitted = |width| fit(&rows, &[false, true, true], width);
        let two = format!("th_12345  @writer\n  to the moon and back again\nth_1      @漢字\n  {rockets}");
        assert_eq!(fitted(42), two);
        let three = "th_12345\n  @writer\n  to the moon a…\nth_1\n  @漢字\n  🚀🚀🚀🚀🚀🚀…";
        assert_eq!(fitted(16), three);
        assert!(fitted(1).starts_with("th_12345\n  "), "an id stays whole");
        assert_eq!(fit(&[], &[], 80), "");
        for nothing in ["-", "", "-      "] {
            let rows = [["th_12345", "@writer"], ["th_1", nothing]].map(|row| row.map(str::to_owned).to_vec());
            assert_eq!(fit(&rows, &[false, true], 12), "th_12345\n  @writer\nth_1", "{nothing:?}");
        }
    }
}
