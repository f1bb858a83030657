//! The format of a backup's file.
//!
//! It begins with [`MAGIC`] and the version of the format. Pieces follow: the length of the packed message, a CRC-32 of
//! its number and its bytes, and the message, packed by zstd. The first piece lists the tables with their numbers of
//! rows, the others have the rows in the order of their keys, and the last has the SHA-256 of all bytes before it. So a
//! reader recognises a truncated or changed file. Numbers outside of messages are little endian.

use std::io::{self, Read};

use prost::{
    Message as _,
    encoding::{WireType, decode_key, decode_varint},
};
use sha2::{Digest as _, Sha256};
use zstd::bulk::{Compressor, Decompressor};

use super::super::{database::FORMAT, row::StoredRow};

/// The first bytes of every backup.
const MAGIC: [u8; 8] = *b"ttbackup";
/// Version of the format that is described above.
const FORM_VERSION: u32 = 1;
/// Maximum number of bytes of a packed piece, and of its message. Only a piece with one huge row comes near it.
pub(super) const MAX_PIECE_BYTES: usize = 8 << 20;
/// Maximum number of fields of a piece's message and of the message in it. The smallest rows of a whole piece have
/// fewer. Decoding takes memory for each field, and an empty one has two bytes.
const MAX_PIECE_FIELDS: usize = 128 << 10;
/// The default level of zstd.
const COMPRESSION_LEVEL: i32 = 3;

/// True for the name of a table that no backup has: the format, or an index that a restore builds again.
pub(super) fn is_internal(table: &str) -> bool {
    table.starts_with('_')
}

/// The contents of a backup.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Contents {
    /// Version of the store's keys, rows and tables.
    #[prost(uint64, tag = "1")]
    pub schema: u64,
    /// The time of the backup, in unix milliseconds.
    #[prost(int64, tag = "2")]
    pub created_at_ms: i64,
    /// Version of the program that created the backup.
    #[prost(string, tag = "3")]
    pub program: String,
    /// The tables, in the order of their rows.
    #[prost(message, repeated, tag = "4")]
    pub tables: Vec<TableContents>,
}

impl Contents {
    /// The rows of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }
}

/// A table of a backup.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableContents {
    /// The name of the table.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The number of rows.
    #[prost(uint64, tag = "2")]
    pub rows: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Rows {
    /// The table's index in the contents.
    #[prost(uint32, tag = "1")]
    pub(super) table: u32,
    /// The keys, ascending.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) keys: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(super) values: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Piece {
    #[prost(oneof = "Part", tags = "1, 2, 3")]
    part: Option<Part>,
}

/// Tag of the part that holds no message.
const END: u32 = 3;

#[derive(Clone, PartialEq, prost::Oneof)]
enum Part {
    #[prost(message, tag = "1")]
    Contents(Contents),
    #[prost(message, tag = "2")]
    Rows(Rows),
    /// The end, with the SHA-256 of all bytes before it.
    #[prost(bytes = "vec", tag = "3")]
    End(Vec<u8>),
}

/// The reason why a file cannot be used as a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file does not begin as a backup does.
    #[error("it is no backup of this service")]
    Foreign,
    /// A newer version of this program created the file.
    #[error("it has form {0} of a backup; this version reads form {FORM_VERSION}. Use the version that made it")]
    NewerForm(u32),
    /// The backup is of a store that this version cannot read.
    #[error("it was made by version {program}, of a store with format {found}; this version reads format {FORMAT}")]
    OtherFormat {
        /// The format of the store.
        found: u64,
        /// The version that created the backup.
        program: String,
    },
    /// The file ends too early.
    #[error("it is cut off: take a whole copy of it")]
    CutOff,
    /// The file is damaged.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// The file is encrypted, and the reader cannot decrypt it.
    #[error("{0}")]
    Encrypted(&'static str),
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
}

impl From<io::Error> for BackupError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutOff,
            // Only the decryption of a file returns this error.
            io::ErrorKind::InvalidData => Self::Damaged("an encrypted piece is cut off or was changed"),
            _ => Self::Io(error),
        }
    }
}

fn sum(number: u64, packed: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(packed);
    hasher.finalize().to_le_bytes()
}

/// Counts the fields of a message, and at more than one level those of the messages in it. None if it is malformed, or
/// has a kind of field that no backup has.
fn count_fields(mut message: &[u8], levels: u32) -> Option<usize> {
    let mut count = 0;
    while !message.is_empty() {
        let (tag, kind) = decode_key(&mut message).ok()?;
        let number = decode_varint(&mut message).ok()?;
        count += 1;
        match kind {
            WireType::Varint => {}
            WireType::LengthDelimited => {
                let (field, rest) = message.split_at_checked(usize::try_from(number).ok()?)?;
                message = rest;
                if levels > 1 && tag != END {
                    count += count_fields(field, levels - 1)?;
                }
            }
            _ => return None,
        }
    }
    Some(count)
}

fn decode(message: &[u8]) -> Option<Part> {
    count_fields(message, 2).filter(|count| *count <= MAX_PIECE_FIELDS)?;
    Piece::decode(message).ok()?.part
}

/// Writes the bytes of a backup, piece by piece.
pub(super) struct Writer {
    number: u64,
    hash: Sha256,
    packing: Compressor<'static>,
}

impl Writer {
    /// The bytes before the first row.
    pub(super) fn begin(contents: Contents) -> io::Result<(Self, Vec<u8>)> {
        let mut writer = Self { number: 0, hash: Sha256::new(), packing: Compressor::new(COMPRESSION_LEVEL)? };
        let mut bytes = [MAGIC.as_slice(), &FORM_VERSION.to_le_bytes()].concat();
        writer.hash.update(&bytes);
        bytes.extend(writer.piece(Part::Contents(contents))?);
        Ok((writer, bytes))
    }

    /// The bytes of some rows.
    pub(super) fn rows(&mut self, rows: Rows) -> io::Result<Vec<u8>> {
        self.piece(Part::Rows(rows))
    }

    pub(super) fn end(mut self) -> io::Result<Vec<u8>> {
        let sha256 = self.hash.clone().finalize().to_vec();
        self.piece(Part::End(sha256))
    }

    fn piece(&mut self, part: Part) -> io::Result<Vec<u8>> {
        let message = Piece { part: Some(part) }.encode_to_vec();
        let packed = self.packing.compress(&message)?;
        let length = u32::try_from(packed.len()).ok().filter(|_| message.len().max(packed.len()) <= MAX_PIECE_BYTES);
        let length = length.ok_or_else(|| io::Error::other("a row is too large for a backup"))?;
        let bytes = [&length.to_le_bytes(), sum(self.number, &packed).as_slice(), &packed].concat();
        self.number += 1;
        self.hash.update(&bytes);
        Ok(bytes)
    }
}

/// Reads a backup. It trusts no part of the file.
pub(super) struct Reader<R> {
    from: R,
    number: u64,
    bytes: u64,
    hash: Sha256,
    unpacking: Decompressor<'static>,
    contents: Contents,
    /// Number of rows read of each table.
    read: Vec<u64>,
    /// The table and the key of the last row.
    last: Option<(usize, Vec<u8>)>,
    /// True once the end was read and is right.
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the part before the first row.
    pub(super) fn open(mut from: R) -> Result<Self, BackupError> {
        let mut start = [0; 12];
        match from.read_exact(&mut start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(BackupError::Foreign),
            read => read?,
        }
        let [magic @ .., a, b, c, d] = start;
        if magic != MAGIC {
            return Err(BackupError::Foreign);
        }
        let form = u32::from_le_bytes([a, b, c, d]);
        if form != FORM_VERSION {
            return Err(BackupError::NewerForm(form));
        }
        let mut reader = Self {
            from,
            number: 0,
            bytes: start.len() as u64,
            hash: Sha256::new_with_prefix(start),
            unpacking: Decompressor::new()?,
            contents: Contents::default(),
            read: Vec::new(),
            last: None,
            ended: false,
        };
        let Part::Contents(contents) = reader.piece()? else {
            return Err(BackupError::Damaged("it does not begin with its contents"));
        };
        if contents.schema != FORMAT {
            return Err(BackupError::OtherFormat { found: contents.schema, program: contents.program });
        }
        if contents.tables.iter().any(|table| is_internal(&table.name)) {
            return Err(BackupError::Damaged("it has a table of the engine"));
        }
        reader.read = vec![0; contents.tables.len()];
        reader.contents = contents;
        Ok(reader)
    }

    pub(super) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The next rows; none once the whole file was read and is intact.
    pub(super) fn next(&mut self) -> Result<Option<Rows>, BackupError> {
        if self.ended {
            return Ok(None);
        }
        let before = self.hash.clone();
        match self.piece()? {
            Part::Contents(_) => Err(BackupError::Damaged("it has its contents twice")),
            Part::Rows(rows) => {
                self.count(&rows)?;
                Ok(Some(rows))
            }
            Part::End(sha256) => {
                if before.finalize().as_slice() != sha256 {
                    return Err(BackupError::Damaged("its SHA-256 is another"));
                }
                if !self.contents.tables.iter().map(|table| table.rows).eq(self.read.iter().copied()) {
                    return Err(BackupError::Damaged("rows are missing"));
                }
                if self.from.read(&mut [0])? > 0 {
                    return Err(BackupError::Damaged("something follows its end"));
                }
                self.ended = true;
                Ok(None)
            }
        }
    }

    /// Checks that rows are valid, in order and without repeats.
    fn count(&mut self, rows: &Rows) -> Result<(), BackupError> {
        let table = usize::try_from(rows.table).unwrap_or(usize::MAX);
        let counted = self.read.get_mut(table).ok_or(BackupError::Damaged("it has rows of an unknown table"))?;
        if rows.keys.len() != rows.values.len() || rows.keys.is_empty() {
            return Err(BackupError::Damaged("a key has no value"));
        }
        *counted += rows.keys.len() as u64;
        let after_last = |key: &Vec<u8>| match &self.last {
            Some((of, last)) => (*of, last) < (table, key),
            None => true,
        };
        if !rows.keys.first().is_some_and(after_last) || !rows.keys.is_sorted_by(|one, next| one < next) {
            return Err(BackupError::Damaged("its rows are not in order"));
        }
        if rows.values.iter().any(|value| StoredRow::decode(value).is_err()) {
            return Err(BackupError::Damaged("a row cannot be read"));
        }
        self.last = rows.keys.last().map(|key| (table, key.clone()));
        Ok(())
    }

    fn piece(&mut self) -> Result<Part, BackupError> {
        let mut head = [0; 8];
        self.from.read_exact(&mut head)?;
        let [a, b, c, d, sum_of @ ..] = head;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > MAX_PIECE_BYTES {
            return Err(BackupError::Damaged("a piece is too large"));
        }
        let mut packed = vec![0; length];
        self.from.read_exact(&mut packed)?;
        if sum(self.number, &packed) != sum_of {
            return Err(BackupError::Damaged("a piece has another checksum"));
        }
        self.number += 1;
        self.bytes += (head.len() + length) as u64;
        self.hash.update(head);
        self.hash.update(&packed);
        let unpacked = self.unpacking.decompress(&packed, MAX_PIECE_BYTES);
        unpacked.ok().and_then(|message| decode(&message)).ok_or(BackupError::Damaged("a piece cannot be read"))
    }
}

/// The result of the verification of a backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The contents of the backup.
    pub contents: Contents,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 of the whole file, in hex digits.
    pub sha256: String,
}

/// Reads a whole backup, row by row.
pub fn verify(from: impl Read) -> Result<Verified, BackupError> {
    let mut reader = Reader::open(from)?;
    while reader.next()?.is_some() {}
    Ok(reader.verified())
}

impl<R> Reader<R> {
    /// The result, once the end was read.
    pub(super) fn verified(self) -> Verified {
        Verified { contents: self.contents, bytes: self.bytes, sha256: hex::encode(self.hash.finalize()) }
    }
}

/// A file of these messages.
#[cfg(test)]
pub(super) fn sealed(messages: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [MAGIC.as_slice(), &FORM_VERSION.to_le_bytes()].concat();
    let mut packing = Compressor::new(COMPRESSION_LEVEL).expect("memory is there");
    for (number, message) in (0..).zip(messages) {
        let packed = packing.compress(message).expect("every message can be packed");
        let length = u32::try_from(packed.len()).expect("messages of tests are short").to_le_bytes();
        bytes.extend([length.as_slice(), &sum(number, &packed), &packed].concat());
    }
    bytes
}
