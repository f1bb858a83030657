use super::*;
use crate::v1::routes;

fn site() -> Site {
    Site::new("https://data.test", 1_795_442_700_123)
}

fn page(id: &str) -> Page {
    let path = path_of(id);
    pages(&site()).into_iter().find(|page| page.path == path).unwrap()
}

#[test]
fn every_operation_has_a_page_and_a_row() {
    let pages = pages(&site());
    let overview = &pages[0];
    for route in routes() {
        let page = pages.iter().find(|page| page.path == path_of(route.id)).unwrap();
        assert!(overview.body.contains(&format!("<li id=\"{0}\"><a href=\"/docs/reference/{0}\">", route.id)));
        assert!(!page.summary.is_empty(), "{}", route.id);
        for parameter in route.query.iter().chain(route.body.unwrap_or_default()) {
            // The ticket is described with the keys.
            let is_shown = page.body.contains(&format!("<code>{}</code>", parameter.name));
            assert!(is_shown || parameter.name == "ticket", "{} has no {}", route.id, parameter.name);
        }
        for code in route.fails {
            assert!(
                page.body.contains(&format!("href=\"/docs/errors#{}\"", code.as_str().to_lowercase())),
                "{}",
                route.id
            );
        }
        assert!(!page.body.contains('`'), "{} shows a backtick: {}", route.id, page.body);
        assert!(!page.aside.is_empty(), "{}", route.id);
    }
    for event in ["onThesisCreated", "onTokenActivity", "onWebhookTest"] {
        assert!(pages.iter().any(|page| page.path == path_of(event)), "{event}");
    }
}

#[test]
fn fields_have_the_order_of_the_response() {
    let page = page("getThesis");
    let place = |text: &str| page.markdown.find(text).unwrap_or_else(|| panic!("no {text} in {}", page.markdown));
    let names = ["object", "profile", "profile.id", "token.symbol", "text", "livemode"];
    let keys = ["object", "id", "profile", "handle", "symbol", "text", "livemode"];
    for list in [names.map(|name| format!("- `{name}` ")).to_vec(), keys.map(|key| format!("\"{key}\":")).to_vec()] {
        let places: Vec<_> = list.iter().map(|text| place(text)).collect();
        assert!(places.is_sorted(), "{list:?} at {places:?}");
    }
    let markdown = &page.markdown;
    assert!(markdown.contains("- `likes` *integer"), "{markdown}");
    assert!(markdown.contains("- `object` *text* Always `thesis`.\n"), "{markdown}");
}

#[test]
fn a_request_can_be_copied() {
    let page = page("createWebhook");
    for line in [
        "curl -X POST \"https://data.test/v1/webhooks\" \\\n  -H \"Authorization: Bearer svc_test_…\" \\\n",
        "  -d '{\n  \"url\": \"https://example.com/hooks/theses\",\n",
        "response = httpx.post(\n    \"https://data.test/v1/webhooks\",\n",
        "    json={\n      \"url\": \"https://example.com/hooks/theses\",\n",
        "  method: \"POST\",\n  headers: { Authorization: \"Bearer svc_test_…\", ",
        "\n`POST /v1/webhooks`\n",
    ] {
        assert!(page.markdown.contains(line), "{line} in {}", page.markdown);
    }
    // Optional fields come after those of the example, and required ones say so.
    assert!(page.markdown.contains("- `url` *text, 1 to 2048 characters, required* "), "{}", page.markdown);
    assert!(page.body.contains("data-method=\"POST\" data-path=\"/v1/webhooks\""));
    let search = self::page("listTheses");
    assert!(search.body.contains("data-place=\"query\" data-name=\"limit\"") && !search.body.contains("<textarea"));
    // A key is not sent to operations that need none.
    assert!(!self::page("listLogKeys").body.contains("try-key"));
}

#[test]
fn streams_have_frames_and_messages() {
    let events = page("streamEvents");
    assert!(events.body.contains("data-stream") && events.markdown.contains("### `stream.gap`"), "{}", events.markdown);
    assert!(events.markdown.contains("(https://data.test/docs/reference/onThesisCreated.md)"), "{}", events.markdown);
    let socket = page("openWebSocket");
    assert_eq!(socket.title, "Open WebSocket");
    assert!(
        socket.markdown.contains("### subscribe\n") && socket.markdown.contains("### heartbeat\n"),
        "{}",
        socket.markdown
    );
    // A form cannot open a WebSocket.
    assert!(!socket.body.contains("class=\"try\""));
}

#[test]
fn an_event_is_described_as_it_arrives() {
    let page = page("onThesisCreated");
    assert_eq!(page.title, "thesis.created");
    for text in ["- `data.thesis_id` ", "- `Service-Signature` *text, required* ", "\"type\": \"thesis.created\""] {
        assert!(page.markdown.contains(text), "{text} in {}", page.markdown);
    }
}
