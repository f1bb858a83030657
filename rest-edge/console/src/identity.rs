//! The pages of a user's identity: sign-up, sign-in, one-time links and the account.

mod account;
mod again;
mod confirm;
mod factor_form;
mod factors;
mod forgot;
mod links;
mod sign_in;
mod sign_up;

use askama::Template;
use axum::{
    Router,
    response::Response,
    routing::{get, post},
};
use http::{StatusCode, header::SET_COOKIE};
use thesis_proto::{error::ApiError, v1};

use super::{
    HOME, Page,
    failure::{Failed, see_other},
    kept,
    view::{Layout, render},
    visit::{SignedIn, Visit},
};

pub(super) fn routes() -> Router {
    Router::new()
        .route(HOME, get(home))
        .route("/console/sign-up", get(sign_up::show).post(sign_up::send))
        .route("/console/sign-in", get(sign_in::show).post(sign_in::send))
        .route(sign_in::FACTOR, get(sign_in::show_factor).post(sign_in::send_factor))
        .route(kept::CONFIRM, get(confirm::show).post(confirm::send))
        .route(kept::AGAIN, get(again::show))
        .route("/console/sign-out", post(sign_in::sign_out).get(home))
        .route("/console/forgot", get(forgot::show).post(forgot::send))
        .route("/console/links/{token}", get(links::show).post(links::send))
        .route("/console/account", get(account::show).post(account::change_password))
        .route("/console/account/confirmation", post(account::send_confirmation).get(account::to_account))
        .route("/console/account/sessions/{id}/revoke", post(account::revoke).get(account::to_account))
        .route("/console/account/devices/{id}/forget", post(account::forget).get(account::to_account))
        .route(factors::PATH, get(factors::show))
        .route(factors::TOTP, get(factors::show_totp).post(factors::add_totp))
        .route(factors::NEW_TOTP, post(factors::begin_totp).get(factors::to_factors))
        .route(factors::PASSKEY, get(factors::show_passkey).post(factors::add_passkey))
        .route(factors::CODES, get(factors::show_codes).post(factors::create_codes))
        .route("/console/account/factors/{id}/remove", get(factors::ask_to_remove).post(factors::remove))
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    layout: Layout,
}

/// Redirects to the only organization of a user, or shows the choice of several. Users without one create one.
async fn home(signed_in: SignedIn) -> Page {
    let organizations: Vec<_> =
        signed_in.account.memberships.iter().filter_map(|row| row.organization.as_ref()).collect();
    match organizations[..] {
        [] if signed_in.is_administrator() => Ok(see_other("/console/administration")),
        [] => Ok(see_other("/console/organizations/new")),
        [one] => Ok(see_other(&format!("/console/organizations/{}", one.id))),
        _ => {
            render(StatusCode::OK, &HomePage { layout: Layout::of(&signed_in, "Your organizations", "organizations") })
        }
    }
}

/// The response that starts a session: it sets the cookies of the session and of the device, and redirects to `next`.
fn start_session(visit: &Visit, session: Option<&v1::NewSession>, next: &str) -> Page {
    let cookies = visit.console.cookies();
    let cookie = session.and_then(|session| cookies.set(cookies.session(), &session.token));
    let cookie = cookie.ok_or_else(|| Failed::from(ApiError::internal()))?;
    let mut response = see_other(next);
    response.headers_mut().insert(SET_COOKIE, cookie);
    let device = session.filter(|session| !session.device.is_empty());
    if let Some(cookie) = device.and_then(|session| cookies.set_device(&session.device)) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// The response that ends a session. The device cookie stays.
fn end_session(visit: &Visit, next: &str) -> Response {
    let cookies = visit.console.cookies();
    let mut response = see_other(next);
    for name in [cookies.session(), cookies.shown(), cookies.kept(), cookies.refused()] {
        response.headers_mut().append(SET_COOKIE, cookies.end(name));
    }
    response
}

/// True if a path has a segment that leads upwards.
fn leads_up(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
    path.split('/').any(|part| part == "." || part == "..")
}

/// The path to open after the sign-in. It always is a page of the console, whatever the link contains.
fn safe_next(next: Option<&str>) -> &str {
    let is_safe = |next: &&str| {
        let rest = next.strip_prefix(HOME);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            && !next.contains("//")
            && !leads_up(next)
            && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    next.filter(is_safe).unwrap_or(HOME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_console_come_next() {
        for next in ["/console", "/console/projects/prj_1?days=7", "/console?done=a"] {
            assert_eq!(safe_next(Some(next)), next);
        }
        for next in [
            "/console/../v1/me",
            "/console/%2E%2e/v1/me",
            "",
            "/",
            "/v1/me",
            "https://evil.test/console",
            "//evil.test",
            "/console//evil.test",
            "/consolex",
            "/console/\\evil.test",
            "/console/\r\nset-cookie:a",
            "/console@evil.test",
        ] {
            assert_eq!(safe_next(Some(next)), HOME, "{next}");
        }
        assert_eq!(safe_next(None), HOME);
    }
}
