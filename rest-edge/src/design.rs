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
    use std::collections::BTreeSet;

    use super::*;

    /// The classes that the rules of the style name. They stand before the brace of a rule, outside of comments.
    fn styled() -> BTreeSet<&'static str> {
        let rules = STYLE.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, rules)| rules));
        let selectors = rules.flat_map(|rules| rules.split('}')).filter_map(|rule| rule.rsplit_once('{'));
        let names = selectors.flat_map(|(selectors, _)| selectors.split('.').skip(1)).map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            &rest[..end.unwrap_or(rest.len())]
        });
        names.filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic())).collect()
    }

    #[test]
    fn it_shows_every_class_of_the_style() {
        let html = html("https://data.test");
        let lists = html.split("class=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let shown: BTreeSet<&str> = lists.flat_map(str::split_whitespace).collect();
        // The page has the first once its script runs, and the second hides parts until then.
        let by_scripts = BTreeSet::from(["scripted", "needs-script"]);
        let missing: Vec<_> =
            styled().difference(&by_scripts).filter(|class| !shown.contains(*class)).copied().collect();
        assert!(missing.is_empty(), "the page does not show {missing:?}");
        assert!(styled().len() > 80 && styled().is_superset(&by_scripts), "{:?}", styled());
    }

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
