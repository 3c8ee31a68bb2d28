//! Names of secrets, and URLs without theirs.

use alloc::borrow::Cow;
use core::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use memchr::memmem::Finder;

use crate::prelude::*;

use super::shapes::{scheme_length, token_around};

/// Parts of the names of headers and query parameters with secret values: `x-api-key`, `set-cookie`,
/// `proxy-authorization`, `mcp-session-id`.
const HEADER_WORDS: [&str; 9] =
    ["auth", "cookie", "credential", "key", "passw", "secret", "session", "signature", "token"];

/// Whole names of headers and query parameters with secret values.
const HEADER_NAMES: [&str; 6] = ["code", "dpop", "pwd", "sid", "sig", "state"];

/// The last words of names for which no form should ask, after another word if it is not empty.
const FORM_SECRETS: [[&str; 2]; 17] = [
    ["", "password"],
    ["", "passwd"],
    ["", "passphrase"],
    ["", "passcode"],
    ["", "secret"],
    ["", "apikey"],
    ["api", "key"],
    ["secret", "key"],
    ["private", "key"],
    ["api", "token"],
    ["auth", "token"],
    ["access", "token"],
    ["bearer", "token"],
    ["refresh", "token"],
    ["card", "number"],
    ["", "cvv"],
    ["", "cvc"],
];

/// The same of further secrets, in JSON and in texts.
const MEMBER_SECRETS: [[&str; 2]; 16] = [
    ["access", "key"],
    ["", "authorization"],
    ["client", "assertion"],
    ["code", "verifier"],
    ["", "cookie"],
    ["", "cookies"],
    ["", "credential"],
    ["", "credentials"],
    ["encryption", "key"],
    ["", "otp"],
    ["", "pass"],
    ["", "passwords"],
    ["", "pwd"],
    ["", "secrets"],
    ["signing", "key"],
    ["", "token"],
];

/// The words before `token` in names of values that are no secrets.
const PUBLIC_TOKENS: [&str; 13] = [
    "bos",
    "continuation",
    "end",
    "eos",
    "max",
    "next",
    "pad",
    "page",
    "progress",
    "start",
    "stop",
    "sync",
    "unk",
];

/// Returns whether a header, or a parameter of a query, of this name has a secret value. It is a guess by words in the
/// name, which errs on the side of caution: `authorization`, `set-cookie`, `mcp-session-id`, `x-api-key`.
///
/// ```
/// use mcp_proto::redact::is_secret_header;
///
/// assert!(is_secret_header("Mcp-Session-Id") && is_secret_header("X-Api-Key"));
/// assert!(!is_secret_header("Mcp-Method"));
/// ```
pub fn is_secret_header(name: &str) -> bool {
    // HTTP libraries have names in lower case already.
    let name = match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    };
    if name.ends_with("-authenticate") {
        // A challenge of the server, which has no secret.
        return false;
    }
    HEADER_NAMES.contains(&&*name)
        || HEADER_WORDS.iter().any(|word| name.contains(word))
        || is_secret_member(&name)
}

/// Returns whether a form should not ask for a value of this name: a password, an API key, a card number.
pub(crate) fn is_form_secret(name: &str) -> bool {
    ends_with_any(split_last_word(name), &FORM_SECRETS)
}

/// Returns whether a member of an object, or a value in a text, of this name is a secret.
pub(super) fn is_secret_member(name: &str) -> bool {
    if is_common_member(name) {
        return false;
    }
    let (rest, last) = split_last_word(name);
    let is_public = |public: &&str| split_last_word(rest).1.eq_ignore_ascii_case(public);
    if last.eq_ignore_ascii_case("token") && PUBLIC_TOKENS.iter().any(is_public) {
        return false;
    }
    ends_with_any((rest, last), &FORM_SECRETS) || ends_with_any((rest, last), &MEMBER_SECRETS)
}

/// Whether a member of this name is in most messages. It is no secret by its name.
pub(super) fn is_common_member(name: &str) -> bool {
    let name = name.strip_prefix("io.modelcontextprotocol/").unwrap_or(name);
    matches!(
        name,
        "_meta"
            | "arguments"
            | "clientCapabilities"
            | "clientInfo"
            | "content"
            | "error"
            | "id"
            | "isError"
            | "jsonrpc"
            | "message"
            | "method"
            | "name"
            | "params"
            | "progressToken"
            | "protocolVersion"
            | "result"
            | "resultType"
            | "serverInfo"
            | "structuredContent"
            | "text"
            | "type"
            | "version"
    )
}

/// Whether a name, whose last word is split off, ends with any of these words.
fn ends_with_any((rest, last): (&str, &str), endings: &[[&str; 2]]) -> bool {
    endings.iter().any(|[first, second]| {
        last.eq_ignore_ascii_case(second)
            && (first.is_empty() || split_last_word(rest).1.eq_ignore_ascii_case(first))
    })
}

/// Splits the last word off a name in `snake_case`, `camelCase` or plain text, without digits.
fn split_last_word(name: &str) -> (&str, &str) {
    let name = name.trim_end_matches(|letter: char| !letter.is_alphabetic());
    let mut follows_upper = false;
    for (at, letter) in name.char_indices().rev() {
        if !letter.is_alphabetic() || (letter.is_lowercase() && follows_upper) {
            return name.split_at(at.saturating_add(letter.len_utf8()));
        }
        follows_upper = letter.is_uppercase();
    }
    ("", name)
}

/// Returns a name without case and separators: `API_KEY`, `api-key` and `apiKey` are one.
pub(super) fn normal_name(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns a URL without user, password, query and fragment, which may be secret.
///
/// ```
/// use mcp_proto::redact::url_without_secrets;
///
/// assert_eq!(url_without_secrets("https://me:pw@example.com/mcp?key=1#x"), "https://example.com/mcp");
/// ```
pub fn url_without_secrets(url: &str) -> Cow<'_, str> {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return Cow::Borrowed(url.rsplit('@').next().unwrap_or_default());
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => Cow::Owned(format!("{scheme}://{host}{path}")),
        None => Cow::Borrowed(url),
    }
}

// Values that are known to be secret, in each of their spellings.

/// The shortest value that is searched for, in bytes: a shorter one would be found everywhere.
const SHORTEST: usize = 4;

/// The values that are searched for.
#[derive(Clone, Default)]
pub(super) struct KnownSecrets {
    /// As they are, and with `+` for each space, as forms have them.
    plain: Vec<Finder<'static>>,
    /// What Base64 makes of them, at each of the three places that a byte can have in a group.
    base64: Vec<Finder<'static>>,
}

impl KnownSecrets {
    /// Adds a value, and the credentials in it if it begins with their scheme. Short ones are left out.
    pub(super) fn insert(&mut self, value: &[u8]) {
        for value in [value, value.get(scheme_length(value)..).unwrap_or_default()] {
            if value.len() < SHORTEST || self.plain.iter().any(|known| known.needle() == value) {
                continue;
            }
            let in_form: Vec<u8> =
                value.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect();
            if in_form != value {
                self.plain.push(Finder::new(&in_form).into_owned());
            }
            self.plain.push(Finder::new(value).into_owned());
            for before in 0..3 {
                self.insert_base64(value, before);
            }
        }
    }

    /// Adds the characters of Base64 that depend on the value alone if `before` bytes precede it in its group.
    fn insert_base64(&mut self, value: &[u8], before: usize) {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        // The first and the last character may have bits of other bytes.
        let first = before.saturating_add(usize::from(before > 0));
        let end = bytes.len().saturating_mul(8) / 6;
        let text = BASE64_STANDARD.encode(bytes);
        let own = text.get(first..end).unwrap_or_default();
        if own.len() < SHORTEST {
            return;
        }
        let url_safe = own.replace('+', "-").replace('/', "_");
        if url_safe != own {
            self.base64.push(Finder::new(&url_safe).into_owned());
        }
        self.base64.push(Finder::new(own).into_owned());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// Whether a text has any of the values.
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        self.plain.iter().chain(&self.base64).any(|value| value.find(text).is_some())
    }

    /// Finds the values in a text: the time is that of a search for each.
    pub(super) fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        found.extend(self.find_plain(text));
        for value in &self.base64 {
            let mut end = 0;
            for at in value.find_iter(text) {
                if at >= end {
                    let token = token_around(text, at..at.saturating_add(value.needle().len()));
                    end = token.end;
                    found.push(token);
                }
            }
        }
    }

    fn find_plain(&self, text: &[u8]) -> impl Iterator<Item = Range<usize>> {
        self.plain.iter().flat_map(move |value| {
            value.find_iter(text).map(move |at| at..at.saturating_add(value.needle().len()))
        })
    }

    /// Finds the values in a text, as they are, that no part in `found` covers: in order, joined where they overlap.
    pub(super) fn find_uncovered(
        &self,
        text: &[u8],
        found: impl Iterator<Item = Range<usize>>,
    ) -> Vec<Range<usize>> {
        let mut values: Vec<_> = self.find_plain(text).collect();
        if !values.is_empty() {
            let found = joined(found.collect());
            values.retain(|value| {
                let part = found.get(found.partition_point(|part| part.end < value.end));
                part.is_none_or(|part| part.start > value.start)
            });
        }
        joined(values)
    }

    /// Finds the beginning of a value at the end of a text that was cut off.
    pub(super) fn find_at_cut(&self, text: &[u8]) -> Option<Range<usize>> {
        let whole = without_cut_escape(text);
        let longest = self.plain.iter().chain(&self.base64).map(Finder::needle).filter_map(|value| {
            let most = value.len().min(whole.len());
            (SHORTEST..=most).rev().find(|length| whole.ends_with(value.get(..*length).unwrap_or(value)))
        });
        Some(whole.len().saturating_sub(longest.max()?)..text.len())
    }
}

/// The ranges in order, as one where they overlap or touch.
pub(super) fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let is_one = next.start <= range.end;
        if is_one {
            range.end = range.end.max(next.end);
        }
        is_one
    });
    ranges
}

/// A text without the beginning of an escape at its end: `\`, `\u00`, `%2`.
fn without_cut_escape(text: &[u8]) -> &[u8] {
    let digits = text.iter().rev().take(3).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (before, digits) = text.split_at(text.len().saturating_sub(digits));
    match before {
        [before @ .., b'\\', b'u'] | [before @ .., b'\\'] => before,
        [before @ .., b'%'] if digits.len() < 2 => before,
        _ => text,
    }
}

#[cfg(test)]
mod known_tests {
    use super::*;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    #[test]
    fn value_is_found_in_base64_behind_any_number_of_bytes() {
        for value in ["hunter2", "ab?>", "ü~~?>>", "correct horse battery"] {
            let mut known = KnownSecrets::default();
            known.insert(value.as_bytes());
            for before in 0..7 {
                let whole = format!("{}{value}{}", "u".repeat(before), "v".repeat(before));
                for encoded in [BASE64_STANDARD.encode(&whole), BASE64_URL_SAFE_NO_PAD.encode(&whole)] {
                    let mut found = Vec::new();
                    known.find(format!("x {encoded}\n").as_bytes(), &mut found);
                    assert!(found.contains(&(2..2 + encoded.len())), "{value} {before} {encoded}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognised_in_every_spelling() {
        for secret in [
            "password",
            "dbPassword",
            "API_KEY",
            "apiKey",
            "GITHUB_TOKEN",
            "token",
            "client_secret",
            "Authorization",
            "set-cookie",
            "credentials",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert!(is_secret_member(secret), "{secret}");
        }
        for public in [
            "progressToken",
            "nextPageToken",
            "maxTokens",
            "password_hint",
            "key",
            "name",
            "tokenType",
            "cursor",
        ] {
            assert!(!is_secret_member(public), "{public}");
        }
    }

    #[test]
    fn headers_and_variables_with_the_names_of_secret_members_are_secret() {
        for secret in ["MYSQL_PWD", "DB_PASS", "GPG_PASSPHRASE", "x-otp", "Authorization"] {
            assert!(is_secret_header(secret), "{secret}");
        }
        for public in ["HOME", "mcp-method", "WWW-Authenticate", "content-type"] {
            assert!(!is_secret_header(public), "{public}");
        }
    }

    #[test]
    fn url_keeps_what_leads_to_the_server() {
        for (url, shown) in [
            ("https://me:marker@example.com/mcp?key=marker", "https://example.com/mcp"),
            ("http://[::1]:8080/mcp", "http://[::1]:8080/mcp"),
            ("https://example.com/@scope/name#marker", "https://example.com/@scope/name"),
            ("me:marker@example.com", "example.com"),
            ("https://a:marker@b@example.com", "https://example.com"),
        ] {
            assert_eq!(url_without_secrets(url), shown);
        }
    }
}
