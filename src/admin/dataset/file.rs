//! The form of an export: a header, a line for each entry, and a last line with their number and sum.

use std::io::{self, BufRead, Read as _, Write};

use core_service::domain::entry::Entry;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thesis_proto::time::format_millis;

pub(super) const VERSION: u32 = 1;
pub(super) const EXPORT: &str = "dataset_export";
pub(super) const END: &str = "end";
/// Maximum bytes of a line: four times the largest entry that core takes.
const MAX_LINE: u64 = 1024 * 1024;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) object: String,
    pub(super) version: u32,
    pub(super) dataset: String,
    pub(super) entries: u64,
    pub(super) head: u64,
    /// Start time of the export.
    pub(super) created_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) entry: Entry,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    pub(super) object: String,
    pub(super) entries: u64,
    /// Of the lines of the entries, with their line ends.
    pub(super) sha256: String,
}

pub(super) struct FileWriter<W> {
    to: W,
    sum: Sha256,
    entries: u64,
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

impl<W: Write> FileWriter<W> {
    /// Writes the header.
    pub(super) fn begin(mut to: W, dataset: &str, head: u64, now_ms: i64) -> io::Result<Self> {
        to.write_all(&line(&Header {
            object: EXPORT.to_owned(),
            version: VERSION,
            dataset: dataset.to_owned(),
            entries: head,
            head,
            created_at: format_millis(now_ms),
        })?)?;
        Ok(Self { to, sum: Sha256::new(), entries: 0 })
    }

    pub(super) fn entry(&mut self, entry: &Line) -> io::Result<()> {
        let line = line(entry)?;
        self.sum.update(&line);
        self.entries += 1;
        self.to.write_all(&line)
    }

    /// Writes the last line; returns the sum.
    pub(super) fn end(mut self) -> io::Result<String> {
        let sha256 = hex::encode(self.sum.finalize());
        self.to.write_all(&line(&End { object: END.to_owned(), entries: self.entries, sha256: sha256.clone() })?)?;
        self.to.flush()?;
        Ok(sha256)
    }
}

/// Reads lines of bounded length. Errors name the line.
pub(super) struct Lines<R> {
    from: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, number: 0, line: Vec::new() }
    }

    /// The error in the last line read.
    pub(super) fn wrong(&self, why: impl std::fmt::Display) -> String {
        format!("line {}: {why}", self.number)
    }

    /// Reads the next line, with its end; none after the last.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, String> {
        self.number += 1;
        self.line.clear();
        let read = self.from.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line);
        read.map_err(|error| self.wrong(format_args!("cannot be read: {error}")))?;
        if self.line.len() as u64 == MAX_LINE {
            return Err(self.wrong(format_args!("is longer than {MAX_LINE} bytes; this is no line of an export")));
        }
        Ok((!self.line.is_empty()).then_some(&self.line))
    }

    /// Reads the next line as JSON.
    pub(super) fn json<T: for<'a> Deserialize<'a>>(&mut self, what: &str) -> Result<T, String> {
        let line = self.next_line()?;
        let read = line.map(serde_json::from_slice);
        match read {
            None => Err(self.wrong(format_args!("the file ends here, where {what} should be; it was cut off"))),
            Some(read) => read.map_err(|error| self.wrong(format_args!("is not {what}: {error}"))),
        }
    }

    pub(super) fn entry(&mut self) -> Result<Line, String> {
        self.json("an entry of this version's form")
    }

    /// The line that was read last.
    pub(super) fn last(&self) -> &[u8] {
        &self.line
    }
}
