//! A refused form redirects to its page, which the edge renders without the change.

use std::sync::atomic::{AtomicBool, Ordering};

use thesis_proto::error::FieldError;

use super::*;

const NEW: &str = "/console/organizations/new";

/// A core whose user has more organizations than fit into a cookie. It refuses to create another one.
fn full_core() -> Arc<FakeCore> {
    FakeCore::new(|operation, message| match operation {
        "AccountService/CreateOrganization" => {
            Err(ApiError::validation(&[FieldError::new("name", "must be another")]).to_status("req_core"))
        }
        "AccountService/GetAccount" => {
            let membership = |number: u32| {
                let name = format!("{:08x}", number.wrapping_mul(2_654_435_761));
                let organization = v1::Organization { id: format!("org_{name}"), name, ..Default::default() };
                v1::Membership { organization: Some(organization), ..Default::default() }
            };
            let user = v1::User { id: "usr_1".into(), email: "ada@example.com".into(), ..Default::default() };
            let memberships = (0..1_000).map(membership).collect();
            reply(v1::GetAccountResponse { user: Some(user), memberships, ..Default::default() })
        }
        _ => answer(operation, message),
    })
}

/// The cookie that a response sets.
fn cookie(headers: &HeaderMap) -> &str {
    headers["set-cookie"].to_str().unwrap().split(';').next().unwrap()
}

#[tokio::test]
async fn a_page_of_any_size_shows_a_refused_form() {
    let core = full_core();
    let edge = edge(&core, "http://edge.test");
    let session = format!("session={SESSION}");
    let (_, _, page) = get(&edge, NEW, &session).await;
    let body = format!("csrf={}&name=%3Ctyped%3E", csrf(&page));
    let (status, headers, _) = ask(&edge, post(NEW, &session, &body)).await;
    assert_eq!((status, headers["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, NEW));
    let (status, ended, page) = get(&edge, NEW, &format!("{session}; {}", cookie(&headers))).await;
    assert_eq!((status, cookie(&ended)), (StatusCode::UNPROCESSABLE_ENTITY, "refused="));
    assert!(page.contains("Must be another.") && page.contains("value=\"&#60;typed&#62;\""), "{page}");
    assert_eq!(calls(&core, "AccountService/CreateOrganization"), 1);
}

#[tokio::test]
async fn a_form_without_a_cookie_is_answered_by_its_page() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (cookie, token) = visitor(&edge).await;
    let long: String = (0..4_000_u32).map(|number| (number * 7_919 % 65_537).to_string()).collect();
    let body = |email: &str| format!("email={email}&password=wrong&csrf={token}");
    let (status, headers, page) = ask(&edge, post("/console/sign-in", &cookie, &body(&long))).await;
    assert!(status == StatusCode::UNAUTHORIZED && page.contains(&long) && !headers.contains_key("set-cookie"));
    // Nor does a script's form redirect, which the browser's history does not have.
    let mut request = post("/console/sign-in", &cookie, &body("ada"));
    request.headers_mut().insert("x-script", "alerts".parse().unwrap());
    let (status, headers, _) = ask(&edge, request).await;
    assert!(status == StatusCode::UNAUTHORIZED && !headers.contains_key("set-cookie"));
}

const FORGET: &str = "/console/account/devices/dev_1/forget";

/// A core that answers a call with an error.
fn core_with(failing: &'static str, code: ErrorCode) -> Arc<FakeCore> {
    FakeCore::new(move |operation, message| {
        if operation == failing {
            Err(ApiError::new(code, "no").to_status("req_core"))
        } else {
            answer(operation, message)
        }
    })
}

#[tokio::test]
async fn a_page_with_an_error_is_behind_a_redirect_too() {
    let session = format!("session={SESSION}");
    for code in [ErrorCode::RouteNotFound, ErrorCode::InsufficientRole] {
        let core = core_with("AccountService/ForgetDevice", code);
        let edge = edge(&core, "http://edge.test");
        let (_, _, page) = get(&edge, "/console/account", &session).await;
        let (status, headers, _) = ask(&edge, post(FORGET, &session, &format!("csrf={}", csrf(&page)))).await;
        assert_eq!((status, headers["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, FORGET), "{code:?}");
        let (status, ended, _) = get(&edge, FORGET, &format!("{session}; {}", cookie(&headers))).await;
        assert_eq!((status.as_u16(), cookie(&ended)), (code.http_status(), "refused="));
        assert_eq!(calls(&core, "AccountService/ForgetDevice"), 1);
        // A reload afterwards finds the page of the form.
        assert_eq!(get(&edge, FORGET, &session).await.1["location"], "/console/account");
    }
    // After a failure of the service, a reload tries again.
    let edge = edge(&core_with("AccountService/ForgetDevice", ErrorCode::ServiceUnavailable), "http://edge.test");
    let (_, _, page) = get(&edge, "/console/account", &session).await;
    let (status, headers, _) = ask(&edge, post(FORGET, &session, &format!("csrf={}", csrf(&page)))).await;
    assert!(status == StatusCode::SERVICE_UNAVAILABLE && !headers.contains_key("set-cookie"), "{status}");
}

/// A core that refuses each new organization, and a switch that ends the session.
fn ending_core() -> (Arc<FakeCore>, Arc<AtomicBool>) {
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let core = FakeCore::new(move |operation, message| match operation {
        "AccountService/GetAccount" if ended.load(Ordering::Relaxed) => {
            Err(ApiError::new(ErrorCode::SignInRequired, "sign in to go on").to_status("req_core"))
        }
        "AccountService/CreateOrganization" => {
            Err(ApiError::validation(&[FieldError::new("name", "must be another")]).to_status("req_core"))
        }
        _ => answer(operation, message),
    });
    (core, has_ended)
}

#[tokio::test]
async fn a_refused_form_outlives_its_session() {
    let (core, has_ended) = ending_core();
    let edge = edge(&core, "http://edge.test");
    let session = format!("session={SESSION}");
    let (_, _, page) = get(&edge, NEW, &session).await;
    let (_, headers, _) = ask(&edge, post(NEW, &session, &format!("csrf={}&name=Typed", csrf(&page)))).await;
    has_ended.store(true, Ordering::Relaxed);
    let (_, headers, _) = get(&edge, NEW, &format!("{session}; {}", cookie(&headers))).await;
    assert_eq!(headers["location"], "/console/sign-in?next=%2Fconsole%2Fagain");
    let kept = cookie(&headers);
    assert!(kept.starts_with("kept=usr_1.") && kept.ends_with("name=Typed"), "{kept}");
}

#[tokio::test]
async fn a_kept_form_has_no_values_of_headers() {
    let (core, has_ended) = ending_core();
    let edge = edge(&core, "http://edge.test");
    let session = format!("session={SESSION}");
    let (_, _, page) = get(&edge, "/console/account", &session).await;
    has_ended.store(true, Ordering::Relaxed);
    let body = format!("csrf={}&url=https%3A%2F%2Fa.test&headers=X-Key%3A+4711&signature=4711", csrf(&page));
    let (_, headers, _) = ask(&edge, post("/console/projects/prj_1/test/webhooks", &session, &body)).await;
    let kept = cookie(&headers);
    assert!(kept.starts_with("kept=usr_1.") && !kept.contains("4711"), "{kept}");
    has_ended.store(false, Ordering::Relaxed);
    let (status, _, page) = get(&edge, "/console/again", &format!("{session}; {kept}")).await;
    assert!(status == StatusCode::OK && page.contains("https://a.test"), "{page}");
    // The form has one field of this name, and the page asks for its value.
    assert!(page.contains("<textarea id=\"headers\"") && page.matches("name=\"headers\"").count() == 1, "{page}");
}
