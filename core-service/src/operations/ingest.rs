//! Ingests observations of the upstream at this core, which may or may not own the log. Data outside the contract is
//! dropped here.

use std::ops::RangeInclusive;

use futures::future::join_all;
use prost_types::Timestamp;
use thesis_proto::{
    time::to_millis,
    v1::{self, observation::Observed},
};
use url::Url;

use super::fields::Fields;
use crate::{
    domain::{
        dataset::Dataset,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        row::Wallet,
        window::DAY_MS,
    },
    error::Result,
    service::Core,
};

/// Observations of one call.
const MAX_OBSERVATIONS: usize = 1_000;
/// Wallets of one profile.
const MAX_WALLETS: usize = 100;
/// Length of ids and handles in characters.
const NAME: RangeInclusive<usize> = 1..=64;
/// Length of a chain or network in characters.
const CHAIN: RangeInclusive<usize> = 1..=32;
/// Length of an address in characters.
const ADDRESS: RangeInclusive<usize> = 1..=140;
/// Length of a text in characters.
const TEXT: RangeInclusive<usize> = 1..=10_000;
/// Length of URLs, and of texts that people write about themselves, in characters.
const LONG: RangeInclusive<usize> = 0..=2_048;
/// The largest number that every JSON parser reads exactly.
const MAX_COUNT: i64 = (1 << 53) - 1;
/// A date may be this far in the future, in milliseconds. Clocks differ, but a later date would stay first in lists.
const AHEAD_MS: i64 = DAY_MS;

/// The rule against two theses with the same id.
const CONTRADICTS: &str = "must be what it was when the thesis was first seen";

/// Checks the fields of one observation. Their names contain its position in the request.
struct Reader<'a> {
    fields: &'a mut Fields,
    at: String,
    now_ms: i64,
}

impl Reader<'_> {
    fn reject(&mut self, name: &str, rule: impl Into<String>) {
        self.fields.reject(&format!("{}.{name}", self.at), rule);
    }

    /// The reader of a message within this one.
    fn within(&mut self, name: &str) -> Reader<'_> {
        Reader { at: format!("{}.{name}", self.at), fields: &mut *self.fields, now_ms: self.now_ms }
    }

    fn required<M, T: Default>(
        &mut self,
        name: &str,
        message: Option<M>,
        read: impl FnOnce(&mut Reader<'_>, M) -> T,
    ) -> T {
        let Some(message) = message else {
            self.reject(name, "is required");
            return T::default();
        };
        read(&mut self.within(name), message)
    }

    /// Checks a text of several lines.
    fn text(&mut self, name: &str, text: String, allowed: RangeInclusive<usize>) -> String {
        self.fields.length(&format!("{}.{name}", self.at), &text, allowed);
        text
    }

    /// Checks a text of one line.
    fn line(&mut self, name: &str, text: String, allowed: RangeInclusive<usize>) -> String {
        if text.contains(['\n', '\r', '\t']) {
            self.reject(name, "must not contain control characters");
            return text;
        }
        self.text(name, text, allowed)
    }

    /// Checks a name without spaces, which may start with `sign`.
    fn word(&mut self, name: &str, text: String, sign: Option<char>, allowed: RangeInclusive<usize>) -> String {
        if text.chars().any(char::is_whitespace) {
            self.reject(name, "must not contain spaces");
        } else if sign.is_some_and(|sign| text.strip_prefix(sign).is_some_and(str::is_empty)) {
            self.reject(name, "must have something behind its sign");
        } else {
            return self.line(name, text, allowed);
        }
        text
    }

    fn optional_line(&mut self, name: &str, text: Option<String>) -> Option<String> {
        text.map(|text| self.line(name, text, LONG))
    }

    fn url(&mut self, name: &str, text: Option<String>) -> Option<String> {
        let text = text?;
        if !LONG.contains(&text.chars().count()) {
            self.reject(name, format!("must have at most {} characters", LONG.end()));
        } else if !Url::parse(&text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
            || text.chars().any(|c| c.is_control() || c.is_whitespace())
        {
            self.reject(name, "must be an http or https URL");
        }
        Some(text)
    }

    fn optional_time(&mut self, name: &str, time: Option<Timestamp>) -> Option<i64> {
        let time = time?;
        let at = to_millis(&time);
        if !(0..1_000_000_000).contains(&time.nanos) || !(0..=self.now_ms + AHEAD_MS).contains(&at) {
            self.reject(name, "must be a time from 1970 to a day ahead");
        }
        Some(at)
    }

    fn time(&mut self, name: &str, time: Option<Timestamp>) -> i64 {
        if time.is_none() {
            self.reject(name, "is required");
        }
        self.optional_time(name, time).unwrap_or_default()
    }

    fn count(&mut self, name: &str, count: Option<i64>) -> Option<i64> {
        if count.is_some_and(|count| !(0..=MAX_COUNT).contains(&count)) {
            self.reject(name, format!("must be from 0 to {MAX_COUNT}"));
        }
        count
    }

    fn profile(&mut self, seen: v1::ProfileObservation) -> ObservedProfile {
        ObservedProfile {
            upstream_id: self.word("upstream_user_id", seen.upstream_user_id, None, NAME),
            handle: self.word("handle", seen.handle, Some('@'), NAME),
            display_name: self.optional_line("display_name", seen.display_name),
            bio: seen.bio.map(|bio| self.text("bio", bio, LONG)),
            avatar_url: self.url("avatar_url", seen.avatar_url),
            profile_url: self.url("profile_url", seen.profile_url),
            wallets: Some(self.wallets(seen.wallets)),
            verified: seen.verified,
            created_at: self.optional_time("created_at", seen.created_at),
            source_updated_at: self.optional_time("source_updated_at", seen.source_updated_at),
            revision: seen.revision,
        }
    }

    fn wallets(&mut self, seen: Vec<v1::ObservedWallet>) -> Vec<Wallet> {
        if seen.len() > MAX_WALLETS {
            self.reject("wallets", format!("must be at most {MAX_WALLETS}"));
        }
        let wallets = seen.into_iter().take(MAX_WALLETS).enumerate().map(|(index, wallet)| {
            let mut reader = self.within(&format!("wallets[{index}]"));
            Wallet {
                address: reader.word("address", wallet.address, None, ADDRESS),
                network: reader.word("network", wallet.network, None, CHAIN),
                observed_at: reader.time("observed_at", wallet.observed_at),
            }
        });
        wallets.collect()
    }

    fn token(&mut self, seen: v1::TokenObservation) -> ObservedToken {
        let chain = self.word("chain", seen.chain, None, CHAIN);
        if chain.contains(':') {
            self.reject("chain", "must not contain `:`");
        }
        let address = self.word("address", seen.address, None, ADDRESS);
        // Real symbols have spaces.
        let symbol = self.line("symbol", seen.symbol, NAME);
        if matches!(symbol.trim(), "" | "$") {
            self.reject("symbol", "must have something behind its sign");
        }
        ObservedToken {
            chain,
            address,
            symbol,
            chain_id: self.count("chain_id", seen.chain_id),
            name: self.optional_line("name", seen.name),
            logo_url: self.url("logo_url", seen.logo_url),
            platform_url: self.url("platform_url", seen.platform_url),
            source_updated_at: self.optional_time("source_updated_at", seen.source_updated_at),
            revision: seen.revision,
        }
    }

    fn thesis(&mut self, seen: v1::ThesisObservation) -> ObservedThesis {
        let upstream_id = self.word("upstream_id", seen.upstream_id, None, NAME);
        let text = self.text("text", seen.text, TEXT);
        let created_at = self.time("created_at", seen.created_at);
        let updated_at = self.optional_time("updated_at", seen.updated_at).unwrap_or(created_at);
        if updated_at < created_at {
            self.reject("updated_at", "must not be before created_at");
        }
        ObservedThesis {
            upstream_id,
            profile: self.required("profile", seen.profile, |reader, seen| reader.profile(seen)),
            token: self.required("token", seen.token, |reader, seen| reader.token(seen)),
            text,
            likes: self.count("likes", seen.likes),
            replies: self.count("replies", seen.replies),
            created_at,
            updated_at,
        }
    }

    fn engagement(&mut self, seen: v1::EngagementObservation) -> ObservedEngagement {
        ObservedEngagement {
            upstream_id: self.word("upstream_id", seen.upstream_id, None, NAME),
            likes: self.count("likes", seen.likes),
            replies: self.count("replies", seen.replies),
        }
    }

    fn observation(&mut self, message: v1::Observation) -> Observation {
        let observed_at = self.time("observed_at", message.observed_at);
        let seen = match message.observed {
            Some(Observed::Thesis(seen)) => ObservedThing::Thesis(Box::new(self.within("thesis").thesis(seen))),
            Some(Observed::Engagement(seen)) => ObservedThing::Engagement(self.within("engagement").engagement(seen)),
            Some(Observed::Deletion(seen)) => {
                ObservedThing::Deletion(self.within("deletion").word("upstream_id", seen.upstream_id, None, NAME))
            }
            Some(Observed::Profile(seen)) => ObservedThing::Profile(Box::new(self.within("profile").profile(seen))),
            Some(Observed::Token(seen)) => ObservedThing::Token(Box::new(self.within("token").token(seen))),
            None => {
                self.reject("observed", "is required");
                ObservedThing::Deletion(String::new())
            }
        };
        Observation { observed_at, revision: message.revision, seen }
    }
}

fn read(message: v1::IngestRequest, now_ms: i64) -> Result<(Dataset, Vec<Observation>)> {
    let mut fields = Fields::default();
    // A log of alerts has no theses.
    let dataset = Dataset::parse(&message.dataset).filter(|dataset| !matches!(dataset, Dataset::Alerts(_)));
    if dataset.is_none() {
        fields.reject("dataset", "must be live, sandbox or project/<id>");
    }
    if message.observations.len() > MAX_OBSERVATIONS {
        fields.reject("observations", format!("must be at most {MAX_OBSERVATIONS}"));
        fields.finish()?;
        return Ok((Dataset::Sandbox, Vec::new()));
    }
    let mut observations = Vec::with_capacity(message.observations.len());
    for (index, observation) in message.observations.into_iter().enumerate() {
        let mut reader = Reader { fields: &mut fields, at: format!("observations[{index}]"), now_ms };
        observations.push(reader.observation(observation));
    }
    fields.finish()?;
    Ok((dataset.unwrap_or(Dataset::Sandbox), observations))
}

pub async fn ingest(core: &Core, message: v1::IngestRequest) -> Result<v1::IngestResponse> {
    let (dataset, observations) = read(message, core.shared.clock.now_ms())?;
    // The writer receives and writes them in this order.
    let written = observations.into_iter().map(|observation| core.datasets.observe_here(&dataset, observation));
    let written = tokio::task::unconstrained(join_all(written)).await;
    let mut results = Vec::with_capacity(written.len());
    let mut refused = Fields::default();
    for (index, written) in written.into_iter().enumerate() {
        let written = written?;
        if let Some(field) = written.refused {
            refused.reject(&format!("observations[{index}].{field}"), CONTRADICTS);
        }
        results.push(v1::IngestResult {
            id: written.id,
            event_id: written.event_id.filter(|_| written.applied),
            applied: written.applied,
        });
    }
    // The other observations of the call are written; a client may send them again.
    refused.finish()?;
    Ok(v1::IngestResponse { results })
}
