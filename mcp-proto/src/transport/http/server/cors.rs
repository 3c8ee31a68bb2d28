//! Cross-origin requests of web pages (CORS).
//!
//! <https://fetch.spec.whatwg.org/#http-cors-protocol>

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::fmt;

use super::request_head::RequestHead;
use super::response::{HttpResponse, ResponseHeaders};
use crate::prelude::*;
use crate::transport::http::param_headers::is_token;
use crate::transport::http::{HeaderValues, read_headers};

/// The web pages of other origins that may call a server from a browser (CORS).
///
/// An origin is `https://app.example`, with its port where that is not the usual one. The origin `null`, which sandboxed
/// pages and files have in common, is never allowed. Pages send no cookies: they authenticate by the header
/// `Authorization`.
///
/// ```
/// use mcp_proto::transport::http::server::{CorsOrigins, HttpServerConfig};
/// use mcp_proto::peer::server::ServerConfig;
/// use mcp_proto::schema::Implementation;
///
/// let mut config = HttpServerConfig::new(ServerConfig::new(Implementation::new("weather", "1.0.0")));
/// config.cors = Some(CorsOrigins::only(["https://app.example"]));
/// // Or by a function: every preview of the application.
/// config.cors = Some(CorsOrigins::matching(|origin| {
///     origin.strip_prefix("https://").is_some_and(|host| host.ends_with(".preview.example"))
/// }));
/// ```
#[derive(Clone)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct CorsOrigins(Allowed);

#[derive(Clone)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
enum Allowed {
    Only(Vec<String>),
    #[cfg_attr(feature = "trace-file", serde(skip))]
    Matching(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

impl CorsOrigins {
    /// Allows these origins, compared case-insensitively.
    pub fn only(origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(Allowed::Only(origins.into_iter().map(Into::into).collect()))
    }

    /// Allows the origins for which a function returns true. It is called once or twice for each request of a page; a page
    /// writes its origin in lower case.
    pub fn matching(allows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Allowed::Matching(Arc::new(allows)))
    }

    /// Whether it is a list, which a record has.
    #[cfg(feature = "trace-file")]
    pub(super) fn is_list(&self) -> bool {
        matches!(self.0, Allowed::Only(_))
    }

    fn allows(&self, origin: &str) -> bool {
        let is_listed = match &self.0 {
            Allowed::Only(origins) => origins.iter().any(|only| only.eq_ignore_ascii_case(origin)),
            Allowed::Matching(allows) => allows(origin),
        };
        is_listed && !origin.eq_ignore_ascii_case("null") && origin != "*"
    }

    /// Returns the origin of a request, if it is allowed. A request with several has none.
    pub(super) fn allowed<'a>(&self, origin: &HeaderValues<'a>) -> Option<&'a str> {
        let first = origin.first.filter(|_| origin.others.is_empty())?;
        core::str::from_utf8(first).ok().filter(|origin| self.allows(origin))
    }

    /// Returns whether a request of an allowed origin asks, before a page's own request, whether that may be sent.
    pub(super) fn is_preflight(&self, head: &RequestHead<'_>) -> bool {
        let asks = || {
            let [origin, method] = read_headers(head.fields, ["origin", "access-control-request-method"]);
            self.allowed(&origin).is_some() && method.first.is_some()
        };
        head.method == "OPTIONS" && asks()
    }

    /// Returns the headers that let a page read the answer to its request.
    pub(super) fn answer_headers(&self, head: &RequestHead<'_>) -> ResponseHeaders {
        let [origin] = read_headers(head.fields, ["origin"]);
        // A cache must not show the answer for one origin to another.
        let mut headers = Vec::from([("vary", Cow::Borrowed("origin"))]);
        if let Some(origin) = self.allowed(&origin) {
            headers.push(("access-control-allow-origin", Cow::Owned(origin.into())));
            headers.push(("access-control-expose-headers", Cow::Borrowed(EXPOSED)));
        }
        headers.into()
    }
}

impl fmt::Debug for CorsOrigins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Allowed::Only(origins) => f.debug_tuple("Only").field(origins).finish(),
            Allowed::Matching(_) => f.write_str("Matching(…)"),
        }
    }
}

/// The headers of answers that clients read.
const EXPOSED: &str = "mcp-session-id, www-authenticate, dpop-nonce, retry-after";

/// The headers that clients send, beside those that mirror parameters.
const SENT: &str = "authorization, dpop, content-type, accept, last-event-id, mcp-protocol-version, mcp-session-id, \
    mcp-method, mcp-name";

/// The prefix of the headers that mirror parameters of tools.
const MIRRORED: &str = "mcp-param-";

/// How many bytes of the names of mirrored parameters an answer repeats at most.
const MIRRORED_BYTES: usize = 4096;

/// How long browsers keep the answer to a preflight request, in seconds; some keep it for a shorter time.
const MAX_AGE: &str = "7200";

/// Returns the answer to a preflight request, without the headers that every answer has. `methods` are those that the
/// endpoint serves.
pub(super) fn answer_preflight(head: &RequestHead<'_>, methods: &'static str) -> HttpResponse {
    let [requested] = read_headers(head.fields, ["access-control-request-headers"]);
    let mut allowed = String::from(SENT);
    let names = requested.iter().flat_map(|value| value.split(|byte| *byte == b','));
    for name in names.filter_map(|name| core::str::from_utf8(name.trim_ascii()).ok()) {
        let begins = name.get(..MIRRORED.len()).is_some_and(|start| start.eq_ignore_ascii_case(MIRRORED));
        if begins && name.bytes().all(is_token) && allowed.len().saturating_add(name.len()) < MIRRORED_BYTES {
            allowed.push_str(", ");
            allowed.push_str(name);
        }
    }
    HttpResponse::empty(204)
        .with_header("access-control-allow-methods", methods)
        .with_header("access-control-allow-headers", allowed)
        .with_header("access-control-max-age", MAX_AGE)
        .with_header("vary", "access-control-request-headers")
}
