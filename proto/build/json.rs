//! Generates the views of `src/json.rs` from the descriptors: structs that borrow a message, serialise it, and are the
//! OpenAPI schemas.
//!
//! - `views.json` lists the views. Each has the name of its message, unless `message` names it.
//! - A view has the message's fields in the order of the proto file, except the `hidden` ones. The constant `object`
//!   comes first if the view has one; the constant `metrics_scope` comes before the field that `scope_before` names.
//! - A field without a value is null if it is `optional` or `nullable`. If it is `omitted`, it is left out, and so is a
//!   flag that is false or an empty list. Any other absent message has the default of its view.
//! - A `raw` text is JSON itself, an object.
//! - A oneof is one field, after the others, with the JSON of its value.
//! - Times are those of `json::Time`. An enum's type in `src/json/names.rs` has its name, unless `enums` names another.
//! - Text in a field `url` or `…_url` has the format `uri`.
//! - Descriptions are the comments of the proto file, with "null" for "absent", unless `about` and `texts` have others.
//!
//! So a new field of a message is in its JSON and its schema as soon as the proto file has it.

use std::collections::BTreeMap;

use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde::Deserialize;

const PACKAGE: &str = "thesis.v1";
const TIME: &str = ".google.protobuf.Timestamp";
/// Field numbers of descriptors: parts of the path to a comment.
const MESSAGES: i32 = 4;
const FIELDS: i32 = 2;

/// The properties of a view that its descriptor does not have.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Exceptions {
    message: Option<String>,
    object: Option<String>,
    scope_before: Option<String>,
    nullable: Vec<String>,
    omitted: Vec<String>,
    hidden: Vec<String>,
    raw: Vec<String>,
    enums: BTreeMap<String, String>,
    about: Option<String>,
    texts: BTreeMap<String, String>,
}

/// The Rust code of all views in a table, the text of `views.json`. Those of secret messages have no `Debug`.
pub(super) fn views(descriptors: &FileDescriptorSet, table: &str, secret: &[&str]) -> serde_json::Result<String> {
    let table: BTreeMap<String, Exceptions> = serde_json::from_str(table)?;
    let all: Vec<_> = table.iter().map(|(name, exceptions)| View::new(descriptors, name, exceptions)).collect();
    Ok(all.iter().map(|view| view.rust(&all, secret)).collect())
}

struct View<'a> {
    name: &'a str,
    exceptions: &'a Exceptions,
    file: &'a FileDescriptorProto,
    /// The message's index in the file.
    index: i32,
    message: &'a DescriptorProto,
}

/// A field of a view.
struct Field {
    attributes: Vec<String>,
    name: String,
    kind: String,
    /// The expression that reads the value from `message`.
    value: String,
}

impl Field {
    fn constant(name: &str, schema: &str, value: &str) -> Self {
        let attributes = vec![format!("schema(schema_with = {schema})")];
        Self { attributes, name: name.to_owned(), kind: "&'static str".to_owned(), value: format!("{value:?}") }
    }
}

impl<'a> View<'a> {
    fn new(descriptors: &'a FileDescriptorSet, name: &'a str, exceptions: &'a Exceptions) -> Self {
        let message_name = exceptions.message.as_deref().unwrap_or(name);
        let files = descriptors.file.iter().filter(|file| file.package() == PACKAGE);
        let mut messages = files.flat_map(|file| (0..).zip(&file.message_type).map(move |found| (file, found)));
        let found = messages.find(|(_, (_, message))| message.name() == message_name);
        let (file, (index, message)) = found.expect("each view of views.json has a message");
        Self { name, exceptions, file, index, message }
    }

    fn rust(&self, all: &[View<'_>], secret: &[&str]) -> String {
        let (name, message) = (self.name, self.message.name());
        let mut rust = String::new();
        let mut fields = Vec::new();
        if let Some(object) = &self.exceptions.object {
            let schema = format!("object_of_{}", name.to_lowercase());
            rust += &format!("fn {schema}() -> Object {{ constant({object:?}) }}\n");
            fields.push(Field::constant("object", &schema, object));
        }
        for (index, field) in (0..).zip(&self.message.field) {
            if is_choice(field) || self.exceptions.hidden.iter().any(|name| name == field.name()) {
                continue;
            }
            if self.exceptions.scope_before.as_deref() == Some(field.name()) {
                fields.push(Field::constant("metrics_scope", "ingested", "ingested"));
            }
            fields.push(self.field(index, field, all));
        }
        if self.message.field.iter().any(is_choice) {
            fields.push(self.choice(all, &mut rust));
        }
        let about = self.exceptions.about.clone().unwrap_or_else(|| self.comment(&[MESSAGES, self.index]));
        let debug = if secret.contains(&message) { "" } else { "Debug, " };
        let (generics, reference) = if self.borrows(all) { ("<'a>", "&'a") } else { ("", "&") };
        rust += &format!("#[doc = {about:?}]\n#[derive({debug}Default, serde::Serialize, utoipa::ToSchema)]\n");
        rust += &format!("pub struct {name}{generics} {{\n");
        for Field { attributes, name, kind, .. } in &fields {
            rust.extend(attributes.iter().map(|attribute| format!("#[{attribute}]\n")));
            rust += &format!("{name}: {kind},\n");
        }
        rust += &format!("}}\nimpl{generics} From<{reference} v1::{message}> for {name}{generics} {{\n");
        rust += &format!("fn from(message: {reference} v1::{message}) -> Self {{ Self {{\n");
        rust.extend(fields.iter().map(|Field { name, value, .. }| format!("{name}: {value},\n")));
        rust + "} } }\n"
    }

    fn field(&self, index: i32, field: &FieldDescriptorProto, all: &[View<'_>]) -> Field {
        let listed = |names: &[String]| names.iter().any(|name| name == field.name());
        let (kind, is_list, omitted) = (field.r#type(), is_list(field), listed(&self.exceptions.omitted));
        let is_omitted_flag = omitted && kind == Type::Bool;
        let optional = !is_omitted_flag && (field.proto3_optional() || listed(&self.exceptions.nullable));
        let is_raw = listed(&self.exceptions.raw);
        let bare = if is_raw { "RawJson<'a>".to_owned() } else { self.type_of(field, all) };
        let name = match field.name() {
            "type" => "r#type",
            "for" => "r#for",
            name => name,
        };
        let value = format!("message.{name}");
        let value = match kind {
            Type::String if is_raw => format!("raw(&{value})"),
            Type::String if optional => format!("{value}.as_deref()"),
            Type::String => format!("&{value}"),
            Type::Message | Type::Enum if is_list => format!("each(&{value})"),
            Type::Message if optional => format!("{value}.as_ref().map(Into::into)"),
            Type::Message => format!("part(&{value})"),
            Type::Enum => format!("(&{value}).into()"),
            _ if is_omitted_flag => format!("{value}.unwrap_or_default()"),
            _ => value,
        };
        let mut attributes = vec![format!("doc = {:?}", self.about(field.name(), index))];
        if omitted {
            let skip = match kind {
                _ if is_list => "<[_]>::is_empty",
                Type::Bool => "is_false",
                _ => "Option::is_none",
            };
            attributes.push(format!("serde(skip_serializing_if = {skip:?})"));
        }
        if optional && omitted {
            attributes.push(format!("schema(value_type = {bare})"));
        } else if optional {
            attributes.push("schema(required)".to_owned());
        }
        if is_raw {
            attributes.push("schema(value_type = Object)".to_owned());
        }
        if field.type_name() == TIME {
            let text = if optional { "Option<String>" } else { "String" };
            attributes.push(format!("schema(value_type = {text}, format = DateTime)"));
        }
        if name == "url" || name.ends_with("_url") {
            attributes.push("schema(format = \"uri\")".to_owned());
        }
        let kind = if optional { format!("Option<{bare}>") } else { bare };
        Field { attributes, name: name.to_owned(), kind, value }
    }

    /// The field of the oneof. Adds the enum that is its type.
    fn choice(&self, all: &[View<'_>], rust: &mut String) -> Field {
        // The oneofs of `optional` fields come last.
        let name = self.message.oneof_decl.first().expect("a field is in it").name();
        let (kind, about) = (format!("{}{}", self.name, pascal(name)), self.about(name, 0));
        let source = format!("v1::{}::{}", self.message.name().to_lowercase(), pascal(name));
        let (mut variants, mut arms) = (String::new(), String::new());
        for (index, field) in (0..).zip(&self.message.field).filter(|(_, field)| is_choice(field)) {
            let variant = pascal(field.name());
            let (about, inner) = (self.about(field.name(), index), self.type_of(field, all));
            variants += &format!("#[doc = {about:?}]\n{variant}({inner}),\n");
            arms += &format!("{source}::{variant}(data) => Self::{variant}(data.into()),\n");
        }
        let enum_about = self.about(&kind, 0);
        *rust += &format!(
            "#[doc = {enum_about:?}]\n#[derive(Debug, serde::Serialize, utoipa::ToSchema)]\n#[serde(untagged)]\n\
             pub enum {kind}<'a> {{\n{variants}}}\n\
             impl<'a> From<&'a {source}> for {kind}<'a> {{\n\
             fn from(data: &'a {source}) -> Self {{ match data {{\n{arms}}} }} }}\n"
        );
        Field {
            attributes: vec![format!("doc = {about:?}"), format!("schema(value_type = {kind})")],
            name: name.to_owned(),
            kind: format!("Option<{kind}<'a>>"),
            value: format!("message.{name}.as_ref().map(Into::into)"),
        }
    }

    fn type_of(&self, field: &FieldDescriptorProto, all: &[View<'_>]) -> String {
        let type_name = field.type_name().rsplit('.').next().unwrap_or_default();
        let bare = match field.r#type() {
            Type::Bool => "bool".to_owned(),
            Type::Int32 => "i32".to_owned(),
            Type::Int64 => "i64".to_owned(),
            Type::Double => "f64".to_owned(),
            Type::String if is_list(field) => return "&'a [String]".to_owned(),
            Type::String => "&'a str".to_owned(),
            Type::Enum => self.exceptions.enums.get(field.name()).map_or(type_name, String::as_str).to_owned(),
            Type::Message if field.type_name() == TIME => "Time".to_owned(),
            Type::Message => {
                let view = view_of(type_name, all).expect("views.json has the messages of all fields");
                format!("{}{}", view.name, if view.borrows(all) { "<'a>" } else { "" })
            }
            // No view has one of these; the code would not compile.
            other => format!("{other:?}"),
        };
        if is_list(field) { format!("Vec<{bare}>") } else { bare }
    }

    /// True if the view has a lifetime.
    fn borrows(&self, all: &[View<'_>]) -> bool {
        self.message.field.iter().any(|field| match field.r#type() {
            Type::String => true,
            Type::Message => {
                let type_name = field.type_name().rsplit('.').next().unwrap_or_default();
                view_of(type_name, all).is_some_and(|view| view.borrows(all))
            }
            _ => false,
        })
    }

    /// The description of a field.
    fn about(&self, name: &str, index: i32) -> String {
        let text = self.exceptions.texts.get(name).cloned();
        text.unwrap_or_else(|| self.comment(&[MESSAGES, self.index, FIELDS, index]))
    }

    fn comment(&self, path: &[i32]) -> String {
        let mut locations = self.file.source_code_info.iter().flat_map(|info| &info.location);
        let text = locations.find(|location| location.path == path).map_or("", |location| location.leading_comments());
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        lines.join(" ").replace("absent", "null").replace("Absent", "Null")
    }
}

fn view_of<'v, 'a>(type_name: &str, all: &'v [View<'a>]) -> Option<&'v View<'a>> {
    all.iter().find(|view| view.message.name() == type_name)
}

fn is_list(field: &FieldDescriptorProto) -> bool {
    field.label() == Label::Repeated
}

/// True if the field belongs to a oneof that the proto file declares.
fn is_choice(field: &FieldDescriptorProto) -> bool {
    field.oneof_index.is_some() && !field.proto3_optional()
}

fn pascal(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}
