//! Tokens, their activity and velocity.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Source, Thesis, Time, constant, each, is_false, part};
use crate::v1;

/// A token, in short.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct TokenRef<'a> {
    /// Prefix `tk_`.
    id: &'a str,
    /// With the leading `$`.
    symbol: &'a str,
    /// Name of the token, when known.
    #[schema(required)]
    name: Option<&'a str>,
    /// A real chain, or `sandbox` for test data.
    chain: &'a str,
    /// Address of the token on its chain.
    address: &'a str,
}

impl<'a> From<&'a v1::TokenRef> for TokenRef<'a> {
    fn from(token: &'a v1::TokenRef) -> Self {
        Self {
            id: &token.id,
            symbol: &token.symbol,
            name: token.name.as_deref(),
            chain: &token.chain,
            address: &token.address,
        }
    }
}

/// A token with its counts of ingested theses.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Token<'a> {
    #[schema(schema_with = constant::token)]
    object: &'static str,
    /// Prefix `tk_`.
    id: &'a str,
    /// With the leading `$`.
    symbol: &'a str,
    /// Name of the token, when known.
    #[schema(required)]
    name: Option<&'a str>,
    /// A real chain, or `sandbox` for test data.
    chain: &'a str,
    /// Number of the chain, when it has one.
    #[schema(required)]
    chain_id: Option<i64>,
    /// Address of the token on its chain.
    address: &'a str,
    /// Picture of the token.
    #[schema(required, format = "uri")]
    logo_url: Option<&'a str>,
    /// The token on the upstream platform.
    #[schema(required, format = "uri")]
    platform_url: Option<&'a str>,
    /// Theses ingested for the token.
    thesis_count: i64,
    /// Profiles that posted these theses.
    unique_thesis_authors: i64,
    /// Theses in the last 24 hours.
    recent_thesis_count: i64,
    /// When the service first observed the token.
    #[schema(value_type = String, format = DateTime)]
    first_seen_at: Time,
    /// When the newest thesis on the token was posted; null without any.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    last_activity_at: Option<Time>,
    /// Counts are of theses observed since `first_seen_at`.
    #[schema(schema_with = constant::ingested)]
    metrics_scope: &'static str,
    /// Where it came from.
    source: Source,
    /// True for live data, false for test data.
    livemode: bool,
    /// When the service last changed the token.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
    /// When the upstream last changed the token, when known.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    source_updated_at: Option<Time>,
    /// True when cached data is served because the upstream could not be reached.
    #[serde(skip_serializing_if = "is_false")]
    stale: bool,
}

impl<'a> From<&'a v1::Token> for Token<'a> {
    fn from(token: &'a v1::Token) -> Self {
        Self {
            object: "token",
            id: &token.id,
            symbol: &token.symbol,
            name: token.name.as_deref(),
            chain: &token.chain,
            chain_id: token.chain_id,
            address: &token.address,
            logo_url: token.logo_url.as_deref(),
            platform_url: token.platform_url.as_deref(),
            thesis_count: token.thesis_count,
            unique_thesis_authors: token.unique_thesis_authors,
            recent_thesis_count: token.recent_thesis_count,
            first_seen_at: part(&token.first_seen_at),
            last_activity_at: token.last_activity_at.as_ref().map(Time::from),
            metrics_scope: "ingested",
            source: Source::from(&token.source),
            livemode: token.livemode,
            updated_at: part(&token.updated_at),
            source_updated_at: token.source_updated_at.as_ref().map(Time::from),
            stale: token.stale.unwrap_or_default(),
        }
    }
}

/// One hour of a timeline.
#[derive(Debug, Serialize, ToSchema)]
pub struct TimelineBucket {
    /// Start of the hour.
    #[schema(value_type = String, format = DateTime)]
    bucket_start: Time,
    /// Theses posted in the hour.
    theses: i64,
    /// Profiles that posted in the hour.
    unique_authors: i64,
}

impl From<&v1::TimelineBucket> for TimelineBucket {
    fn from(bucket: &v1::TimelineBucket) -> Self {
        Self { bucket_start: part(&bucket.bucket_start), theses: bucket.theses, unique_authors: bucket.unique_authors }
    }
}

/// A token's last 24 hours.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenActivity<'a> {
    #[schema(schema_with = constant::token_activity)]
    object: &'static str,
    /// The token.
    token: TokenRef<'a>,
    /// Theses of the last hour.
    thesis_count_1h: i64,
    /// Theses of the last 24 hours.
    thesis_count_24h: i64,
    /// Profiles that posted in the last 24 hours.
    unique_authors_24h: i64,
    /// When the newest thesis was posted; null without any.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    last_activity_at: Option<Time>,
    /// Hourly buckets over the last 24 hours, newest last.
    timeline: Vec<TimelineBucket>,
    /// The newest theses, within the plan's history window.
    recent_theses: Vec<Thesis<'a>>,
    #[schema(schema_with = constant::ingested)]
    metrics_scope: &'static str,
    /// True for live data, false for test data.
    livemode: bool,
    /// The time up to which all counts reach.
    #[schema(value_type = String, format = DateTime)]
    computed_at: Time,
}

impl<'a> From<&'a v1::TokenActivity> for TokenActivity<'a> {
    fn from(activity: &'a v1::TokenActivity) -> Self {
        Self {
            object: "token_activity",
            token: part(&activity.token),
            thesis_count_1h: activity.thesis_count_1h,
            thesis_count_24h: activity.thesis_count_24h,
            unique_authors_24h: activity.unique_authors_24h,
            last_activity_at: activity.last_activity_at.as_ref().map(Time::from),
            timeline: each(&activity.timeline),
            recent_theses: each(&activity.recent_theses),
            metrics_scope: "ingested",
            livemode: activity.livemode,
            computed_at: part(&activity.computed_at),
        }
    }
}

/// How fast theses on a token arrive.
#[derive(Debug, Serialize, ToSchema)]
pub struct ThesisVelocity<'a> {
    #[schema(schema_with = constant::thesis_velocity)]
    object: &'static str,
    /// The token.
    token: TokenRef<'a>,
    /// Theses of the last 5 minutes.
    last_5m: i64,
    /// Theses of the last hour.
    last_1h: i64,
    /// Theses of the hour before the last.
    previous_1h: i64,
    /// Null when `previous_1h` is 0.
    #[schema(required)]
    change_pct: Option<f64>,
    #[schema(schema_with = constant::ingested)]
    metrics_scope: &'static str,
    /// True for live data, false for test data.
    livemode: bool,
    /// The time up to which all counts reach.
    #[schema(value_type = String, format = DateTime)]
    computed_at: Time,
}

impl<'a> From<&'a v1::ThesisVelocity> for ThesisVelocity<'a> {
    fn from(velocity: &'a v1::ThesisVelocity) -> Self {
        Self {
            object: "thesis_velocity",
            token: part(&velocity.token),
            last_5m: velocity.last_5m,
            last_1h: velocity.last_1h,
            previous_1h: velocity.previous_1h,
            change_pct: velocity.change_pct,
            metrics_scope: "ingested",
            livemode: velocity.livemode,
            computed_at: part(&velocity.computed_at),
        }
    }
}
