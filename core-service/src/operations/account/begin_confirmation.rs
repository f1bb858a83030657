//! Creates a challenge to which a person proves a second factor again.

use thesis_proto::v1;

use crate::{
    accounts::{
        Person,
        factors::{ChallengePurpose, new_challenge},
    },
    error::Result,
    service::Core,
    store::Consistency,
    tables::account as rows,
};

pub async fn begin_confirmation(
    core: &Core,
    person: &Person,
    _: &v1::BeginConfirmationRequest,
) -> Result<v1::BeginConfirmationResponse> {
    let (_, factors) = rows::factors(&core.shared.backend, &person.user.id, Consistency::Quorum).await?;
    let purpose = ChallengePurpose::Confirmation(person.session_id.clone());
    let challenge = factors.are_required().then(|| new_challenge(&core.shared, &person.user.id, &purpose));
    Ok(v1::BeginConfirmationResponse { challenge: challenge.unwrap_or_default() })
}
