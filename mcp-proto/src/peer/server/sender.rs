//! The sender of a modern request: the client, as the protocol's keys in `_meta` describe it.

use alloc::sync::Arc;

use super::ServerConfig;
use super::answer::{invalid_params, unsupported_version};
use super::event::RequestContext;
use crate::prelude::*;
use crate::rpc::{ErrorObject, JsonStr, decode_member, read_members};
use crate::schema::{ClientCapabilities, Era, LoggingLevel, Revision, meta};

/// The values of the protocol's keys in a `_meta`.
#[derive(Default)]
pub(super) struct MetaKeys<'a> {
    pub(super) version: Option<&'a str>,
    pub(super) capabilities: Option<&'a str>,
    info: Option<&'a str>,
    level: Option<&'a str>,
    pub(super) progress: Option<&'a str>,
}

impl<'a> MetaKeys<'a> {
    const NAMES: [&'static str; 5] = [
        meta::PROTOCOL_VERSION,
        meta::CLIENT_CAPABILITIES,
        meta::CLIENT_INFO,
        meta::LOG_LEVEL,
        meta::PROGRESS_TOKEN,
    ];

    /// Reads them from an object, or none from `null`.
    pub(super) fn read(meta: &'a str) -> Result<Self, ErrorObject> {
        if meta == "null" {
            return Ok(Self::default());
        }
        let [version, capabilities, info, level, progress] = read_members(meta, Self::NAMES)
            .map_err(|error| invalid_params(format!("the parameters cannot be read: {error} in _meta")))?;
        Ok(Self { version, capabilities, info, level, progress })
    }

    /// The length of all values in bytes.
    pub(super) fn bytes(&self) -> usize {
        let values = [self.version, self.capabilities, self.info, self.level, self.progress];
        values.into_iter().flatten().fold(0, |sum, value| sum.saturating_add(value.len()))
    }

    /// The length of the progress token.
    pub(super) fn progress_bytes(&self) -> usize {
        self.progress.map_or(0, str::len)
    }

    /// Whether there is no key but the progress token's.
    pub(super) fn names_no_sender(&self) -> bool {
        [self.version, self.capabilities, self.info, self.level].iter().all(Option::is_none)
    }
}

//= S1.4 "Missing required `_meta` field → -32602"
/// The error for a `_meta` that lacks a key that each modern request must have.
pub(super) fn missing_key_error(keys: &MetaKeys<'_>) -> ErrorObject {
    let version = (meta::PROTOCOL_VERSION, decode_member::<String>(keys.version).is_some());
    let capabilities =
        (meta::CLIENT_CAPABILITIES, decode_member::<ClientCapabilities>(keys.capabilities).is_some());
    let mut text = String::from("missing or invalid in _meta:");
    for (name, _) in [version, capabilities].into_iter().filter(|(_, present)| !present) {
        text.push(' ');
        text.push_str(name);
    }
    invalid_params(text)
}

/// The decoded sender of the last modern request of a connection: the next one most likely has the same, which then
/// need not be decoded again.
#[derive(Debug)]
pub(super) struct SenderInfo {
    /// The raw values of the keys, each followed by a line break; empty if the sender is not cached.
    text: String,
    /// The context of its requests, without their principal and progress token.
    pub(super) context: RequestContext,
}

impl SenderInfo {
    /// The maximum length in bytes of a cached text.
    const MAX_TEXT_BYTES: usize = 1024;

    /// A sender with this text, and nothing else.
    #[cfg(all(test, feature = "std", feature = "http"))]
    pub(super) fn of_text(text: &str) -> Self {
        Self {
            text: text.into(),
            context: RequestContext {
                era: Era::Modern,
                revision: Revision::LATEST,
                client_info: None,
                client_capabilities: Arc::default(),
                principal: None,
                progress_token: None,
                log_level: None,
            },
        }
    }

    /// Whether both were decoded from the same text.
    #[cfg(all(feature = "std", feature = "http"))]
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        !self.text.is_empty() && self.text == other.text
    }

    fn texts<'a>(keys: &MetaKeys<'a>) -> [&'a str; 4] {
        [keys.version, keys.capabilities, keys.info, keys.level].map(Option::unwrap_or_default)
    }

    /// Whether the keys have the text that it was decoded from.
    pub(super) fn matches_keys(&self, keys: &MetaKeys<'_>) -> bool {
        let mut rest = Some(self.text.as_str());
        for text in Self::texts(keys) {
            rest = rest.and_then(|rest| rest.strip_prefix(text)?.strip_prefix('\n'));
        }
        rest == Some("")
    }

    pub(super) fn decode(config: &ServerConfig, keys: &MetaKeys<'_>) -> Result<Self, ErrorObject> {
        let Some(JsonStr(requested)) = decode_member(keys.version) else {
            return Err(missing_key_error(keys));
        };
        let spoken = Revision::parse(&requested).filter(|revision| config.eras.modern().contains(revision));
        let Some(revision) = spoken else {
            return Err(unsupported_version(config.eras, requested.into_owned()));
        };
        let Some(capabilities) = decode_member::<ClientCapabilities>(keys.capabilities) else {
            return Err(missing_key_error(keys));
        };
        let log_level = match (keys.level, decode_member::<LoggingLevel>(keys.level)) {
            //= S8.18 "bad level → -32602 (SHOULD)"
            (Some(level), None) => return Err(invalid_params(format!("{level} is not a log level"))),
            (_, level) => level,
        };
        let context = RequestContext {
            era: Era::Modern,
            revision,
            client_info: decode_member(keys.info).map(Arc::new),
            //= S1.6 "never rely on undeclared or earlier-declared capabilities"
            client_capabilities: Arc::new(capabilities),
            principal: None,
            progress_token: None,
            log_level,
        };
        Ok(Self { text: String::new(), context })
    }

    /// Stores the raw text that it was decoded from, if that is short enough to be cached.
    pub(super) fn into_cached(mut self, keys: &MetaKeys<'_>) -> Option<Self> {
        let texts = Self::texts(keys);
        let bytes = texts.iter().fold(texts.len(), |sum, text| sum.saturating_add(text.len()));
        if bytes > Self::MAX_TEXT_BYTES {
            return None;
        }
        self.text.reserve_exact(bytes);
        for part in texts.into_iter().flat_map(|text| [text, "\n"]) {
            self.text.push_str(part);
        }
        Some(self)
    }
}
