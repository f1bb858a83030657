//! Sends spans to a collector by OTLP. No request waits for it, even if they are lost.

use std::{sync::Arc, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use thesis_net::{
    clock::{SystemIdSource, random},
    failure_log::FailureLog,
    trace::{self, Sampling},
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    config::{Refused, Traces},
    role::Role,
    version,
};

/// Maximum spans of one message.
const MAX_BATCH: usize = 512;
/// Maximum time that a span waits for others.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout for the collector to accept a message.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the last messages when the process ends.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// The task that sends spans; none without a collector.
pub(crate) struct SpanExport(Option<(CancellationToken, JoinHandle<()>)>);

/// Begins to send spans where a collector is named.
pub(crate) fn send(settings: &Traces, role: Role) -> Result<SpanExport, Failure> {
    let Some(url) = &settings.otlp_url else { return Ok(SpanExport(None)) };
    let exporter = exporter(url, role)?;
    let sampling = Sampling(settings.trace_sample);
    let spans = trace::install(sampling, Arc::new(SystemIdSource)).ok_or("spans are sent already")?;
    let stop = CancellationToken::new();
    let sender = Sender { exporter, spans, lost: 0 };
    Ok(SpanExport(Some((stop.clone(), tokio::spawn(sender.run(stop))))))
}

impl SpanExport {
    /// Exports the remaining spans, with a short timeout.
    pub(crate) async fn finish(self) {
        let Some((stop, sending)) = self.0 else { return };
        stop.cancel();
        if timeout(FINISH_TIMEOUT, sending).await.is_err() {
            tracing::debug!("the last spans were not sent");
        }
    }
}

fn exporter(url: &str, role: Role) -> Result<SpanExporter, Failure> {
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(delivery_worker::tls_config(None)?)
        .no_proxy()
        .timeout(EXPORT_TIMEOUT)
        .build()?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .with_retry_policy(RetryPolicy::disabled())
        .with_endpoint(format!("{url}/v1/traces"))
        .build();
    let mut exporter = exporter.map_err(|error| Refused::new("SVC_OTLP_URL", error))?;
    let resource = Resource::builder().with_service_name("trade-thesis").with_attributes([
        KeyValue::new("service.version", version::VERSION),
        KeyValue::new("service.instance.id", instance(role)),
    ]);
    exporter.set_resource(&resource.build());
    Ok(exporter)
}

/// This process among the others: its role, and a number that no other has.
fn instance(role: Role) -> String {
    format!("{}-{:016x}", role.name(), u64::from_be_bytes(random(&SystemIdSource)))
}

struct Sender {
    exporter: SpanExporter,
    spans: mpsc::Receiver<SpanData>,
    /// Spans lost since the last log line about it.
    lost: u64,
}

impl Sender {
    async fn run(mut self, stop: CancellationToken) {
        let mut failure_log = FailureLog::default();
        loop {
            let mut batch = Vec::new();
            let is_last = stop.run_until_cancelled(self.gather(&mut batch)).await.is_none();
            while batch.len() < MAX_BATCH
                && let Ok(span) = self.spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            let error = self.export(batch).await;
            self.lost += trace::take_dropped();
            if self.lost > 0 && failure_log.note_failure() {
                let lost = std::mem::take(&mut self.lost);
                tracing::warn!(spans = lost, error, "spans were lost; look at SVC_OTLP_URL and at the collector");
            }
            if is_last && self.spans.is_empty() {
                return;
            }
        }
    }

    /// Waits for a span, then a moment for others.
    async fn gather(&mut self, batch: &mut Vec<SpanData>) {
        if self.spans.recv_many(batch, MAX_BATCH).await == 0 {
            return;
        }
        let others = async {
            while batch.len() < MAX_BATCH && self.spans.recv_many(batch, MAX_BATCH - batch.len()).await > 0 {}
        };
        // Spans that came until then are in the batch.
        let _ = timeout(BATCH_INTERVAL, others).await;
    }

    /// Sends a message. Gives the reason if the collector did not take it.
    async fn export(&mut self, batch: Vec<SpanData>) -> Option<String> {
        let count = batch.len() as u64;
        let error = match timeout(EXPORT_TIMEOUT, self.exporter.export(batch)).await {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the collector did not answer in time".to_owned(),
        };
        self.lost += count;
        Some(error)
    }
}
