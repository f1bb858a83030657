//! The user's second factors: authenticator app, passkeys and recovery codes.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use qrcodegen::{QrCode, QrCodeEcc};
use serde::{Deserialize, Serialize};
use thesis_proto::v1;

use super::factor_form::bytes;
use crate::{
    Page,
    failure::see_other,
    form::{Faults, NoFields, Posted},
    page_query::{PageQuery, encoded},
    question::Question,
    shown,
    view::{Layout, render},
    visit::SignedIn,
};

pub(super) const PATH: &str = "/console/account/factors";
pub(super) const TOTP: &str = "/console/account/factors/app";
pub(super) const NEW_TOTP: &str = "/console/account/factors/app/new";
pub(super) const PASSKEY: &str = "/console/account/factors/passkey";
pub(super) const CODES: &str = "/console/account/factors/codes";

const DONE: [(&str, &str); 3] = [
    ("added", "The second factor is added. From now on a sign-in needs one."),
    ("removed", "The second factor is removed."),
    ("over", "That took too long. Start again."),
];

#[derive(Template)]
#[template(path = "factors.html")]
struct FactorsPage {
    layout: Layout,
    factors: v1::ListFactorsResponse,
}

impl FactorsPage {
    fn has_factor(&self) -> bool {
        self.factors.totp_since.is_some() || !self.factors.passkeys.is_empty()
    }
}

pub(super) async fn show(signed_in: SignedIn, query: PageQuery) -> Page {
    let request = signed_in.request(v1::ListFactorsRequest {});
    let factors = signed_in.core().accounts.list_factors(request).await?.into_inner();
    let layout = Layout::of(&signed_in, "Second factors", "account").with_notice(query.text("done"), &DONE);
    render(StatusCode::OK, &FactorsPage { layout, factors })
}

/// Redirects a reload of a form that failed to the page with the form.
pub(super) async fn to_factors(_: SignedIn) -> Page {
    Ok(see_other(PATH))
}

/// The secret of a new authenticator app.
#[derive(Serialize, Deserialize)]
struct NewTotp {
    secret: String,
    uri: String,
}

#[derive(Template)]
#[template(path = "factor_app.html")]
struct TotpPage {
    layout: Layout,
    faults: Faults,
    secret: String,
    uri: String,
    /// The side of the code in dots, with its margin.
    side: i32,
    /// The dark dots as a path.
    dots: String,
}

/// Draws a QR code: its side in dots, and the dark dots as a path of SVG.
fn draw(text: &str) -> (i32, String) {
    /// Width of the light margin around the code, in dots.
    const MARGIN: i32 = 4;
    let Ok(code) = QrCode::encode_text(text, QrCodeEcc::Medium) else { return (0, String::new()) };
    let places = (0..code.size()).flat_map(|y| (0..code.size()).map(move |x| (x, y)));
    let dark = places.filter(|(x, y)| code.get_module(*x, *y));
    let dots = dark.map(|(x, y)| format!("M{} {}h1v1h-1z", x + MARGIN, y + MARGIN)).collect();
    (code.size() + 2 * MARGIN, dots)
}

pub(super) async fn begin_totp(signed_in: SignedIn, Posted(NoFields {}): Posted<NoFields>) -> Page {
    let request = signed_in.request(v1::BeginTotpRequest {});
    let v1::BeginTotpResponse { secret, uri } =
        signed_in.change(signed_in.core().accounts.begin_totp(request)).await?.into_inner();
    shown::show(&signed_in.visit, TOTP, &NewTotp { secret, uri })
}

fn totp_page(signed_in: &SignedIn, faults: Faults) -> Page {
    let Some(NewTotp { secret, uri }) = shown::read(&signed_in.visit) else {
        return Ok(see_other(&format!("{PATH}?done=over")));
    };
    let (side, dots) = draw(&uri);
    let layout = Layout::of(signed_in, "Authenticator app", "account");
    render(faults.status(), &TotpPage { layout, faults, secret, uri, side, dots })
}

pub(super) async fn show_totp(signed_in: SignedIn) -> Page {
    totp_page(&signed_in, Faults::none())
}

#[derive(Deserialize)]
pub(super) struct CodeForm {
    #[serde(default)]
    code: String,
}

pub(super) async fn add_totp(signed_in: SignedIn, Posted(form): Posted<CodeForm>) -> Page {
    let request = signed_in.request(v1::AddTotpRequest { code: form.code });
    match signed_in.change(signed_in.core().accounts.add_totp(request)).await {
        Ok(answer) => finish(&signed_in, answer.into_inner().recovery_codes),
        Err(status) => totp_page(&signed_in, Faults::of(&status)?),
    }
}

/// Recovery codes, separated by spaces.
#[derive(Serialize, Deserialize)]
struct RecoveryCodes {
    codes: String,
}

/// Shows new recovery codes, or the factors if there are none.
fn finish(signed_in: &SignedIn, codes: Vec<String>) -> Page {
    if codes.is_empty() {
        return Ok(see_other(&format!("{PATH}?done=added")));
    }
    shown::show(&signed_in.visit, CODES, &RecoveryCodes { codes: codes.join(" ") })
}

#[derive(Template)]
#[template(path = "factor_codes.html")]
struct CodesPage {
    layout: Layout,
    codes: Vec<String>,
}

pub(super) async fn show_codes(signed_in: SignedIn) -> Page {
    let Some(RecoveryCodes { codes }) = shown::read(&signed_in.visit) else { return Ok(see_other(PATH)) };
    let codes = codes.split(' ').map(str::to_owned).collect();
    let layout = Layout::of(&signed_in, "Recovery codes", "account");
    render(StatusCode::OK, &CodesPage { layout, codes })
}

pub(super) async fn create_codes(signed_in: SignedIn, Posted(NoFields {}): Posted<NoFields>) -> Page {
    let request = signed_in.request(v1::CreateRecoveryCodesRequest {});
    let answer = signed_in.change(signed_in.core().accounts.create_recovery_codes(request)).await?.into_inner();
    finish(&signed_in, answer.recovery_codes)
}

#[derive(Template)]
#[template(path = "factor_passkey.html")]
struct PasskeyPage {
    layout: Layout,
    faults: Faults,
    name: String,
    email: String,
    challenge: String,
    host: String,
    /// The user's handle in hex.
    handle: String,
    /// The ids of the user's passkeys in hex, separated by commas.
    known: String,
}

async fn passkey_page(signed_in: &SignedIn, name: String, faults: Faults) -> Page {
    let request = signed_in.request(v1::BeginPasskeyRequest {});
    let begun = signed_in.core().accounts.begin_passkey(request).await?.into_inner();
    let page = PasskeyPage {
        layout: Layout::of(signed_in, "Add a passkey", "account"),
        name,
        email: signed_in.email().to_owned(),
        challenge: begun.challenge,
        host: begun.host,
        handle: hex::encode(&begun.user_handle),
        known: begun.known.iter().map(hex::encode).collect::<Vec<_>>().join(","),
        faults,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn show_passkey(signed_in: SignedIn) -> Page {
    passkey_page(&signed_in, String::new(), Faults::none()).await
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PasskeyForm {
    name: String,
    challenge: String,
    client_data: String,
    authenticator_data: String,
}

pub(super) async fn add_passkey(signed_in: SignedIn, Posted(form): Posted<PasskeyForm>) -> Page {
    let message = v1::AddPasskeyRequest {
        challenge: form.challenge,
        name: form.name.clone(),
        client_data: bytes(&form.client_data),
        authenticator_data: bytes(&form.authenticator_data),
    };
    match signed_in.change(signed_in.core().accounts.add_passkey(signed_in.request(message))).await {
        Ok(answer) => finish(&signed_in, answer.into_inner().recovery_codes),
        Err(status) => passkey_page(&signed_in, form.name, Faults::of(&status)?).await,
    }
}

/// Asks before a second factor is removed.
pub(super) async fn ask_to_remove(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    let request = signed_in.request(v1::ListFactorsRequest {});
    let factors = signed_in.core().accounts.list_factors(request).await?.into_inner();
    let passkey = factors.passkeys.iter().find(|passkey| passkey.id == id).map(|passkey| &passkey.name);
    let title = match passkey {
        Some(name) => format!("Remove the passkey {name}?"),
        None if id == "totp" && factors.totp_since.is_some() => "Remove the authenticator app?".to_owned(),
        None => return Ok(see_other(PATH)),
    };
    let is_last = factors.passkeys.len() + usize::from(factors.totp_since.is_some()) == 1;
    let consequence = if is_last {
        "It is your last second factor. From then on a sign-in needs the password alone, and your recovery codes end."
    } else {
        "It no longer proves that it is you. Your other second factors and the recovery codes stay."
    };
    let question = Question {
        layout: Layout::of(&signed_in, &title, "account"),
        consequence: consequence.to_owned(),
        action: format!("{PATH}/{}/remove", encoded(&id)),
        button: "Remove the second factor",
        name: None,
        reason: None,
        back: PATH.to_owned(),
        faults: Faults::none(),
    };
    question.ask()
}

pub(super) async fn remove(signed_in: SignedIn, Path(id): Path<String>, Posted(NoFields {}): Posted<NoFields>) -> Page {
    signed_in
        .change(signed_in.core().accounts.remove_factor(signed_in.request(v1::RemoveFactorRequest { id })))
        .await?;
    Ok(see_other(&format!("{PATH}?done=removed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_drawn_within_its_margin() {
        let (side, dots) = draw("otpauth://totp/Trade%20Thesis:ada%40example%2Ecom?secret=GEZDGNBVGY3TQOJQ");
        assert!(side > 29 && dots.starts_with("M4 4h1v1h-1zM5 4h1v1h-1z"), "{side} {dots}");
        assert_eq!(draw(&"a".repeat(10_000)), (0, String::new()));
    }
}
