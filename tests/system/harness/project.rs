//! A customer: an organization with a project and its keys.

use thesis_proto::{
    time::from_millis,
    v1::{self, Environment},
};
use tonic::Status;

use super::{
    Client, Service,
    service::{Admin, settle},
};

/// Every scope that may be granted while the Wallets API is off.
pub(crate) const ALL_SCOPES: &[&str] = &[
    "profiles:read",
    "theses:read",
    "tokens:read",
    "search:read",
    "events:read",
    "streams:read",
    "webhooks:write",
    "alerts:write",
    "archive:read",
];

/// A project of an organization of its own.
pub(crate) struct Project {
    pub(crate) organization: v1::Organization,
    pub(crate) id: String,
    edges: Vec<String>,
    cores: Vec<String>,
    admin: Admin,
}

/// A key of a project.
pub(crate) struct Key {
    pub(crate) id: String,
    /// The key itself.
    pub(crate) raw: String,
    /// A client with it.
    pub(crate) client: Client,
}

impl Project {
    pub(super) async fn create(service: &Service, plan: &str) -> Self {
        let mut admin = service.admin();
        let request = v1::CreateOrganizationRequest { name: "Acme".to_owned(), plan: Some(plan.to_owned()) };
        let organization = admin.create_organization(request).await.unwrap().into_inner().organization.unwrap();
        let request = v1::CreateProjectRequest { organization_id: organization.id.clone(), name: "Rockets".to_owned() };
        let project = admin.create_project(request).await.unwrap().into_inner().project.unwrap();
        Self { organization, id: project.id, edges: service.edges.clone(), cores: service.cores.clone(), admin }
    }

    /// A new key.
    pub(crate) async fn key(&self, environment: Environment, scopes: &[&str]) -> Key {
        self.key_until(environment, scopes, None).await
    }

    /// A new key that ends at a time.
    pub(crate) async fn key_until(&self, environment: Environment, scopes: &[&str], end: Option<i64>) -> Key {
        self.try_key(environment, scopes, end).await.unwrap()
    }

    /// The same, unless no core answers.
    pub(crate) async fn try_key(
        &self,
        environment: Environment,
        scopes: &[&str],
        end: Option<i64>,
    ) -> Result<Key, Status> {
        let request = v1::CreateKeyRequest {
            project_id: self.id.clone(),
            environment: environment.into(),
            name: "ci".to_owned(),
            scopes: scopes.iter().map(ToString::to_string).collect(),
            expires_at: end.map(from_millis),
            allowed_addresses: Vec::new(),
        };
        let made = self.admin.clone().create_key(request).await?.into_inner();
        let client = Client::over(&self.edges, Some(&made.key));
        Ok(Key { id: made.api_key.unwrap().id, raw: made.key, client })
    }

    /// A new test key with all scopes that works from these networks only.
    pub(crate) async fn key_from(&self, networks: &[&str]) -> Key {
        let request = v1::CreateKeyRequest {
            project_id: self.id.clone(),
            environment: Environment::Test.into(),
            name: "ci".to_owned(),
            scopes: ALL_SCOPES.iter().map(ToString::to_string).collect(),
            expires_at: None,
            allowed_addresses: networks.iter().map(ToString::to_string).collect(),
        };
        let made = self.admin.clone().create_key(request).await.unwrap().into_inner();
        let client = Client::over(&self.edges, Some(&made.key));
        Key { id: made.api_key.unwrap().id, raw: made.key, client }
    }

    /// A client with a new test key of every scope.
    pub(crate) async fn test(&self) -> Client {
        self.key(Environment::Test, ALL_SCOPES).await.client
    }

    /// A client with a new live key of every scope; the project is approved for it.
    pub(crate) async fn live(&self) -> Client {
        self.approve().await;
        self.key(Environment::Live, ALL_SCOPES).await.client
    }

    /// Lets live keys work.
    pub(crate) async fn approve(&self) {
        self.admin.clone().approve_project(v1::ApproveProjectRequest { id: self.id.clone() }).await.unwrap();
    }

    /// Ends live access.
    pub(crate) async fn withdraw(&self) {
        self.admin
            .clone()
            .withdraw_project(v1::WithdrawProjectRequest { id: self.id.clone(), reason: None })
            .await
            .unwrap();
        settle(&self.cores).await;
    }

    /// Archives the project.
    pub(crate) async fn archive(&self) {
        self.admin.clone().archive_project(v1::ArchiveProjectRequest { id: self.id.clone() }).await.unwrap();
        settle(&self.cores).await;
    }

    /// Revokes a key.
    pub(crate) async fn revoke(&self, key: &Key) {
        self.try_revoke(key).await.unwrap();
        settle(&self.cores).await;
    }

    /// Revokes a key, unless no core answers; all know it soon.
    pub(crate) async fn try_revoke(&self, key: &Key) -> Result<(), Status> {
        self.admin.clone().revoke_key(v1::RevokeKeyRequest { id: key.id.clone() }).await.map(drop)
    }

    /// The name of the project's own dataset.
    pub(crate) fn dataset(&self) -> String {
        format!("project/{}", self.id)
    }
}
