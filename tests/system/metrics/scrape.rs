//! An answer of `/metrics`, read line by line.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Names that belong to a histogram.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The samples of some processes, added up.
#[derive(Default)]
pub(super) struct Scrape {
    /// By name and labels, as in `name{label="value"}`.
    samples: BTreeMap<String, f64>,
    types: HashMap<String, String>,
}

/// Name and labels of a sample.
fn parts(series: &str) -> (&str, Vec<(&str, &str)>) {
    let Some((name, labels)) = series.split_once('{') else { return (series, Vec::new()) };
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("{series}"));
    let labels = labels.split("\",").map(|label| {
        let (label, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{series}"));
        (label, value.trim_end_matches('"'))
    });
    (name, labels.collect())
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Demands that each line is one of the format, each metric has a text and a type, and its name tells its unit.
pub(super) fn demand_well_formed(text: &str) {
    let (mut helped, mut typed) = (BTreeSet::new(), HashMap::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, about) = help.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(about.len() > 5 && helped.insert(name), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(helped.contains(name), "no help: {line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(!name.ends_with("_ms") && !name.ends_with("_millis"), "{line}");
            assert!(typed.insert(name, kind).is_none(), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let (name, labels) = parts(series);
            assert!(is_name(name) && value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            assert!(labels.iter().all(|(label, _)| is_name(label)), "{line}");
            let of_histogram = PARTS.iter().find_map(|part| name.strip_suffix(part));
            assert!(typed.contains_key(name) || of_histogram.is_some_and(|name| typed[name] == "histogram"), "{line}");
        }
    }
}

impl Scrape {
    /// Adds an answer's samples to those of other processes.
    pub(super) fn add(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
                self.types.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#')
                && let Some((series, value)) = line.rsplit_once(' ')
            {
                *self.samples.entry(series.to_owned()).or_default() += value.parse::<f64>().unwrap();
            }
        }
    }

    /// Whether there are samples of this name.
    pub(super) fn has_samples(&self, name: &str) -> bool {
        self.samples.keys().any(|series| parts(series).0 == name)
    }

    /// The sum of the samples of a name that have these labels, whatever other labels they have.
    pub(super) fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        let fits = |series: &str| {
            let (found, labels) = parts(series);
            found == name && wanted.iter().all(|label| labels.contains(label))
        };
        self.samples.iter().filter(|(series, _)| fits(series)).map(|(_, value)| value).sum()
    }

    /// The metrics, each with the names of its labels.
    pub(super) fn families(&self) -> BTreeSet<(String, BTreeSet<String>)> {
        let mut families: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for series in self.samples.keys() {
            let (name, labels) = parts(series);
            let whole = PARTS.iter().find_map(|part| name.strip_suffix(part));
            let family = whole.filter(|name| self.types.get(*name).is_some_and(|kind| kind == "histogram"));
            let known = families.entry(family.unwrap_or(name)).or_default();
            known.extend(labels.iter().map(|(label, _)| (*label).to_owned()).filter(|label| label != "le"));
        }
        families.into_iter().map(|(name, labels)| (name.to_owned(), labels)).collect()
    }

    /// Demands that no value of a label is an id, a path that was asked for, a key, an address or one of `names`.
    pub(super) fn demand_no_names(&self, names: &[String]) {
        let ids =
            ["prj_", "org_", "key_", "wh_", "del_", "evt_", "th_", "fp_", "tk_", "req_", "usr_", "svc_", "whsec_"];
        for series in self.samples.keys() {
            for (_, value) in parts(series).1 {
                let has_id = ids.iter().any(|id| value.starts_with(id) || value.contains(&format!("/{id}")));
                let has_address = value.contains("127.0.0.1") || value.contains("localhost") || value.contains('@');
                let has_name = names.iter().any(|name| value.contains(name.as_str()));
                assert!(!has_id && !has_address && !has_name && value.len() < 64, "{series}");
            }
        }
    }
}
