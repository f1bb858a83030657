//! Event filters, compiled once and matched against every event: history, streams and webhooks filter alike.

mod event_text;
mod interest;

pub use self::{
    event_text::EventText,
    interest::{AwaitedKeys, Interest},
};

use crate::{
    error::FieldError,
    names::{EVENT_TYPES, is_of_alerts},
    reference::{TokenReadings, handle_form, is_handle},
    search::{TextFilter, TextIndex, parse},
    v1::{Event, EventFilters, EventType, TokenRef, event::Data},
};

/// Maximum values in one dimension.
pub const MAX_VALUES: usize = 50;
/// Maximum characters in one value.
pub const MAX_VALUE_CHARS: usize = 200;

const TOKEN_FORMS: &str = "$SYMBOL, an address, chain:address or a tk_ id";
const HANDLE_FORMS: &str = "a handle such as @name";

/// An event must match every given dimension, by any of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompiledFilter {
    types: Vec<EventType>,
    tokens: Vec<TokenReadings>,
    handles: Vec<String>,
    chains: Vec<String>,
    texts: TextFilter,
}

impl CompiledFilter {
    /// Compiles a filter. No types means all; an empty dimension matches every event.
    ///
    /// # Errors
    /// Every bad value, named as `token`, `handle`, `chain` or `text`, and bad types once as `types`.
    pub fn new(types: &[EventType], filters: Option<&EventFilters>) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut filter = Self::default();
        for &event_type in types {
            if !filter.types.contains(&event_type) {
                filter.types.push(event_type);
            }
        }
        if filter.types.contains(&EventType::Unspecified) {
            errors.push(FieldError::new("types", event_type_rule()));
        }
        if let Some(filters) = filters {
            let token = |text: &str| TokenReadings::parse(text).ok_or_else(|| no_reference(TOKEN_FORMS));
            let handle = |text: &str| parse_handle(text).ok_or_else(|| no_reference(HANDLE_FORMS));
            let search = |text: &str| parse(text).map_err(|malformed| malformed.to_string());
            filter.tokens = compile("token", &filters.token, token, &mut errors);
            filter.handles = compile("handle", &filters.handle, handle, &mut errors);
            filter.chains = compile("chain", &filters.chain, |chain| Ok(chain.to_owned()), &mut errors);
            filter.texts = TextFilter::new(&compile("text", &filters.text, search, &mut errors));
        }
        if errors.is_empty() { Ok(filter) } else { Err(errors) }
    }

    /// True if the event matches every given dimension.
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let (handle, token) = names(event);
        self.passes(event.r#type(), handle, token)
            && (self.texts.is_empty() || text(event).is_some_and(|text| self.texts.matches(&TextIndex::new(text))))
    }

    /// Like [`CompiledFilter::matches`], for the keys of an event.
    #[must_use]
    pub fn matches_keys(&self, keys: &EventKeys) -> bool {
        self.passes(keys.event_type, keys.handle.as_ref(), keys.token.as_ref())
            && (self.texts.is_empty() || keys.text.as_ref().is_some_and(|text| self.texts.matches(text.index())))
    }

    fn passes(&self, event_type: EventType, handle: Option<&String>, token: Option<&TokenRef>) -> bool {
        if !self.types.is_empty() && !self.types.contains(&event_type) {
            return false;
        }
        any(&self.tokens, token, |filter, token| filter.matches(token))
            && any(&self.chains, token, |chain, token| *chain == token.chain)
            && any(&self.handles, handle, |filter, handle| is_handle(filter, handle))
    }

    /// True if it filters by text. No log has an index for that.
    #[must_use]
    pub const fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    /// The types, each once; empty means all.
    #[must_use]
    pub fn types(&self) -> &[EventType] {
        &self.types
    }

    /// True if it names a type of alerts' events. No types means all others.
    #[must_use]
    pub fn names_alerts(&self) -> bool {
        self.types.iter().copied().any(is_of_alerts)
    }

    /// The token references; empty means any.
    #[must_use]
    pub fn tokens(&self) -> &[TokenReadings] {
        &self.tokens
    }

    /// The forms by which handles are found; empty means any.
    #[must_use]
    pub fn handles(&self) -> &[String] {
        &self.handles
    }

    /// The chains; empty means any.
    #[must_use]
    pub fn chains(&self) -> &[String] {
        &self.chains
    }
}

/// The properties of an event that filters match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventKeys {
    /// Its type.
    pub event_type: EventType,
    /// The event's token.
    pub token: Option<TokenRef>,
    /// The handle of the event's profile.
    pub handle: Option<String>,
    /// The text of the event's thesis.
    pub text: Option<EventText>,
}

impl From<&Event> for EventKeys {
    fn from(event: &Event) -> Self {
        let (handle, token) = names(event);
        let text = text(event).map(|text| EventText::new(text.clone()));
        Self { event_type: event.r#type(), token: token.cloned(), handle: handle.cloned(), text }
    }
}

/// The text of an event's thesis.
fn text(event: &Event) -> Option<&String> {
    match &event.data {
        Some(Data::ThesisCreated(data)) => Some(&data.text),
        _ => None,
    }
}

/// The handle and the token that an event names.
fn names(event: &Event) -> (Option<&String>, Option<&TokenRef>) {
    match &event.data {
        Some(Data::ThesisCreated(data)) => (data.profile.as_ref().map(|p| &p.handle), data.token.as_ref()),
        Some(Data::ProfileUpdated(data)) => (data.profile.as_ref().map(|p| &p.handle), None),
        Some(Data::TokenActivity(data)) => (None, data.token.as_ref()),
        Some(Data::TokenThesisVelocity(data)) => (None, data.token.as_ref()),
        Some(Data::Alert(data)) => (None, data.alert.as_ref().and_then(|alert| alert.token.as_ref())),
        None => (None, None),
    }
}

/// Parses the values of one dimension and notes their errors.
fn compile<T: PartialEq>(
    param: &str,
    values: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
    errors: &mut Vec<FieldError>,
) -> Vec<T> {
    if values.len() > MAX_VALUES {
        errors.push(FieldError::new(param, format!("has more than {MAX_VALUES} values; send {MAX_VALUES} at most")));
        return Vec::new();
    }
    let mut parsed = Vec::with_capacity(values.len());
    for value in values {
        if value.is_empty() || value.chars().nth(MAX_VALUE_CHARS).is_some() {
            errors.push(FieldError::new(param, format!("each value must have 1 to {MAX_VALUE_CHARS} characters")));
            continue;
        }
        if value.chars().any(char::is_control) {
            errors.push(FieldError::new(param, "must not contain control characters"));
            continue;
        }
        match parse(value) {
            Ok(value) if parsed.contains(&value) => {}
            Ok(value) => parsed.push(value),
            Err(rule) => errors.push(FieldError::new(param, rule)),
        }
    }
    parsed
}

/// The message for a value that is not a reference.
fn no_reference(forms: &str) -> String {
    format!("is not a valid reference; give {forms}")
}

/// The rule that an event type breaks.
fn event_type_rule() -> String {
    let known: Vec<&str> = EVENT_TYPES.iter().map(|(_, name)| *name).collect();
    format!("must be of: {}", known.join(", "))
}

fn parse_handle(text: &str) -> Option<String> {
    Some(handle_form(text)).filter(|form| !form.is_empty())
}

/// An empty list matches every event. Otherwise one filter must match; an event without the value matches none.
fn any<F, V>(filters: &[F], value: Option<V>, matches: impl Fn(&F, &V) -> bool) -> bool {
    filters.is_empty() || value.is_some_and(|value| filters.iter().any(|filter| matches(filter, &value)))
}

#[cfg(test)]
mod tests;
