//! Scopes of API keys.

macro_rules! scopes {
    ($($variant:ident $name:literal $default:literal;)+) => {
        /// A scope of an API key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Scope {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl Scope {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// True if a key gets it by default.
            pub const fn by_default(self) -> bool {
                match self { $(Self::$variant => $default,)+ }
            }
        }
    };
}

scopes! {
    ProfilesRead "profiles:read" true;
    ThesesRead "theses:read" true;
    TokensRead "tokens:read" true;
    SearchRead "search:read" true;
    EventsRead "events:read" true;
    StreamsRead "streams:read" true;
    WebhooksWrite "webhooks:write" false;
    WalletsRead "wallets:read" false;
    ArchiveRead "archive:read" false;
}

impl Scope {
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use thesis_proto::names::SCOPES;

    use super::*;

    #[test]
    fn the_names_that_others_know_are_these() {
        let known: Vec<_> = Scope::ALL.iter().map(|scope| (scope.as_str(), scope.by_default())).collect();
        assert_eq!(known, SCOPES);
    }
}
