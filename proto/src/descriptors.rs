//! The descriptors of the contract.

use std::sync::LazyLock;

use prost::Message as _;
use prost_types::{FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto};

use crate::v1;

/// The files of the contract.
pub static FILES: LazyLock<FileDescriptorSet> =
    LazyLock::new(|| FileDescriptorSet::decode(v1::FILE_DESCRIPTOR_SET).expect("compiled with this crate"));

/// Every service of the contract, with its full name.
fn named_services() -> impl Iterator<Item = (String, &'static ServiceDescriptorProto)> {
    FILES.file.iter().flat_map(|file| {
        file.service.iter().map(move |service| (format!("{}.{}", file.package(), service.name()), service))
    })
}

/// The full name of every service of the contract.
pub fn services() -> impl Iterator<Item = String> {
    named_services().map(|(name, _)| name)
}

/// Every method of the contract, with the full name of its service.
pub fn methods() -> impl Iterator<Item = (String, &'static MethodDescriptorProto)> {
    named_services().flat_map(|(name, service)| service.method.iter().map(move |method| (name.clone(), method)))
}
