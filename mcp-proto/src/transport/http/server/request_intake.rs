//! Request intake: checks the head of a request and collects its body.

use alloc::borrow::Cow;
use core::mem;

use bytes::{Bytes, BytesMut};

use super::Setup;
use super::cors::answer_preflight;
use super::origin::{FETCH_SITE, rejection_message};
#[cfg(feature = "trace-file")]
use super::recorded::{EXCHANGE, ExchangeOrigin};
use super::request_head::{
    RequestHead, RetainedHead, SessionId, SingleHeader, VersionHeader, session_of_query,
};
use super::response::{AcceptedTypes, EVENTS, HttpResponse, JSON};
use super::route::{RequestRoute, route, route_message};
use crate::codec::{header as value, media};
use crate::peer::server::Eras;
use crate::prelude::*;
use crate::quota::{ByteAccount, BytePurpose};
use crate::rpc::KnownObject;
#[cfg(feature = "std")]
use crate::schema::Revision;
use crate::schema::{CallTool, Era, Method};
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineOrigin, MachineRecorder, MachineStep, TracedFrame};
use crate::transport::http::param_headers::ParamHeaders;
use crate::transport::http::{Fields, HeaderValues, header, read_headers};

/// Records a step, if the exchange has a recorder. It has no clock before it is open.
macro_rules! record {
    ($self:ident, $step:expr) => {
        #[cfg(feature = "trace-file")]
        if let Some(recorder) = &$self.head.recorder {
            recorder.record(None, $step, None);
        }
    };
}

/// A request whose body is still being received.
///
/// ```
/// use mcp_proto::Bytes;
/// use mcp_proto::transport::http::server::{HttpServerConfig, RequestIntake, RequestHead, RequestRoute, Setup};
/// use mcp_proto::peer::server::ServerConfig;
/// use mcp_proto::schema::Implementation;
///
/// let setup = Setup::new(HttpServerConfig::new(ServerConfig::new(Implementation::new("demo", "1.0"))));
/// let fields = [("host", "localhost"), ("content-type", "application/json"), ("accept", "*/*")];
/// let mut intake = RequestIntake::new(&setup, &RequestHead { method: "POST", path: "/mcp", fields: &fields, client: None }).unwrap();
/// intake.handle_body(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"meth"#)).unwrap();
/// intake.handle_body(Bytes::from_static(br#"od":"ping"}"#)).unwrap();
/// let RequestRoute::Answer(answer) = intake.finish() else { panic!() };
/// assert_eq!(answer.status, 400); // there is no session
/// ```
#[derive(Debug)]
pub struct RequestIntake {
    setup: Setup,
    target: IntakeTarget,
    head: RetainedHead,
    body: Bytes,
}

#[derive(Debug)]
enum IntakeTarget {
    /// The endpoint; the body must hold a message.
    Endpoint,
    /// The message endpoint of HTTP+SSE (2024-11-05).
    Messages(SessionId),
    /// The head alone decided the route.
    Routed(Box<RequestRoute>),
}

impl From<RequestRoute> for IntakeTarget {
    fn from(routed: RequestRoute) -> Self {
        Self::Routed(Box::new(routed))
    }
}

impl RequestIntake {
    /// Checks the head of a request and prepares to receive its body.
    ///
    /// # Errors
    /// The answer to a request that is refused, or that asks before another (CORS); its body need not be read.
    pub fn new(setup: &Setup, head: &RequestHead<'_>) -> Result<Self, HttpResponse> {
        #[cfg(feature = "trace-file")]
        if let Some(server) = setup.recorder() {
            return Self::record(setup, head, server);
        }
        Self::check(setup, head)
    }

    /// Begins to record the exchange of a request.
    #[cfg(feature = "trace-file")]
    fn record(setup: &Setup, head: &RequestHead<'_>, server: &MachineRecorder) -> Result<Self, HttpResponse> {
        let origin = ExchangeOrigin::new(server.machine(), head);
        let recorder = server.begin(None, MachineOrigin::new(EXCHANGE, &origin));
        match Self::check(setup, head) {
            Ok(mut intake) => {
                intake.head.recorder = Some(recorder);
                Ok(intake)
            }
            Err(answer) => {
                recorder.record(None, MachineStep::Returned(answer.whole_text()), None);
                Err(answer)
            }
        }
    }

    fn check(setup: &Setup, head: &RequestHead<'_>) -> Result<Self, HttpResponse> {
        // Those that most requests have come first.
        let headers = read_headers(
            head.fields,
            [
                "content-type",
                "accept",
                header::PROTOCOL_VERSION,
                header::METHOD,
                header::NAME,
                "host",
                "origin",
                FETCH_SITE,
                "content-length",
                header::SESSION_ID,
                header::LAST_EVENT_ID,
            ],
        );
        let [content_type, accept, version, method, name, address @ .., content_length, session, last_event] =
            &headers;
        let config = setup.config();
        let (version, version_text) = VersionHeader::read(version);
        let refuse = |status: u16, what: &str| version.refuse(status, what);
        let (place, query) = check_address(setup, head.path, address, version)?;
        let sessions = setup.eras() != Eras::ModernOnly && !config.stateless;
        //= S3.1 "Single endpoint, POST (25: and GET)"
        let allowed = match place {
            EndpointKind::Events => "GET",
            EndpointKind::Messages => "POST",
            //= S3.24 "GET → SSE or 405"
            _ if sessions && version.era() != Some(Era::Modern) => "GET, POST, DELETE",
            _ => "POST",
        };
        if config.cors.as_ref().is_some_and(|cors| cors.is_preflight(head)) {
            return Err(answer_preflight(head, allowed));
        }
        let is_post = head.method == "POST";
        let is_allowed = match place {
            EndpointKind::Events => head.method == "GET",
            _ => is_post || allowed.split(", ").any(|verb| verb == head.method),
        };
        if !is_allowed {
            //= F50 "other HTTP methods get 405"
            return Err(refuse(405, "this method has no meaning here").with_header("allow", allowed));
        }
        if is_post && !content_type.first.is_some_and(|value| media::is_type(value, JSON)) {
            return Err(refuse(415, "a message is application/json"));
        }
        let accepts = accepted_types(accept, head.method, place)
            .ok_or_else(|| refuse(406, "the answer is application/json or text/event-stream"))?;
        let length = content_length.first.and_then(|length| core::str::from_utf8(length).ok());
        let limit = config.body_limit();
        if length
            .and_then(|length| length.trim().parse::<u64>().ok())
            .is_some_and(|length| length > limit as u64)
        {
            return Err(refuse(413, &too_long_message(limit)));
        }
        let kept = RetainedHead {
            accepts,
            version,
            version_text,
            method: SingleHeader::read(method),
            name: SingleHeader::read(name),
            session: session.first.map(|id| setup.parse_session(id.trim_ascii())),
            params: Vec::new(),
            permit: None,
            #[cfg(feature = "trace-file")]
            recorder: None,
        };
        let opens_events = match place {
            EndpointKind::Events => true,
            EndpointKind::EndpointAndEvents => head.method == "GET" && kept.session.is_none(),
            EndpointKind::Endpoint | EndpointKind::Messages => false,
        };
        let target = match (head.method, place) {
            //= R2 "client POSTs only there"
            ("POST", EndpointKind::Messages) => {
                let id = session_of_query(query).and_then(|id| setup.parse_session(id.as_bytes()));
                IntakeTarget::Messages(id.ok_or_else(|| HttpResponse::unknown_session(None))?)
            }
            ("POST", _) => IntakeTarget::Endpoint,
            _ if opens_events => RequestRoute::LegacyEvents.into(),
            ("GET", _) => {
                let last_event = last_event.first.map(|id| String::from_utf8_lossy(id).into_owned());
                RequestRoute::Listen { id: kept.session()?, last_event }.into()
            }
            _ => RequestRoute::Delete { id: kept.session()? }.into(),
        };
        Ok(Self { setup: setup.clone(), target, head: kept, body: Bytes::new() })
    }

    /// Returns the tool that the headers name, for a tool call.
    ///
    /// If the tool has mirrored parameters, [keep](Self::retain_params) their headers now.
    #[must_use]
    pub fn tool(&self) -> Option<Cow<'_, str>> {
        match (&self.head.method, &self.head.name) {
            (SingleHeader::Value(method), SingleHeader::Value(name))
                if **method == *CallTool::NAME.as_bytes() =>
            {
                value::decode(name).ok()
            }
            _ => None,
        }
    }

    /// Keeps the headers that mirror parameters of the [tool](Self::tool).
    ///
    /// [`ModernRequest::check`](super::ModernRequest::check) compares them with the arguments.
    pub fn retain_params(&mut self, params: &ParamHeaders, fields: &dyn Fields) {
        fields.each(&mut |name, value| {
            if let Some(name) = params.names().find(|known| known.eq_ignore_ascii_case(name)) {
                self.head.params.push((name.into(), value.to_vec()));
            }
        });
    }

    /// Charges the body to the account of the request's owner until the request is answered.
    ///
    /// By default the body is charged to no account.
    #[must_use]
    #[inline]
    pub fn charge(mut self, account: &ByteAccount) -> Self {
        #[cfg(feature = "trace-file")]
        if let Some(recorder) = &self.head.recorder {
            self.head.permit = Some(account.recorded(recorder).permit());
            return self;
        }
        self.head.permit = Some(account.permit());
        self
    }

    /// Returns whether the body is needed. If not, call [`finish`](Self::finish) at once.
    pub fn wants_body(&self) -> bool {
        !matches!(self.target, IntakeTarget::Routed(_))
    }

    /// Returns the body so far.
    #[cfg(feature = "std")]
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Replaces the body.
    #[cfg(feature = "std")]
    pub(crate) fn set_body(&mut self, body: Bytes) {
        record!(self, MachineStep::Message(TracedFrame::whole(&body)));
        if let Some(permit) = &mut self.head.permit {
            permit.set(body.len());
        }
        self.body = body;
    }

    /// Appends a chunk of the body.
    ///
    /// # Errors
    /// The answer to a request whose body is too long, or for which the byte budget has no room; the rest need not be
    /// read.
    pub fn handle_body(&mut self, bytes: Bytes) -> Result<(), HttpResponse> {
        record!(self, MachineStep::Input(TracedFrame::whole(&bytes)));
        let taken = self.append(bytes);
        #[cfg(feature = "trace-file")]
        if let Err(answer) = &taken {
            record!(self, MachineStep::Returned(answer.whole_text()));
        }
        taken
    }

    fn append(&mut self, bytes: Bytes) -> Result<(), HttpResponse> {
        if bytes.is_empty() || !self.wants_body() {
            return Ok(());
        }
        let limit = self.setup.config().body_limit();
        let is_too_long = self.body.len().saturating_add(bytes.len()) > limit;
        let permit = self.head.permit.as_mut().filter(|_| !is_too_long);
        let grown = permit.map_or(Ok(()), |permit| permit.try_grow(bytes.len(), BytePurpose::Request));
        let version = self.head.version;
        if is_too_long || grown.is_err() {
            (self.body, self.head.permit) = (Bytes::new(), None);
            return Err(if is_too_long {
                version.refuse(413, too_long_message(limit))
            } else {
                HttpResponse::over_budget(version.error_id())
            });
        }
        self.body = match mem::take(&mut self.body) {
            // Most bodies arrive in one chunk, and are not copied.
            begun if begun.is_empty() => bytes,
            begun => {
                let mut collected = begun.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
                collected.extend_from_slice(&bytes);
                collected.freeze()
            }
        };
        Ok(())
    }

    /// Returns the answer to a request whose body was not complete in time.
    ///
    /// The limit is [`body_timeout`](super::HttpServerConfig::body_timeout).
    ///
    /// The caller measures the time.
    #[must_use]
    pub fn time_out(self) -> HttpResponse {
        record!(self, MachineStep::Timeout);
        let timeout = self.setup.config().body_timeout;
        let what = format!("the request body did not arrive within {timeout:?}");
        let answer = self.head.version.refuse(408, what);
        record!(self, MachineStep::Returned(answer.whole_text()));
        answer
    }

    /// Returns the revision that the headers name.
    #[cfg(feature = "std")]
    pub(crate) fn revision(&self) -> Option<Revision> {
        match self.head.version {
            VersionHeader::Known(revision) => Some(revision),
            VersionHeader::Absent | VersionHeader::Unknown => None,
        }
    }

    /// Routes the request, whose body is complete.
    #[must_use]
    pub fn finish(self) -> RequestRoute {
        self.finish_knowing(&|_| None)
    }

    /// Like [`finish`](Self::finish), with the `_meta` of an earlier request.
    pub(crate) fn finish_knowing(self, known_meta: KnownObject<'_>) -> RequestRoute {
        record!(self, MachineStep::Eof(String::new()));
        #[cfg(feature = "trace-file")]
        let recorder = self.head.recorder.clone();
        let routed = match self.target {
            IntakeTarget::Endpoint => route(&self.setup, self.head, &self.body, known_meta),
            IntakeTarget::Messages(id) => route_message(&self.setup, self.head, id, &self.body),
            IntakeTarget::Routed(routed) => *routed,
        };
        #[cfg(feature = "trace-file")]
        if let Some(recorder) = recorder {
            recorder.record(None, MachineStep::Returned(routed.whole_text()), None);
        }
        routed
    }
}

fn too_long_message(limit: usize) -> String {
    format!("the request body is longer than the {limit} bytes of `HttpServerConfig::body_bytes`")
}

/// The endpoint at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointKind {
    Endpoint,
    /// Where clients of 2024-11-05 open their event stream.
    Events,
    /// Where clients of 2024-11-05 post their messages.
    Messages,
    /// The endpoint, which also opens the event streams of 2024-11-05.
    EndpointAndEvents,
}

/// Checks the head of a request to turn its connection into a channel of whole messages, such as a WebSocket.
///
/// The handshake of the channel itself is the adapter's.
#[cfg(feature = "std")]
pub(crate) fn check_upgrade(setup: &Setup, head: &RequestHead<'_>) -> Result<(), HttpResponse> {
    let [address @ .., version] =
        read_headers(head.fields, ["host", "origin", FETCH_SITE, header::PROTOCOL_VERSION]);
    let (version, _) = VersionHeader::read(&version);
    let (place, _) = check_address(setup, head.path, &address, version)?;
    match (head.method, place) {
        ("GET", EndpointKind::Endpoint | EndpointKind::EndpointAndEvents) => Ok(()),
        _ => {
            let what = "no connection is upgraded here";
            Err(version.refuse(405, what).with_header("allow", "GET"))
        }
    }
}

/// Checks where a request comes from, and which endpoint it is for. Returns also the query.
fn check_address<'a>(
    setup: &Setup,
    path: &'a str,
    [host, origin, fetch_site]: &[HeaderValues<'_>; 3],
    version: VersionHeader,
) -> Result<(EndpointKind, &'a str), HttpResponse> {
    let config = setup.config();
    let refuse = |status: u16, what: &str| Err(version.refuse(status, what));
    //= S3.2 "Origin present and invalid → 403"
    //= R2 "Origin check"
    let is_cross_origin = config.cors.as_ref().is_some_and(|cors| cors.allowed(origin).is_some());
    if !is_cross_origin && !config.origins.allows(origin, fetch_site) {
        let rejected = if origin.first.is_some() { ("origin", origin) } else { (FETCH_SITE, fetch_site) };
        return refuse(403, &rejection_message(rejected, "origins"));
    }
    if !config.hosts.allows(host) {
        return refuse(403, &rejection_message(("host", host), "hosts"));
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    match endpoint_kind(setup, path) {
        Some(place) => Ok((place, query)),
        None => refuse(404, "there is nothing at this path"),
    }
}

pub(super) fn endpoint_kind(setup: &Setup, path: &str) -> Option<EndpointKind> {
    let config = setup.config();
    let legacy = config.legacy_sse.as_ref().filter(|_| setup.eras() != Eras::ModernOnly && !config.stateless);
    let endpoint = config.path.as_deref() == Some(path);
    match legacy {
        Some(legacy) if legacy.events == path => {
            Some(if endpoint { EndpointKind::EndpointAndEvents } else { EndpointKind::Events })
        }
        Some(legacy) if legacy.messages == path => Some(EndpointKind::Messages),
        _ => (endpoint || config.path.is_none()).then_some(EndpointKind::Endpoint),
    }
}

/// The `Accept` header that the specification shows.
const JSON_OR_EVENTS: &str = "application/json, text/event-stream";

fn accepted_types(accept: &HeaderValues<'_>, method: &str, place: EndpointKind) -> Option<AcceptedTypes> {
    // What most clients send needs no parsing.
    let is_usual = accept.others.is_empty() && accept.first == Some(JSON_OR_EVENTS.as_bytes());
    let accepts = |full| is_usual || media::accepts(accept.iter(), full);
    match (method, accepts(JSON), accepts(EVENTS)) {
        // The answer to DELETE has no body.
        ("DELETE", ..) => Some(AcceptedTypes::Either),
        _ if place == EndpointKind::Messages => Some(AcceptedTypes::Either),
        ("POST", true, true) => Some(AcceptedTypes::Either),
        ("POST", true, false) => Some(AcceptedTypes::Json),
        (_, _, true) => Some(AcceptedTypes::Events),
        (_, _, false) => None,
    }
}
