//! Reads how people can sign in to this installation.

use thesis_proto::v1;

use crate::{error::Result, service::Core};

pub async fn get_sign_in_settings(
    core: &Core,
    _: Option<&str>,
    _: &v1::GetSignInSettingsRequest,
) -> Result<v1::GetSignInSettingsResponse> {
    let (sends_mail, sign_up_open) = (core.accounts.mail.is_some(), !core.accounts.invited_only);
    Ok(v1::GetSignInSettingsResponse { sends_mail, sign_up_open })
}
