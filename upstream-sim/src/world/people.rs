//! Creates profiles: names of many scripts, handles of any case, missing fields.

use serde_json::{Value, json};

use super::{coins, profile::Profile};
use crate::{dice::Dice, time};

const DAY_MS: i64 = 86_400_000;

const FIRST: &[&str] = &[
    "Ana", "Kofi", "Mei", "Lars", "Priya", "Omar", "Yuki", "Zoe", "Ivan", "Noor", "Diego", "Aoife", "Tariq", "Lena",
    "moon", "whale", "degen", "alpha", "bear", "Bull", "Gamma", "Theta", "chart", "yield", "Laser", "diamond", "ser",
];
const SECOND: &[&str] = &[
    "Trades", "Capital", "Labs", "Hunter", "Maxi", "Eyes", "Hands", "Quant", "Research", "Fox", "Ape", "Wizard",
    "Flow", "Monk", "Runner", "Signals", "Onchain", "Macro", "Scout", "Value",
];
const DISPLAY: &[&str] = &[
    "Ana Trades",
    "Kofi 🐂",
    "陈美",
    "ラース",
    "प्रिया शर्मा",
    "عمر للتداول",
    "김유키",
    "Зоя Крипто",
    "Ивáн",
    "נור",
    "Ὀδυσσεύς",
    "Aoife Ní Bhriain",
    "🚀🚀🚀",
    "👩‍🚀 Lena",
    "Đặng Tuấn",
    "Þórdís",
    "ทวีศักดิ์",
    "O'Brien & Sons",
    "<b>Max</b>",
    "diamond \"hands\" 💎",
];
const BIOS: &[&str] = &[
    "Not financial advice.",
    "On-chain since 2016.\nCharts, coffee, cats.",
    "Langfristig denken, kurzfristig lachen.",
    "只谈基本面",
    "価格は嘘をつかない",
    "Все сделки — мои собственные 🤝",
    "DM öffnen? Nein. 🔒",
    "NFA / DYOR / WAGMI",
];

/// A handle that `taken` does not know.
pub(super) fn handle(dice: &mut Dice, taken: impl Fn(&str) -> bool) -> String {
    loop {
        let mut handle = any_handle(dice);
        if taken(&handle) {
            handle = format!("{handle}{}", dice.below(1_000_000));
        }
        if !taken(&handle) {
            return handle;
        }
    }
}

fn any_handle(dice: &mut Dice) -> String {
    let (first, second) = (dice.pick(FIRST), dice.pick(SECOND));
    match dice.below(6) {
        0 => format!("{first}{second}"),
        1 => format!("{}_{}", first.to_lowercase(), second.to_lowercase()),
        2 => format!("{first}{}", dice.below(10_000)),
        3 => format!("{second}_{first}_{}", dice.below(100)),
        4 => format!("{first}{second}").to_uppercase(),
        _ => format!("_{}{}", second.to_lowercase(), dice.below(1_000)),
    }
}

pub(super) fn display_name(dice: &mut Dice) -> Option<String> {
    (!dice.chance(0.1)).then(|| dice.pick(DISPLAY).to_owned())
}

pub(super) fn bio(dice: &mut Dice) -> Option<String> {
    (!dice.chance(0.3)).then(|| dice.pick(BIOS).to_owned())
}

pub(super) fn verified(dice: &mut Dice) -> Option<bool> {
    (!dice.chance(0.1)).then(|| dice.chance(0.2))
}

/// A profile that was last changed before `start`.
pub(super) fn profile(dice: &mut Dice, id: String, handle: String, start: i64) -> Profile {
    let created_at = start - DAY_MS - dice.below(700 * DAY_MS as usize) as i64;
    let updated_at = created_at + dice.below((start - created_at) as usize) as i64;
    let mut profile = blank(id, handle, updated_at);
    profile.display_name = display_name(dice);
    profile.bio = bio(dice);
    profile.verified = verified(dice);
    profile.created_at = (!dice.chance(0.06)).then_some(created_at);
    if dice.chance(0.2) {
        profile.avatar_url = None;
    }
    if dice.chance(0.1) {
        profile.profile_url = None;
    }
    profile
}

/// A profile with only its handle, pages, and the fields that the service must not store.
pub(super) fn blank(id: String, handle: String, at: i64) -> Profile {
    Profile {
        display_name: None,
        avatar_url: Some(format!("https://cdn.example/avatars/{id}.png")),
        profile_url: Some(format!("https://app.example/people/{id}")),
        bio: None,
        verified: None,
        created_at: Some(at),
        updated_at: at,
        email: format!("never-stored-{id}@private.example"),
        balance: format!("never-stored balance of {id}"),
        pnl_usd: 1_234_567,
        id,
        handle,
    }
}

/// Some wallets for some profiles, as the lookup returns them.
pub(super) fn wallets(dice: &mut Dice, start: i64) -> Vec<Value> {
    let count = if dice.chance(0.15) { 1 + dice.below(3) } else { 0 };
    let mut wallet = || {
        let chain = coins::chain(dice);
        json!({
            "address": coins::address(dice, chain),
            "network": chain,
            "public": dice.chance(0.7),
            "authorized": dice.chance(0.7),
            "observed_at": time::text(start - dice.below(30 * DAY_MS as usize) as i64),
            "balance": "never-stored",
        })
    };
    (0..count).map(|_| wallet()).collect()
}
