use super::*;

/// The examples of `signed-note`.
const KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const NOTE: &str = "This is an example message.\n\n\u{2014} example.com/foo \
                    Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

fn key() -> VerifierKey {
    KEY.parse().unwrap()
}

#[test]
fn the_example_of_the_specification_verifies() {
    assert_eq!(key().to_string(), KEY);
    let note = Note::parse(NOTE).unwrap();
    assert_eq!(note.text(), "This is an example message.\n");
    assert_eq!(note.is_signed_by(&key()), Ok(true));
    assert_eq!(note.cosigned_at(&key()), Ok(None));
}

#[test]
fn a_changed_text_or_signature_is_an_error() {
    let wrong = Err(NoteError::Signature("example.com/foo".to_owned()));
    let changed = NOTE.replace("example message", "exemple message");
    assert_eq!(Note::parse(&changed).unwrap().is_signed_by(&key()), wrong);
    let changed = NOTE.replace("yaQM=", "yaQI=");
    assert_eq!(Note::parse(&changed).unwrap().is_signed_by(&key()), wrong);
    // One right signature does not make up for a wrong one.
    let line = NOTE.lines().last().unwrap();
    let twice = format!("{NOTE}{}\n", line.replace("yaQM=", "yaQI="));
    assert_eq!(Note::parse(&twice).unwrap().is_signed_by(&key()), wrong);
}

#[test]
fn signatures_of_other_keys_do_not_count() {
    let other_name = NOTE.replace("\u{2014} example.com/foo", "\u{2014} example.com/bar");
    let other_id = NOTE.replace("Uw2QOk", "Uw2QOU");
    for note in [other_name, other_id] {
        assert_eq!(Note::parse(&note).unwrap().is_signed_by(&key()), Ok(false));
    }
}

#[test]
fn what_is_signed_here_verifies() {
    let signing = SigningKey::from_seed(&[7; 32]);
    let text = "a.example/log\n1\nAAAA\n";
    let (log, witness) = (signing.verifier("a.example/log", KeyKind::Log), signing.verifier("w", KeyKind::Witness));
    let note = format!("{text}\n{}{}", signing.sign("a.example/log", text), signing.cosign("w", text, 1_679_315_147));
    let parsed = Note::parse(&note).unwrap();
    assert_eq!(parsed.is_signed_by(&log), Ok(true));
    assert_eq!(parsed.cosigned_at(&witness), Ok(Some(1_679_315_147)));
    // A key of one kind cannot verify signatures of the other kind.
    assert_eq!((parsed.is_signed_by(&witness), parsed.cosigned_at(&log)), (Ok(false), Ok(None)));
    for key in [log, witness] {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
}

#[test]
fn a_cosignature_counts_at_its_own_time_only() {
    let signing = SigningKey::from_seed(&[7; 32]);
    let (text, witness) = ("a\n1\nAAAA\n", signing.verifier("w", KeyKind::Witness));
    let at = |time| signing.cosign("w", text, time);
    let note = format!("{text}\n{}{}", at(9), at(8));
    assert_eq!(Note::parse(&note).unwrap().cosigned_at(&witness), Ok(Some(8)));
    let later = |time| format!("{text}\n{}", at(time));
    assert_eq!(Note::parse(&later(MAX_TIME)).unwrap().cosigned_at(&witness), Ok(Some(MAX_TIME)));
    assert_eq!(
        Note::parse(&later(MAX_TIME + 1)).unwrap().cosigned_at(&witness),
        Err(NoteError::Signature("w".to_owned()))
    );
    let mut bytes = BASE64_STANDARD.decode(at(8).trim_end().strip_prefix("\u{2014} w ").unwrap()).unwrap();
    bytes[11] = 7;
    let earlier = format!("{text}\n\u{2014} w {}\n", BASE64_STANDARD.encode(bytes));
    assert_eq!(Note::parse(&earlier).unwrap().cosigned_at(&witness), Err(NoteError::Signature("w".to_owned())));
}

#[test]
fn other_texts_are_no_note() {
    let line = NOTE.lines().last().unwrap();
    for note in [
        String::new(),
        "text\n".to_owned(),
        "text\n\n".to_owned(),
        format!("text\n{line}\n"),
        format!("text\n\n{line}"),
        format!("text\r\n\n{line}\n"),
        format!("text\n\n-{line}\n"),
        format!("text\n\n{line}\n\n"),
        format!("text\n\n{line} \n"),
        "text\n\n\u{2014} a+b AAAAAAAA\n".to_owned(),
        "text\n\n\u{2014} a AAAA\n".to_owned(),
        "text\n\n\u{2014} a AAAAA===\n".to_owned(),
        format!("text\n\n{}", format!("{line}\n").repeat(MAX_SIGNATURES + 1)),
    ] {
        assert_eq!(Note::parse(&note), Err(NoteError::Form), "{note:?}");
    }
}

#[test]
fn other_texts_are_no_key() {
    use VerifierKeyError::{Algorithm, Form, Id};
    for (text, error) in [
        ("", Form),
        ("example.com/foo+530d903a", Form),
        ("+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", Form),
        ("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2", Form),
        ("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4", Form),
        ("example.com/foo+530d903a+AukyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", Algorithm),
        ("example.com/foo+530D903A+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", Id),
        ("example.com/bar+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", Id),
        ("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2g", Id),
    ] {
        assert_eq!(text.parse::<VerifierKey>(), Err(error), "{text}");
    }
}
