//! A refused form redirects to its page, which the edge renders without the change.

use thesis_proto::error::FieldError;

use super::*;

const NEW: &str = "/console/organizations/new";

/// A core whose user has so many organizations that no cookie can carry a page. It refuses to create another.
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
