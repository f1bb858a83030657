"""Writes the types and methods of the SDK for Rust."""

from __future__ import annotations

import core

NOTICE = f"//! {core.NOTICE}\n\n"
WIDTH = 110
# Words that are no names.
RAW = ("for", "ref", "type")
# Written by hand.
LEFT_OUT = ("Error", "ErrorCode", "ErrorEnvelope", "ErrorType", "ThinEvent")


def files(api: core.Api) -> dict[str, str]:
    """The generated files."""
    writer = Writer(api)
    return {
        "rust/src/generated/errors.rs": writer.errors(),
        "rust/src/generated/types.rs": writer.types(),
        "rust/src/generated/params.rs": writer.all_params(),
        "rust/src/generated/operations.rs": writer.operations(),
    }


def field_name(name: str) -> str:
    """The name of a field."""
    name = core.snake(name)
    return f"r#{name}" if name in RAW else name


def argument(name: str) -> str:
    """The name of an argument."""
    return {"ref": "reference"}.get(name, field_name(name))


def comment(text: str, indent: str = "") -> str:
    """A comment of documentation."""
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in core.paragraphs(text, WIDTH - len(indent)))


def sentence(text: str) -> str:
    """A text that ends with a full stop."""
    return text if text.endswith((".", ":", "`.")) else f"{text}."


def open_enum(name: str, about: str, rows: list[tuple[str, str]]) -> str:
    """An enum of texts, each with a description."""
    variants = "".join(
        f'{comment(described, "    ")}    {core.pascal(value)} = "{value}",\n' for value, described in rows
    )
    return f"open_enum! {{\n{comment(about, '    ')}    {name} {{\n{variants}    }}\n}}\n"


def used(code: str) -> set[str]:
    """The names in some code without its comments."""
    return core.identifiers("\n".join(line for line in code.split("\n") if not line.strip().startswith("//")))


class Writer:
    """Writes the files of one API."""

    def __init__(self, api: core.Api) -> None:
        self.api = api
        self.variants = {
            one for schema in api.schemas.values() if isinstance(schema, core.Union) for one in schema.variants.values()
        }

    def row_of_page(self, schema: core.Schema) -> str:
        """The type of a row, if the schema is a page."""
        fields = {one.name: one.type for one in schema.fields} if isinstance(schema, core.Object) else {}
        item = fields["data"].item if {"data", "next_cursor", "has_more"} <= fields.keys() else None
        return self.type(item) if item else ""

    def type(self, type_: core.Type) -> str:
        """The type of a value, without null."""
        if type_.kind == "ref":
            if type_.name in self.variants:
                return next(
                    one.name
                    for one in self.api.schemas.values()
                    if isinstance(one, core.Union) and type_.name in one.variants.values()
                )
            row = self.row_of_page(self.api.schemas[type_.name])
            return f"Page<{row}>" if row else type_.name
        if type_.kind in ("list", "map"):
            assert type_.item is not None
            item = self.type(type_.item)
            item = f"Option<{item}>" if type_.item.nullable else item
            return f"Vec<{item}>" if type_.kind == "list" else f"BTreeMap<String, {item}>"
        if type_.kind == "const":
            return "bool" if isinstance(type_.value, bool) else "String"
        return {
            "string": "String",
            "date": "String",
            "integer": "i64",
            "number": "f64",
            "boolean": "bool",
            "time": "Timestamp",
            "any": "Value",
        }[type_.kind]

    def about(self, field: core.Field) -> str:
        """The description of a field."""
        values = field.type.values
        return sentence(field.about) + (f" One of {', '.join(f'`{value}`' for value in values)}." if values else "")

    def errors(self) -> str:
        """The codes and the groups of errors."""
        codes = [(one.code, f"{one.about}. The status is {one.status}.") for one in self.api.errors]
        types = [(one, f"`{one}`.") for one in self.api.error_types]
        return (
            f"{NOTICE}use crate::open_enum::open_enum;\n\n"
            + open_enum("ErrorCode", "Says what is wrong.", codes)
            + "\n"
            + open_enum("ErrorType", "A group of codes.", types)
        )

    def types(self) -> str:
        """The objects, the enums and the events."""
        kept = [one for one in self.api.schemas.values() if one.name not in LEFT_OUT and one.name not in self.variants]
        body = "\n".join(self.schema(schema) for schema in kept if not self.row_of_page(schema))
        names = used(body)
        uses = ["use std::collections::BTreeMap;\n\n"] if "BTreeMap" in names else []
        uses += ["use jiff::Timestamp;\n"] if "Timestamp" in names else []
        uses += ["use serde::{Deserialize, Deserializer, Serialize, de};\nuse serde_json::Value;\n\n"]
        return f"{NOTICE}{''.join(uses)}use crate::open_enum::open_enum;\n\n{body}"

    def schema(self, schema: core.Schema) -> str:
        """A type."""
        if isinstance(schema, core.Enum):
            return open_enum(schema.name, schema.about, [(value, f"`{value}`.") for value in schema.values])
        if isinstance(schema, core.Union):
            return self.union(schema)
        lines = "".join(self.declaration(field, schema.is_input) for field in schema.fields)
        required = [field for field in schema.fields if field.required]
        default = "Default, " if schema.is_input and not required else ""
        text = (
            f"{comment(schema.about)}#[derive(Clone, Debug, {default}PartialEq, Serialize, Deserialize)]\n"
            f"#[non_exhaustive]\npub struct {schema.name} {{\n{lines}}}\n"
        )
        return f"{text}\n{self.methods_of_input(schema)}" if schema.is_input else text

    def declaration(self, field: core.Field, is_input: bool = False) -> str:
        """A field of a struct. What a client may leave as it is or clear has an option for each."""
        kind = self.type(field.type)
        kind = f"Option<{kind}>" if is_input and self.is_clearable(field) else kind
        attribute = ""
        if not field.required and field.type.kind == "boolean" and not field.type.nullable:
            attribute = "    #[serde(default)]\n"
        elif not field.required:
            attribute, kind = '    #[serde(default, skip_serializing_if = "Option::is_none")]\n', f"Option<{kind}>"
        elif field.type.nullable:
            kind = f"Option<{kind}>"
        return f"{comment(self.about(field), '    ')}{attribute}    pub {field_name(field.name)}: {kind},\n"

    def taken(self, type_: core.Type) -> tuple[str, str]:
        """How a function takes a value, and the expression that keeps it, with `{}` for its name."""
        kind = self.type(type_)
        if type_.kind == "list" and type_.item is not None:
            if self.type(type_.item) == "String":
                return "impl IntoIterator<Item = impl Into<String>>", "{}.into_iter().map(Into::into).collect()"
            return f"impl IntoIterator<Item = {self.type(type_.item)}>", "{}.into_iter().collect()"
        return ("impl Into<String>", "{}.into()") if kind == "String" else (kind, "{}")

    def is_clearable(self, field: core.Field) -> bool:
        """Whether null is something else than leaving the field out."""
        return field.type.nullable and not field.required

    def setter(self, field: core.Field, is_optional: bool) -> str:
        """A method that sets a field, and one that clears it."""
        name, (kind, keeps) = field_name(field.name), self.taken(field.type)
        value = keeps.format(name)
        value = f"Some({value})" if is_optional else value
        value = f"Some({value})" if self.is_clearable(field) else value
        text = (
            f"{comment(self.about(field), '    ')}    #[must_use]\n"
            f"    pub fn {name}(mut self, {name}: {kind}) -> Self {{\n"
            f"        self.{name} = {value};\n        self\n    }}\n"
        )
        if self.is_clearable(field):
            text += (
                f"\n    /// Sends null for `{field.name}`.\n    #[must_use]\n"
                f"    pub fn clear_{core.snake(field.name)}(mut self) -> Self {{\n"
                f"        self.{name} = Some(None);\n        self\n    }}\n"
            )
        return text

    def methods_of_input(self, schema: core.Object) -> str:
        """A constructor of the required fields, and a method for each other one."""
        required = [field for field in schema.fields if field.required]
        others = [field for field in schema.fields if not field.required]
        parts = []
        if required:
            arguments = ", ".join(f"{field_name(one.name)}: {self.taken(one.type)[0]}" for one in required)
            values = [
                f"{field_name(one.name)}: {self.taken(one.type)[1].format(field_name(one.name))}"
                if self.taken(one.type)[1] != "{}"
                else field_name(one.name)
                for one in required
            ]
            values += [f"{field_name(one.name)}: {'false' if self.is_flag(one) else 'None'}" for one in others]
            parts.append(
                "    /// Takes the required fields.\n    #[must_use]\n"
                f"    pub fn new({arguments}) -> Self {{\n        Self {{ {', '.join(values)} }}\n    }}\n"
            )
        parts += [self.setter(field, not self.is_flag(field)) for field in others]
        return f"impl {schema.name} {{\n" + "\n".join(parts) + "}\n"

    def is_flag(self, field: core.Field) -> bool:
        """Whether an absent value is false."""
        return field.type.kind == "boolean" and not field.type.nullable

    def union(self, schema: core.Union) -> str:
        """An object whose data depends on its type."""
        data: dict[str, str] = {}
        for tag, name in schema.variants.items():
            variant = self.api.schemas[name]
            assert isinstance(variant, core.Object)
            data[tag] = self.type(next(field for field in variant.fields if field.name == "data").type)
        name, tag_type = schema.name, f"{schema.name}Type"
        # A thin event has no source.
        shared = [field for field in schema.shared if field.type.kind != "const" and field.name != "source"]
        lines = "".join(self.declaration(field) for field in shared)
        raw = "".join(f"    {field_name(one.name)}: {self.type(one.type)},\n" for one in shared)
        variants = "".join(f"    /// Of `{tag}`.\n    {core.pascal(tag)}(Box<{kind}>),\n" for tag, kind in data.items())
        reads = "".join(
            f"            {tag_type}::{core.pascal(tag)} => "
            f"serde_json::from_value(data).map(Self::{core.pascal(tag)}),\n"
            for tag in data
        )
        moved = ", ".join(field_name(one.name) for one in shared)
        return f"""{comment(schema.about)}#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct {name} {{
{lines}    /// What happened.
    pub r#type: {tag_type},
    /// Where it comes from. A thin event does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<{name}Source>,
    /// True for a test event, which never describes real activity.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub test: bool,
    /// More about what happened.
    #[serde(skip_serializing_if = "{name}Data::is_thin")]
    pub data: {name}Data,
}}

/// The data of an event, by its type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum {name}Data {{
{variants}    /// A thin event has no data.
    Thin,
    /// The JSON of a type of a later version.
    Unknown(Value),
}}

impl {name}Data {{
    fn is_thin(&self) -> bool {{
        matches!(self, Self::Thin)
    }}

    fn read(r#type: &{tag_type}, data: Option<Value>) -> serde_json::Result<Self> {{
        let Some(data) = data else {{ return Ok(Self::Thin) }};
        match r#type {{
{reads}            {tag_type}::Unknown(_) => Ok(Self::Unknown(data)),
        }}
    }}
}}

/// The fields of an event before its data is read.
#[derive(Deserialize)]
struct Raw{name} {{
{raw}    r#type: {tag_type},
    source: Option<{name}Source>,
    #[serde(default)]
    test: bool,
    data: Option<Value>,
}}

impl<'de> Deserialize<'de> for {name} {{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {{
        let Raw{name} {{ {moved}, r#type, source, test, data }} = Raw{name}::deserialize(deserializer)?;
        let data = {name}Data::read(&r#type, data).map_err(de::Error::custom)?;
        Ok(Self {{ {moved}, r#type, source, test, data }})
    }}
}}
"""

    def all_params(self) -> str:
        """The optional parameters of all queries."""
        parts = [
            self.params(one) for one in self.api.operations if any(not field.required for field in one.query_fields)
        ]
        body = "\n".join(parts)
        known = sorted(set(self.api.schemas) & used(body))
        time = "use jiff::Timestamp;\n\n" if "Timestamp" in used(body) else ""
        return f"{NOTICE}{time}use super::types::{{{', '.join(known)}}};\nuse crate::request::Query;\n\n{body}"

    def params(self, operation: core.Operation) -> str:
        """The optional parameters of a query."""
        fields = [field for field in operation.query_fields if not field.required]
        name = f"{core.pascal(operation.name)}Params"
        lines, adds, setters = [], [], []
        for field in fields:
            is_list = field.type.kind == "list"
            kind = self.type(field.type) if is_list else f"Option<{self.type(field.type)}>"
            lines.append(f"{comment(self.about(field), '    ')}    pub {field_name(field.name)}: {kind},\n")
            setters.append(self.setter(field, not is_list))
            function = {"comma": "joined", "repeat": "each"}.get(field.style) or (
                "time" if field.type.kind == "time" else "value"
            )
            value = f"&self.{field_name(field.name)}"
            adds.append(f'        query.{function}("{field.name}", {value});\n')
        of = "stream" if operation.result == "stream" else core.snake(operation.name)
        return (
            f"/// Optional parameters of [`Client::{of}`](crate::Client::{of}).\n"
            "#[derive(Clone, Debug, Default, PartialEq)]\n#[non_exhaustive]\n"
            f"pub struct {name} {{\n{''.join(lines)}}}\n\nimpl {name} {{\n"
            + "\n".join(setters)
            + "\n    pub(crate) fn query(&self) -> Query {\n        let mut query = Query::default();\n"
            + f"{''.join(adds)}        query\n    }}\n}}\n"
        )

    def operations(self) -> str:
        """The methods of the client."""
        methods = "\n".join(self.method(one) for one in self.api.operations if one.result != "stream")
        names = used(methods)
        types = sorted(
            {name for name in self.api.schemas if name in names and not self.row_of_page(self.api.schemas[name])}
        )
        params = sorted(name for name in names if name.endswith("Params"))
        mine = [name for name in ("Call", "Download", "Rows") if name in names]
        return (
            f"{NOTICE}use reqwest::Method;\n\nuse super::{{\n"
            f"    params::{{{', '.join(params)}}},\n    types::{{{', '.join(types)}}},\n}};\n"
            f"use crate::{{call::{{{', '.join(mine)}}}, client::Client, page::Page, request::Request}};\n\n"
            f"/// The operations of the API.\nimpl Client {{\n{methods}}}\n"
        )

    def method(self, operation: core.Operation) -> str:
        """The method of an operation, and its iterator."""
        name = core.snake(operation.name)
        arguments = [f"{argument(field.name)}: &str" for field in operation.path_fields]
        values = ", ".join(
            f"({argument(field.name)}, {'true' if field.style == 'slashed' else 'false'})"
            for field in operation.path_fields
        )
        call = f'Request::new(Method::{operation.method}, "{operation.path}", &[{values}])'
        passed = [argument(field.name) for field in operation.path_fields]
        for field in operation.query_fields:
            if field.required:
                arguments.append(f"{argument(field.name)}: &str")
                passed.append(argument(field.name))
                call += f'.with("{field.name}", {argument(field.name)})'
        if any(not field.required for field in operation.query_fields):
            arguments.append(f"params: &{core.pascal(operation.name)}Params")
            passed.append("params")
            call += ".query(params.query())"
        if operation.body is not None:
            arguments.append(f"body: &{operation.body.name}")
            call += ".body(body)"
        if operation.idempotent:
            call += ".keyed()"
        kind, function = {"text": ("String", "text"), "bytes": ("Download", "download")}.get(
            operation.result, ("", "json")
        )
        if operation.result_type is not None:
            kind = self.type(operation.result_type)
        takes = ", ".join(["&self", *arguments])
        about = comment("\n\n".join((sentence(operation.summary), operation.about)), "    ")
        text = f"{about}    pub fn {name}({takes}) -> Call<{kind}> {{\n        Call::{function}(self, {call})\n    }}\n"
        if operation.row_type is not None:
            text += (
                f"\n    /// All rows of [`Client::{name}`], page by page.\n"
                f"    pub fn {core.snake(operation.iterator)}({takes}) -> Rows<{self.type(operation.row_type)}> {{\n"
                f"        self.{name}({', '.join(passed)}).rows()\n    }}\n"
            )
        return text
