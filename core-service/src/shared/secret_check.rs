//! Whether a store was made with the secret key that a core has now.
//!
//! With another key no API key, webhook secret or session of the store can be used, and nothing else would tell: a copy
//! would begin without its customers. So the first start leaves a keyed hash of a fixed text in the store.

use bytes::Bytes;
use subtle::ConstantTimeEq as _;

use super::key_ring::store_check;
use crate::{
    key,
    store::{Backend, Change, Consistency, StoreResult, Table, Value, schema::CONTROL},
};

/// The table of the hash, and its key there.
#[must_use]
pub fn place() -> (&'static Table, Vec<Value>) {
    (&CONTROL, key!["secret_key", 0_i64, "check"])
}

/// Whether a hash found at that place was made with this key.
#[must_use]
pub fn is_of(found: &[u8], secret_key: &[u8; 32]) -> bool {
    found.ct_eq(&store_check(secret_key)).into()
}

/// Whether the store was made with this key. A store without the hash, or one that shall go on with this key from now
/// on (`replace`), gets it.
///
/// # Errors
/// When the store does not answer.
pub async fn fits(backend: &dyn Backend, secret_key: &[u8; 32], now_ms: i64, replace: bool) -> StoreResult<bool> {
    let (table, key) = place();
    let row = backend.get(table, &key, Consistency::Quorum).await?;
    let fits = row.as_ref().map(|row| is_of(&row.body, secret_key));
    if fits == Some(true) || (fits == Some(false) && !replace) {
        return Ok(fits == Some(true));
    }
    let version = row.map_or(now_ms, |row| now_ms.max(row.version + 1));
    let body = Some(Bytes::copy_from_slice(&store_check(secret_key)));
    backend.apply(vec![Change { table, key, version, body, ttl: None }]).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ManualClock, memory};

    #[tokio::test]
    async fn only_the_first_key_fits_until_it_is_replaced() {
        let backend = memory(&ManualClock::new());
        let fits = async |key, replace| fits(backend.as_ref(), &[key; 32], 5, replace).await.unwrap();
        assert!(fits(1, false).await && fits(1, false).await && !fits(2, false).await && fits(1, false).await);
        assert!(fits(2, true).await && fits(2, false).await && !fits(1, false).await);
    }
}
