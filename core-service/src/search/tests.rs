mod bounds;
mod copies;
mod files;
mod filters;
mod months;
mod near;
mod placement;
mod shards;
mod unused;
mod windows;

use proptest::prelude::*;

use super::*;
use crate::domain::{
    entry::{
        Entry, Kind as EntryKind, ProfileObserved, ThesisChanged, ThesisCreated, ThesisDeleted, ThesisEdited,
        TokenObserved,
    },
    id::derive,
    row::{Profile, Thesis, Token},
    window::Floor,
};

/// A log in memory with the index that follows it.
struct Log {
    index: SearchIndex,
    entries: BTreeMap<String, Vec<SequencedEntry>>,
}

impl SearchIndex {
    /// Lists theses by likes, after the given one.
    fn likes_page(
        &self,
        view: &View,
        narrow: &SearchFilter,
        after: Option<(Option<i64>, i64, &str)>,
        limit: usize,
    ) -> Result<Vec<ListedThesis>, SearchError> {
        let best = Best::new(Order::Likes, after.map(rank_of_likes), limit);
        Ok(self.best(view, Kind::Thesis, None, narrow, best)?.into_iter().map(listed).collect())
    }
}

fn project(name: &str) -> Dataset {
    Dataset::of_project(name)
}

fn thesis(dataset: &Dataset, name: &str, text: &str, created_at: i64) -> Thesis {
    Thesis {
        id: derive("th_", &[&dataset.to_string(), name]),
        profile_id: derive("fp_", &["ana"]),
        token_id: derive("tk_", &["run"]),
        chain: "base".to_owned(),
        text: text.to_owned(),
        created_at,
        ..Thesis::default()
    }
}

fn profile(handle: &str, name: &str) -> Profile {
    Profile {
        id: derive("fp_", &[handle]),
        handle: handle.to_owned(),
        display_name: Some(name.to_owned()),
        ..Profile::default()
    }
}

fn token(symbol: &str, chain: &str, name: &str) -> Token {
    Token {
        id: derive("tk_", &[symbol, chain]),
        symbol: symbol.to_owned(),
        chain: chain.to_owned(),
        address: format!("0x{chain}{}", &symbol[1..]),
        name: Some(name.to_owned()),
        ..Token::default()
    }
}

fn created(thesis: Thesis) -> EntryKind {
    EntryKind::ThesisCreated(ThesisCreated { thesis, ..ThesisCreated::default() })
}

impl Log {
    fn new() -> Self {
        Self::on(SearchIndex::open(None).unwrap())
    }

    fn on(index: SearchIndex) -> Self {
        Self { index, entries: BTreeMap::new() }
    }

    fn add(&mut self, dataset: &Dataset, kind: EntryKind) {
        let entries = self.entries.entry(dataset.to_string()).or_default();
        let seq = entries.len() as u64 + 1;
        let entry = Entry { id: format!("evt_{seq}"), kind: Some(kind), ..Entry::default() };
        entries.push(SequencedEntry { seq, entry });
        self.index.apply(dataset, &entries[entries.len() - 1..]).unwrap();
    }

    fn say(&mut self, dataset: &Dataset, name: &str, text: &str, created_at: i64) {
        self.add(dataset, created(thesis(dataset, name, text, created_at)));
    }
}

/// The names of the theses found, if they are among `names`.
fn names(dataset: &Dataset, found: &[(Dataset, String)], names: &[&str]) -> Vec<String> {
    let name =
        |id: &str| names.iter().find(|name| thesis(dataset, name, "", 0).id == id).map(|name| (*name).to_owned());
    found.iter().map(|(_, id)| name(id).unwrap_or_else(|| id.to_owned())).collect()
}

fn look(log: &Log, text: &str, known: &[&str]) -> Vec<String> {
    let parsed = parse(text).unwrap();
    let found =
        log.index.find(Kind::Thesis, &View::live(), &parsed, &SearchFilter::default(), Order::Relevance, 50).unwrap();
    names(&Dataset::Live, &found, known)
}

#[test]
fn theses_are_found_by_their_words() {
    let mut log = Log::new();
    for (at, (name, text)) in [
        ("run", "Why $RUN will go up, see uniswap.org"),
        ("jog", "I run every day, very slowly and without any aim at all"),
        ("bear", "@ana_x says $BEAR goes down 📉👍🏽"),
        ("zh", "我看好比特币的未来🚀"),
        ("ko", "비트코인은 오른다"),
        ("de", "STRASSE und Ärger im Cafe\u{301}"),
        ("th", "ราคาบิตคอยน์ขึ้น"),
    ]
    .into_iter()
    .enumerate()
    {
        log.say(&Dataset::Live, name, text, i64::try_from(at).unwrap());
    }
    log.index.commit().unwrap();
    let known = ["run", "jog", "bear", "zh", "ko", "de", "th"];
    let all = |text: &str| {
        let mut found = look(&log, text, &known);
        found.sort();
        found.join(" ")
    };
    for (text, expected) in [
        ("run", "jog run"),
        ("RUN -aim", "run"),
        ("go*", "bear run"),
        ("\"run will go\"", "run"),
        ("\"will run\"", ""),
        ("uniswap", "run"),
        ("uniswap.org", "run"),
        ("ana", "bear"),
        ("@ANA_X", "bear"),
        ("ana_*", "bear"),
        ("will-g*", "run"),
        ("will-u*", ""),
        ("1️⃣-*", ""),
        ("*️⃣#️⃣a*", ""),
        ("bear OR jog OR day", "bear jog"),
        ("every slowly OR down", "bear jog"),
        ("比特币", "zh"),
        ("比特幣", ""),
        ("特币的", "zh"),
        ("币特", ""),
        ("🚀", "zh"),
        ("👍", "bear"),
        ("👍🏽", "bear"),
        ("👍🏿", ""),
        ("비트코인", "ko"),
        ("บิตคอยน์", "th"),
        ("straße", "de"),
        ("ärger", "de"),
        ("café", "de"),
        ("run jog", ""),
        ("nothing", ""),
    ] {
        assert_eq!(all(text), expected, "{text}");
    }
    // The thesis with the sigil ranks higher, though the other is newer.
    assert_eq!(look(&log, "$run", &known), ["run", "jog"]);
}

#[test]
fn the_newest_of_equal_matches_is_first() {
    let mut log = Log::new();
    log.say(&Dataset::Live, "old", "moon soon", 1);
    log.say(&Dataset::Live, "new", "moon soon", 3);
    log.say(&Dataset::Live, "mid", "moon soon", 2);
    log.say(&Dataset::Live, "best", "moon moon moon", 0);
    log.index.commit().unwrap();
    let known = ["old", "new", "mid", "best"];
    assert_eq!(look(&log, "moon", &known), ["best", "new", "mid", "old"]);
    let newest = log
        .index
        .find(Kind::Thesis, &View::live(), &parse("moon").unwrap(), &SearchFilter::default(), Order::Newest, 2)
        .unwrap();
    assert_eq!(names(&Dataset::Live, &newest, &known), ["new", "mid"]);
    let narrow = SearchFilter { floor: Floor::first(Some(1), 0).unwrap(), to: 2, ..SearchFilter::default() };
    let within =
        log.index.find(Kind::Thesis, &View::live(), &parse("moon").unwrap(), &narrow, Order::Newest, 9).unwrap();
    assert_eq!(names(&Dataset::Live, &within, &known), ["mid", "old"]);
}

#[test]
fn a_row_is_found_as_it_is_now() {
    let mut log = Log::new();
    let live = Dataset::Live;
    let edited = |text| {
        let thesis = thesis(&Dataset::Live, "a", text, 0);
        EntryKind::ThesisEdited(ThesisEdited { thesis, ..ThesisEdited::default() })
    };
    log.say(&live, "a", "first words", 0);
    log.add(&live, edited("other text"));
    log.index.commit().unwrap();
    assert!(look(&log, "first", &["a"]).is_empty());
    assert_eq!(look(&log, "other", &["a"]), ["a"]);

    let gone = ThesisDeleted { thesis: thesis(&live, "a", "other text", 0), ..ThesisDeleted::default() };
    log.add(&live, EntryKind::ThesisDeleted(gone));
    log.index.commit().unwrap();
    assert!(look(&log, "other", &["a"]).is_empty());

    log.say(&live, "a", "again here", 0);
    log.index.commit().unwrap();
    assert_eq!(look(&log, "again", &["a"]), ["a"]);
}

#[test]
fn exact_handles_and_symbols_are_first() {
    let mut log = Log::new();
    let live = Dataset::Live;
    let people = [
        ("@ana_ana_ana", "ana ana ana"),
        ("@ana", "Somebody with a much longer name than that of others"),
        ("@bob", "ana"),
        ("@x", "zoé"),
    ];
    for (handle, name) in people {
        log.add(&live, EntryKind::ProfileObserved(ProfileObserved { profile: profile(handle, name) }));
    }
    for (symbol, chain, name) in
        [("$RUN", "base", "A long name of a token"), ("$RUNRUN", "base", "run run run"), ("$RUN", "solana", "r")]
    {
        let observed = TokenObserved { token: token(symbol, chain, name), ..TokenObserved::default() };
        log.add(&live, EntryKind::TokenObserved(observed));
    }
    log.index.commit().unwrap();

    let profiles = |text: &str, narrow: &SearchFilter| {
        let found =
            log.index.find(Kind::Profile, &View::live(), &parse(text).unwrap(), narrow, Order::Relevance, 10).unwrap();
        let handle = |id: &String| people.iter().find(|(handle, _)| profile(handle, "").id == *id).unwrap().0;
        found.iter().map(|(_, id)| handle(id)).collect::<Vec<_>>()
    };
    let everyone = SearchFilter::default();
    for text in ["ana", "@ANA"] {
        assert_eq!(profiles(text, &everyone)[0], "@ana", "{text}");
        assert_eq!(profiles(text, &everyone).len(), 3);
    }
    assert_eq!(profiles("@ana_ana_ana", &everyone), ["@ana_ana_ana"]);
    assert_eq!(profiles("ZOÉ", &everyone), ["@x"]);
    let bob = SearchFilter { profile: Some(profile("@bob", "").id), ..SearchFilter::default() };
    assert_eq!(profiles("ana", &bob), ["@bob"]);

    let tokens = |text: &str, narrow: &SearchFilter| {
        log.index
            .find(Kind::Token, &View::live(), &parse(text).unwrap(), narrow, Order::Relevance, 10)
            .unwrap()
            .into_iter()
            .map(|(_, id)| id)
            .collect::<Vec<_>>()
    };
    let id = |symbol, chain| token(symbol, chain, "").id;
    let found = tokens("$run", &everyone);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], id("$RUNRUN", "base"));
    assert_eq!(tokens("0xBASERUN", &everyone), [id("$RUN", "base")]);
    let solana = SearchFilter { chain: Some("solana".to_owned()), ..SearchFilter::default() };
    assert_eq!(tokens("run", &solana), [id("$RUN", "solana")]);
}

#[test]
fn a_search_stays_in_its_view() {
    let mut log = Log::new();
    let datasets = [Dataset::Live, Dataset::Sandbox, project("prj_one"), project("prj_two")];
    for dataset in &datasets {
        log.say(dataset, "a", "secret word", 0);
    }
    log.index.commit().unwrap();
    let narrow = SearchFilter { profile: Some(derive("fp_", &["ana"])), ..SearchFilter::default() };
    for (view, expected) in [(View::live(), &datasets[..1]), (View::test("prj_one"), &datasets[1..3])] {
        for text in ["secret", "secret OR \"secret word\"", "s*", "sec* -none", "secret-wo*", "live", "sandbox OR word"]
        {
            let found =
                log.index.find(Kind::Thesis, &view, &parse(text).unwrap(), &narrow, Order::Relevance, 50).unwrap();
            let mut found: Vec<Dataset> = found.into_iter().map(|(dataset, _)| dataset).collect();
            found.sort();
            let expected = if text == "live" { &[][..] } else { expected };
            assert_eq!(found, expected, "{text}");
        }
        let liked = log.index.likes_page(&view, &narrow, None, 50).unwrap();
        assert_eq!(liked.len(), expected.len());
        assert!(liked.iter().all(|liked| expected.contains(&liked.dataset)));
    }
}

#[test]
fn an_excluded_phrase_stands_behind_or_before_what_is_found() {
    let mut log = Log::new();
    for (id, text) in [("1", "run"), ("2", "a b run"), ("3", "b a run"), ("4", "a b"), ("5", "run a x b")] {
        log.say(&Dataset::Live, id, text, 0);
    }
    log.index.commit().unwrap();
    let parsed = parse("run -\"a b\"").unwrap();
    let found =
        log.index.find(Kind::Thesis, &View::live(), &parsed, &SearchFilter::default(), Order::Relevance, 9).unwrap();
    assert_eq!(found.len(), 3, "{found:?}");
}

#[tokio::test]
async fn one_waits_for_a_position() {
    let mut log = Log::new();
    log.index.wait_for_position(&Dataset::Live, 0).await;
    log.say(&Dataset::Live, "a", "words", 0);
    let mut reached = Box::pin(log.index.wait_for_position(&Dataset::Live, 1));
    assert!(futures::poll!(&mut reached).is_pending());
    log.index.wait_for_demand().await;
    log.index.commit().unwrap();
    reached.await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn pages_by_likes_are_the_sorted_list(
        rows in prop::collection::vec((0..3_usize, prop::option::of(-1..4_i64), 0..4_i64, any::<bool>(), any::<bool>()), 0..40),
        size in 1..7_usize,
        commits in 1..9_usize,
        from in 0..3_i64,
        was_asked: bool,
    ) {
        let mut log = Log::new();
        let datasets = [Dataset::Live, Dataset::Sandbox, project("one")];
        // The window cuts off no row of the sandbox; a bound that was asked for does.
        let floor = if was_asked { Floor::first(Some(from), 0) } else { Floor::first(None, from) }.unwrap();
        let mut expected = Vec::new();
        for (number, (dataset, likes, created_at, liked_later, deleted)) in rows.iter().enumerate() {
            let dataset = &datasets[*dataset];
            let mut row = thesis(dataset, &number.to_string(), "x", *created_at);
            row.likes = if *liked_later { Some(9) } else { *likes };
            log.add(dataset, created(row.clone()));
            if *liked_later {
                row.likes = *likes;
                log.add(dataset, EntryKind::Engagement(ThesisChanged { thesis: row.clone() }));
            }
            if *deleted {
                log.add(dataset, EntryKind::ThesisDeleted(ThesisDeleted { thesis: row, ..ThesisDeleted::default() }));
            } else if *dataset != Dataset::Live && *created_at >= floor.bound_for(dataset) {
                expected.push((row.likes, row.created_at, row.id));
            }
            if number % commits == 0 {
                log.index.commit().unwrap();
            }
        }
        log.index.commit().unwrap();
        expected.sort_by(|a, b| b.cmp(a));
        let narrow = SearchFilter { floor, ..SearchFilter::default() };
        let mut found: Vec<(Option<i64>, i64, String)> = Vec::new();
        loop {
            let after = found.last().map(|(likes, created_at, id)| (*likes, *created_at, id.as_str()));
            let page = log.index.likes_page(&View::test("one"), &narrow, after, size).unwrap();
            let full = page.len() == size;
            found.extend(page.into_iter().map(|liked| (liked.likes, liked.created_at, liked.id)));
            if !full {
                break;
            }
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_search_has_an_answer(text in "\\PC{1,40}", near in "[abr\"*\\- OR$@🚀比👍🏽\u{fe0f}]{1,30}") {
        let mut log = Log::new();
        for dataset in [Dataset::Sandbox, project("one")] {
            log.say(&dataset, "a", &format!("a b run {text}"), 0);
            log.say(&dataset, "b", &near, 0);
        }
        log.index.commit().unwrap();
        for text in [&text, &near] {
            let Ok(parsed) = parse(text) else { continue };
            let (view, narrow) = (View::test("one"), SearchFilter::default());
            log.index.find(Kind::Thesis, &view, &parsed, &narrow, Order::Relevance, 3).unwrap();
            log.index.find(Kind::Thesis, &view, &parsed, &narrow, Order::Newest, 3).unwrap();
            log.index.find(Kind::Profile, &view, &parsed, &narrow, Order::Relevance, 3).unwrap();
            log.index.find(Kind::Token, &view, &parsed, &narrow, Order::Relevance, 3).unwrap();
        }
    }
}
