//! Frames on the wire, whole and redacted, for logs and debugging.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use mcp_proto::Secret;
use mcp_proto::codec::media;
use mcp_proto::host::config::{Answers, Lookup, ResolvedSpec, ServerEntry};
use mcp_proto::redact::{Pseudonyms, Redactor, is_secret_header};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, header as own_headers};
use mcp_smol::WireDirection;

use super::bounded_text::{BoundedText, TextLines};
use super::connection_trace::ConnectionTrace;
use crate::WireEvent;

/// Most responses that are read at a time. Of one that exceeds them, the rest is not shown.
const MAX_BODIES: usize = 256;

/// Most bytes of the long ones of them. A long one that exceeds them is cut.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// A frame of a connection, in the order of the wire: see [`HostOptions::on_wire`](super::HostOptions::on_wire).
///
/// `Display` writes a line for a log: `→` marks what was sent and `←` what was received. Texts of peers are not escaped
/// in it: pass it through [`SafeText`](mcp_proto::consent::SafeText) before a terminal shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WireFrame<'a> {
    /// A line of a program, a message on a WebSocket, a line of an event stream, or the body of another response.
    Message {
        /// Who sent it.
        direction: WireDirection,
        /// The response that it is a part of, over HTTP.
        exchange: Option<ExchangeId>,
        /// The text. Of JSON that is longer than 16 MiB it is only the beginning, and of another text that is longer than 64 KiB
        /// [a mark alone](Redactor::cut_frame).
        text: Cow<'a, [u8]>,
        /// The length of the whole in bytes, secrets included.
        bytes: usize,
        /// Whether the text is not the whole.
        is_cut: bool,
    },
    /// A request over HTTP.
    Request {
        /// The exchange that it begins.
        exchange: ExchangeId,
        /// Its method.
        method: &'a Method,
        /// Its URL.
        url: Cow<'a, str>,
        /// Its headers.
        headers: Cow<'a, HeaderMap>,
        /// Its body, or a part of it as of a [message](Self::Message).
        body: Cow<'a, [u8]>,
        /// The length of the whole body in bytes, secrets included.
        bytes: usize,
        /// Whether the body is not the whole.
        is_cut: bool,
    },
    /// The head of a response.
    Response {
        /// The exchange that it belongs to.
        exchange: ExchangeId,
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: Cow<'a, HeaderMap>,
    },
    /// The end of an exchange.
    End {
        /// The exchange.
        exchange: ExchangeId,
        /// How it ended; `None` if this side aborted it.
        end: Option<&'a ExchangeEnd>,
    },
}

impl WireFrame<'_> {
    /// The length in bytes of a message or body that is not here as a whole.
    pub fn cut_bytes(&self) -> Option<usize> {
        match self {
            Self::Message { bytes, is_cut, .. } | Self::Request { bytes, is_cut, .. } => {
                is_cut.then_some(*bytes)
            }
            Self::Response { .. } | Self::End { .. } => None,
        }
    }
}

impl fmt::Display for WireFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { direction, text, .. } => {
                let arrow = if *direction == WireDirection::Sent { '→' } else { '←' };
                write!(f, "{arrow} {}", String::from_utf8_lossy(text))?;
            }
            Self::Request { method, url, body, .. } => {
                write!(f, "→ {method} {url} {}", String::from_utf8_lossy(body))?;
            }
            Self::Response { status, .. } => write!(f, "← {status}")?,
            Self::End { end: None, .. } => write!(f, "→ the exchange is aborted")?,
            Self::End { end: Some(end), .. } => match end {
                ExchangeEnd::Complete => write!(f, "← the response is complete")?,
                ExchangeEnd::Truncated(why) => write!(f, "← the response broke off: {why}")?,
                ExchangeEnd::Failed { detail, .. } => write!(f, "← there was no response: {detail}")?,
                ExchangeEnd::Unreachable(why) => write!(f, "← {why}")?,
            },
        }
        self.cut_bytes().map_or(Ok(()), |bytes| write!(f, " … ({bytes} bytes)"))
    }
}

/// Observes the frames of one connection: messages whole, and without their secrets.
///
/// A host passes it the traffic of a connection. The options of a single client do so by their own observer:
///
/// ```
/// use mcp_hyper::ClientOptions;
/// use mcp_hyper::host::WireObserver;
///
/// use mcp_hyper::mcp_proto::consent::SafeText;
///
/// let mut observer = WireObserver::new(|frame| eprintln!("{}", SafeText::line(&frame.to_string())));
/// let options = ClientOptions::new("my-agent", "1.0.0").on_wire(move |event| observer.handle_event(event));
/// ```
#[must_use = "an observer sees only traffic that is passed to it"]
pub struct WireObserver {
    frames: SharedFrames,
    output: Output,
}

/// Where the frames go.
enum Output {
    Sink(Box<dyn FnMut(WireFrame<'_>) + Send>),
    /// Its thread reads the streams of bytes.
    Trace(ConnectionTrace),
}

/// What reads the frames of a connection: its trace and an observer have it.
pub(super) type SharedFrames = Arc<Mutex<FrameReader>>;

/// Reads the frames in the traffic of a connection.
pub(super) struct FrameReader {
    redactor: Option<Redactor>,
    pseudonyms: Option<Pseudonyms>,
    streams: Streams,
    /// The bodies of responses that have not ended.
    bodies: BTreeMap<ExchangeId, Body>,
}

/// The two directions of a connection that is a stream.
#[derive(Default)]
struct Streams {
    sent: TextLines,
    received: TextLines,
}

impl Streams {
    fn of(&mut self, direction: WireDirection) -> &mut TextLines {
        match direction {
            WireDirection::Sent => &mut self.sent,
            WireDirection::Received => &mut self.received,
        }
    }
}

/// The part of a body that was not passed on.
enum Body {
    Events(TextLines),
    Whole(BoundedText<'static>),
}

impl Body {
    fn text(&mut self) -> &mut BoundedText<'static> {
        match self {
            Self::Events(lines) => &mut lines.partial,
            Self::Whole(text) => text,
        }
    }
}

impl WireObserver {
    /// Calls `watch` with each frame, redacted by [`Redactor::new`]. The driver calls it: it should be quick.
    pub fn new(watch: impl FnMut(WireFrame<'_>) + Send + 'static) -> Self {
        Self { frames: FrameReader::shared(Redactor::new(), None), output: Output::Sink(Box::new(watch)) }
    }

    /// Observes the traffic of a connection for its trace.
    pub(super) fn of_trace(frames: SharedFrames, trace: ConnectionTrace) -> Self {
        Self { frames, output: Output::Trace(trace) }
    }

    fn frames(&self) -> MutexGuard<'_, FrameReader> {
        lock(&self.frames)
    }

    setters! {
        /// Hides nothing: tokens and passwords are in the frames then.
        pub fn unredacted(self) { self.frames().redactor = None }

        /// Sets what hides the secrets. A host adds those that it knows.
        pub fn redactor(self, redactor: Redactor) { self.frames().set_redactor(redactor) }
    }

    /// Hides the secrets of a connection too.
    pub(super) fn hiding(self, entry: &ServerEntry, resolved: &ResolvedSpec, answers: &Answers) -> Self {
        let mut frames = self.frames();
        let redactor = frames.redactor.take();
        frames.redactor = redactor.map(|redactor| with_secrets_of(redactor, entry, resolved, answers));
        drop(frames);
        self
    }

    /// Takes bytes of a stream: see [`mcp_smol::ClientOptions::on_wire`].
    pub fn handle_bytes(&mut self, direction: WireDirection, bytes: &[u8]) {
        match &mut self.output {
            Output::Sink(sink) => lock(&self.frames).handle_bytes(direction, bytes, sink),
            Output::Trace(trace) => trace.record_bytes(direction, Bytes::copy_from_slice(bytes)),
        }
    }

    /// Takes an event of a connection over HTTP or WebSocket: see
    /// [`ClientOptions::on_wire`](crate::ClientOptions::on_wire).
    pub fn handle_event(&mut self, event: WireEvent<'_>) {
        match &mut self.output {
            Output::Sink(sink) => lock(&self.frames).handle_event(event, sink),
            Output::Trace(trace) => trace.record_event(event),
        }
    }
}

impl Drop for WireObserver {
    /// Shows the lines that the streams ended in. Those of a traced connection end with the connection.
    fn drop(&mut self) {
        if let Output::Sink(sink) = &mut self.output {
            lock(&self.frames).end_streams(sink);
        }
    }
}

debug_fields! { WireObserver(self) { redactor = self.frames().redactor } }

/// Locks a part of a connection, also after a panic of the application's observer.
pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes frames, in the order of the wire.
type FrameSink<'a> = &'a mut dyn FnMut(WireFrame<'_>);

/// Reads the frames of an event later.
pub(super) type LaterEvent = Box<dyn FnOnce(&mut FrameReader, FrameSink<'_>) + Send>;

/// Copies an event, so that its frames can be read later; returns how many bytes the copy has, too.
pub(super) fn read_later(event: WireEvent<'_>) -> (usize, LaterEvent) {
    let length = |headers: &HeaderMap| -> usize {
        headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
    };
    match event {
        WireEvent::Request { exchange, method, url, headers, body } => {
            let (method, url, headers, body) =
                (method.clone(), url.to_owned(), headers.clone(), body.to_vec());
            let bytes = url.len() + length(&headers) + body.len();
            let read = move |frames: &mut FrameReader, sink: FrameSink<'_>| {
                let (method, url, headers, body) = (&method, &*url, &headers, &*body);
                frames.handle_event(WireEvent::Request { exchange, method, url, headers, body }, sink);
            };
            (bytes, Box::new(read))
        }
        WireEvent::Head { exchange, status, headers } => {
            let headers = headers.clone();
            (
                length(&headers),
                Box::new(move |frames, sink| {
                    frames.handle_event(WireEvent::Head { exchange, status, headers: &headers }, sink);
                }),
            )
        }
        WireEvent::Body { exchange, bytes } => {
            later_bytes(bytes, move |bytes| WireEvent::Body { exchange, bytes })
        }
        #[cfg(feature = "websocket")]
        WireEvent::MessageSent(text) => later_bytes(text, |text| WireEvent::MessageSent(text)),
        #[cfg(feature = "websocket")]
        WireEvent::MessageReceived(text) => later_bytes(text, |text| WireEvent::MessageReceived(text)),
        WireEvent::Aborted { exchange } => {
            (0, Box::new(move |frames, sink| frames.handle_event(WireEvent::Aborted { exchange }, sink)))
        }
        WireEvent::End { exchange, end } => {
            let end = end.clone();
            (
                0,
                Box::new(move |frames, sink| {
                    frames.handle_event(WireEvent::End { exchange, end: &end }, sink);
                }),
            )
        }
    }
}

fn later_bytes(
    bytes: &[u8],
    event: impl FnOnce(&[u8]) -> WireEvent<'_> + Send + 'static,
) -> (usize, LaterEvent) {
    let bytes = bytes.to_vec();
    (bytes.len(), Box::new(move |frames, sink| frames.handle_event(event(&bytes), sink)))
}

impl FrameReader {
    /// A reader with this redactor. A redactor that replaces it gets the pseudonyms.
    pub(super) fn shared(redactor: Redactor, pseudonyms: Option<Pseudonyms>) -> SharedFrames {
        let (streams, bodies) = (Streams::default(), BTreeMap::new());
        Arc::new(Mutex::new(Self { redactor: Some(redactor), pseudonyms, streams, bodies }))
    }

    /// Sets what hides the secrets.
    fn set_redactor(&mut self, redactor: Redactor) {
        self.redactor = Some(match &self.pseudonyms {
            Some(pseudonyms) => redactor.pseudonyms(pseudonyms.clone()),
            None => redactor,
        });
    }

    /// Takes bytes of a stream.
    pub(super) fn handle_bytes(&mut self, direction: WireDirection, bytes: &[u8], sink: FrameSink<'_>) {
        let mut rest = bytes;
        while let Some(line) = self.streams.of(direction).next(&mut rest, self.redactor.as_ref()) {
            self.show(direction, None, line, sink);
        }
    }

    /// Leaves out the present line of a stream, a part of which is lost.
    pub(super) fn skip_line(&mut self, direction: WireDirection) {
        self.streams.of(direction).skip_line();
    }

    /// Leaves out the rest of all responses that have not ended, since a part of one is lost.
    pub(super) fn skip_bodies(&mut self) {
        self.bodies.clear();
    }

    /// Ends the streams: shows the lines that lack their ends.
    pub(super) fn end_streams(&mut self, sink: FrameSink<'_>) {
        for direction in [WireDirection::Sent, WireDirection::Received] {
            if let Some(line) = self.streams.of(direction).end() {
                self.show(direction, None, line, sink);
            }
        }
    }

    /// Takes an event of a connection over HTTP or WebSocket.
    fn handle_event(&mut self, event: WireEvent<'_>, sink: FrameSink<'_>) {
        match event {
            WireEvent::Request { exchange, method, url, headers, body } => {
                self.learn(headers);
                let (url, headers) = (self.url(url), self.headers(headers));
                let mut body = BoundedText::new(body, self.redactor.as_ref());
                let (bytes, is_cut, body) = body.redacted(self.redactor.as_mut());
                sink(WireFrame::Request { exchange, method, url, headers, body, bytes, is_cut });
            }
            WireEvent::Head { exchange, status, headers } => {
                self.open_body(exchange, headers, sink);
                let headers = self.headers(headers);
                sink(WireFrame::Response { exchange, status, headers });
            }
            WireEvent::Body { exchange, bytes } => self.handle_body(exchange, bytes, sink),
            #[cfg(feature = "websocket")]
            WireEvent::MessageSent(text) => self.show_whole(WireDirection::Sent, text, sink),
            #[cfg(feature = "websocket")]
            WireEvent::MessageReceived(text) => self.show_whole(WireDirection::Received, text, sink),
            WireEvent::End { exchange, end } => {
                self.close_body(exchange, sink);
                let end = self.end(end);
                sink(WireFrame::End { exchange, end: Some(&end) });
            }
            WireEvent::Aborted { exchange } => {
                self.close_body(exchange, sink);
                sink(WireFrame::End { exchange, end: None });
            }
        }
    }

    fn open_body(&mut self, exchange: ExchangeId, headers: &HeaderMap, sink: FrameSink<'_>) {
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_stream = media::is_type(kind, "text/event-stream");
        let body = match is_stream {
            true => Body::Events(TextLines::default()),
            false => Body::Whole(BoundedText::default()),
        };
        self.bodies.insert(exchange, body);
        if self.bodies.len() > MAX_BODIES
            && let Some(oldest) = self.bodies.keys().next().copied()
        {
            self.close_body(oldest, sink);
        }
    }

    fn handle_body(&mut self, exchange: ExchangeId, mut piece: &[u8], sink: FrameSink<'_>) {
        // Without an entry, a part of a message is missing: the rest cannot be redacted.
        if let Some(Body::Whole(text)) = self.bodies.get_mut(&exchange) {
            text.push(piece, self.redactor.as_ref());
        }
        while let Some(Body::Events(lines)) = self.bodies.get_mut(&exchange)
            && let Some(line) = lines.next(&mut piece, self.redactor.as_ref())
        {
            self.show(WireDirection::Received, Some(exchange), line, sink);
        }
        let kept = |body: &mut Body| body.text().kept_bytes();
        if self.bodies.get_mut(&exchange).is_some_and(|body| kept(body) > BoundedText::LONGEST)
            && self.bodies.values_mut().map(kept).sum::<usize>() > MAX_BODY_BYTES
            && let Some(body) = self.bodies.get_mut(&exchange)
        {
            body.text().cut(self.redactor.as_ref());
        }
    }

    /// Passes on the rest of a response.
    fn close_body(&mut self, exchange: ExchangeId, sink: FrameSink<'_>) {
        match self.bodies.remove(&exchange) {
            Some(Body::Events(mut lines)) => {
                if let Some(line) = lines.end() {
                    self.show(WireDirection::Received, Some(exchange), line, sink);
                }
            }
            Some(Body::Whole(text)) if !text.is_empty() => {
                self.show(WireDirection::Received, Some(exchange), text, sink);
            }
            _ => {}
        }
    }

    #[cfg(feature = "websocket")]
    fn show_whole(&mut self, direction: WireDirection, text: &[u8], sink: FrameSink<'_>) {
        let text = BoundedText::new(text, self.redactor.as_ref());
        self.show(direction, None, text, sink);
    }

    fn show(
        &mut self,
        direction: WireDirection,
        exchange: Option<ExchangeId>,
        mut text: BoundedText<'_>,
        sink: FrameSink<'_>,
    ) {
        let (bytes, is_cut, text) = text.redacted(self.redactor.as_mut());
        sink(WireFrame::Message { direction, exchange, text, bytes, is_cut });
    }

    fn url<'a>(&self, url: &'a str) -> Cow<'a, str> {
        self.redactor.as_ref().map_or(Cow::Borrowed(url), |redactor| redactor.text(url))
    }

    /// Hides the credentials of a request wherever they come back. A proof of possession is of use only once.
    fn learn(&mut self, headers: &HeaderMap) {
        let Some(redactor) = &mut self.redactor else { return };
        let is_lasting = |name: &HeaderName, value: &HeaderValue| match name.as_str() {
            "authorization" | "proxy-authorization" | "cookie" => true,
            name => value.is_sensitive() && name != "dpop",
        };
        let lasting = headers.iter().filter(|(name, value)| is_lasting(name, value));
        lasting.for_each(|(_, value)| redactor.learn(value.as_bytes()));
        let host = headers.get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
        if let Some(end) = host.iter().rposition(|byte| *byte == b'@') {
            redactor.learn(host.get(..end).unwrap_or_default());
        }
    }

    /// Hides the secrets in the description of an end.
    fn end<'a>(&self, end: &'a ExchangeEnd) -> Cow<'a, ExchangeEnd> {
        let Some(redactor) = &self.redactor else { return Cow::Borrowed(end) };
        let shown = |text: &str| redactor.text(text).into_owned();
        match end {
            ExchangeEnd::Complete => Cow::Borrowed(end),
            ExchangeEnd::Truncated(why) => Cow::Owned(ExchangeEnd::Truncated(shown(why))),
            ExchangeEnd::Failed { sent, detail } => {
                Cow::Owned(ExchangeEnd::Failed { sent: *sent, detail: shown(detail) })
            }
            ExchangeEnd::Unreachable(why) => Cow::Owned(ExchangeEnd::Unreachable(shown(why))),
        }
    }

    fn headers<'a>(&self, headers: &'a HeaderMap) -> Cow<'a, HeaderMap> {
        let Some(redactor) = &self.redactor else { return Cow::Borrowed(headers) };
        let mut shown = headers.clone();
        let is_of_task =
            headers.get(own_headers::METHOD).is_some_and(|method| method.as_bytes().starts_with(b"tasks/"));
        for (name, value) in &mut shown {
            let text = String::from_utf8_lossy(value.as_bytes());
            let text = match name.as_str() {
                name @ (own_headers::SESSION_ID | own_headers::LAST_EVENT_ID) => redactor.header(name, &text),
                // Values of an application's source are secret under any name.
                _ if value.is_sensitive() => redactor.header("authorization", &text),
                own_headers::NAME if is_of_task => redactor.identifier_text(&text),
                name => redactor.header(name, &text),
            };
            let text = text.into_owned();
            *value = HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("…"));
        }
        Cow::Owned(shown)
    }
}

/// Adds the secrets of a connection: typed passwords, values with secret names, the secrets in its URL and its arguments.
pub(super) fn with_secrets_of(
    redactor: Redactor,
    entry: &ServerEntry,
    resolved: &ResolvedSpec,
    answers: &Answers,
) -> Redactor {
    let inputs = &entry.spec().inputs;
    let is_password = |id: &str| inputs.iter().any(|input| input.id == id && input.is_password);
    let looked_up = answers.iter().filter(|(lookup, _)| match lookup {
        Lookup::Input(id) => is_password(id),
        Lookup::Variable(name) => is_secret_header(name),
        _ => false,
    });
    let (named, other, redactor) = match resolved {
        ResolvedSpec::Stdio(program) => {
            let words: Vec<_> = program.args.iter().map(Secret::expose).collect();
            (&program.env, None, redactor.known_in_command(&words))
        }
        ResolvedSpec::Http(server) => {
            (&server.headers, server.client_secret.as_ref(), redactor.known_in(server.url.expose()))
        }
    };
    let named = named.iter().filter(|(name, _)| is_secret_header(name));
    let secrets = looked_up.map(|(_, secret)| secret).chain(named.map(|(_, secret)| secret)).chain(other);
    secrets.fold(redactor, |redactor, secret| redactor.known(secret.expose()))
}

/// Makes the observer of a connection, if it has one.
pub(super) type ObserverOf = Arc<dyn Fn(&ServerEntry) -> Option<WireObserver> + Send + Sync>;
