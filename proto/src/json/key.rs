//! The calling key.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Environment, Time, constant, part};
use crate::v1;

/// An API key, without its secret part.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyInfo<'a> {
    #[schema(schema_with = constant::api_key)]
    object: &'static str,
    /// Id of the key, prefix `key_`.
    id: &'a str,
    /// Name of the key, for people.
    name: &'a str,
    /// The first characters of the key, for display.
    prefix: &'a str,
    /// Which data the key sees.
    environment: Environment,
    /// True for live data, false for test data.
    livemode: bool,
    /// What the key may do.
    scopes: &'a [String],
    /// The project that it belongs to.
    project: KeyProject<'a>,
    /// The organization of that project.
    organization: KeyOrganization<'a>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it ends; null when it does not.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    expires_at: Option<Time>,
}

impl<'a> From<&'a v1::KeyInfo> for KeyInfo<'a> {
    fn from(key: &'a v1::KeyInfo) -> Self {
        Self {
            object: "api_key",
            id: &key.id,
            name: &key.name,
            prefix: &key.prefix,
            environment: Environment::from(&key.environment),
            livemode: key.livemode,
            scopes: &key.scopes,
            project: part(&key.project),
            organization: part(&key.organization),
            created_at: part(&key.created_at),
            expires_at: key.expires_at.as_ref().map(Time::from),
        }
    }
}

/// The project a key belongs to.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct KeyProject<'a> {
    /// Id of the project, prefix `prj_`.
    id: &'a str,
    /// Name of the project.
    name: &'a str,
}

impl<'a> From<&'a v1::KeyProject> for KeyProject<'a> {
    fn from(project: &'a v1::KeyProject) -> Self {
        Self { id: &project.id, name: &project.name }
    }
}

/// The organization a key belongs to.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct KeyOrganization<'a> {
    /// Id of the organization, prefix `org_`.
    id: &'a str,
    /// Name of the organization.
    name: &'a str,
    /// Name of its plan, which sets all limits.
    plan: &'a str,
}

impl<'a> From<&'a v1::KeyOrganization> for KeyOrganization<'a> {
    fn from(organization: &'a v1::KeyOrganization) -> Self {
        Self { id: &organization.id, name: &organization.name, plan: &organization.plan }
    }
}
