//! Methods and headers of requests, with those that the application adds.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use mcp_proto::rpc::Text;
use mcp_proto::transport::http::Verb;

use crate::wire::{PUBLIC_HEADERS, is_secret};

/// Headers that HTTP or the protocol sets itself, besides all those that begin with `mcp-` or `proxy-`.
const RESERVED: &[HeaderName] = &[
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Reserved headers for which the `http` crate has no constant.
const RESERVED_UNNAMED: &[&str] = &["http2-settings", "keep-alive", "last-event-id"];

pub(super) const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));

/// The method of a request.
pub(super) fn method(verb: Verb) -> Method {
    match verb {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Delete => Method::DELETE,
    }
}

/// Converts a name of the protocol; `None` if it is not valid in HTTP. Returns also whether the value must not be shown.
pub(super) fn header_name(name: &str) -> Option<(HeaderName, bool)> {
    if let Some(public) = PUBLIC_HEADERS.iter().find(|public| public.as_str() == name) {
        return Some((public.clone(), false));
    }
    let name = HeaderName::try_from(name).ok()?;
    let is_secret = is_secret(&name);
    Some((name, is_secret))
}

/// Converts a value of the protocol without copying it; `None` if it is not valid in HTTP.
pub(super) fn header_value(value: Text) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(value.into_bytes()).ok()
}

/// A request header that the client rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// The name, as the application passed it.
    pub name: String,
    /// Why the header is rejected.
    pub kind: HeaderErrorKind,
}

/// Why a header is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderErrorKind {
    /// The name is not a valid header name.
    Name,
    /// The value contains characters that are invalid in headers, such as a line break.
    Value,
    /// The protocol sets this header itself.
    Reserved,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind: problem } = self;
        match problem {
            HeaderErrorKind::Name => write!(f, "{name:?} is not a valid header name"),
            HeaderErrorKind::Value => write!(f, "the value of the header {name} is not valid in HTTP"),
            HeaderErrorKind::Reserved => write!(f, "the header {name} is set by the protocol: do not add it"),
        }
    }
}

impl std::error::Error for HeaderError {}

/// The present headers of a source, which the transport adds to each request. Absent before the source was asked.
pub(super) type SourcedHeaders = Arc<Mutex<Option<HeaderMap>>>;

/// Adds headers to those of a request.
type Refresh = Box<dyn FnMut(&mut HeaderMap) + Send>;

/// The headers that the application adds to every request.
#[derive(Default)]
pub(super) struct ExtraHeaders {
    fixed: HeaderMap,
    /// Those of the application's source, if it has one.
    sourced: Option<SourcedHeaders>,
    refresh: Vec<Refresh>,
    /// The first header that was rejected.
    first_error: Option<HeaderError>,
}

impl ExtraHeaders {
    //= F39 "Headers from the configuration"
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if let Err(problem) = self.try_add(name, value) {
            self.first_error.get_or_insert_with(|| HeaderError { name: name.to_owned(), kind: problem });
        }
    }

    fn try_add(&mut self, name: &str, value: &str) -> Result<(), HeaderErrorKind> {
        let name = HeaderName::try_from(name).map_err(|_| HeaderErrorKind::Name)?;
        let mut value = HeaderValue::try_from(value).map_err(|_| HeaderErrorKind::Value)?;
        if is_reserved(&name) {
            return Err(HeaderErrorKind::Reserved);
        }
        value.set_sensitive(is_secret(&name));
        self.fixed.append(name, value);
        Ok(())
    }

    /// The names of those that do not change.
    #[cfg(feature = "host")]
    pub(super) fn fixed_names(&self) -> Vec<HeaderName> {
        self.fixed.keys().cloned().collect()
    }

    pub(super) fn refresh(&mut self, refresh: Refresh) {
        self.refresh.push(refresh);
    }

    /// Adds the headers of a source; returns where they are set.
    pub(super) fn source(&mut self) -> SourcedHeaders {
        self.sourced.get_or_insert_default().clone()
    }

    /// Whether the headers may change between requests without the client's knowledge.
    pub(super) fn may_change(&self) -> bool {
        !self.refresh.is_empty()
    }

    pub(super) fn check(&mut self) -> Result<(), HeaderError> {
        self.first_error.take().map_or(Ok(()), Err)
    }

    /// Adds the application's headers to those of the protocol.
    pub(super) fn apply(&mut self, headers: &mut HeaderMap) {
        if !self.fixed.is_empty() || self.sourced.is_some() || !self.refresh.is_empty() {
            self.add_to(headers);
        }
        headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    }

    fn add_to(&mut self, headers: &mut HeaderMap) {
        let mut added = self.fixed.clone();
        let sourced = self.sourced.as_ref().map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(sourced) = sourced.as_ref().and_then(|it| it.as_ref()) {
            // Replaces the values of the same names.
            added.extend(sourced.clone());
        }
        drop(sourced);
        for refresh in &mut self.refresh {
            refresh(&mut added);
        }
        let authorized = headers.contains_key(header::AUTHORIZATION);
        let mut last = None;
        for (name, mut value) in added {
            // `HeaderMap` returns a name only with its first value.
            last = name.or(last);
            let Some(name) = last.as_ref().filter(|name| !is_reserved(name)) else { continue };
            // A token that was obtained for this server takes precedence over a configured one.
            if authorized && *name == header::AUTHORIZATION {
                continue;
            }
            if is_secret(name) {
                value.set_sensitive(true);
            }
            headers.append(name, value);
        }
    }
}

/// The first of these headers that the protocol sets itself.
pub(super) fn reserved_header(headers: &HeaderMap) -> Option<HeaderError> {
    let name = headers.keys().find(|name| is_reserved(name))?;
    Some(HeaderError { name: name.to_string(), kind: HeaderErrorKind::Reserved })
}

fn is_reserved(name: &HeaderName) -> bool {
    RESERVED.contains(name)
        || RESERVED_UNNAMED.contains(&name.as_str())
        || ["mcp-", "proxy-"].iter().any(|prefix| name.as_str().starts_with(prefix))
}

// An application may send a secret under any name.
debug_fields! { ExtraHeaders(self) { fixed = self.fixed.keys().collect::<Vec<_>>() } }

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(mut extra_headers: ExtraHeaders) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("mcp-method", HeaderValue::from_static("ping"));
        headers.insert("accept", HeaderValue::from_static("application/json"));
        extra_headers.apply(&mut headers);
        headers
    }

    #[test]
    fn application_cannot_set_headers_of_the_protocol_in_any_spelling() {
        for name in [
            "Mcp-Method",
            "mcp-param-city",
            "MCP-SESSION-ID",
            "mcp-anything",
            "Accept",
            "Content-Type",
            "content-length",
            "Host",
            "Last-Event-ID",
            "Transfer-Encoding",
            "connection",
            "Proxy-Authorization",
            "keep-alive",
        ] {
            let mut extra_headers = ExtraHeaders::default();
            extra_headers.add(name, "x");
            let error = extra_headers.check().unwrap_err();
            assert_eq!((error.name.as_str(), error.kind), (name, HeaderErrorKind::Reserved));
            assert!(!applied(extra_headers).iter().any(|(_, value)| value == "x"));
        }
    }

    #[test]
    fn a_refreshed_header_never_replaces_one_of_the_protocol() {
        let mut extra_headers = ExtraHeaders::default();
        let mut count = 0;
        extra_headers.refresh(Box::new(move |headers| {
            count += 1;
            headers.insert("authorization", HeaderValue::try_from(format!("Bearer {count}")).unwrap());
            headers.insert("mcp-method", HeaderValue::from_static("evil"));
            headers.append("accept", HeaderValue::from_static("evil"));
        }));
        let mut headers = HeaderMap::new();
        for round in 1..=2 {
            headers.clear();
            headers.insert("mcp-method", HeaderValue::from_static("ping"));
            extra_headers.apply(&mut headers);
            assert_eq!(headers["authorization"], format!("Bearer {round}"));
            assert!(headers["authorization"].is_sensitive());
            assert_eq!(headers["mcp-method"], "ping");
            assert!(!headers.contains_key("accept"));
        }
    }

    #[test]
    fn a_header_may_have_several_values_and_a_line_break_is_refused() {
        let mut extra_headers = ExtraHeaders::default();
        extra_headers.add("X-Tag", "a");
        extra_headers.add("x-tag", "b");
        extra_headers.add("x-bad", "a\r\nb");
        extra_headers.add("no name", "a");
        assert_eq!(extra_headers.check().unwrap_err().kind, HeaderErrorKind::Value);
        let headers = applied(extra_headers);
        assert_eq!(headers.get_all("x-tag").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(headers["user-agent"], USER_AGENT);
        assert!(!headers.contains_key("x-bad"));
    }

    #[test]
    fn the_agent_can_be_named_by_the_application() {
        let mut extra_headers = ExtraHeaders::default();
        extra_headers.add("User-Agent", "mine");
        assert_eq!(applied(extra_headers).get_all("user-agent").iter().collect::<Vec<_>>(), ["mine"]);
    }
}
