//! Creates a ticket that opens a stream without a key, with the rights of the caller's key.

use thesis_proto::v1;

use super::stream_tickets::create_ticket;
use crate::{access::gate::Call, error::Result, service::Core};

pub async fn create_stream_ticket(
    core: &Core,
    call: &Call,
    message: v1::CreateStreamTicketRequest,
) -> Result<v1::CreateStreamTicketResponse> {
    call.charge().await?;
    let perform = async |seed: &str| {
        Ok(v1::CreateStreamTicketResponse { stream_ticket: Some(create_ticket(core, call, seed).await?) })
    };
    core.idempotency.once(call, &message, perform).await
}
