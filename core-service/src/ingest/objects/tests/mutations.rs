//! A thesis with any of its fields changed is refused, or keeps every rule.

use proptest::prelude::*;

use super::*;

const PATHS: &[&[&str]] = &[
    &["id"],
    &["profile"],
    &["profile", "id"],
    &["profile", "handle"],
    &["profile", "display_name"],
    &["profile", "avatar_url"],
    &["profile", "profile_url"],
    &["profile", "bio"],
    &["profile", "verified"],
    &["profile", "created_at"],
    &["profile", "updated_at"],
    &["token"],
    &["token", "chain"],
    &["token", "address"],
    &["token", "symbol"],
    &["token", "name"],
    &["token", "chain_id"],
    &["token", "logo_url"],
    &["token", "platform_url"],
    &["token", "updated_at"],
    &["text"],
    &["likes"],
    &["replies"],
    &["created_at"],
    &["updated_at"],
    &["deleted"],
    &["email"],
];

fn any_value() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        2 => Just(None::<Value>),
        1 => Just(Some(Value::Null)),
        1 => any::<bool>().prop_map(|flag| Some(json!(flag))),
        1 => any::<i64>().prop_map(|number| Some(json!(number))),
        1 => any::<f64>().prop_map(|number| Some(json!(number))),
        1 => Just(Some(json!([{"id": "t1"}]))),
        1 => Just(Some(json!({"id": "u1", "handle": "x", "chain": "c", "address": "a", "symbol": "s"}))),
        4 => "[@$]{0,2}.{0,8}".prop_map(|text| Some(json!(text))),
        1 => (1..5_u32).prop_map(|power| Some(json!("é".repeat(10_usize.pow(power))))),
        1 => Just(Some(json!("x".repeat(70_000)))),
        2 => (-20..20_i64).prop_map(|minutes| Some(time(NOW + minutes * MINUTE))),
        1 => "https?://[a-z]{0,9}(/.{0,5})?".prop_map(|url| Some(json!(url))),
    ]
}

fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.chars().count()) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

fn is_url(text: Option<&String>) -> bool {
    text.is_none_or(|text| text.starts_with("http") && text.len() <= 4 * 2_048)
}

fn is_short(text: Option<&String>) -> bool {
    text.is_none_or(|text| text.chars().count() <= 2_048)
}

fn keeps_the_rules(seen: &ObservedThesis, is_deleted: bool) -> bool {
    let ObservedThesis { profile, token, .. } = seen;
    let counts = [seen.likes, seen.replies, token.chain_id];
    let times = [Some(seen.created_at), Some(seen.updated_at), profile.created_at, profile.revision, token.revision];
    is_name(&seen.upstream_id, 64)
        && is_name(&profile.upstream_id, 64)
        && is_name(&profile.handle, 64)
        && !profile.handle.starts_with('@')
        && is_name(&token.chain, 32)
        && !token.chain.contains(':')
        && is_name(&token.address, 140)
        && (1..=64).contains(&token.symbol.chars().count())
        && (is_deleted || !seen.text.is_empty())
        && seen.text.len() <= 64 * 1024
        && counts.iter().flatten().all(|count| (0..1 << 53).contains(count))
        && times.iter().flatten().all(|time| (0..=NOW + 5 * MINUTE).contains(time))
        && seen.updated_at >= seen.created_at
        && [&profile.avatar_url, &profile.profile_url, &token.logo_url, &token.platform_url]
            .into_iter()
            .all(|url| is_url(url.as_ref()))
        && [&profile.display_name, &profile.bio, &token.name].into_iter().all(|text| is_short(text.as_ref()))
        && profile.wallets.is_none()
}

proptest! {
    #[test]
    fn a_changed_thesis_is_refused_or_right(
        changes in prop::collection::vec((0..PATHS.len(), any_value()), 1..4),
        is_deleted: bool,
    ) {
        let mut value = whole();
        for (path, new) in changes {
            change(&mut value, PATHS[path], new);
        }
        let read = if is_deleted { deleted_thesis(&value, NOW) } else { thesis(&value, NOW) };
        let is_deleted = is_deleted || value["deleted"] == json!(true);
        for (place, observation) in read.into_iter().flatten().enumerate() {
            prop_assert_eq!(observation.observed_at, NOW);
            prop_assert!(observation.revision.is_some_and(|revision| (0..=NOW + 5 * MINUTE).contains(&revision)));
            match observation.seen {
                ObservedThing::Deletion(id) => prop_assert!(is_deleted && place == 0 && is_name(&id, 64)),
                ObservedThing::Thesis(seen) => {
                    prop_assert_eq!(place, usize::from(is_deleted));
                    prop_assert!(keeps_the_rules(&seen, is_deleted), "{:?}", seen);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = page(&bytes, NOW);
    }
}
