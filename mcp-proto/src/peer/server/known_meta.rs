//! The `_meta` of earlier requests: the last one of a connection, or recent ones of a server's clients. The next request
//! most likely has the same, except for its progress token, and then needs no parsing.

use alloc::sync::Arc;
#[cfg(all(feature = "std", feature = "http"))]
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::Range;

use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};
use crate::rpc::{ErrorObject, Id, Raw, Text, code};
use crate::schema::meta;

use super::sender::SenderInfo;

/// A `_meta` that was parsed and checked.
#[derive(Debug)]
pub(crate) struct KnownMeta {
    /// Its text without the value of its progress token.
    text: Text,
    /// Where that value lay in the text.
    token_at: Option<usize>,
    /// The length of the values of the protocol's keys, without the progress token.
    pub(super) bytes: usize,
    /// The sender that it names; `None` if it has no key of the protocol but a progress token.
    pub(super) sender: Option<Arc<SenderInfo>>,
}

/// Where the parameters of a request have their `_meta`.
pub(super) enum FoundMeta<'a> {
    /// It is the known one, with this progress token.
    Known {
        progress_token: Option<Id>,
        token_bytes: usize,
    },
    /// It is another one.
    Other(&'a str),
    Absent,
}

impl KnownMeta {
    /// The maximum length in bytes of a stored text.
    const MAX_BYTES: usize = 1024;

    /// Stores a valid `_meta`, unless it is too long.
    pub(super) fn new(text: &str, bytes: usize, sender: Option<Arc<SenderInfo>>) -> Option<Self> {
        if text.len() > Self::MAX_BYTES {
            return None;
        }
        let (token_at, rest) = match token_range(text).ok()? {
            Some(token) => (Some(token.start), text.get(token.end..)?),
            None => (None, ""),
        };
        let head = text.get(..token_at.unwrap_or(text.len()))?;
        let text = Text::from([head, rest].concat());
        Some(Self { text, token_at, bytes, sender })
    }

    /// The whole `_meta`, in memory that all requests with the same one share; `None` if it has a progress token.
    #[cfg(all(feature = "std", feature = "http"))]
    pub(crate) fn shared(&self) -> Option<Raw> {
        self.token_at.is_none().then(|| Raw::from_scan(self.text.clone()))
    }

    /// The progress token of `text` and its length, if `text` is this `_meta`.
    fn match_whole(&self, text: &str) -> Option<Option<(Id, usize)>> {
        let (bytes, token) = self.match_start(text)?;
        (bytes == text.len()).then_some(token)
    }

    /// The length of the `_meta` at the beginning of `text`, if it is this one.
    pub(crate) fn length_in(&self, text: &str) -> Option<usize> {
        self.match_start(text).map(|(length, _)| length)
    }

    /// The length and the progress token of the `_meta` at the beginning of `text`, if it is this one. Only the value
    /// of the progress token may differ, so it is as valid as the known one.
    fn match_start(&self, text: &str) -> Option<(usize, Option<(Id, usize)>)> {
        let known = &*self.text;
        let Some(token_at) = self.token_at else {
            return text.starts_with(known).then_some((known.len(), None));
        };
        let (head, tail) = known.split_at_checked(token_at)?;
        let rest = text.strip_prefix(head)?;
        let (token, bytes) = leading_token(rest)?;
        let length = known.len().saturating_add(bytes);
        rest.get(bytes..)?.starts_with(tail).then_some((length, Some((token, bytes))))
    }
}

/// The `_meta` of recent requests of a server's clients, with the senders that they name. Requests with the same one share
/// the decoded sender.
///
/// It has 16 entries at most, each with two texts of 1 KiB at most and the sender decoded from them. A new entry replaces
/// the least recently used one.
#[cfg(all(feature = "std", feature = "http"))]
#[derive(Debug, Default)]
pub(crate) struct MetaCache {
    /// The most recently used first.
    entries: Vec<Arc<KnownMeta>>,
}

#[cfg(all(feature = "std", feature = "http"))]
impl MetaCache {
    const MAX_ENTRIES: usize = 16;

    /// The entry with the same text, or else the most recently used one, whose sender may be the same.
    pub(crate) fn find(&mut self, meta: &Raw) -> Option<Arc<KnownMeta>> {
        let matches = |known: &Arc<KnownMeta>| known.match_whole(meta.as_str()).is_some();
        // A single one is returned in either case.
        if self.entries.len() > 1
            && let Some(place) = self.entries.iter().position(matches)
            && let Some(used) = self.entries.get_mut(..=place)
        {
            used.rotate_right(1);
        }
        self.last_used()
    }

    /// The most recently used entry.
    pub(crate) fn last_used(&self) -> Option<Arc<KnownMeta>> {
        self.entries.first().cloned()
    }

    /// Adds an entry, in place of one of the same sender: a `_meta` that differs in each request, for example by its
    /// trace context, does not displace those of other clients.
    pub(crate) fn insert(&mut self, known: Arc<KnownMeta>) {
        let Some(sender) = &known.sender else { return };
        let is_other = |entry: &Arc<KnownMeta>| {
            let is_same = entry.sender.as_ref().is_some_and(|other| other.is_same_as(sender));
            !is_same || entry.token_at.is_some() != known.token_at.is_some()
        };
        self.entries.retain(is_other);
        self.entries.truncate(Self::MAX_ENTRIES.saturating_sub(1));
        self.entries.insert(0, known);
    }
}

/// Where the progress token lies in a `_meta`.
fn token_range(meta: &str) -> Result<Option<Range<usize>>, NotJson> {
    let mut reader = Reader::new(meta);
    let mut is_first = true;
    reader.enter(b'{')?;
    while let Some(name) = reader.name(&mut is_first)? {
        let start = reader.at();
        reader.skip()?;
        if name == meta::PROGRESS_TOKEN {
            return Ok(Some(start..reader.at()));
        }
    }
    Ok(None)
}

/// Checks that the parameters of a request are an object of valid JSON, and finds their `_meta`.
///
/// # Errors
/// The error to answer with.
pub(super) fn find_meta<'a>(
    known: Option<&KnownMeta>,
    params: Option<&'a Raw>,
) -> Result<FoundMeta<'a>, ErrorObject> {
    let Some(params) = params else { return Ok(FoundMeta::Absent) };
    let found_known = |token: Option<(Id, usize)>| {
        let (progress_token, token_bytes) = token.map_or((None, 0), |(id, bytes)| (Some(id), bytes));
        FoundMeta::Known { progress_token, token_bytes }
    };
    if let Some(meta) = params.known_meta() {
        let Some(meta) = meta else { return Ok(FoundMeta::Absent) };
        return Ok(match known.and_then(|known| known.match_whole(meta)) {
            Some(token) => found_known(token),
            None => FoundMeta::Other(meta),
        });
    }
    let unreadable =
        |code, what: &dyn Display| ErrorObject::new(code, format!("the parameters cannot be read: {what}"));
    let mut reader = Reader::new(params.as_str());
    let mut is_first = true;
    let mut found = None;
    let mut find = || {
        if reader.enter(b'{').is_err() {
            return Ok(Err(ErrorObject::new(code::INVALID_PARAMS, "the parameters are not an object")));
        }
        while let Some(name) = reader.name(&mut is_first)? {
            if name != "_meta" {
                reader.skip()?;
                continue;
            }
            let meta = match known.and_then(|known| known.match_start(reader.rest())) {
                Some((bytes, token)) => {
                    reader.skip_known(bytes);
                    found_known(token)
                }
                None => FoundMeta::Other(reader.skip()?),
            };
            if found.replace(meta).is_some() {
                return Ok(Err(unreadable(code::INVALID_PARAMS, &"duplicate field `_meta`")));
            }
        }
        reader.end().map(Ok)
    };
    match find() {
        Ok(checked) => checked.map(|()| found.unwrap_or(FoundMeta::Absent)),
        Err(NotJson) => Err(unreadable(code::PARSE_ERROR, &Reader::error(params.as_str()))),
    }
}

/// The integer or the string without escapes at the beginning of `text`, and its length.
fn leading_token(text: &str) -> Option<(Id, usize)> {
    if let Some(inside) = text.strip_prefix('"') {
        let bytes = inside.bytes().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        let (token, rest) = inside.split_at_checked(bytes)?;
        return rest.starts_with('"').then(|| (Id::from(token), bytes.saturating_add(2)));
    }
    let bytes = text.bytes().take_while(u8::is_ascii_digit).count();
    let digits = text.get(..bytes).filter(|digits| !digits.starts_with('0'))?;
    Some((Id::Number(digits.parse().ok()?), bytes))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use bytes::Bytes;

    use super::*;
    use crate::rpc::{self, Frame, Malformed, Message};

    fn token_of(known: &str, text: &str) -> Option<Option<Id>> {
        let known = KnownMeta::new(known, 0, None).unwrap();
        let (bytes, token) = known.match_start(text)?;
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

    #[test]
    fn message_with_the_known_meta_is_read_as_any_other() {
        let meta = r#"{"a":{"b":[]},"progressToken":7,"c":1}"#;
        let known = KnownMeta::new(meta, 0, None).unwrap();
        for params in [
            r#"{"_meta":META}"#,
            r#"{"name":"a","_meta": META ,"arguments":{}}"#,
            r#"{"_meta":META,"_meta":META}"#,
            r#"{"_meta":META,"_meta":null}"#,
            r#"{"_meta":META,"name":1,"name":2}"#,
            r#"{"\u005fmeta":META}"#,
            r#"{"arguments":{"_meta":META}}"#,
            r#"{"_meta":METAMETA}"#,
            r#"{"_meta":META"#,
            r#"{"_meta":META,}"#,
            r#"{"_meta":[META]}"#,
        ] {
            for meta in
                [meta, &meta.replace('7', "\"x\""), &meta.replace('7', "07"), &meta.replace("{\"b", "\"b")]
            {
                let params = params.replace("META", meta);
                let frame =
                    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{params}}}"#));
                let noted = |read: Result<Frame, Malformed>| match read {
                    Ok(Frame::Single(Message::Request(request))) => Ok(request
                        .params
                        .map(|params| (params.known_meta().map(|meta| meta.map(String::from)), params))),
                    other => Err(format!("{other:?}")),
                };
                let knowing = rpc::read_knowing(&frame, 5, &|text| known.length_in(text));
                assert_eq!(noted(knowing), noted(rpc::read(&frame, 5)), "{params}");
            }
        }
    }

    #[cfg(all(feature = "std", feature = "http"))]
    #[test]
    fn cache_keeps_the_metas_that_were_used_last() {
        let meta = |client: usize| Raw::new(alloc::format!(r#"{{"client":{client}}}"#)).unwrap();
        let has = |cache: &MetaCache, client: usize| {
            let text = meta(client);
            cache.entries.iter().any(|known| known.match_whole(text.as_str()).is_some())
        };
        let mut cache = MetaCache::default();
        assert!(cache.find(&meta(0)).is_none());
        for client in 0..MetaCache::MAX_ENTRIES {
            let sender = SenderInfo::of_text(&alloc::format!("{client}"));
            let known = KnownMeta::new(meta(client).as_str(), 0, Some(Arc::new(sender))).unwrap();
            cache.insert(Arc::new(known));
        }
        assert!(cache.find(&meta(0)).unwrap().match_whole(meta(0).as_str()).is_some());
        let known = KnownMeta::new(meta(99).as_str(), 0, Some(Arc::new(SenderInfo::of_text("99")))).unwrap();
        cache.insert(Arc::new(known));
        assert!(has(&cache, 0) && !has(&cache, 1) && has(&cache, 2) && has(&cache, 99));
        // Another text of the same sender takes the place of the first.
        let known = KnownMeta::new(meta(100).as_str(), 0, Some(Arc::new(SenderInfo::of_text("99")))).unwrap();
        cache.insert(Arc::new(known));
        assert!(has(&cache, 0) && !has(&cache, 99) && has(&cache, 100));
        assert_eq!(cache.entries.len(), MetaCache::MAX_ENTRIES);
    }
}
