//! The results of tools: the parts of the API's resources that a model needs. The comments of their fields are in the
//! schemas that clients read.

mod events;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

pub(super) use self::events::{Event, EventPage};

/// Limit for a text in a list, in characters.
const MAX_TEXT: usize = 400;

const MORE_SEARCH: &str = "Texts may be cut: get_thesis reads one in full. A search has no further pages: raise \
    `limit` up to 50, narrow the search, or use list_theses.";
const MORE_THESES: &str =
    "This is one page: call list_theses again with the same arguments, and next_cursor as cursor.";
const MORE_ACTIVITY: &str =
    "recent_theses has the newest alone: raise `recent` up to 50, or use list_theses with `token`.";

/// Makes a result of the API's response.
pub(super) fn read<A: DeserializeOwned, R: From<A> + Serialize>(body: &[u8]) -> serde_json::Result<Value> {
    serde_json::to_value(R::from(serde_json::from_slice(body)?))
}

/// A sentence about the rights of a key; none if the response has another form.
pub(super) fn key_sentence(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Key {
        environment: String,
        scopes: Vec<String>,
    }
    let Key { environment, scopes } = serde_json::from_slice(body).ok()?;
    let data = if environment == "test" { "the sandbox and the project's own test data" } else { "real data" };
    Some(format!("The key is a {environment} key, which sees {data}. Its scopes: {}.", scopes.join(", ")))
}

/// Cuts a text for a list.
fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[derive(Deserialize)]
pub(super) struct ApiPage<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ApiThesis {
    id: String,
    created_at: String,
    updated_at: String,
    profile: ApiAuthor,
    token: TokenRef,
    text: String,
    likes: Option<i64>,
    replies: Option<i64>,
    public_url: Option<String>,
}

#[derive(Deserialize)]
struct ApiAuthor {
    id: String,
    handle: String,
}

#[derive(Deserialize)]
pub(super) struct ApiSearchResult {
    theses: Vec<ApiThesis>,
    profiles: Vec<Profile>,
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
pub(super) struct ApiTokenActivity {
    token: TokenRef,
    thesis_count_1h: i64,
    thesis_count_24h: i64,
    unique_authors_24h: i64,
    last_activity_at: Option<String>,
    timeline: Vec<ApiHour>,
    recent_theses: Vec<ApiThesis>,
    computed_at: String,
}

#[derive(Deserialize)]
struct ApiHour {
    bucket_start: String,
    theses: i64,
    unique_authors: i64,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct TokenRef {
    id: String,
    symbol: String,
    chain: String,
    address: String,
}

/// A thesis in a list.
#[derive(Serialize, JsonSchema)]
struct ThesisRow {
    id: String,
    created_at: String,
    /// Handle of the author.
    handle: String,
    /// Symbol of the token.
    token: String,
    token_id: String,
    chain: String,
    /// The text, or its first 400 characters and `…`; `get_thesis` reads the whole.
    text: String,
    /// Likes on the platform, if known.
    likes: Option<i64>,
}

impl From<ApiThesis> for ThesisRow {
    fn from(thesis: ApiThesis) -> Self {
        Self {
            id: thesis.id,
            created_at: thesis.created_at,
            handle: thesis.profile.handle,
            token: thesis.token.symbol,
            token_id: thesis.token.id,
            chain: thesis.token.chain,
            text: cut(thesis.text),
            likes: thesis.likes,
        }
    }
}

/// One page of theses.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThesisPage {
    theses: Vec<ThesisRow>,
    /// Continues after this page; null on the last one.
    next_cursor: Option<String>,
    /// How to get the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<String>,
}

impl From<ApiPage<ApiThesis>> for ThesisPage {
    fn from(page: ApiPage<ApiThesis>) -> Self {
        let more = page.next_cursor.as_ref().map(|_| MORE_THESES.to_owned());
        Self { theses: page.data.into_iter().map(Into::into).collect(), next_cursor: page.next_cursor, more }
    }
}

/// A whole thesis.
#[derive(Serialize, JsonSchema)]
pub(super) struct Thesis {
    id: String,
    created_at: String,
    updated_at: String,
    /// Handle of the author.
    handle: String,
    profile_id: String,
    token: TokenRef,
    text: String,
    /// Likes on the platform, if known.
    likes: Option<i64>,
    /// Replies on the platform, if known.
    replies: Option<i64>,
    /// The thesis on the platform.
    public_url: Option<String>,
}

impl From<ApiThesis> for Thesis {
    fn from(thesis: ApiThesis) -> Self {
        Self {
            id: thesis.id,
            created_at: thesis.created_at,
            updated_at: thesis.updated_at,
            handle: thesis.profile.handle,
            profile_id: thesis.profile.id,
            token: thesis.token,
            text: thesis.text,
            likes: thesis.likes,
            replies: thesis.replies,
            public_url: thesis.public_url,
        }
    }
}

/// The results of a search.
#[derive(Serialize, JsonSchema)]
pub(super) struct SearchResult {
    theses: Vec<ThesisRow>,
    profiles: Vec<Profile>,
    tokens: Vec<Token>,
    /// How to get more.
    more: String,
}

impl From<ApiSearchResult> for SearchResult {
    fn from(found: ApiSearchResult) -> Self {
        let theses = found.theses.into_iter().map(Into::into).collect();
        Self { theses, profiles: found.profiles, tokens: found.tokens, more: MORE_SEARCH.to_owned() }
    }
}

/// The public profile of an author.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(super) struct Profile {
    id: String,
    handle: String,
    display_name: Option<String>,
    bio: Option<String>,
    /// True if the platform has verified the account.
    verified: Option<bool>,
    profile_url: Option<String>,
    /// Time at which the service first saw it.
    first_seen_at: String,
    updated_at: String,
    /// True if the platform could not be reached, and the data is older.
    #[serde(default)]
    stale: bool,
}

/// A token with counts of the theses that the service has observed.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(super) struct Token {
    id: String,
    symbol: String,
    name: Option<String>,
    chain: String,
    address: String,
    thesis_count: i64,
    unique_thesis_authors: i64,
    recent_thesis_count: i64,
    first_seen_at: String,
    last_activity_at: Option<String>,
    /// True if the platform could not be reached, and the data is older.
    #[serde(default)]
    stale: bool,
}

/// A token's last 24 hours.
#[derive(Serialize, JsonSchema)]
pub(super) struct TokenActivity {
    token: TokenRef,
    thesis_count_1h: i64,
    thesis_count_24h: i64,
    unique_authors_24h: i64,
    last_activity_at: Option<String>,
    /// The hours that have theses.
    hours: Vec<Hour>,
    recent_theses: Vec<ThesisRow>,
    computed_at: String,
    /// How to get more theses.
    more: String,
}

/// An hour of a token.
#[derive(Serialize, JsonSchema)]
struct Hour {
    start: String,
    theses: i64,
    authors: i64,
}

impl From<ApiTokenActivity> for TokenActivity {
    fn from(activity: ApiTokenActivity) -> Self {
        let hours = activity.timeline.into_iter().filter(|hour| hour.theses > 0);
        let hours =
            hours.map(|hour| Hour { start: hour.bucket_start, theses: hour.theses, authors: hour.unique_authors });
        Self {
            token: activity.token,
            thesis_count_1h: activity.thesis_count_1h,
            thesis_count_24h: activity.thesis_count_24h,
            unique_authors_24h: activity.unique_authors_24h,
            last_activity_at: activity.last_activity_at,
            hours: hours.collect(),
            recent_theses: activity.recent_theses.into_iter().map(Into::into).collect(),
            computed_at: activity.computed_at,
            more: MORE_ACTIVITY.to_owned(),
        }
    }
}

/// A verdict. It never judges whether the thesis is good or right.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(super) struct Verification {
    verified: bool,
    /// The reason, such as `VERIFIED` or `NO_THESIS_IN_WINDOW`.
    reason: String,
    thesis_id: Option<String>,
    profile_id: Option<String>,
    token: Option<String>,
    created_at: Option<String>,
    checks: Checks,
    /// The proof of the thesis. Save it unchanged: `trade-thesis receipt verify FILE` checks it offline.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<JsonObject>,
    /// The signed verdict, if the reason is not `VERIFIED`. It is checked as a receipt is.
    #[serde(skip_serializing_if = "Option::is_none")]
    statement: Option<JsonObject>,
}

/// The single checks of a verdict.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Checks {
    identity: bool,
    token: bool,
    time_window: bool,
    thesis_exists: bool,
    not_deleted: bool,
    contains: Option<bool>,
}

/// Usage of the plan's limits.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(super) struct Usage {
    /// The organization's requests of this month.
    month: Month,
    /// The requests of this minute, by rate class.
    rates: Rates,
}

/// The requests of a month.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Month {
    end: String,
    limit: i64,
    used: i64,
    remaining: i64,
}

/// The rate classes: `search` and `get_profile` are heavy, `verify_thesis` is verify, all others standard.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Rates {
    standard: Rate,
    heavy: Rate,
    verify: Rate,
}

/// A rate class.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Rate {
    limit: i64,
    remaining: i64,
    /// Time at which the minute ends, in Unix seconds.
    reset: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for (text, expected) in [
            ("é".repeat(MAX_TEXT), "é".repeat(MAX_TEXT)),
            ("é".repeat(MAX_TEXT + 1), "é".repeat(MAX_TEXT) + "…"),
            (String::new(), String::new()),
        ] {
            assert_eq!(cut(text), expected);
        }
    }
}
