//! The page of a proto file: the service with its methods, the messages with their fields, the enums with their values.

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, MethodDescriptorProto, MethodOptions,
    ServiceDescriptorProto, method_options::IdempotencyLevel,
};

use super::{
    FOLDER, PATH, ProtoFile,
    comments::{
        self, Comments, ENUM, FIELD_OF_MESSAGE, MESSAGE, METHOD_OF_SERVICE, ONEOF_OF_MESSAGE, PACKAGE, SERVICE,
        VALUE_OF_ENUM,
    },
    types::TypePages,
};
use crate::docs::page::{Page, PagePart, escaped};

pub(super) fn page(proto: &ProtoFile, file: &FileDescriptorProto, types: &TypePages) -> Page {
    let comments = Comments::new(file);
    let service = file.service.first();
    let about = comments.comment_at(if service.is_some() { &[SERVICE, 0] } else { &[PACKAGE] });
    let mut writer = Writer { page: proto.path(), comments, types, out: String::new(), parts: Vec::new() };
    writer.head(proto, about, service);
    for (index, service) in (0..).zip(&file.service) {
        writer.service(index, service);
    }
    if !file.message_type.is_empty() {
        writer.part("messages", "Messages");
    }
    for (index, message) in (0..).zip(&file.message_type) {
        writer.message(index, message, file.service.is_empty());
    }
    if !file.enum_type.is_empty() {
        writer.part("enums", "Enums");
    }
    for (index, kind) in (0..).zip(&file.enum_type) {
        writer.enumeration(index, kind);
    }
    let title = service.map_or_else(|| format!("{}.proto", proto.name), |service| service.name().to_owned());
    let summary = comments::summary(about);
    // The file has all comments.
    let markdown = format!("# {title}\n\n{summary}\n\n```proto\n{}```\n", proto.text);
    Page { path: writer.page, title, summary, parts: writer.parts, body: writer.out, markdown, ..Page::default() }
}

struct Writer<'a> {
    /// The path of the page.
    page: String,
    comments: Comments<'a>,
    types: &'a TypePages,
    out: String,
    parts: Vec<PagePart>,
}

impl Writer<'_> {
    fn head(&mut self, proto: &ProtoFile, about: &str, service: Option<&ServiceDescriptorProto>) {
        let name = service.map_or_else(String::new, |service| format!("<code>thesis.v1.{}</code>, ", service.name()));
        let ((title, id), path) = (proto.audience.title(), proto.text_path());
        self.out.push_str(&format!(
            "{}<p class=\"facts\">{name}<a href=\"{path}\"><code>{FOLDER}{}.proto</code></a>. In the list of \
             <a href=\"{PATH}#{id}\">{}</a>.</p>\n",
            comments::html(about),
            proto.name,
            escaped(title),
        ));
    }

    fn part(&mut self, id: &str, title: &str) {
        self.parts.push(PagePart::new(id, title));
        self.out.push_str(&format!("<h2 id=\"{id}\">{title}</h2>\n"));
    }

    /// Adds an element to the table of contents.
    fn inner_part(&mut self, name: &str, path: &[i32]) {
        let text = comments::summary(self.comments.comment_at(path));
        self.parts.push(PagePart { is_inner: true, text, ..PagePart::new(name, name) });
    }

    fn heading(&mut self, name: &str, path: &[i32]) {
        self.out.push_str(&format!(
            "<h3 id=\"{name}\">{name} <a class=\"anchor\" href=\"#{name}\" aria-label=\"Link to {name}\">#</a></h3>\n"
        ));
        self.out.push_str(&comments::html(self.comments.comment_at(path)));
    }

    fn service(&mut self, index: i32, service: &ServiceDescriptorProto) {
        self.part("methods", "Methods");
        for (number, method) in (0..).zip(&service.method) {
            let name = method.name();
            let path = [SERVICE, index, METHOD_OF_SERVICE, number];
            self.inner_part(name, &path);
            self.heading(name, &path);
            self.signature(method);
        }
    }

    fn signature(&mut self, method: &MethodDescriptorProto) {
        let side = |streams: bool, name: &str| {
            format!("{}{}", if streams { "stream " } else { "" }, self.types.link(&self.page, name))
        };
        let request = side(method.client_streaming(), method.input_type());
        let response = side(method.server_streaming(), method.output_type());
        let level = method.options.as_ref().map(MethodOptions::idempotency_level);
        let effect = match level {
            Some(IdempotencyLevel::NoSideEffects) => " It only reads.",
            Some(IdempotencyLevel::Idempotent) => " Repeating it changes nothing more.",
            _ => "",
        };
        let name = method.name();
        self.out.push_str(&format!("<p><code>{name}({request}) returns ({response})</code>{effect}</p>\n"));
    }

    /// Starts a table.
    fn table(&mut self, of: &str, heads: &[&str]) {
        let begin = "<div class=\"table\" role=\"group\" tabindex=\"0\" aria-label=";
        self.out.push_str(&format!("{begin}\"{of}\"><table><thead><tr>"));
        for head in heads {
            self.out.push_str(&format!("<th scope=\"col\">{head}</th>"));
        }
        self.out.push_str("</tr></thead><tbody>\n");
    }

    fn end_table(&mut self) {
        self.out.push_str("</tbody></table></div>\n");
    }

    fn message(&mut self, index: i32, message: &DescriptorProto, is_part: bool) {
        let name = message.name();
        if is_part {
            self.inner_part(name, &[MESSAGE, index]);
        }
        self.heading(name, &[MESSAGE, index]);
        if message.field.is_empty() {
            self.out.push_str("<p>It has no fields.</p>\n");
            return;
        }
        for (number, choice) in (0..).zip(&message.oneof_decl) {
            let about = comments::inline(self.comments.comment_at(&[MESSAGE, index, ONEOF_OF_MESSAGE, number]));
            let is_real =
                message.field.iter().any(|field| field.oneof_index == Some(number) && !field.proto3_optional());
            if is_real {
                self.out.push_str(&format!("<p><code>oneof {}</code>: {about}</p>\n", choice.name()));
            }
        }
        self.table(&format!("Fields of {name}"), &["Field", "Type", "Number", "Meaning"]);
        for (number, field) in (0..).zip(&message.field) {
            let kind = self.types.of_field(&self.page, message, field);
            let meaning = comments::inline(self.comments.comment_at(&[MESSAGE, index, FIELD_OF_MESSAGE, number]));
            self.out.push_str(&format!(
                "<tr><td><code>{}</code></td><td>{kind}</td><td>{}</td><td>{meaning}</td></tr>\n",
                field.name(),
                field.number(),
            ));
        }
        self.end_table();
    }

    fn enumeration(&mut self, index: i32, kind: &EnumDescriptorProto) {
        let name = kind.name();
        self.heading(name, &[ENUM, index]);
        self.table(&format!("Values of {name}"), &["Value", "Number", "Meaning"]);
        for (number, value) in (0..).zip(&kind.value) {
            let meaning = comments::inline(self.comments.comment_at(&[ENUM, index, VALUE_OF_ENUM, number]));
            self.out.push_str(&format!(
                "<tr><td><code>{}</code></td><td>{}</td><td>{meaning}</td></tr>\n",
                value.name(),
                value.number(),
            ));
        }
        self.end_table();
    }
}
