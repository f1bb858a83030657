//! Renders Markdown as a page: headings get fragments, links between files become links between pages, blocks of code
//! in several languages become one block with a choice, and the headings of error codes get the facts of the code.

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html};
use thesis_proto::error::ErrorCode;

use super::{
    HOME,
    page::{Page, PagePart, escaped},
};

/// Readers choose between these languages of code. Each has a readable name.
const LANGUAGES: [(&str, &str); 4] = [("sh", "curl"), ("python", "Python"), ("js", "Node"), ("go", "Go")];

/// The readable name of a programming language; none for other formats, such as JSON.
fn name_of(language: &str) -> Option<&'static str> {
    LANGUAGES.iter().find(|(known, _)| *known == language).map(|(_, name)| *name)
}

/// Renders the Markdown of a guide as the page of a path.
pub(super) fn page(path: &str, source: &str, public_url: &str) -> Page {
    let text = source.replace("{{api_url}}", public_url);
    let mut writer = Writer::default();
    let parser = Parser::new_ext(&text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    for event in parser {
        writer.take(event);
    }
    writer.end_code();
    Page {
        path: path.to_owned(),
        title: writer.title,
        summary: writer.summary,
        parts: writer.parts,
        body: writer.out,
        ..Page::default()
    }
}

/// The heading that the writer reads.
struct Heading<'a> {
    level: HeadingLevel,
    text: String,
    events: Vec<Event<'a>>,
}

/// Turns Markdown events into HTML.
#[derive(Default)]
struct Writer<'a> {
    out: String,
    title: String,
    summary: String,
    parts: Vec<PagePart>,
    heading: Option<Heading<'a>>,
    /// The table that the writer reads.
    table: Option<Vec<Event<'a>>>,
    /// True while the writer reads the first paragraph.
    in_summary: bool,
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
    fn take(&mut self, event: Event<'a>) {
        if let Some((_, text)) = &mut self.code {
            match event {
                Event::Text(more) => text.push_str(&more),
                Event::End(TagEnd::CodeBlock) => self.codes.extend(self.code.take()),
                _ => {}
            }
            return;
        }
        if let Event::Start(Tag::CodeBlock(kind)) = &event {
            let info = if let CodeBlockKind::Fenced(info) = kind { info.as_ref() } else { "" };
            let language = info.split_whitespace().next().unwrap_or("text").to_owned();
            self.code = Some((language, String::new()));
            return;
        }
        self.end_code();
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
                self.put(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Table(_)) => self.table = Some(vec![event]),
            Event::End(TagEnd::Table) => {
                self.put(event);
                self.end_table();
            }
            // Guides contain no HTML.
            Event::Html(text) | Event::InlineHtml(text) => self.put(Event::Text(text)),
            event => self.put(event),
        }
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
            let (status, kind, grpc) = (code.http_status(), code.error_type(), code.grpc_code());
            self.out.push_str(&format!(
                "<p class=\"facts\">HTTP <code>{status}</code>, type <code>{kind}</code>, gRPC <code>{grpc:?}</code></p>\n"
            ));
        }
        if level == HeadingLevel::H2 {
            self.parts.push(PagePart { id, text });
        }
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
        codes.iter().for_each(|(language, text)| self.block(language, text));
        self.out.push_str("</div></fieldset>\n");
    }

    fn block(&mut self, language: &str, text: &str) {
        self.out.push_str(&format!("<pre><code class=\"{}\">{}</code></pre>\n", escaped(language), escaped(text)));
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
