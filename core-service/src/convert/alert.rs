//! Alerts as their customers see them.

use thesis_proto::{time::from_millis, v1};

use super::row::token_ref;
use crate::domain::alert::{Alert, AlertProgress};

/// An alert with its state.
pub fn alert(row: &Alert, progress: &AlertProgress) -> v1::Alert {
    // An alert that was never judged is as it was created.
    let state_since = if progress.state_since == 0 { row.created_at } else { progress.state_since };
    v1::Alert {
        id: row.id.clone(),
        name: row.name.clone(),
        token: Some(token_ref(&row.token)),
        metric: row.metric,
        above: row.above,
        below: row.below,
        recover: row.recovers_at(),
        r#for: span(row.for_ms),
        keep_firing_for: span(row.keep_firing_for_ms),
        state: progress.shown() as i32,
        state_since: Some(from_millis(state_since)),
        livemode: row.live,
        created_at: Some(from_millis(row.created_at)),
        updated_at: Some(from_millis(row.updated_at)),
    }
}

/// A span in the largest unit that divides it, such as `5m`. Spans have whole seconds.
fn span(ms: i64) -> String {
    let seconds = ms / 1_000;
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let unit = units.into_iter().find(|(size, _)| seconds > 0 && seconds % size == 0);
    let (size, name) = unit.unwrap_or((1, "s"));
    format!("{}{name}", seconds / size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::window::parse_span;

    #[test]
    fn spans_read_back() {
        let texts = ["0s", "1s", "90s", "5m", "1h", "90m", "2d"];
        assert_eq!(texts.map(|text| span(parse_span(text).unwrap())), texts);
    }
}
