//! Organizations, projects, keys and webhooks.

use thesis_proto::{time::from_millis, v1};

use super::optional_time;
use crate::domain::{
    abuse::AbusiveAddress,
    control::{ApiKey, Organization, Project, Webhook},
};

pub fn environment(live: bool) -> v1::Environment {
    if live { v1::Environment::Live } else { v1::Environment::Test }
}

pub fn organization(row: &Organization) -> v1::Organization {
    v1::Organization {
        id: row.id.clone(),
        name: row.name.clone(),
        plan: row.plan.clone(),
        created_at: Some(from_millis(row.created_at)),
        revision: row.revision,
        requires_second_factor: row.requires_second_factor,
    }
}

pub fn project(row: &Project) -> v1::Project {
    v1::Project {
        id: row.id.clone(),
        name: row.name.clone(),
        organization_id: row.organization_id.clone(),
        live_approved: row.live_approved,
        archived: row.archived,
        created_at: Some(from_millis(row.created_at)),
        live_requested_at: optional_time(row.live_requested_at),
        live_refusal: row.live_refusal.clone(),
        revision: row.revision,
        live_note: row.live_note.clone(),
        live_withdrawn_at: optional_time(row.live_withdrawn_at),
        live_withdrawal: row.live_withdrawal.clone(),
    }
}

pub fn abusive_address(row: &AbusiveAddress) -> v1::AbusiveAddress {
    v1::AbusiveAddress {
        address: row.address.clone(),
        failures: row.failures,
        first_at: Some(from_millis(row.first_at)),
        last_at: Some(from_millis(row.last_at)),
    }
}

/// A key as operators see it. Only lists have its last use.
pub fn api_key(row: &ApiKey) -> v1::ApiKey {
    v1::ApiKey {
        id: row.id.clone(),
        name: row.name.clone(),
        prefix: row.prefix.clone(),
        environment: environment(row.live).into(),
        scopes: row.scopes.clone(),
        project_id: row.project_id.clone(),
        created_at: Some(from_millis(row.created_at)),
        expires_at: optional_time(row.expires_at),
        revoked_at: optional_time(row.revoked_at),
        last_used_at: None,
        allowed_addresses: row.allowed_addresses.clone(),
    }
}

/// A key as its holder sees it.
pub fn key_info(key: &ApiKey, of: &Project, by: &Organization) -> v1::KeyInfo {
    v1::KeyInfo {
        id: key.id.clone(),
        name: key.name.clone(),
        prefix: key.prefix.clone(),
        environment: environment(key.live).into(),
        livemode: key.live,
        scopes: key.scopes.clone(),
        project: Some(v1::KeyProject { id: of.id.clone(), name: of.name.clone() }),
        organization: Some(v1::KeyOrganization { id: by.id.clone(), name: by.name.clone(), plan: by.plan.clone() }),
        created_at: Some(from_millis(key.created_at)),
        expires_at: optional_time(key.expires_at),
    }
}

pub fn filters(row: &Webhook) -> v1::EventFilters {
    v1::EventFilters {
        token: row.tokens.clone(),
        handle: row.handles.clone(),
        chain: row.chains.clone(),
        text: row.texts.clone(),
    }
}

pub fn event_types(row: &Webhook) -> Vec<v1::EventType> {
    row.events.iter().filter_map(|number| v1::EventType::try_from(*number).ok()).collect()
}

/// Converts a webhook for its customer, with its public key.
pub fn webhook(row: &Webhook, public_key: String) -> v1::Webhook {
    let payload = if row.is_thin() { v1::WebhookPayload::Thin } else { v1::WebhookPayload::Full };
    v1::Webhook {
        id: row.id.clone(),
        url: row.url.clone(),
        description: row.description.clone(),
        events: row.events.clone(),
        filters: Some(filters(row)),
        status: row.status,
        secret_prefix: row.secret_prefix.clone(),
        livemode: row.live,
        created_at: Some(from_millis(row.created_at)),
        updated_at: Some(from_millis(row.updated_at)),
        headers: row.headers.iter().map(|header| header.name.clone()).collect(),
        payload: payload.into(),
        public_key,
    }
}
