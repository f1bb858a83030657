//! The log entry that has the hash of an archive file. The evidence of such an entry is the hash of its stored form, so
//! its receipt has the stored form too: a message of protobuf, of which this reads what the receipt proves.

use prost::Message;

/// What the log recorded about a file of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The day in UTC, such as `2026-01-31`.
    pub date: String,
    /// What the file has, such as `theses`.
    pub kind: String,
    /// The file is about the log up to this sequence number.
    pub position: u64,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// When the service recorded this, in unix milliseconds.
    pub recorded_at: i64,
}

#[derive(Clone, PartialEq, Message)]
struct StoredEntry {
    #[prost(int64, tag = "2")]
    created_at: i64,
    #[prost(message, optional, tag = "17")]
    file: Option<StoredFile>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredFile {
    #[prost(string, tag = "1")]
    date: String,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(uint64, tag = "3")]
    position: u64,
    #[prost(uint64, tag = "4")]
    rows: u64,
    #[prost(uint64, tag = "5")]
    bytes: u64,
    #[prost(string, tag = "6")]
    sha256: String,
}

impl FileEntry {
    /// Reads the stored form of an entry; none if it is of another kind.
    #[must_use]
    pub fn read(stored: &[u8]) -> Option<Self> {
        let StoredEntry { created_at, file } = StoredEntry::decode(stored).ok()?;
        let StoredFile { date, kind, position, rows, bytes, sha256 } = file?;
        Some(Self { date, kind, position, rows, bytes, sha256, recorded_at: created_at })
    }

    /// The stored form, with the salt of the entry.
    #[cfg(test)]
    pub(crate) fn stored(&self, salt: &[u8; 16]) -> Vec<u8> {
        let Self { date, kind, position, rows, bytes, sha256, recorded_at } = self.clone();
        let file = Some(StoredFile { date, kind, position, rows, bytes, sha256 });
        let mut stored = StoredEntry { created_at: recorded_at, file }.encode_to_vec();
        // The field with tag 15, of 16 bytes.
        stored.extend([0x7a, 16]);
        stored.extend(salt);
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_a_file_is_read_and_any_other_is_none() {
        let entry = FileEntry {
            date: "2026-01-31".to_owned(),
            kind: "theses".to_owned(),
            position: 300,
            rows: 2,
            bytes: 9,
            sha256: "00ff".to_owned(),
            recorded_at: 1_769_904_300_000,
        };
        let stored = entry.stored(&[7; 16]);
        assert_eq!(FileEntry::read(&stored), Some(entry));
        assert_eq!(FileEntry::read(&stored[..stored.len() - 1]), None, "cut off");
        let of_other_kind = StoredEntry { created_at: 5, file: None }.encode_to_vec();
        assert_eq!(FileEntry::read(&of_other_kind), None);
        assert_eq!(FileEntry::read(b"no entry"), None);
    }
}
