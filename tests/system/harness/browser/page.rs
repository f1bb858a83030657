//! An answer to a browser. What holds for every answer and every page is checked in each.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use html5gum::{DefaultEmitter, Token, Tokenizer};
use reqwest::{Response, header::HeaderMap};

use super::form::{Field, Form};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Most bytes of a page.
const MAX_BYTES: usize = 80 * 1_024;
/// Elements without an end.
const VOID: &[&str] = &["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"];
/// Elements that the next one of their name ends.
const SELF_ENDING: &[&str] = &["dd", "dt", "li", "option", "p", "td", "th", "tr"];

/// An element with the text in it and below it.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    raw_text: String,
    /// Indices of the elements that it is in, the outermost first.
    parents: Vec<usize>,
}

impl Element {
    /// An attribute.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Its text, with single spaces.
    pub(crate) fn text(&self) -> String {
        self.raw_text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// A whole answer.
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) html: String,
    /// Where it was, with its query string.
    pub(crate) path: String,
    pub(crate) elements: Vec<Element>,
}

impl fmt::Display for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {:?} {}", self.path, self.status, self.headers, self.html)
    }
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn parse(html: &str) -> Vec<Element> {
    let mut emitter = DefaultEmitter::<()>::default();
    emitter.naively_switch_states(true);
    let (mut elements, mut open) = (Vec::<Element>::new(), Vec::<usize>::new());
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => {
                let name = utf8(&tag.name);
                if open.last().is_some_and(|last| elements[*last].name == name && SELF_ENDING.contains(&&*name)) {
                    open.pop();
                }
                let attributes = tag.attributes.iter().map(|(name, value)| (utf8(name), utf8(value))).collect();
                let has_end = !tag.self_closing && !VOID.contains(&&*name);
                elements.push(Element { name, attributes, raw_text: String::new(), parents: open.clone() });
                if has_end {
                    open.push(elements.len() - 1);
                }
            }
            Token::EndTag(tag) => {
                let name = utf8(&tag.name);
                let begun = open.iter().rposition(|index| elements[*index].name == name);
                open.truncate(begun.unwrap_or_else(|| panic!("</{name}> ends nothing in {html}")));
            }
            Token::String(text) => {
                let text = utf8(&text);
                for index in &open {
                    elements[*index].raw_text.push_str(&text);
                }
            }
            Token::Error(error) => panic!("{error:?} in {html}"),
            Token::Comment(_) | Token::Doctype(_) => {}
        }
    }
    elements
}

impl Page {
    pub(super) async fn read(path: &str, response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let html = response.text().await.unwrap();
        let mut page = Self { status, headers, html, path: path.to_owned(), elements: Vec::new() };
        if !path.starts_with("/console") {
            return page;
        }
        assert!(page.header("x-service-request-id").starts_with("req_"), "{page}");
        assert_eq!(page.header("content-security-policy"), POLICY, "{page}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{page}");
        assert_eq!(page.header("referrer-policy"), "same-origin", "{page}");
        // A script requests JSON, and the browser saves files.
        let is_file = page.headers.contains_key("content-disposition");
        if (path.ends_with("/events/ticket") || is_file) && page.status == 200 {
            let kind = if path.ends_with(".csv") { "text/csv; charset=utf-8" } else { "application/json" };
            assert_eq!((page.header("content-type"), page.header("cache-control")), (kind, "no-store"));
        } else if page.location().is_none() && !path.starts_with("/console/assets/") {
            page.elements = parse(&page.html);
            page.check();
        }
        page
    }

    /// Demands what holds for every page.
    fn check(&self) {
        assert_eq!(self.header("content-type").to_ascii_lowercase(), "text/html; charset=utf-8", "{self}");
        assert_eq!(self.header("cache-control"), "no-store", "{self}");
        assert!(self.html.len() < MAX_BYTES, "{} has {} bytes", self.path, self.html.len());
        assert!(self.html.trim_start().to_ascii_lowercase().starts_with("<!doctype html>"), "{self}");
        let languages = self.all("html").filter_map(|html| html.get("lang")).count();
        assert_eq!((self.all("h1").count(), languages), (1, 1), "{self}");
        assert!(!self.heading().is_empty() && !self.title().is_empty(), "{self}");
        assert!(self.all("meta").any(|meta| meta.get("name") == Some("viewport")), "{self}");
        let mut ids = HashSet::new();
        for element in &self.elements {
            let (tag, source) = (element.name.as_str(), element.get("src"));
            for name in element.attributes.keys() {
                assert!(name != "style" && !name.starts_with("on"), "{tag} has {name}: {self}");
            }
            assert!(element.get("id").is_none_or(|id| ids.insert(id)), "an id twice: {self}");
            assert!(!["style", "iframe", "object", "embed", "base"].contains(&tag), "{self}");
            assert!(tag != "script" || (source.is_some() && element.text().is_empty()), "{self}");
            let loaded = source.or_else(|| element.get("href").filter(|_| tag == "link"));
            assert!(loaded.is_none_or(|url| url.starts_with("/console/assets/")), "{loaded:?}: {self}");
            assert!(element.get("href").is_none_or(|url| !url.contains("javascript:")), "{self}");
        }
        for reference in ["aria-describedby", "aria-labelledby", "for"] {
            for named in self.elements.iter().filter_map(|element| element.get(reference)) {
                assert!(named.split_whitespace().all(|id| ids.contains(id)), "{reference} names no {named}: {self}");
            }
        }
        // The first link skips to the main part.
        let skip = self.all("a").next().and_then(|link| link.get("href")?.strip_prefix('#'));
        assert!(skip.is_some_and(|main| ids.contains(main)), "no skip link: {self}");
        for form in self.forms() {
            let csrf = form.fields.iter().find(|field| field.name == "csrf").map(|field| field.value.as_str());
            let is_token = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(if form.is_post { csrf.is_some_and(is_token) } else { csrf.is_none() }, "{form:?}");
            for field in form.fields {
                assert!(field.kind == "hidden" || !field.label.is_empty(), "{field:?} has no label: {self}");
                assert!(field.kind != "password" || field.value.is_empty(), "a password is in {self}");
            }
        }
    }

    /// A header that must be there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self}"));
        value.to_str().unwrap()
    }

    /// Where it leads: a path of the service, for it leads nowhere else.
    pub(crate) fn location(&self) -> Option<String> {
        let location = self.headers.get("location")?.to_str().unwrap();
        assert!((300..400).contains(&self.status), "{self}");
        assert!(location.starts_with("/console") && !location.contains("//"), "it leads to {location}");
        assert!(!location.contains("svc_") && !location.contains("ses_"), "a secret is in {location}");
        Some(location.to_owned())
    }

    /// Elements of a name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &Element> {
        self.elements.iter().filter(move |element| element.name == name)
    }

    /// The page's title.
    pub(crate) fn title(&self) -> String {
        let in_head = |title: &&Element| title.parents.iter().any(|parent| self.elements[*parent].name == "head");
        self.all("title").find(in_head).map(Element::text).unwrap_or_default()
    }

    /// Its main heading.
    pub(crate) fn heading(&self) -> String {
        self.all("h1").map(Element::text).collect()
    }

    /// All that people read, with single spaces.
    pub(crate) fn text(&self) -> String {
        self.all("body").map(Element::text).collect()
    }

    /// The same without what differs from request to request.
    pub(crate) fn without_request(&self) -> String {
        self.html.replace(self.header("x-service-request-id"), "")
    }

    /// Demands a status; gives the page.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self}");
        self
    }

    /// Demands that people read a text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.text().contains(text), "it does not say {text}: {self}");
        self
    }

    /// Where links and forms of the page lead that name no host.
    fn resolve(&self, reference: &str) -> String {
        let own = self.path.split('?').next().unwrap_or_default();
        match reference.chars().next() {
            None => self.path.clone(),
            Some('/') => reference.to_owned(),
            Some('?') => format!("{own}{reference}"),
            Some(_) => panic!("{reference} leads astray: {self}"),
        }
    }

    /// What an input is called on the page.
    fn label(&self, element: &Element) -> String {
        let labels = |label: &&Element| label.get("for").is_some_and(|id| element.get("id") == Some(id));
        let around =
            || element.parents.iter().map(|index| &self.elements[*index]).find(|parent| parent.name == "label");
        let label = self.all("label").find(labels).or_else(around).map(Element::text).filter(|text| !text.is_empty());
        let label = label.or_else(|| element.get("aria-label").map(str::to_owned));
        label.or_else(|| Some(self.texts_of(element.get("aria-labelledby")?))).unwrap_or_default()
    }

    /// The texts of elements by their ids.
    fn texts_of(&self, ids: &str) -> String {
        let of = |id: &str| self.elements.iter().find(|element| element.get("id") == Some(id)).map(Element::text);
        ids.split_whitespace().filter_map(of).collect::<Vec<_>>().join(" ")
    }

    fn fields(&self, form: usize) -> Vec<Field> {
        let id = self.elements[form].get("id");
        let mut fields = Vec::new();
        let within = |element: &Element, index: usize| element.parents.contains(&index);
        let is_own = |element: &Element| {
            let other = element.get("form");
            if other.is_some() { other == id } else { within(element, form) }
        };
        for (index, element) in self.elements.iter().enumerate().filter(|(_, element)| is_own(element)) {
            let name = element.get("name").unwrap_or_default().to_owned();
            let value = element.get("value").unwrap_or_default().to_owned();
            let description = element.get("aria-describedby").map(|ids| self.texts_of(ids)).unwrap_or_default();
            let label = self.label(element);
            let is_wrong = element.get("aria-invalid") == Some("true");
            let action = element.get("formaction").map(|action| self.resolve(action));
            let field = Field { name, kind: String::new(), value, label, is_sent: true, description, is_wrong, action };
            match element.name.as_str() {
                "textarea" => {
                    // The first line break belongs to the markup.
                    let text = element.raw_text.strip_prefix('\n').unwrap_or(&element.raw_text).to_owned();
                    fields.push(Field { kind: "textarea".to_owned(), value: text, ..field });
                }
                "select" => {
                    let options: Vec<&Element> = self.all("option").filter(|one| within(one, index)).collect();
                    let selected = options.iter().position(|one| one.get("selected").is_some()).unwrap_or_default();
                    fields.extend(options.iter().enumerate().map(|(number, option)| {
                        let value = option.get("value").map_or_else(|| option.text(), str::to_owned);
                        let (kind, is_sent) = ("option".to_owned(), number == selected);
                        assert!(!field.label.is_empty(), "a list has no label: {self}");
                        Field { kind, value, label: option.text(), is_sent, ..field.clone() }
                    }));
                }
                "button" => {
                    let kind = element.get("type").unwrap_or("submit").to_owned();
                    let text = Some(element.text()).filter(|text| !text.is_empty());
                    let label = text.unwrap_or_else(|| field.label.clone());
                    fields.push(Field { kind, label, is_sent: false, ..field });
                }
                "input" => {
                    let kind = element.get("type").unwrap_or("text").to_owned();
                    let is_choice = ["checkbox", "radio"].contains(&kind.as_str());
                    let value =
                        if is_choice && element.get("value").is_none() { "on".to_owned() } else { field.value.clone() };
                    let is_sent = if is_choice { element.get("checked").is_some() } else { kind != "submit" };
                    let label = if kind == "submit" { value.clone() } else { field.label.clone() };
                    fields.push(Field { kind, value, label, is_sent, ..field });
                }
                _ => {}
            }
        }
        fields
    }

    /// Its forms, one more for each button that sends one elsewhere.
    pub(crate) fn forms(&self) -> Vec<Form> {
        let mut forms = Vec::new();
        for (index, element) in self.elements.iter().enumerate().filter(|(_, element)| element.name == "form") {
            let form = Form {
                action: self.resolve(element.get("action").unwrap_or_default()),
                is_post: element.get("method").is_some_and(|method| method.eq_ignore_ascii_case("post")),
                fields: self.fields(index),
            };
            forms.extend(form.fields.iter().filter_map(|button| {
                let action = button.action.clone()?;
                Some(Form { action, ..form.clone() })
            }));
            forms.push(form);
        }
        forms
    }

    /// The form that posts to a path, if there is one.
    pub(crate) fn find_form(&self, path: &str) -> Option<Form> {
        self.forms().into_iter().find(|form| form.is_post && form.action.split('?').next() == Some(path))
    }

    /// The form that posts to a path.
    #[track_caller]
    pub(crate) fn form(&self, path: &str) -> Form {
        self.find_form(path).unwrap_or_else(|| panic!("no form for {path} in {self}"))
    }

    /// The hidden token of its forms.
    pub(crate) fn csrf(&self) -> String {
        let form = self.forms().into_iter().find(|form| form.is_post);
        form.unwrap_or_else(|| panic!("no form in {self}")).field("csrf").value.clone()
    }

    /// The longest word with a beginning, such as a key that is shown.
    #[track_caller]
    pub(crate) fn word(&self, beginning: &str) -> String {
        let is_in = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let word = |(at, _): (usize, &str)| {
            let rest = &self.html[at + beginning.len()..];
            &self.html[at..at + beginning.len() + rest.find(|letter: char| !is_in(letter)).unwrap_or(rest.len())]
        };
        let words = self.html.match_indices(beginning).map(word);
        words.max_by_key(|word| word.len()).unwrap_or_else(|| panic!("no {beginning} in {self}")).to_owned()
    }

    /// The token of the one-time link that it shows.
    #[track_caller]
    pub(crate) fn link_token(&self) -> String {
        self.word("/console/links/").rsplit('/').next().unwrap_or_default().to_owned()
    }
}
