use std::collections::{BTreeSet, HashMap};

use prost_types::{DescriptorProto, EnumDescriptorProto, ServiceDescriptorProto};

use super::{
    comments::{
        Comments, ENUM, FIELD_OF_MESSAGE, MESSAGE, METHOD_OF_SERVICE, ONEOF_OF_MESSAGE, PACKAGE, SERVICE, VALUE_OF_ENUM,
    },
    *,
};
use crate::docs::menu::Menu;

const MAX_PAGE_BYTES: usize = 150_000;

fn own() -> impl Iterator<Item = &'static FileDescriptorProto> {
    descriptors::FILES.file.iter().filter(|file| file.package() == "thesis.v1")
}

fn all_pages() -> Vec<Page> {
    pages(&Site::new("https://data.test", 0))
}

fn ids(page: &Page) -> BTreeSet<&str> {
    page.body.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_file_is_listed_and_is_the_one_that_was_compiled() {
    let compiled: BTreeSet<_> = own().map(|file| file.name().to_owned()).collect();
    let listed: BTreeSet<_> = FILES.iter().map(|proto| format!("{FOLDER}{}.proto", proto.name)).collect();
    assert_eq!(listed, compiled);
    for (path, text) in files() {
        assert!(text.starts_with("syntax = \"proto3\";"), "{path}");
    }
    assert!(files().any(|(path, _)| path == "/docs/grpc/thesis/v1/thesis_service.proto"));
}

#[test]
fn every_element_is_described_on_exactly_one_page() {
    let pages = all_pages();
    for file in own() {
        for name in file.service.iter().map(ServiceDescriptorProto::name) {
            assert_eq!(pages.iter().filter(|page| page.title == name).count(), 1, "{name}");
        }
        let messages = file.message_type.iter().map(DescriptorProto::name);
        for name in messages.chain(file.enum_type.iter().map(EnumDescriptorProto::name)) {
            let headings: usize =
                pages.iter().map(|page| page.body.matches(&format!("<h3 id=\"{name}\">")).count()).sum();
            assert_eq!(headings, 1, "{name}");
        }
        let path = format!("{PATH}/{}", file.name()[FOLDER.len()..].trim_end_matches(".proto"));
        let page = pages.iter().find(|page| page.path == path).unwrap();
        for method in file.service.iter().flat_map(|service| &service.method) {
            assert!(page.body.contains(&format!("<h3 id=\"{}\">", method.name())), "{}", method.name());
        }
    }
}

#[test]
fn fragments_are_unique_and_links_lead_somewhere() {
    let pages = all_pages();
    let known: HashMap<&str, BTreeSet<&str>> = pages.iter().map(|page| (&*page.path, ids(page))).collect();
    let files: BTreeSet<String> = files().map(|(path, _)| path).collect();
    for page in &pages {
        assert_eq!(page.body.matches(" id=\"").count(), ids(page).len(), "{}", page.path);
        for part in &page.parts {
            assert!(ids(page).contains(&*part.id), "{} {}", page.path, part.id);
        }
        for target in page.body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let (path, id) = target.split_once('#').map_or((target, None), |(path, id)| (path, Some(id)));
            let path = if path.is_empty() { page.path.as_str() } else { path };
            match (known.get(path), id) {
                (Some(ids), Some(id)) => assert!(ids.contains(id), "{} {target}", page.path),
                (None, _) if path.starts_with(PATH) => assert!(files.contains(path), "{} {target}", page.path),
                _ => {}
            }
        }
    }
}

#[test]
fn pages_stay_small() {
    let menu = Menu::new(crate::docs::guides::menu());
    for page in all_pages() {
        let size = page.html(&menu, "https://data.test").len();
        assert!(size < MAX_PAGE_BYTES, "{} has {size} bytes", page.path);
    }
}

#[test]
fn everything_has_a_comment() {
    let mut bare = Vec::new();
    for file in own() {
        let comments = Comments::new(file);
        let mut demand = |path: &[i32], name: &[&str]| {
            if comments.comment_at(path).is_empty() {
                bare.push(format!("{} {}", file.name(), name.join(".")));
            }
        };
        if file.service.is_empty() {
            demand(&[PACKAGE], &["package"]);
        }
        for (index, service) in (0..).zip(&file.service) {
            demand(&[SERVICE, index], &[service.name()]);
            for (number, method) in (0..).zip(&service.method) {
                demand(&[SERVICE, index, METHOD_OF_SERVICE, number], &[service.name(), method.name()]);
            }
        }
        for (index, message) in (0..).zip(&file.message_type) {
            demand(&[MESSAGE, index], &[message.name()]);
            for (number, field) in (0..).zip(&message.field) {
                demand(&[MESSAGE, index, FIELD_OF_MESSAGE, number], &[message.name(), field.name()]);
            }
            for (number, choice) in (0..).zip(&message.oneof_decl) {
                // An `optional` field creates a synthetic oneof with such a name.
                if !choice.name().starts_with('_') {
                    demand(&[MESSAGE, index, ONEOF_OF_MESSAGE, number], &[message.name(), choice.name()]);
                }
            }
        }
        for (index, kind) in (0..).zip(&file.enum_type) {
            demand(&[ENUM, index], &[kind.name()]);
            for (number, value) in (0..).zip(&kind.value) {
                demand(&[ENUM, index, VALUE_OF_ENUM, number], &[kind.name(), value.name()]);
            }
        }
    }
    assert!(bare.is_empty(), "without a comment: {bare:#?}");
}

#[test]
fn types_are_links_and_comments_are_text() {
    let pages = all_pages();
    let page = pages.iter().find(|page| page.path == "/docs/grpc/thesis_service").unwrap();
    for shown in [
        "<code>ListTheses(<a href=\"#ListThesesRequest\">ListThesesRequest</a>) returns (<a href=\"#ListThesesResponse\">",
        "<td>repeated <a href=\"/docs/grpc/resources#Thesis\">Thesis</a></td>",
        "<td>optional string</td>",
        "google.protobuf/#timestamp\">Timestamp</a>",
        "<a href=\"/docs/grpc/thesis/v1/thesis_service.proto\">",
    ] {
        assert!(page.body.contains(shown), "{shown}");
    }
    assert_eq!(
        comments::html("A `a<b>` & `RATE_LIMITED`,\n then\n\n more."),
        concat!(
            "<p>A <code>a&lt;b&gt;</code> &amp; <a href=\"/docs/errors#rate_limited\"><code>RATE_LIMITED</code></a>, then</p>\n",
            "<p>more.</p>\n"
        )
    );
    assert_eq!(comments::summary("One\n`two`.\n\nThree."), "One two.");
    let admin = pages.iter().find(|page| page.path == "/docs/grpc/admin_service").unwrap();
    assert!(admin.body.contains("<td>map&lt;string, uint64&gt;</td>") && admin.body.contains("<td>oneof scope "));
}
