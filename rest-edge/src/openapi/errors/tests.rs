//! The guide of errors has the texts of `errors.toml`.

use std::{collections::BTreeSet, env, fs};

use thesis_proto::error::ErrorCode;
use toml::{Table, Value};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/errors.md");

fn section(code: &str, texts: &Value) -> String {
    let text = |name: &str| texts.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("{code} has no {name}"));
    let items = [("When", "when"), ("What to do", "what_to_do"), ("Retry", "retry"), ("Details", "details")];
    let items = items.map(|(label, name)| format!("- **{label}:** {}\n", text(name).replace('\n', "\n  "))).concat();
    let more = texts.get("more").map(|_| format!("\n{}\n", text("more"))).unwrap_or_default();
    format!("\n## `{code}`\n\n{items}{more}")
}

#[test]
fn the_guide_of_errors_has_these_texts() {
    let texts: Table = toml::from_str(include_str!("../../../errors.toml")).unwrap();
    let names: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(texts.keys().map(String::as_str).collect::<BTreeSet<_>>(), names);

    let committed = fs::read_to_string(GUIDE).unwrap();
    let (head, _) = committed.split_once("\n## `").unwrap();
    let sections = ErrorCode::ALL.iter().map(|code| section(code.as_str(), &texts[code.as_str()]));
    let guide: String = [head.to_owned()].into_iter().chain(sections).collect();
    if env::var_os("UPDATE_GUIDES").is_some() {
        fs::write(GUIDE, guide).unwrap();
    } else {
        let differs = committed.lines().zip(guide.lines()).find(|(old, new)| old != new);
        assert!(committed == guide, "{differs:?}; UPDATE_GUIDES=1 cargo test -p rest-edge guide writes it");
    }
}
