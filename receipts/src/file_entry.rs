//! The log entry that has the hash of an archive file. The evidence of such an entry is the hash of its stored form, so
//! its receipt has the stored form too: a message of protobuf, of which this reads what the receipt proves.

/// The last millisecond of the year 9999.
const MAX_TIME_MS: u64 = 253_402_300_799_999;

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

impl FileEntry {
    /// Reads the stored form of an entry; none if it is of another kind.
    #[must_use]
    pub fn read(stored: &[u8]) -> Option<Self> {
        let entry = Fields::read(stored)?;
        let file = Fields::read(entry.bytes(17)?)?;
        let recorded_at = entry.number(2).filter(|time| *time <= MAX_TIME_MS)?;
        Some(Self {
            date: file.text(1)?,
            kind: file.text(2)?,
            position: file.number(3)?,
            rows: file.number(4)?,
            bytes: file.number(5)?,
            sha256: file.text(6)?,
            recorded_at: i64::try_from(recorded_at).ok()?,
        })
    }
}

/// The value of a field.
#[derive(Clone, Copy)]
enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A number of a fixed size, which no field of an entry is.
    Fixed,
}

/// The fields of a message, by their numbers. Libraries read some messages differently: they merge messages in one field
/// or keep the last one, and ignore fields of another type or refuse them. This refuses all that, as the verifiers in
/// other languages do.
struct Fields<'a>(Vec<(u64, FieldValue<'a>)>);

impl<'a> Fields<'a> {
    fn read(mut message: &'a [u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !message.is_empty() {
            let tag = take_number(&mut message)?;
            let value = match tag & 7 {
                0 => FieldValue::Number(take_number(&mut message)?),
                1 => take(&mut message, 8).map(|_| FieldValue::Fixed)?,
                2 => {
                    let length = take_number(&mut message)?;
                    FieldValue::Bytes(take(&mut message, length)?)
                }
                5 => take(&mut message, 4).map(|_| FieldValue::Fixed)?,
                _ => return None,
            };
            fields.push((tag >> 3, value));
        }
        let are_numbers = fields.iter().all(|(number, _)| (1..1 << 29).contains(number));
        are_numbers.then_some(Self(fields))
    }

    /// The only value of a field, or else the default; none if it has several.
    fn only(&self, number: u64, default: FieldValue<'a>) -> Option<FieldValue<'a>> {
        let mut values = self.0.iter().filter(|(field, _)| *field == number).map(|(_, value)| *value);
        let value = values.next().unwrap_or(default);
        values.next().is_none().then_some(value)
    }

    fn number(&self, number: u64) -> Option<u64> {
        match self.only(number, FieldValue::Number(0))? {
            FieldValue::Number(value) => Some(value),
            FieldValue::Bytes(_) | FieldValue::Fixed => None,
        }
    }

    /// The bytes of a field that must be there.
    fn bytes(&self, number: u64) -> Option<&'a [u8]> {
        match self.only(number, FieldValue::Fixed)? {
            FieldValue::Bytes(bytes) => Some(bytes),
            FieldValue::Number(_) | FieldValue::Fixed => None,
        }
    }

    fn text(&self, number: u64) -> Option<String> {
        match self.only(number, FieldValue::Bytes(&[]))? {
            FieldValue::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok(),
            FieldValue::Number(_) | FieldValue::Fixed => None,
        }
    }
}

fn take<'a>(message: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(usize::try_from(length).ok()?)?;
    *message = rest;
    Some(taken)
}

/// Takes a number of up to 64 bits, which has seven bits in each byte.
fn take_number(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)?.first()?;
        let bits = u64::from(byte & 127);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 128 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

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
        /// The stored form, with the salt of the entry.
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
        let read = |added: &[u8]| FileEntry::read(&[&stored[..], added].concat());
        // Fields of every type that this does not know: 18 is a number, 19 and 20 have a fixed size, 21 is a text.
        let unknown = [0x90, 1, 7, 0x99, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xa5, 1, 0, 0, 0, 0, 0xaa, 1, 1, b'a'];
        assert_eq!(read(&unknown), FileEntry::read(&stored));
        let largest: [u8; 12] = [0x90, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(read(&largest), FileEntry::read(&stored));
        let refused: [(&[u8], &str); 6] = [
            (&[0x10, 7], "two times"),
            (&[0x8a, 1, 0], "two files"),
            (&[0x93, 1, 0x94, 1], "a group"),
            (&[0x02, 0], "a field 0"),
            (&[0x90, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2], "a number beyond 64 bits"),
            (&[0xf8, 255, 255, 255, 31, 0], "a field beyond 2^29"),
        ];
        for (added, what) in refused {
            assert_eq!(read(added), None, "{what}");
        }
        let late = StoredEntry { created_at: 253_402_300_800_000, file: Some(StoredFile::default()) };
        assert_eq!(FileEntry::read(&late.encode_to_vec()), None);
        let of_other_kind = StoredEntry { created_at: 5, file: None }.encode_to_vec();
        assert_eq!(FileEntry::read(&of_other_kind), None);
        assert_eq!(FileEntry::read(b"no entry"), None);
    }
}
