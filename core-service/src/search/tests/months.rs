//! Months that are spread over several cores, without the calls between these.

use thesis_proto::v1;

use super::*;
use crate::{
    domain::window::DAY_MS,
    search::{
        months::{ThesisSearch, message_of, response},
        schema::VERSION,
        statistics::Statistics,
    },
};

/// A message as another core reads it.
fn sent<M: prost::Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).unwrap()
}

/// A request as the core reads it that has some months.
fn answer(index: &SearchIndex, request: v1::SearchMonthsRequest, months: &[i64]) -> v1::SearchMonthsResponse {
    let request = sent(&v1::SearchMonthsRequest { months: months.to_vec(), ..request });
    assert_eq!(request.version, VERSION);
    let searchers = index.searchers_of(&request.months).unwrap();
    let search = ThesisSearch::from_request(&request).unwrap();
    sent(&response(index, searchers, &search, request).unwrap())
}

/// Searches months as a core does that has the first part of them, and requests the others.
fn find_spread(index: &SearchIndex, search: &ThesisSearch, parsed: &ParsedSearch, parts: &[Vec<i64>]) -> Vec<String> {
    let here = || index.searchers_of(&parts[0]).unwrap();
    let statistics = search.needs_statistics().then(|| {
        let mut total = index.statistics(here(), parsed).unwrap();
        for months in &parts[1..] {
            let counted = answer(index, search.request(0), months).statistics.unwrap();
            total.add(Statistics::from_message(counted));
        }
        total
    });
    let found = search.ranks(index, vec![here()], None, statistics.as_ref()).unwrap();
    let lowest = search.lowest_of(&found);
    let request = v1::SearchMonthsRequest {
        lowest: lowest.map(message_of),
        statistics: statistics.as_ref().map(Statistics::to_message),
        ..search.request(9)
    };
    let asked = parts[1..].iter().map(|months| {
        let months: Vec<i64> = months.iter().copied().filter(|month| search.may_find(*month, lowest)).collect();
        answer(index, request.clone(), &months)
    });
    let found = search.merge(found, &asked.collect::<Vec<_>>()).unwrap();
    ids(Kind::Thesis, found).into_iter().map(|(_, id)| id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn months_of_many_cores_give_what_one_core_gives(
        said in prop::collection::vec((0..150_i64, "[abc]( [abc]){0,3}", 0..4_u8), 1..60),
        (from, length) in (0..150_i64, 0..160_i64),
        text in prop::sample::select(vec!["a", "a b", "a OR b", "\"a b\"", "b -c", "a*", "\"a b\" OR c", "b OR a*"]),
        newest: bool,
        owners in prop::collection::vec(0..3_usize, 5),
        commits in 1..9_usize,
    ) {
        let mut log = Log::new();
        for (number, (day, words, fate)) in said.iter().enumerate() {
            let created_at = day * DAY_MS + i64::try_from(number % 7).unwrap();
            let row = thesis(&Dataset::Live, &number.to_string(), words, created_at);
            log.add(&Dataset::Live, created(row.clone()));
            if *fate == 0 {
                let gone = ThesisDeleted { thesis: row, ..ThesisDeleted::default() };
                log.add(&Dataset::Live, EntryKind::ThesisDeleted(gone));
            }
            if number % commits == 0 {
                log.index.commit().unwrap();
            }
        }
        log.index.commit().unwrap();
        let (from, to) = (from * DAY_MS, (from + length) * DAY_MS);
        let narrow = SearchFilter { floor: Floor::at(from), to, ..SearchFilter::default() };
        let (parsed, order) = (parse(text).unwrap(), if newest { Order::Newest } else { Order::Relevance });
        let expected = log.index.find(Kind::Thesis, &View::live(), &parsed, &narrow, order, 9).unwrap();
        let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();

        let mut parts = vec![Vec::new(); 3];
        let window = Shard::range(&Dataset::Live, Kind::Thesis, from, to);
        for month in log.index.searchable_part().months {
            if window.contains(&Shard::Month(month)) {
                parts[owners[usize::try_from(month).unwrap()]].push(month);
            }
        }
        let words = (text.to_owned(), parsed.clone());
        let search = ThesisSearch::new(View::live(), words, narrow, order, 9, 0);
        prop_assert_eq!(find_spread(&log.index, &search, &parsed, &parts), expected);
    }
}
