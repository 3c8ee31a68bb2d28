//! The `_meta` of the last request of a connection. The next request most likely has the same, except for its progress
//! token, and then needs no parsing.

use alloc::string::String;

use crate::rpc::{Id, Raw, check_object, find_members};
use crate::schema::meta;

use super::admit::SenderInfo;

/// A `_meta` that was parsed and checked.
#[derive(Debug)]
pub(super) struct KnownMeta {
    /// Its text without the value of its progress token.
    text: String,
    /// Where that value lay in the text.
    token_at: Option<usize>,
    /// The length of the values of the protocol's keys, without the progress token.
    pub(super) bytes: usize,
    /// The sender that it names; `None` if it has no key of the protocol but a progress token.
    pub(super) sender: Option<SenderInfo>,
}

/// Where the parameters of a request have their `_meta`.
pub(super) enum FoundMeta<'a> {
    /// It is the known one, with this progress token.
    Known { progress_token: Option<Id>, token_bytes: usize },
    /// It is another one. The parameters are valid JSON.
    Other(&'a str),
    /// The parameters are valid JSON without `_meta`.
    Absent,
    /// The parameters must be decoded to tell.
    Unclear,
}

impl KnownMeta {
    /// The maximum length in bytes of a stored text.
    const MAX_BYTES: usize = 1024;

    /// Stores a valid `_meta` without escapes in its names, unless it is too long.
    pub(super) fn new(text: &str, bytes: usize, sender: Option<SenderInfo>) -> Option<Self> {
        if text.len() > Self::MAX_BYTES {
            return None;
        }
        let [token] = find_members(text.as_bytes(), [meta::PROGRESS_TOKEN]);
        let (head, tail) = match &token {
            Some(token) => (text.get(..token.start)?, text.get(token.end..)?),
            None => (text, ""),
        };
        Some(Self { text: [head, tail].concat(), token_at: token.map(|token| token.start), bytes, sender })
    }

    /// The length and the progress token of the `_meta` at the beginning of `text`, if it is this one. Only the value
    /// of the progress token may differ, so it is as valid as the known one.
    fn match_start(&self, text: &[u8]) -> Option<(usize, Option<(Id, usize)>)> {
        let known = self.text.as_bytes();
        let (head, tail) = known.split_at_checked(self.token_at.unwrap_or(known.len()))?;
        let rest = text.strip_prefix(head)?;
        let token = match self.token_at {
            Some(_) => Some(leading_token(rest)?),
            None => None,
        };
        let token_bytes = token.as_ref().map_or(0, |(_, bytes)| *bytes);
        rest.get(token_bytes..)?.starts_with(tail).then(|| (known.len().saturating_add(token_bytes), token))
    }
}

/// Finds `_meta` in the parameters of a request. `given` is their `_meta` if the transport has found it already; they
/// are valid JSON then.
pub(super) fn find_meta<'a>(
    known: Option<&KnownMeta>,
    params: Option<&'a Raw>,
    given: Option<&'a Raw>,
) -> FoundMeta<'a> {
    let Some(params) = params else { return FoundMeta::Absent };
    if let Some(given) = given {
        return FoundMeta::Other(given.as_str());
    }
    let mut token = None;
    let skip_known = |text: &[u8]| {
        let (bytes, found) = known?.match_start(text)?;
        token = Some(found);
        Some(bytes)
    };
    let found = check_object(params.as_bytes(), "_meta", skip_known);
    match (found, token) {
        (None, _) => FoundMeta::Unclear,
        (Some(None), _) => FoundMeta::Absent,
        (Some(Some(_)), Some(token)) => {
            let (progress_token, token_bytes) = token.map_or((None, 0), |(id, bytes)| (Some(id), bytes));
            FoundMeta::Known { progress_token, token_bytes }
        }
        (Some(Some(meta)), None) => core::str::from_utf8(meta).map_or(FoundMeta::Unclear, FoundMeta::Other),
    }
}

/// The integer or the string without escapes at the beginning of `text`, and its length.
fn leading_token(text: &[u8]) -> Option<(Id, usize)> {
    match text.first()? {
        b'"' => {
            let inside = text.get(1..)?;
            let bytes = inside.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
            let token = core::str::from_utf8(inside.get(..bytes)?).ok()?;
            (inside.get(bytes) == Some(&b'"')).then(|| (Id::from(token), bytes.saturating_add(2)))
        }
        b'1'..=b'9' => {
            let bytes = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number: i64 = core::str::from_utf8(text.get(..bytes)?).ok()?.parse().ok()?;
            Some((Id::Number(number), bytes))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_of(known: &str, text: &str) -> Option<Option<Id>> {
        let known = KnownMeta::new(known, 0, None).unwrap();
        let (bytes, token) = known.match_start(text.as_bytes())?;
        assert_eq!(bytes, text.trim_end_matches('!').len());
        Some(token.map(|(id, _)| id))
    }

    #[test]
    fn known_meta_matches_with_any_plain_progress_token() {
        let known = r#"{"a":{"b":[]},"progressToken":7,"c":1}"#;
        let with = |token: &str| token_of(known, &known.replace('7', token));
        assert_eq!(with("8"), Some(Some(Id::Number(8))));
        assert_eq!(with("\"é\""), Some(Some(Id::from("é"))));
        for other in
            ["01", "-1", "1.0", "1e3", "null", "\"\\n\"", "\"\n\"", "\"", "", "[1]", "99999999999999999999"]
        {
            assert_eq!(with(other), None, "{other}");
        }
    }

    #[test]
    fn known_meta_matches_nothing_else() {
        assert_eq!(token_of(r#"{"a":1}"#, r#"{"a":1}!!"#), Some(None));
        assert_eq!(token_of(r#"{"a":1}"#, r#"{"a":1,"progressToken":1}"#), None);
        assert_eq!(token_of(r#"{"progressToken":1}"#, r#"{"progressToken":2}!"#), Some(Some(Id::Number(2))));
        assert_eq!(token_of(r#"{"progressToken":1}"#, r#"{"progressToken":2,"a":1}"#), None);
        assert_eq!(token_of(r#"{"progressToken":1}"#, "{}"), None);
    }
}
