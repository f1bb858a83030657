//! The cost of limits for a request: all checks before an operation, and that of the key alone, timed in this process.

use std::{hint::black_box, sync::Arc};

use core_service::{Gate, RequestMeta, domain::operation::Operation};
use thesis_net::clock::{Clock as _, SystemClock};
use tokio::time::Instant;

use crate::{
    Failure, Options, StoreKind, load,
    process::test_key,
    report::{median, number, row},
    store::Setup,
};

const CALLS: u32 = 50_000;

/// Measures and prints the cost of limits, beside the processor time of a read by id.
pub(crate) async fn run(options: &Options, read_us: f64) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let setup = Setup::new(options, StoreKind::Embedded, 0, folder.path())?;
    let core = load::core(setup.open().await?, None).await?;
    let (mut whole, mut without) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        whole.push(admissions(&core.gate).await?);
        without.push(authentications(&core.gate)?);
    }
    core.close().await;
    let (whole, without) = (median(whole), median(without));
    let limits = whole - without;
    println!("\nBefore an operation, one thread, medians of {} runs of {CALLS} calls", options.rounds);
    row(&["", "µs"]);
    row(&["key, scope, rate and quota", &number(whole)]);
    row(&["the key alone", &number(without)]);
    let part = 100.0 * limits / read_us;
    row(&["so the limits", &number(limits), &format!("{part:.1} % of a read by id with its limits")]);
    Ok(())
}

fn meta() -> RequestMeta {
    RequestMeta { authorization: Some(format!("Bearer {}", test_key()).into()), ..RequestMeta::default() }
}

fn each_us(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}

async fn admissions(gate: &Arc<Gate>) -> Result<f64, Failure> {
    let started = Instant::now();
    for _ in 0..CALLS {
        let call = gate.admit(meta(), Operation::GetThesis).map_err(|refused| refused.error)?;
        call.charge().await?;
        black_box(&call);
    }
    Ok(each_us(started))
}

fn authentications(gate: &Gate) -> Result<f64, Failure> {
    let started = Instant::now();
    for _ in 0..CALLS {
        // As an admission reads it.
        let meta = meta();
        black_box(gate.authenticate(&meta, SystemClock.now_ms())?);
    }
    Ok(each_us(started))
}
