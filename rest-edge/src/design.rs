//! The page at `/design`: the tokens and components of all pages, each in its states. Whoever changes the look sees here
//! what changes with it.

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

#[derive(Template)]
#[template(path = "design.html")]
struct DesignPage<'a> {
    public_url: &'a str,
    colours: Vec<Colour>,
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
    let (colours, icons) = (colours().collect(), icons().collect());
    let wrong = Some("must be an address that begins with https://");
    DesignPage { public_url, colours, icons, right: None, wrong }.render().expect("texts always render")
}

/// Reads the colours from their lines, such as `--back: light-dark(#fcfcfb, #0c0d0f);`.
fn colours() -> impl Iterator<Item = Colour> {
    STYLE.lines().filter_map(|line| {
        let (name, values) = line.trim().strip_prefix("--")?.split_once(": light-dark(")?;
        let (light, dark) = values.strip_suffix(");")?.split_once(", ")?;
        Some(Colour { name, light, dark })
    })
}

fn icons() -> impl Iterator<Item = &'static str> {
    ICONS.split("<symbol id=\"").skip(1).filter_map(|symbol| symbol.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_every_colour_and_every_icon() {
        let html = html("https://data.test");
        assert!(html.contains("<code>--chart-4</code>") && html.contains("#0c0d0f"), "{html}");
        assert!(colours().count() >= 25, "{}", colours().count());
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
