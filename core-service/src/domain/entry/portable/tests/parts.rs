//! Totals and changes of alerts.

use proptest::{collection::vec, option::of, prelude::*};

use super::{int, token};
use crate::domain::{
    alert::{Alert, AlertChange, AlertProgress, LogRead},
    entry::{DatasetTotals, Totals},
};

pub(super) fn totals() -> impl Strategy<Value = Totals> {
    let in_dataset = (int(), int(), int());
    let in_dataset = in_dataset.prop_map(|(theses, profiles, tokens)| DatasetTotals { theses, profiles, tokens });
    let counts = (int(), int(), int(), int());
    (counts, of(in_dataset)).prop_map(|((theses, authors, of_author, by_author), in_dataset)| Totals {
        theses,
        authors,
        of_author,
        in_dataset,
        by_author,
    })
}

/// Fractions with few digits, which JSON gives back exactly.
fn number() -> impl Strategy<Value = f64> {
    any::<i32>().prop_map(|number| f64::from(number) / 8.0)
}

pub(super) fn alert_change() -> impl Strategy<Value = AlertChange> {
    let rule = (any::<[String; 3]>(), any::<bool>(), token(), 0..6_i32, of(number()), [int(), int(), int()]);
    let alert =
        rule.prop_map(|([id, project_id, name], live, token, metric, above, [for_ms, created_at, updated_at])| {
            let times = Alert { for_ms, created_at, updated_at, ..Alert::default() };
            Alert { id, project_id, live, name, token, metric, above, ..times }
        });
    let progress = (any::<[bool; 2]>(), of(int()), int(), any::<u64>(), vec((any::<String>(), any::<u64>()), 0..3));
    let progress = progress.prop_map(|([is_firing, has_no_data], waits_since, at, revision, reads)| {
        let reads = reads.into_iter().map(|(dataset, seq)| LogRead { dataset, seq }).collect();
        AlertProgress { is_firing, has_no_data, waits_since, state_since: at, revision, at, reads }
    });
    (alert, progress, of(number())).prop_map(|(alert, progress, value)| AlertChange { alert, progress, value })
}
