//! The page of each message and enum, and the notation of field types.

use std::collections::HashMap;

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, MessageOptions,
    field_descriptor_proto::{Label, Type},
};

use super::FILES;
use crate::docs::page::escaped;

const CONTRACT: &str = ".thesis.v1.";
const WELL_KNOWN: &str = ".google.protobuf.";

/// The page of each message and enum, by its full name with a leading dot.
pub(super) struct TypePages(HashMap<String, String>);

impl TypePages {
    pub(super) fn new() -> Self {
        let mut pages = HashMap::new();
        for proto in FILES {
            let Some(file) = proto.descriptor() else { continue };
            let messages = file.message_type.iter().map(DescriptorProto::name);
            for name in messages.chain(file.enum_type.iter().map(EnumDescriptorProto::name)) {
                pages.insert(format!("{CONTRACT}{name}"), proto.path());
            }
        }
        Self(pages)
    }

    /// A type's name, with a link from the given page.
    pub(super) fn link(&self, page: &str, full: &str) -> String {
        if let Some(name) = full.strip_prefix(WELL_KNOWN) {
            let id = if name == "FieldMask" { "field-mask".to_owned() } else { name.to_lowercase() };
            return format!("<a href=\"https://protobuf.dev/reference/protobuf/google.protobuf/#{id}\">{name}</a>");
        }
        let name = full.strip_prefix(CONTRACT).unwrap_or(full);
        match self.0.get(full) {
            Some(of) if of == page => format!("<a href=\"#{name}\">{name}</a>"),
            Some(of) => format!("<a href=\"{of}#{name}\">{name}</a>"),
            None => escaped(name),
        }
    }

    /// A field's type in proto notation, with links.
    pub(super) fn of_field(&self, page: &str, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
        if let Some([key, value]) = map_entry(message, field) {
            return format!("map&lt;{}, {}&gt;", self.bare(page, key), self.bare(page, value));
        }
        let bare = self.bare(page, field);
        if field.label() == Label::Repeated {
            return format!("repeated {bare}");
        }
        if field.proto3_optional() {
            return format!("optional {bare}");
        }
        let choice = field.oneof_index.and_then(|index| message.oneof_decl.get(usize::try_from(index).ok()?));
        choice.map_or_else(|| bare.clone(), |choice| format!("oneof {} {bare}", choice.name()))
    }

    fn bare(&self, page: &str, field: &FieldDescriptorProto) -> String {
        match field.r#type() {
            Type::Message | Type::Enum | Type::Group => self.link(page, field.type_name()),
            kind => kind.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
        }
    }
}

/// The fields `key` and `value` of a map.
fn map_entry<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> Option<&'a [FieldDescriptorProto; 2]> {
    let name = field.type_name().rsplit('.').next()?;
    let entry = message.nested_type.iter().find(|nested| nested.name() == name)?;
    let is_map = entry.options.as_ref().is_some_and(MessageOptions::map_entry);
    if is_map { entry.field.as_slice().try_into().ok() } else { None }
}
