//! What has no page, what is asked wrongly, and who sees nothing.

use thesis_proto::v1::Role;

use super::{Explorer, question};
use crate::harness::{Service, iso, now_ms, text};

on_both_stores![what_is_not_there_has_no_page, wrong_questions_are_named, others_see_nothing];

async fn what_is_not_there_has_no_page(service: &Service) {
    let (explorer, other) = (Explorer::new(service).await, Explorer::new(service).await);
    let theirs = text(&other.client.thesis("theirs", "THEIRS", "x").await.0, "id").to_owned();
    other.open(&format!("/theses/{theirs}")).await.is(200);
    let long = "x".repeat(300);
    let unknown = explorer.open("/theses/th_nothing").await.is(404).without_request();
    for page in [
        &*format!("/theses/{theirs}"),
        "/profiles/theirs",
        "/tokens/THEIRS",
        "/profiles/nobody",
        "/tokens/NOTHING",
        "/nothing",
        &*format!("/profiles/{long}"),
        &*format!("/tokens/{long}"),
        "/tokens/%ff",
        "/tokens/%00",
    ] {
        assert_eq!(explorer.open(page).await.is(404).without_request(), unknown, "{page}");
    }
    explorer.browser.get(&explorer.path("").replace("/test/", "/other/")).await.is(404);
}

async fn wrong_questions_are_named(service: &Service) {
    let explorer = Explorer::new(service).await;
    for (page, query, wrong) in [
        ("", "q=%22open", "q"),
        ("/theses", "created_after=soon", "created_after"),
        ("/theses", "created_after=2026-11-23T14:05&created_before=2026-11-23T14:04", "created_before"),
        ("/theses", "token=RUN&created_before=never", "created_before"),
        ("/verify", "token=", "handle"),
        ("/verify", "handle=a&profile_id=b&token=RUN&created_after=2026-11-23", "handle"),
        ("/verify", "handle=a&token=RUN", "created_after"),
        ("/verify", "handle=a&token=RUN&created_after=x", "created_after"),
        // Repeated ones, and those of lists that cannot be chosen.
        ("/theses", "token=RUN&token=RUN", "token"),
        ("/theses", "sort=bogus", "sort"),
        ("", "q=x&types=bogus", "types"),
        ("", "sort=bogus", "sort"),
    ] {
        let answer = explorer.open(&format!("{page}?{query}")).await.is(422);
        let form = question(&answer, &explorer.path(page));
        let field = form.field(wrong);
        assert!(field.is_wrong && !field.description.is_empty(), "{query}: {answer}");
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            // Lists show what can be chosen; the fields of times show the seconds too.
            let shown = &form.field(&name).value;
            assert!(value == "bogus" || shown.starts_with(&*value), "{query}: {shown}");
        }
    }
    for page in ["/theses?created_after=1999-01-01", "/verify?handle=a&token=RUN&created_after=1999-01-01"] {
        explorer.open(page).await.is(403).says("history reaches");
    }
    let wrong = explorer.open("/theses?cursor=wrong").await.is(400);
    question(&wrong, &explorer.path("/theses"));
    explorer.open(&format!("/theses?cursor={}", "x".repeat(5_000))).await.is(422).says("Cursor: must");
    // A bound that was understood stays in its field.
    let page = explorer.open(&format!("/theses?created_after={}", iso(now_ms() - 60_000))).await.is(200);
    let shown = question(&page, &explorer.path("/theses")).field("created_after").value.clone();
    assert_eq!(shown.len(), "2026-11-23T14:05:00".len(), "{shown}");
}

async fn others_see_nothing(service: &Service) {
    let explorer = Explorer::new(service).await;
    let viewer = service.member(&explorer.owner, &explorer.organization, Role::Viewer).await;
    let (outsider, _) = service.owner().await;
    let [viewer, outsider] = [viewer, outsider].map(|person| service.browser_of(&person));
    for page in ["", "/theses", "/profiles/sbx_runner", "/tokens/RUN", "/verify"] {
        let path = explorer.path(page);
        viewer.get(&path).await.is(200);
        outsider.get(&path).await.is(404);
        let answer = service.browser().get(&path).await.is(303);
        assert!(answer.location().unwrap().starts_with("/console/sign-in?next="), "{answer}");
        // Live data needs an approval.
        explorer.browser.get(&path.replace("/test/", "/live/")).await.is(403);
    }
}
