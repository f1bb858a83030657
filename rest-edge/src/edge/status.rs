//! The status page, which calls core without a key.

use std::net::IpAddr;

use http::{HeaderValue, Method};
use thesis_net::services::Trusted;
use thesis_proto::{error::ApiError, v1};
use tokio::time::timeout;

use super::{CORE_CALL_TIMEOUT, Edge};
use crate::{
    access::AccessRecord,
    answer::{Answer, method_not_allowed},
    request_metrics::crowded,
    status_page,
};

impl Edge {
    /// Shows the status, or the reason why it cannot be read.
    pub(super) async fn show_status(&self, client: IpAddr, access: &AccessRecord<'_>, method: &Method) -> Answer {
        if method != Method::GET && method != Method::HEAD {
            return Err(method_not_allowed(&HeaderValue::from_static("GET, HEAD")));
        }
        let (client_address, request_id) = (Some(client), Some(access.id.clone()));
        let trusted = Trusted { client_address, request_id, trace: Some(access.trace), ..Trusted::default() };
        let mut request = tonic::Request::new(v1::GetStatusRequest {});
        request.extensions_mut().insert(trusted);
        let reading = async {
            let _slot = self.calls.try_acquire().map_err(|_| crowded("calls"))?;
            let answered = timeout(CORE_CALL_TIMEOUT, self.context.core.status.get_status(request)).await;
            let answered = answered.map_err(|_| ApiError::unavailable())?;
            let answer = answered.map_err(|status| ApiError::from_status(&status))?.into_inner();
            answer.status.ok_or_else(ApiError::internal)
        };
        let read = reading.await;
        status_page::page(&self.public_url, read.as_ref())
    }
}
