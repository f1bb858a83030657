//! A client of the Trade Thesis Data Service.
//!
//! [`Client::new`] takes the address of a service and an API key. Each operation of the API is a method that returns a
//! [`Call`], which you await. Each list has a second method that begins with `iterate` and reads all pages as a
//! [`Stream`](futures::Stream). [`Client::stream`] follows events and resumes after any break, [`WebhookVerifier`]
//! verifies deliveries of webhooks, and [`verify_receipt`] checks receipts without network access.
//!
//! ```no_run
//! use trade_thesis_client::{Client, Error, ErrorCode};
//!
//! # async fn run() -> Result<(), Error> {
//! let client = Client::new("https://api.example.com", "svc_test_…")?;
//! match client.get_thesis("th_1").await {
//!     Ok(thesis) => println!("{}", thesis.text),
//!     Err(error) if error.code() == Some(&ErrorCode::ThesisNotFound) => println!("there is none"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A call is repeated after a failed connection, 429, 500, 502, 503 and 504, with growing pauses and not before the
//! time in `Retry-After`. Each change has an idempotency key, so a repeat does nothing twice.

mod call;
mod client;
mod error;
mod generated;
mod open_enum;
mod page;
mod receipt;
mod request;
mod retry;
mod sse;
mod stream;
#[cfg(test)]
mod tests;
mod webhook;

pub use thesis_receipts::{
    Checkpoint, Evidence, EvidenceKind, FileEntry, Invalid, ProfileEvidence, Subject, TokenEvidence, Unreadable,
    VerifiedDocument, VerifierKey, VerifierKeyError, WitnessCosignature,
};

pub use self::{
    call::{Call, Download, Rows},
    client::{Client, ClientBuilder},
    error::{ApiError, BoxError, Error},
    generated::{errors::*, params::*, types::*},
    page::Page,
    receipt::{ReceiptError, verify_receipt},
    stream::{EventStream, StreamContent, StreamMessage},
    webhook::{WebhookError, WebhookVerifier},
};
