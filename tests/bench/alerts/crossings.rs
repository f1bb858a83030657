//! How soon a crossing is in a stream. Each sample is a thesis that lifts the count of its token over the threshold of
//! an alert, and then the deletion of this thesis, by which the count falls again. The frames of the thesis and of its
//! deletion, in another stream, are what the alert's frames are compared with.

use std::{iter::zip, ops::ControlFlow, time::Duration};

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

/// What happens in a sample, and the types of its two events.
const STEPS: [(&str, &str, &str); 2] =
    [("rises", "thesis.created", "alert.firing"), ("falls", "thesis.deleted", "alert.resolved")];

/// The times of the samples of a step.
#[derive(Default)]
struct Times {
    answer: Vec<Duration>,
    thesis: Vec<Duration>,
    alert: Vec<Duration>,
}

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
    let mut theses = frames(&service, STEPS.map(|(_, event, _)| event)).await?;
    let mut alerts = frames(&service, STEPS.map(|(.., event)| event)).await?;
    let mut times = [Times::default(), Times::default()];
    for sample in 1..=u64::from(options.samples) {
        let observations = [thesis_on(TOKEN, sample), deletion(sample)];
        for ((observation, (_, of_thesis, of_alert)), times) in zip(zip(observations, STEPS), &mut times) {
            let started = Instant::now();
            bring(&mut ingest, observation).await?;
            times.answer.push(started.elapsed());
            times.thesis.push(arrival(&mut theses, of_thesis).await? - started);
            times.alert.push(arrival(&mut alerts, of_alert).await? - started);
        }
    }
    println!(
        "\nFrom a thesis that crosses a threshold, and from its deletion, {} samples one after the other; {}",
        options.samples,
        setup.kind()
    );
    row(&["", "p50 ms", "p99 ms", "of its frame", "p99 aim"]);
    for ((step, of_thesis, of_alert), Times { mut answer, mut thesis, mut alert }) in zip(STEPS, times) {
        let base = percentile(&mut thesis, 0.5);
        print(&format!("the count {step}: to the answer"), &mut answer, base, None);
        print(&format!("to the frame of {of_thesis}"), &mut thesis, base, None);
        print(&format!("to the frame of {of_alert}"), &mut alert, base, Some(FRAME_MS));
    }
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
async fn frames(service: &Service, types: [&'static str; 2]) -> Result<Frames, Failure> {
    let url = format!("http://{}/v1/events/stream?types={}", service.address("http")?, types.join(","));
    let stream = open(&url, &live_key()).await?;
    let (seen, frames) = unbounded_channel();
    tokio::spawn(follow(stream, move |frame| {
        let Ok(event) = std::str::from_utf8(frame.event) else { return ControlFlow::Break(()) };
        if types.contains(&event) && seen.send((event.to_owned(), frame.at)).is_err() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }));
    Ok(frames)
}

/// The arrival of the next event, which must have this type: each step has one.
async fn arrival(frames: &mut Frames, wanted: &str) -> Result<Instant, Failure> {
    let (event, at) = timeout(FRAME_TIMEOUT, frames.recv()).await?.ok_or("a stream ended")?;
    if event == wanted { Ok(at) } else { Err(format!("{event} came in place of {wanted}").into()) }
}
