use std::collections::BTreeSet;

use serde_json::Value;
use thesis_proto::error::ErrorCode;

use super::*;
use crate::v1::routes;

/// Maximum number of words, without code, of a page that leads to a first program.
const MAX_WORDS: usize = 800;

fn built() -> (Site, Menu, Vec<page::Page>) {
    let site = Site::new("https://data.test", 1_795_442_700_123);
    let menu = menu(&site);
    let mut pages = guides::pages(&site);
    pages.extend(grpc::pages(&site));
    pages.extend(reference::pages(&site));
    pages.push(guides::home(&site, &pages));
    (site, menu, pages)
}

#[test]
fn the_search_has_every_page_operation_and_error() {
    let (_, menu, pages) = built();
    let index: Vec<Value> = serde_json::from_slice(&search::index(&menu, &pages)).unwrap();
    let paths: BTreeSet<_> = index.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths.len(), index.len(), "a part is there twice");
    for page in &pages {
        assert!(paths.contains(&*page.path), "{}", page.path);
    }
    for route in routes() {
        let path = site::path_of(route.id);
        let entry = index.iter().find(|entry| entry["path"] == path.as_str()).unwrap();
        let text = entry["text"].as_str().unwrap();
        assert!(text.contains(route.id) && text.contains(&route.path.replace("{*", "{")), "{text}");
        assert_eq!(entry["section"], "Reference");
    }
    for code in ErrorCode::ALL {
        let path = format!("/docs/errors#{}", code.as_str().to_lowercase());
        let entry = index.iter().find(|entry| entry["path"] == path.as_str()).unwrap();
        assert_eq!(entry["part"], code.as_str());
        assert!(!entry["text"].as_str().unwrap().is_empty(), "{path}");
    }
    let operate = index.iter().find(|entry| entry["path"] == "/docs/deploy").unwrap();
    assert_eq!(operate["section"], "Operate");
}

#[test]
fn users_and_operators_have_their_own_menus() {
    let (_, menu, pages) = built();
    let page = |path: &str| pages.iter().find(|page| page.path == path).unwrap().html(&menu, "https://data.test");
    let menu_of = |html: &str| {
        let (_, rest) = html.split_once("id=\"pages\"").unwrap();
        rest.split_once("</nav>").unwrap().0.to_owned()
    };
    let guides = menu_of(&page("/docs/quick-start"));
    assert!(guides.contains("href=\"/docs/webhooks\"") && !guides.contains("href=\"/docs/deploy\""), "{guides}");
    let operate = menu_of(&page("/docs/deploy"));
    assert!(
        operate.contains("aria-current=\"page\">Deploy") && !operate.contains("href=\"/docs/webhooks\""),
        "{operate}"
    );
    let reference = menu_of(&page("/docs/reference/getThesis"));
    assert!(reference.contains("href=\"/docs/reference/listTheses\""), "{reference}");
    assert!(reference.contains("href=\"/docs/reference/getThesis\" aria-current=\"page\""), "{reference}");
    // A page of a proto file is in no menu, but below gRPC.
    assert!(menu_of(&page("/docs/grpc/thesis_service")).contains("href=\"/docs/errors\""));
}

#[test]
fn no_fragment_is_in_a_page_twice() {
    let (_, menu, pages) = built();
    for page in pages {
        let html = page.html(&menu, "https://data.test");
        let ids: Vec<_> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{}: {ids:?}", page.path);
    }
}

#[test]
fn a_page_leads_to_its_neighbours() {
    let (_, menu, _) = built();
    let paths = |path: &str| {
        let (before, after) = menu.neighbours(path);
        (before.map(|link| link.path.clone()), after.map(|link| link.path.clone()))
    };
    let some = |path: &str| Some(path.to_owned());
    assert_eq!(paths("/docs/quick-start"), (None, some("/docs/keys-and-environments")));
    assert_eq!(paths("/docs/sandbox"), (some("/docs/keys-and-environments"), some("/docs/sdks")));
    assert_eq!(paths("/docs/simulation").1, None);
    assert_eq!(paths("/docs"), (None, None));
}

#[test]
fn a_newcomer_reads_little_before_a_first_program_works() {
    let (_, _, pages) = built();
    let words = |text: &str| text.split_whitespace().count();
    for path in ["/docs/quick-start", "/docs/streams", "/docs/webhooks"] {
        let page = pages.iter().find(|page| page.path == path).unwrap();
        let parts = page.parts.iter().map(|part| words(&part.title) + words(&part.text));
        let count = words(&page.title) + words(&page.intro) + parts.sum::<usize>();
        // The page has its program. The lower limit fails if parts of the text are not counted.
        assert!(
            page.body.contains("<code class=\"python\">") && (400..=MAX_WORDS).contains(&count),
            "{path}: {count} words"
        );
    }
}

#[test]
fn every_page_is_markdown_too() {
    let documents = documents("https://data.test", 0);
    let pages: Vec<_> = documents.keys().filter(|path| !path.contains('.')).collect();
    assert!(pages.len() > 60, "{pages:?}");
    for path in pages {
        assert!(documents.contains_key(&format!("{path}.md")), "{path}");
    }
    let (_, _, pages) = built();
    for page in pages {
        assert!(page.markdown.starts_with(&format!("# {}\n", page.title)), "{}: {:.80}", page.path, page.markdown);
        assert!(!page.markdown.contains("{{"), "a placeholder is left in {}", page.path);
    }
    assert!(documents.contains_key(LLMS) && covers(LLMS) && covers("/docs.md") && !covers("/docsx"));
}
