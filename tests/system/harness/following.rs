//! A service of a test's own that follows an upstream, and a customer with a live key.

use core_service::domain::id;
use serde_json::Value;
use thesis_proto::v1;

use super::{Client, Project, SOON, Service, Setup, Store, UPSTREAM_TOKEN, Upstream, eventually, text};

/// A service that follows an upstream.
pub(crate) struct Following {
    pub(crate) upstream: Upstream,
    pub(crate) service: Service,
    pub(crate) project: Project,
    /// A customer with a live key.
    pub(crate) client: Client,
}

/// The service's id of an upstream's thesis.
pub(crate) fn thesis_id(thesis: &Value) -> String {
    id::of_thesis("live", text(thesis, "id"))
}

/// The service's id of an upstream's profile.
pub(crate) fn profile_id(profile: &Value) -> String {
    id::of_profile("live", text(profile, "id"))
}

/// A token as a reference names it.
pub(crate) fn reference(token: &Value) -> String {
    format!("{}:{}", text(token, "chain"), text(token, "address"))
}

impl Following {
    /// Starts a service of one process or one of each role, and waits until it follows.
    pub(crate) async fn start(store: &Store, upstream: Upstream, settings: impl Fn(Setup) -> Setup) -> Self {
        let service = Service::on(store, |setup| settings(Self::settings(setup, &upstream))).await;
        Self::of(upstream, service).await
    }

    /// Starts a service while the upstream refuses its feed, so it does not wait until the service follows.
    pub(crate) async fn start_refused(store: &Store, upstream: Upstream, settings: impl Fn(Setup) -> Setup) -> Self {
        let service = Service::on(store, |setup| settings(Self::settings(setup, &upstream))).await;
        Self::beside(upstream, service).await
    }

    /// Two processes of each role; each edge knows one core only if they are `apart`.
    pub(crate) async fn of_replicas(
        nodes: &str,
        upstream: Upstream,
        apart: bool,
        settings: impl Fn(Setup) -> Setup,
    ) -> Self {
        let settings = |setup| settings(Self::settings(setup, &upstream));
        let service = Service::of_replicas_with(2, nodes, apart, settings).await;
        Self::of(upstream, service).await
    }

    fn settings(setup: Setup, upstream: &Upstream) -> Setup {
        setup
            .set("SVC_UPSTREAM_URL", &upstream.url())
            .set("SVC_UPSTREAM_TOKEN", UPSTREAM_TOKEN)
            // Short, and long enough for a machine that is busy with other tests.
            .set("SVC_UPSTREAM_TIMEOUT_MS", "1000")
            .set("SVC_UPSTREAM_RPS", "1000")
    }

    async fn of(upstream: Upstream, service: Service) -> Self {
        let following = Self::beside(upstream, service).await;
        following.is_up().await;
        following
    }

    async fn beside(upstream: Upstream, service: Service) -> Self {
        let project = service.project_on("huge").await;
        let client = project.live().await;
        service.settle().await;
        Self { upstream, service, project, client }
    }

    /// How live data follows the upstream; none while no core answers.
    pub(crate) async fn try_status(&self) -> Option<v1::IngestStatus> {
        let request = v1::GetIngestStatusRequest {};
        self.service.admin().get_ingest_status(request).await.ok()?.into_inner().status
    }

    /// How live data follows the upstream.
    pub(crate) async fn status(&self) -> v1::IngestStatus {
        eventually("a core tells the status", SOON, async || self.try_status().await).await
    }

    /// Waits until it follows the feed.
    pub(crate) async fn is_up(&self) {
        let is_up = async || (self.try_status().await?.state() == v1::IngestState::Up).then_some(());
        eventually("it follows the feed", SOON, is_up).await;
    }

    /// Waits until the upstream has one connection to its feed.
    pub(crate) async fn has_one_connection(&self) {
        let one = async || (self.upstream.number("feed_connections").await == 1).then_some(());
        eventually("one connection to the feed", SOON, one).await;
    }

    /// Waits until the feed's newest frame is applied.
    pub(crate) async fn has_read_all(&self) {
        let has_read_all = async || {
            let told = self.upstream.state().await["position"].take();
            (self.try_status().await?.position.as_deref() == told.as_str()).then_some(())
        };
        eventually("the newest frame is applied", SOON, has_read_all).await;
    }

    /// Waits for the row of an upstream's thesis that is as `is_right` demands.
    pub(crate) async fn row(&self, thesis: &Value, is_right: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/v1/theses/{}", thesis_id(thesis));
        let arrived = async || {
            let answer = self.client.get(&path).await;
            (answer.status == 200).then(|| answer.json()).filter(|row| is_right(row))
        };
        eventually(&format!("the row of {thesis}"), SOON, arrived).await
    }

    /// Posts a thesis upstream and waits for its row; gives both.
    pub(crate) async fn post(&self, thesis: &Value) -> (Value, Value) {
        let made = self.upstream.post(thesis).await;
        let row = self.row(&made, |_| true).await;
        (made, row)
    }

    /// Waits until a thesis is there no longer.
    pub(crate) async fn is_gone(&self, thesis: &Value) {
        let path = format!("/v1/theses/{}", thesis_id(thesis));
        let is_gone = async || Some(self.client.get(&path).await).filter(|answer| answer.status == 404);
        eventually("the thesis is gone", SOON, is_gone).await.error(404, "THESIS_NOT_FOUND");
    }
}
