//! How clients name profiles and tokens.

use super::handle;

/// A token reference, tried in this order: id, `chain:address`, address, symbol; the first that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenReference {
    /// As given.
    pub text: String,
}

impl TokenReference {
    /// Takes a reference as given.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// The id it may be.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.text.starts_with("tk_").then_some(self.text.as_str())
    }

    /// Chain and address it may be.
    #[must_use]
    pub fn chain_and_address(&self) -> Option<(&str, String)> {
        let (chain, address) = self.text.split_once(':')?;
        (!chain.is_empty() && !address.is_empty()).then(|| (chain, address_form(address)))
    }

    /// The address it may be.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        (!self.text.starts_with('$') && !self.text.contains(':')).then(|| address_form(&self.text))
    }

    /// The symbol it may be.
    #[must_use]
    pub fn symbol(&self) -> String {
        handle::symbol(&self.text)
    }
}

/// The one written form of an address: hexadecimal ones compare without case, others as they are.
#[must_use]
pub fn address_form(address: &str) -> String {
    let hex = address.strip_prefix("0x").or_else(|| address.strip_prefix("0X"));
    match hex {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => address.to_ascii_lowercase(),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_tokens() {
        let by_chain = TokenReference::new("ethereum:0xAB");
        assert_eq!(by_chain.chain_and_address(), Some(("ethereum", "0xab".to_owned())));
        assert_eq!(by_chain.address(), None);
        assert_eq!(TokenReference::new("$run").symbol(), "$RUN");
        assert_eq!(TokenReference::new("$run").address(), None);
        assert_eq!(TokenReference::new("So1AnA").address().as_deref(), Some("So1AnA"));
        assert_eq!(TokenReference::new("tk_1").id(), Some("tk_1"));
    }
}
