//! Client output: messages queued for sending, and actions for the driver.

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::mem;

use bytes::Bytes;
use memchr::memchr2;

use crate::codec::header::encode;
use crate::inline_map::InlineMap;
use crate::ordered_map::OrderedMap;
use crate::peer::{Carriage, CarriageEnd, EncodedRequest, MessageKind, Outbox, RequestError};
use crate::prelude::*;
use crate::redact::url_without_secrets;
use crate::rpc::{Id, Raw, Text, first_member, unescape, write};
use crate::schema::{Era, Initialized, Notification, Revision};
use crate::transport::http::param_headers::ParamHeaders;
use crate::transport::http::{ExchangeId, Verb, header};

/// An action for the driver.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send this request, and pass its response to the client.
    Open(HttpRequest),
    /// Abort the exchange. Later input for it is ignored; if it was parked, it needs no authorization any more.
    Abort(ExchangeId),
    /// Obtain authorization for this exchange.
    ///
    /// Then [`resume`](super::HttpClient::resume) or [`refuse`](super::HttpClient::refuse) it.
    ///
    /// Used only if [configured](super::HttpClientConfig::authorization).
    AuthorizationRequired(AuthorizationRequired),
}

impl Action {
    /// All of it, with what may be secret.
    #[cfg(feature = "trace-file")]
    pub(super) fn whole_text(&self) -> String {
        match self {
            Self::Open(HttpRequest { exchange, verb, url, headers, body }) => {
                let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                format!("{exchange:?} opens: {} {url} {headers:?} {body:?}", verb.as_str())
            }
            Self::Abort(exchange) => format!("{exchange:?} is aborted"),
            Self::AuthorizationRequired(required) => {
                let AuthorizationRequired { exchange, status, header, dpop_nonce, attempt } = required;
                format!("{exchange:?} needs authorization: {status} {header:?} {dpop_nonce:?} {attempt}")
            }
        }
    }
}

/// An HTTP request.
#[derive(Clone)]
pub struct HttpRequest {
    /// The id of the exchange that the request begins.
    pub exchange: ExchangeId,
    /// The HTTP method.
    pub verb: Verb,
    /// The URL, without a fragment.
    pub url: Arc<str>,
    /// The headers of the protocol, names in lower case. The driver may add others but must not replace these. A value that
    /// repeats a part of the body shares its memory.
    pub headers: Vec<(Cow<'static, str>, Text)>,
    /// The body; empty for any method but POST.
    pub body: Bytes,
}

// Without what may be secret: the header values, the body and parts of the URL.
debug_fields! { HttpRequest(self) {
    exchange = self.exchange,
    verb = self.verb,
    url = url_without_secrets(&self.url),
    headers = self.headers.iter().map(|(name, _)| &**name).collect::<Vec<&str>>(),
    body_bytes = self.body.len(),
} }

/// An exchange that is parked until the client is authorized.
#[derive(Clone)]
pub struct AuthorizationRequired {
    /// The id of the exchange, for [`resume`](super::HttpClient::resume) and [`refuse`](super::HttpClient::refuse).
    ///
    /// The HTTP exchange itself has ended.
    pub exchange: ExchangeId,
    /// The HTTP status, 401 or 403.
    pub status: u16,
    /// The `WWW-Authenticate` headers, joined by commas.
    ///
    /// At most [`Limits::header_bytes`](crate::Limits::header_bytes) bytes.
    pub header: Option<String>,
    /// The nonce for the next DPoP proof of possession (RFC 9449).
    pub dpop_nonce: Option<String>,
    /// The number of times that this request was resumed before.
    pub attempt: u32,
}

// Omits values that may be secret.
debug_fields! { AuthorizationRequired { exchange, status, attempt } }

/// A notification or a reply: a message that gets no answer.
#[derive(Clone, Debug)]
pub(super) struct OneWayMessage {
    /// The method and the revision of a notification; `None` for a reply.
    pub(super) notification: Option<(Cow<'static, str>, Revision)>,
    pub(super) body: Bytes,
    /// The number of consecutive attempts in which it was not sent.
    pub(super) failures: u32,
}

impl OneWayMessage {
    /// Returns whether it is the notification that opens a session.
    pub(super) fn opens_session(&self) -> bool {
        self.notification.as_ref().is_some_and(|(method, _)| **method == *Initialized::NAME)
    }
}

/// Everything queued for sending.
#[derive(Debug, Default)]
pub(super) struct HttpOutbox {
    scratch: Vec<u8>,
    /// Whether the peer has written since the last `advance`.
    pub(super) has_news: bool,
    /// The notification that opens a session.
    pub(super) initialized: Option<OneWayMessage>,
    /// The requests that the peer has ended.
    pub(super) released: VecDeque<(Box<Carriage>, CarriageEnd)>,
    /// The carriage of the request that was committed last, for its record.
    carriage: Option<Box<Carriage>>,
    posts: VecDeque<OneWayMessage>,
    opening: InlineMap<ExchangeId, HttpRequest>,
    aborts: VecDeque<ExchangeId>,
    pub(super) challenges: OrderedMap<ExchangeId, AuthorizationRequired>,
    bytes: usize,
}

impl HttpOutbox {
    // --- Output of the peer ---

    /// Drops the queued replies.
    pub(super) fn drop_replies(&mut self) {
        let Self { posts, bytes, .. } = self;
        posts.retain(|post| {
            let is_reply = post.notification.is_none();
            *bytes = bytes.saturating_sub(if is_reply { post.body.len() } else { 0 });
            !is_reply
        });
    }

    // --- Messages that wait for an exchange ---

    pub(super) fn push_post(&mut self, post: OneWayMessage) {
        self.bytes = self.bytes.saturating_add(post.body.len());
        self.posts.push_back(post);
    }

    pub(super) fn next_post(&mut self) -> Option<OneWayMessage> {
        let post = self.posts.pop_front()?;
        self.subtract_bytes(post.body.len());
        Some(post)
    }

    pub(super) fn has_posts(&self) -> bool {
        !self.posts.is_empty()
    }

    // --- Actions for the driver ---

    pub(super) fn push_open(&mut self, request: HttpRequest) {
        self.bytes = self.bytes.saturating_add(request.body.len());
        self.opening.insert(request.exchange, request);
    }

    /// Withdraws an authorization challenge; returns whether it was still queued.
    pub(super) fn withdraw_challenge(&mut self, exchange: ExchangeId) -> bool {
        self.challenges.remove(&exchange).is_some()
    }

    /// Aborts an exchange; returns whether the driver has begun it.
    pub(super) fn abort(&mut self, exchange: ExchangeId) -> bool {
        if self.withdraw_challenge(exchange) {
            return true;
        }
        match self.opening.remove(&exchange) {
            Some(request) => {
                self.subtract_bytes(request.body.len());
                false
            }
            None => {
                self.aborts.push_back(exchange);
                true
            }
        }
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        // Aborts first, since they free connections; then the actions that need one.
        if let Some(exchange) = self.aborts.pop_front() {
            return Some(Action::Abort(exchange));
        }
        if let Some((_, challenge)) = self.challenges.pop_first() {
            return Some(Action::AuthorizationRequired(challenge));
        }
        let (_, request) = self.opening.pop_first()?;
        self.subtract_bytes(request.body.len());
        Some(Action::Open(request))
    }

    /// Discards everything that waits for an exchange.
    pub(super) fn clear(&mut self) {
        let opens: usize = self.opening.iter().map(|(_, request)| request.body.len()).sum();
        self.scratch.clear();
        self.initialized = None;
        self.released.clear();
        self.posts.clear();
        self.bytes = opens;
    }

    /// Takes the message in the buffer. A short one is copied to its exact size, and the buffer stays for the next.
    fn take_scratch(&mut self) -> Bytes {
        /// The largest buffer that is kept, in bytes.
        const KEPT: usize = 4096;
        if self.scratch.capacity() <= KEPT {
            Bytes::copy_from_slice(&self.scratch)
        } else {
            Bytes::from(mem::take(&mut self.scratch))
        }
    }

    fn subtract_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Outbox for HttpOutbox {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.scratch.clear();
        &mut self.scratch
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        let body = self.take_scratch();
        let notification = match about {
            MessageKind::Request { method, info, params, name_param, revision, .. } => {
                let subject = info.and_then(|info| info.subject).map(Cow::Borrowed);
                let subject = subject.or_else(|| name_param.map(|name| String::from(name).into()));
                let encoded = EncodedRequest { body, params, subject };
                let method = info.map_or_else(|| String::from(method).into(), |info| info.name.into());
                let is_unbounded = info.is_some_and(|info| info.unbounded);
                //= C4.3 "Body is one request or one notification (no batch, no response)"
                self.has_news = true;
                self.carriage = Some(Box::new(Carriage::new(method, revision, encoded, is_unbounded)));
                return;
            }
            MessageKind::Notification { method, revision, .. } => {
                Some((String::from(method).into(), revision))
            }
            //= F22 "requests of the server on a stream are answered by POST"
            //= C1.6 "POST on HTTP"
            MessageKind::Reply(_) | MessageKind::PartialResult(_) => None,
        };
        self.has_news = true;
        let post = OneWayMessage { notification, body, failures: 0 };
        if post.opens_session() {
            self.initialized = Some(post);
        } else {
            self.push_post(post);
        }
    }

    fn queued(&self) -> usize {
        self.bytes
    }

    /// Does nothing: a request without a carriage is not with the server.
    fn cancel(&mut self, _: i64, _: Option<&str>) {}

    fn has_carriages(&self) -> bool {
        true
    }

    fn take_carriage(&mut self) -> Option<Box<Carriage>> {
        self.carriage.take()
    }

    fn release(&mut self, carriage: Box<Carriage>, end: CarriageEnd) {
        self.has_news = true;
        self.released.push_back((carriage, end));
    }
}

// Outgoing requests: as the peer encoded them, and their headers.
//
// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata>

impl EncodedRequest {
    fn params(&self) -> &[u8] {
        self.body.get(self.params.clone()).unwrap_or_default()
    }

    fn member(&self, name: &str) -> Option<&str> {
        first_member(core::str::from_utf8(self.params()).ok()?, name).ok()?
    }

    /// Returns the subject of the request: a name, a URI or a task id. `None` if its method has none.
    pub(super) fn subject(&self) -> Option<Text> {
        let name = self.subject.as_deref()?;
        self.leading_subject(name).or_else(|| Some(unescape(self.member(name)?)?.into_owned().into()))
    }

    /// Returns the subject where the parameters begin with it, and it has no escapes: the parameters of this crate.
    fn leading_subject(&self, name: &str) -> Option<Text> {
        let rest =
            self.params().strip_prefix(b"{\"")?.strip_prefix(name.as_bytes())?.strip_prefix(b"\":\"")?;
        let (value, end) = rest.split_at_checked(memchr2(b'"', b'\\', rest)?)?;
        if end.first() == Some(&b'"') { Text::try_from(self.body.slice_ref(value)).ok() } else { None }
    }

    /// Returns the arguments.
    fn arguments(&self) -> Option<Raw> {
        let arguments = self.body.slice_ref(self.member("arguments")?.as_bytes());
        Some(Raw::from_scan(Text::try_from(arguments).ok()?))
    }

    /// Copies the request with another id.
    pub(super) fn with_id(&self, id: i64, method: &str) -> Option<Self> {
        let mut body = Vec::with_capacity(self.body.len().saturating_add(20));
        let params = write::request(&mut body, &Id::Number(id), method, |out| {
            out.extend_from_slice(self.params());
            Ok(())
        });
        Some(Self { body: body.into(), params: params.ok()?, subject: self.subject.clone() })
    }
}

/// Names and values. Those that are the same in every request are static.
pub(super) type RequestHeaders = Vec<(Cow<'static, str>, Text)>;

const JSON: &str = "application/json";
const JSON_OR_EVENTS: &str = "application/json, text/event-stream";

/// Returns the headers of a message outside any session.
pub(super) fn sessionless_headers() -> RequestHeaders {
    /// The number of headers of a modern request with a few mirrored parameters.
    const TYPICAL_COUNT: usize = 8;
    let mut headers = Vec::with_capacity(TYPICAL_COUNT);
    headers.push(("content-type".into(), Text::from_static(JSON)));
    //= F38 "a POST of JSON that accepts JSON and event streams"
    //= C4.2 "`Accept: application/json, text/event-stream`"
    headers.push(("accept".into(), Text::from_static(JSON_OR_EVENTS)));
    headers
}

/// Returns the headers of a modern message, without those that repeat its parameters.
pub(super) fn modern_headers(method: Cow<'static, str>, revision: Revision) -> RequestHeaders {
    let mut headers = sessionless_headers();
    //= C4.4 "Header `MCP-Protocol-Version` = `_meta` version on every POST"
    headers.push((header::PROTOCOL_VERSION.into(), Text::from_static(revision.as_str())));
    //= C4.6 "Header `Mcp-Method` on every message"
    let method = match method {
        Cow::Owned(name) => encode_text(name.into()),
        // The protocol's names need no encoding.
        Cow::Borrowed(known) => Text::from_static(known),
    };
    headers.push((header::METHOD.into(), method));
    headers
}

/// Encodes the value of a header; one that a header can carry is not copied.
fn encode_text(value: Text) -> Text {
    let encoded = match encode(&value) {
        Cow::Borrowed(_) => None,
        Cow::Owned(encoded) => Some(encoded.into()),
    };
    encoded.unwrap_or(value)
}

/// Returns the headers of a modern request; `params` are the mirrored parameters of the tool that it calls.
pub(super) fn modern_request_headers(
    method: Cow<'static, str>,
    revision: Revision,
    request: &EncodedRequest,
    params: Option<&ParamHeaders>,
) -> Result<RequestHeaders, RequestError> {
    let mut headers = modern_headers(method, revision);
    if let Some(subject) = request.subject() {
        //= C4.7 "Header `Mcp-Name` for tools/call + prompts/get (`params.name`), resources/read (`params.uri`)"
        //= C14.2 "Header `Mcp-Name` = taskId on tasks/get, update, cancel"
        headers.push((header::NAME.into(), encode_text(subject)));
    }
    if let Some(params) = params {
        //= C4.9 "tools/call: mirror each `x-mcp-header` property into `Mcp-Param-{Name}`"
        let mirrored = params.values(request.arguments().as_ref());
        let mirrored = mirrored.map_err(|error| RequestError::Encode(error.to_string()))?;
        headers.extend(mirrored.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
    Ok(headers)
}

/// Returns whether messages of this revision carry the modern headers.
pub(super) fn is_modern(revision: Revision) -> bool {
    revision.era() == Era::Modern
}
