//! Who asks for a page.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::extract::FromRequestParts;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue,
    header::{COOKIE, HOST, ORIGIN, USER_AGENT},
    request::Parts,
};
use sha2::Sha256;
use thesis_net::{
    services::{MemberSession, Trusted},
    trace::Trace,
};
use thesis_proto::{metadata, v1};
use tonic::{Request, metadata::MetadataMap};

use super::{Console, HOME, view::Failed};

const SESSION: HeaderName = HeaderName::from_static(metadata::SESSION);
/// Most characters of a browser's name that core is told.
const MAX_USER_AGENT: usize = 300;
/// Most bytes of a session's token.
const MAX_SESSION: usize = 256;
/// Seconds for which a browser keeps the token by which core knows it: 90 days, as core does.
const DEVICE_SECONDS: u32 = 7_776_000;
/// Characters of the cookie that guards the forms of visitors.
const FORM_LENGTH: usize = 32;

/// How the console's cookies are named and bound. With https their names begin with `__Host-`: a browser then takes them
/// from this very host by https alone, so no other host of the domain can plant one. The prefix demands the path `/`.
#[derive(Clone, Copy)]
pub(crate) struct Cookies {
    /// Whether browsers send them by https only.
    pub(super) is_secure: bool,
}

impl Cookies {
    /// The name of the cookie with the session's token.
    pub(crate) const fn session(self) -> &'static str {
        if self.is_secure { "__Host-session" } else { "session" }
    }

    /// The name of the cookie that guards the forms of visitors without a session.
    const fn form(self) -> &'static str {
        if self.is_secure { "__Host-form" } else { "form" }
    }

    /// The header that sets a cookie until the browser closes; none when the value cannot travel in one.
    pub(crate) fn set(self, name: &str, value: &str) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}");
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// The name of the cookie by which core knows a browser where its user has signed in before.
    pub(crate) const fn device(self) -> &'static str {
        if self.is_secure { "__Host-device" } else { "device" }
    }

    /// The header that keeps the device's token beyond the session; none when it cannot travel in a cookie.
    pub(crate) fn set_device(self, token: &str) -> Option<HeaderValue> {
        let until_closed = self.set(self.device(), token)?;
        let text = format!("{}; Max-Age={DEVICE_SECONDS}", until_closed.to_str().ok()?);
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// The header that takes the session's cookie away.
    pub(crate) fn end_session(self) -> HeaderValue {
        let (name, secure) = (self.session(), if self.is_secure { "; Secure" } else { "" });
        let text = format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::try_from(text).expect("it is ASCII")
    }
}

/// A request for a page: who asks, from where.
#[derive(Clone)]
pub(crate) struct Visit {
    /// The session's token, if the browser sent one. It may have ended.
    pub(crate) session: Option<String>,
    /// The token of the device, if the browser sent one. Only core knows whether it is good.
    pub(crate) device: Option<String>,
    /// The address of the client.
    pub(crate) address: IpAddr,
    /// The request's id.
    pub(crate) request_id: HeaderValue,
    /// Where the request stands in its trace.
    pub(crate) trace: Trace,
    /// The browser.
    pub(crate) user_agent: Option<String>,
    /// The path and query of the request.
    pub(crate) path: String,
    /// The cookie that guards the forms of visitors.
    form: String,
    /// Whether the browser does not have that cookie yet.
    is_new: bool,
    /// Whether a page of this service sent it, as far as it tells.
    pub(super) is_own: bool,
}

impl Visit {
    pub(super) fn new(
        console: &Console,
        address: IpAddr,
        request_id: &HeaderValue,
        trace: Trace,
        head: &Parts,
    ) -> Self {
        let cookies = console.cookies();
        let session = cookie(&head.headers, cookies.session(), is_token);
        let device = cookie(&head.headers, cookies.device(), is_token);
        let known = cookie(&head.headers, cookies.form(), |form| form.len() == FORM_LENGTH && is_token(form));
        let is_new = session.is_none() && known.is_none();
        let form = known.map_or_else(|| random(console), str::to_owned);
        let user_agent = head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        Self {
            session: session.map(str::to_owned),
            device: device.map(str::to_owned),
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

    /// The token that every form must carry: its pages know it, those of other sites do not.
    pub(crate) fn csrf(&self) -> String {
        hex::encode(self.mac().finalize().into_bytes())
    }

    /// Whether a form's token is right, in a time that does not tell how wrong it is.
    pub(super) fn accepts(&self, csrf: &str) -> bool {
        hex::decode(csrf).is_ok_and(|told| self.mac().verify_slice(&told).is_ok())
    }

    /// Names a form that does its work once, by the token in it; none for a form without one. Tokens are request ids, which
    /// logs have. The session's part of the name is in no log and no store, so nobody derives a key from them.
    pub(crate) fn once(&self, token: &str) -> Option<String> {
        (!token.is_empty()).then(|| format!("{token}/{}", self.csrf()))
    }

    /// The session's token keys it, also that of a session that has ended. So a token from before a sign-in is worth
    /// nothing after it. Only visitors without a session have the key of their form cookie.
    fn mac(&self) -> Hmac<Sha256> {
        let key = self.session.as_deref().unwrap_or(&self.form);
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(b"console form");
        mac
    }

    /// A call of core in the name of the session's user. Without a session it has an empty one, which core refuses: a call
    /// with none at all would be an operator's.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let token = self.session.as_deref().unwrap_or_default();
        let mut token = HeaderValue::try_from(token).expect("a token is printable");
        token.set_sensitive(true);
        let mut request = self.anonymous(message);
        request.metadata_mut().as_mut().insert(SESSION, token);
        request
    }

    /// A call of core in nobody's name, for methods that need no session.
    pub(crate) fn anonymous<T>(&self, message: T) -> Request<T> {
        self.trusted(message, None)
    }

    /// A call of a public service in the name of the session's user, in an environment of a project.
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
        });
        Request::from_parts(MetadataMap::new(), extensions, message)
    }

    /// The header that gives a new visitor the cookie that guards forms.
    pub(super) fn new_form_cookie(&self, cookies: Cookies) -> Option<HeaderValue> {
        cookies.set(cookies.form(), &self.form).filter(|_| self.is_new)
    }
}

/// The first value of a cookie that can be one. Those of other applications beside it may be anything.
fn cookie<'a>(headers: &'a HeaderMap, name: &str, is_one: impl Fn(&str) -> bool) -> Option<&'a str> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let mut texts = pairs.filter_map(|pair| std::str::from_utf8(pair.trim_ascii()).ok()?.split_once('='));
    texts.find_map(|(key, value)| (key == name && is_one(value)).then_some(value))
}

/// Whether a cookie's value may be a token.
fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_SESSION).contains(&text.len()) && text.bytes().all(is_letter)
}

fn random(console: &Console) -> String {
    let mut bytes = [0; FORM_LENGTH / 2];
    console.ids.fill(&mut bytes);
    hex::encode(bytes)
}

/// Whether a request that names its origin names this service.
fn is_own(head: &Parts, console: &Console) -> bool {
    let host = head.uri.authority().map(|authority| authority.as_str());
    let host = host.or_else(|| head.headers.get(HOST).and_then(|value| value.to_str().ok()));
    let is_host = |origin: &str| {
        let plain = || origin.strip_prefix("http://").filter(|_| !console.is_secure);
        let named = origin.strip_prefix("https://").or_else(plain);
        named.is_some_and(|named| host.is_some_and(|host| named.eq_ignore_ascii_case(host)))
    };
    // The public URL has no path.
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

/// A visit of somebody who is signed in.
pub(crate) struct SignedIn {
    /// The visit.
    pub(crate) visit: Visit,
    /// Who it is.
    pub(crate) account: v1::GetAccountResponse,
}

impl SignedIn {
    /// Who visits, if somebody is signed in.
    pub(crate) async fn find(console: &Console, visit: Visit) -> Result<Option<Self>, Failed> {
        if visit.session.is_none() {
            return Ok(None);
        }
        match console.core.accounts.get_account(visit.request(v1::GetAccountRequest {})).await {
            Ok(answer) => Ok(Some(Self { visit, account: answer.into_inner() })),
            Err(status) => match Failed::from(status) {
                Failed::SignIn(_) => Ok(None),
                failed => Err(failed),
            },
        }
    }

    /// The user's membership of an organization. To others it does not exist.
    pub(crate) fn membership(&self, organization_id: &str) -> Result<&v1::Membership, Failed> {
        let is_it = |row: &&v1::Membership| row.organization.as_ref().is_some_and(|found| found.id == organization_id);
        self.account.memberships.iter().find(is_it).ok_or_else(Failed::missing)
    }

    /// Whether the user administers the service.
    pub(crate) fn is_administrator(&self) -> bool {
        self.account.user.as_ref().is_some_and(|user| user.administrator)
    }

    /// True if the user's e-mail is confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.account.user.as_ref().is_some_and(|user| user.email_confirmed_at.is_some())
    }

    /// The user's e-mail.
    pub(crate) fn email(&self) -> &str {
        self.account.user.as_ref().map_or("", |user| &user.email)
    }
}

impl FromRequestParts<Arc<Console>> for SignedIn {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, console: &Arc<Console>) -> Result<Self, Failed> {
        let Ok(visit) = Visit::from_request_parts(parts, console).await;
        // A form that was posted is no page to come back to.
        let next = if parts.method.is_safe() { visit.path.clone() } else { String::new() };
        Self::find(console, visit).await?.ok_or(Failed::SignIn(next))
    }
}

/// A visit of an administrator. To others the page does not exist.
pub(crate) struct Administrator(pub(crate) SignedIn);

impl FromRequestParts<Arc<Console>> for Administrator {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, console: &Arc<Console>) -> Result<Self, Failed> {
        let signed_in = SignedIn::from_request_parts(parts, console).await?;
        if signed_in.is_administrator() { Ok(Self(signed_in)) } else { Err(Failed::missing()) }
    }
}
