//! Lists of theses: every combination of filters, three sorts, pages with cursors that outlive writes.

use std::cmp::Reverse;

use serde_json::Value;
use thesis_proto::{time::from_millis, time::to_millis, v1};

use super::{
    caller::{Ask, Failure, Outcome},
    customer::{Answer, Customer, agreeing, as_recounted, page},
    names::{References, bound},
    random::Random,
    view::{Lower, View},
    world::{Thesis, World},
};
use crate::harness::{now_ms, text};

/// Spans and their names.
const SINCE: [(&str, i64); 6] = [
    ("90s", 90_000),
    ("30m", 1_800_000),
    ("1h", 3_600_000),
    ("24h", 86_400_000),
    ("7d", 604_800_000),
    ("30d", 2_592_000_000),
];
/// Longest time of a walk: the history window must not pass its cursor by more than the grace.
const WALK_MS: i64 = 40_000;

/// A row's place in a list: likes where they decide, then time, then id.
type Place = (Option<i64>, i64, String);

/// A list that is partly read.
pub(super) struct ListWalk {
    request: v1::ListThesesRequest,
    cursor: String,
    /// First and last moment at which its first page may have been made.
    moments: [i64; 2],
    last: Place,
    /// What its filters named at its first page; none once they name something else.
    named: Option<Named>,
    /// The rows of the whole list at its first page, each with the version of its likes.
    start: Vec<(String, i64)>,
    read: Vec<String>,
}

/// What filters name: a profile (or nobody) and tokens.
#[derive(PartialEq, Eq)]
struct Named {
    profile: Option<Option<String>>,
    tokens: Option<Vec<String>>,
}

impl Named {
    fn by(view: View<'_>, request: &v1::ListThesesRequest) -> Self {
        let mut profile = request.profile.as_deref().map(|reference| view.named(reference));
        if let Some(handle) = &request.handle {
            let by_handle = view.by_handle(handle);
            profile = Some(by_handle.filter(|_| profile.is_none_or(|profile| profile == by_handle)));
        }
        let tokens = request.token.as_deref().map(|reference| {
            let named = view.tokens_named(reference, request.chain.as_deref());
            named.into_iter().map(|token| text(&token.row, "id").to_owned()).collect()
        });
        Self { profile: profile.map(|id| id.map(str::to_owned)), tokens }
    }
}

fn place(thesis: &Thesis, sort: v1::ThesisSort) -> Place {
    let likes = thesis.likes.filter(|_| sort == v1::ThesisSort::LikesDesc);
    (likes, thesis.created_at, thesis.id.clone())
}

/// The rows of a list in order, from a lower bound on.
fn listed<'a>(view: View<'a>, request: &v1::ListThesesRequest, from: Lower) -> Vec<&'a Thesis> {
    let Named { profile, tokens } = Named::by(view, request);
    let to = request.created_before.as_ref().map_or(i64::MAX, to_millis);
    let on_chain =
        |thesis: &Thesis, chain: &String| view.token(&thesis.token).is_some_and(|token| token.row["chain"] == **chain);
    let mut rows: Vec<&Thesis> = view
        .theses()
        .filter(|thesis| (from.of(thesis.dataset)..=to).contains(&thesis.created_at))
        .filter(|thesis| profile.as_ref().is_none_or(|profile| profile.as_ref() == Some(&thesis.profile)))
        .filter(|thesis| tokens.as_ref().is_none_or(|tokens| tokens.contains(&thesis.token)))
        .filter(|thesis| request.chain.as_ref().is_none_or(|chain| on_chain(thesis, chain)))
        .collect();
    match request.sort() {
        v1::ThesisSort::CreatedAtAsc => rows.sort_by_key(|thesis| place(thesis, request.sort())),
        sort => rows.sort_by_key(|thesis| Reverse(place(thesis, sort))),
    }
    rows
}

/// The lower bound of a list that is first asked for at a moment.
fn lower(view: View<'_>, request: &v1::ListThesesRequest, now: i64) -> Result<Lower, Failure> {
    let after = request.created_after.as_ref().map(to_millis);
    if let (Some(after), Some(before)) = (after, request.created_before.as_ref().map(to_millis))
        && before < after
    {
        return Err(Failure::of("VALIDATION_FAILED"));
    }
    let span = SINCE.iter().find(|(text, _)| request.since.as_deref() == Some(text));
    view.sight.lower(after.max(span.map(|(_, span)| now - span)), now)
}

/// A page of rows after a place.
fn recount(view: View<'_>, request: &v1::ListThesesRequest, now: i64, behind: Option<&Place>) -> Outcome {
    let mut rows = listed(view, request, lower(view, request, now)?);
    if let Some(behind) = behind {
        let ascending = request.sort() == v1::ThesisSort::CreatedAtAsc;
        rows.retain(|thesis| {
            let place = place(thesis, request.sort());
            if ascending { place > *behind } else { place < *behind }
        });
    }
    let limit = request.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(25);
    let more = rows.len() > limit;
    Ok(page(rows.into_iter().take(limit).map(|thesis| view.thesis_row(thesis)).collect(), more))
}

fn question(random: &mut Random, references: &References<'_>) -> v1::ListThesesRequest {
    let now = now_ms();
    let world = references.world;
    let sorts = [v1::ThesisSort::CreatedAtDesc, v1::ThesisSort::CreatedAtAsc, v1::ThesisSort::LikesDesc];
    v1::ListThesesRequest {
        profile: random.maybe(20, |random| references.any_profile(random)),
        handle: random.maybe(20, |random| references.handle(random)),
        token: random.maybe(35, |random| references.any_token(random)),
        chain: random.maybe(25, |random| references.chain(random)),
        created_after: random.maybe(20, |random| from_millis(bound(random, world, now))),
        created_before: random.maybe(20, |random| from_millis(bound(random, world, now))),
        since: random.maybe(15, |random| random.pick(&SINCE).0.to_owned()),
        sort: random.pick(&sorts).into(),
        limit: random
            .maybe(85, |random| if random.chance(60) { 1 + random.below(7) } else { 1 + random.below(100) })
            .and_then(|limit| i32::try_from(limit).ok()),
        cursor: None,
    }
}

impl Customer {
    /// Asks for a new list, and keeps its cursor if there is more.
    pub(super) async fn start_list(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let request = question(&mut self.random, &References::of(view));
        let ask = Ask::Theses(request.clone());
        let Answer { found, moments } = self.expect(&ask, |now| recount(view, &request, now, None)).await;
        let Some((cursor, read, last)) = found.ok().and_then(|page| end(world, &page, request.sort())) else { return };
        let from = lower(view, &request, moments[0]).expect("a page was given");
        let start = listed(view, &request, from).iter().map(|thesis| (thesis.id.clone(), thesis.engagement)).collect();
        let named = Some(Named::by(view, &request));
        self.lists.push(ListWalk { request, cursor, moments, last, named, start, read });
    }

    /// Reads on in a list.
    pub(super) async fn go_on(&mut self, world: &World) {
        if self.lists.is_empty() {
            return;
        }
        let index = self.random.below(self.lists.len());
        let mut walk = self.lists.swap_remove(index);
        if now_ms() - walk.moments[0] > WALK_MS {
            return;
        }
        let sight = self.sight.clone();
        let view = sight.of(world);
        let mut request = walk.request.clone();
        request.cursor = Some(walk.cursor.clone());
        if self.random.chance(20) {
            request.limit = Some(100);
        }
        let ask = Ask::Theses(request.clone());
        let (moments, last) = (walk.moments, walk.last.clone());
        // The lower bound is that of the first page.
        let of_first = |now: i64| recount(view, &request, now, Some(&last));
        let (found, _) = self.ask(&ask).await;
        let shown = found.clone().map(as_recounted);
        match agreeing(moments, |now| of_first(now) == shown) {
            Some(moments) => walk.moments = moments,
            None => self.differs(&ask, &shown, &of_first(moments[0])),
        }
        walk.named = walk.named.filter(|named| *named == Named::by(view, &request));
        let Ok(found) = found else { return };
        walk.read.extend(ids(&found));
        match end(world, &found, request.sort()) {
            Some((cursor, _, last)) => {
                (walk.cursor, walk.last) = (cursor, last);
                self.lists.push(walk);
            }
            None => walk.is_whole(view),
        }
    }

    /// A cursor is valid for its key and its filters alone.
    pub(super) async fn misuse_cursors(&mut self, foreign: &[(Vec<usize>, Ask)]) {
        if let Some(walk) = self.lists.first() {
            let mut other = v1::ListThesesRequest { cursor: Some(walk.cursor.clone()), ..walk.request.clone() };
            match self.random.below(3) {
                0 => other.chain = Some(if other.chain.is_some() { "elsewhere" } else { "solana" }.to_owned()),
                1 => other.handle = Some(if other.handle.is_some() { "elsewho" } else { "ann" }.to_owned()),
                _ => other.since = Some(if other.since.is_some() { "2h" } else { "7d" }.to_owned()),
            }
            self.expect(&Ask::Theses(other), |_| Err(Failure::of("INVALID_CURSOR"))).await;
        }
        let others: Vec<&Ask> =
            foreign.iter().filter(|(seen, _)| *seen != self.sight.datasets).map(|(_, ask)| ask).collect();
        if !others.is_empty() {
            let stolen = self.random.pick(&others).clone();
            self.expect(&stolen, |_| Err(Failure::of("INVALID_CURSOR"))).await;
        }
    }
}

/// The ids of a page's rows.
pub(super) fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().expect("rows").iter().map(|row| text(row, "id").to_owned()).collect()
}

/// A page's cursor, the ids of its rows, and the place of the last one; none at the end of a list.
fn end(world: &World, page: &Value, sort: v1::ThesisSort) -> Option<(String, Vec<String>, Place)> {
    let cursor = page["next_cursor"].as_str()?.to_owned();
    let ids = ids(page);
    let last = world.theses().find(|thesis| Some(&thesis.id) == ids.last())?;
    Some((cursor, ids, place(last, sort)))
}

impl ListWalk {
    pub(super) fn stolen(&self) -> Ask {
        Ask::Theses(v1::ListThesesRequest { cursor: Some(self.cursor.clone()), ..self.request.clone() })
    }

    /// Demands that each row that was there all the time came exactly once; by likes, only rows with unchanged likes.
    fn is_whole(&self, view: View<'_>) {
        if self.named.is_none() {
            return;
        }
        let from = lower(view, &self.request, self.moments[0]).expect("a page was given");
        for thesis in listed(view, &self.request, from) {
            let started = self.start.iter().find(|(id, _)| *id == thesis.id);
            let liked = self.request.sort() == v1::ThesisSort::LikesDesc;
            if started.is_some_and(|(_, version)| !liked || *version == thesis.engagement) {
                let times = self.read.iter().filter(|id| **id == thesis.id).count();
                assert_eq!(times, 1, "{} came so often in {:?}", thesis.id, self.request);
            }
        }
    }
}
