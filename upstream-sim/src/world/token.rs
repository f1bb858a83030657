//! Tokens: found by chain and address, or by symbol, which several tokens may share.

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;

use crate::time;

/// The subject of theses. The last field is not part of the interface: the service must not store it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Token {
    pub(crate) chain: String,
    pub(crate) address: String,
    pub(crate) symbol: String,
    pub(crate) name: Option<String>,
    pub(crate) chain_id: Option<i64>,
    pub(crate) logo_url: Option<String>,
    pub(crate) platform_url: Option<String>,
    #[serde(serialize_with = "time::required")]
    pub(crate) updated_at: i64,
    pub(crate) price_usd: String,
}

/// Changes of a token; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub(crate) struct TokenChange {
    pub(crate) symbol: Option<String>,
    pub(crate) name: Option<Option<String>>,
    pub(crate) logo_url: Option<Option<String>>,
}

/// All tokens, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    all: Vec<Arc<Token>>,
    by_address: HashMap<(String, String), usize>,
    by_symbol: HashMap<String, Vec<usize>>,
}

impl Tokens {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn at(&self, number: usize) -> &Arc<Token> {
        &self.all[number]
    }

    /// All tokens, in the order of their creation.
    pub(crate) fn all(&self) -> &[Arc<Token>] {
        &self.all
    }

    pub(crate) fn number(&self, chain: &str, address: &str) -> Option<usize> {
        self.by_address.get(&key(chain, address)).copied()
    }

    /// Tokens of every chain that have this symbol, whatever its case.
    pub(crate) fn by_symbol(&self, symbol: &str) -> impl Iterator<Item = &Token> {
        let numbers = self.by_symbol.get(&symbol.to_lowercase()).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().map(move |number| &*self.all[*number])
    }

    /// Adds a token whose address is new.
    pub(super) fn add(&mut self, token: Token) -> usize {
        let number = self.all.len();
        self.by_address.insert(key(&token.chain, &token.address), number);
        self.by_symbol.entry(token.symbol.to_lowercase()).or_default().push(number);
        self.all.push(Arc::new(token));
        number
    }

    /// Changes a token.
    pub(crate) fn change(&mut self, number: usize, change: TokenChange, now: i64) {
        let token = Arc::make_mut(&mut self.all[number]);
        if let Some(symbol) = change.symbol {
            let old = std::mem::replace(&mut token.symbol, symbol);
            if let Some(numbers) = self.by_symbol.get_mut(&old.to_lowercase()) {
                numbers.retain(|other| *other != number);
            }
            self.by_symbol.entry(token.symbol.to_lowercase()).or_default().push(number);
        }
        token.name = change.name.unwrap_or_else(|| token.name.take());
        token.logo_url = change.logo_url.unwrap_or_else(|| token.logo_url.take());
        token.updated_at = time::after(token.updated_at, now);
    }
}

/// Addresses that begin with `0x` are the same whatever their case.
fn key(chain: &str, address: &str) -> (String, String) {
    let is_hex = address.starts_with("0x") || address.starts_with("0X");
    let address = if is_hex { address.to_ascii_lowercase() } else { address.to_owned() };
    (chain.to_owned(), address)
}
