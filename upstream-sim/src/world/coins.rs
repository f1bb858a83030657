//! Creates tokens: several chains, symbols that clash, mixed cases.

use super::token::Token;
use crate::dice::Dice;

const CHAINS: &[&str] = &["solana", "base", "ethereum", "bsc"];
const BASE58: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const HEX: &[u8] = b"0123456789abcdefABCDEF";

const SYMBOLS: &[&str] = &[
    "PEPE", "stETH", "wBTC", "BONK", "DEGEN", "Moon", "cbBTC", "WIF", "wif", "rETH", "USDC", "DOGE", "doge", "SHIB",
    "MOG", "BRETT", "TOSHI", "JUP", "jitoSOL", "mSOL", "ARB", "LINK", "Cake", "GMX", "sUSDe", "weETH", "AERO",
    "POPCAT", "TURBO", "MEW", "wstETH", "LDO", "PENDLE", "ENA", "RENDER", "PYTH", "RAY", "ORCA", "FLOKI", "A", "X9",
    "W", "РУНА", "猫币", "1INCH", "UNI",
];
const ENDS: &[&str] = &["INU", "AI", "x", "2", "DAO", "Fi", "CAT", "Pad"];
const WORDS: &[&str] = &["Protocol", "Finance", "Coin", "Network", "通证", "Labs", "Classic", "🐸"];

pub(super) fn chain(dice: &mut Dice) -> &'static str {
    dice.pick(CHAINS)
}

/// A new address on a chain.
pub(super) fn address(dice: &mut Dice, chain: &str) -> String {
    if chain == "solana" {
        let length = 43 + dice.below(2);
        return dice.text(BASE58, length);
    }
    format!("0x{}", dice.text(HEX, 40))
}

pub(super) fn name(dice: &mut Dice, symbol: &str) -> Option<String> {
    (!dice.chance(0.1)).then(|| format!("{symbol} {}", dice.pick(WORDS)))
}

pub(super) fn logo_url(dice: &mut Dice) -> Option<String> {
    (!dice.chance(0.2)).then(|| format!("https://cdn.example/logos/{}.webp", dice.below(100_000)))
}

/// A token; the first ones have unique symbols, later ones often share another's symbol.
pub(super) fn token(dice: &mut Dice, number: usize, at: i64) -> Token {
    let chain = chain(dice);
    let symbol = match SYMBOLS.get(number) {
        Some(symbol) => (*symbol).to_owned(),
        None if dice.chance(0.4) => dice.pick(SYMBOLS).to_owned(),
        None => format!("{}{}", dice.pick(SYMBOLS), dice.pick(ENDS)),
    };
    let address = address(dice, chain);
    let mut token = blank(chain, address, symbol, at);
    token.name = name(dice, &token.symbol);
    token.logo_url = logo_url(dice);
    if dice.chance(0.1) {
        token.platform_url = None;
        token.chain_id = None;
    }
    token
}

/// A token with only its names, and the field that the service must not store.
pub(super) fn blank(chain: &str, address: String, symbol: String, at: i64) -> Token {
    let chain_id = match chain {
        "ethereum" => Some(1),
        "base" => Some(8453),
        "bsc" => Some(56),
        _ => None,
    };
    Token {
        chain: chain.to_owned(),
        platform_url: Some(format!("https://app.example/tokens/{chain}/{address}")),
        address,
        symbol,
        name: None,
        chain_id,
        logo_url: None,
        updated_at: at,
        price_usd: "never-stored".to_owned(),
    }
}

/// Returns the symbol with other letters in capitals.
pub(super) fn other_case(dice: &mut Dice, symbol: &str) -> String {
    symbol.chars().map(|c| if dice.chance(0.5) { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }).collect()
}
