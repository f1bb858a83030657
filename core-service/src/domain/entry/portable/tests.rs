mod parts;

use proptest::{collection::vec, option::of, prelude::*};

use self::parts::{alert_change, totals};
use super::*;
use crate::domain::{
    entry::{
        DatasetTotals, NamedProfile, NamedToken, ProfileObserved, ProfileUpdated, ThesisChanged, ThesisCreated,
        ThesisDeleted, ThesisEdited, ThesisVelocity, TokenActivity, TokenObserved, Totals,
    },
    event_id::thesis_event_id,
    row::{Age, Wallet},
};

/// Numbers of all sizes, and both of an end's sides.
fn int() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), Just(0), Just(i64::MIN), Just(i64::MAX)]
}

fn age() -> impl Strategy<Value = Age> {
    (of(int()), int(), any::<bool>()).prop_map(|(revision, observed_at, own)| Age { revision, observed_at, own })
}

/// Its parts are boxed, as all that are large: otherwise a test's stack is too small for them.
fn profile() -> BoxedStrategy<Profile> {
    let wallet = (any::<String>(), any::<String>(), int());
    let wallet = wallet.prop_map(|(address, network, observed_at)| Wallet { address, network, observed_at });
    let names = (any::<[String; 3]>(), any::<[Option<String>; 4]>(), of(any::<bool>()));
    let times = (of(int()), int(), int(), of(int()));
    (names, times, vec(wallet, 0..3), of(age()), of(age()))
        .prop_map(|(names, times, wallets, age, wallets_age)| {
            let ([id, upstream_id, handle], [display_name, avatar_url, profile_url, bio], verified) = names;
            let (created_at, first_seen_at, updated_at, source_updated_at) = times;
            Profile {
                id,
                upstream_id,
                handle,
                display_name,
                avatar_url,
                profile_url,
                bio,
                verified,
                created_at,
                first_seen_at,
                updated_at,
                source_updated_at,
                wallets,
                age,
                wallets_age,
            }
        })
        .boxed()
}

fn token() -> BoxedStrategy<Token> {
    let times = (of(int()), int(), int(), of(int()));
    (any::<[String; 4]>(), any::<[Option<String>; 3]>(), times, of(age()))
        .prop_map(|(names, more, times, age)| {
            let ([id, symbol, chain, address], [name, logo_url, platform_url]) = (names, more);
            let (chain_id, first_seen_at, updated_at, source_updated_at) = times;
            Token {
                id,
                symbol,
                name,
                chain,
                chain_id,
                address,
                logo_url,
                platform_url,
                first_seen_at,
                updated_at,
                source_updated_at,
                age,
            }
        })
        .boxed()
}

fn thesis() -> BoxedStrategy<Thesis> {
    let numbers = (of(int()), of(int()), of(int()), int(), int(), int(), int());
    (any::<[String; 6]>(), numbers, any::<[bool; 2]>(), [of(any::<u64>()), of(any::<u64>())], (int(), of(int())))
        .prop_map(|(texts, numbers, homes, [sequence, changed_in], (recorded_at, removed_at))| {
            let [id, profile_id, token_id, chain, text, upstream_id] = texts;
            let (likes, replies, deleted_at, created_at, updated_at, version, engagement_version) = numbers;
            let [sandbox_profile, sandbox_token] = homes;
            Thesis {
                id,
                profile_id,
                token_id,
                chain,
                text,
                likes,
                replies,
                created_at,
                updated_at,
                deleted_at,
                sandbox_profile,
                sandbox_token,
                version,
                engagement_version,
                upstream_id,
                sequence,
                recorded_at,
                removed_at,
                changed_in,
            }
        })
        .boxed()
}

fn names() -> impl Strategy<Value = (NamedProfile, NamedToken)> {
    (any::<[String; 2]>(), any::<[String; 4]>()).prop_map(|([profile_id, handle], [id, chain, address, symbol])| {
        (NamedProfile { id: profile_id, handle }, NamedToken { id, chain, address, symbol })
    })
}

fn created() -> BoxedStrategy<ThesisCreated> {
    (thesis(), profile(), token(), any::<[bool; 2]>(), totals())
        .prop_map(|(thesis, profile, token, [introduces_profile, introduces_token], totals)| ThesisCreated {
            thesis,
            profile,
            token,
            introduces_profile,
            introduces_token,
            totals,
        })
        .boxed()
}

fn kind() -> BoxedStrategy<Kind> {
    let changed = || thesis().prop_map(|thesis| ThesisChanged { thesis });
    let activity = (token(), [int(), int(), int()], of(any::<String>()), of(int()));
    let activity = activity.prop_map(|(token, counts, latest_thesis_id, last_activity_at)| {
        let [thesis_count_1h, thesis_count_24h, unique_authors_24h] = counts;
        TokenActivity {
            token,
            thesis_count_1h,
            thesis_count_24h,
            unique_authors_24h,
            latest_thesis_id,
            last_activity_at,
        }
    });
    let velocity = (token(), [int(), int(), int()])
        .prop_map(|(token, [last_5m, last_1h, previous_1h])| ThesisVelocity { token, last_5m, last_1h, previous_1h });
    let updated = (profile(), vec(any::<String>(), 0..3), of(any::<String>()));
    let updated =
        updated.prop_map(|(profile, changed, previous_handle)| ProfileUpdated { profile, changed, previous_handle });
    let edited = (thesis(), names(), of(any::<u64>())).prop_map(|(thesis, (profile, token), previous)| ThesisEdited {
        thesis,
        profile,
        token,
        previous,
    });
    let deleted = (thesis(), totals(), names());
    let deleted =
        deleted.prop_map(|(thesis, totals, (profile, token))| ThesisDeleted { thesis, totals, profile, token });
    let on = (token(), of(any::<String>()));
    let on = on.prop_map(|(token, previous_symbol)| TokenObserved { token, previous_symbol });
    let archived = ([any::<String>(), any::<String>(), any::<String>()], [any::<u64>(), any::<u64>(), any::<u64>()]);
    let archived = archived.prop_map(|([date, kind, sha256], [position, rows, bytes])| ArchiveFile {
        date,
        kind,
        position,
        rows,
        bytes,
        sha256,
    });
    prop_oneof![
        created().prop_map(Kind::ThesisCreated).boxed(),
        activity.prop_map(Kind::TokenActivity).boxed(),
        velocity.prop_map(Kind::ThesisVelocity).boxed(),
        updated.prop_map(Kind::ProfileUpdated).boxed(),
        edited.prop_map(Kind::ThesisEdited).boxed(),
        changed().prop_map(Kind::Engagement).boxed(),
        changed().prop_map(Kind::ThesisAwaited).boxed(),
        deleted.prop_map(Kind::ThesisDeleted).boxed(),
        profile().prop_map(|profile| Kind::ProfileObserved(ProfileObserved { profile })).boxed(),
        on.prop_map(Kind::TokenObserved).boxed(),
        archived.prop_map(Kind::ArchiveFile).boxed(),
        alert_change().prop_map(Kind::AlertFiring).boxed(),
        alert_change().prop_map(Kind::AlertResolved).boxed(),
        alert_change().prop_map(Kind::AlertProgressed).boxed(),
    ]
    .boxed()
}

fn entry() -> impl Strategy<Value = Entry> {
    let bytes = || vec(any::<u8>(), 0..3);
    let parts = (".+", int(), any::<bool>(), kind(), [bytes(), bytes(), bytes()]);
    let known = parts.prop_map(|(id, created_at, test, kind, [trace, salt, leaf])| {
        let kind = Some(kind);
        Entry { id, created_at, test, kind, trace, salt, leaf }
    });
    prop_oneof![20 => known, 1 => (any::<u64>(), int()).prop_map(|(seq, at)| Entry::filler(seq, at))]
}

/// The creation of a thesis at its place, as the writer drafts it; its times, author and token may be the usual ones.
fn drafted() -> BoxedStrategy<(u64, Entry)> {
    (any::<u64>(), entry(), created(), any::<[bool; 3]>())
        .prop_map(|(seq, entry, mut created, [at_once, unchanged, is_of_its_rows])| {
            let thesis = &mut created.thesis;
            thesis.sequence = Some(seq);
            if at_once {
                thesis.recorded_at = entry.created_at;
            }
            if unchanged {
                thesis.updated_at = thesis.created_at;
            }
            if is_of_its_rows {
                thesis.profile_id.clone_from(&created.profile.id);
                thesis.token_id.clone_from(&created.token.id);
                thesis.chain.clone_from(&created.token.chain);
            }
            let id = thesis_event_id(&thesis.id);
            (seq, Entry { id, kind: Some(Kind::ThesisCreated(created)), ..entry })
        })
        .boxed()
}

proptest! {
    #[test]
    fn the_log_gives_each_entry_back(entry in entry(), drafted in drafted(), other in any::<u64>()) {
        let (seq, creation) = drafted;
        for (seq, entry) in [(seq, entry), (seq, creation.clone()), (other, creation)] {
            let stored = entry.stored(seq);
            prop_assert_eq!(Entry::from_stored(seq, &*stored), Ok(entry.clone()));
            prop_assert_eq!(Entry::read_whole(seq, &stored), Ok(entry));
        }
    }

    #[test]
    fn nothing_gets_lost_on_the_way_through_json(entry in entry()) {
        let text = serde_json::to_string(&entry).unwrap();
        prop_assert!(!text.contains('\n'));
        let read: Entry = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &entry);
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}

#[test]
fn what_follows_from_the_rest_of_a_creation_takes_no_bytes() {
    let thesis = Thesis {
        id: "th_1".to_owned(),
        created_at: 1_700_000_000_000,
        updated_at: 1_700_000_000_000,
        sequence: Some(7),
        recorded_at: 1_700_000_000_005,
        ..Thesis::default()
    };
    let kind = |thesis| Some(Kind::ThesisCreated(ThesisCreated { thesis, ..ThesisCreated::default() }));
    let created_at = thesis.recorded_at;
    let entry = Entry { id: "evt_1".to_owned(), created_at, kind: kind(thesis.clone()), ..Entry::default() };
    let rest = Thesis { updated_at: 0, sequence: None, recorded_at: 0, ..thesis };
    let short = Entry { id: String::new(), kind: kind(rest), ..entry.clone() };
    assert_eq!(entry.stored(7), prost::Message::encode_to_vec(&short));
    // Its id leads to another place.
    assert_eq!(entry.stored(8), prost::Message::encode_to_vec(&entry));
}

#[test]
fn what_this_version_does_not_know_is_refused() {
    let filler = Entry::filler(7, 5);
    assert_eq!(Entry::read_whole(7, &filler.stored(7)), Ok(filler.clone()));
    // A field and a kind of a later version.
    let with_field = [filler.stored(7), vec![0x98, 0x06, 0x01]].concat();
    let with_kind = Entry { id: "ent_1".to_owned(), ..filler }.stored(7);
    for stored in [with_field, with_kind] {
        assert!(Entry::read_whole(7, &stored).unwrap_err().contains("does not know"));
    }
    assert!(Entry::read_whole(7, &[0xff]).unwrap_err().contains("damaged"));
}

#[test]
fn rows_suit_the_dataset_that_named_them() {
    let (live, one, two) = (Dataset::Live, Dataset::of_project("prj_1"), Dataset::of_project("prj_2"));
    let observed = |dataset: &str| {
        let thesis = Thesis { id: id::of_thesis(dataset, "7"), upstream_id: "7".to_owned(), ..Thesis::default() };
        Entry { kind: Some(Kind::Engagement(ThesisChanged { thesis })), ..Entry::filler(1, 1) }
    };
    let datasets = [&live, &Dataset::Sandbox, &one, &two];
    let suits = |entry: &Entry| datasets.map(|dataset| entry.must_suit(dataset, 7).is_ok());
    assert_eq!(suits(&observed("live")), [true, false, false, false]);
    assert_eq!(suits(&observed("project/prj_1")), [false, false, true, false]);
    // A change follows the creation that it names.
    for (sequence, suits_live) in [(None, true), (Some(6), true), (Some(7), false), (Some(8), false)] {
        let thesis =
            Thesis { id: id::of_thesis("live", "7"), upstream_id: "7".to_owned(), sequence, ..Thesis::default() };
        let kinds = [
            Kind::ThesisEdited(ThesisEdited { thesis: thesis.clone(), ..ThesisEdited::default() }),
            Kind::ThesisDeleted(ThesisDeleted { thesis: thesis.clone(), ..ThesisDeleted::default() }),
            Kind::Engagement(ThesisChanged { thesis }),
        ];
        for kind in kinds {
            let entry = Entry { kind: Some(kind), ..Entry::filler(1, 1) };
            assert_eq!(suits(&entry)[0], suits_live, "{entry:?}");
        }
    }
    // The API finds test data by handle and symbol.
    let (profile, token) = crate::sandbox::a_profile_and_token();
    let tested = |id: &str, sequence| {
        let thesis = Thesis { id: "th_1".to_owned(), sequence, ..Thesis::default() };
        let (profile, token) = (profile.clone(), token.clone());
        let created = ThesisCreated { thesis, profile, token, ..ThesisCreated::default() };
        Entry { id: id.to_owned(), kind: Some(Kind::ThesisCreated(created)), ..Entry::default() }
    };
    assert_eq!(suits(&tested("evt_1", Some(7))), [false, false, true, true]);
    // Nobody would find these.
    for (id, sequence) in [("evt_2", Some(7)), ("", Some(7)), ("evt_1", Some(8)), ("evt_1", None)] {
        assert_eq!(suits(&tested(id, sequence)), [false; 4]);
    }
}

#[test]
fn the_last_change_of_a_thesis_has_the_place_that_rows_name() {
    let suits = |kind| Entry { kind: Some(kind), ..Entry::filler(1, 1) }.must_suit(&Dataset::Live, 7).is_ok();
    // An edit or deletion is the last change itself, and before another entry it has happened already.
    for (changed_in, is_own, is_earlier) in
        [(None, true, true), (Some(6), false, true), (Some(7), true, false), (Some(8), false, false)]
    {
        let (id, upstream_id) = (id::of_thesis("live", "7"), "7".to_owned());
        let thesis = Thesis { id, upstream_id, sequence: Some(1), changed_in, ..Thesis::default() };
        let edited = Kind::ThesisEdited(ThesisEdited { thesis: thesis.clone(), ..ThesisEdited::default() });
        let deleted = Kind::ThesisDeleted(ThesisDeleted { thesis: thesis.clone(), ..ThesisDeleted::default() });
        let liked = Kind::Engagement(ThesisChanged { thesis });
        assert_eq!([edited, deleted, liked].map(suits), [is_own, is_own, is_earlier], "{changed_in:?}");
    }
    let (profile, token) = crate::sandbox::a_profile_and_token();
    for changed_in in [None, Some(6), Some(7)] {
        let thesis = Thesis { id: "th_1".to_owned(), sequence: Some(7), changed_in, ..Thesis::default() };
        let (profile, token) = (profile.clone(), token.clone());
        let created = ThesisCreated { thesis, profile, token, ..ThesisCreated::default() };
        let entry = Entry { id: "evt_1".to_owned(), kind: Some(Kind::ThesisCreated(created)), ..Entry::default() };
        assert_eq!(entry.must_suit(&Dataset::of_project("prj_1"), 7).is_ok(), changed_in.is_none());
    }
}

#[test]
fn an_archive_file_has_a_name_that_an_archive_gives() {
    let suits =
        |file| Entry { kind: Some(Kind::ArchiveFile(file)), ..Entry::filler(1, 1) }.must_suit(&Dataset::Live, 7);
    let file = || ArchiveFile {
        date: "2026-01-31".to_owned(),
        kind: "theses".to_owned(),
        position: 6,
        sha256: "0123456789abcdef".repeat(4),
        ..ArchiveFile::default()
    };
    assert_eq!(suits(file()), Ok(()));
    let digits = "0".repeat(61);
    for sha256 in [String::new(), "0".repeat(63), "0".repeat(65), "A".repeat(64), format!("../{digits}")] {
        assert!(suits(ArchiveFile { sha256, ..file() }).is_err());
    }
    for other in [
        ArchiveFile { date: "2026-02-30".to_owned(), ..file() },
        ArchiveFile { kind: "thesis".to_owned(), ..file() },
        ArchiveFile { position: 7, ..file() },
    ] {
        assert!(suits(other.clone()).is_err(), "{other:?}");
    }
}

#[test]
fn numbers_with_which_calculations_overflow_are_refused() {
    let suits = |kind| Entry { kind: Some(kind), ..Entry::filler(1, 1) }.must_suit(&Dataset::Live, 7).is_ok();
    let thesis = || Thesis { id: id::of_thesis("live", "7"), upstream_id: "7".to_owned(), ..Thesis::default() };
    let token = || Token { id: id::of_token("live", "", ""), ..Token::default() };
    for (at, is_possible) in
        [(0, true), (253_402_300_799_999, true), (253_402_300_800_000, false), (i64::MAX, false), (i64::MIN, false)]
    {
        let kinds = [
            Kind::Engagement(ThesisChanged { thesis: Thesis { created_at: at, ..thesis() } }),
            Kind::ThesisAwaited(ThesisChanged { thesis: Thesis { removed_at: Some(at), ..thesis() } }),
            Kind::TokenObserved(TokenObserved {
                token: Token { age: Some(Age::beside(at)), ..token() },
                previous_symbol: None,
            }),
            Kind::TokenActivity(TokenActivity { token: token(), last_activity_at: Some(at), ..Default::default() }),
        ];
        for kind in kinds {
            assert_eq!(suits(kind.clone()), is_possible, "{kind:?}");
        }
        assert_eq!(Entry::filler(1, at).must_suit(&Dataset::Live, 7).is_ok(), is_possible, "{at}");
    }
    for (count, is_possible) in [(1 << 53, true), ((1 << 53) + 1, false), (i64::MAX, false), (i64::MIN, false)] {
        let in_dataset = Some(DatasetTotals { theses: count, ..DatasetTotals::default() });
        let totals = Totals { in_dataset, ..Totals::default() };
        let kinds = [
            Kind::ThesisDeleted(ThesisDeleted { thesis: thesis(), totals, ..ThesisDeleted::default() }),
            Kind::ThesisVelocity(ThesisVelocity { token: token(), previous_1h: count, ..ThesisVelocity::default() }),
        ];
        for kind in kinds {
            assert_eq!(suits(kind.clone()), is_possible, "{kind:?}");
        }
    }
}
