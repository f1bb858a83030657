//! `EventService`.

use futures::stream::BoxStream;
use thesis_proto::{
    filter::CompiledFilter,
    v1::{self, event_service_server::EventService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{answer, change},
    fields::Fields,
    subscribe::subscribe,
    thesis::{CURSOR, DEFAULT_LIMIT, LIMIT, bounds},
};
use crate::{
    domain::operation::Operation,
    error::Result as Outcome,
    operations::{
        get_event::get_event,
        list_events::{EventQuery, list_events},
        stream_tickets::create_stream_ticket,
    },
};

/// Compiles a filter. It notes bad values in `fields`, with `prefix` before each name except `types`.
pub(super) fn compile(
    fields: &mut Fields,
    types: &[i32],
    filters: Option<&v1::EventFilters>,
    prefix: &str,
) -> CompiledFilter {
    let types: Vec<v1::EventType> =
        types.iter().map(|number| v1::EventType::try_from(*number).unwrap_or_default()).collect();
    CompiledFilter::new(&types, filters).unwrap_or_else(|errors| {
        for error in errors {
            let param = if error.param == "types" { error.param } else { format!("{prefix}{}", error.param) };
            fields.reject(&param, error.message);
        }
        CompiledFilter::default()
    })
}

/// Writes all parameters of a filter as text, which is part of a list's name.
pub(super) fn filter_text(types: &[i32], filters: Option<&v1::EventFilters>) -> String {
    let filters = filters.map(prost::Message::encode_to_vec).unwrap_or_default();
    format!("{types:?}{}", hex::encode(filters))
}

fn query(message: v1::ListEventsRequest) -> Outcome<EventQuery> {
    let mut fields = Fields::default();
    let filter_text = filter_text(&message.types, message.filters.as_ref());
    let filter = compile(&mut fields, &message.types, message.filters.as_ref(), "");
    let limit = fields.limit("limit", message.limit, LIMIT, DEFAULT_LIMIT);
    fields.optional_length("cursor", message.cursor.as_deref(), CURSOR);
    let (created_after, created_before) =
        bounds(&mut fields, message.created_after.as_ref(), message.created_before.as_ref());
    fields.finish()?;
    Ok(EventQuery { filter, filter_text, created_after, created_before, limit, cursor: message.cursor })
}

#[async_trait]
impl EventService for Api {
    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        answer(&self.core, Operation::ListEvents, request, |call, message| async move {
            let query = query(message)?;
            call.charge().await?;
            let page = list_events(&self.core, &call, &query).await?;
            Ok(v1::ListEventsResponse {
                data: page.events,
                has_more: page.next_cursor.is_some(),
                next_cursor: page.next_cursor,
            })
        })
        .await
    }

    async fn get_event(&self, request: Request<v1::GetEventRequest>) -> Result<Response<v1::GetEventResponse>, Status> {
        answer(&self.core, Operation::GetEvent, request, |call, message| async move {
            call.charge().await?;
            let event = get_event(&self.core, &call, &message.id).await?;
            Ok(v1::GetEventResponse { event: Some(event) })
        })
        .await
    }

    type SubscribeStream = BoxStream<'static, Result<v1::SubscribeResponse, Status>>;

    async fn subscribe(
        &self,
        request: Request<v1::SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        subscribe(&self.core, self.hub(), request).await
    }

    async fn create_stream_ticket(
        &self,
        request: Request<v1::CreateStreamTicketRequest>,
    ) -> Result<Response<v1::CreateStreamTicketResponse>, Status> {
        let operation = Operation::CreateStreamTicket;
        change(&self.core, operation, request, |core, call, message| async move {
            call.charge().await?;
            let create = async |seed: &str| {
                let ticket = create_stream_ticket(&core, &call, seed).await?;
                Ok(v1::CreateStreamTicketResponse { stream_ticket: Some(ticket) })
            };
            core.idempotency.once(&call, operation, &message, create).await
        })
        .await
    }
}
