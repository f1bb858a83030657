//! The form fields that select events.

use thesis_proto::{
    names::{EVENT_TYPES, event_type_name, parse_event_type},
    v1,
};

use crate::page_query::PageQuery;

/// A form shows filters up to this size.
const MAX_BYTES: usize = 4_096;

/// The typed fields that select events. A list is a text with commas.
#[derive(Clone, Debug, Default)]
pub(super) struct FilterFields {
    /// The names of the event types with ticked boxes.
    pub(super) types: Vec<String>,
    pub(super) token: String,
    pub(super) handle: String,
    pub(super) chain: String,
    /// One search; a form has no way to separate several.
    pub(super) text: String,
}

/// The checkbox of an event type.
pub(super) struct TypeBox {
    /// The name of the type, such as `thesis.created`.
    pub(super) name: &'static str,
    /// True if the box is ticked.
    pub(super) is_ticked: bool,
}

/// Splits a text at its commas.
fn values(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

impl FilterFields {
    pub(super) fn of(types: &[v1::EventType], filters: Option<&v1::EventFilters>) -> Self {
        let filters = filters.cloned().unwrap_or_default();
        Self {
            types: types.iter().map(|event_type| event_type_name(*event_type).to_owned()).collect(),
            token: filters.token.join(", "),
            handle: filters.handle.join(", "),
            chain: filters.chain.join(", "),
            text: filters.text.join("\n"),
        }
    }

    /// Reads the fields from the query of a page.
    pub(super) fn of_query(query: &PageQuery) -> Self {
        let text = |name: &str| query.text(name).to_owned();
        let types = query.all("types").map(str::to_owned).collect();
        Self { types, token: text("token"), handle: text("handle"), chain: text("chain"), text: text("text") }
    }

    /// The numbers of the event types. Unknown names are left out.
    pub(super) fn event_types(&self) -> Vec<i32> {
        self.types.iter().filter_map(|name| parse_event_type(name)).map(i32::from).collect()
    }

    /// The filters; none if all fields are empty.
    pub(super) fn filters(&self) -> Option<v1::EventFilters> {
        let filters = v1::EventFilters {
            token: values(&self.token),
            handle: values(&self.handle),
            chain: values(&self.chain),
            text: Some(self.text.trim()).filter(|text| !text.is_empty()).map(str::to_owned).into_iter().collect(),
        };
        (filters != v1::EventFilters::default()).then_some(filters)
    }

    /// True if a form with these fields can edit the filters that they were made of: these are short enough, with one
    /// text at most, and no other value contains a comma.
    pub(super) fn holds(&self, filters: Option<&v1::EventFilters>) -> bool {
        let is_same = self.filters().unwrap_or_default() == filters.cloned().unwrap_or_default();
        is_same && self.token.len() + self.handle.len() + self.chain.len() + self.text.len() <= MAX_BYTES
    }

    /// A checkbox for every event type.
    pub(super) fn boxes(&self) -> Vec<TypeBox> {
        let is_ticked = |name: &str| self.types.iter().any(|ticked| ticked == name);
        EVENT_TYPES.iter().map(|&(_, name)| TypeBox { name, is_ticked: is_ticked(name) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_say_what_filters_mean() {
        let types = [v1::EventType::TokenActivity, v1::EventType::ThesisCreated];
        let filters = v1::EventFilters {
            token: vec!["$RUN".to_owned(), "tk_1".to_owned()],
            handle: vec!["@ada".to_owned()],
            chain: Vec::new(),
            text: vec!["moon, \"to the\" OR sun".to_owned()],
        };
        let fields = FilterFields::of(&types, Some(&filters));
        assert_eq!((&*fields.token, &*fields.handle, &*fields.chain), ("$RUN, tk_1", "@ada", ""));
        assert_eq!(fields.event_types(), types.map(i32::from));
        assert_eq!(fields.filters(), Some(filters.clone()));
        let several = v1::EventFilters { text: vec!["moon".to_owned(), "sun".to_owned()], ..filters.clone() };
        assert!(fields.holds(Some(&filters)) && !FilterFields::of(&types, Some(&several)).holds(Some(&several)));
        let ticked: Vec<_> = fields.boxes().into_iter().filter(|one| one.is_ticked).map(|one| one.name).collect();
        assert_eq!(ticked, ["thesis.created", "token.activity"]);
        assert_eq!(fields.boxes().len(), EVENT_TYPES.len());
    }

    #[test]
    fn empty_values_and_unknown_types_are_left_out() {
        let fields = FilterFields {
            types: vec!["thesis.created".to_owned(), "thesis.imagined".to_owned()],
            token: " $RUN ,, ".to_owned(),
            handle: " , ".to_owned(),
            text: " ".to_owned(),
            ..FilterFields::default()
        };
        assert_eq!(fields.event_types(), [i32::from(v1::EventType::ThesisCreated)]);
        let expected = v1::EventFilters { token: vec!["$RUN".to_owned()], ..v1::EventFilters::default() };
        assert_eq!(fields.filters(), Some(expected));
        assert_eq!(FilterFields::of(&[], None).filters(), None);
        assert_eq!(FilterFields { handle: " , ".to_owned(), ..FilterFields::default() }.filters(), None);
    }
}
