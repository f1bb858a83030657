//! The visitor of a page: cookies, session and CSRF tokens.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use axum::extract::FromRequestParts;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{
    Extensions, HeaderName, HeaderValue,
    header::{HOST, ORIGIN, USER_AGENT},
    request::Parts,
};
use sha2::Sha256;
use thesis_net::{
    services::{MemberSession, Services, Trusted},
    trace::Trace,
};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    metadata, v1,
};
use tonic::{Request, Status, metadata::MetadataMap};

use super::{
    Console, HOME,
    cookies::{Cookies, cookie, is_text, is_token},
    failure::Failed,
};

const SESSION: HeaderName = HeaderName::from_static(metadata::SESSION);
/// Limit in characters for the browser's name in calls of core.
const MAX_USER_AGENT: usize = 300;
/// Length in characters of the cookie that guards the forms of visitors.
const FORM_LENGTH: usize = 32;

/// The visitor and the origin of a request for a page.
#[derive(Clone)]
pub struct Visit {
    pub(crate) console: Arc<Console>,
    /// The session's token, if the browser sent one. The session may have ended.
    pub(crate) session: Option<String>,
    /// The device's token, if the browser sent one. Only core can validate it.
    pub(crate) device: Option<String>,
    /// The secret of the page after a form, with its signature.
    pub(crate) shown: Option<String>,
    /// The form that could not be sent.
    pub(crate) kept: Option<String>,
    /// A refused form, with its signature.
    pub(crate) refused: Option<String>,
    /// The outcome of the change that this form asks of core.
    outcome: Arc<OnceLock<Result<(), ApiError>>>,
    /// True while the page of a refused form is rendered.
    is_refused: bool,
    pub(crate) address: IpAddr,
    pub(crate) request_id: HeaderValue,
    pub(crate) trace: Trace,
    pub(crate) user_agent: Option<String>,
    pub(crate) path: String,
    /// The value of the cookie that guards the forms of visitors.
    form: String,
    /// True if the browser does not have that cookie yet.
    is_new: bool,
    /// False if the request names another site as its origin.
    pub(super) is_own: bool,
}

impl Visit {
    pub(super) fn new(
        console: &Arc<Console>,
        address: IpAddr,
        request_id: &HeaderValue,
        trace: Trace,
        head: &Parts,
    ) -> Self {
        let cookies = console.cookies();
        let session = cookie(&head.headers, cookies.session(), is_token);
        let device = cookie(&head.headers, cookies.device(), is_token);
        let [shown, kept, refused] = [cookies.shown(), cookies.kept(), cookies.refused()]
            .map(|name| cookie(&head.headers, name, is_text).map(str::to_owned));
        let known = cookie(&head.headers, cookies.form(), |form| form.len() == FORM_LENGTH && is_token(form));
        let is_new = session.is_none() && known.is_none();
        let form = known.map_or_else(|| random(console), str::to_owned);
        let user_agent = head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        Self {
            console: Arc::clone(console),
            session: session.map(str::to_owned),
            device: device.map(str::to_owned),
            shown,
            kept,
            refused,
            outcome: Arc::default(),
            is_refused: false,
            address,
            request_id: request_id.clone(),
            trace,
            user_agent: user_agent.map(|name| name.chars().take(MAX_USER_AGENT).collect()),
            path: head.uri.path_and_query().map_or(HOME, |path| path.as_str()).to_owned(),
            form,
            is_new,
            is_own: is_own(head, console),
        }
    }

    pub(crate) fn core(&self) -> &Services {
        &self.console.core
    }

    /// The token that every form must carry. Pages of other sites do not know it.
    pub(crate) fn csrf(&self) -> String {
        hex::encode(self.mac().finalize().into_bytes())
    }

    /// Checks a form's token in constant time.
    pub(super) fn accepts(&self, csrf: &str) -> bool {
        hex::decode(csrf).is_ok_and(|tag| self.mac().verify_slice(&tag).is_ok())
    }

    /// Names a form that does its work once, by the token in it; none for a form without one. Tokens are request ids,
    /// which logs have. The session's part of the name is in no log and no store, so nobody derives a key from them.
    pub(crate) fn once(&self, token: &str) -> Option<String> {
        (!token.is_empty()).then(|| format!("{token}/{}", self.csrf()))
    }

    /// The key is the session's token, even of a session that has ended. So a sign-in invalidates earlier form tokens.
    /// Visitors without a session use their form cookie as the key.
    fn mac(&self) -> Hmac<Sha256> {
        self.mac_of(b"console form")
    }

    /// A MAC for a purpose, with the key of [`Visit::mac`].
    pub(super) fn mac_of(&self, purpose: &[u8]) -> Hmac<Sha256> {
        let key = self.session.as_deref().unwrap_or(&self.form);
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(purpose);
        mac
    }

    /// The id of the user whose session the browser has. The session may have ended.
    pub(super) fn session_user(&self) -> Option<&str> {
        let (user, _) = self.session.as_deref()?.strip_prefix("ses_")?.rsplit_once('_')?;
        Some(user)
    }

    /// A call of core on behalf of the session's user. A visitor without a session sends an empty token, which core
    /// refuses: a call without any token would count as an operator's.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let token = self.session.as_deref().unwrap_or_default();
        let mut token = HeaderValue::try_from(token).expect("a token is printable");
        token.set_sensitive(true);
        let mut request = self.anonymous(message);
        request.metadata_mut().as_mut().insert(SESSION, token);
        request
    }

    /// A call of core for methods that need no session.
    pub(crate) fn anonymous<T>(&self, message: T) -> Request<T> {
        self.trusted(message, None)
    }

    /// A call of a public service on behalf of the session's user, in an environment of a project.
    pub(crate) fn request_in<T>(&self, project_id: &str, live: bool, message: T) -> Request<T> {
        let token = self.session.clone().unwrap_or_default().into();
        self.trusted(message, Some(MemberSession { token, project_id: project_id.to_owned(), live }))
    }

    fn trusted<T>(&self, message: T, member: Option<MemberSession>) -> Request<T> {
        let mut extensions = Extensions::new();
        extensions.insert(Trusted {
            client_address: Some(self.address),
            request_id: Some(self.request_id.clone()),
            trace: Some(self.trace),
            malformed: false,
            member,
            renders: false,
            line: None,
        });
        Request::from_parts(MetadataMap::new(), extensions, message)
    }

    /// Makes a change in core. While the page of a refused form is rendered, it fails as it did for the form instead,
    /// and never polls `call`.
    pub(crate) async fn change<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        if self.is_refused {
            // Without an error, core was not called: the handler refused the form for a reason that has since passed.
            let unsent = || ApiError::new(ErrorCode::ValidationFailed, "the form was not sent; send it again");
            let refusal = self.outcome().and_then(|outcome| outcome.as_ref().err());
            return Err(refusal.cloned().unwrap_or_else(unsent).to_status(""));
        }
        let answer = call.await;
        // A form asks for one change.
        let _ = self.outcome.set(answer.as_ref().map(|_| ()).map_err(ApiError::from_status));
        answer
    }

    /// The outcome of the change that this form asks of core; none if core was not asked.
    pub(super) fn outcome(&self) -> Option<&Result<(), ApiError>> {
        self.outcome.get()
    }

    /// The visit in which the page of a form is rendered that core refused with this error.
    pub(super) fn of_refused(&self, refusal: Option<ApiError>) -> Self {
        let outcome = Arc::new(refusal.map_or_else(OnceLock::new, |refusal| OnceLock::from(Err(refusal))));
        Self { outcome, is_refused: true, ..self.clone() }
    }

    /// Sets the cookie that guards forms for a new visitor.
    pub(super) fn new_form_cookie(&self, cookies: Cookies) -> Option<HeaderValue> {
        cookies.set(cookies.form(), &self.form).filter(|_| self.is_new)
    }
}

fn random(console: &Console) -> String {
    let mut bytes = [0; FORM_LENGTH / 2];
    console.ids.fill(&mut bytes);
    hex::encode(bytes)
}

/// False if the request names an origin other than this service.
fn is_own(head: &Parts, console: &Console) -> bool {
    let host = head.uri.authority().map(|authority| authority.as_str());
    let host = host.or_else(|| head.headers.get(HOST).and_then(|value| value.to_str().ok()));
    let is_host = |origin: &str| {
        let plain = || origin.strip_prefix("http://").filter(|_| !console.is_secure);
        let named = origin.strip_prefix("https://").or_else(plain);
        named.is_some_and(|named| host.is_some_and(|host| named.eq_ignore_ascii_case(host)))
    };
    let own = console.public_url.as_str();
    let mut origins = head.headers.get_all(ORIGIN).iter();
    origins.all(|origin| origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(own) || is_host(origin)))
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().expect("every request that reaches a page has its visit"))
    }
}

/// A visit with a valid session.
pub(crate) struct SignedIn {
    pub(crate) visit: Visit,
    pub(crate) account: v1::GetAccountResponse,
    /// The projects that the page has read, for the frame around it.
    pub(crate) projects: OnceLock<Vec<v1::Project>>,
}

impl SignedIn {
    /// Finds the user of a visit; none if nobody is signed in.
    pub(crate) async fn find(visit: Visit) -> Result<Option<Self>, Failed> {
        if visit.session.is_none() {
            return Ok(None);
        }
        match visit.core().accounts.get_account(visit.request(v1::GetAccountRequest {})).await {
            Ok(answer) => Ok(Some(Self { visit, account: answer.into_inner(), projects: OnceLock::new() })),
            Err(status) => match Failed::from(status) {
                Failed::SignIn(_) => Ok(None),
                failed => Err(failed),
            },
        }
    }

    pub(crate) fn core(&self) -> &Services {
        self.visit.core()
    }

    /// A call of core on behalf of the user.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        self.visit.request(message)
    }

    /// As [`Visit::change`].
    pub(crate) async fn change<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        self.visit.change(call).await
    }

    /// The user's membership of an organization. For others the organization counts as missing.
    pub(crate) fn membership(&self, organization_id: &str) -> Result<&v1::Membership, Failed> {
        let is_it = |row: &&v1::Membership| row.organization.as_ref().is_some_and(|found| found.id == organization_id);
        self.account.memberships.iter().find(is_it).ok_or_else(Failed::missing)
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.account.user.as_ref().is_some_and(|user| user.administrator)
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.account.user.as_ref().is_some_and(|user| user.email_confirmed_at.is_some())
    }

    pub(crate) fn email(&self) -> &str {
        self.account.user.as_ref().map_or("", |user| &user.email)
    }
}

impl<S: Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let Ok(visit) = Visit::from_request_parts(parts, state).await;
        // The sign-in cannot return to a posted form.
        let next = if parts.method.is_safe() { visit.path.clone() } else { String::new() };
        Self::find(visit).await?.ok_or(Failed::SignIn(next))
    }
}

/// A visit of an administrator. For others the page counts as missing.
pub(crate) struct Administrator(pub(crate) SignedIn);

impl<S: Sync> FromRequestParts<S> for Administrator {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let signed_in = SignedIn::from_request_parts(parts, state).await?;
        if signed_in.is_administrator() { Ok(Self(signed_in)) } else { Err(Failed::missing()) }
    }
}
