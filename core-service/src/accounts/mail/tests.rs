use std::sync::Arc;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::*;

const LINK: &str = "https://thesis.example/console/links/inv_1.mac";

/// Takes one letter, unless it refuses the recipient with a code; gives all that was said to it.
async fn converse(socket: TcpStream, refusal: Option<&str>) -> String {
    let mut socket = BufReader::new(socket);
    let (mut said, mut in_data) = (String::new(), false);
    socket.write_all(b"220 here\r\n").await.unwrap();
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.unwrap() == 0 {
            return said;
        }
        said.push_str(&line);
        let answer = match (in_data, line.trim_end()) {
            (true, ".") => "250 taken",
            (true, _) => continue,
            (false, line) if line.starts_with("RCPT") && refusal.is_some() => refusal.unwrap_or_default(),
            (false, "DATA") => "354 go on",
            (false, line) if line.starts_with("QUIT") => "221 bye",
            _ => "250 well",
        };
        in_data = answer.starts_with("354");
        if socket.write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
            return said;
        }
    }
}

async fn mail() -> (TcpListener, Mail) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let settings = MailSettings::new(url.into(), "Theses <noreply@thesis.example>".to_owned()).unwrap();
    (listener, Mail::new(settings).unwrap())
}

#[tokio::test]
async fn a_letter_is_sent_once_it_is_posted() {
    let (listener, mail) = mail().await;
    mail.post(Letter::invitation("ann@example.com", Some("Acme\r\nBcc all"), LINK));
    let said = converse(listener.accept().await.unwrap().0, None).await;
    assert!(said.contains("RCPT TO:<ann@example.com>") && said.contains("To: ann@example.com\r\n"), "{said}");
    assert!(said.contains("From: Theses <noreply@thesis.example>\r\n"), "{said}");
    assert!(said.contains(&format!("\r\n{LINK}\r\n")) && said.contains("for 7 days"), "{said}");
    assert!(!said.contains("\r\nBcc:") && said.contains("\"Acme  Bcc all\""), "{said}");
    mail.close(Duration::from_secs(5)).await;
    mail.post(Letter::reset("ann@example.com", LINK));
}

#[tokio::test]
async fn a_letter_is_tried_again_unless_it_is_refused_for_good() {
    let (listener, mail) = mail().await;
    mail.post(Letter::reset("ann@example.com", LINK));
    let first = converse(listener.accept().await.unwrap().0, Some("450 later")).await;
    assert!(!first.contains(LINK), "{first}");
    let second = converse(listener.accept().await.unwrap().0, Some("550 <ann@example.com> is unknown")).await;
    assert!(!second.contains(LINK), "{second}");
    mail.close(Duration::from_secs(5)).await;
    let more = timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(more.is_err(), "a third try");
}

#[test]
fn a_letter_holds_no_link_but_its_own() {
    let from = parse_sender("noreply@thesis.example").unwrap();
    let text_of = |name: Option<&str>| {
        let letter = Letter::invitation("ann@example.com", name, LINK);
        String::from_utf8(letter.message(&from).unwrap().formatted()).unwrap()
    };
    for harmless in ["Acme", "Acme Inc.", "Acme, Sons & Co. of 1900"] {
        assert!(text_of(Some(harmless)).contains(&format!("\"{harmless}\"")), "{harmless}");
    }
    for name in [
        "Claim at https://evil.example/x",
        "www.evil.example now",
        "evil.example",
        "10.0.0.1",
        "evil\u{3002}example",
        "evil\u{2024}example",
        "evil\u{fe52}example",
        "evil\u{301}.example",
        "evil\u{1f355}.ws",
        "evil\u{200b}.example",
        "evil\u{ad}.example",
        "evil.\u{200b}example",
        "mail ann@evil",
        "javascript:x",
        "evil\\x",
    ] {
        let text = text_of(Some(name));
        assert!(text.contains("join an organization.") && !text.contains("evil"), "{name}: {text}");
    }
    assert!(text_of(None).contains("join an organization."));
    assert!(text_of(Some("A\" B")).contains("\"A  B\""));
}

#[test]
fn no_address_makes_a_header() {
    let from = parse_sender("noreply@thesis.example").unwrap();
    for to in ["", "ann", "ann@", "@example.com", "ann@example.com\r\nBcc: all@example.com", "a b@example.com"] {
        assert!(Letter::welcome(to, LINK).message(&from).is_err(), "{to:?}");
    }
    let letter = Letter::welcome("ann@example.com", LINK);
    assert_eq!(letter.domain(), "example.com");
    let text = String::from_utf8(letter.message(&from).unwrap().formatted()).unwrap();
    assert!(text.contains("Auto-Submitted: auto-generated\r\n") && text.contains("Message-ID: <"), "{text}");
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named_and_not_told() {
    let new = |url: &str, from: &str| MailSettings::new(url.to_owned().into(), from.to_owned());
    let from = "noreply@thesis.example";
    for good in [
        "smtp://mail.example",
        "smtp://mail.example:2525/",
        "smtp://127.0.0.1:25",
        "smtp://[::1]:25",
        "smtps://user:pa%2Fss@mail.example",
        "smtp://us%40er:pass@mail.example:587",
    ] {
        assert!(new(good, from).is_ok(), "{good}");
        assert!(!format!("{:?}", new(good, from).unwrap()).contains("pa"), "{good}");
    }
    for wrong in [
        "",
        "mail.example:25",
        "http://mail.example",
        "smtp://",
        "smtp://user@mail.example",
        "smtp://:secret@mail.example",
        "smtp://user:secret@mail.example/path",
        "smtp://user:secret@mail.example?tls=none",
        "smtp://user:secret@mail.example:port",
    ] {
        let (variable, reason) = new(wrong, from).unwrap_err();
        assert!(variable == "SVC_SMTP_URL" && !reason.contains("secret"), "{wrong}: {reason}");
    }
    for wrong in ["", "noreply", "noreply@thesis.example\r\nBcc: a@example.com", "<>"] {
        assert_eq!(new("smtp://mail.example", wrong).unwrap_err().0, "SVC_MAIL_FROM", "{wrong:?}");
    }
    assert!(new("smtp://mail.example", "Theses <noreply@thesis.example>").is_ok());
    // No server answers there: queued mail waits, and no caller waits for it.
    let mail = Arc::new(Mail::new(new("smtp://127.0.0.1:1", from).unwrap()).unwrap());
    for _ in 0..2 * MAX_WAITING {
        mail.post(Letter::welcome("ann@example.com", LINK));
    }
    mail.close(Duration::from_millis(10)).await;
}
