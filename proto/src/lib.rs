//! The contract: messages and services, the table of error codes, the canonical JSON of the public resources, and the
//! rules that several roles share: references, event filters, stream cursors.

pub mod cursor;
pub mod descriptors;
pub mod error;
pub mod filter;
#[cfg(test)]
mod fuzz;
pub mod json;
pub mod metadata;
pub mod names;
pub mod near;
pub mod reference;
pub mod search;
mod secret;
pub mod time;
pub mod webhook;

include!(concat!(env!("OUT_DIR"), "/every_service.rs"));

/// The generated messages, clients and servers of `thesis.v1`; documented in the `.proto` files.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    reason = "generated from commented protobuf"
)]
pub mod v1 {
    tonic::include_proto!("thesis.v1");

    /// The compiled descriptors, for reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/thesis.v1.bin"));
}
