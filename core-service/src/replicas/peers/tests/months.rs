//! Searches over months that several cores have.

use std::collections::HashSet;

use thesis_proto::error::ErrorCode;

use super::{
    copies::{finds, post, start_on},
    *,
};
use crate::{
    domain::{dataset::View, window::MINUTE_MS},
    error::Result,
    search::{
        Order, SearchFilter,
        follow::{copy_missing, place, round},
        months::{SearchCores, ThesisSearch, find_theses, likes_page},
        parse,
    },
};

const TEXTS: [&str; 6] = ["thesis", "thesis 7", "1* OR 2", "\"thesis 3\" OR 12", "thesis -4", "nothing"];

fn cores(core: &Core) -> SearchCores<'_> {
    SearchCores { index: &core.search, peers: &core.peers, organization: "org" }
}

async fn find(core: &Core, text: &str, order: Order, limit: usize) -> Result<Vec<(Dataset, String)>> {
    let (view, words, narrow) = (View::live(), (text.to_owned(), parse(text).unwrap()), SearchFilter::default());
    let position = core.search.position(&Dataset::Live);
    let search = ThesisSearch::new(view, words, narrow, order, limit, position);
    Ok(find_theses(cores(core), search, |_| Ok(())).await?.0)
}

/// Everything that some searches find, in order, and a list by likes, page by page.
async fn find_all(core: &Core) -> Result<Vec<(Dataset, String)>> {
    let mut found = Vec::new();
    for text in TEXTS {
        for order in [Order::Relevance, Order::Newest] {
            for limit in [3, 50] {
                found.extend(find(core, text, order, limit).await?);
            }
        }
    }
    let mut after = None;
    loop {
        let (view, narrow) = (View::live(), SearchFilter::default());
        let page = likes_page(cores(core), &core.datasets, &view, narrow, after.take(), 7).await?;
        after = page.last().map(|last| (last.likes, last.created_at, last.id.clone()));
        found.extend(page.into_iter().map(|listed| (listed.dataset, listed.id)));
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Brings the indexes of some cores up to date, as far as they need no copies.
async fn follow(servers: &[&Server]) {
    for server in servers {
        round(&server.core.follower(), &mut HashSet::new()).await;
    }
}

/// What a core finds once its index is up to date.
async fn all_of(server: &Server) -> Vec<(Dataset, String)> {
    for _ in 0..100 {
        follow(&[server]).await;
        if let Ok(found) = find_all(&server.core).await {
            return found;
        }
    }
    panic!("the index does not reach the end of the log");
}

/// Waits until a core finds what others found before. The others go on meanwhile.
async fn finds_again(server: &Server, others: &[&Server], expected: &[(Dataset, String)]) {
    until("the months of all cores are found", async || {
        follow(&[server]).await;
        follow(others).await;
        find_all(&server.core).await.is_ok_and(|found| found == expected)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn months_that_are_not_here_are_searched_at_another_core() {
    let (backend, folders) = (backend(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let one = start_on(folders[0].path(), backend.clone(), 1, None).await;
    post(&one.core, 0..60).await;
    finds(&one.core.follower(), &one.core, 60).await;
    let two = start_on(folders[1].path(), backend.clone(), 2, None).await;
    linked(&[&one, &two]).await;
    let expected = all_of(&one).await;
    assert!(expected.len() > 60);
    finds_again(&two, &[&one], &expected).await;
    assert_eq!(two.core.search.searchable_part().months, [0; 0], "they wait for copies");
    // The results are the same once the months are here.
    finds(&two.core.follower(), &two.core, 60).await;
    assert_eq!(two.core.search.searchable_part().months, [0, 1, 2]);
    one.kill();
    finds_again(&two, &[], &expected).await;
    two.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_copy_is_searched_when_the_first_core_is_silent() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let backend = backend();
    let one = start_on(folders[0].path(), backend.clone(), 1, None).await;
    post(&one.core, 0..30).await;
    finds(&one.core.follower(), &one.core, 30).await;
    let three = start_on(folders[2].path(), backend.clone(), 3, None).await;
    finds(&three.core.follower(), &three.core, 30).await;
    let (address, silent) = (one.core.members.address(), dial_silent(&Arc::default()));
    let to_sockets = over_grpc(Authorities::default(), SERVICE_TOKEN.into(), Arc::new(SystemClock));
    let dial: Dial = Arc::new(move |other: &str| if other == address { silent(other) } else { to_sockets(other) });
    let two = start_on(folders[1].path(), backend.clone(), 2, Some(dial)).await;
    linked(&[&one, &two, &three]).await;
    let expected = find(&one.core, "thesis 7", Order::Relevance, 50).await.unwrap();
    let find_at_two = async || {
        follow(&[&two, &one, &three]).await;
        find(&two.core, "thesis 7", Order::Relevance, 50).await
    };
    until("the second copy is found", async || find_at_two().await.is_ok_and(|found| found == expected)).await;
    assert_eq!(two.core.search.searchable_part().months, [0; 0], "they wait for copies");
    three.kill();
    until("no core has the months", async || {
        find_at_two().await.is_err_and(|error| error.api.code == ErrorCode::ServiceUnavailable)
    })
    .await;
    one.kill();
    two.kill();
}

/// Gives months to some cores, as some minutes later.
async fn share_months(servers: &[&Server], minutes: i64) {
    for server in servers {
        let follower = server.core.follower();
        round(&follower, &mut HashSet::new()).await;
        place(&follower, server.core.shared.clock.now_ms() + minutes * MINUTE_MS).await;
        copy_missing(&follower).await;
    }
}

/// The numbers of the months that a core has whole.
fn months_of(server: &Server) -> Vec<i64> {
    server.core.search.searchable_part().months
}

async fn finds_number(server: &Server, theses: usize) -> bool {
    find(&server.core, "thesis", Order::Newest, 100).await.is_ok_and(|found| found.len() == theses)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_cores_share_months_and_two_have_all() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let backend = backend();
    let one = start_on(folders[0].path(), backend.clone(), 1, None).await;
    post(&one.core, 0..60).await;
    finds(&one.core.follower(), &one.core, 60).await;
    let two = start_on(folders[1].path(), backend.clone(), 2, None).await;
    let three = start_on(folders[2].path(), backend.clone(), 3, None).await;
    let all = [&one, &two, &three];
    linked(&all).await;
    let expected = all_of(&one).await;
    let mut minutes = 0;
    until("each month is at two cores", async || {
        minutes += 11;
        share_months(&all, minutes).await;
        let mut months: Vec<i64> = all.into_iter().flat_map(months_of).collect();
        months.sort_unstable();
        months == [0, 0, 1, 1, 2, 2]
    })
    .await;
    for server in all {
        finds_again(server, &all, &expected).await;
    }
    // New theses of old months reach the cores that have these.
    post(&one.core, 60..66).await;
    for server in all {
        until("new theses are found", async || {
            follow(&all).await;
            finds_number(server, 66).await
        })
        .await;
    }
    three.kill();
    until("both cores have all months", async || {
        minutes += 11;
        share_months(&[&one, &two], minutes).await;
        months_of(&one) == [0, 1, 2] && months_of(&two) == [0, 1, 2]
    })
    .await;
    for server in [&one, &two] {
        until("all theses are found", async || {
            follow(&[&one, &two]).await;
            finds_number(server, 66).await
        })
        .await;
    }
    one.kill();
    two.kill();
}
