//! What an answer is found by: the method and the parameters that it answered.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key>

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::CacheContext;
use crate::schema::{Json, MethodInfo, peek};

/// The longest parameters of a request whose answer is kept, in bytes: far longer than URIs and cursors are.
const MAX_PARAMS_BYTES: usize = 8 * 1024;

/// The parameters that carry answers to what the server asked in between: what comes of them depends on more than what
/// stands here.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
const INPUT_PARAMS: [&str; 2] = ["inputResponses", "requestState"];

/// A request, as far as its answer depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheRequest {
    pub(super) method: &'static str,
    /// What it is about, where the method has a parameter that says so.
    pub(super) subject: Arc<str>,
    /// All parameters but `_meta`, as they are written.
    params: Arc<str>,
}

impl CacheRequest {
    /// The request of `method` with these parameters, unless its answer must not be kept.
    pub(super) fn new(method: &'static MethodInfo, params: Vec<u8>) -> Option<Self> {
        if params.len() > MAX_PARAMS_BYTES {
            return None;
        }
        let params = String::from_utf8(params).ok()?;
        if INPUT_PARAMS.iter().any(|name| !matches!(peek::<Json>(&params, name), Ok(None))) {
            return None;
        }
        let subject = match method.subject {
            Some(name) => peek::<String>(&params, name).ok()??.ok()?,
            None => String::new(),
        };
        Some(Self { method: method.name, subject: subject.into(), params: params.into() })
    }

    /// The least request of `method`.
    pub(super) fn min_for_method(method: &'static str) -> Self {
        Self::min_for_subject(method, "")
    }

    /// The least request about `subject`.
    pub(super) fn min_for_subject(method: &'static str, subject: &str) -> Self {
        Self { method, subject: subject.into(), params: Arc::from("") }
    }

    /// A request that is greater than all about `subject` and those before it, and less than any other.
    pub(super) fn max_for_subject(method: &'static str, subject: &str) -> Self {
        let mut beyond = String::with_capacity(subject.len().saturating_add(1));
        beyond.push_str(subject);
        beyond.push('\0');
        Self::min_for_subject(method, &beyond)
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
pub(super) struct CacheKey {
    pub(super) request: CacheRequest,
    /// Whom it is for; anyone, if for nobody in particular.
    pub(super) context: Option<CacheContext>,
}

impl CacheKey {
    pub(super) fn bytes(&self) -> usize {
        let owner = self.context.as_ref().map_or(0, CacheContext::bytes);
        self.request.bytes().saturating_add(owner)
    }
}

/// Whether news of a resource are news of the one at `uri`: it is that one, or a part of it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams>
pub(super) fn affects(news: &str, uri: &str) -> bool {
    const SEPARATORS: [char; 3] = ['/', '?', '#'];
    match news.strip_prefix(uri) {
        Some(rest) => rest.is_empty() || rest.starts_with(SEPARATORS) || uri.ends_with(SEPARATORS),
        None => false,
    }
}

/// How `text` begins, as far as `other` begins alike.
pub(super) fn common_prefix<'a>(text: &'a str, other: &str) -> &'a str {
    let mut len = text.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}

/// The beginning of `text` that a subject can be as long as.
pub(super) fn truncate_subject(text: &str) -> &str {
    let mut len = text.len().min(MAX_PARAMS_BYTES);
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}
