//! Request routing by body, headers and configuration.

use alloc::borrow::Cow;

use crate::codec::header as value;
use crate::peer::server::{Eras, unsupported_version};
use crate::peer::{Principal, Strictness};
use crate::prelude::*;
use crate::quota::BytePermit;
use crate::rpc::members::collect_members;
use crate::rpc::{
    self, EnvelopeKind, ErrorId, ErrorObject, Frame, Id, KnownObject, Malformed, Message, Notification, Raw,
    Request, code, decode_member, first_member, read_members, unescape,
};
use crate::schema::tasks::{CancelTask, GetTask, UpdateTask};
use crate::schema::{
    CallTool, ClientCapabilities, Discover, Era, Extension, GetPrompt, Initialize, Method, ReadResource,
    Revision, SubscriptionsListen, meta,
};
use crate::transport::http::header;
use crate::transport::http::param_headers::ParamHeaders;
use bytes::Bytes;

use super::Setup;
use super::request_head::{RetainedHead, SessionId, SingleHeader, UNKNOWN_VERSION, VersionHeader};
use super::response::{AcceptedTypes, HttpResponse};

/// Where a complete request goes.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestRoute {
    /// The request is answered already: send the response.
    Answer(HttpResponse),
    /// A modern request, for [`Exchange::open`](super::Exchange::open).
    Modern(ModernRequest),
    /// A notification of the modern era or on a [stateless](super::HttpServerConfig::stateless) server, independent of any
    /// session. It is accepted whatever its effect: send its
    /// [answer](PostedNotification::answer).
    Notification(PostedNotification),
    /// A message of a legacy client on a [stateless](super::HttpServerConfig::stateless) server, for
    /// [`Exchange::open_stateless`](super::Exchange::open_stateless).
    Stateless(StatelessPost),
    /// A request for a new session, for [`Session::open`](super::Session::open).
    OpenSession(Post),
    /// A message of an existing session.
    Session {
        /// The session.
        id: SessionId,
        /// The posted message.
        post: Post,
    },
    /// A GET for the general stream of a session, or for the rest of an earlier stream.
    Listen {
        /// The session.
        id: SessionId,
        /// The last event that the client received of the stream to resume.
        last_event: Option<String>,
    },
    /// A DELETE that ends a session.
    Delete {
        /// The session.
        id: SessionId,
    },
    /// A 2024-11-05 client opens its event stream, and with it a session.
    LegacyEvents,
    /// A 2024-11-05 client posts a message; the answer goes to its event stream.
    LegacyPost {
        /// The session.
        id: SessionId,
        /// The posted message.
        post: Post,
    },
}

/// A request of the modern era, independent of any session.
#[derive(Debug)]
pub struct ModernRequest {
    pub(super) request: Request,
    pub(super) head: RetainedHead,
    pub(super) principal: Option<Principal>,
}

impl ModernRequest {
    /// Sets the principal on whose behalf the request is made.
    #[must_use]
    #[inline]
    pub fn on_behalf_of(mut self, principal: Option<Principal>) -> Self {
        self.principal = principal;
        self
    }

    /// Returns the method of the request.
    pub fn method(&self) -> &str {
        &self.request.method
    }

    /// Returns the parameters, not decoded.
    pub fn params(&self) -> Option<&Raw> {
        self.request.params.as_ref()
    }

    /// Returns the `_meta` of the parameters, not decoded.
    #[cfg(feature = "std")]
    pub(crate) fn meta(&self) -> Option<Raw> {
        self.params()?.meta()
    }

    /// Returns the name of the tool, if the request is a tool call.
    pub fn tool(&self) -> Option<Cow<'_, str>> {
        if &*self.request.method != CallTool::NAME {
            return None;
        }
        member_text(self.params()?, "name")
    }

    //= S3.8 "Mcp-Param-* → 400 + -32020"
    /// Checks that the [kept](super::RequestIntake::retain_params) headers match the arguments of the tool.
    ///
    /// # Errors
    /// The answer to a refused request.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers>
    pub fn check(&self, headers: &ParamHeaders) -> Result<(), HttpResponse> {
        headers
            .check(self.params().and_then(Raw::arguments).as_ref(), self.head.params.as_slice())
            .map_err(|error| mismatch_response(ErrorId::Known(&self.request.id), format!("{error}")))
    }
}

/// A notification that belongs to no session. The modern era defines none that a client posts.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#sending-messages-to-the-server>
#[derive(Debug)]
pub struct PostedNotification {
    notification: Notification,
    /// The permit for the body's bytes.
    _permit: Option<BytePermit>,
}

impl PostedNotification {
    pub(super) fn new(notification: Notification, head: RetainedHead) -> Self {
        Self { notification, _permit: head.permit }
    }

    /// Its method.
    pub fn method(&self) -> &str {
        &self.notification.method
    }

    /// Its parameters, not decoded.
    pub fn params(&self) -> Option<&Raw> {
        self.notification.params.as_ref()
    }

    /// The message.
    #[cfg(feature = "std")]
    pub(crate) fn message(&self) -> &Notification {
        &self.notification
    }

    /// The answer, which says only that it was received.
    pub fn answer(&self) -> HttpResponse {
        HttpResponse::empty(202)
    }
}

/// A message posted by a client of the legacy era.
#[derive(Debug)]
pub struct Post {
    /// The messages, or a malformed response, which ends the server's request that it answers.
    pub(super) content: Result<Frame, Box<Malformed>>,
    pub(super) head: RetainedHead,
}

/// Whether a message of a batch is answered.
pub(super) fn is_answered(message: &Result<Message, Malformed>) -> bool {
    match message {
        Ok(message) => matches!(message, Message::Request(_)),
        Err(malformed) => !malformed.is_silent(),
    }
}

impl Post {
    /// Returns the id of the request, if the message is one.
    pub fn request_id(&self) -> Option<&Id> {
        match &self.content {
            Ok(Frame::Single(Message::Request(request))) => Some(&request.id),
            Ok(_) | Err(_) => None,
        }
    }
}

/// Requests that a client of the legacy era posted to a server without sessions: one, or a batch.
#[derive(Debug)]
pub struct StatelessPost {
    pub(super) frame: Frame,
    /// The revision; `None` for `initialize`, which negotiates it.
    pub(super) revision: Option<Revision>,
    pub(super) head: RetainedHead,
    pub(super) principal: Option<Principal>,
}

impl StatelessPost {
    /// Sets the principal on whose behalf the requests are made.
    #[must_use]
    pub fn on_behalf_of(mut self, principal: Option<Principal>) -> Self {
        self.principal = principal;
        self
    }
}

/// Routes a message posted to the endpoint.
pub(super) fn route(
    setup: &Setup,
    head: RetainedHead,
    body: &Bytes,
    known_meta: KnownObject<'_>,
) -> RequestRoute {
    let routed = match rpc::read_knowing(body, setup.config().limits().depth, known_meta) {
        Ok(frame) => route_frame(setup, head, frame),
        Err(malformed) => route_malformed(setup, head, malformed),
    };
    routed.unwrap_or_else(RequestRoute::Answer)
}

fn route_frame(setup: &Setup, head: RetainedHead, frame: Frame) -> Result<RequestRoute, HttpResponse> {
    match frame {
        Frame::Single(Message::Request(request)) => route_request(setup, head, request),
        Frame::Single(Message::Notification(notification)) => route_notification(setup, head, notification),
        Frame::Single(Message::Response(_)) | Frame::Batch(_) => route_to_session(setup, head, Ok(frame)),
    }
}

fn route_notification(
    setup: &Setup,
    head: RetainedHead,
    mut notification: Notification,
) -> Result<RequestRoute, HttpResponse> {
    let id = head.version.error_id();
    let envelope = MirroredParams::read(notification.params.as_ref())
        .map_err(|error| HttpResponse::error(400, id, &error))?;
    //= S3.18 "Server without support for pre-2025-06-18 rejects absent version header"
    if setup.eras() == Eras::ModernOnly && head.version == VersionHeader::Absent {
        return Err(mismatch_response(id, format!("{} header is missing", header::PROTOCOL_VERSION)));
    }
    let modern = envelope.version.is_some() || head.version.era() == Some(Era::Modern);
    let is_modern = modern && setup.eras() != Eras::LegacyOnly;
    // Only the server of a session can report that it is tolerated.
    let config = setup.config();
    let tolerates = config.server.strictness == Strictness::Lenient && !is_modern && !config.stateless;
    if let Some(deviation) = notification.deviation.take_if(|_| !tolerates) {
        return route_malformed(setup, head, *deviation);
    }
    if is_modern {
        check_notification(&head, &notification.method, &envelope)
            .map_err(|what| mismatch_response(id, what))?;
        check_spoken(setup, &envelope)?;
        //= S3.6 "Notification accepted → 202 without body"
        return Ok(RequestRoute::Notification(PostedNotification::new(notification, head)));
    }
    route_to_session(setup, head, Ok(Frame::Single(Message::Notification(notification))))
}

fn route_malformed(
    setup: &Setup,
    head: RetainedHead,
    malformed: Malformed,
) -> Result<RequestRoute, HttpResponse> {
    if malformed.recovered.kind == Some(EnvelopeKind::Response) && head.session.is_some() {
        return route_to_session(setup, head, Err(Box::new(malformed)));
    }
    Err(HttpResponse::malformed(&malformed, head.version.error_id()))
}

/// Routes a message posted by a 2024-11-05 client.
pub(super) fn route_message(setup: &Setup, head: RetainedHead, id: SessionId, body: &Bytes) -> RequestRoute {
    match rpc::read(body, setup.config().limits().depth) {
        Err(malformed) if malformed.recovered.kind != Some(EnvelopeKind::Response) => {
            RequestRoute::Answer(HttpResponse::malformed(&malformed, ErrorId::Null))
        }
        read => RequestRoute::LegacyPost { id, post: Post { content: read.map_err(Box::new), head } },
    }
}

fn route_request(setup: &Setup, head: RetainedHead, request: Request) -> Result<RequestRoute, HttpResponse> {
    let id = ErrorId::Known(&request.id);
    let envelope = MirroredParams::read(request.params.as_ref())
        .map_err(|error| HttpResponse::error(400, id, &error))?;
    let (eras, stateless) = (setup.eras(), setup.config().stateless);
    let is_modern = eras != Eras::LegacyOnly && envelope.version.is_some();
    if is_modern {
        let extension = setup.mirrored_param(&request.method);
        check_headers(&head, &request, extension, &envelope).map_err(|what| mismatch_response(id, what))?;
        if &*request.method == SubscriptionsListen::NAME && head.accepts == AcceptedTypes::Json {
            let what = "the answer is text/event-stream";
            return Err(HttpResponse::refusal(406, id, code::INVALID_REQUEST, what));
        }
    } else if eras != Eras::ModernOnly && &*request.method == Initialize::NAME && !stateless {
        let content = Ok(Frame::Single(Message::Request(request)));
        return Ok(RequestRoute::OpenSession(Post { content, head }));
    }
    let says_so = eras == Eras::ModernOnly
        || &*request.method == Discover::NAME
        || head.version.era() == Some(Era::Modern)
        || (head.session.is_none() && envelope.names_capabilities());
    // The peer reports the missing parts.
    if is_modern || (eras != Eras::LegacyOnly && says_so) {
        return Ok(RequestRoute::Modern(ModernRequest { request, head, principal: None }));
    }
    route_to_session(setup, head, Ok(Frame::Single(Message::Request(request))))
}

fn route_to_session(
    setup: &Setup,
    head: RetainedHead,
    content: Result<Frame, Box<Malformed>>,
) -> Result<RequestRoute, HttpResponse> {
    let (version, session) = (head.version, head.session);
    let post = Post { content, head };
    let id = post.request_id().map_or(version.error_id(), ErrorId::Known);
    //= S3.6 "not accepted → HTTP error"
    let refuse = |what: &str| Err(HttpResponse::refusal(400, id, code::INVALID_REQUEST, what));
    //= S3.18 "others may assume 2025-03-26"
    match session {
        _ if version == VersionHeader::Unknown => refuse(UNKNOWN_VERSION),
        _ if version.era() == Some(Era::Modern) => {
            refuse("one request or notification at a time can be posted at this revision")
        }
        _ if setup.eras() == Eras::ModernOnly => refuse("there are no sessions here"),
        _ if setup.config().stateless => route_stateless(post),
        Some(Some(id)) => Ok(RequestRoute::Session { id, post }),
        Some(None) => Err(HttpResponse::unknown_session(post.request_id())),
        None => {
            let known = setup.eras() != Eras::LegacyOnly && post.request_id().is_some();
            let (code, instead) =
                if known { (code::INVALID_PARAMS, MISSING_META) } else { (code::INVALID_REQUEST, "") };
            let what = format!("mcp-session-id is missing: a session begins with initialize{instead}");
            Err(HttpResponse::refusal(400, id, code, what))
        }
    }
}

//= S3.18 "others may assume 2025-03-26"
/// The revision of a request without `MCP-Protocol-Version`.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header>
const ASSUMED: Revision = Revision::V2025_03_26;

/// Routes a message whose version header is not that of the modern era.
fn route_stateless(post: Post) -> Result<RequestRoute, HttpResponse> {
    let Post { content, head } = post;
    let version = head.version;
    let refuse = |what: &str| Err(version.refuse(400, what));
    let frame = content.map_err(|malformed| HttpResponse::malformed(&malformed, version.error_id()))?;
    let named = match version {
        VersionHeader::Known(revision) => revision,
        VersionHeader::Absent | VersionHeader::Unknown => ASSUMED,
    };
    let revision = match &frame {
        Frame::Single(Message::Request(request)) if &*request.method == Initialize::NAME => None,
        Frame::Single(Message::Request(_)) => Some(named),
        // There is no session that it could change, and no other request that it could cancel.
        Frame::Single(Message::Notification(notification)) => {
            let posted = PostedNotification::new(notification.clone(), head);
            return Ok(RequestRoute::Notification(posted));
        }
        Frame::Single(Message::Response(_)) => return refuse("this server sends no requests"),
        Frame::Batch(batch) => {
            if !named.differences().batches {
                return refuse("batches are not part of this revision");
            }
            let mut messages = batch.clone().peekable();
            if messages.peek().is_none() {
                return refuse("an empty batch");
            }
            if !messages.any(|message| is_answered(&message)) {
                return Ok(RequestRoute::Answer(HttpResponse::empty(202)));
            }
            Some(named)
        }
    };
    Ok(RequestRoute::Stateless(StatelessPost { frame, revision, head, principal: None }))
}

const MISSING_META: &str = "; without one, missing in _meta: io.modelcontextprotocol/protocolVersion \
                    io.modelcontextprotocol/clientCapabilities";

// --- Headers and body ---

/// The parameters that headers mirror, and those that tell the eras apart: an object without repeated ones among them.
#[derive(Default)]
struct MirroredParams<'a> {
    params: Option<&'a Raw>,
    version: Option<&'a str>,
}

impl<'a> MirroredParams<'a> {
    /// The parameters that may be mirrored.
    const NAMES: [&'static str; 5] = ["_meta", "name", "uri", "taskId", "arguments"];
    /// The keys of `_meta` that tell the eras apart.
    const KEYS: [&'static str; 2] = [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES];

    fn read(params: Option<&'a Raw>) -> Result<Self, ErrorObject> {
        // Positional members would be read as named ones; the peer refuses such parameters.
        let Some(params) = params.filter(|params| params.as_bytes().starts_with(b"{")) else {
            return Ok(Self::default());
        };
        let version = match params.known_meta() {
            Some(meta) => meta.and_then(|meta| first_member(meta, meta::PROTOCOL_VERSION).ok()?),
            None => Self::check(params.as_str())?,
        };
        Ok(Self { params: Some(params), version: version.filter(|version| *version != "null") })
    }

    /// Checks parameters of which the scan has noted nothing. Returns the version.
    fn check(params: &'a str) -> Result<Option<&'a str>, ErrorObject> {
        let unreadable =
            |code, what: String| ErrorObject::new(code, format!("the parameters cannot be read: {what}"));
        let no_json = |error: serde_json::Error| unreadable(code::PARSE_ERROR, format!("{error}"));
        let mut found = [None; 5];
        let repeated = collect_members(params, &Self::NAMES, &mut found).map_err(no_json)?;
        let mut keys = [None; 2];
        let repeated_key = match found.first() {
            Some(Some(meta)) if meta.starts_with('{') => {
                collect_members(meta, &Self::KEYS, &mut keys).map_err(no_json)?
            }
            _ => None,
        };
        let repeated = repeated.and_then(|index| Self::NAMES.get(index));
        match repeated.or(repeated_key.and_then(|index| Self::KEYS.get(index))) {
            Some(name) => Err(unreadable(code::INVALID_PARAMS, format!("duplicate field `{name}`"))),
            None => Ok(keys[0]),
        }
    }

    /// Whether `_meta` has the capabilities of the client.
    fn names_capabilities(&self) -> bool {
        let meta = self.params.and_then(Raw::meta);
        let capabilities =
            meta.and_then(|meta| read_members(meta.as_str(), [meta::CLIENT_CAPABILITIES]).ok()?[0].map(drop));
        capabilities.is_some()
    }

    /// Whether the client declares an extension, and what that needs.
    fn declares(&self, extension: &Extension) -> bool {
        let meta = self.params.and_then(Raw::meta);
        let declared = meta.and_then(|meta| {
            let [declared] = read_members(meta.as_str(), [meta::CLIENT_CAPABILITIES]).ok()?;
            decode_member::<ClientCapabilities>(declared)
        });
        declared.is_some_and(|declared| extension.undeclared_by_client(&declared).is_none())
    }

    /// Returns the parameter that `Mcp-Name` mirrors for a method.
    fn mirrored_name(&self, method: &str) -> Option<Cow<'a, str>> {
        let name = match method {
            CallTool::NAME | GetPrompt::NAME => "name",
            ReadResource::NAME => "uri",
            GetTask::NAME | UpdateTask::NAME | CancelTask::NAME => "taskId",
            _ => return None,
        };
        member_text(self.params?, name)
    }
}

/// Returns the member `name` of an object if it is a string.
fn member_text<'a>(object: &'a Raw, name: &str) -> Option<Cow<'a, str>> {
    unescape(first_member(object.as_str(), name).ok()??)
}

//= S3.8 "Missing/mismatching MCP-Protocol-Version, Mcp-Method, Mcp-Name"
/// Checks that the headers of a request match its body. `extension` is the one that defines the method, if one does, with
/// the parameter that `Mcp-Name` mirrors. A client that does not declare the extension need not mirror it: the peer refuses
/// its request with -32021.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation>
fn check_headers(
    head: &RetainedHead,
    request: &Request,
    extension: Option<(&Extension, &str)>,
    envelope: &MirroredParams<'_>,
) -> Result<(), String> {
    let method = &*request.method;
    if let Some(version) = envelope.version.and_then(unescape) {
        check_equal(&head.version_text, header::PROTOCOL_VERSION, &version, None)?;
    }
    check_equal(&head.method, header::METHOD, method, None)?;
    let of_extension = match (&request.params, extension) {
        (Some(_), Some((extension, _)))
            if matches!(head.name, SingleHeader::Absent) && !envelope.declares(extension) =>
        {
            None
        }
        (Some(params), Some((_, name))) => {
            let members = read_members(params.as_str(), [name]);
            let [member] = members.map_err(|error| format!("the parameters cannot be read: {error}"))?;
            member
        }
        _ => None,
    };
    match envelope.mirrored_name(method).or_else(|| unescape(of_extension?)) {
        //= S3.9 "Decode the Base64 sentinel before comparing; reject invalid characters"
        Some(name) => check_equal(&head.name, header::NAME, &name, Some(value::decode)),
        // The body lacks a required member, which is reported as such.
        None => Ok(()),
    }
}

/// Checks that the headers of a notification match its body. None of them is required.
fn check_notification(
    head: &RetainedHead,
    method: &str,
    envelope: &MirroredParams<'_>,
) -> Result<(), String> {
    let of = |header: &SingleHeader, name, body: Option<&str>| match (header, body) {
        (SingleHeader::Absent, _) | (_, None) => Ok(()),
        (header, Some(body)) => check_equal(header, name, body, None),
    };
    of(&head.version_text, header::PROTOCOL_VERSION, envelope.version.and_then(unescape).as_deref())?;
    of(&head.method, header::METHOD, Some(method))
}

/// Checks that the version named by a notification is supported. (The peer checks that of a request.)
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#protocol-version-header>
fn check_spoken(setup: &Setup, envelope: &MirroredParams<'_>) -> Result<(), HttpResponse> {
    let eras = setup.eras();
    match envelope.version.and_then(unescape) {
        //= S3.12 "Unsupported version → 400 + -32022"
        Some(version) if !eras.modern().iter().any(|revision| revision.as_str() == version) => {
            let error = unsupported_version(eras, version.into_owned());
            Err(HttpResponse::error(400, ErrorId::Null, &error))
        }
        _ => Ok(()),
    }
}

type DecodedHeader<'a> = Result<Cow<'a, str>, value::HeaderValueError>;

/// Checks that a header has a value of the body; `decode` reads one that may be encoded.
fn check_equal(
    header: &SingleHeader,
    name: &str,
    body: &str,
    decode: Option<fn(&[u8]) -> DecodedHeader<'_>>,
) -> Result<(), String> {
    let header = match header {
        SingleHeader::Value(header) => header,
        SingleHeader::Absent => {
            return Err(format!("{name} header is missing, body value is {}", quoted(body)));
        }
        SingleHeader::Conflicting => return Err(format!("{name} header comes with several values")),
    };
    let text = match decode {
        None if **header == *body.as_bytes() => return Ok(()),
        None => String::from_utf8_lossy(header),
        Some(decode) => decode(header).map_err(|error| format!("{name} header cannot be read: {error}"))?,
    };
    if text == body {
        return Ok(());
    }
    Err(format!("{name} header value {} does not match body value {}", quoted(&text), quoted(body)))
}

/// Quotes a value for an error message, shortened.
fn quoted(text: &str) -> String {
    const MAX_QUOTED: usize = 200;
    match text.char_indices().nth(MAX_QUOTED).and_then(|(end, _)| text.get(..end)) {
        Some(beginning) => format!("'{beginning}…'"),
        None => format!("'{text}'"),
    }
}

fn mismatch_response(id: ErrorId<'_>, what: String) -> HttpResponse {
    let what = format!("Header mismatch: {what}");
    HttpResponse::refusal(400, id, code::HEADER_MISMATCH, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(meta: &str) -> Result<(Option<String>, bool), ErrorObject> {
        let params = Raw::new(format!(r#"{{"_meta":{meta}}}"#)).unwrap();
        let read = MirroredParams::read(Some(&params))?;
        Ok((read.version.map(String::from), read.names_capabilities()))
    }

    #[test]
    fn route_reads_the_metadata_that_tells_the_eras_apart() {
        let meta = format!(r#"{{"{}":1,"{}":{{}}}}"#, meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES);
        assert_eq!(read(&meta), Ok((Some("1".into()), true)));
        for meta in ["null", "[1]", "{}"] {
            assert_eq!(read(meta), Ok((None, false)), "{meta}");
        }
    }

    #[test]
    fn route_refuses_metadata_with_two_versions() {
        let meta = format!(r#"{{"{0}":"2026-07-28","{0}":"2025-11-25"}}"#, meta::PROTOCOL_VERSION);
        assert_eq!(read(&meta).unwrap_err().code, code::INVALID_PARAMS);
    }
}
