//! Two services on the same theses, whose reads by id are asked in turns. `cargo bench --bench service -- traces`: with
//! a collector of traces and without one. `… -- against PROGRAM`: this build and another one.

use std::{
    future::IntoFuture as _,
    path::Path,
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
    store::Setup,
};

/// Least rate with traces, of that without.
const MIN_TRACED: f64 = 0.95;
/// Least rate of this build, of that of another one.
const MIN_AGAINST: f64 = 0.97;

/// Measures and prints what traces cost.
pub(crate) async fn traces(options: &Options) -> Result<(), Failure> {
    let taken = Arc::new(AtomicUsize::new(0));
    let url = collector(Arc::clone(&taken)).await?;
    let start = async |setups: &[Setup]| {
        let off = Service::start(&setups[0]).await?;
        let on = Service::start_with(&setups[1], &[("SVC_OTLP_URL", url)]).await?;
        Ok([("traces off", off), ("traces on", on)])
    };
    SameTheses::load(options).await?.compare(options, start, MIN_TRACED).await?;
    println!("The collector took {} messages.", taken.load(Relaxed));
    Ok(())
}

/// Measures and prints reads of this build beside those of another program.
pub(crate) async fn against(options: &Options, program: &Path) -> Result<(), Failure> {
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let start = async |setups: &[Setup]| {
        let other = Service::start_program(&program, &setups[0], &[]).await?;
        let this = Service::start(&setups[1]).await?;
        Ok([("the other", other), ("this build", this)])
    };
    SameTheses::load(options).await?.compare(options, start, MIN_AGAINST).await
}

/// Two services, and their names.
type Sides = [(&'static str, Service); 2];

/// Two setups with the same theses: the embedded store belongs to one process.
struct SameTheses {
    dir: tempfile::TempDir,
    setups: Vec<Setup>,
}

impl SameTheses {
    async fn load(options: &Options) -> Result<Self, Failure> {
        println!("{}", crate::report::machine());
        let mut theses = Self { dir: tempfile::tempdir()?, setups: Vec::new() };
        for side in ["one", "other"] {
            let base = theses.dir.path().join(side);
            std::fs::create_dir(&base)?;
            let setup = Setup::new(options, options.store, options.theses, &base)?;
            load::run(options, &setup).await?;
            theses.setups.push(setup);
        }
        Ok(theses)
    }

    /// Starts both services, asks them in turns, prints the figures, and clears the setups whatever came of it.
    async fn compare(
        self,
        options: &Options,
        start: impl AsyncFnOnce(&[Setup]) -> Result<Sides, Failure>,
        least: f64,
    ) -> Result<(), Failure> {
        let compared = async {
            let sides = start(&self.setups).await?;
            self.ask(options, &sides, least).await?;
            for (_, service) in sides {
                service.stop().await?;
            }
            Ok(())
        };
        let compared = compared.await;
        for setup in &self.setups {
            setup.clear().await?;
        }
        compared
    }

    async fn ask(&self, options: &Options, sides: &Sides, least: f64) -> Result<(), Failure> {
        for (_, service) in sides {
            service.indexed().await?;
        }
        let by_id = reads_by_id(self.dir.path(), options.theses)?;
        println!("\nReads by id, {} connections, medians of {} runs", options.connections, options.rounds);
        Figures::heads(sides[0].0);
        for (name, protocol) in [("GET /v1/theses/{id}", Protocol::Http), ("gRPC GetThesis", Protocol::Grpc)] {
            let kinds = sides.each_ref().map(|(_, service)| Kind { service, protocol, requests: &by_id });
            let figures = compare(options, options.connections, &kinds).await?;
            figures[0].print(&format!("{name}, {}", sides[0].0), &figures[0], "");
            let aim = aim(figures[1].rate / figures[0].rate, least);
            figures[1].print(&format!("{name}, {}", sides[1].0), &figures[0], &aim);
        }
        Ok(())
    }
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
