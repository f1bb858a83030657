//! Every response and every message has an example with the fields of its schema.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thesis_proto::error::{ApiError, ErrorCode};

use super::{document, everything, shape};
#[test]
fn every_success_has_an_example_and_every_failure_its_codes() {
    let document = document();
    for (place, operation) in everything() {
        if place.starts_with("post") && operation["operationId"].as_str().unwrap().starts_with("on") {
            assert!(operation["requestBody"]["content"]["application/json"]["example"].is_object(), "{place}");
            continue;
        }
        for (status, answer) in operation["responses"].as_object().unwrap() {
            match status.as_bytes()[0] {
                b'2' if status == "204" => assert!(answer.get("content").is_none(), "{place}"),
                b'2' => {
                    let contents: Vec<_> = answer["content"].as_object().unwrap().values().collect();
                    assert!(contents.iter().all(|content| !content["example"].is_null()), "{place} {status}");
                }
                b'4' | b'5' => {
                    let answer = document.pointer(&answer["$ref"].as_str().unwrap()[1..]).unwrap();
                    let codes = answer["content"]["application/json"]["examples"].as_object().unwrap();
                    assert!(!codes.is_empty(), "{place} {status}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn every_code_of_rest_has_an_example_that_leads_to_its_paragraph() {
    // Only the console and operators get these codes.
    let others = [
        ErrorCode::SignInRequired,
        ErrorCode::SignInFailed,
        ErrorCode::InsufficientRole,
        ErrorCode::AccountLimitReached,
        ErrorCode::SignUpClosed,
        ErrorCode::EmailNotConfirmed,
        ErrorCode::ConfirmationRequired,
        ErrorCode::SecondFactorRequired,
        ErrorCode::OrganizationNotFound,
        ErrorCode::ProjectNotFound,
        ErrorCode::KeyNotFound,
        ErrorCode::UserNotFound,
        ErrorCode::MemberNotFound,
        ErrorCode::InvitationNotFound,
        ErrorCode::SessionNotFound,
        ErrorCode::LinkNotFound,
        ErrorCode::EmailTaken,
        ErrorCode::ChangedMeanwhile,
        ErrorCode::LastOwner,
        ErrorCode::LastAdministrator,
        ErrorCode::BackupInProgress,
        ErrorCode::BackupUnsupported,
    ];
    let document = document();
    let answers = document["components"]["responses"].to_string();
    for code in ErrorCode::ALL.iter().filter(|code| !others.contains(code)) {
        let name = code.as_str();
        let error = &document["components"]["examples"][name]["value"]["error"];
        assert_eq!((&error["code"], &error["type"]), (&json!(name), &json!(code.error_type())));
        assert_eq!(error["doc_url"], format!("http://edge.test/docs/errors#{}", name.to_lowercase()));
        assert!(answers.contains(&format!("`{name}`: ")), "no operation has {name}");
    }
    let described = document["components"]["examples"].as_object().unwrap().len();
    assert_eq!(described, ErrorCode::ALL.len() - others.len());
    let codes = &document["components"]["schemas"]["ErrorCode"]["enum"];
    assert_eq!(codes.as_array().unwrap().len(), described);
    let is_named = |code: &Value| document["components"]["examples"].get(code.as_str().unwrap()).is_some();
    assert!(codes.as_array().unwrap().iter().all(is_named));
}

/// Asserts that an object has exactly the fields of a schema.
fn assert_shape(document: &Value, reference: &str, object: &Value) {
    let schema = document.pointer(&reference[1..]).unwrap();
    let (properties, required) = shape(document, schema);
    let keys: BTreeSet<_> = object.as_object().unwrap().keys().cloned().collect();
    assert!(required.is_subset(&keys) && keys.is_subset(&properties), "{reference}: {object}");
}

#[test]
fn server_errors_have_the_messages_of_the_examples() {
    let document = document();
    for error in [ApiError::internal(), ApiError::unavailable()] {
        let example = &document["components"]["examples"][error.code.as_str()]["value"]["error"];
        assert_eq!(example["message"], *error.message);
    }
}

#[test]
fn the_example_of_a_stream_has_described_frames() {
    let document = document();
    let stream = &document["paths"]["/v1/events/stream"]["get"];
    let text = stream["responses"]["200"]["content"]["text/event-stream"]["example"].as_str().unwrap();
    let mut types = BTreeSet::new();
    for block in text.split_terminator("\n\n") {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let (event, data) = (field("event: "), serde_json::from_str::<Value>(field("data: ")).unwrap());
        assert_shape(&document, stream["x-event-stream"][event]["$ref"].as_str().unwrap(), &data);
        let cursor = field("id: ");
        match event {
            "stream.cursor" => assert_eq!(data["cursor"], cursor),
            "stream.gap" => assert_eq!(data["last_cursor"], cursor),
            _ => assert_eq!(data["type"], event),
        }
        types.insert(event);
    }
    assert_eq!(types.into_iter().collect::<Vec<_>>(), ["stream.cursor", "stream.gap", "thesis.created"]);
}

#[test]
fn the_examples_of_messages_are_as_their_schemas_say() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for kind in ["WebSocketRequest", "WebSocketMessage"] {
        for (op, reference) in schemas[kind]["discriminator"]["mapping"].as_object().unwrap() {
            let reference = reference.as_str().unwrap();
            let examples = document.pointer(&reference[1..]).unwrap()["examples"].as_array().unwrap();
            for example in examples {
                assert_eq!(example["op"], *op);
                assert_shape(&document, reference, example);
            }
            assert!(!examples.is_empty(), "{op}");
        }
    }
    let error = &schemas["WebSocketError"]["examples"][0]["error"];
    assert_shape(&document, "#/components/schemas/Error", error);
    assert_eq!(error["doc_url"], "http://edge.test/docs/errors#validation_failed");
}
