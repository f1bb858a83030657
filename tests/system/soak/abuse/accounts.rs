//! Attacks on accounts and on the queue of passwords, by the console's forms as any stranger can send them. Each comes
//! from one address, and goes on until it is dropped.

use reqwest::{Method, RequestBuilder};

use super::target::Target;
use crate::harness::Client;

/// Forms at once: more than a network may have passwords in the queue.
const FORMS_AT_ONCE: usize = 16;
const SIGN_IN: &str = "/console/sign-in";

/// A browser without a session.
struct Visitor {
    client: Client,
    cookie: String,
    csrf: String,
}

impl Visitor {
    /// A browser at a new address, for which no limit has counted anything yet.
    async fn open(target: &Target) -> Self {
        let client = Client::new(&target.http, None);
        let answer = client.request(Method::GET, SIGN_IN).send().await.unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let page = answer.text().await.unwrap();
        let (_, csrf) = page.split_once("name=\"csrf\" value=\"").expect("a form with its token");
        let csrf = csrf.split('"').next().unwrap().to_owned();
        Self { client, cookie, csrf }
    }

    fn form(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.append_pair("csrf", &self.csrf).extend_pairs(fields).finish();
        let request = self.client.request(Method::POST, path).header("cookie", &self.cookie);
        request.header("content-type", "application/x-www-form-urlencoded").body(body)
    }
}

/// Guesses the password of the customer's account.
pub(super) async fn wrong_passwords(target: Target) {
    let visitor = Visitor::open(&target).await;
    let guess = |number: u64| {
        let password = format!("not the right password {number}");
        visitor.form(SIGN_IN, &[("email", &target.victim), ("password", &password)])
    };
    target.keep_sending(FORMS_AT_ONCE, guess).await;
}

/// Guesses one password of many accounts.
pub(super) async fn wrong_passwords_of_many(target: Target) {
    let visitor = Visitor::open(&target).await;
    let guess = |number: u64| {
        let email = format!("person{number}@many.example");
        visitor.form(SIGN_IN, &[("email", &email), ("password", "not the right password")])
    };
    target.keep_sending(FORMS_AT_ONCE, guess).await;
}

/// Signs in to the attacker's own account.
pub(super) async fn right_password(target: Target) {
    let visitor = Visitor::open(&target).await;
    let (email, password) = &target.account;
    target
        .keep_sending(FORMS_AT_ONCE, |_: u64| visitor.form(SIGN_IN, &[("email", email), ("password", password)]))
        .await;
}

/// Requests links for a new password of the customer's account.
pub(super) async fn password_links(target: Target) {
    let visitor = Visitor::open(&target).await;
    let request = |_: u64| visitor.form("/console/forgot", &[("email", &target.victim)]);
    target.keep_sending(FORMS_AT_ONCE, request).await;
}

/// Signs up again and again.
pub(super) async fn sign_ups(target: Target) {
    let visitor = Visitor::open(&target).await;
    let sign_up = |number: u64| {
        let email = format!("new{number}@many.example");
        let fields = [("email", email.as_str()), ("password", "correct horse battery"), ("organization_name", "Many")];
        visitor.form("/console/sign-up", &fields)
    };
    target.keep_sending(FORMS_AT_ONCE, sign_up).await;
}
