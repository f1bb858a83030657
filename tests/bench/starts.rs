//! The time of starts, and memory.

use crate::{
    Failure,
    process::Service,
    report::{Memory, aim_below, row},
    store::Setup,
};

/// Stops a service, starts it again, and prints the time of its starts and its memory.
pub(crate) async fn run(setup: &Setup, service: Service, started: Memory, indexed: f64) -> Result<(), Failure> {
    let (first_ms, read) = (service.ready_ms, service.memory());
    let stop_ms = service.stop().await?;
    let again = Service::start(setup).await?;
    let (again_ms, anew) = (again.ready_ms, again.memory());
    again.stop().await?;
    println!("\nStarts and memory; {setup}");
    let seconds = |milliseconds: f64| format!("{:.2} s", milliseconds / 1e3);
    row(&["ready after the load", &seconds(first_ms), &aim_below(first_ms / 1e3, 3.0, " s")]);
    row(&["  search complete after another", &seconds(indexed * 1e3)]);
    row(&["stopped in", &seconds(stop_ms)]);
    row(&["ready again", &seconds(again_ms), &aim_below(again_ms / 1e3, 3.0, " s")]);
    let memory = |name: &str, memory: Memory| {
        println!("  {name:<34}  {memory}; {}", aim_below(memory.resident, 500.0, " MiB"));
    };
    memory("memory after the first start", started);
    memory("memory after everything above", read);
    memory("memory after the second start", anew);
    Ok(())
}
