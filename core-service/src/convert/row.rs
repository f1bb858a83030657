//! Profiles, tokens and theses.

use thesis_proto::{time::from_millis, v1};

use super::optional_time;
use crate::domain::{
    dataset::Dataset,
    row::{Profile, Thesis, Token},
};

pub fn source(dataset: &Dataset) -> v1::Source {
    if dataset.livemode() { v1::Source::Upstream } else { v1::Source::Sandbox }
}

pub fn profile_ref(profile: &Profile) -> v1::ProfileRef {
    v1::ProfileRef {
        id: profile.id.clone(),
        handle: profile.handle.clone(),
        display_name: profile.display_name.clone(),
        avatar_url: profile.avatar_url.clone(),
    }
}

pub fn token_ref(token: &Token) -> v1::TokenRef {
    v1::TokenRef {
        id: token.id.clone(),
        symbol: token.symbol.clone(),
        name: token.name.clone(),
        chain: token.chain.clone(),
        address: token.address.clone(),
    }
}

/// Returns the wallet with the latest observation; of several, the first.
fn newest_wallet(profile: &Profile) -> Option<v1::Wallet> {
    let newest = profile.wallets.iter().rev().max_by_key(|wallet| wallet.observed_at)?;
    Some(v1::Wallet { address: newest.address.clone(), network: newest.network.clone() })
}

/// The profile, with its wallet only if the caller may see it.
pub fn profile(dataset: &Dataset, profile: &Profile, with_wallet: bool) -> v1::Profile {
    v1::Profile {
        id: profile.id.clone(),
        handle: profile.handle.clone(),
        display_name: profile.display_name.clone(),
        avatar_url: profile.avatar_url.clone(),
        profile_url: profile.profile_url.clone(),
        bio: profile.bio.clone(),
        verified: profile.verified,
        source: source(dataset).into(),
        livemode: dataset.livemode(),
        created_at: optional_time(profile.created_at),
        first_seen_at: Some(from_millis(profile.first_seen_at)),
        updated_at: Some(from_millis(profile.updated_at)),
        source_updated_at: optional_time(profile.source_updated_at),
        stale: None,
        wallet: if with_wallet { newest_wallet(profile) } else { None },
    }
}

pub fn thesis(dataset: &Dataset, thesis: &Thesis, author: &Profile, token: &Token) -> v1::Thesis {
    v1::Thesis {
        id: thesis.id.clone(),
        profile: Some(profile_ref(author)),
        token: Some(token_ref(token)),
        text: thesis.text.clone(),
        // The upstream exposes no permalink of a thesis.
        public_url: None,
        likes: thesis.likes,
        replies: thesis.replies,
        created_at: Some(from_millis(thesis.created_at)),
        updated_at: Some(from_millis(thesis.updated_at)),
        source: source(dataset).into(),
        livemode: dataset.livemode(),
    }
}

pub fn token(dataset: &Dataset, token: &Token, theses: i64, authors: i64, recent: i64, last: Option<i64>) -> v1::Token {
    v1::Token {
        id: token.id.clone(),
        symbol: token.symbol.clone(),
        name: token.name.clone(),
        chain: token.chain.clone(),
        chain_id: token.chain_id,
        address: token.address.clone(),
        logo_url: token.logo_url.clone(),
        platform_url: token.platform_url.clone(),
        thesis_count: theses,
        unique_thesis_authors: authors,
        recent_thesis_count: recent,
        first_seen_at: Some(from_millis(token.first_seen_at)),
        last_activity_at: optional_time(last),
        source: source(dataset).into(),
        livemode: dataset.livemode(),
        updated_at: Some(from_millis(token.updated_at)),
        source_updated_at: optional_time(token.source_updated_at),
        stale: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::row::{Age, Wallet};

    /// Each field has a value, so this fails if an event shows a new field that `for_events` drops.
    #[test]
    fn events_show_the_same_of_a_row_and_of_its_part_for_events() {
        let [one, other] = ["one", "other"].map(|text| Some(text.to_owned()));
        let age = Some(Age::own(Some(1), 2));
        let author = Profile {
            id: "fp_1".to_owned(),
            upstream_id: "u_1".to_owned(),
            handle: "@a".to_owned(),
            display_name: one.clone(),
            avatar_url: other.clone(),
            profile_url: one.clone(),
            bio: other.clone(),
            verified: Some(true),
            created_at: Some(3),
            first_seen_at: 4,
            updated_at: 5,
            source_updated_at: Some(6),
            wallets: vec![Wallet::default()],
            age,
            wallets_age: age,
        };
        let on = Token {
            id: "tk_1".to_owned(),
            symbol: "$RUN".to_owned(),
            name: one.clone(),
            chain: "base".to_owned(),
            chain_id: Some(7),
            address: "0x1".to_owned(),
            logo_url: one,
            platform_url: other,
            first_seen_at: 8,
            updated_at: 9,
            source_updated_at: Some(10),
            age,
        };
        let (short_author, short_token) = (author.for_events(), on.for_events());
        assert_eq!(profile_ref(&short_author), profile_ref(&author));
        assert_eq!(token_ref(&short_token), token_ref(&on));
        assert_eq!(short_author.upstream_id, author.upstream_id);
        assert!(short_author.bio.is_none() && short_author.wallets.is_empty() && short_token.logo_url.is_none());
    }
}
