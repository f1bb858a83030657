//! The part of the client that follows from the description of the API.

// Not formatted, because the generator knows nothing of rustfmt.
#[rustfmt::skip]
pub(crate) mod errors;
#[rustfmt::skip]
mod operations;
#[rustfmt::skip]
pub(crate) mod params;
#[rustfmt::skip]
pub(crate) mod types;
