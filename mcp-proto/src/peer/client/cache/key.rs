//! Cache keys: the method and parameters of the request that an answer belongs to.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key>

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::CacheContext;
use crate::schema::{Json, MethodInfo, peek};

/// The maximum size in bytes of the parameters of a cacheable request: far more than URIs and cursors need.
const MAX_PARAMS_BYTES: usize = 8 * 1024;

/// The parameters that carry answers to input requests: the result then depends on more than the key contains.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
const INPUT_PARAMS: [&str; 2] = ["inputResponses", "requestState"];

/// A request, reduced to what its answer depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheRequest {
    pub(super) method: &'static str,
    /// The subject of the request, if the method has a parameter for one.
    pub(super) subject: Arc<str>,
    /// All parameters but `_meta`, encoded.
    params: Arc<str>,
}

impl CacheRequest {
    /// The request of `method` with these parameters, unless its answer must not be cached.
    pub(super) fn new(method: &'static MethodInfo, params: Vec<u8>) -> Option<Self> {
        if params.len() > MAX_PARAMS_BYTES {
            return None;
        }
        let params = String::from_utf8(params).ok()?;
        //= C5.8 "Retries carrying inputResponses/requestState are not cached and not served from cache"
        if INPUT_PARAMS.iter().any(|name| !matches!(peek::<Json>(&params, name), Ok(None))) {
            return None;
        }
        let subject = match method.subject {
            Some(name) => peek::<String>(&params, name).ok()??,
            None => String::new(),
        };
        //= C8.1 "Cache key = method + all params that affect the result (cursor, uri), not `_meta`"
        Some(Self { method: method.name, subject: subject.into(), params: params.into() })
    }

    /// The smallest request of `method`, in key order.
    pub(super) fn min_for_method(method: &'static str) -> Self {
        Self::min_for_subject(method, "")
    }

    /// The smallest request about `subject`, in key order.
    pub(super) fn min_for_subject(method: &'static str, subject: &str) -> Self {
        Self { method, subject: subject.into(), params: Arc::from("") }
    }

    /// A key greater than all requests about `subject` and those before it, and smaller than any other.
    pub(super) fn max_for_subject(method: &'static str, subject: &str) -> Self {
        let mut beyond = String::with_capacity(subject.len().saturating_add(1));
        beyond.push_str(subject);
        beyond.push('\0');
        Self::min_for_subject(method, &beyond)
    }

    /// Whether it requests a page other than the first.
    pub(super) fn has_cursor(&self) -> bool {
        matches!(peek::<Json>(&self.params, "cursor"), Ok(Some(_)))
    }

    fn bytes(&self) -> usize {
        self.subject.len().saturating_add(self.params.len())
    }
}

/// A request with the context that its answer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheKey {
    pub(super) request: CacheRequest,
    /// The context that the answer is private to; `None` for public answers.
    pub(super) context: Option<CacheContext>,
}

impl CacheKey {
    pub(super) fn bytes(&self) -> usize {
        let owner = self.context.as_ref().map_or(0, CacheContext::bytes);
        self.request.bytes().saturating_add(owner)
    }
}

/// Whether a change of the resource `news` affects the one at `uri`: the changed resource is the same or a part of it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#resourceupdatednotificationparams>
pub(super) fn affects(news: &str, uri: &str) -> bool {
    const SEPARATORS: [char; 3] = ['/', '?', '#'];
    match news.strip_prefix(uri) {
        Some(rest) => rest.is_empty() || rest.starts_with(SEPARATORS) || uri.ends_with(SEPARATORS),
        None => false,
    }
}

/// The common prefix of `text` and `other`.
pub(super) fn common_prefix<'a>(text: &'a str, other: &str) -> &'a str {
    let mut len = text.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}

/// The prefix of `text` that fits into a subject.
pub(super) fn truncate_subject(text: &str) -> &str {
    let mut len = text.len().min(MAX_PARAMS_BYTES);
    while !text.is_char_boundary(len) {
        len = len.saturating_sub(1);
    }
    text.get(..len).unwrap_or_default()
}
