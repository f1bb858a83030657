//! Cookies, and the form tokens that depend on them.

use super::*;

#[tokio::test]
async fn cookies_of_others_beside_its_own_do_no_harm() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (cookie, token) = visitor(&edge).await;
    let body = format!("email=a&password=right&csrf={token}");
    for others in ["city=Zürich; ", "form=00; ", "form=; session=%20bad; ", "form; "] {
        let mut request = post("/console/sign-in", "", &body);
        let cookie = http::HeaderValue::from_bytes(format!("{others}{cookie}").as_bytes()).unwrap();
        request.headers_mut().insert("cookie", cookie);
        assert_eq!(ask(&edge, request).await.0, StatusCode::SEE_OTHER, "{others}");
    }
}

#[tokio::test]
async fn cookies_are_for_this_host_alone() {
    for (url, prefix, secure) in [("http://edge.test", "", ""), ("https://edge.test", "__Host-", "; Secure")] {
        let core = core();
        let edge = edge(&core, url);
        let (_, headers, _) = get(&edge, "/console/sign-in", "").await;
        let set = headers["set-cookie"].to_str().unwrap();
        let (pair, bounds) = set.split_once("; ").unwrap();
        let value = pair.strip_prefix(&format!("{prefix}form=")).unwrap();
        assert!(value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
        assert_eq!(bounds, format!("Path=/; HttpOnly; SameSite=Lax{secure}"));
        // The cookie stays.
        let (cookie, token) = visitor(&edge).await;
        let (_, headers, page) = get(&edge, "/console/sign-in", &cookie).await;
        assert!(!headers.contains_key("set-cookie"));
        assert_eq!(csrf(&page), token);

        let body = format!("email=a&password=right&csrf={token}");
        let (_, headers, _) = ask(&edge, post("/console/sign-in", &cookie, &body)).await;
        let expected = format!("{prefix}session={SESSION}; Path=/; HttpOnly; SameSite=Lax{secure}");
        assert_eq!(headers["set-cookie"], expected);

        let session = format!("{prefix}session={SESSION}");
        let (status, headers, page) = get(&edge, "/console/account", &session).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        assert!(!headers.contains_key("set-cookie"));
        let body = format!("csrf={}", csrf(&page));
        let (_, headers, _) = ask(&edge, post("/console/sign-out", &session, &body)).await;
        let expected = format!("{prefix}session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{secure}");
        assert_eq!(headers["set-cookie"], expected);
        let seen = core.seen.lock();
        let out = seen.iter().find(|seen| seen.operation == "AccountService/SignOut").unwrap();
        assert_eq!(out.headers["x-session"], SESSION);
        assert_eq!(out.headers["x-client-address"], "192.0.2.1");
        assert!(out.headers["x-session"].is_sensitive());
    }
}

#[tokio::test]
async fn a_form_cookie_that_another_host_of_the_domain_could_set_is_none() {
    let core = core();
    let edge = edge(&core, "https://edge.test");
    // An attacker plants a cookie and its token in another person's browser.
    let (cookie, token) = visitor(&edge).await;
    let body = format!("email=a&password=right&csrf={token}");
    for prefix in ["", "__Secure-"] {
        let planted = cookie.replace("__Host-", prefix);
        assert_ne!(planted, cookie);
        let (status, ..) = ask(&edge, post("/console/sign-in", &planted, &body)).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{planted}");
        let (_, headers, page) = get(&edge, "/console/sign-in", &planted).await;
        assert!(headers["set-cookie"].to_str().unwrap().starts_with("__Host-form="), "{planted}");
        assert_ne!(csrf(&page), token);
    }
    assert_eq!(calls(&core, "AccountService/SignIn"), 0);
}

#[tokio::test]
async fn a_session_that_ended_keys_the_forms_until_the_next_sign_in() {
    let core = FakeCore::new(|operation, message| match operation {
        "AccountService/GetAccount" => {
            Err(ApiError::new(ErrorCode::SignInRequired, "sign in to go on").to_status("req_core"))
        }
        _ => answer(operation, message),
    });
    let edge = edge(&core, "http://edge.test");
    let (form, of_form) = visitor(&edge).await;
    let both = format!("session=ses_usr_1_ended; {form}");
    let (_, _, page) = get(&edge, "/console/sign-in", &both).await;
    let of_session = csrf(&page);
    assert_ne!(of_session, of_form);
    let sign_in = async |token: &str| {
        let body = format!("email=a&password=right&csrf={token}");
        ask(&edge, post("/console/sign-in", &both, &body)).await.0
    };
    assert_eq!(sign_in(&of_form).await, StatusCode::FORBIDDEN);
    assert_eq!(sign_in(of_session).await, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_sign_in_beside_a_session_needs_the_token_of_that_session() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (form, of_form) = visitor(&edge).await;
    let both = format!("{form}; session={SESSION}");
    let (_, _, page) = get(&edge, "/console/sign-in", &both).await;
    let (_, _, of_another) = get(&edge, "/console/sign-in", &format!("{form}; session=ses_usr_2_x")).await;
    let sign_in = async |token: &str| {
        let body = format!("email=a&password=right&csrf={token}");
        ask(&edge, post("/console/sign-in", &both, &body)).await.0
    };
    assert_eq!(sign_in(&of_form).await, StatusCode::FORBIDDEN);
    assert_eq!(sign_in(csrf(&of_another)).await, StatusCode::FORBIDDEN);
    assert_eq!(calls(&core, "AccountService/SignIn"), 0);
    assert_eq!(sign_in(csrf(&page)).await, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_token_from_before_a_sign_in_is_worth_nothing_after_it() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (form, token) = visitor(&edge).await;
    let body = format!("email=a&password=right&csrf={token}");
    let (status, headers, _) = ask(&edge, post("/console/sign-in", &form, &body)).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    let session = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    let both = format!("{form}; {session}");
    let (status, ..) = ask(&edge, post("/console/sign-out", &both, &format!("csrf={token}"))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(calls(&core, "AccountService/SignOut"), 0);
    let (_, _, page) = get(&edge, "/console/account", &both).await;
    let (status, ..) = ask(&edge, post("/console/sign-out", &both, &format!("csrf={}", csrf(&page)))).await;
    assert_eq!((status, calls(&core, "AccountService/SignOut")), (StatusCode::SEE_OTHER, 1));
}
