//! The caller of `AdminService`, and the steps that its methods share.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use thesis_proto::error::ErrorCode;
use tonic::{Request, Response, Status};

use crate::{
    accounts::sessions::admit,
    domain::account::Actor,
    error::{Error, Result as Outcome},
    grpc::{
        Api,
        answer::{address, internal, service_only, session, status, unbroken},
    },
    service::Core,
};

impl Api {
    /// Finds the caller: the user of the session, who must be an administrator, or an operator with the service
    /// credential.
    pub(super) async fn operator<T>(&self, request: &Request<T>) -> Result<Actor, Status> {
        service_only(&self.core, request)?;
        let (token, from) = (session(request), address(&self.core, request));
        let Some(token) = token else { return Ok(Actor::operator(from)) };
        let who = async {
            // The user has just lost the rights of an administrator.
            self.core.shared.control.refresh().await?;
            let person = admit(&self.core.shared, Some(&token), from).await?;
            if !person.user.administrator {
                return Err(Error::new(ErrorCode::InsufficientRole, "only an administrator may do this"));
            }
            Ok(Actor { is_member: false, ..person.actor })
        };
        internal(&self.core, "AdminService", who).await.map(Response::into_inner)
    }

    /// Makes changes visible here that another replica has acknowledged.
    pub(super) async fn refresh(&self, method: &str) -> Result<(), Status> {
        internal(&self.core, method, self.core.shared.control.refresh()).await.map(drop)
    }

    /// Streams a response until the core stops.
    pub(super) fn streamed<T: 'static>(
        &self,
        method: &'static str,
        pieces: impl Stream<Item = Outcome<T>> + Send + 'static,
    ) -> Response<BoxStream<'static, Result<T, Status>>> {
        let (core, stop) = (Arc::clone(&self.core), self.core.stop.clone());
        let pieces = pieces.map_err(move |error| status(&error, &core.gate.new_request_id(), method));
        Response::new(pieces.take_until(async move { stop.cancelled().await }).boxed())
    }

    /// Runs a change of the caller. Once started, it continues although its caller may give up.
    pub(super) async fn change<M, T, F>(
        &self,
        method: &str,
        request: Request<M>,
        work: impl FnOnce(Arc<Core>, Actor, M) -> F + Send,
    ) -> Result<Response<T>, Status>
    where
        M: Send + Sync,
        T: Send + 'static,
        F: Future<Output = Outcome<T>> + Send + 'static,
    {
        let actor = self.operator(&request).await?;
        unbroken(&self.core, method, work(Arc::clone(&self.core), actor, request.into_inner())).await
    }
}
