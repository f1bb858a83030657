//! A browser without JavaScript: it keeps cookies, follows redirects, and fills in the forms that it finds.

mod form;
mod page;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Method, header::HeaderMap, redirect::Policy};

pub(crate) use self::{form::Form, page::Page};
use super::{
    Person, Service,
    client::{http_client, new_address},
};

/// How often a busy service is asked again.
const TRIES: u32 = 90;
/// Most redirects that one step may lead over.
const MAX_REDIRECTS: usize = 5;

/// What a request tells of the page that it comes from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// A page of the service.
    Here,
    /// Another one, or `null`.
    Other(&'a str),
    /// Nothing, as old browsers do.
    Untold,
}

/// A person's browser, at an address of its own.
pub(crate) struct Browser {
    http: reqwest::Client,
    /// Where its requests go, in turn.
    edges: Vec<String>,
    next: AtomicUsize,
    cookies: Mutex<BTreeMap<String, String>>,
    /// The service's URL as people know it, if it is not the edge's own.
    public_url: Option<String>,
    /// The browser's address as the edge sees it.
    pub(crate) address: String,
    /// How it names itself.
    pub(crate) user_agent: String,
}

impl Service {
    /// A browser of nobody yet.
    pub(crate) fn browser(&self) -> Browser {
        Browser {
            http: http_client().redirect(Policy::none()).build().unwrap(),
            edges: self.edges.clone(),
            next: AtomicUsize::new(0),
            cookies: Mutex::default(),
            public_url: None,
            address: new_address(),
            user_agent: "Mozilla/5.0 (tests)".to_owned(),
        }
    }

    /// A browser with a person's session.
    pub(crate) fn browser_of(&self, person: &Person) -> Browser {
        let browser = Browser { address: person.address.clone(), ..self.browser() };
        browser.set_cookie("session", person.session.as_deref().unwrap());
        browser
    }
}

impl Browser {
    /// The same where people know the service by another URL than its edge's own.
    pub(crate) fn at(self, public_url: &str) -> Self {
        Self { public_url: Some(public_url.to_owned()), ..self }
    }

    /// The secret of the session in its cookie.
    pub(crate) fn session(&self) -> Option<String> {
        let cookies = self.cookies.lock().unwrap();
        cookies.get("session").or_else(|| cookies.get("__Host-session")).cloned()
    }

    /// The names of its cookies.
    pub(crate) fn cookie_names(&self) -> Vec<String> {
        self.cookies.lock().unwrap().keys().cloned().collect()
    }

    /// Changes a cookie.
    pub(crate) fn set_cookie(&self, name: &str, value: &str) {
        self.cookies.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }

    /// Takes what an answer sets, and checks the attributes.
    fn keep(&self, headers: &HeaderMap) {
        for cookie in headers.get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            let mut parts = cookie.split(';').map(str::trim);
            let (name, value) = parts.next().unwrap().split_once('=').unwrap();
            let attributes: Vec<String> = parts.map(str::to_ascii_lowercase).collect();
            let has = |attribute: &str| attributes.iter().any(|one| one == attribute);
            assert!(has("httponly") && has("samesite=lax") && has("path=/"), "{cookie}");
            assert!(!attributes.iter().any(|one| one.starts_with("domain")), "{cookie}");
            let is_secure = self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"));
            assert_eq!(has("secure"), is_secure, "{cookie}");
            let plain = name.strip_prefix("__Host-").unwrap_or(name);
            assert!(["session", "form", "device", "shown", "kept", "refused"].contains(&plain), "{cookie}");
            assert_eq!(name != plain, is_secure, "{cookie}");
            let mut cookies = self.cookies.lock().unwrap();
            if value.is_empty() || has("max-age=0") {
                cookies.remove(name);
            } else {
                let has_form = match plain {
                    "session" => value.starts_with("ses_"),
                    "device" => value.starts_with("dev_") && has("max-age=7776000"),
                    "shown" => has("max-age=600"),
                    "refused" => has("max-age=60"),
                    "kept" => value.starts_with("usr_") && has("max-age=900"),
                    _ => value.len() >= 32,
                };
                assert!(has_form, "{cookie}");
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<String>, origin: Origin<'_>) -> Page {
        let edge = &self.edges[self.next.fetch_add(1, Ordering::Relaxed) % self.edges.len()];
        let mut request = self.http.request(method, format!("{edge}{path}"));
        request = request.header("x-forwarded-for", &self.address).header("user-agent", &self.user_agent);
        request = request.header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
        let cookies: Vec<String> =
            self.cookies.lock().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
            request = match origin {
                Origin::Here => request.header("origin", self.public_url.as_ref().unwrap_or(edge)),
                Origin::Other(origin) => request.header("origin", origin),
                Origin::Untold => request,
            };
        }
        let response = request.send().await.unwrap();
        self.keep(response.headers());
        Page::read(path, response).await
    }

    /// Asks for a page, and follows no redirect.
    pub(crate) async fn get(&self, path: &str) -> Page {
        self.send(Method::GET, path, None, Origin::Untold).await
    }

    /// Asks for a page.
    pub(crate) async fn open(&self, path: &str) -> Page {
        self.follow(self.get(path).await).await
    }

    /// Sends fields, which no page may have asked for, and follows no redirect but that of a refused form to its page.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)], origin: Origin<'_>) -> Page {
        self.post_body(path, form::encode(fields.iter().copied()), origin).await
    }

    async fn post_body(&self, path: &str, body: String, origin: Origin<'_>) -> Page {
        let answer = self.send(Method::POST, path, Some(body), origin).await;
        let is_refused = self.cookie_names().iter().any(|name| name.ends_with("refused"));
        match answer.location().filter(|_| is_refused) {
            Some(location) => self.get(&location).await,
            None => answer,
        }
    }

    /// Goes where an answer leads.
    pub(crate) async fn follow(&self, answer: Page) -> Page {
        let mut answer = answer;
        for _ in 0..MAX_REDIRECTS {
            match answer.location() {
                Some(location) => answer = self.get(&location).await,
                None => return answer,
            }
        }
        panic!("too many redirects, the last to {}", answer.path)
    }

    /// Sends a form, and follows no redirect. It sends it again while the service is busy with other people's passwords.
    pub(crate) async fn answer(&self, form: &Form) -> Page {
        for _ in 0..TRIES {
            let answer = if form.is_post {
                self.post_body(&form.action, form.body(), Origin::Here).await
            } else {
                let path = form.action.split('?').next().unwrap_or_default();
                self.get(&format!("{path}?{}", form.body())).await
            };
            if answer.status != 503 {
                return answer;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("the service stays busy")
    }

    /// Sends a form.
    pub(crate) async fn submit(&self, form: &Form) -> Page {
        let answer = self.answer(form).await;
        // What is sent again when somebody reloads the page must change nothing.
        assert!(answer.location().is_none() || answer.status == 303, "{answer}");
        self.follow(answer).await
    }

    /// The hidden token of its forms.
    pub(crate) async fn csrf(&self) -> String {
        let page = self.open(if self.session().is_some() { "/console/account" } else { "/console/sign-in" }).await;
        page.csrf()
    }

    /// Signs up; gives the page that it leads to.
    pub(crate) async fn sign_up(&self, email: &str, password: &str, organization: &str) -> Page {
        let page = self.open("/console/sign-up").await;
        let form = page.form("/console/sign-up");
        let form = form.fill("email", email).fill("password", password).fill("organization_name", organization);
        self.submit(&form).await
    }

    /// Signs in; gives the page that it leads to.
    pub(crate) async fn sign_in(&self, email: &str, password: &str) -> Page {
        let page = self.open("/console/sign-in").await;
        self.submit(&page.form("/console/sign-in").fill("email", email).fill("password", password)).await
    }

    /// Whether it shows its person's account.
    pub(crate) async fn is_signed_in(&self) -> bool {
        let answer = self.get("/console/account").await;
        match answer.location() {
            None => {
                assert_eq!(answer.status, 200, "{answer}");
                true
            }
            Some(location) => {
                assert!(location.starts_with("/console/sign-in"), "{location}");
                false
            }
        }
    }
}
