//! `cargo bench --bench service -- traces`: what traces cost a read by id. The program runs with a collector and without one
//! on the same theses, and both are asked in turns.

use std::{
    future::IntoFuture as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use axum::{Router, body::Bytes, routing::post};

use crate::{
    Failure, Options,
    client::Protocol,
    load,
    process::Service,
    report::aim,
    rounds::{Figures, Kind, compare, reads_by_id},
    store::Place,
};

/// Least rate with traces, of that without.
const LEAST: f64 = 0.95;

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let mut places = Vec::new();
    // The embedded store belongs to one process, so each has its own copy of the same theses.
    for side in ["off", "on"] {
        let base = temporary.path().join(side);
        std::fs::create_dir(&base)?;
        let place = Place::new(options, options.store, options.theses, &base)?;
        load::run(options, &place).await?;
        places.push(place);
    }
    let measured = measure(options, &places, temporary.path()).await;
    for place in &places {
        place.clear().await?;
    }
    measured
}

async fn measure(options: &Options, places: &[Place], dir: &std::path::Path) -> Result<(), Failure> {
    let taken = Arc::new(AtomicUsize::new(0));
    let url = collector(Arc::clone(&taken)).await?;
    let off = Service::start(&places[0]).await?;
    let on = Service::start_with(&places[1], &[("SVC_OTLP_URL", url)]).await?;
    for service in [&off, &on] {
        service.indexed().await?;
    }
    let by_id = reads_by_id(dir, options.theses)?;
    let of = |service, protocol| Kind { service, protocol, requests: &by_id };
    println!("\nReads by id, {} connections, medians of {} runs", options.connections, options.rounds);
    Figures::heads("off");
    for (name, protocol) in [("GET /v1/theses/{id}", Protocol::Http), ("gRPC GetThesis", Protocol::Grpc)] {
        let figures = compare(options, options.connections, &[of(&off, protocol), of(&on, protocol)]).await?;
        figures[0].print(&format!("{name}, traces off"), &figures[0], "");
        figures[1].print(&format!("{name}, traces on"), &figures[0], &aim(figures[1].rate / figures[0].rate, LEAST));
    }
    println!("The collector took {} messages.", taken.load(Relaxed));
    off.stop().await?;
    on.stop().await?;
    Ok(())
}

/// A collector that takes everything and keeps nothing; gives its address.
async fn collector(taken: Arc<AtomicUsize>) -> Result<String, Failure> {
    let take = post(async move |_: Bytes| {
        taken.fetch_add(1, Relaxed);
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, Router::new().route("/v1/traces", take)).into_future());
    Ok(url)
}
