//! The derived events of a token: its activity and velocity. Both are counted at one moment over the rows that readers
//! of the dataset see.

use crate::domain::{
    derivation::Counts,
    entry::{Entry, Kind, ThesisVelocity, TokenActivity},
    row::Token,
};

/// The two derived events of a token, with these ids, counted at `at`; `latest` is its newest thesis.
pub fn entries(
    [activity_id, velocity_id]: [String; 2],
    token: &Token,
    at: i64,
    counts: &Counts,
    latest: Option<(i64, String)>,
) -> [Entry; 2] {
    let entry = |id: String, kind: Kind| Entry { id, created_at: at, kind: Some(kind), ..Entry::default() };
    let activity = TokenActivity {
        token: token.for_events(),
        thesis_count_1h: counts.last_1h,
        thesis_count_24h: counts.last_24h,
        unique_authors_24h: counts.authors_24h,
        last_activity_at: latest.as_ref().map(|(at, _)| *at),
        latest_thesis_id: latest.map(|(_, id)| id),
    };
    let velocity = ThesisVelocity {
        token: token.for_events(),
        last_5m: counts.last_5m,
        last_1h: counts.last_1h,
        previous_1h: counts.previous_1h,
    };
    [entry(activity_id, Kind::TokenActivity(activity)), entry(velocity_id, Kind::ThesisVelocity(velocity))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_of_a_token_have_its_counts() {
        let token = Token { id: "tk_1".to_owned(), ..Token::default() };
        let counts =
            Counts { last_5m: 1, last_1h: 6, previous_1h: 4, last_24h: 20, authors_24h: 9, ..Counts::default() };
        let latest = Some((5, "th_1".to_owned()));
        let row = Token { logo_url: Some("https://a.example/logo".to_owned()), first_seen_at: 3, ..token.clone() };
        let [activity, velocity] = entries(["evt_1", "evt_2"].map(str::to_owned), &row, 7, &counts, latest);
        let places = [&activity, &velocity].map(|entry| (entry.id.as_str(), entry.created_at));
        assert_eq!(places, [("evt_1", 7), ("evt_2", 7)]);
        let expected = TokenActivity {
            token: token.clone(),
            thesis_count_1h: 6,
            thesis_count_24h: 20,
            unique_authors_24h: 9,
            latest_thesis_id: Some("th_1".to_owned()),
            last_activity_at: Some(5),
        };
        assert_eq!(activity.kind, Some(Kind::TokenActivity(expected)));
        let expected = ThesisVelocity { token, last_5m: 1, last_1h: 6, previous_1h: 4 };
        assert_eq!(expected.change_pct(), Some(50.0));
        assert_eq!(velocity.kind, Some(Kind::ThesisVelocity(expected)));
        assert_eq!(ThesisVelocity { last_1h: 3, ..ThesisVelocity::default() }.change_pct(), None);
    }
}
