use std::time::Duration;

use tokio::time::Instant;

use super::*;

fn know(log: &mut Log, dataset: &Dataset, handles: &[&str], symbols: &[&str]) {
    for handle in handles {
        log.add(dataset, EntryKind::ProfileObserved(ProfileObserved { profile: profile(handle, "x") }));
    }
    for symbol in symbols {
        let observed = TokenObserved { token: token(symbol, "base", "x"), ..TokenObserved::default() };
        log.add(dataset, EntryKind::TokenObserved(observed));
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

fn near(log: &Log, view: &View, name: &str, known: &[&str]) -> (Vec<String>, Vec<String>) {
    let named = |found: Vec<(Dataset, String)>, id: &dyn Fn(&str) -> String| {
        let mut names: Vec<String> = found
            .iter()
            .map(|(_, found)| {
                known.iter().find(|name| id(name) == *found).map_or(found.clone(), |name| (*name).to_owned())
            })
            .collect();
        names.sort();
        names
    };
    let profiles = log.index.near_profiles(view, name, 9, soon()).unwrap();
    let tokens = log.index.near_tokens(view, name, 9, soon()).unwrap();
    (named(profiles, &|name| profile(name, "").id), named(tokens, &|name| token(name, "base", "").id))
}

#[test]
fn near_names_are_found_nearest_first() {
    let handles = ["@alice", "@alicia", "@alan_turing", "@Çelik", "@bo"];
    let symbols = ["$RUN", "$RUNNER", "$SEEK"];
    let known = [&handles[..], &symbols[..]].concat();
    let mut log = Log::new();
    know(&mut log, &Dataset::Live, &handles, &symbols);
    log.index.commit().unwrap();
    for (given, profiles, tokens) in [
        ("alcie", vec!["@alice"], vec![]),
        ("@ALICE", vec!["@alice"], vec![]),
        ("alices", vec!["@alice"], vec![]),
        ("alisia", vec!["@alicia"], vec![]),
        ("alician", vec!["@alicia"], vec![]),
        ("alixe9", vec!["@alice"], vec![]),
        ("çelık", vec!["@Çelik"], vec![]),
        ("ala", vec!["@alan_turing"], vec![]),
        ("al", vec![], vec![]),
        ("$rum", vec![], vec!["$RUN"]),
        ("runne", vec![], vec!["$RUNNER"]),
        ("sekk", vec![], vec!["$SEEK"]),
        ("nobody_at_all", vec![], vec![]),
        ("", vec![], vec![]),
    ] {
        let found = near(&log, &View::live(), given, &known);
        assert_eq!(
            (found.0, found.1),
            (profiles.iter().map(ToString::to_string).collect(), tokens.iter().map(ToString::to_string).collect()),
            "{given}"
        );
    }
    assert_eq!(near(&log, &View::live(), &"alice".repeat(99), &known), (vec![], vec![]));
}

#[test]
fn near_names_of_other_datasets_are_not_found() {
    let mut log = Log::new();
    // Datasets whose names are within two slips of each other.
    know(&mut log, &project("prj_a"), &["@alice"], &["$RUN"]);
    know(&mut log, &project("prj_b"), &["@alicf"], &["$RUM"]);
    know(&mut log, &Dataset::Live, &["@alicg"], &["$RUT"]);
    log.index.commit().unwrap();
    let known = ["@alice", "@alicf", "@alicg", "$RUN", "$RUM", "$RUT"];
    let found = |view: &View| [near(&log, view, "alicd", &known).0, near(&log, view, "ruk", &known).1].concat();
    assert_eq!(found(&View::test("prj_a")), ["@alice", "$RUN"]);
    assert_eq!(found(&View::test("prj_b")), ["@alicf", "$RUM"]);
    assert_eq!(found(&View::test("prj_c")), [""; 0]);
    assert_eq!(found(&View::live()), ["@alicg", "$RUT"]);
}

#[test]
fn addresses_take_no_place_of_symbols() {
    let mut log = Log::new();
    know(&mut log, &Dataset::Live, &[], &["$0XMOON"]);
    for number in 0..20 {
        let address = format!("0xm{number}");
        let token = Token { address, ..token(&format!("$T{number}"), "base", "x") };
        log.add(&Dataset::Live, EntryKind::TokenObserved(TokenObserved { token, ..TokenObserved::default() }));
    }
    log.index.commit().unwrap();
    assert_eq!(near(&log, &View::live(), "0xm", &["$0XMOON"]).1, ["$0XMOON"]);
    assert!(near(&log, &View::live(), "0xm77", &[]).1.is_empty());
}

#[test]
fn nothing_is_looked_for_when_the_time_is_over() {
    let mut log = Log::new();
    know(&mut log, &Dataset::Live, &["@alice"], &[]);
    log.index.commit().unwrap();
    let found = |until| log.index.near_profiles(&View::live(), "alcie", 9, until).unwrap().len();
    assert_eq!((found(soon()), found(Instant::now())), (1, 0));
}
