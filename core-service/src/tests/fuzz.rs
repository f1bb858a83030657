//! Harnesses of ids, signed texts and imported entries.

use thesis_proto::json::event_json;

use crate::{
    convert,
    domain::{
        dataset::Dataset,
        delivery::parse_delivery_id,
        entry::Entry,
        event_id::{EventIdCipher, thesis_event_id, thesis_of_event},
        id,
        list_cursor::{CursorSigner, HistoryPosition, TimePosition, list_name},
        window::parse_span,
    },
};

thesis_fuzz::fuzz_tests!(signed_texts, import_entries);

/// Nothing is read that the service did not write.
fn signed_texts(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (signer, list) = (CursorSigner::new([7; 32]), list_name(&["theses", "live"]));
    if let Some(position) = signer.read::<TimePosition>(&list, &text) {
        assert_eq!(signer.sign(&list, &position), text);
    }
    if let Some(position) = signer.read::<HistoryPosition>(&list, &text) {
        assert_eq!(signer.sign(&list, &position), text);
    }
    let cipher = EventIdCipher::new([7; 32], "generation");
    if let Some(seq) = cipher.decrypt("live", &text) {
        assert_eq!(cipher.encrypt("live", seq), text);
    }
    if let Some(dataset) = Dataset::parse(&text) {
        assert_eq!(dataset.name(), text);
    }
    if let Some(thesis) = thesis_of_event(&text) {
        assert_eq!(thesis_event_id(&thesis), text);
    }
    if let Some(number) = id::read_number(&text) {
        assert_eq!(id::number(number, 13).trim_start_matches('0'), text.trim_start_matches('0'));
    }
    let _ = (parse_delivery_id(&text), parse_span(&text));
}

/// An entry that an import takes is stored as it came, has one JSON, and makes an event.
fn import_entries(input: &[u8]) {
    let Some((place, stored)) = input.split_first() else { return };
    let seq = [1, 7, u64::from(u32::MAX), i64::MAX.unsigned_abs()][usize::from(place % 4)];
    let Ok(entry) = Entry::read_whole(seq, stored) else { return };
    assert_eq!(entry.stored(seq), stored);
    let json = serde_json::to_string(&entry).unwrap();
    assert_eq!(serde_json::from_str::<Entry>(&json).unwrap(), entry);
    for dataset in [Dataset::Live, Dataset::Sandbox, Dataset::of_project("prj_1")] {
        if entry.must_suit(&dataset, seq).is_ok()
            && let Some(event) = convert::entry::event(&dataset, &entry)
        {
            serde_json::from_slice::<serde_json::Value>(&event_json(&event)).unwrap();
        }
    }
}
