//! How soon a crossing is in a stream. Each sample is a thesis that lifts the count of its token over the threshold of
//! an alert, and then the deletion of this thesis, by which the count falls again. The alert's frames are compared with
//! the frame of the thesis, in another stream. A deletion has no event of its own.

use std::{ops::ControlFlow, time::Duration};

use serde_json::json;
use thesis_proto::v1;
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, timeout},
};

use crate::{
    Failure, Options,
    calls::{self, Ingest, deletion, thesis_on},
    connection::{Connection, post},
    frames::{follow, open},
    process::{Service, live_key},
    report::{aim_below, number, percentile, row},
    store::Setup,
};

/// The token of the alert.
const TOKEN: u64 = 0;
/// Theses that stay on the token. The alert fires above their number.
const STAYING: u64 = 1;
/// Our aim: the 99th percentile of the time from a crossing to its frame, in milliseconds.
const FRAME_MS: f64 = 50.0;
/// Time limit for the frame of a sample.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

const CREATED: &str = "thesis.created";
const FIRING: &str = "alert.firing";
const RESOLVED: &str = "alert.resolved";

/// The types of a stream's events, and when they came.
type Frames = UnboundedReceiver<(String, Instant)>;

/// Measures and prints.
pub(super) async fn run(options: &Options) -> Result<(), Failure> {
    let temporary = tempfile::tempdir()?;
    let setup = Setup::new(options, options.store, 0, temporary.path())?;
    let measured = measure(options, &setup).await;
    setup.clear().await?;
    measured
}

async fn measure(options: &Options, setup: &Setup) -> Result<(), Failure> {
    let service = Service::start_with(setup, &[("SVC_BOOTSTRAP_LIVE_KEY", live_key())]).await?;
    let mut ingest = calls::ingest(&service).await?;
    bring(&mut ingest, thesis_on(TOKEN, 0)).await?;
    create_alert(&service).await?;
    let mut theses = frames(&service, &[CREATED]).await?;
    let mut alerts = frames(&service, &[FIRING, RESOLVED]).await?;
    let (mut answered, mut created, mut firing, mut resolved) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for sample in 1..=u64::from(options.samples) {
        let started = Instant::now();
        bring(&mut ingest, thesis_on(TOKEN, sample)).await?;
        answered.push(started.elapsed());
        created.push(arrival(&mut theses, CREATED).await? - started);
        firing.push(arrival(&mut alerts, FIRING).await? - started);
        let started = Instant::now();
        bring(&mut ingest, deletion(sample)).await?;
        resolved.push(arrival(&mut alerts, RESOLVED).await? - started);
    }
    println!(
        "\nFrom a thesis that crosses a threshold, {} samples one after the other; {}",
        options.samples,
        setup.kind()
    );
    row(&["", "p50 ms", "p99 ms", "of its frame", "p99 aim"]);
    let base = percentile(&mut created, 0.5);
    print("to its answer", &mut answered, base, None);
    print("to its frame", &mut created, base, None);
    print("to the frame of alert.firing", &mut firing, base, Some(FRAME_MS));
    print("its deletion, to alert.resolved", &mut resolved, base, Some(FRAME_MS));
    service.stop().await?;
    Ok(())
}

fn print(name: &str, times: &mut [Duration], base: f64, below: Option<f64>) {
    let (p50, p99) = (percentile(times, 0.5), percentile(times, 0.99));
    let aim = below.map(|limit| aim_below(p99, limit, " ms")).unwrap_or_default();
    row(&[name, &number(p50), &number(p99), &format!("{:.2}", p50 / base), &aim]);
}

async fn bring(ingest: &mut Ingest, observation: v1::Observation) -> Result<(), Failure> {
    let request = v1::IngestRequest { dataset: "live".to_owned(), observations: vec![observation] };
    ingest.ingest(request).await?;
    Ok(())
}

/// Creates an alert that fires above the theses that stay.
async fn create_alert(service: &Service) -> Result<(), Failure> {
    let token = format!("WANTED{TOKEN}");
    let body = json!({ "name": "crossings", "token": token, "metric": "thesis_count_24h", "above": STAYING });
    let mut connection = Connection::open(service.address("http")?).await?;
    connection.ask_ok(&post("/v1/alerts", &live_key(), &body.to_string())).await?;
    Ok(())
}

/// Follows the events of these types.
async fn frames(service: &Service, types: &'static [&'static str]) -> Result<Frames, Failure> {
    let url = format!("http://{}/v1/events/stream?types={}", service.address("http")?, types.join(","));
    let stream = open(&url, &live_key()).await?;
    let (seen, frames) = unbounded_channel();
    tokio::spawn(follow(stream, move |frame| {
        let event = String::from_utf8_lossy(frame.event);
        if types.contains(&&*event) && seen.send((event.into_owned(), frame.at)).is_err() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }));
    Ok(frames)
}

/// The arrival of the next event, which must have this type.
async fn arrival(frames: &mut Frames, wanted: &str) -> Result<Instant, Failure> {
    let (event, at) = timeout(FRAME_TIMEOUT, frames.recv()).await?.ok_or("a stream ended")?;
    if event == wanted { Ok(at) } else { Err(format!("{event} came in place of {wanted}").into()) }
}
