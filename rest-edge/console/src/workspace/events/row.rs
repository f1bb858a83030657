//! An event as a readable line. The script of the page writes the same line for new events.

use thesis_proto::{
    names::{event_type_name, source_name},
    v1::{self, event::Data},
};

use crate::view::cut;

/// A line cuts a thesis's text after this many characters.
const MAX_CHARACTERS: usize = 140;

pub(in crate::workspace) fn kind(event: &v1::Event) -> &'static str {
    event_type_name(event.r#type())
}

/// The readable source of an event.
pub(in crate::workspace) fn source(event: &v1::Event) -> String {
    let name = source_name(event.source());
    if event.test.unwrap_or_default() { format!("{name}, test") } else { name.to_owned() }
}

fn symbol(token: Option<&v1::TokenRef>) -> &str {
    token.map_or("", |token| &token.symbol)
}

/// Summarizes an event in one line.
pub fn line(event: &v1::Event) -> String {
    match &event.data {
        Some(Data::ThesisCreated(data)) => {
            let handle = data.profile.as_ref().map_or("", |profile| &profile.handle);
            format!("{handle} on {}: {}", symbol(data.token.as_ref()), cut(&data.text, MAX_CHARACTERS))
        }
        Some(Data::ProfileUpdated(data)) => {
            let handle = data.profile.as_ref().map_or("", |profile| &profile.handle);
            format!("{handle} changed: {}", data.changed.join(", "))
        }
        Some(Data::TokenActivity(data)) => format!(
            "{}: theses in the last hour {}, in 24 hours {}; authors {}",
            symbol(data.token.as_ref()),
            data.thesis_count_1h,
            data.thesis_count_24h,
            data.unique_authors_24h
        ),
        Some(Data::TokenThesisVelocity(data)) => format!(
            "{}: theses in 5 minutes {}, in the last hour {}, in the hour before {}",
            symbol(data.token.as_ref()),
            data.last_5m,
            data.last_1h,
            data.previous_1h
        ),
        Some(Data::Alert(data)) => {
            let alert = data.alert.clone().unwrap_or_default();
            format!("{}: {} at {}", alert.name, symbol(alert.token.as_ref()), data.value)
        }
        None => event.id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_line() {
        let token = || Some(v1::TokenRef { symbol: "$SOL".to_owned(), ..Default::default() });
        let of = |data| line(&v1::Event { data: Some(data), ..Default::default() });
        let profile = v1::ProfileRef { handle: "@ada".to_owned(), ..Default::default() };
        let thesis = v1::ThesisCreatedData {
            profile: Some(profile),
            token: token(),
            text: "up".to_owned(),
            ..Default::default()
        };
        assert_eq!(of(Data::ThesisCreated(thesis)), "@ada on $SOL: up");
        let profile = v1::Profile { handle: "@ada".to_owned(), ..Default::default() };
        let changed = vec!["bio".to_owned(), "handle".to_owned()];
        let updated = v1::ProfileUpdatedData { profile: Some(profile), changed };
        assert_eq!(of(Data::ProfileUpdated(updated)), "@ada changed: bio, handle");
        let activity = v1::TokenActivityData {
            token: token(),
            thesis_count_1h: 1,
            thesis_count_24h: 3,
            unique_authors_24h: 2,
            ..Default::default()
        };
        assert_eq!(of(Data::TokenActivity(activity)), "$SOL: theses in the last hour 1, in 24 hours 3; authors 2");
        let velocity = v1::TokenThesisVelocityData {
            token: token(),
            last_5m: 1,
            last_1h: 2,
            previous_1h: 3,
            ..Default::default()
        };
        let alert = v1::Alert { name: "Busy".to_owned(), token: token(), ..Default::default() };
        let crossing = v1::AlertEventData { alert: Some(alert), value: 12.5, ..Default::default() };
        assert_eq!(of(Data::Alert(crossing)), "Busy: $SOL at 12.5");
        let text = "$SOL: theses in 5 minutes 1, in the last hour 2, in the hour before 3";
        assert_eq!(of(Data::TokenThesisVelocity(velocity)), text);
    }
}
