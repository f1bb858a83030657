//! Creates a user who owns a new organization, starts a session, and mails a link that confirms the e-mail.

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    accounts::{
        attempts::{self, SIGN_UP_FROM_ADDRESS},
        confirmations,
        fields::{email_fault, name_fault, password_fault, refuse},
        passwords::Requester,
        sessions,
    },
    control::ControlState,
    convert,
    domain::{
        account::{User, folded_email},
        control::ControlChange,
        id,
    },
    error::{Error, Result},
    operations::admin::create_organization::founded,
    service::Core,
    store::Expect,
    tables::account::{self as rows, FIRST_GENERATION, Password},
};

/// The error for a stranger while only invited people may sign up.
pub(super) fn sign_up_closed() -> Error {
    let text = "only who is invited can sign up here; ask an administrator for an invitation";
    Error::new(ErrorCode::SignUpClosed, text)
}

/// The error for an e-mail that already has a user.
pub fn email_taken() -> Error {
    Error::new(ErrorCode::EmailTaken, "there is a user with this e-mail already; sign in, or ask for a new password")
}

pub async fn sign_up(core: &Core, address: Option<&str>, message: &v1::SignUpRequest) -> Result<v1::SignUpResponse> {
    if core.accounts.invited_only {
        return Err(sign_up_closed());
    }
    refuse([
        email_fault("email", &message.email),
        password_fault("password", &message.password),
        name_fault("organization_name", &message.organization_name),
    ])?;
    let shared = &core.shared;
    let tried = attempts::from_address(shared, &SIGN_UP_FROM_ADDRESS, address).await?;
    let response = create_account(core, address, message).await;
    // The queue of password hashes was full, so no attempt was made.
    let is_untried = |error: &Error| error.api.code == ErrorCode::RateLimited || error.api.code.http_status() >= 500;
    if response.as_ref().is_err_and(is_untried) {
        attempts::give_back(shared, tried).await;
    }
    response
}

async fn create_account(core: &Core, address: Option<&str>, message: &v1::SignUpRequest) -> Result<v1::SignUpResponse> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let is_taken = shared.control.state().people().user_by_email(&message.email).is_some();
    if is_taken {
        return Err(email_taken());
    }
    let (ids, created_at) = (shared.ids.as_ref(), shared.clock.now_ms());
    let email = message.email.trim().to_owned();
    let user = User { id: id::random("usr_", ids), email, created_at, ..User::default() };
    let (organization, member) = founded(core, &message.organization_name, &user.id);
    let build_changes = |state: &ControlState| {
        if state.people().user_by_email(&user.email).is_some() {
            return Err(email_taken());
        }
        let changes = vec![
            ControlChange::Organization(organization.clone()),
            ControlChange::User(user.clone()),
            ControlChange::Member(member.clone()),
        ];
        Ok((changes, ()))
    };
    let change = shared.control.change(sessions::actor(&user, address).does("user.signed_up"), build_changes);
    create_with_password(core, &user, address, &message.password, change).await?;
    confirmations::post(&core.accounts, shared, &user);
    let user_agent = message.user_agent.as_deref();
    let session = sessions::begin(shared, &user, (address, None), user_agent, FIRST_GENERATION).await?;
    let organization = Some(convert::control::organization(&organization));
    Ok(v1::SignUpResponse { session: Some(session), organization })
}

/// Creates a user by a change, with a password. The password is written first, so that no user is without one. It is
/// deleted if the change is refused.
pub(super) async fn create_with_password<T>(
    core: &Core,
    user: &User,
    address: Option<&str>,
    password: &str,
    change: impl Future<Output = Result<T>>,
) -> Result<T> {
    let shared = &core.shared;
    let requester = Requester { subject: &folded_email(&user.email), address, is_known: false };
    let hash = core.accounts.passwords.hash(requester, password, shared.ids.as_ref()).await?;
    let password = Password { hash, changed_at: shared.clock.now_ms(), ends_memberships: false };
    if !rows::set_password(&shared.backend, &user.id, (None, Expect::Any), &password, Vec::new()).await? {
        return Err(Error::internal("a new user has the id of another one"));
    }
    let outcome = change.await;
    // A change in doubt may have been written.
    if outcome.as_ref().is_err_and(|error| error.api.code.http_status() < 500)
        && let Err(error) = rows::forget_password(&shared.backend, &user.id).await
    {
        tracing::warn!(%error, "the password of a user who was not made stays");
    }
    outcome
}
