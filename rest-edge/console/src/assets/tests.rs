use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{FILES, STYLE};

const ICONS: &str = include_str!("../../assets/icons.svg");
/// The least contrast of text, by WCAG 2.2 AA.
const TEXT: f64 = 4.5;
/// The least contrast of borders of fields and of lines in charts.
const GRAPHICS: f64 = 3.0;

/// The light and the dark value of each colour.
fn colours() -> BTreeMap<&'static str, [&'static str; 2]> {
    let colours = STYLE.lines().filter_map(|line| {
        let (name, values) = line.trim().strip_prefix("--")?.split_once(": light-dark(#")?;
        let (light, dark) = values.strip_suffix(");")?.split_once(", #")?;
        Some((name, [light, dark]))
    });
    colours.collect()
}

fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    assert_eq!(colour.len(), 6, "{colour}");
    0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Foregrounds, the grounds that each of them stands on, and their least contrast.
const PAIRS: &[(&[&str], &[&str], f64)] = &[
    (&["text", "muted", "accent", "accent-over", "good", "warn", "bad"], &["back", "face", "sunk", "soft"], TEXT),
    (&["good", "text"], &["good-back"], TEXT),
    (&["warn", "text"], &["warn-back"], TEXT),
    (&["bad", "text"], &["bad-back"], TEXT),
    (&["accent-text"], &["accent", "accent-over"], TEXT),
    // Primary buttons.
    (&["back"], &["text"], TEXT),
    (&["code-key", "code-string", "code-number", "code-comment", "code-name"], &["sunk", "face"], TEXT),
    (&["edge"], &["back", "face", "sunk"], GRAPHICS),
    (&["chart-1", "chart-2", "chart-3", "chart-4"], &["face", "back"], GRAPHICS),
];

#[test]
fn contrasts_are_those_of_the_standard() {
    assert!((contrast("000000", "ffffff") - 21.0).abs() < 0.001);
    // The lightest grey that is text on white, and the next one.
    assert!(contrast("767676", "ffffff") >= TEXT && contrast("777777", "ffffff") < TEXT);
}

#[test]
fn colours_can_be_read_in_both_themes() {
    let colours = colours();
    for (foregrounds, grounds, least) in PAIRS {
        for (foreground, ground) in foregrounds.iter().flat_map(|one| grounds.iter().map(move |other| (one, other))) {
            for (number, theme) in ["light", "dark"].into_iter().enumerate() {
                let found = contrast(colours[foreground][number], colours[ground][number]);
                assert!(found >= *least, "{theme}: --{foreground} on --{ground} has {found:.2}, needs {least}");
            }
        }
    }
    let judged: BTreeSet<&str> = PAIRS.iter().flat_map(|(one, other, _)| one.iter().chain(*other)).copied().collect();
    // Hairlines separate what is also apart without them.
    let decoration = ["line", "chart-grid"];
    let missing: Vec<_> =
        colours.keys().filter(|name| !judged.contains(*name) && !decoration.contains(*name)).collect();
    assert!(missing.is_empty(), "no contrast is demanded of {missing:?}");
}

/// The files of the pages: styles, scripts and templates of this crate and of the edge, by path.
fn sources() -> Vec<(String, String)> {
    let console = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for folder in ["assets", "templates", "../assets", "../templates"] {
        for file in fs::read_dir(console.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|kind| ["css", "js", "html"].iter().any(|known| kind == *known)) {
                sources.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

/// The texts between `begin` and the next `end`, without those that a template computes.
fn named<'a>(text: &'a str, begin: &str, end: char) -> Vec<&'a str> {
    let names = text.split(begin).skip(1).filter_map(|rest| rest.split(end).next());
    names.filter(|name| !name.contains('{')).collect()
}

#[test]
fn what_pages_name_exists() {
    let sources = sources();
    assert!(sources.len() > 50, "{}", sources.len());
    let mut icons = 0;
    for (path, text) in &sources {
        for file in named(text, "crate::assets::folder() }}/", '"') {
            let file = file.split('#').next().unwrap();
            assert!(FILES.iter().any(|(name, ..)| *name == file), "{path} names {file}");
        }
        for icon in named(text, "icons.svg#", '"').into_iter().chain(named(text, "icon(\"", '"')) {
            assert!(ICONS.contains(&format!("<symbol id=\"{icon}\" ")), "{path} names the icon {icon}");
            icons += 1;
        }
        for token in named(text, "var(--", ')') {
            let token = token.split(',').next().unwrap();
            assert!(STYLE.contains(&format!("  --{token}: ")), "{path} names --{token}");
        }
    }
    assert!(icons > 5, "{icons}");
    for file in named(STYLE, "url(", ')') {
        assert!(FILES.iter().any(|(name, ..)| *name == file), "the style names {file}");
    }
}
