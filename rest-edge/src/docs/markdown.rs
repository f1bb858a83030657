//! Renders Markdown as a page: headings get fragments, links between files become links between pages, code that names
//! an operation or an error becomes a link to it, blocks of code in several languages become one block with a choice,
//! and the headings of error codes get the facts of the code.

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html};
use thesis_proto::error::ErrorCode;

use super::{
    HOME,
    highlight::highlight,
    page::{Page, PagePart, escaped},
    site::{Site, path_of},
};

/// The facts of an error code list its operations if they are this many at most.
const MAX_OPERATIONS: usize = 8;

/// Readers choose between these languages of code. Each has a readable name.
const LANGUAGES: [(&str, &str); 5] =
    [("sh", "curl"), ("python", "Python"), ("js", "Node"), ("go", "Go"), ("rust", "Rust")];

/// The readable name of a programming language; none for other formats, such as JSON.
fn name_of(language: &str) -> Option<&'static str> {
    LANGUAGES.iter().find(|(known, _)| *known == language).map(|(_, name)| *name)
}

/// The label of a block in one language.
fn label_of(language: &str) -> &'static str {
    match language {
        "sh" => "Shell",
        "json" => "JSON",
        "ini" => "Configuration",
        "proto" => "Protocol Buffers",
        _ => name_of(language).unwrap_or("Text"),
    }
}

/// Renders the Markdown of a guide as the page of a path.
pub(super) fn page(path: &str, source: &str, site: &Site) -> Page {
    let text = source.replace("{{api_url}}", &site.public_url);
    let mut writer = Writer::new(path, site);
    let parser = Parser::new_ext(&text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    for event in parser {
        writer.take(event);
    }
    writer.end_code();
    Page {
        path: path.to_owned(),
        title: writer.title,
        summary: writer.summary,
        intro: writer.intro,
        parts: writer.parts,
        body: writer.out,
        markdown: published(&text, site),
        ..Page::default()
    }
}

/// The Markdown for readers: links lead to the Markdown of other pages, with complete addresses.
fn published(text: &str, site: &Site) -> String {
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("](");
        let (target, rest) = part.split_at(part.find(')').unwrap_or(0));
        out.push_str(&address(&linked(target), &site.public_url));
        out.push_str(rest);
    }
    out
}

/// The complete address of a link in Markdown. A page's is that of its Markdown.
fn address(target: &str, public_url: &str) -> String {
    if !target.starts_with('/') {
        return target.to_owned();
    }
    let (path, fragment) = target.split_at(target.find('#').unwrap_or(target.len()));
    let is_page = super::covers(path) && !path.contains('.');
    format!("{public_url}{path}{}{fragment}", if is_page { ".md" } else { "" })
}

/// The heading that the writer reads.
struct Heading<'a> {
    level: HeadingLevel,
    text: String,
    events: Vec<Event<'a>>,
}

/// Turns Markdown events into HTML.
struct Writer<'a> {
    /// The path of the page.
    path: &'a str,
    site: &'a Site,
    out: String,
    title: String,
    summary: String,
    intro: String,
    parts: Vec<PagePart>,
    heading: Option<Heading<'a>>,
    /// The table that the writer reads.
    table: Option<Vec<Event<'a>>>,
    /// True while the writer reads the first paragraph.
    in_summary: bool,
    /// True while the writer reads a link.
    in_link: bool,
    /// Language and text of the code block that the writer reads.
    code: Option<(String, String)>,
    /// Adjacent code blocks.
    codes: Vec<(String, String)>,
    /// Number of language choices so far.
    choices: usize,
    /// Number of uses of each fragment.
    ids: HashMap<String, usize>,
}

impl<'a> Writer<'a> {
    fn new(path: &'a str, site: &'a Site) -> Self {
        Self {
            path,
            site,
            out: String::new(),
            title: String::new(),
            summary: String::new(),
            intro: String::new(),
            parts: Vec::new(),
            heading: None,
            table: None,
            in_summary: false,
            in_link: false,
            code: None,
            codes: Vec::new(),
            choices: 0,
            ids: HashMap::new(),
        }
    }

    /// Keeps a block of code, which is written together with those beside it. True if the event belongs to one.
    fn take_code(&mut self, event: &Event<'a>) -> bool {
        if let Some((_, text)) = &mut self.code {
            match event {
                Event::Text(more) => text.push_str(more),
                Event::End(TagEnd::CodeBlock) => self.codes.extend(self.code.take()),
                _ => {}
            }
            return true;
        }
        let Event::Start(Tag::CodeBlock(kind)) = event else { return false };
        let info = if let CodeBlockKind::Fenced(info) = kind { info.as_ref() } else { "" };
        let language = info.split_whitespace().next().unwrap_or("text").to_owned();
        self.code = Some((language, String::new()));
        true
    }

    fn take(&mut self, event: Event<'a>) {
        if self.take_code(&event) {
            return;
        }
        self.end_code();
        self.keep_text(&event);
        if self.in_summary
            && let Event::Text(text) | Event::Code(text) = &event
        {
            self.summary.push_str(text);
        }
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                self.heading = Some(Heading { level, text: String::new(), events: Vec::new() });
            }
            Event::End(TagEnd::Heading(_)) => self.end_heading(),
            Event::Start(Tag::Paragraph) if self.summary.is_empty() => {
                self.in_summary = true;
                self.put(event);
            }
            Event::End(TagEnd::Paragraph) => {
                self.in_summary = false;
                self.put(event);
            }
            Event::SoftBreak if self.in_summary => {
                self.summary.push(' ');
                self.put(event);
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = CowStr::from(linked(&dest_url));
                self.in_link = true;
                self.put(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Table(_)) => self.table = Some(vec![event]),
            Event::End(TagEnd::Table) => {
                self.put(event);
                self.end_table();
            }
            Event::End(TagEnd::Link) => {
                self.in_link = false;
                self.put(event);
            }
            Event::Code(ref code) => match self.link_of(code) {
                Some(link) => self.put(Event::InlineHtml(link.into())),
                None => self.put(event),
            },
            // Guides contain no HTML.
            Event::Html(text) | Event::InlineHtml(text) => self.put(Event::Text(text)),
            event => self.put(event),
        }
    }

    /// Keeps text for the search.
    fn keep_text(&mut self, event: &Event<'a>) {
        let text: &str = match event {
            _ if self.heading.is_some() => return,
            Event::Text(text) | Event::Code(text) => text.as_ref(),
            Event::SoftBreak | Event::End(TagEnd::Paragraph | TagEnd::TableCell | TagEnd::Item) => " ",
            _ => return,
        };
        self.parts.last_mut().map_or(&mut self.intro, |part| &mut part.text).push_str(text);
    }

    /// The link to the page about what the code names. A page does not link to itself.
    fn link_of(&self, code: &str) -> Option<String> {
        if self.in_link || self.heading.is_some() {
            return None;
        }
        let page = self.site.page_about(code)?;
        if page.split('#').next() == Some(self.path) {
            return None;
        }
        Some(format!("<a href=\"{page}\"><code>{}</code></a>", escaped(code)))
    }

    fn put(&mut self, event: Event<'a>) {
        if let Some(heading) = &mut self.heading {
            if let Event::Text(text) | Event::Code(text) = &event {
                heading.text.push_str(text);
            }
            heading.events.push(event);
        } else if let Some(table) = &mut self.table {
            table.push(event);
        } else {
            push_html(&mut self.out, std::iter::once(event));
        }
    }

    /// Writes a table in a scrollable element. The content security policy forbids inline styles, so the alignment of a
    /// column is a class. The corner above row headings is no heading.
    fn end_table(&mut self) {
        let mut html = String::new();
        push_html(&mut html, self.table.take().into_iter().flatten());
        let html = html.replace(" style=\"text-align: right\"", " class=\"number\"").replace("<th></th>", "<td></td>");
        let frame = "<div class=\"table\" role=\"group\" aria-label=\"Table\" tabindex=\"0\">";
        self.out.push_str(&format!("{frame}{html}</div>\n"));
    }

    fn end_heading(&mut self) {
        let Some(Heading { level, text, events }) = self.heading.take() else { return };
        if level == HeadingLevel::H1 {
            self.title = text;
            return;
        }
        let id = self.fragment(&text);
        self.out.push_str(&format!("<{level} id=\"{id}\">"));
        push_html(&mut self.out, events.into_iter());
        self.out.push_str(&format!(
            " <a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to {}\">#</a></{level}>\n",
            escaped(&text)
        ));
        if let Some(code) = ErrorCode::parse(&text) {
            self.facts(code);
        }
        if matches!(level, HeadingLevel::H2 | HeadingLevel::H3) {
            self.parts.push(PagePart { is_inner: level == HeadingLevel::H3, ..PagePart::new(id, text) });
        }
    }

    /// Writes the facts of an error code, and the operations that have it if they are few.
    fn facts(&mut self, code: ErrorCode) {
        let (status, kind, grpc) = (code.http_status(), code.error_type(), code.grpc_code());
        self.out.push_str(&format!(
            "<p class=\"facts\">HTTP <code>{status}</code>, type <code>{kind}</code>, gRPC <code>{grpc:?}</code>"
        ));
        let operations = self.site.operations_with(code).iter();
        let links = operations.map(|id| format!("<a href=\"{}\">{id}</a>", path_of(id))).collect::<Vec<_>>();
        if (1..=MAX_OPERATIONS).contains(&links.len()) {
            self.out.push_str(&format!(". Operations: {}", links.join(", ")));
        }
        self.out.push_str("</p>\n");
    }

    /// Builds the fragment of a heading by the rule of code hosts.
    fn fragment(&mut self, text: &str) -> String {
        let lowercase = text.to_lowercase().replace(' ', "-");
        let id: String =
            lowercase.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect();
        let count = self.ids.entry(id.clone()).or_default();
        *count += 1;
        if *count == 1 { id } else { format!("{id}-{}", *count - 1) }
    }

    /// Writes the adjacent code blocks.
    fn end_code(&mut self) {
        let codes = std::mem::take(&mut self.codes);
        for codes in codes.chunk_by(|(one, _), (other, _)| name_of(one).is_some() && name_of(other).is_some()) {
            if let [(language, text)] = codes {
                self.block(language, text);
            } else {
                self.choice(codes);
            }
        }
    }

    fn choice(&mut self, codes: &[(String, String)]) {
        self.choices += 1;
        let group = format!("language-{}", self.choices);
        self.out.push_str("<fieldset class=\"code\"><legend class=\"hidden\">Language</legend>");
        for (index, (language, _)) in codes.iter().enumerate() {
            let name = name_of(language).unwrap_or_default();
            let checked = if index == 0 { " checked" } else { "" };
            self.out.push_str(&format!(
                "<input type=\"radio\" name=\"{group}\" id=\"{group}-{index}\" value=\"{language}\"{checked}>\
                 <label for=\"{group}-{index}\">{name}</label>"
            ));
        }
        self.out.push_str("<div>");
        codes.iter().for_each(|(language, text)| self.write_code(language, text));
        self.out.push_str("</div></fieldset>\n");
    }

    fn block(&mut self, language: &str, text: &str) {
        let label = label_of(language);
        self.out.push_str(&format!("<div class=\"block\"><div class=\"head\"><span>{label}</span></div>"));
        self.write_code(language, text);
        self.out.push_str("</div>\n");
    }

    fn write_code(&mut self, language: &str, text: &str) {
        let html = highlight(language, text);
        self.out.push_str(&format!("<pre><code class=\"{}\">{html}</code></pre>\n", escaped(language)));
    }
}

/// Translates a link between Markdown files into a link between pages.
fn linked(target: &str) -> String {
    let (file, fragment) =
        target.split_once('#').map_or((target, String::new()), |(file, id)| (file, format!("#{id}")));
    match file.strip_suffix(".md") {
        Some(path) if !file.contains("://") => {
            let name = path.rsplit('/').next().unwrap_or_default();
            format!("{HOME}/{name}{fragment}")
        }
        _ => target.to_owned(),
    }
}

#[cfg(test)]
mod tests;
