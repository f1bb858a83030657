//! Exports that are whole, and those that an import must refuse.

use std::os::fd::AsRawFd as _;

use core_service::domain::entry::Entry;
use serde_json::Value;

use super::*;

thesis_fuzz::fuzz_tests!(imports);

/// A file that an import takes has the number of entries that it says, and is taken again.
fn imports(input: &[u8]) {
    for dataset in [Dataset::Live, Dataset::of_project("prj_1")] {
        match check(input, &dataset) {
            Ok(checked) => {
                let lines = input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
                assert_eq!(checked.entries + 2, lines as u64);
            }
            Err(why) => assert!(why.starts_with("line "), "{why}"),
        }
    }
}

const EMPTY_SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// An export of fillers, which tell nothing and so suit every dataset.
fn export_of(entries: u64) -> String {
    let mut bytes = Vec::new();
    let mut file = FileWriter::begin(&mut bytes, "live", entries, 1_709_210_096_007).unwrap();
    for seq in 1..=entries {
        file.entry(&Line { seq, entry: Entry::filler(seq, 5) }).unwrap();
    }
    file.end().unwrap();
    String::from_utf8(bytes).unwrap()
}

fn fault(text: &str, dataset: &Dataset) -> String {
    check(text.as_bytes(), dataset).unwrap_err()
}

#[test]
fn a_whole_export_is_accepted() {
    for entries in [0, 1, 3] {
        let checked = check(export_of(entries).as_bytes(), &Dataset::Live).unwrap();
        assert_eq!(checked.entries, entries);
        assert_eq!(hex::encode(checked.sha256) == EMPTY_SUM, entries == 0);
    }
    let first = export_of(1).lines().nth(1).map(|line| serde_json::from_str::<Value>(line).unwrap()).unwrap();
    let entry = json!({"id": "fill_1", "created_at": 5, "test": false, "kind": null});
    assert_eq!(first, json!({"seq": 1, "entry": entry}));
}

#[test]
fn every_fault_names_its_line() {
    let whole = export_of(3);
    let lines: Vec<&str> = whole.lines().collect();
    let with = |index: usize, line: &str| {
        let mut lines = lines.clone();
        lines[index] = line;
        lines.join("\n")
    };
    let changed = |index: usize, from: &str, to: &str| {
        assert!(lines[index].contains(from), "{}", lines[index]);
        with(index, &lines[index].replace(from, to))
    };
    let without = |index: usize| [&lines[..index], &lines[index + 1..]].concat().join("\n");
    let cases = [
        (String::new(), "line 1: the file ends here"),
        (with(0, "{}"), "line 1: is not the header"),
        (changed(0, "dataset_export", "thesis"), "line 1: `object` is \"thesis\""),
        (changed(0, "\"version\":1", "\"version\":2"), "line 1: `version` is 2"),
        (changed(0, "\"live\"", "\"sandbox\""), "line 1: `dataset` is \"sandbox\""),
        (changed(0, "\"head\":3", "\"head\":4"), "line 1: `entries` is 3 and `head` is 4"),
        (with(2, "{\"seq\":2"), "line 3: is not an entry"),
        (changed(2, "\"test\"", "\"more\":1,\"test\""), "unknown field `more`"),
        (changed(2, "null", "{\"thesis_moved\":{}}"), "unknown variant `thesis_moved`"),
        (changed(2, "fill_2", "evt_2"), "line 3: the entry has something that this version does not know"),
        (changed(2, "fill_2", "fill_1"), "line 3: the entry has the id of line 2"),
        (changed(2, "\"seq\":2", "\"seq\":1"), "line 3: `seq` is 1, and 2 is next"),
        (without(2), "line 3: `seq` is 3, and 2 is next"),
        (without(3), "line 4: is not an entry"),
        (without(4), "line 5: the file ends here"),
        (changed(2, "\"created_at\":5", "\"created_at\":6"), "line 5: `sha256` is"),
        (changed(4, "\"entries\":3", "\"entries\":2"), "line 5: `object` must be \"end\" and `entries` 3"),
        (format!("{whole}\n"), "line 6: nothing may follow"),
    ];
    for (text, expected) in cases {
        let fault = fault(&text, &Dataset::Live);
        assert!(fault.contains(expected), "{fault} instead of {expected}");
    }
    assert!(fault(&whole, &Dataset::of_project("prj_1")).contains("only into a dataset of the same kind"));
}

#[test]
fn a_pipe_is_refused_before_it_is_read() {
    let (reader, _writer) = io::pipe().unwrap();
    let refused = open(Path::new(&format!("/dev/fd/{}", reader.as_raw_fd()))).unwrap_err();
    assert!(refused.message().contains("--from: /dev/fd/") && refused.message().contains("only once"), "{refused:?}");
    let missing = open(Path::new("/missing/live.jsonl")).unwrap_err();
    assert!(missing.message().contains("--from: /missing/live.jsonl: No such file"), "{missing:?}");
}

#[test]
fn a_line_without_an_end_is_not_read_for_ever() {
    let endless = io::BufReader::new(io::repeat(b'x'));
    assert!(check(endless, &Dataset::Live).unwrap_err().contains("line 1: is longer than"));
}
