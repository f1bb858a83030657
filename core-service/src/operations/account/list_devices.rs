//! Lists the devices on which a person has signed in.

use thesis_proto::{time::from_millis, v1};

use crate::{
    accounts::{Person, known::devices},
    error::Result,
    service::Core,
    tables::account as rows,
};

pub async fn list_devices(core: &Core, person: &Person, _: &v1::ListDevicesRequest) -> Result<v1::ListDevicesResponse> {
    let (_, known, _) = rows::sign_in_rows(&core.shared.backend, &person.user.id).await?;
    let devices = devices(known, person.now_ms).into_iter();
    let data = devices.map(|row| v1::Device {
        id: row.hash,
        user_agent: row.user_agent,
        used_at: Some(from_millis(row.used_at)),
    });
    Ok(v1::ListDevicesResponse { data: data.collect() })
}
