//! Forgets a device of a person: the next sign-in there counts as one from a new device.

use thesis_proto::v1;

use crate::{
    accounts::{Person, sessions::audit_row},
    error::Result,
    service::Core,
    store::Consistency,
    tables::account as rows,
};

pub async fn forget_device(
    core: &Core,
    person: &Person,
    message: &v1::ForgetDeviceRequest,
) -> Result<v1::ForgetDeviceResponse> {
    let (shared, user_id) = (&core.shared, &person.user.id);
    let mut consistency = Consistency::Quorum;
    // A concurrent sign-in writes the row too, so this repeats until its conditional write succeeds.
    while let Some((before, mut known)) = rows::sessions(&shared.backend, user_id, consistency).await?.known {
        let count = known.origins.len();
        known.origins.retain(|one| !(one.is_device && one.hash == message.id));
        if known.origins.len() == count {
            break;
        }
        let beside = vec![audit_row(shared, &person.actor.does("device.forgotten").to(user_id))];
        if rows::set_known(&shared.backend, user_id, before, &known, beside).await? {
            break;
        }
        consistency = Consistency::Serial;
    }
    Ok(v1::ForgetDeviceResponse {})
}
