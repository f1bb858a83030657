//! The console's cookies: their names and attributes, and how a request's are read.

use http::{HeaderMap, HeaderValue, header::COOKIE};

/// Maximum length of a token in bytes.
const MAX_TOKEN: usize = 256;
/// Lifetime of the device cookie: 90 days, as long as core keeps the token.
const DEVICE_SECONDS: u32 = 7_776_000;
/// Bytes of a cookie's value that every browser keeps.
const MAX_TEXT: usize = 3_800;

/// Names and attributes of the console's cookies. With https their names begin with `__Host-`: a browser then accepts
/// them only from this host and by https, so no other host of the domain can plant one. The prefix demands the path
/// `/`.
#[derive(Clone, Copy)]
pub(crate) struct Cookies {
    /// True if browsers send the cookies only by https.
    pub(super) is_secure: bool,
}

impl Cookies {
    pub(crate) const fn session(self) -> &'static str {
        if self.is_secure { "__Host-session" } else { "session" }
    }

    pub(super) const fn form(self) -> &'static str {
        if self.is_secure { "__Host-form" } else { "form" }
    }

    /// The header that sets a cookie until the browser closes; none if a cookie cannot carry the value.
    pub(crate) fn set(self, name: &str, value: &str) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}");
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// The cookie with the secret of the page after a form.
    pub(crate) const fn shown(self) -> &'static str {
        if self.is_secure { "__Host-shown" } else { "shown" }
    }

    /// The cookie with a form that could not be sent.
    pub(crate) const fn kept(self) -> &'static str {
        if self.is_secure { "__Host-kept" } else { "kept" }
    }

    /// The cookie with a refused form, until its page is shown.
    pub(crate) const fn refused(self) -> &'static str {
        if self.is_secure { "__Host-refused" } else { "refused" }
    }

    /// The cookie by which core recognizes a browser in which the user has signed in before.
    pub(crate) const fn device(self) -> &'static str {
        if self.is_secure { "__Host-device" } else { "device" }
    }

    /// The header that sets a cookie for a time; none if a cookie cannot carry the value.
    pub(crate) fn set_for(self, name: &str, value: &str, seconds: u32) -> Option<HeaderValue> {
        let until_closed = self.set(name, value).filter(|_| is_text(value))?;
        let text = format!("{}; Max-Age={seconds}", until_closed.to_str().ok()?);
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// The header that keeps the device's token beyond the session; none if a cookie cannot carry the token.
    pub(crate) fn set_device(self, token: &str) -> Option<HeaderValue> {
        self.set_for(self.device(), token, DEVICE_SECONDS)
    }

    /// The header that deletes a cookie.
    pub(crate) fn end(self, name: &str) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::try_from(text).expect("it is ASCII")
    }
}

/// The first acceptable value of a cookie. Other applications of the host may set cookies of the same name.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str, is_one: impl Fn(&str) -> bool) -> Option<&'a str> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let mut texts = pairs.filter_map(|pair| std::str::from_utf8(pair.trim_ascii()).ok()?.split_once('='));
    texts.find_map(|(key, value)| (key == name && is_one(value)).then_some(value))
}

/// True if a cookie's value can be a token.
pub(super) fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(is_letter)
}

/// True if a cookie's value can be an encoded text.
pub(super) fn is_text(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"%&=+*.-_~".contains(&byte);
    (1..=MAX_TEXT).contains(&text.len()) && text.bytes().all(is_letter)
}
