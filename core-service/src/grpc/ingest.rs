//! `IngestService`: what the contract does not name never gets further than here.

use futures::future::join_all;
use prost_types::Timestamp;
use thesis_proto::{
    time::to_millis,
    v1::{self, ingest_service_server::IngestService, observation::Observed},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{internal, service_only},
};
use crate::{
    domain::{
        dataset::Dataset,
        observation::{EngagementSeen, Observation, ProfileSeen, Seen, ThesisSeen, TokenSeen},
        row::Wallet,
    },
    service::{error::Result as Outcome, validate::Fields},
};

/// Observations that one call may bring.
const MAX_OBSERVATIONS: usize = 1_000;
/// Characters of ids and handles.
const NAME: std::ops::RangeInclusive<usize> = 1..=64;
/// Characters of a text.
const TEXT: std::ops::RangeInclusive<usize> = 1..=10_000;
/// Characters of URLs and of what people say about themselves.
const LONG: std::ops::RangeInclusive<usize> = 0..=2_048;

/// Checks one observation's fields, named after its place in the request.
struct Reader<'a> {
    fields: &'a mut Fields,
    at: String,
}

impl Reader<'_> {
    fn text(&mut self, name: &str, text: &str, allowed: std::ops::RangeInclusive<usize>) {
        self.fields.length(&format!("{}.{name}", self.at), text, allowed);
    }

    fn texts<const N: usize>(&mut self, texts: [(&str, &Option<String>); N]) {
        for (name, text) in texts {
            self.fields.optional_length(&format!("{}.{name}", self.at), text.as_deref(), LONG);
        }
    }

    fn time(&mut self, name: &str, time: Option<&Timestamp>) -> i64 {
        if time.is_none() {
            self.fields.reject(&format!("{}.{name}", self.at), "is required");
        }
        time.map(to_millis).unwrap_or_default()
    }

    fn count(&mut self, name: &str, count: Option<i64>) -> Option<i64> {
        if count.is_some_and(|count| count < 0) {
            self.fields.reject(&format!("{}.{name}", self.at), "must not be negative");
        }
        count
    }

    fn profile(&mut self, seen: Option<v1::ProfileObservation>) -> ProfileSeen {
        let Some(seen) = seen else {
            self.fields.reject(&format!("{}.profile", self.at), "is required");
            return ProfileSeen::default();
        };
        self.text("profile.upstream_user_id", &seen.upstream_user_id, NAME);
        self.text("profile.handle", &seen.handle, NAME);
        self.texts([
            ("profile.display_name", &seen.display_name),
            ("profile.avatar_url", &seen.avatar_url),
            ("profile.profile_url", &seen.profile_url),
            ("profile.bio", &seen.bio),
        ]);
        let wallets = seen.wallets.into_iter().map(|wallet| {
            self.text("profile.wallets.address", &wallet.address, 1..=140);
            self.text("profile.wallets.network", &wallet.network, 1..=32);
            let observed_at = self.time("profile.wallets.observed_at", wallet.observed_at.as_ref());
            Wallet { address: wallet.address, network: wallet.network, observed_at }
        });
        let wallets = wallets.collect();
        ProfileSeen {
            upstream_id: seen.upstream_user_id,
            handle: seen.handle,
            display_name: seen.display_name,
            avatar_url: seen.avatar_url,
            profile_url: seen.profile_url,
            bio: seen.bio,
            verified: seen.verified,
            created_at: seen.created_at.as_ref().map(to_millis),
            source_updated_at: seen.source_updated_at.as_ref().map(to_millis),
            wallets,
        }
    }

    fn token(&mut self, seen: Option<v1::TokenObservation>) -> TokenSeen {
        let Some(seen) = seen else {
            self.fields.reject(&format!("{}.token", self.at), "is required");
            return TokenSeen::default();
        };
        self.text("token.chain", &seen.chain, 1..=32);
        self.text("token.address", &seen.address, 1..=140);
        self.text("token.symbol", &seen.symbol, NAME);
        if seen.chain.contains(':') {
            self.fields.reject(&format!("{}.token.chain", self.at), "must not contain `:`");
        }
        self.texts([
            ("token.name", &seen.name),
            ("token.logo_url", &seen.logo_url),
            ("token.platform_url", &seen.platform_url),
        ]);
        TokenSeen {
            chain: seen.chain,
            address: seen.address,
            symbol: seen.symbol,
            name: seen.name,
            chain_id: seen.chain_id,
            logo_url: seen.logo_url,
            platform_url: seen.platform_url,
            source_updated_at: seen.source_updated_at.as_ref().map(to_millis),
        }
    }

    fn observation(&mut self, message: v1::Observation) -> Observation {
        let observed_at = self.time("observed_at", message.observed_at.as_ref());
        let seen = match message.observed {
            Some(Observed::Thesis(seen)) => {
                self.text("thesis.upstream_id", &seen.upstream_id, NAME);
                self.text("thesis.text", &seen.text, TEXT);
                let created_at = self.time("thesis.created_at", seen.created_at.as_ref());
                Seen::Thesis(Box::new(ThesisSeen {
                    upstream_id: seen.upstream_id,
                    profile: self.profile(seen.profile),
                    token: self.token(seen.token),
                    text: seen.text,
                    likes: self.count("thesis.likes", seen.likes),
                    replies: self.count("thesis.replies", seen.replies),
                    created_at,
                    updated_at: seen.updated_at.as_ref().map_or(created_at, to_millis),
                }))
            }
            Some(Observed::Engagement(seen)) => {
                self.text("engagement.upstream_id", &seen.upstream_id, NAME);
                Seen::Engagement(EngagementSeen {
                    upstream_id: seen.upstream_id,
                    likes: self.count("engagement.likes", seen.likes),
                    replies: self.count("engagement.replies", seen.replies),
                })
            }
            Some(Observed::Deletion(seen)) => {
                self.text("deletion.upstream_id", &seen.upstream_id, NAME);
                Seen::Deletion(seen.upstream_id)
            }
            Some(Observed::Profile(seen)) => Seen::Profile(Box::new(self.profile(Some(seen)))),
            Some(Observed::Token(seen)) => Seen::Token(Box::new(self.token(Some(seen)))),
            None => {
                self.fields.reject(&format!("{}.observed", self.at), "is required");
                Seen::Deletion(String::new())
            }
        };
        Observation { observed_at, version: message.revision.unwrap_or(observed_at), seen }
    }
}

fn read(message: v1::IngestRequest) -> Outcome<(Dataset, Vec<Observation>)> {
    let mut fields = Fields::default();
    let dataset = Dataset::parse(&message.dataset);
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
        let mut reader = Reader { fields: &mut fields, at: format!("observations[{index}]") };
        observations.push(reader.observation(observation));
    }
    fields.finish()?;
    Ok((dataset.unwrap_or(Dataset::Sandbox), observations))
}

impl Api {
    async fn take(&self, message: v1::IngestRequest) -> Outcome<v1::IngestResponse> {
        let (dataset, observations) = read(message)?;
        let writer = self.core.datasets.writer(&dataset);
        // Left with the writer in this order, and written in it.
        let written = observations.into_iter().map(|observation| writer.observe(observation));
        let written = tokio::task::unconstrained(join_all(written)).await;
        let results = written.into_iter().map(|written| {
            written.map(|written| v1::IngestResult {
                id: written.id,
                event_id: written.event_id.filter(|_| written.applied),
                applied: written.applied,
            })
        });
        Ok(v1::IngestResponse { results: results.collect::<Outcome<_>>()? })
    }
}

#[async_trait]
impl IngestService for Api {
    async fn ingest(&self, request: Request<v1::IngestRequest>) -> Result<Response<v1::IngestResponse>, Status> {
        service_only(&self.core, &request)?;
        internal(&self.core, "IngestService/Ingest", self.take(request.into_inner()).await)
    }
}
