//! Lists addresses with too many failed authentications, the latest first.

use thesis_proto::v1;

use super::invalid;
use crate::{
    convert,
    domain::{
        account::Actor,
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    service::Core,
    tables::abuse,
};

/// Addresses of one page.
const ABUSE_LIMIT: i32 = 1_000;

pub async fn list_abuse(core: &Core, _: &Actor, message: &v1::ListAbuseRequest) -> Result<v1::ListAbuseResponse> {
    let limit = message.limit.unwrap_or(ABUSE_LIMIT);
    if !(1..=ABUSE_LIMIT).contains(&limit) {
        return Err(invalid("limit", &format!("must be from 1 to {ABUSE_LIMIT}")));
    }
    let limit = usize::try_from(limit).unwrap_or_default();
    let (signer, name) = (core.shared.keys.cursor_signer(), list_name(&["abuse"]));
    let read = |cursor| signer.read::<TimePosition>(&name, cursor).ok_or_else(Error::invalid_cursor);
    let after = message.cursor.as_deref().map(read).transpose()?;
    let after = after.map(|position| (position.created_at, position.id));
    let now_ms = core.shared.clock.now_ms();
    let mut rows = abuse::list(&core.shared.backend, after.as_ref(), now_ms, limit + 1).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        let position = TimePosition { created_at: last.last_at, id: last.address.clone(), ..TimePosition::default() };
        signer.sign(&name, &position)
    });
    let data = rows.iter().map(convert::control::abusive_address).collect();
    Ok(v1::ListAbuseResponse { data, next_cursor, has_more })
}
