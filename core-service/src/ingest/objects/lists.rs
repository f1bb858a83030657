//! Responses that list objects. A wrong object does not affect the others.

use std::{cmp::Reverse, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::{
    Refusal,
    fields::{Fields, address, network},
    json, thesis,
};
use crate::domain::{observation::Observation, row::Wallet};

/// Maximum number of theses of one page. The service requests 200.
const MAX_THESES: usize = 2_000;
/// Maximum number of bytes of one thesis: 256 KiB, as in a frame of the feed.
const MAX_THESIS: usize = 256 * 1024;
/// Maximum number of wallets of one profile.
const MAX_WALLETS: usize = 100;
/// Maximum number of bytes of a cursor.
const MAX_CURSOR: usize = 2_048;

#[derive(Clone, Debug, PartialEq)]
pub struct ThesisPage {
    /// The observations of each thesis, in the page's order.
    pub theses: Vec<Result<Vec<Observation>, Refusal>>,
    /// The cursor of the next page; none at the end.
    pub next_cursor: Option<String>,
    /// The reason why the next page cannot be requested, although there may be one.
    pub broken_off: Option<Refusal>,
    /// The oldest `updated_at` of the theses. They come newest first, so the next page has older ones.
    pub oldest_ms: Option<i64>,
    /// The newest `updated_at` of the theses.
    pub newest_ms: Option<i64>,
}

pub fn page(bytes: &[u8], now_ms: i64) -> Result<ThesisPage, Refusal> {
    // An array would be read as the fields in their order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Refusal::Malformed);
    }
    let fields: PageFields<'_> = serde_json::from_slice(bytes).map_err(|_| Refusal::Malformed)?;
    let list = fields.data.and_then(|data| serde_json::from_str::<RawTheses<'_>>(data.get()).ok());
    let RawTheses(list) = list.ok_or(Refusal::Field("data"))?;
    let theses: Vec<_> = list.into_iter().map(|raw| raw_thesis(raw, now_ms)).collect();
    let changed_at = || theses.iter().flatten().flatten().filter_map(|observation| observation.revision);
    let (oldest_ms, newest_ms) = (changed_at().min(), changed_at().max());
    let next_cursor = fields.next_cursor.map(|cursor| serde_json::from_str::<String>(cursor.get()));
    let (next_cursor, broken_off) = match next_cursor {
        None => (None, None),
        Some(Ok(cursor)) if cursor.is_empty() => (None, None),
        Some(Ok(cursor)) if cursor.len() <= MAX_CURSOR => (Some(cursor), None),
        Some(_) => (None, Some(Refusal::Field("next_cursor"))),
    };
    Ok(ThesisPage { theses, next_cursor, broken_off, oldest_ms, newest_ms })
}

/// The fields of a page, not read yet: as values, a page of tiny ones would take twenty times its bytes.
#[derive(Deserialize)]
struct PageFields<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    next_cursor: Option<&'a RawValue>,
}

/// The theses of a page, not read yet.
struct RawTheses<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for RawTheses<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfList;

        impl<'de> Visitor<'de> for OfList {
            type Value = RawTheses<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawTheses<'de>, A::Error> {
                let mut theses = Vec::new();
                while let Some(thesis) = list.next_element()? {
                    if theses.len() == MAX_THESES {
                        return Err(de::Error::custom("too many theses"));
                    }
                    theses.push(thesis);
                }
                Ok(RawTheses(theses))
            }
        }

        deserializer.deserialize_seq(OfList)
    }
}

fn raw_thesis(raw: &RawValue, now_ms: i64) -> Result<Vec<Observation>, Refusal> {
    if raw.get().len() > MAX_THESIS {
        return Err(Refusal::TooLarge);
    }
    thesis(&json(raw.get().as_bytes())?, now_ms)
}

/// Reads the public and authorized wallets of a profile, newest first. It leaves out wrong ones.
pub fn wallets(value: &Value, now_ms: i64) -> Result<Vec<Wallet>, Refusal> {
    let mut wallets: Vec<_> = data(value)?.iter().filter_map(|one| wallet(one, now_ms)).collect();
    wallets.sort_by_key(|wallet| Reverse(wallet.observed_at));
    wallets.truncate(MAX_WALLETS);
    Ok(wallets)
}

fn data(value: &Value) -> Result<&Vec<Value>, Refusal> {
    let object = value.as_object().ok_or(Refusal::Malformed)?;
    object.get("data").and_then(Value::as_array).ok_or(Refusal::Field("data"))
}

fn wallet(value: &Value, now_ms: i64) -> Option<Wallet> {
    let fields = Fields::of(value, now_ms).ok()?;
    let is_shown = ["public", "authorized"].iter().all(|name| fields.flag(name) == Some(true));
    if !is_shown {
        return None;
    }
    Some(Wallet {
        address: fields.required("address", address).ok()?,
        network: fields.required("network", network).ok()?,
        observed_at: fields.time("observed_at").ok()?,
    })
}
