use proptest::prelude::*;

use super::*;
use crate::guard::judge_url;

/// Texts that are no absolute URI of RFC 3986, even if other programs take them.
const MALFORMED: &[(&str, Refusal)] = &[
    ("", Refusal::Scheme),
    ("   ", Refusal::Scheme),
    ("hooks.example.com", Refusal::Scheme),
    ("/hook", Refusal::Scheme),
    ("//hooks.example.com/", Refusal::Scheme),
    ("://hooks.example.com/", Refusal::Scheme),
    ("https:hooks.example.com/", Refusal::Scheme),
    ("https:/hooks.example.com/", Refusal::Scheme),
    ("https:\\\\hooks.example.com/", Refusal::Scheme),
    ("https:/\\hooks.example.com/", Refusal::Scheme),
    (" https://hooks.example.com/", Refusal::Scheme),
    ("\u{feff}https://hooks.example.com/", Refusal::Scheme),
    ("\thttps://hooks.example.com/", Refusal::Scheme),
    ("ht\ntps://hooks.example.com/", Refusal::Scheme),
    ("https ://hooks.example.com/", Refusal::Scheme),
    ("1https://hooks.example.com/", Refusal::Scheme),
    ("javascript:alert(1)//://", Refusal::Scheme),
    ("blob:https://hooks.example.com/1", Refusal::Scheme),
    ("file:///etc/passwd", Refusal::Scheme),
    ("unix:///run/docker.sock", Refusal::Scheme),
    ("ftp://hooks.example.com/a b", Refusal::Scheme),
    ("https://", Refusal::Hostname),
    ("HTTP:///", Refusal::Hostname),
    ("https:///hooks.example.com/", Refusal::Hostname),
    ("https:////hooks.example.com/", Refusal::Hostname),
    ("https://?hooks.example.com", Refusal::Hostname),
    ("https://#hooks.example.com", Refusal::Hostname),
    ("https://hooks.example.com/ ", Refusal::Hostname),
    ("https://hooks.example.com/\n", Refusal::Hostname),
    ("https://hooks.example.com/a b", Refusal::Hostname),
    ("https://hooks.example.com/a\tb", Refusal::Hostname),
    ("https://hooks.example.com/?a b", Refusal::Hostname),
    ("https://hooks.example.com/#a b", Refusal::Hostname),
    ("https://hooks .example.com/", Refusal::Hostname),
    ("https://ho\toks.exa\r\nmple.com/", Refusal::Hostname),
    ("https://hooks.example.com/\u{0}", Refusal::Hostname),
    ("https://hooks.example.com/\u{7f}", Refusal::Hostname),
    ("https://hooks.example.com/\u{85}", Refusal::Hostname),
    ("https://hooks.example.com/\u{a0}", Refusal::Hostname),
    ("https://hooks.example.com/\u{2028}", Refusal::Hostname),
    ("https://hooks.example.com\\a", Refusal::Hostname),
    ("https://hooks.example.com/a\\b", Refusal::Hostname),
    ("https://hooks.example.com/?a\\b", Refusal::Hostname),
    ("https://127.0.0.1\\@hooks.example.com/", Refusal::Hostname),
    ("https://b\u{fc}cher.example.com/", Refusal::Hostname),
    ("https://hooks\u{3002}example.com/", Refusal::Hostname),
    ("https://hooks.example.com/\u{fc}", Refusal::Hostname),
    ("https://hooks.example.com/?\u{1f680}", Refusal::Hostname),
    ("https://hooks.example.com/\"a\"", Refusal::Hostname),
    ("https://hooks.example.com/<a>", Refusal::Hostname),
    ("https://hooks.example.com/a^b", Refusal::Hostname),
    ("https://hooks.example.com/`a`", Refusal::Hostname),
    ("https://hooks.example.com/{id}", Refusal::Hostname),
    ("https://hooks.example.com/?a=b|c", Refusal::Hostname),
    ("https://hooks.example.com/[a]", Refusal::Hostname),
    ("https://hooks.example.com/?a[]=1", Refusal::Hostname),
    ("https://hooks.example.com/#a#b", Refusal::Hostname),
    ("https://hooks.example.com/%", Refusal::Hostname),
    ("https://hooks.example.com/%2", Refusal::Hostname),
    ("https://hooks.example.com/%zz", Refusal::Hostname),
    ("https://hooks.example.com/?%e2%8", Refusal::Hostname),
    ("https://hooks%2.example.com/", Refusal::Hostname),
    ("https://@hooks.example.com/", Refusal::Credentials),
    ("https://:@hooks.example.com/", Refusal::Credentials),
];

/// Absolute URIs, whatever else is wrong with them.
const WELL_FORMED: &[&str] = &[
    "https://hooks.example.com",
    "https://hooks.example.com?a",
    "https://hooks.example.com#a",
    "https://hooks.example.com:/",
    "https://hooks.example.com:8443/a/b;c=1,2/%7Eme/-._~!$&'()*+,;=:@?a=%20&b=/?:@#/?:@",
    "HTTPS://Hooks.EXAMPLE.com./x",
    "https://b%C3%BCcher.example.com/",
    "https://[2606:4700::1111]:8443/",
    "https://user:secret@hooks.example.com/",
    "http://0x7f.1/",
    "view-source+x.1://hooks.example.com/",
];

#[test]
fn a_url_is_judged_as_given() {
    for (url, refusal) in MALFORMED {
        assert_eq!(judge_form(url), Err(*refusal), "{url:?}");
    }
    for url in WELL_FORMED {
        assert_eq!(judge_form(url), Ok(()), "{url:?}");
    }
}

proptest! {
    /// A character passes or fails wherever it stands in a path, and none beyond ASCII passes.
    #[test]
    fn a_path_takes_what_rfc_3986_lists(character: char) {
        let plain = character.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?#".contains(character);
        for url in [format!("https://a.example.com/{character}"), format!("https://a.example.com/x{character}y")] {
            prop_assert_eq!(judge_form(&url).is_ok(), plain, "{}", url);
        }
    }

    #[test]
    fn whatever_is_allowed_stays_well_formed_when_it_is_normalised(path in "[ -~]{0,20}") {
        let url = format!("https://hooks.example.com/{path}");
        if judge_form(&url).is_ok() {
            let target = judge_url(&url, true, &[]).unwrap();
            prop_assert_eq!(judge_form(target.url.as_str()), Ok(()), "{}", url);
        }
    }

    #[test]
    fn never_panics(url in ".{0,60}|https?://[\\PC]{0,40}") {
        let _ = judge_form(&url);
    }
}
