//! Checks an export from its first line to its last, so that an import refuses it before it changes anything.

use std::io::{self, BufRead};

use core_service::domain::{dataset::Dataset, entry::Entry};
use sha2::{Digest as _, Sha256};

use super::{
    file::{END, EXPORT, End, Header, Line, Lines, VERSION},
    id_check::{IdCheck, Repeated},
};

/// An export without faults.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) entries: u64,
    /// Their sum, which names it.
    pub(super) sha256: [u8; 32],
}

/// Checks an export that is to be imported into a dataset. Errors name the line.
pub(super) fn check(file: impl BufRead, dataset: &Dataset) -> Result<Checked, String> {
    let mut lines = Lines::new(file);
    let entries = header(&mut lines, dataset)?;
    let (mut sum, mut ids) = (Sha256::new(), IdCheck::new());
    for seq in 1..=entries {
        let line = lines.entry()?;
        sum.update(lines.last());
        entry(&line, seq, dataset).map_err(|why| lines.wrong(why))?;
        ids.add(&line.entry.id, seq).map_err(no_temporary_file)?;
    }
    if let Some(Repeated { seq, earlier }) = ids.first_repeated().map_err(no_temporary_file)? {
        // The first line is the header.
        return Err(format!("line {}: the entry has the id of line {}", seq + 1, earlier + 1));
    }
    let sha256: [u8; 32] = sum.finalize().into();
    end(&mut lines, entries, &sha256)?;
    Ok(Checked { entries, sha256 })
}

/// The check cannot keep the ids of a long export.
fn no_temporary_file(error: io::Error) -> String {
    format!("the ids do not fit into a temporary file: {error}; set TMPDIR to a folder with 24 bytes for each entry")
}

/// Reads the header; returns the number of entries.
fn header(lines: &mut Lines<impl BufRead>, dataset: &Dataset) -> Result<u64, String> {
    let Header { object, version, dataset: of, entries, head, .. } = lines.json("the header of an export")?;
    let both_are_projects = matches!((Dataset::parse(&of), dataset), (Some(Dataset::Project(_)), Dataset::Project(_)));
    let wrong = if object != EXPORT {
        format!("`object` is {object:?} and must be {EXPORT:?}; this is no export of a dataset")
    } else if version != VERSION {
        format!("`version` is {version}, and this program reads {VERSION}; use the program that wrote the file")
    } else if of != dataset.to_string() && !both_are_projects {
        format!("`dataset` is {of:?}; its entries cannot go into {dataset}, only into a dataset of the same kind")
    } else if entries != head {
        format!("`entries` is {entries} and `head` is {head}; a log without gaps has as many entries as its head")
    } else {
        return Ok(entries);
    };
    Err(lines.wrong(wrong))
}

fn entry(line: &Line, next: u64, dataset: &Dataset) -> Result<(), String> {
    if line.seq != next {
        return Err(format!("`seq` is {}, and {next} is next; an entry is missing, twice or out of order", line.seq));
    }
    // This refuses a creation without an id, which has no stored form.
    line.entry.must_suit(dataset, line.seq).map_err(|why| format!("the entry {why}"))?;
    Entry::read_whole(next, &line.entry.stored(next)).map_err(|why| format!("the entry {why}"))?;
    Ok(())
}

/// Reads the last line, and checks that nothing follows.
fn end(lines: &mut Lines<impl BufRead>, entries: u64, sha256: &[u8; 32]) -> Result<(), String> {
    let end_line: End = lines.json("the last line of an export, with the number of entries and their sum")?;
    if end_line.object != END || end_line.entries != entries {
        let why = format!("`object` must be {END:?} and `entries` {entries}, as the header says");
        return Err(lines.wrong(why));
    }
    let sum = hex::encode(sha256);
    if end_line.sha256 != sum {
        let why =
            format!("`sha256` is {}, and the entries have {sum}; the file was changed or damaged", end_line.sha256);
        return Err(lines.wrong(why));
    }
    if lines.next_line()?.is_some() {
        return Err(lines.wrong("nothing may follow the last line of an export"));
    }
    Ok(())
}
