//! Writes one Parquet file: rows are collected, and written a row group at a time.

use std::{
    fs::File,
    io::{self, Seek as _, Write},
    mem::replace,
    sync::Arc,
};

use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel},
    data_type::{BoolType, ByteArray, ByteArrayType, Int64Type},
    errors::Result,
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
        writer::SerializedFileWriter,
    },
    schema::types::{Type, TypePtr},
};
use sha2::{Digest as _, Sha256};

/// A row group ends with the row that reaches one of these sizes. Readers hold whole row groups in memory, and so does
/// this writer.
const GROUP_ROWS: usize = 65_536;
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// Approximate size of a text in memory beside its bytes.
const TEXT_BYTES: usize = 80;
/// The program that the file names. It has no version, so that another one gives the same bytes.
const WRITER: &str = "trade-thesis";

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Text,
    Integer,
    /// Unix milliseconds in UTC.
    Time,
    Flag,
}

/// A column of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    name: &'static str,
    kind: ColumnKind,
    is_optional: bool,
}

impl Column {
    pub(super) const fn new(name: &'static str, kind: ColumnKind) -> Self {
        Self { name, kind, is_optional: false }
    }

    /// A column whose values may be null.
    pub(super) const fn optional(name: &'static str, kind: ColumnKind) -> Self {
        Self { name, kind, is_optional: true }
    }

    fn schema(&self) -> Result<TypePtr> {
        let (physical, logical) = match self.kind {
            ColumnKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnKind::Integer => (PhysicalType::INT64, None),
            ColumnKind::Time => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
            ColumnKind::Flag => (PhysicalType::BOOLEAN, None),
        };
        let repetition = if self.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let column = Type::primitive_type_builder(self.name, physical);
        Ok(Arc::new(column.with_logical_type(logical).with_repetition(repetition).build()?))
    }
}

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    Text(&'a str),
    Integer(i64),
    Flag(bool),
    Null,
}

impl Cell<'_> {
    /// A number that may be absent.
    pub(super) fn number(number: Option<i64>) -> Self {
        number.map_or(Self::Null, Self::Integer)
    }
}

/// The values of a column that are not written yet.
enum Values {
    Texts(Vec<ByteArray>),
    Integers(Vec<i64>),
    Flags(Vec<bool>),
}

struct Buffer {
    values: Values,
    /// For each row of an optional column 1 if it has a value, else 0.
    levels: Option<Vec<i16>>,
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            ColumnKind::Text => Values::Texts(Vec::new()),
            ColumnKind::Integer | ColumnKind::Time => Values::Integers(Vec::new()),
            ColumnKind::Flag => Values::Flags(Vec::new()),
        };
        Self { values, levels: column.is_optional.then(Vec::new) }
    }

    /// Adds the value of the next row. Returns its size in memory.
    fn push(&mut self, cell: Cell<'_>) -> usize {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(!matches!(cell, Cell::Null)));
        }
        match (&mut self.values, cell) {
            (Values::Texts(texts), Cell::Text(text)) => {
                texts.push(text.into());
                return text.len() + TEXT_BYTES;
            }
            (Values::Integers(integers), Cell::Integer(integer)) => integers.push(integer),
            (Values::Flags(flags), Cell::Flag(flag)) => flags.push(flag),
            (_, cell) => debug_assert!(matches!(cell, Cell::Null), "a value of another type"),
        }
        size_of::<i64>()
    }
}

/// A file that is hashed while it is written.
struct HashedFile {
    file: File,
    hash: Sha256,
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A written file, with its reader at the start.
pub(super) struct WrittenFile {
    pub(super) file: File,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Writes the rows of one file.
pub(super) struct TableWriter {
    writer: SerializedFileWriter<HashedFile>,
    columns: &'static [Column],
    buffers: Vec<Buffer>,
    /// Rows in the buffers.
    waiting: usize,
    /// Approximate size of the buffers.
    waiting_bytes: usize,
    rows: u64,
}

impl TableWriter {
    /// Begins a file with these columns. `facts` are names and values that the file tells about itself.
    pub(super) fn new(file: File, columns: &'static [Column], facts: Vec<(&str, String)>) -> Result<Self> {
        let fields = columns.iter().map(Column::schema).collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(Type::group_type_builder("row").with_fields(fields).build()?);
        let facts = facts.into_iter().map(|(name, value)| KeyValue::new(name.to_owned(), value)).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(WRITER.to_owned())
            .set_key_value_metadata(Some(facts))
            .build();
        let writer = SerializedFileWriter::new(HashedFile { file, hash: Sha256::new() }, schema, Arc::new(properties))?;
        let buffers = columns.iter().map(Buffer::new).collect();
        Ok(Self { writer, columns, buffers, waiting: 0, waiting_bytes: 0, rows: 0 })
    }

    /// Adds a row: a value for each column, in their order.
    pub(super) fn push(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        debug_assert_eq!(cells.len(), self.columns.len(), "each column has a value");
        for (buffer, cell) in self.buffers.iter_mut().zip(cells) {
            self.waiting_bytes += buffer.push(*cell);
        }
        self.waiting += 1;
        self.rows += 1;
        if self.waiting >= GROUP_ROWS || self.waiting_bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for (buffer, column) in self.buffers.iter_mut().zip(self.columns) {
            let Buffer { values, levels } = replace(buffer, Buffer::new(column));
            let Some(mut writer) = group.next_column()? else { break };
            let levels = levels.as_deref();
            match &values {
                Values::Texts(texts) => writer.typed::<ByteArrayType>().write_batch(texts, levels, None)?,
                Values::Integers(integers) => writer.typed::<Int64Type>().write_batch(integers, levels, None)?,
                Values::Flags(flags) => writer.typed::<BoolType>().write_batch(flags, levels, None)?,
            };
            writer.close()?;
        }
        group.close()?;
        (self.waiting, self.waiting_bytes) = (0, 0);
        Ok(())
    }

    /// Writes the rest and the end of the file.
    pub(super) fn finish(mut self) -> Result<WrittenFile> {
        if self.waiting > 0 {
            self.write_group()?;
        }
        let HashedFile { mut file, hash } = self.writer.into_inner()?;
        let bytes = file.stream_position()?;
        file.rewind()?;
        Ok(WrittenFile { file, rows: self.rows, bytes, sha256: hex::encode(hash.finalize()) })
    }
}
