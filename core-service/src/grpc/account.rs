//! `AccountService`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use prost::Message;
use thesis_proto::{
    time::to_millis,
    v1::{self, account_service_server::AccountService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{address, service_only, session, unbroken},
};
use crate::{
    accounts::{
        Person,
        attempts::{self, CHANGES_OF_USER},
        notices::{self, Notice},
        sessions::{admit, demand_confirmation},
    },
    error::Result as Outcome,
    operations::{
        account::{
            accept_invitation::accept_invitation, add_passkey::add_passkey, add_totp::add_totp,
            begin_confirmation::begin_confirmation, begin_passkey::begin_passkey, begin_totp::begin_totp,
            change_password::change_password, confirm_email::confirm_email, confirm_session::confirm_session,
            create_invitation::create_invitation, create_recovery_codes::create_recovery_codes,
            delete_invitation::delete_invitation, finish_sign_in::finish_sign_in, forget_device::forget_device,
            get_account::get_account, get_factor_challenge::get_factor_challenge, get_link::get_link,
            get_logged_request::get_logged_request, get_organization::get_organization,
            get_project_usage::get_project_usage, get_sign_in_settings::get_sign_in_settings,
            list_devices::list_devices, list_factors::list_factors, list_invitations::list_invitations,
            list_key_usage::list_key_usage, list_logged_requests::list_logged_requests, list_members::list_members,
            list_sessions::list_sessions, remove_factor::remove_factor, remove_member::remove_member,
            request_live_access::request_live_access, request_password_reset::request_password_reset,
            require_second_factor::require_second_factor, reset_password::reset_password,
            revoke_session::revoke_session, roll_key::roll_key, send_confirmation::send_confirmation, sign_in::sign_in,
            sign_out::sign_out, sign_up::sign_up, update_member::update_member,
            update_organization::update_organization, update_project::update_project,
        },
        admin::{self, create_organization::found_organization},
    },
    service::Core,
};

/// The seed of the object of a form, the same each time this session sends the form. A form without a name has no seed.
fn form_seed(person: &Person, once: Option<String>, message: &impl Message) -> Option<String> {
    once.map(|_| format!("{}/{}", person.session_id, hex::encode(message.encode_to_vec())))
}

/// Operations that operators have too, with the same fields in their request and response. A member's form names itself
/// by one more field, so that it creates an object `once`.
macro_rules! shared_operations {
    ($($module:ident::$operation:ident: $request:ident { $($field:ident),* $(; $once:ident)? } as $shared:ident
        -> $response:ident { $($data:ident),* };)*) => {
        $(async fn $operation(core: &Core, person: &Person, message: &v1::$request) -> Outcome<v1::$response> {
            let v1::$request { $($field,)* $($once)? } = message.clone();
            let shared = v1::$shared { $($field: $field.into()),* };
            $(let $once = form_seed(person, $once, message);)?
            let answer = admin::$module::$operation(core, &person.actor, &shared $(, $once.as_deref())?).await?;
            Ok(v1::$response { $($data: answer.$data),* })
        })*
    };
}

shared_operations! {
    create_project::create_project: AccountServiceCreateProjectRequest { organization_id, name; once }
        as CreateProjectRequest -> AccountServiceCreateProjectResponse { project };
    change_project::archive_project: AccountServiceArchiveProjectRequest { id } as ArchiveProjectRequest
        -> AccountServiceArchiveProjectResponse { project };
    list_projects::list_projects: AccountServiceListProjectsRequest { organization_id } as ListProjectsRequest
        -> AccountServiceListProjectsResponse { data };
    create_key::create_key: AccountServiceCreateKeyRequest {
        project_id, environment, name, scopes, expires_at, allowed_addresses; once
    } as CreateKeyRequest -> AccountServiceCreateKeyResponse { api_key, key };
    list_keys::list_keys: AccountServiceListKeysRequest { project_id } as ListKeysRequest
        -> AccountServiceListKeysResponse { data };
    revoke_key::revoke_key: AccountServiceRevokeKeyRequest { id } as RevokeKeyRequest
        -> AccountServiceRevokeKeyResponse { api_key };
    list_audit_log::list_audit_log: ListAuditEntriesRequest { organization_id, limit, cursor } as ListAuditLogRequest
        -> ListAuditEntriesResponse { data, next_cursor, has_more };
}

/// Sends a notice of a new key to its creator, unless the same form was sent again.
async fn notify_of_key(core: &Core, person: &Person, key: Option<&v1::ApiKey>) {
    let is_new = |key: &&v1::ApiKey| key.created_at.as_ref().is_some_and(|at| to_millis(at) >= person.now_ms);
    let Some(key) = key.filter(is_new) else { return };
    let (address, live) = (person.actor.address.as_deref(), key.environment() == v1::Environment::Live);
    notices::post(&core.accounts, &core.shared, &person.user, Notice::KeyCreated { live }, address).await;
}

/// Creates a key. A live one is a sensitive change.
async fn create_members_key(
    core: &Core,
    person: &Person,
    message: &v1::AccountServiceCreateKeyRequest,
) -> Outcome<v1::AccountServiceCreateKeyResponse> {
    if message.environment() == v1::Environment::Live {
        demand_confirmation(person)?;
    }
    let response = create_key(core, person, message).await?;
    notify_of_key(core, person, response.api_key.as_ref()).await;
    Ok(response)
}

/// Rolls a key, and notifies the person who rolled it.
async fn roll_members_key(core: &Core, person: &Person, message: &v1::RollKeyRequest) -> Outcome<v1::RollKeyResponse> {
    let once = form_seed(person, message.once.clone(), message);
    let response = roll_key(core, person, message, once.as_deref()).await?;
    notify_of_key(core, person, response.api_key.as_ref()).await;
    Ok(response)
}

/// Implements the service by its operations: first those without a session, then those of a person. Those `within` a
/// limit let the user's share of the control log grow. Those `after` a confirmation are sensitive changes, which need a
/// fresh proof of the password or a factor.
macro_rules! account_service {
    (open {
        $($open:ident $open_name:literal: $open_request:ident -> $open_response:ident;)*
    } person {
        $($method:ident $name:literal $(within $limit:ident)? $(after $proof:ident)? by $operation:ident:
            $request:ident -> $response:ident;)*
    }) => {
        #[async_trait]
        impl AccountService for Api {
            $(async fn $open(&self, request: Request<v1::$open_request>) -> Result<Response<v1::$open_response>, Status> {
                service_only(&self.core, &request)?;
                let from = address(&self.core, &request);
                let (core, message) = (Arc::clone(&self.core), request.into_inner());
                let work = async move { $open(&core, from.as_deref(), &message).await };
                unbroken(&self.core, concat!("AccountService/", $open_name), work).await
            })*

            async fn accept_invitation(
                &self,
                request: Request<v1::AcceptInvitationRequest>,
            ) -> Result<Response<v1::AcceptInvitationResponse>, Status> {
                service_only(&self.core, &request)?;
                let (token, from) = (session(&request), address(&self.core, &request));
                let (core, message) = (Arc::clone(&self.core), request.into_inner());
                let work = async move {
                    let person = match &token {
                        Some(token) => Some(admit(&core.shared, Some(token), from.clone()).await?),
                        None => None,
                    };
                    accept_invitation(&core, person.as_ref(), from.as_deref(), &message).await
                };
                unbroken(&self.core, "AccountService/AcceptInvitation", work).await
            }

            $(async fn $method(&self, request: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                service_only(&self.core, &request)?;
                let (token, from) = (session(&request), address(&self.core, &request));
                let (core, message) = (Arc::clone(&self.core), request.into_inner());
                let work = async move {
                    let person = admit(&core.shared, token.as_deref(), from).await?;
                    $($proof(&person)?;)?
                    $(attempts::reserve(&core.shared, &$limit, &person.user.id).await?;)?
                    $operation(&core, &person, &message).await
                };
                unbroken(&self.core, concat!("AccountService/", $name), work).await
            })*
        }
    };
}

account_service!(open {
    sign_up "SignUp": SignUpRequest -> SignUpResponse;
    sign_in "SignIn": SignInRequest -> SignInResponse;
    finish_sign_in "FinishSignIn": FinishSignInRequest -> FinishSignInResponse;
    get_factor_challenge "GetFactorChallenge": GetFactorChallengeRequest -> GetFactorChallengeResponse;
    get_sign_in_settings "GetSignInSettings": GetSignInSettingsRequest -> GetSignInSettingsResponse;
    get_link "GetLink": GetLinkRequest -> GetLinkResponse;
    request_password_reset "RequestPasswordReset": RequestPasswordResetRequest -> RequestPasswordResetResponse;
    reset_password "ResetPassword": ResetPasswordRequest -> ResetPasswordResponse;
} person {
    confirm_email "ConfirmEmail" by confirm_email: ConfirmEmailRequest -> ConfirmEmailResponse;
    get_account "GetAccount" by get_account: GetAccountRequest -> GetAccountResponse;
    send_confirmation "SendConfirmation" by send_confirmation: SendConfirmationRequest -> SendConfirmationResponse;
    sign_out "SignOut" by sign_out: SignOutRequest -> SignOutResponse;
    change_password "ChangePassword" by change_password: ChangePasswordRequest -> ChangePasswordResponse;
    begin_confirmation "BeginConfirmation" by begin_confirmation:
        BeginConfirmationRequest -> BeginConfirmationResponse;
    confirm_session "ConfirmSession" by confirm_session: ConfirmSessionRequest -> ConfirmSessionResponse;
    list_factors "ListFactors" by list_factors: ListFactorsRequest -> ListFactorsResponse;
    begin_totp "BeginTotp" within CHANGES_OF_USER after demand_confirmation by begin_totp:
        BeginTotpRequest -> BeginTotpResponse;
    add_totp "AddTotp" within CHANGES_OF_USER after demand_confirmation by add_totp:
        AddTotpRequest -> AddTotpResponse;
    begin_passkey "BeginPasskey" after demand_confirmation by begin_passkey:
        BeginPasskeyRequest -> BeginPasskeyResponse;
    add_passkey "AddPasskey" within CHANGES_OF_USER after demand_confirmation by add_passkey:
        AddPasskeyRequest -> AddPasskeyResponse;
    remove_factor "RemoveFactor" within CHANGES_OF_USER after demand_confirmation by remove_factor:
        RemoveFactorRequest -> RemoveFactorResponse;
    create_recovery_codes "CreateRecoveryCodes" within CHANGES_OF_USER after demand_confirmation
        by create_recovery_codes:
        CreateRecoveryCodesRequest -> CreateRecoveryCodesResponse;
    list_devices "ListDevices" by list_devices: ListDevicesRequest -> ListDevicesResponse;
    forget_device "ForgetDevice" within CHANGES_OF_USER by forget_device: ForgetDeviceRequest -> ForgetDeviceResponse;
    list_sessions "ListSessions" by list_sessions: ListSessionsRequest -> ListSessionsResponse;
    revoke_session "RevokeSession" by revoke_session: RevokeSessionRequest -> RevokeSessionResponse;
    create_organization "CreateOrganization" within CHANGES_OF_USER by found_organization:
        AccountServiceCreateOrganizationRequest -> AccountServiceCreateOrganizationResponse;
    get_organization "GetOrganization" by get_organization: GetOrganizationRequest -> GetOrganizationResponse;
    update_organization "UpdateOrganization" within CHANGES_OF_USER by update_organization:
        UpdateOrganizationRequest -> UpdateOrganizationResponse;
    require_second_factor "RequireSecondFactor" within CHANGES_OF_USER after demand_confirmation
        by require_second_factor:
        RequireSecondFactorRequest -> RequireSecondFactorResponse;
    list_members "ListMembers" by list_members: ListMembersRequest -> ListMembersResponse;
    update_member "UpdateMember" within CHANGES_OF_USER by update_member: UpdateMemberRequest -> UpdateMemberResponse;
    remove_member "RemoveMember" within CHANGES_OF_USER by remove_member: RemoveMemberRequest -> RemoveMemberResponse;
    create_invitation "CreateInvitation" within CHANGES_OF_USER by create_invitation: CreateInvitationRequest -> CreateInvitationResponse;
    list_invitations "ListInvitations" by list_invitations: ListInvitationsRequest -> ListInvitationsResponse;
    delete_invitation "DeleteInvitation" within CHANGES_OF_USER by delete_invitation: DeleteInvitationRequest -> DeleteInvitationResponse;
    create_project "CreateProject" within CHANGES_OF_USER by create_project:
        AccountServiceCreateProjectRequest -> AccountServiceCreateProjectResponse;
    list_projects "ListProjects" by list_projects:
        AccountServiceListProjectsRequest -> AccountServiceListProjectsResponse;
    update_project "UpdateProject" within CHANGES_OF_USER by update_project: UpdateProjectRequest -> UpdateProjectResponse;
    archive_project "ArchiveProject" within CHANGES_OF_USER by archive_project:
        AccountServiceArchiveProjectRequest -> AccountServiceArchiveProjectResponse;
    request_live_access "RequestLiveAccess" within CHANGES_OF_USER by request_live_access:
        RequestLiveAccessRequest -> RequestLiveAccessResponse;
    create_key "CreateKey" within CHANGES_OF_USER by create_members_key:
        AccountServiceCreateKeyRequest -> AccountServiceCreateKeyResponse;
    roll_key "RollKey" within CHANGES_OF_USER by roll_members_key: RollKeyRequest -> RollKeyResponse;
    list_keys "ListKeys" by list_keys: AccountServiceListKeysRequest -> AccountServiceListKeysResponse;
    revoke_key "RevokeKey" within CHANGES_OF_USER by revoke_key: AccountServiceRevokeKeyRequest -> AccountServiceRevokeKeyResponse;
    get_project_usage "GetProjectUsage" by get_project_usage: GetProjectUsageRequest -> GetProjectUsageResponse;
    list_key_usage "ListKeyUsage" by list_key_usage: ListKeyUsageRequest -> ListKeyUsageResponse;
    list_logged_requests "ListLoggedRequests" by list_logged_requests: ListLoggedRequestsRequest -> ListLoggedRequestsResponse;
    get_logged_request "GetLoggedRequest" by get_logged_request: GetLoggedRequestRequest -> GetLoggedRequestResponse;
    list_audit_entries "ListAuditEntries" by list_audit_log: ListAuditEntriesRequest -> ListAuditEntriesResponse;
});
