//! Symbols and addresses of tokens: shown in the upstream's letters, found in any case.

use super::*;
use crate::{
    domain::{
        dataset::View,
        observation::{Observation, ObservedThing, ObservedToken},
    },
    key,
    store::{Scan, Table},
};

fn told(observed_at: i64, symbol: &str, address: &str) -> Observation {
    let seen = ObservedToken {
        chain: "base".to_owned(),
        address: address.to_owned(),
        symbol: symbol.to_owned(),
        ..ObservedToken::default()
    };
    Observation { observed_at, revision: None, seen: ObservedThing::Token(Box::new(seen)) }
}

/// How many tokens an index has under a name.
async fn indexed(core: &Core, table: &'static Table, dataset: &Dataset, name: &str) -> usize {
    let scan = Scan::all(table, key![dataset.to_string(), name], 9);
    core.shared.backend.scan(&scan).await.unwrap().len()
}

/// The symbol and the address that the token with a symbol is shown with.
async fn shown(core: &Core, form: &str) -> Option<(String, String)> {
    let view = View::test("names");
    let reader = core.shared.theses.reader(&view).await.unwrap();
    let ids = reader.token_ids_by_symbol(&view, form, None, 9).await.unwrap();
    let (_, token) = reader.token(&view, ids.first()?).await.unwrap().unwrap();
    Some((token.symbol.clone(), token.address.clone()))
}

/// Brings observations all at once, so that several are one batch, or one after the other.
async fn bring(core: &Arc<Core>, dataset: &Dataset, observations: Vec<Observation>, at_once: bool) {
    if at_once {
        let written = observations.into_iter().map(|seen| core.datasets.observe_here(dataset, seen));
        for written in tokio::task::unconstrained(join_all(written)).await {
            assert!(written.unwrap().applied);
        }
        return;
    }
    for seen in observations {
        assert!(core.datasets.observe_here(dataset, seen).await.unwrap().applied);
    }
}

#[tokio::test]
async fn a_change_of_case_alone_leaves_one_row_in_each_index() {
    for (at_once, shared) in [(false, false), (true, false), (false, true), (true, true)] {
        let clock = ManualClock::new();
        let core = core(if shared { shared_memory(&clock) } else { memory(&clock) }, &clock, 1).await;
        let dataset = Dataset::of_project("names");
        let symbols = [told(1, "PEPE", "0xAB"), told(2, "pepe", "0xAB"), told(3, " $Pepe", "0xAb")];
        bring(&core, &dataset, symbols.into(), at_once).await;
        assert_eq!(shown(&core, "$PEPE").await, Some(("$Pepe".to_owned(), "0xAb".to_owned())));
        for (table, name) in
            [(&schema::TOKEN_SYMBOL, "$PEPE"), (&schema::EVENT_SYMBOL, "$PEPE"), (&schema::TOKEN_ADDRESS, "0xab")]
        {
            assert_eq!(indexed(&core, table, &dataset, name).await, 1, "{}", table.name);
        }
        for (table, name) in [(&schema::TOKEN_SYMBOL, "$pepe"), (&schema::TOKEN_ADDRESS, "0xAB")] {
            assert_eq!(indexed(&core, table, &dataset, name).await, 0, "{}", table.name);
        }
    }
}

#[tokio::test]
async fn a_token_is_found_by_its_newest_symbol_alone_and_its_events_by_each() {
    for (at_once, shared) in [(false, false), (true, false), (false, true), (true, true)] {
        let clock = ManualClock::new();
        let core = core(if shared { shared_memory(&clock) } else { memory(&clock) }, &clock, 1).await;
        let dataset = Dataset::of_project("names");
        // It goes back to a symbol that it had, in another case.
        let symbols = ["First", "second", "FIRST", "third", "fiRst"];
        let symbols = symbols.iter().zip(1..).map(|(symbol, at)| told(at, symbol, "0xAB"));
        bring(&core, &dataset, symbols.collect(), at_once).await;
        assert_eq!(shown(&core, "$FIRST").await.map(|(symbol, _)| symbol).as_deref(), Some("$fiRst"));
        for (form, rows) in [("$FIRST", 1), ("$SECOND", 0), ("$THIRD", 0)] {
            assert_eq!(indexed(&core, &schema::TOKEN_SYMBOL, &dataset, form).await, rows, "{form}");
            assert_eq!(indexed(&core, &schema::EVENT_SYMBOL, &dataset, form).await, 1, "{form}");
        }
        // What is older comes too late.
        let late = core.datasets.observe_here(&dataset, told(2, "second", "0xab")).await.unwrap();
        assert!(!late.applied);
        assert_eq!(shown(&core, "$FIRST").await, Some(("$fiRst".to_owned(), "0xAB".to_owned())));
    }
}
