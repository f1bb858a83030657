//! The comments of a proto file, as HTML and as text.

use std::collections::HashMap;

use prost_types::FileDescriptorProto;

use crate::docs::page::coded;

/// A comment's path consists of these field numbers of descriptors.
pub(super) const PACKAGE: i32 = 2;
pub(super) const MESSAGE: i32 = 4;
pub(super) const ENUM: i32 = 5;
pub(super) const SERVICE: i32 = 6;
pub(super) const METHOD_OF_SERVICE: i32 = 2;
pub(super) const FIELD_OF_MESSAGE: i32 = 2;
pub(super) const ONEOF_OF_MESSAGE: i32 = 8;
pub(super) const VALUE_OF_ENUM: i32 = 2;

/// The comments of a proto file, by the path of the element that they precede.
pub(super) struct Comments<'a>(HashMap<&'a [i32], &'a str>);

impl<'a> Comments<'a> {
    pub(super) fn new(file: &'a FileDescriptorProto) -> Self {
        let places = file.source_code_info.iter().flat_map(|info| &info.location);
        let comments = places.filter_map(|place| Some((&*place.path, place.leading_comments.as_deref()?.trim())));
        Self(comments.filter(|(_, text)| !text.is_empty()).collect())
    }

    /// The comment of an element; empty if there is none.
    pub(super) fn comment_at(&self, path: &[i32]) -> &'a str {
        self.0.get(path).copied().unwrap_or_default()
    }
}

/// Joins the lines of each paragraph.
fn paragraphs(comment: &str) -> Vec<String> {
    let lines: Vec<&str> = comment.lines().map(str::trim).collect();
    lines.split(|line| line.is_empty()).filter(|lines| !lines.is_empty()).map(|lines| lines.join(" ")).collect()
}

/// The first paragraph of a comment, as text.
pub(super) fn summary(comment: &str) -> String {
    paragraphs(comment).into_iter().next().unwrap_or_default().replace('`', "")
}

/// A comment for a table cell, with its paragraphs joined.
pub(super) fn inline(comment: &str) -> String {
    coded(&paragraphs(comment).join(" "))
}

pub(super) fn html(comment: &str) -> String {
    let mut out = String::new();
    for text in paragraphs(comment) {
        out.push_str(&format!("<p>{}</p>\n", coded(&text)));
    }
    out
}
