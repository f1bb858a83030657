use prost::Message as _;
use prost_types::FileDescriptorSet;
use thesis_proto::v1;

use super::*;

#[test]
fn the_table_names_every_method_once() {
    let files = FileDescriptorSet::decode(v1::FILE_DESCRIPTOR_SET).unwrap();
    let mut services = files.file.iter().flat_map(|file| &file.service);
    let service = services.find(|service| service.name() == "AccountService").unwrap();
    let methods: Vec<&str> = service.method.iter().map(|method| method.name()).collect();
    assert_eq!(TABLE.iter().map(|(method, _)| *method).collect::<Vec<_>>(), methods);
}
