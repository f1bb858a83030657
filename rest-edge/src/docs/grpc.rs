//! The gRPC interface at `/docs/grpc`: a guide, and a page for each proto file, built from the compiled descriptors and
//! their comments. The proto files themselves are served too.

mod comments;
mod file;
mod types;

#[cfg(test)]
mod tests;

use prost_types::FileDescriptorProto;
use thesis_proto::descriptors;

use super::{
    markdown,
    page::{Page, PagePart, cards, escaped},
    site::Site,
};

/// The guide's path, and the prefix of the files' pages.
pub(super) const PATH: &str = "/docs/grpc";
/// The import path of the proto files.
const FOLDER: &str = "thesis/v1/";

/// The audience of a proto file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// Customers call it with a key.
    Key,
    /// All users of the services need it.
    Shared,
    /// Operators and front ends call it.
    Operator,
    /// Only the roles of the service call it.
    Internal,
}

impl Audience {
    const ALL: [Self; 4] = [Self::Key, Self::Shared, Self::Operator, Self::Internal];

    /// The heading of the files' group, and its fragment.
    const fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Key => ("Services for API keys", "services-for-api-keys"),
            Self::Shared => ("Messages that they share", "messages-that-they-share"),
            Self::Operator => ("Services for operators and front ends", "services-for-operators-and-front-ends"),
            Self::Internal => ("Between the service's own parts", "between-the-services-own-parts"),
        }
    }

    /// The rule that says which callers are allowed.
    const fn rule(self) -> &'static str {
        match self {
            Self::Key => {
                "Each call needs an API key in the metadata `authorization`, unless its method says that it needs none."
            }
            Self::Shared => "Other files import these.",
            Self::Operator => {
                "Each call needs the service credential in the metadata `x-service-token`. Only operators have it: never \
                 give it to a browser or to a customer."
            }
            Self::Internal => {
                "Cores, edges and delivery workers call these. They need the service credential too, and may change with \
                 any version."
            }
        }
    }
}

struct ProtoFile {
    /// The name without `.proto`.
    name: &'static str,
    text: &'static str,
    audience: Audience,
}

macro_rules! proto_files {
    ($($audience:ident $name:literal;)+) => {
        /// All proto files in the order of the lists.
        const FILES: &[ProtoFile] = &[$(ProtoFile {
            name: $name,
            text: include_str!(concat!("../../../proto/thesis/v1/", $name, ".proto")),
            audience: Audience::$audience,
        }),+];
    };
}

proto_files! {
    Key "thesis_service";
    Key "profile_service";
    Key "token_service";
    Key "search_service";
    Key "event_service";
    Key "webhook_service";
    Key "alert_service";
    Key "log_service";
    Key "archive_service";
    Key "status_service";
    Key "meta_service";
    Key "test_data_service";
    Shared "resources";
    Shared "events";
    Shared "alerts";
    Operator "account_service";
    Operator "admin_service";
    Operator "ingest_service";
    Internal "stream_service";
    Internal "delivery_service";
    Internal "gate_service";
    Internal "peer_service";
}

impl ProtoFile {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.name)
    }

    fn text_path(&self) -> String {
        format!("{PATH}/{FOLDER}{}.proto", self.name)
    }

    fn descriptor(&self) -> Option<&'static FileDescriptorProto> {
        let name = format!("{FOLDER}{}.proto", self.name);
        descriptors::FILES.file.iter().find(|file| file.name() == name)
    }
}

pub(super) fn pages(site: &Site) -> Vec<Page> {
    let types = types::TypePages::new();
    let described = FILES.iter().filter_map(|proto| Some((proto, proto.descriptor()?)));
    let files: Vec<_> = described.map(|(proto, file)| (proto.audience, file::page(proto, file, &types))).collect();
    let mut guide = markdown::page(PATH, include_str!("../../../docs/guides/grpc.md"), site);
    for audience in Audience::ALL {
        let (title, id) = audience.title();
        guide.parts.push(PagePart::new(id, title));
        let rule = comments::html(audience.rule());
        let of = files.iter().filter(|(of, _)| *of == audience);
        let links = of.map(|(_, page)| (&*page.path, &*page.title, &*page.summary));
        guide.body.push_str(&format!("<h2 id=\"{id}\">{}</h2>{rule}{}", escaped(title), cards(links.clone())));
        guide.markdown.push_str(&format!("\n## {title}\n\n{}\n\n", audience.rule()));
        for (path, title, summary) in links {
            guide.markdown.push_str(&format!("- [{title}]({}{path}.md): {summary}\n", site.public_url));
        }
    }
    std::iter::once(guide).chain(files.into_iter().map(|(_, page)| page)).collect()
}

pub(super) fn files() -> impl Iterator<Item = (String, &'static str)> {
    FILES.iter().map(|proto| (proto.text_path(), proto.text))
}
