//! The page at `/design`: the tokens and components of all pages, each in its states. Whoever changes the look sees
//! here what changes with it.

use askama::Template;
use http::HeaderValue;

use crate::document::Document;

pub(crate) const PATH: &str = "/design";

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const STYLE: &str = include_str!("../console/assets/site.css");
const ICONS: &str = include_str!("../console/assets/icons.svg");

/// A colour of `site.css`.
struct Colour {
    name: &'static str,
    light: &'static str,
    dark: &'static str,
}

/// A step of the scale of spaces, such as `1.5rem`.
struct Space {
    name: &'static str,
    width: &'static str,
}

#[derive(Template)]
#[template(path = "design.html")]
struct DesignPage<'a> {
    public_url: &'a str,
    colours: Vec<Colour>,
    spaces: Vec<Space>,
    icons: Vec<&'static str>,
    /// The faults of fields that are right and of fields that are wrong.
    right: Option<&'static str>,
    wrong: Option<&'static str>,
}

/// The page of a service with one public URL.
pub(crate) fn document(public_url: &str) -> Document {
    Document::new(HTML, html(public_url).into())
}

fn html(public_url: &str) -> String {
    let wrong = Some("must be an address that begins with https://");
    let (colours, spaces, icons) = (colours().collect(), spaces().collect(), icons().collect());
    let page = DesignPage { public_url, colours, spaces, icons, right: None, wrong };
    page.render().expect("texts always render")
}

/// Reads the colours from their lines, such as `--back: light-dark(#fcfcfb, #0c0d0f);`.
fn colours() -> impl Iterator<Item = Colour> {
    STYLE.lines().filter_map(|line| {
        let (name, values) = line.trim().strip_prefix("--")?.split_once(": light-dark(")?;
        let (light, dark) = values.strip_suffix(");")?.split_once(", ")?;
        Some(Colour { name, light, dark })
    })
}

/// Reads the spaces from their lines, such as `--space-5: 1.5rem;`.
fn spaces() -> impl Iterator<Item = Space> {
    STYLE.lines().filter_map(|line| {
        let (name, width) = line.trim().strip_prefix("--")?.strip_suffix(";")?.split_once(": ")?;
        name.starts_with("space-").then_some(Space { name, width })
    })
}

fn icons() -> impl Iterator<Item = &'static str> {
    ICONS.split("<symbol id=\"").skip(1).filter_map(|symbol| symbol.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_every_colour_space_and_icon() {
        let html = html("https://data.test");
        assert!(html.contains("<code>--chart-4</code>") && html.contains("#0c0d0f"), "{html}");
        assert!(colours().count() >= 25, "{}", colours().count());
        assert_eq!(spaces().count(), 9);
        assert_eq!(icons().count(), ICONS.matches("<symbol ").count());
        for icon in icons() {
            assert!(html.contains(&format!("icons.svg#{icon}\"")), "{icon}");
        }
    }

    #[test]
    fn it_names_the_image_that_others_show() {
        let image = format!("https://data.test{}/social.png", rest_edge_console::assets::folder());
        assert!(html("https://data.test").contains(&format!("<meta property=\"og:image\" content=\"{image}\">")));
    }
}
