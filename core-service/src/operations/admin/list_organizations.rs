//! Lists all organizations.

use thesis_proto::v1;

use crate::{convert, domain::account::Actor, error::Result, service::Core};

pub async fn list_organizations(
    core: &Core,
    _: &Actor,
    _: &v1::ListOrganizationsRequest,
) -> Result<v1::ListOrganizationsResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let data = state.organizations().map(|row| convert::control::organization(row)).collect();
    let plans = core.gate.plans().keys().cloned().collect();
    Ok(v1::ListOrganizationsResponse { data, plans })
}
