//! Searches over months that several cores have.

use std::collections::HashSet;

use thesis_proto::error::ErrorCode;

use super::{
    copies::{finds, post, start_on},
    *,
};
use crate::{
    domain::dataset::View,
    error::Result,
    search::{
        Order, SearchFilter,
        follow::round,
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
