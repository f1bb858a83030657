//! Every public operation with its scope, rate class and feature flag.

use super::scope::Scope;

/// Rate classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateClass {
    /// All other operations.
    Standard,
    /// Profiles, wallets, search.
    Heavy,
    /// Verification.
    Verify,
}

impl RateClass {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Heavy => "heavy",
            Self::Verify => "verify",
        }
    }
}

/// Feature flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `PROFILES_API_ENABLED`
    Profiles,
    /// `THESES_API_ENABLED`
    Theses,
    /// `STREAMS_ENABLED`
    Streams,
    /// `WALLETS_API_ENABLED`
    Wallets,
    /// `SEMANTIC_SEARCH_ENABLED`
    SemanticSearch,
}

impl Feature {
    /// Returns the error text of its operations while it is off.
    #[must_use]
    pub const fn why_off(self) -> &'static str {
        match self {
            Self::Profiles => "the Profiles API is not enabled here; ask who runs the service for it",
            Self::Theses => "the Theses API is not enabled here; ask who runs the service for it",
            Self::Streams => "streams are not enabled here; ask who runs the service for them",
            Self::Wallets => "the Wallets API is not enabled here; ask who runs the service for it",
            Self::SemanticSearch => "semantic search is not enabled here; use GET /v1/search",
        }
    }
}

/// The enabled features.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// `PROFILES_API_ENABLED`
    pub profiles: bool,
    /// `THESES_API_ENABLED`
    pub theses: bool,
    /// `STREAMS_ENABLED`
    pub streams: bool,
    /// `WALLETS_API_ENABLED`
    pub wallets: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { profiles: true, theses: true, streams: true, wallets: false }
    }
}

impl Features {
    /// True if a feature is on. This version has no semantic search.
    #[must_use]
    pub const fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Profiles => self.profiles,
            Feature::Theses => self.theses,
            Feature::Streams => self.streams,
            Feature::Wallets => self.wallets,
            Feature::SemanticSearch => false,
        }
    }
}

macro_rules! operations {
    ($($variant:ident $service:ident $scope:expr, $class:ident, $feature:expr, $test_only:literal;)+) => {
        /// A public operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $(#[doc = concat!("`", stringify!($service), "/", stringify!($variant), "`")] $variant,)+
        }

        impl Operation {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// `Service/Method`, as in the gRPC path.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => concat!(stringify!($service), "/", stringify!($variant)),)+ }
            }

            /// The required scope.
            #[must_use]
            pub const fn scope(self) -> Option<Scope> {
                match self { $(Self::$variant => $scope,)+ }
            }

            /// Its rate class.
            #[must_use]
            pub const fn class(self) -> RateClass {
                match self { $(Self::$variant => RateClass::$class,)+ }
            }

            /// The required feature flag.
            #[must_use]
            pub const fn feature(self) -> Option<Feature> {
                match self { $(Self::$variant => $feature,)+ }
            }

            /// True if only test keys may call it.
            #[must_use]
            pub const fn test_only(self) -> bool {
                match self { $(Self::$variant => $test_only,)+ }
            }
        }
    };
}

operations! {
    GetMe MetaService None, Standard, None, false;
    GetUsage MetaService None, Standard, None, false;
    GetProfile ProfileService Some(Scope::ProfilesRead), Heavy, Some(Feature::Profiles), false;
    GetProfileWallets ProfileService Some(Scope::WalletsRead), Heavy, Some(Feature::Wallets), false;
    ListTheses ThesisService Some(Scope::ThesesRead), Standard, Some(Feature::Theses), false;
    GetThesis ThesisService Some(Scope::ThesesRead), Standard, Some(Feature::Theses), false;
    VerifyThesis ThesisService Some(Scope::ThesesRead), Verify, Some(Feature::Theses), false;
    GetReceipt LogService Some(Scope::ThesesRead), Verify, Some(Feature::Theses), false;
    ListArchiveFiles ArchiveService Some(Scope::ArchiveRead), Standard, None, false;
    GetArchiveFile ArchiveService Some(Scope::ArchiveRead), Standard, None, false;
    GetArchiveReceipt ArchiveService Some(Scope::ArchiveRead), Standard, None, false;
    GetToken TokenService Some(Scope::TokensRead), Standard, None, false;
    GetTokenActivity TokenService Some(Scope::TokensRead), Standard, None, false;
    GetThesisVelocity TokenService Some(Scope::TokensRead), Standard, None, false;
    Search SearchService Some(Scope::SearchRead), Heavy, None, false;
    SemanticSearch SearchService Some(Scope::SearchRead), Heavy, Some(Feature::SemanticSearch), false;
    ListEvents EventService Some(Scope::EventsRead), Standard, None, false;
    GetEvent EventService Some(Scope::EventsRead), Standard, None, false;
    Subscribe EventService Some(Scope::StreamsRead), Standard, Some(Feature::Streams), false;
    CreateStreamTicket EventService Some(Scope::StreamsRead), Standard, Some(Feature::Streams), false;
    Open StreamService Some(Scope::StreamsRead), Standard, Some(Feature::Streams), false;
    CreateTestThesis TestDataService Some(Scope::ThesesRead), Standard, None, true;
    CreateWebhook WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    ListWebhooks WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    GetWebhook WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    UpdateWebhook WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    DeleteWebhook WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    RotateWebhookSecret WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    TestWebhook WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    ListDeliveries WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    GetDelivery WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    ReplayDelivery WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    GetWebhookInsight WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    StartWebhookReplay WebhookService Some(Scope::WebhooksWrite), Standard, None, false;
    CreateAlert AlertService Some(Scope::AlertsWrite), Standard, None, false;
    ListAlerts AlertService Some(Scope::AlertsWrite), Standard, None, false;
    GetAlert AlertService Some(Scope::AlertsWrite), Standard, None, false;
    UpdateAlert AlertService Some(Scope::AlertsWrite), Standard, None, false;
    DeleteAlert AlertService Some(Scope::AlertsWrite), Standard, None, false;
}

impl Operation {
    /// True if a request may carry an idempotency key. Other operations ignore it: a read or a deletion is repeatable
    /// without one, and a verification must not repeat an old result.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        matches!(
            self,
            Self::CreateStreamTicket
                | Self::CreateTestThesis
                | Self::CreateWebhook
                | Self::UpdateWebhook
                | Self::RotateWebhookSecret
                | Self::TestWebhook
                | Self::ReplayDelivery
                | Self::StartWebhookReplay
                | Self::CreateAlert
                | Self::UpdateAlert
        )
    }

    /// True if it changes data of the project. Opening a stream with a ticket only reads.
    #[must_use]
    pub const fn is_change(self) -> bool {
        matches!(self, Self::DeleteWebhook | Self::DeleteAlert)
            || (self.is_repeatable() && !matches!(self, Self::CreateStreamTicket))
    }

    /// Parses `Service/Method`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(is_chosen: fn(Operation) -> bool) -> Vec<&'static str> {
        Operation::ALL.iter().filter(|operation| is_chosen(**operation)).map(|operation| operation.name()).collect()
    }

    #[test]
    fn names_are_read_back() {
        for operation in Operation::ALL {
            assert_eq!(Operation::parse(operation.name()), Some(*operation));
        }
        assert_eq!(Operation::parse("MetaService/GetYou"), None);
    }

    #[test]
    fn operations_that_change_something_are_known() {
        let changes = [
            "TestDataService/CreateTestThesis",
            "WebhookService/CreateWebhook",
            "WebhookService/UpdateWebhook",
            "WebhookService/DeleteWebhook",
            "WebhookService/RotateWebhookSecret",
            "WebhookService/TestWebhook",
            "WebhookService/ReplayDelivery",
            "WebhookService/StartWebhookReplay",
            "AlertService/CreateAlert",
            "AlertService/UpdateAlert",
            "AlertService/DeleteAlert",
        ];
        assert_eq!(names(Operation::is_change), changes);
        let mut repeatable = names(Operation::is_repeatable);
        assert_eq!(repeatable.remove(0), "EventService/CreateStreamTicket");
        assert_eq!(repeatable, changes.into_iter().filter(|name| !name.contains("/Delete")).collect::<Vec<_>>());
        assert_eq!(names(Operation::test_only), ["TestDataService/CreateTestThesis"]);
    }

    #[test]
    fn a_feature_has_its_own_flag() {
        let off = Features { profiles: false, theses: false, streams: false, wallets: false };
        let flags = [
            (Feature::Profiles, Features { profiles: true, ..off }),
            (Feature::Theses, Features { theses: true, ..off }),
            (Feature::Streams, Features { streams: true, ..off }),
            (Feature::Wallets, Features { wallets: true, ..off }),
        ];
        for (feature, features) in &flags {
            for (other, _) in &flags {
                assert_eq!(features.has(*other), other == feature, "{other:?} with {features:?}");
            }
            assert!(!features.has(Feature::SemanticSearch));
        }
    }
}
