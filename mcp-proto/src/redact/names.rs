//! Names of secrets, and URLs without theirs.

use alloc::borrow::Cow;

use crate::prelude::*;

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
    ends_with_any(last_words(name), &FORM_SECRETS)
}

/// Returns whether a member of an object, or a value in a text, of this name is a secret.
pub(super) fn is_secret_member(name: &str) -> bool {
    let [before, last] = last_words(name);
    let is = |word: &str, other: &str| word.eq_ignore_ascii_case(other);
    if is(last, "token") && PUBLIC_TOKENS.iter().any(|public| is(before, public)) {
        return false;
    }
    ends_with_any([before, last], &FORM_SECRETS) || ends_with_any([before, last], &MEMBER_SECRETS)
}

fn ends_with_any([before, last]: [&str; 2], endings: &[[&str; 2]]) -> bool {
    endings.iter().any(|[first, second]| {
        last.eq_ignore_ascii_case(second) && (first.is_empty() || before.eq_ignore_ascii_case(first))
    })
}

/// The last two words of a name in `snake_case`, `camelCase` or plain text, without digits.
fn last_words(name: &str) -> [&str; 2] {
    let (rest, last) = split_last_word(name);
    [split_last_word(rest).1, last]
}

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
