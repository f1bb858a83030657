//! Profiles, tokens and theses as they are stored. Times are unix milliseconds; `source` and `livemode` follow from the
//! dataset.

/// A wallet association and when it was seen.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Wallet {
    /// The address.
    #[prost(string, tag = "1")]
    pub address: String,
    /// The network's name.
    #[prost(string, tag = "2")]
    pub network: String,
    /// When it was seen.
    #[prost(int64, tag = "3")]
    pub observed_at: i64,
}

/// A profile.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    /// `fp_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// The upstream's user id; empty for a profile that came with a test thesis.
    #[prost(string, tag = "2")]
    pub upstream_id: String,
    /// With the leading `@`.
    #[prost(string, tag = "3")]
    pub handle: String,
    /// Shown name.
    #[prost(string, optional, tag = "4")]
    pub display_name: Option<String>,
    /// Picture.
    #[prost(string, optional, tag = "5")]
    pub avatar_url: Option<String>,
    /// Public page upstream.
    #[prost(string, optional, tag = "6")]
    pub profile_url: Option<String>,
    /// About.
    #[prost(string, optional, tag = "7")]
    pub bio: Option<String>,
    /// Verified upstream.
    #[prost(bool, optional, tag = "8")]
    pub verified: Option<bool>,
    /// Account creation upstream.
    #[prost(int64, optional, tag = "9")]
    pub created_at: Option<i64>,
    /// First seen by this service.
    #[prost(int64, tag = "10")]
    pub first_seen_at: i64,
    /// Last changed here.
    #[prost(int64, tag = "11")]
    pub updated_at: i64,
    /// Last changed upstream.
    #[prost(int64, optional, tag = "12")]
    pub source_updated_at: Option<i64>,
    /// Public, authorized wallets.
    #[prost(message, repeated, tag = "13")]
    pub wallets: Vec<Wallet>,
    /// Revision or time of the newest observation of its own.
    #[prost(int64, tag = "14")]
    pub version: i64,
    /// When it was last seen, beside a thesis or of its own.
    #[prost(int64, tag = "15")]
    pub observed_at: i64,
}

/// A token.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Token {
    /// `tk_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// Upper case, with the leading `$`.
    #[prost(string, tag = "2")]
    pub symbol: String,
    /// Name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The chain's name; `sandbox` for test data.
    #[prost(string, tag = "4")]
    pub chain: String,
    /// The chain's number.
    #[prost(int64, optional, tag = "5")]
    pub chain_id: Option<i64>,
    /// Contract or mint address.
    #[prost(string, tag = "6")]
    pub address: String,
    /// Logo.
    #[prost(string, optional, tag = "7")]
    pub logo_url: Option<String>,
    /// Page upstream.
    #[prost(string, optional, tag = "8")]
    pub platform_url: Option<String>,
    /// First seen by this service.
    #[prost(int64, tag = "9")]
    pub first_seen_at: i64,
    /// Last changed here.
    #[prost(int64, tag = "10")]
    pub updated_at: i64,
    /// Last changed upstream.
    #[prost(int64, optional, tag = "11")]
    pub source_updated_at: Option<i64>,
    /// Revision or time of the newest observation of its own.
    #[prost(int64, tag = "12")]
    pub version: i64,
    /// When it was last seen, beside a thesis or of its own.
    #[prost(int64, tag = "13")]
    pub observed_at: i64,
}

/// A thesis.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Thesis {
    /// `th_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// The author.
    #[prost(string, tag = "2")]
    pub profile_id: String,
    /// The token.
    #[prost(string, tag = "3")]
    pub token_id: String,
    /// The token's chain, which the token fixes.
    #[prost(string, tag = "4")]
    pub chain: String,
    /// The text.
    #[prost(string, tag = "5")]
    pub text: String,
    /// Likes.
    #[prost(int64, optional, tag = "6")]
    pub likes: Option<i64>,
    /// Replies.
    #[prost(int64, optional, tag = "7")]
    pub replies: Option<i64>,
    /// When it was posted.
    #[prost(int64, tag = "8")]
    pub created_at: i64,
    /// When it was last changed.
    #[prost(int64, tag = "9")]
    pub updated_at: i64,
    /// When it was deleted.
    #[prost(int64, optional, tag = "10")]
    pub deleted_at: Option<i64>,
    /// A project's thesis whose author is one of the sandbox's.
    #[prost(bool, tag = "11")]
    pub sandbox_profile: bool,
    /// A project's thesis on one of the sandbox's tokens.
    #[prost(bool, tag = "12")]
    pub sandbox_token: bool,
    /// Revision or time of the newest observation of its text.
    #[prost(int64, tag = "13")]
    pub version: i64,
    /// Revision or time of the newest observation of its figures.
    #[prost(int64, tag = "14")]
    pub engagement_version: i64,
}

/// What an index row says of its thesis beside its key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct IndexedThesis {
    /// The author.
    #[prost(string, tag = "1")]
    pub profile_id: String,
}
