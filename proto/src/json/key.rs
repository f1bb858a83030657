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
    id: &'a str,
    name: &'a str,
    /// The first characters of the key, for display.
    prefix: &'a str,
    environment: Environment,
    livemode: bool,
    scopes: &'a [String],
    project: KeyProject<'a>,
    organization: KeyOrganization<'a>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
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
    id: &'a str,
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
    id: &'a str,
    name: &'a str,
    plan: &'a str,
}

impl<'a> From<&'a v1::KeyOrganization> for KeyOrganization<'a> {
    fn from(organization: &'a v1::KeyOrganization) -> Self {
        Self { id: &organization.id, name: &organization.name, plan: &organization.plan }
    }
}
