//! What an answer is found by: the method and the parameters that it answered.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key>

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::CacheContext;
use crate::schema::{Json, MethodInfo, peek};

/// The longest parameters of a request whose answer is kept, in bytes: far longer than URIs and cursors are.
const LONGEST: usize = 8 * 1024;

/// The parameters that carry answers to what the server asked in between: what comes of them depends on more than what
/// stands here.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
const OF_ROUNDS: [&str; 2] = ["inputResponses", "requestState"];

/// A request, as far as its answer depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    pub(super) method: &'static str,
    /// What it is about, where the method has a parameter that says so.
    pub(super) subject: Arc<str>,
    /// All parameters but `_meta`, as they are written.
    params: Arc<str>,
}

impl Request {
    /// The request of `method` with these parameters, unless its answer must not be kept.
    pub(super) fn new(method: &'static MethodInfo, params: Vec<u8>) -> Option<Self> {
        if params.len() > LONGEST {
            return None;
        }
        let params = String::from_utf8(params).ok()?;
        if OF_ROUNDS.iter().any(|name| !matches!(peek::<Json>(&params, name), Ok(None))) {
            return None;
        }
        let subject = match method.subject {
            Some(name) => peek::<String>(&params, name).ok()??.ok()?,
            None => String::new(),
        };
        Some(Self { method: method.name, subject: subject.into(), params: params.into() })
    }

    /// The least request of `method`.
    pub(super) fn first(method: &'static str) -> Self {
        Self::about(method, "")
    }

    /// The least request about `subject`.
    pub(super) fn about(method: &'static str, subject: &str) -> Self {
        Self { method, subject: subject.into(), params: Arc::from("") }
    }

    /// A request that is greater than all about `subject` and those before it, and less than any other.
    pub(super) fn beyond(method: &'static str, subject: &str) -> Self {
        let mut beyond = String::with_capacity(subject.len().saturating_add(1));
        beyond.push_str(subject);
        beyond.push('\0');
        Self::about(method, &beyond)
    }

    /// Whether it asks for a page other than the first.
    pub(super) fn has_cursor(&self) -> bool {
        matches!(peek::<Json>(&self.params, "cursor"), Ok(Some(_)))
    }

    fn bytes(&self) -> usize {
        self.subject.len().saturating_add(self.params.len())
    }
}

/// A request and whom its answer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) request: Request,
    /// Whom it is for; anyone, if for nobody in particular.
    pub(super) owner: Option<CacheContext>,
}

impl Key {
    pub(super) fn bytes(&self) -> usize {
        let owner = self.owner.as_ref().map_or(0, CacheContext::bytes);
        self.request.bytes().saturating_add(owner)
    }
}

/// Whether news of a resource are news of the one at `uri`: it is that one, or a part of it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams>
pub(super) fn concerns(news: &str, uri: &str) -> bool {
    const BORDERS: [char; 3] = ['/', '?', '#'];
    match news.strip_prefix(uri) {
        Some(rest) => rest.is_empty() || rest.starts_with(BORDERS) || uri.ends_with(BORDERS),
        None => false,
    }
}

/// How `text` begins, as far as `other` begins alike.
pub(super) fn common<'a>(text: &'a str, other: &str) -> &'a str {
    let mut len = text.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}

/// The beginning of `text` that a subject can be as long as.
pub(super) fn within_longest(text: &str) -> &str {
    let mut len = text.len().min(LONGEST);
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}
