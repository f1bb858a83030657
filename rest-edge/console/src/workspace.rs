//! A project's data in one environment: webhooks, events, the requests of its keys, and the resources that these can
//! read.

mod alerts;
mod code_sample;
mod deliveries;
mod events;
mod explore;
mod filters;
mod requests;
mod webhooks;

use std::{any::type_name, collections::HashMap};

use askama::Template;
use axum::{
    Router,
    extract::{FromRequestParts, Path},
};
use http::{HeaderValue, StatusCode, request::Parts};
use prost::Message;
use sha2::{Digest as _, Sha256};
use thesis_net::services::Services;
use thesis_proto::metadata;
use tonic::{Request, Status};

pub use self::events::line as event_line;
use super::{
    failure::Failed,
    page_query::encoded,
    projects::{self, ProjectAccess},
    view::{Layout, render},
    visit::SignedIn,
};

pub(super) fn routes() -> Router {
    Router::new()
        .merge(webhooks::routes())
        .merge(deliveries::routes())
        .merge(alerts::routes())
        .merge(events::routes())
        .merge(requests::routes())
        .merge(explore::routes())
}

/// A project in one environment, and the member who visits it. The extractor reads paths that begin with
/// `/console/projects/{id}/{environment}`.
struct Workspace {
    signed_in: SignedIn,
    access: ProjectAccess,
    live: bool,
}

impl Workspace {
    fn environment(&self) -> &'static str {
        if self.live { metadata::LIVE } else { metadata::TEST }
    }

    /// The path of a page of the workspace, such as `/webhooks`.
    fn path(&self, page: &str) -> String {
        format!("/console/projects/{}/{}{page}", self.access.project.id, self.environment())
    }

    fn webhook_path(&self, id: &str) -> String {
        self.path(&format!("/webhooks/{}", encoded(id)))
    }

    fn core(&self) -> &Services {
        self.signed_in.core()
    }

    /// A call of a public service on behalf of the member.
    fn request<T>(&self, message: T) -> Request<T> {
        self.signed_in.visit.request_in(&self.access.project.id, self.live, message)
    }

    /// As [`Visit::change`](crate::visit::Visit::change).
    async fn change<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        self.signed_in.change(call).await
    }

    /// A call whose work core does once, even if the browser sends the form with this `once` and these values again.
    fn request_once<M: Message>(&self, once: &str, message: M) -> Request<M> {
        // A changed form needs a new key, so the key contains a hash of the values.
        let hash =
            Sha256::new().chain_update(once).chain_update(type_name::<M>()).chain_update(message.encode_to_vec());
        let key = format!("console:{}", hex::encode(hash.finalize()));
        let mut request = self.request(message);
        // The pages of this console always send the token.
        if !once.is_empty() {
            let key = HeaderValue::try_from(key).expect("it is ASCII");
            request.metadata_mut().as_mut().insert(metadata::IDEMPOTENCY_KEY, key);
        }
        request
    }

    /// True if nobody may see the data: the project is archived, or has no live access.
    fn is_closed(&self) -> bool {
        self.access.project.archived || (self.live && !self.access.project.live_approved)
    }

    /// The response of all pages of a closed workspace.
    fn closed(self) -> Failed {
        let page = ClosedPage { layout: self.layout("No data to see here"), workspace: self };
        match render(StatusCode::FORBIDDEN, &page) {
            Ok(response) => Failed::Shown(Box::new(response)),
            Err(failed) => failed,
        }
    }

    /// The layout of a page. The title in the browser also names the project and the environment.
    fn layout(&self, title: &str) -> Layout {
        let heading = title.to_owned();
        let title = format!("{title} · {}, {}", self.access.project.name, self.environment());
        Layout { heading, ..Layout::of(&self.signed_in, &title, "organizations") }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Workspace {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let path = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|_| Failed::missing())?;
        let named = |name: &str| path.get(name).map_or("", String::as_str);
        let live = match named("environment") {
            metadata::LIVE => true,
            metadata::TEST => false,
            _ => return Err(Failed::missing()),
        };
        let signed_in = SignedIn::from_request_parts(parts, state).await?;
        let access = projects::find(&signed_in, named("id")).await?;
        let workspace = Self { signed_in, access, live };
        if workspace.is_closed() { Err(workspace.closed()) } else { Ok(workspace) }
    }
}

#[derive(Template)]
#[template(path = "workspace_closed.html")]
struct ClosedPage {
    layout: Layout,
    workspace: Workspace,
}
