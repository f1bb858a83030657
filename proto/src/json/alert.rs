//! The response about alerts that is no resource.

use serde::Serialize;
use utoipa::ToSchema;

use super::{object_of_alert, webhook::always_true};
use crate::v1;

/// A deleted alert.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedAlert<'a> {
    #[schema(schema_with = object_of_alert)]
    object: &'static str,
    /// Id of the alert that is no more.
    id: &'a str,
    #[schema(schema_with = always_true)]
    deleted: bool,
}

impl<'a> From<&'a v1::DeleteAlertResponse> for DeletedAlert<'a> {
    fn from(response: &'a v1::DeleteAlertResponse) -> Self {
        Self { object: "alert", id: &response.id, deleted: true }
    }
}
