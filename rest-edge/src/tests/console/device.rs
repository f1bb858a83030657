//! The cookie by which core knows a browser.

use prost::Message as _;

use super::*;

#[tokio::test]
async fn a_browser_stays_known_after_its_session() {
    for (url, prefix, secure) in [("http://edge.test", "", ""), ("https://edge.test", "__Host-", "; Secure")] {
        let core = core();
        let edge = edge(&core, url);
        let (form, token) = visitor(&edge).await;
        let body = format!("email=a&password=right&csrf={token}");
        let (_, headers, _) = ask(&edge, post("/console/sign-in", &form, &body)).await;
        let cookie = headers.get_all("set-cookie").iter().nth(1).unwrap().to_str().unwrap();
        let bounds = format!("Path=/; HttpOnly; SameSite=Lax{secure}; Max-Age=7776000");
        assert_eq!(cookie, format!("{prefix}device={DEVICE}; {bounds}"));

        // The end of the session keeps the cookie, and the next sign-in sends it.
        let device = format!("{prefix}device={DEVICE}");
        let session = format!("{prefix}session={SESSION}; {device}");
        let (_, _, page) = get(&edge, "/console/account", &session).await;
        let sign_out = post("/console/sign-out", &session, &format!("csrf={}", csrf(&page)));
        let (_, headers, _) = ask(&edge, sign_out).await;
        let ended: Vec<_> = headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap()).collect();
        assert!(!ended.is_empty() && ended.iter().all(|cookie| !cookie.contains("device")), "{ended:?}");
        ask(&edge, post("/console/sign-in", &format!("{form}; {device}"), &body)).await;
        let seen = core.seen.lock();
        let sign_ins = seen.iter().filter(|seen| seen.operation == "AccountService/SignIn");
        let devices: Vec<_> =
            sign_ins.map(|seen| v1::SignInRequest::decode(seen.message.clone()).unwrap().device).collect();
        assert_eq!(devices, [None, Some(DEVICE.to_owned())]);
    }
}
