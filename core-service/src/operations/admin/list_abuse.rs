//! Lists addresses with too many failed authentications, the latest first.

use thesis_proto::v1;

use super::invalid;
use crate::{
    convert,
    domain::{account::Actor, list_cursor::list_name},
    error::Result,
    operations::paging::Paging,
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
    let paging = Paging::new(core, list_name(&["abuse"]), message.cursor.as_deref())?;
    let now_ms = core.shared.clock.now_ms();
    let mut rows = abuse::list(&core.shared.backend, paging.after.as_ref(), now_ms, limit + 1).await?;
    let next_cursor = paging.cut(&mut rows, limit, |row| (row.last_at, row.address.as_str()));
    let data = rows.iter().map(convert::control::abusive_address).collect();
    Ok(v1::ListAbuseResponse { data, has_more: next_cursor.is_some(), next_cursor })
}
