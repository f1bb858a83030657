//! Every CQL statement over the tables, built from their descriptors and prepared at the first use.

use std::{collections::HashMap, ops::Bound, sync::Arc, time::Duration};

use futures::TryFutureExt;
use parking_lot::RwLock;
use scylla::{
    client::execution_profile::ExecutionProfileHandle,
    frame::response::result::ColumnType,
    policies::retry::FallthroughRetryPolicy,
    serialize::{
        SerializationError,
        value::SerializeValue,
        writers::{CellWriter, WrittenCellProof},
    },
    statement::{Consistency, prepared::PreparedStatement},
};

use super::{ScyllaStore, StoreError, StoreResult, TimeLimit, session};
use crate::store::{Column, Table, Value};

/// Time limit of the preparation of a statement, which goes to every node once.
const PREPARE_LIMIT: TimeLimit = TimeLimit { time: Duration::from_secs(2), exceeded: StoreError::Unavailable };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    /// A read of one row. Binds the key.
    Get { serial: bool },
    /// A read of rows whose keys differ in the columns with these indexes, twice the same for one column. Binds the
    /// key, with a list for each of these columns.
    GetMany { columns: [usize; 2] },
    /// A read of a slice. Binds partition, lower bound, upper bound, limit.
    Scan { from: Edge, to: Edge, reverse: bool, serial: bool },
    /// An unconditional write. Binds timestamp, TTL, body, version, key.
    Put,
    /// An unconditional deletion. Binds timestamp, key.
    Delete,
    /// A row of a conditional write. Binds TTL, body, version, key, and the expected version if there is one.
    Set { conditional: bool },
    /// A deletion in a conditional write. Binds the key, and the expected version if there is one.
    Remove { conditional: bool },
}

/// One end of a slice: the number of compared columns, and whether it is inclusive. None is the partition's end.
pub(super) type Edge = Option<(usize, bool)>;

/// The form of a bound.
pub(super) fn edge(bound: &Bound<Vec<Value>>) -> Edge {
    match bound {
        Bound::Included(prefix) if !prefix.is_empty() => Some((prefix.len(), true)),
        Bound::Excluded(prefix) => Some((prefix.len(), false)),
        Bound::Included(_) | Bound::Unbounded => None,
    }
}

impl Shape {
    const fn is_read(self) -> bool {
        matches!(self, Self::Get { .. } | Self::GetMany { .. } | Self::Scan { .. })
    }

    /// True if the statement may be sent twice.
    fn is_idempotent(self) -> bool {
        !matches!(self, Self::Set { .. } | Self::Remove { .. })
    }

    pub(super) fn text(self, keyspace: &str, table: &Table) -> String {
        let name = format!("\"{keyspace}\".\"{}\"", table.name);
        let key = equal(table.partition.iter().chain(table.clustering));
        let condition = |conditional| {
            if conditional { " IF \"version\" = ?" } else { "" }
        };
        match self {
            Self::Get { .. } => format!("SELECT \"body\", \"version\" FROM {name} WHERE {key}"),
            Self::GetMany { columns } => {
                let listed = table.partition.iter().chain(table.clustering).enumerate();
                let listed = listed.filter(|(index, _)| columns.contains(index));
                let listed: Vec<_> = listed.map(|(_, column)| format!("\"{}\"", column.name)).collect();
                let with_list =
                    |key: String, column: &String| key.replace(&format!("{column} = ?"), &format!("{column} IN ?"));
                let key = listed.iter().fold(key, with_list);
                format!("SELECT {}, \"body\", \"version\" FROM {name} WHERE {key}", listed.join(", "))
            }
            Self::Scan { from, to, reverse, .. } => {
                let columns: String = table.clustering.iter().map(|column| format!("\"{}\", ", column.name)).collect();
                let mut text = format!("SELECT {columns}\"body\", \"version\" FROM {name}");
                text += &format!(" WHERE {}", equal(table.partition.iter()));
                text += &relation(table, from, ">");
                text += &relation(table, to, "<");
                let direction = if reverse { "DESC" } else { "ASC" };
                let order: Vec<_> =
                    table.clustering.iter().map(|column| format!("\"{}\" {direction}", column.name)).collect();
                if !order.is_empty() {
                    text += &format!(" ORDER BY {}", order.join(", "));
                }
                text + " LIMIT ?"
            }
            // UPDATE rather than INSERT: an INSERT also marks the row as present, and a mark without a TTL would
            // outlive columns that expire. A TTL of 0 means none.
            Self::Put => {
                format!("UPDATE {name} USING TIMESTAMP ? AND TTL ? SET \"body\" = ?, \"version\" = ? WHERE {key}")
            }
            Self::Delete => format!("DELETE FROM {name} USING TIMESTAMP ? WHERE {key}"),
            Self::Set { conditional } => format!(
                "UPDATE {name} USING TTL ? SET \"body\" = ?, \"version\" = ? WHERE {key}{}",
                condition(conditional)
            ),
            Self::Remove { conditional } => {
                format!("DELETE FROM {name} WHERE {key}{}", condition(conditional))
            }
        }
    }
}

fn equal<'a>(columns: impl Iterator<Item = &'a Column>) -> String {
    columns.map(|column| format!("\"{}\" = ?", column.name)).collect::<Vec<_>>().join(" AND ")
}

/// A bound, compared as a tuple. It always has tuple notation, since the two notations do not mix on one column.
fn relation(table: &Table, edge: Edge, operator: &str) -> String {
    let Some((columns, inclusive)) = edge else {
        return String::new();
    };
    let names: Vec<_> = table.clustering.iter().take(columns).map(|column| format!("\"{}\"", column.name)).collect();
    let marks = vec!["?"; columns].join(", ");
    let equals = if inclusive { "=" } else { "" };
    format!(" AND ({}) {operator}{equals} ({marks})", names.join(", "))
}

pub(super) enum Bind<'a> {
    Text(&'a str),
    Bigint(i64),
    Int(i32),
    Blob(&'a [u8]),
    List(Vec<Self>),
    Null,
}

impl<'a> From<&'a Value> for Bind<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Text(text) => Self::Text(text),
            Value::Int(int) => Self::Bigint(*int),
        }
    }
}

impl SerializeValue for Bind<'_> {
    fn serialize<'b>(
        &self,
        kind: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Self::Text(text) => text.serialize(kind, writer),
            Self::Bigint(int) => int.serialize(kind, writer),
            Self::Int(int) => int.serialize(kind, writer),
            Self::Blob(bytes) => bytes.serialize(kind, writer),
            Self::List(values) => values.serialize(kind, writer),
            Self::Null => Ok(writer.set_null()),
        }
    }
}

/// Prepared statements, by table and shape.
pub(super) struct Statements {
    keyspace: String,
    prepared: RwLock<HashMap<(&'static str, Shape), PreparedStatement>>,
    /// The profile of conditional writes. They are sent once, since a repeat could not tell its own success from
    /// another's.
    pub(super) conditional: ExecutionProfileHandle,
    reads: ExecutionProfileHandle,
}

impl Statements {
    pub(super) fn new(keyspace: String, datacenter: &str) -> Self {
        let conditional = session::profile(datacenter).retry_policy(Arc::new(FallthroughRetryPolicy::new()));
        Self {
            keyspace,
            prepared: RwLock::default(),
            conditional: conditional.build().into_handle(),
            reads: session::reads(datacenter).build().into_handle(),
        }
    }

    /// The profile of a statement; none for the session's profile.
    fn profile(&self, shape: Shape) -> Option<ExecutionProfileHandle> {
        if shape.is_read() {
            Some(self.reads.clone())
        } else {
            (!shape.is_idempotent()).then(|| self.conditional.clone())
        }
    }
}

impl ScyllaStore {
    /// The prepared statement of a shape. Fails only before anything was sent.
    pub(super) async fn statement(&self, table: &'static Table, shape: Shape) -> StoreResult<PreparedStatement> {
        let known = self.statements.prepared.read().get(&(table.name, shape)).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let request = self.session.prepare(shape.text(&self.statements.keyspace, table));
        let request = request.map_err(|error| StoreError::Unavailable(error.to_string()));
        let mut statement = self.run(1, PREPARE_LIMIT, request).await?;
        statement.set_is_idempotent(shape.is_idempotent());
        statement.set_execution_profile_handle(self.statements.profile(shape));
        if let Shape::Get { serial: true } | Shape::Scan { serial: true, .. } = shape {
            statement.set_consistency(Consistency::LocalSerial);
        }
        self.statements.prepared.write().insert((table.name, shape), statement.clone());
        Ok(statement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::schema::{EVENT_LOG, TOKEN_TOTALS};

    #[test]
    fn rows_whose_keys_differ_in_a_column_have_a_list_of_its_values() {
        let text = |table, columns| Shape::GetMany { columns }.text("ks", table);
        assert_eq!(
            text(&TOKEN_TOTALS, [1, 1]),
            "SELECT \"token\", \"body\", \"version\" FROM \"ks\".\"token_totals\" \
             WHERE \"dataset\" = ? AND \"token\" IN ? AND \"profile\" = ?"
        );
        assert_eq!(
            text(&TOKEN_TOTALS, [1, 2]),
            "SELECT \"token\", \"profile\", \"body\", \"version\" FROM \"ks\".\"token_totals\" \
             WHERE \"dataset\" = ? AND \"token\" IN ? AND \"profile\" IN ?"
        );
        assert!(text(&EVENT_LOG, [2, 2]).ends_with(" WHERE \"dataset\" = ? AND \"bucket\" = ? AND \"seq\" IN ?"));
    }

    #[test]
    fn only_reads_are_sent_again_for_being_slow_and_conditional_writes_only_once() {
        let statements = Statements::new("keyspace".to_owned(), "datacenter1");
        let by = |shape| match statements.profile(shape) {
            Some(profile) => format!("{:?}", profile.to_profile()),
            None => format!("{:?}", session::repeated("datacenter1").build()),
        };
        let policies = |shape| {
            let by = by(shape);
            (by.contains("SimpleSpeculativeExecutionPolicy"), by.contains("RetryOtherNodes"))
        };
        for serial in [false, true] {
            assert_eq!(policies(Shape::Get { serial }), (true, true));
            assert_eq!(policies(Shape::Scan { from: None, to: None, reverse: false, serial }), (true, true));
        }
        assert_eq!(policies(Shape::GetMany { columns: [1, 1] }), (true, true));
        for shape in [Shape::Put, Shape::Delete] {
            assert_eq!(policies(shape), (false, true), "{shape:?}");
        }
        for conditional in [false, true] {
            assert_eq!(policies(Shape::Set { conditional }), (false, false));
            assert_eq!(policies(Shape::Remove { conditional }), (false, false));
        }
    }
}
