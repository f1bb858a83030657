//! The output formats: tables for people, the service's own JSON for programs.

use std::{
    fmt,
    io::{self, IsTerminal as _},
};

use clap::{Args, ValueEnum};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::client::ApiClient;
use crate::{
    Failure,
    terminal::{fit, plain, say, table, width},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Aligned columns that fit the terminal, with long texts cut
    Table,
    /// JSON of the service, one line for each row of a list
    Json,
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Form of the output [default: table on a terminal, json elsewhere]
    #[arg(long, global = true, value_enum, value_name = "FORM")]
    output: Option<Form>,
}

/// The number of rows of a list.
#[derive(Debug, Args)]
pub(super) struct Amount {
    /// Maximum number of rows
    #[arg(long, value_name = "ROWS", default_value_t = 25, value_parser = row_count)]
    limit: u64,
    /// All rows
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// Reads a number of rows.
pub(super) fn row_count(text: &str) -> Result<u64, String> {
    text.parse::<u64>()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("not a whole number from 1 to {}", u64::MAX))
}

impl Amount {
    const fn rows(&self) -> u64 {
        if self.all { u64::MAX } else { self.limit }
    }
}

/// A column of a table.
pub(super) struct Column {
    title: &'static str,
    /// JSON pointer to its value in a row.
    place: &'static str,
    /// True if its values may be cut.
    is_text: bool,
}

impl Column {
    /// A column of ids, times or numbers, which are useless in part.
    pub(super) const fn whole(title: &'static str, place: &'static str) -> Self {
        Self { title, place, is_text: false }
    }

    pub(super) const fn text(title: &'static str, place: &'static str) -> Self {
        Self { title, place, is_text: true }
    }
}

pub(super) type Columns = &'static [Column];

pub(super) struct Output {
    pub(super) form: Form,
}

impl Output {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let usual = || if io::stdout().is_terminal() { Form::Table } else { Form::Json };
        Self { form: arguments.output.unwrap_or_else(usual) }
    }

    /// Prints one resource.
    pub(super) fn one(&self, body: &str) -> io::Result<()> {
        match self.form {
            Form::Json => say(body.trim_end()),
            Form::Table => {
                let mut rows = Vec::new();
                add_fields("", body, &mut rows);
                say(&table(&rows))
            }
        }
    }

    /// Prints the rows of a list.
    pub(super) async fn list(
        &self,
        client: &ApiClient,
        path: &[&str],
        query: &[(&'static str, String)],
        amount: &Amount,
        columns: Columns,
    ) -> Result<(), Failure> {
        let mut cells = Vec::new();
        let print = |rows: Vec<Box<RawValue>>| -> Result<(), Failure> {
            for row in &rows {
                match self.form {
                    Form::Json => say(row.get())?,
                    Form::Table => cells.push(cells_of(&serde_json::from_str(row.get())?, columns)),
                }
            }
            Ok(())
        };
        client.rows(path, query, amount.rows(), print).await?;
        if self.form == Form::Table {
            print_table(columns, cells)?;
        }
        Ok(())
    }
}

/// The cells of a row.
pub(super) fn cells_of(row: &Value, columns: Columns) -> Vec<String> {
    columns.iter().map(|column| plain(row.pointer(column.place).unwrap_or(&Value::Null))).collect()
}

/// Prints rows under the titles of their columns.
pub(super) fn print_table(columns: Columns, cells: Vec<Vec<String>>) -> io::Result<()> {
    if cells.is_empty() {
        return say("none");
    }
    say(&titled(columns, cells, width()))
}

/// Rows under the titles of their columns, to fit a width.
fn titled(columns: Columns, cells: Vec<Vec<String>>, width: Option<usize>) -> String {
    let titles = columns.iter().map(|column| column.title.to_uppercase()).collect();
    let rows = [vec![titles], cells].concat();
    let is_text: Vec<bool> = columns.iter().map(|column| column.is_text).collect();
    width.map_or_else(|| table(&rows), |width| fit(&rows, &is_text, width))
}

/// The fields of an object in their original order, which serde_json's map does not keep.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// Adds a row for each field of a value. The name of a field of an inner object has dots.
fn add_fields(name: &str, json: &str, rows: &mut Vec<Vec<String>>) {
    if let Ok(Fields(fields)) = serde_json::from_str(json)
        && !fields.is_empty()
    {
        for (inner, value) in fields {
            let inner = if name.is_empty() { inner } else { format!("{name}.{inner}") };
            add_fields(&inner, value.get(), rows);
        }
        return;
    }
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let objects = value.as_array().filter(|items| items.iter().any(Value::is_object)).map(Vec::len);
    let cell = objects.map_or_else(|| plain(&value), |count| format!("{count} rows, which --output json shows"));
    rows.push(vec![name.to_owned(), cell]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_inner_ones_have_a_dot() {
        let body = r#"{"b":1,"a":{"d":null,"c":["x","y"]},"e":{},"f":[{"g":1},{"g":2}],"h":[]}"#;
        let mut rows = Vec::new();
        add_fields("", body, &mut rows);
        let expected = [
            ["b", "1"],
            ["a.d", "-"],
            ["a.c", "x,y"],
            ["e", "{}"],
            ["f", "2 rows, which --output json shows"],
            ["h", ""],
        ];
        assert_eq!(rows, expected.map(|row| row.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_number_of_rows_is_whole_and_above_0() {
        assert_eq!((row_count("1"), row_count("250")), (Ok(1), Ok(250)));
        for text in ["0", "-1", "1.5", "many", "", "18446744073709551616"] {
            let message = "not a whole number from 1 to 18446744073709551615";
            assert_eq!(row_count(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_row_has_the_cells_of_its_columns() {
        const COLUMNS: Columns = &[
            Column::text("author", "/profile/handle"),
            Column::whole("likes", "/likes"),
            Column::text("text", "/text"),
        ];
        let row = serde_json::json!({"id": "th_1", "profile": {"handle": "@a"}, "likes": 3});
        assert_eq!(cells_of(&row, COLUMNS), ["@a", "3", "-"]);
    }

    #[test]
    fn ids_and_times_stay_whole_in_a_narrow_terminal() {
        const COLUMNS: Columns =
            &[Column::whole("created", "/at"), Column::whole("id", "/id"), Column::text("text", "/text")];
        let (at, id) = ("2026-01-31T12:00:00.000Z", "th_0123456789abcdefghjkmnpq");
        let cells = vec![vec![at.to_owned(), id.to_owned(), "漢字".repeat(40)]];
        let table = titled(COLUMNS, cells.clone(), Some(80));
        let [title, row]: [&str; 2] = table.lines().collect::<Vec<_>>().try_into().unwrap();
        assert!(title.starts_with("CREATED") && title.ends_with("TEXT"), "{table}");
        // 25 columns are left: twelve wide characters and the mark of the cut.
        assert_eq!(row, format!("{at}  {id}  {}…", "漢字".repeat(6)));
        assert!(titled(COLUMNS, cells.clone(), Some(20)).contains(id));
        assert!(titled(COLUMNS, cells, None).ends_with(&"漢字".repeat(40)));
    }
}
