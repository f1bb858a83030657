//! References by which callers name profiles and tokens, parsed once.

use thesis_proto::reference::TokenReadings;

/// A reference to a profile.
#[derive(Clone, Debug)]
pub enum ProfileReference {
    /// Any of the names below.
    Any(String),
    /// An `fp_` id or an upstream user id.
    AnyId(String),
    /// An `fp_` id.
    Id(String),
    /// A handle.
    Handle(String),
    /// An upstream user id.
    Upstream(String),
}

impl ProfileReference {
    /// The text as an `fp_` id, as an upstream user id, and as a handle. A lookup tries them in this order.
    #[must_use]
    pub fn readings(&self) -> [Option<&str>; 3] {
        match self {
            Self::Any(text) => [Some(text), Some(text), Some(text)],
            Self::AnyId(text) => [Some(text), Some(text), None],
            Self::Id(text) => [Some(text), None, None],
            Self::Upstream(text) => [None, Some(text), None],
            Self::Handle(text) => [None, None, Some(text)],
        }
    }
}

/// A reference to tokens, and the chain that narrows it.
#[derive(Clone, Debug)]
pub struct TokenReference {
    /// In the caller's spelling.
    pub text: String,
    /// Tokens of other chains do not count.
    pub chain: Option<String>,
    /// The readings of the text; none if it cannot name a token.
    pub readings: Option<TokenReadings>,
}

impl TokenReference {
    /// Parses a reference.
    #[must_use]
    pub fn new(text: String, chain: Option<String>) -> Self {
        let readings = TokenReadings::parse(&text);
        Self { text, chain, readings }
    }

    /// True if tokens of a chain count.
    #[must_use]
    pub fn allows(&self, chain: &str) -> bool {
        self.chain.as_ref().is_none_or(|own| own == chain)
    }

    /// The chain and the address that the text names, in the caller's spelling.
    #[must_use]
    pub fn chain_and_address(&self) -> Option<(&str, &str)> {
        self.readings.as_ref()?.on_chain.as_ref()?;
        self.text.split_once(':')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_tries_only_the_readings_that_the_caller_named() {
        let (text, read) = (|| "x".to_owned(), Some("x"));
        for (reference, readings) in [
            (ProfileReference::Any(text()), [read, read, read]),
            (ProfileReference::AnyId(text()), [read, read, None]),
            (ProfileReference::Id(text()), [read, None, None]),
            (ProfileReference::Upstream(text()), [None, read, None]),
            (ProfileReference::Handle(text()), [None, None, read]),
        ] {
            assert_eq!(reference.readings(), readings, "{reference:?}");
        }
    }

    #[test]
    fn a_chain_narrows_a_reference_and_an_address_may_have_one() {
        let reference =
            |text: &str, chain: Option<&str>| TokenReference::new(text.to_owned(), chain.map(str::to_owned));
        assert!(reference("$RUN", None).allows("base") && reference("$RUN", Some("base")).allows("base"));
        assert!(!reference("$RUN", Some("sol")).allows("base"));
        assert_eq!(reference("base:0xAB", None).chain_and_address(), Some(("base", "0xAB")));
        for other in ["$RUN", "0xAB", "base:", ""] {
            assert_eq!(reference(other, None).chain_and_address(), None, "{other}");
        }
    }
}
