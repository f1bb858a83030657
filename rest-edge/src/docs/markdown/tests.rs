use super::*;

fn body(text: &str) -> Page {
    page("/docs/test", text, &Site::new("https://data.test", 0))
}

#[test]
fn title_summary_and_parts_are_known() {
    let page = body("# A *title*\n\nFirst `line`\nand more.\n\nRest.\n\n## What & why?\n\n## What & why?\n");
    assert_eq!((&*page.title, &*page.summary), ("A title", "First line and more."));
    let ids: Vec<_> = page.parts.iter().map(|part| &*part.id).collect();
    assert_eq!(ids, ["what--why", "what--why-1"]);
    assert!(page.body.contains("<h2 id=\"what--why\">What &amp; why?"), "{}", page.body);
    assert!(!page.body.contains("<h1"));
}

#[test]
fn links_between_files_lead_to_pages() {
    for (target, path) in [
        ("errors.md#invalid_request", "/docs/errors#invalid_request"),
        ("../capacity.md", "/docs/capacity"),
        ("/docs/reference", "/docs/reference"),
        ("#part", "#part"),
        ("https://example.com/a.md", "https://example.com/a.md"),
    ] {
        assert_eq!(linked(target), path);
    }
}

#[test]
fn an_error_code_has_its_facts() {
    let page = body("# Errors\n\n## `INVALID_CURSOR`\n\nWhy.\n");
    assert!(page.body.contains("<h2 id=\"invalid_cursor\"><code>INVALID_CURSOR</code>"), "{}", page.body);
    assert!(
        page.body
            .contains("HTTP <code>400</code>, type <code>invalid_request</code>, gRPC <code>InvalidArgument</code>")
    );
}

#[test]
fn code_in_several_languages_is_one_block_with_a_choice() {
    let page = body(
        "# T\n\n```sh\ncurl <{{api_url}}>\n```\n```python stream\nx = 1\n```\n```json\n{}\n```\n\nText.\n\n\
         ```sh\n```\n",
    );
    assert_eq!(page.body.matches("<fieldset").count(), 1);
    assert_eq!(page.body.matches("<pre").count(), 4);
    assert!(page.body.contains("><span class=\"k\">curl</span> &lt;https://data.test&gt;\n</code>"), "{}", page.body);
    assert!(page.body.contains("value=\"python\"") && page.body.contains("<code class=\"json\">{}\n</code>"));
    assert_eq!(page.body.matches("checked").count(), 1);
}

#[test]
fn tables_scroll_and_have_no_style() {
    let page = body("# T\n\n|  | n |\n|---|---:|\n| a | 1 |\n");
    assert!(
        page.body.contains("tabindex=\"0\"><table><thead><tr><td></td><th class=\"number\">n</th>"),
        "{}",
        page.body
    );
    assert!(page.body.contains("<td class=\"number\">1</td>") && !page.body.contains("style="));
}

#[test]
fn markup_in_a_file_stays_text() {
    assert!(body("# T\n\nA <b>bold</b> word.\n\n<script>\n").body.contains("A &lt;b&gt;bold&lt;/b&gt; word."));
    assert!(!body("# T\n\n<script>alert()</script>\n").body.contains("<script"));
}

#[test]
fn operations_and_errors_are_links() {
    let page = body(
        "# T\n\n`GET /v1/theses?limit=2`, `GET /v1/tokens/RUN`, `POST /v1/theses`, `GET` and `RATE_LIMITED`.\n\n\
         | a |\n|---|\n| `DELETE /v1/webhooks/{id}` |\n\n[`GET /v1/me`](sandbox.md)\n",
    );
    for link in [
        "<a href=\"/docs/reference/listTheses\"><code>GET /v1/theses?limit=2</code></a>",
        "<a href=\"/docs/reference/getToken\"><code>GET /v1/tokens/RUN</code></a>",
        "<code>POST /v1/theses</code>, <code>GET</code> and <a href=\"/docs/errors#rate_limited\"><code>",
        "<td><a href=\"/docs/reference/deleteWebhook\"><code>DELETE /v1/webhooks/{id}</code></a></td>",
        "<a href=\"/docs/sandbox\"><code>GET /v1/me</code></a>",
    ] {
        assert!(page.body.contains(link), "{link} in {}", page.body);
    }
}

#[test]
fn an_error_lists_its_operations_if_they_are_few() {
    let page = body("# Errors\n\n## `THESIS_NOT_FOUND`\n\nWhy.\n\n## `RATE_LIMITED`\n\nWhy.\n");
    assert!(page.body.contains("<a href=\"/docs/reference/getThesis\">getThesis</a>"), "{}", page.body);
    assert_eq!(page.body.matches("Operations: ").count(), 1);
}

#[test]
fn the_text_of_each_part_is_kept_for_the_search() {
    let page = body(
        "# T\n\nIntro `code`.\n\n## A\n\nOne\ntwo.\n\n```sh\nhidden\n```\n\n### B\n\n| x | y |\n|---|---|\n| u | v |\n",
    );
    assert_eq!(page.intro.trim(), "Intro code.");
    let parts: Vec<_> = page.parts.iter().map(|part| (&*part.title, part.is_inner, part.text.trim())).collect();
    assert_eq!(parts, [("A", false, "One two."), ("B", true, "x y u v")]);
}

#[test]
fn markdown_is_published_with_complete_links() {
    let page = body(
        "# T\n\nAt {{api_url}}: [a](errors.md#invalid_cursor), [b](../capacity.md), [c](/console), [d](#part), \
         [e](/v1/openapi.json).\n",
    );
    let links = "[a](https://data.test/docs/errors.md#invalid_cursor), [b](https://data.test/docs/capacity.md), \
                 [c](https://data.test/console), [d](#part), [e](https://data.test/v1/openapi.json)";
    assert!(page.markdown.contains(links) && page.markdown.contains("At https://data.test:"), "{}", page.markdown);
}
