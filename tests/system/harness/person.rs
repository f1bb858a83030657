//! A person who runs their own access, as a front end speaks for them: with the service credential, and with their session.

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};

use prost_types::Timestamp;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    time::to_millis,
    v1::{
        self, Environment, Role, account_service_client::AccountServiceClient, admin_service_client::AdminServiceClient,
    },
};
use tonic::{
    Request, Response, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use super::{SERVICE_TOKEN, Service, client::new_address};

/// The password that people have at first.
const PASSWORD: &str = "correct horse battery staple";
/// How often a busy service is asked again.
const TRIES: u32 = 90;

/// Adds to a call the credential, a person's address and their session.
#[derive(Clone)]
pub(crate) struct Speaker {
    address: String,
    session: Option<String>,
}

impl Interceptor for Speaker {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert("x-service-token", SERVICE_TOKEN.parse().unwrap());
        metadata.insert("x-client-address", self.address.parse().unwrap());
        if let Some(session) = &self.session {
            metadata.insert("x-session", session.parse().unwrap());
        }
        Ok(request)
    }
}

type Spoken = InterceptedService<Channel, Speaker>;
/// Client of what people do themselves.
pub(crate) type Accounts = AccountServiceClient<Spoken>;

/// True if the queue of passwords has no room for the caller right now. It is not an answer about the account.
fn is_busy(error: &ApiError) -> bool {
    let is_own_excess = error.code == ErrorCode::RateLimited && error.message.contains("right now");
    error.code == ErrorCode::ServiceUnavailable || is_own_excess
}

/// Asks until there is room for one more password to be hashed: all tests of a shared service wait for that together.
pub(crate) async fn patiently<T>(ask: impl AsyncFn() -> Result<Response<T>, Status>) -> Result<T, ApiError> {
    for _ in 0..TRIES {
        match ask().await.map_err(|status| ApiError::from_status(&status)) {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(error) if is_busy(&error) => {
                tokio::time::sleep(Duration::from_secs(error.retry_after.unwrap_or(1).into())).await;
            }
            Err(error) => return Err(error),
        }
    }
    panic!("the service stays busy")
}

/// The error of a call that must fail with a code.
pub(crate) fn refused<T>(answer: Result<Response<T>, Status>, code: ErrorCode) -> ApiError {
    let Err(status) = answer else { panic!("it was not refused as {code:?}") };
    let error = ApiError::from_status(&status);
    assert_eq!(error.code, code, "{error:?}");
    assert!(!error.message.is_empty());
    error
}

/// A time that must be told, as Unix milliseconds.
pub(crate) fn at(time: Option<Timestamp>) -> i64 {
    to_millis(&time.unwrap())
}

/// The token at the end of a link.
pub(crate) fn token_of(link: &str) -> &str {
    let (before, token) = link.rsplit_once('/').unwrap();
    assert!(before.starts_with("http") && before.ends_with("/console/links") && !token.is_empty(), "{link}");
    token
}

/// A person, with or without an account, at an address of their own.
pub(crate) struct Person {
    pub(crate) email: String,
    pub(crate) password: String,
    pub(crate) address: String,
    /// The secret of their session.
    pub(crate) session: Option<String>,
    /// The secret of their device, once they have signed in there.
    pub(crate) device: Option<String>,
    /// Their user's id, once it is known.
    pub(crate) id: String,
    /// Cores that they ask, in turn.
    cores: Vec<Channel>,
    next: AtomicUsize,
}

impl Service {
    /// A person without an account, who asks the cores in turn.
    pub(crate) fn person(&self) -> Person {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let connect = |core: &String| Endpoint::from_shared(core.clone()).unwrap().connect_lazy();
        Person {
            email: format!("Person{number}@People.example"),
            password: PASSWORD.to_owned(),
            address: new_address(),
            session: None,
            device: None,
            id: String::new(),
            cores: self.cores.iter().map(connect).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Confirms the e-mail of a user as operators do.
    pub(crate) async fn confirm(&self, email: &str) {
        self.admin().confirm_user(v1::ConfirmUserRequest { email: email.to_owned() }).await.unwrap();
    }

    /// A person who has signed up, with the organization that they own. Their e-mail is confirmed.
    pub(crate) async fn owner(&self) -> (Person, String) {
        let mut person = self.person();
        let organization = person.sign_up("Acme").await.unwrap();
        self.confirm(&person.email).await;
        (person, organization.id)
    }

    /// A person with a role in an owner's organization. Their e-mail is confirmed.
    pub(crate) async fn member(&self, owner: &Person, organization: &str, role: Role) -> Person {
        let mut person = self.person();
        let link = owner.invite(organization, &person.email, role).await;
        person.accept(token_of(&link)).await.unwrap();
        self.confirm(&person.email).await;
        person
    }

    /// An administrator without an organization.
    pub(crate) async fn administrator(&self) -> Person {
        let mut person = self.person();
        let request = v1::CreateUserRequest { email: person.email.clone(), administrator: true };
        let made = self.admin().create_user(request).await.unwrap().into_inner();
        person.accept(token_of(&made.link)).await.unwrap();
        person
    }
}

impl Person {
    fn speaker(&self) -> (Channel, Speaker) {
        let core = &self.cores[self.next.fetch_add(1, Ordering::Relaxed) % self.cores.len()];
        (core.clone(), Speaker { address: self.address.clone(), session: self.session.clone() })
    }

    /// Speaks to the next core.
    pub(crate) fn ask(&self) -> Accounts {
        let (core, speaker) = self.speaker();
        AccountServiceClient::with_interceptor(core, speaker)
    }

    /// Speaks to the next core as an administrator.
    pub(crate) fn administer(&self) -> AdminServiceClient<Spoken> {
        let (core, speaker) = self.speaker();
        AdminServiceClient::with_interceptor(core, speaker)
    }

    /// The same person somewhere else on another device, without a session.
    pub(crate) fn elsewhere(&self) -> Self {
        Self {
            email: self.email.clone(),
            password: self.password.clone(),
            address: new_address(),
            session: None,
            device: None,
            id: self.id.clone(),
            cores: self.cores.clone(),
            next: AtomicUsize::new(self.next.load(Ordering::Relaxed)),
        }
    }

    fn begin(&mut self, session: Option<v1::NewSession>) {
        let session = session.unwrap();
        let user = session.user.unwrap();
        assert_eq!(user.email.to_lowercase(), self.email.to_lowercase());
        assert!(session.token.starts_with("ses_usr_") && user.id.starts_with("usr_"), "{user:?}");
        assert!(session.expires_at.is_some() && session.device.starts_with("dev_"));
        (self.session, self.device, self.id) = (Some(session.token), Some(session.device), user.id);
    }

    /// Signs up; gives the new organization.
    pub(crate) async fn sign_up(&mut self, organization: &str) -> Result<v1::Organization, ApiError> {
        let request = v1::SignUpRequest {
            email: self.email.clone(),
            password: self.password.clone(),
            organization_name: organization.to_owned(),
            user_agent: Some("tests".to_owned()),
        };
        let answer = patiently(async || self.ask().sign_up(request.clone()).await).await?;
        self.begin(answer.session);
        Ok(answer.organization.unwrap())
    }

    /// Signs in.
    pub(crate) async fn sign_in(&mut self) -> Result<(), ApiError> {
        let request = v1::SignInRequest {
            email: self.email.clone(),
            password: self.password.clone(),
            user_agent: Some("tests".to_owned()),
            device: self.device.clone(),
        };
        let answer = patiently(async || self.ask().sign_in(request.clone()).await).await?;
        self.begin(answer.session);
        Ok(())
    }

    /// Tries a password at the person's address, but not on their device; gives the error of its refusal.
    pub(crate) async fn fail_to_sign_in(&self, password: &str) -> ApiError {
        let mut other = self.elsewhere();
        (other.address, other.password) = (self.address.clone(), password.to_owned());
        other.sign_in().await.unwrap_err()
    }

    /// Uses an invitation: as who is signed in, or as a new user.
    pub(crate) async fn accept(&mut self, token: &str) -> Result<Option<v1::Organization>, ApiError> {
        self.accept_as(token, None).await
    }

    /// The same where the link may name no e-mail.
    pub(crate) async fn accept_as(
        &mut self,
        token: &str,
        email: Option<String>,
    ) -> Result<Option<v1::Organization>, ApiError> {
        let request = v1::AcceptInvitationRequest {
            token: token.to_owned(),
            email,
            password: self.session.is_none().then(|| self.password.clone()),
            user_agent: Some("tests".to_owned()),
        };
        let answer = patiently(async || self.ask().accept_invitation(request.clone()).await).await?;
        assert_eq!(answer.session.is_some(), self.session.is_none());
        if self.session.is_none() {
            self.begin(answer.session);
        }
        Ok(answer.organization)
    }

    /// Uses a link for a new password.
    pub(crate) async fn reset(&mut self, token: &str, password: &str) -> Result<(), ApiError> {
        let request = v1::ResetPasswordRequest {
            token: token.to_owned(),
            password: password.to_owned(),
            user_agent: Some("tests".to_owned()),
        };
        let answer = patiently(async || self.ask().reset_password(request.clone()).await).await?;
        self.begin(answer.session);
        password.clone_into(&mut self.password);
        Ok(())
    }

    /// Sets a new password.
    pub(crate) async fn change_password(&mut self, password: &str) -> Result<(), ApiError> {
        let request = v1::ChangePasswordRequest {
            current_password: self.password.clone(),
            password: password.to_owned(),
            user_agent: Some("tests".to_owned()),
        };
        let answer = patiently(async || self.ask().change_password(request.clone()).await).await?;
        self.begin(answer.session);
        password.clone_into(&mut self.password);
        Ok(())
    }

    /// The user, their organizations and this session.
    pub(crate) async fn account(&self) -> v1::GetAccountResponse {
        self.ask().get_account(v1::GetAccountRequest {}).await.unwrap().into_inner()
    }

    /// Whether the session is valid.
    pub(crate) async fn is_signed_in(&self) -> bool {
        match self.ask().get_account(v1::GetAccountRequest {}).await {
            Ok(_) => true,
            answer => {
                refused(answer, ErrorCode::SignInRequired);
                false
            }
        }
    }

    /// The user's sessions.
    pub(crate) async fn sessions(&self) -> Vec<v1::Session> {
        self.ask().list_sessions(v1::ListSessionsRequest {}).await.unwrap().into_inner().data
    }

    /// A new project.
    pub(crate) async fn project(&self, organization: &str, name: &str) -> v1::Project {
        let (organization_id, name) = (organization.to_owned(), name.to_owned());
        let request = v1::AccountServiceCreateProjectRequest { organization_id, name, once: None };
        self.ask().create_project(request).await.unwrap().into_inner().project.unwrap()
    }

    /// A new key; gives it with the key itself.
    pub(crate) async fn key(&self, project: &str, environment: Environment) -> (v1::ApiKey, String) {
        let request = new_key(project, environment);
        let made = self.ask().create_key(request).await.unwrap().into_inner();
        (made.api_key.unwrap(), made.key)
    }

    /// The projects of an organization.
    pub(crate) async fn projects(&self, organization: &str) -> Vec<v1::Project> {
        let request = v1::AccountServiceListProjectsRequest { organization_id: organization.to_owned() };
        self.ask().list_projects(request).await.unwrap().into_inner().data
    }

    /// Asks that a project's live keys work.
    pub(crate) async fn request_live(&self, project: &str) -> v1::Project {
        let request = v1::RequestLiveAccessRequest { project_id: project.to_owned(), note: None };
        self.ask().request_live_access(request).await.unwrap().into_inner().project.unwrap()
    }

    /// Invites somebody; gives the link.
    pub(crate) async fn invite(&self, organization: &str, email: &str, role: Role) -> String {
        let made = self.ask().create_invitation(new_invitation(organization, email, role)).await.unwrap().into_inner();
        let invitation = made.invitation.unwrap();
        assert_eq!((invitation.email.as_str(), invitation.role()), (email, role));
        made.link.unwrap()
    }

    /// The members of an organization.
    pub(crate) async fn members(&self, organization: &str) -> Vec<v1::Member> {
        let request = v1::ListMembersRequest { organization_id: organization.to_owned() };
        self.ask().list_members(request).await.unwrap().into_inner().data
    }

    /// The whole audit log of an organization, newest first.
    pub(crate) async fn audit(&self, organization: &str) -> Vec<v1::AuditEntry> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let request = v1::ListAuditEntriesRequest {
                organization_id: organization.to_owned(),
                limit: Some(5),
                cursor: cursor.take(),
            };
            let page = self.ask().list_audit_entries(request).await.unwrap().into_inner();
            assert!(page.data.len() <= 5 && page.has_more == page.next_cursor.is_some(), "{page:?}");
            all.extend(page.data);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return all;
            }
        }
    }
}

/// A request for a key of the default scopes.
pub(crate) fn new_key(project: &str, environment: Environment) -> v1::AccountServiceCreateKeyRequest {
    v1::AccountServiceCreateKeyRequest {
        project_id: project.to_owned(),
        environment: environment.into(),
        name: "laptop".to_owned(),
        ..v1::AccountServiceCreateKeyRequest::default()
    }
}

/// A request for an invitation.
pub(crate) fn new_invitation(organization: &str, email: &str, role: Role) -> v1::CreateInvitationRequest {
    let (organization_id, email) = (organization.to_owned(), email.to_owned());
    v1::CreateInvitationRequest { organization_id, email, role: role.into() }
}
