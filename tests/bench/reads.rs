//! Reads by id and lists, from the service and from the bare handler in turns.

use std::path::Path;

use crate::{
    Failure, Options, bare,
    client::Protocol,
    connection::{Connection, get},
    data::thesis_id,
    process::{Service, test_key},
    report::aim,
    rounds::{Figures, Kind, compare, reads_by_id},
};

const LIST: &str = "/v1/theses?limit=25";

/// Measures and prints the reads; gives the processor time of one by id, in microseconds.
pub(crate) async fn run(
    options: &Options,
    name: &str,
    service: &Service,
    theses: u64,
    dir: &Path,
) -> Result<f64, Failure> {
    let (by_id, list) = (reads_by_id(dir, theses)?, dir.join("bench-list"));
    std::fs::write(&list, LIST)?;
    let one = format!("/v1/theses/{}", thesis_id(0));
    let bare = bare_with_answers(service, &one, dir).await?;
    let kinds = |requests| {
        let of = |service, protocol| Kind { service, protocol, requests };
        [of(&bare, Protocol::Http), of(service, Protocol::Http), of(service, Protocol::Grpc)]
    };

    println!("\nReads, {} connections, medians of {} runs; {name}", options.connections, options.rounds);
    Figures::heads("bare");
    let one = compare(options, options.connections, &kinds(&by_id)).await?;
    one[0].print("bare handler, one thesis", &one[0], "");
    one[1].print("GET /v1/theses/{id}", &one[0], &aim(one[1].rate / one[0].rate, 0.5));
    one[2].print("gRPC GetThesis", &one[0], "");
    let page = compare(options, options.connections, &kinds(&list)[..2]).await?;
    page[0].print("bare handler, 25 theses", &page[0], "");
    page[1].print(&format!("GET {LIST}"), &page[0], &aim(page[1].rate / page[0].rate, 0.3));
    Ok(one[1].cpu_us)
}

/// Starts the bare handler with the service's answers.
async fn bare_with_answers(service: &Service, one: &str, dir: &Path) -> Result<Service, Failure> {
    let mut connection = Connection::open(service.address("http")?).await?;
    let files = [(one, dir.join("bench-answer-one")), (LIST, dir.join("bench-answer-list"))];
    for (path, file) in &files {
        let answer = connection.ask_ok(&get(path, &test_key())).await?;
        std::fs::write(file, bare::prepared(&answer))?;
    }
    Service::bare(&files[0].1, &files[1].1).await
}
