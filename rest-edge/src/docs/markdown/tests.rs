use super::*;

fn body(text: &'static str) -> Page {
    page("/docs/test", text, "https://data.test")
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
        "# T\n\n```sh\ncurl <{{api_url}}>\n```\n```python stream\nx = 1\n```\n```json\n{}\n```\n\nText.\n\n```sh\n```\n",
    );
    assert_eq!(page.body.matches("<fieldset").count(), 1);
    assert_eq!(page.body.matches("<pre").count(), 4);
    assert!(page.body.contains("<code class=\"sh\">curl &lt;https://data.test&gt;\n</code>"), "{}", page.body);
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
