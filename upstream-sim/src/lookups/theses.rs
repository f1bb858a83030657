//! `GET /theses/{id}`, and `GET /theses` of a token, of a profile or of all theses.

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use serde::{Deserialize, Serialize};

use super::{Lookup, respond};
use crate::{
    response::{Refused, bytes_of, read_limit, read_time},
    shared::Sim,
    world::{Listed, Thesis, World, cursor, parse_cursor},
};

/// Maximum theses of a page.
const MAX_PAGE: usize = 200;
/// Theses of a page when the request names no number.
const DEFAULT_PAGE: usize = 100;

#[derive(Default, Deserialize)]
pub(super) struct ThesesQuery {
    chain: Option<String>,
    address: Option<String>,
    profile: Option<String>,
    since: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

#[derive(Serialize)]
struct ThesisList<'a> {
    data: Vec<&'a Thesis>,
    next_cursor: Option<String>,
}

pub(super) async fn by_id(State(sim): State<Sim>, Path(id): Path<String>) -> Response {
    respond(&sim, Lookup::Thesis, move |world| {
        let number = world.theses.number(&id).ok_or_else(Refused::missing)?;
        Ok(bytes_of(world.theses.at(number)))
    })
    .await
}

pub(super) async fn list(State(sim): State<Sim>, Query(query): Query<ThesesQuery>) -> Response {
    respond(&sim, Lookup::Theses, move |world| Ok(bytes_of(&page(world, &query)?))).await
}

fn page<'a>(world: &'a World, query: &ThesesQuery) -> Result<ThesisList<'a>, Refused> {
    let since = query.since.as_deref().map(read_time).transpose()?;
    let unreadable = || Refused::wrong("this is not a cursor");
    let read_cursor = |text| parse_cursor(text).ok_or_else(unreadable);
    let before = query.cursor.as_deref().map(read_cursor).transpose()?;
    let limit = read_limit(query.limit.as_deref(), DEFAULT_PAGE, MAX_PAGE)?;
    let order = listed(world, query)?.and_then(|listed| world.theses.order(listed));
    let (numbers, next) = order.map(|order| order.page(since, before, limit)).unwrap_or_default();
    Ok(ThesisList {
        data: numbers.into_iter().map(|number| world.theses.at(number)).collect(),
        next_cursor: next.map(cursor),
    })
}

/// The requested list; `None` when there is no such profile or token.
fn listed(world: &World, query: &ThesesQuery) -> Result<Option<Listed>, Refused> {
    match (&query.chain, &query.address, &query.profile) {
        (None, None, None) => Ok(Some(Listed::Everything)),
        (None, None, Some(profile)) => Ok(world.profiles.number(profile).map(Listed::Author)),
        (Some(chain), Some(address), None) => Ok(world.tokens.number(chain, address).map(Listed::Coin)),
        _ => Err(Refused::wrong("either chain and address, or profile, or none of them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{time, world::InitialWorld};

    const NOW: i64 = 1_700_000_000_000;

    fn world() -> World {
        let beginning = InitialWorld { seed: 9, profiles: 30, tokens: 12, theses: 700, history_ms: 7_000_000 };
        World::new(beginning, NOW)
    }

    /// All numbers of a list, page by page.
    fn all(world: &World, mut query: ThesesQuery) -> Vec<usize> {
        let mut numbers = Vec::new();
        loop {
            let page = page(world, &query).unwrap();
            numbers.extend(page.data.iter().map(|thesis| thesis.number));
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                return numbers;
            }
        }
    }

    #[test]
    fn pages_hold_everything_newest_first() {
        let world = world();
        let numbers = all(&world, ThesesQuery { limit: Some("33".to_owned()), ..ThesesQuery::default() });
        assert_eq!(numbers.len(), 700);
        let times: Vec<i64> = numbers.iter().map(|number| world.theses.at(*number).updated_at).collect();
        assert!(times.is_sorted_by(|newer, older| newer >= older));
        let since = times[100];
        let young = ThesesQuery { since: Some(time::text(since)), ..ThesesQuery::default() };
        assert_eq!(all(&world, young).len(), times.iter().filter(|at| **at >= since).count());
    }

    #[test]
    fn lists_of_a_profile_and_of_a_token_are_parts_of_everything() {
        let world = world();
        let thesis = world.theses.at(5);
        let by = ThesesQuery { profile: Some(thesis.profile.id.clone()), ..ThesesQuery::default() };
        let by = all(&world, by);
        assert_eq!(by.len(), world.theses.all().iter().filter(|other| other.author == thesis.author).count());
        let about = ThesesQuery {
            chain: Some(thesis.token.chain.clone()),
            address: Some(thesis.token.address.clone()),
            ..ThesesQuery::default()
        };
        let about = all(&world, about);
        assert_eq!(about.len(), world.theses.all().iter().filter(|other| other.coin == thesis.coin).count());
        let nobody = ThesesQuery { profile: Some("u_0".to_owned()), ..ThesesQuery::default() };
        assert!(all(&world, nobody).is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let text = |text: &str| Some(text.to_owned());
        for query in [
            ThesesQuery { limit: text("201"), ..ThesesQuery::default() },
            ThesesQuery { limit: text("0"), ..ThesesQuery::default() },
            ThesesQuery { limit: text("x"), ..ThesesQuery::default() },
            ThesesQuery { since: text("now"), ..ThesesQuery::default() },
            ThesesQuery { cursor: text("x"), ..ThesesQuery::default() },
            ThesesQuery { chain: text("base"), ..ThesesQuery::default() },
        ] {
            assert!(page(&world(), &query).is_err());
        }
    }
}
