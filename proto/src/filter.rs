//! Event filters, compiled once and matched against every event: history, streams and webhooks filter alike.

use crate::{
    error::FieldError,
    v1::{Event, EventFilters, EventType, event::Data},
};

/// Values allowed in one dimension.
pub const MAX_VALUES: usize = 50;
/// Characters allowed in one value.
pub const MAX_VALUE_CHARS: usize = 200;

/// What an event must match: every dimension given, any value within one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompiledFilter {
    types: Vec<EventType>,
    tokens: Vec<TokenMatch>,
    handles: Vec<String>,
    chains: Vec<String>,
}

/// A reference to tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenMatch {
    /// A `tk_` id.
    Id(String),
    /// `chain:address`.
    ChainAddress {
        /// The chain.
        chain: String,
        /// The address, in lower case if it is 0x-hex.
        address: String,
    },
    /// `$SYMBOL`, here in upper case without `$`.
    Symbol(String),
    /// What may be an address or a symbol.
    AddressOrSymbol {
        /// Read as an address, in lower case if it is 0x-hex.
        address: String,
        /// Read as a symbol, in upper case.
        symbol: String,
    },
}

impl CompiledFilter {
    /// Compiles a filter. No types means all, an empty dimension does not restrict.
    ///
    /// # Errors
    /// Every bad value, named as `types`, `token`, `handle` or `chain`.
    pub fn new(types: &[EventType], filters: Option<&EventFilters>) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut filter = Self::default();
        for &event_type in types {
            if event_type == EventType::Unspecified {
                errors.push(FieldError::new("types", "is not an event type"));
            } else if !filter.types.contains(&event_type) {
                filter.types.push(event_type);
            }
        }
        if let Some(filters) = filters {
            filter.tokens = compile("token", &filters.token, TokenMatch::parse, &mut errors);
            filter.handles = compile("handle", &filters.handle, parse_handle, &mut errors);
            filter.chains = compile("chain", &filters.chain, |chain| Some(chain.to_owned()), &mut errors);
        }
        if errors.is_empty() { Ok(filter) } else { Err(errors) }
    }

    /// Whether the event matches every dimension given.
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        if !self.types.is_empty() && !self.types.contains(&event.r#type()) {
            return false;
        }
        if self.tokens.is_empty() && self.handles.is_empty() && self.chains.is_empty() {
            return true;
        }
        let (handle, token) = match &event.data {
            Some(Data::ThesisCreated(data)) => (data.profile.as_ref().map(|p| &p.handle), data.token.as_ref()),
            Some(Data::ProfileUpdated(data)) => (data.profile.as_ref().map(|p| &p.handle), None),
            Some(Data::TokenActivity(data)) => (None, data.token.as_ref()),
            Some(Data::TokenThesisVelocity(data)) => (None, data.token.as_ref()),
            None => (None, None),
        };
        any(&self.tokens, token, |filter, token| filter.matches(&token.id, &token.symbol, &token.chain, &token.address))
            && any(&self.chains, token, |chain, token| *chain == token.chain)
            && any(&self.handles, handle, |filter, handle| {
                is_lower_of(filter, handle.strip_prefix('@').unwrap_or(handle))
            })
    }

    /// The types, each once; empty means all.
    #[must_use]
    pub fn types(&self) -> &[EventType] {
        &self.types
    }

    /// The token references; empty means any.
    #[must_use]
    pub fn tokens(&self) -> &[TokenMatch] {
        &self.tokens
    }

    /// The handles, in lower case without `@`; empty means any.
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

impl TokenMatch {
    /// Reads a reference; none if it names nothing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(symbol) = text.strip_prefix('$') {
            return (!symbol.is_empty()).then(|| Self::Symbol(to_upper(symbol)));
        }
        if text.starts_with("tk_") {
            return Some(Self::Id(text.to_owned()));
        }
        match text.split_once(':') {
            Some(("", _) | (_, "")) => None,
            Some((chain, address)) => {
                Some(Self::ChainAddress { chain: chain.to_owned(), address: normal_address(address) })
            }
            None if text.is_empty() => None,
            None => Some(Self::AddressOrSymbol { address: normal_address(text), symbol: to_upper(text) }),
        }
    }

    /// Whether the token with these fields is meant.
    #[must_use]
    pub fn matches(&self, id: &str, symbol: &str, chain: &str, address: &str) -> bool {
        match self {
            Self::Id(wanted) => wanted == id,
            Self::ChainAddress { chain: wanted, address: at } => wanted == chain && same_address(at, address),
            Self::Symbol(wanted) => same_symbol(wanted, symbol),
            Self::AddressOrSymbol { address: at, symbol: wanted } => {
                same_address(at, address) || same_symbol(wanted, symbol)
            }
        }
    }
}

/// Parses the values of one dimension, noting what is wrong with them.
fn compile<T: PartialEq>(
    param: &str,
    values: &[String],
    parse: impl Fn(&str) -> Option<T>,
    errors: &mut Vec<FieldError>,
) -> Vec<T> {
    if values.len() > MAX_VALUES {
        errors.push(FieldError::new(param, format!("has more than {MAX_VALUES} values")));
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
            Some(value) if parsed.contains(&value) => {}
            Some(value) => parsed.push(value),
            None => errors.push(FieldError::new(param, "is not a valid reference")),
        }
    }
    parsed
}

fn parse_handle(text: &str) -> Option<String> {
    let handle = text.strip_prefix('@').unwrap_or(text);
    (!handle.is_empty()).then(|| handle.chars().flat_map(char::to_lowercase).collect())
}

/// No values match anything, some match one of themselves, and nothing matches what an event lacks.
fn any<F, V>(filters: &[F], value: Option<V>, matches: impl Fn(&F, &V) -> bool) -> bool {
    filters.is_empty() || value.is_some_and(|value| filters.iter().any(|filter| matches(filter, &value)))
}

fn to_upper(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).collect()
}

fn is_lower_of(lower: &str, text: &str) -> bool {
    text.chars().flat_map(char::to_lowercase).eq(lower.chars())
}

fn same_symbol(upper: &str, symbol: &str) -> bool {
    let symbol = symbol.strip_prefix('$').unwrap_or(symbol);
    symbol.chars().flat_map(char::to_uppercase).eq(upper.chars())
}

/// Hexadecimal addresses carry at most a checksum in their case; other alphabets tell cases apart.
fn normal_address(address: &str) -> String {
    if is_hex_address(address) { address.to_ascii_lowercase() } else { address.to_owned() }
}

fn same_address(normal: &str, address: &str) -> bool {
    if is_hex_address(normal) { normal.eq_ignore_ascii_case(address) } else { normal == address }
}

fn is_hex_address(address: &str) -> bool {
    address
        .strip_prefix("0x")
        .or_else(|| address.strip_prefix("0X"))
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests;
