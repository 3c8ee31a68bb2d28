//! The trace of a server over HTTP: a session is one connection of it, whichever sockets its requests come by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::header::UPGRADE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use mcp_proto::redact::Redactor;
use mcp_proto::trace_file::MachineRecorder;
use mcp_proto::transport::http::{ExchangeId, header};

use super::connection_trace::ConnectionTrace;
use super::trace_file::TraceFile;
use super::wire::lock;
use crate::WireEvent;

/// Most sessions whose later requests are recognised.
const MAX_SESSIONS: usize = 10_000;

/// The trace of a server over HTTP: see [`TraceFile::http_server`].
#[derive(Clone)]
pub struct HttpServerTrace(Arc<TracedServer>);

struct TracedServer {
    file: TraceFile,
    server: String,
    transport: String,
    redactor: Redactor,
    sessions: Mutex<Sessions<ConnectionTrace>>,
}

/// The connections of the sessions that were used last.
struct Sessions<C> {
    /// By their ids, those of HTTP+SSE by the queries of their endpoints; each with the number of its last use.
    by_id: BTreeMap<HeaderValue, (u64, C)>,
    /// The ids by the number of their last use.
    by_use: BTreeMap<u64, HeaderValue>,
    uses: u64,
}

impl<C: Clone> Sessions<C> {
    fn new() -> Self {
        Self { by_id: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The connection of a session, which is used now.
    fn get(&mut self, id: &HeaderValue) -> Option<C> {
        let (used, connection) = self.by_id.get_mut(id)?;
        self.uses += 1;
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(*used, id.clone());
        Some(connection.clone())
    }

    /// Adds a session. One that was used longest ago makes room for it, and is returned.
    fn insert(&mut self, id: HeaderValue, connection: C) -> Option<C> {
        self.uses += 1;
        self.by_use.insert(self.uses, id.clone());
        let before = self.by_id.insert(id, (self.uses, connection));
        before.as_ref().inspect(|(used, _)| _ = self.by_use.remove(used));
        let most = self.by_id.len() > MAX_SESSIONS;
        let oldest = self.by_use.first_key_value().filter(|_| most).map(|(_, id)| id.clone());
        oldest.and_then(|oldest| self.remove(&oldest)).or(before.map(|(_, connection)| connection))
    }

    fn remove(&mut self, id: &HeaderValue) -> Option<C> {
        let (used, connection) = self.by_id.remove(id)?;
        self.by_use.remove(&used);
        Some(connection)
    }
}

impl HttpServerTrace {
    pub(super) fn new(file: TraceFile, (server, transport): (&str, &str), redactor: Redactor) -> Self {
        Self(Arc::new(TracedServer {
            file,
            server: server.into(),
            transport: transport.into(),
            redactor,
            sessions: Mutex::new(Sessions::new()),
        }))
    }

    /// The observer of a socket, for `ServerOptions::on_wire`. What passes is in the trace of its session; what has none, in one
    /// of the socket.
    pub fn observer(&self) -> Box<dyn FnMut(WireEvent<'_>) + Send> {
        let mut socket =
            TracedSocket { server: self.clone(), own: None, is_websocket: false, exchanges: BTreeMap::new() };
        Box::new(move |event| socket.handle_event(event))
    }

    /// A recorder of the machines of the server, for `ServerConfig::recorder`; `None` if the file is to have no secrets.
    pub fn recorder(&self) -> Option<MachineRecorder> {
        self.0.file.has_secrets().then(|| self.open(&self.0.transport).recorder()).flatten()
    }

    fn open(&self, transport: &str) -> ConnectionTrace {
        let server = &self.0;
        server.file.connection_of_server(&server.server, transport, server.redactor.clone())
    }

    fn session(&self, id: &HeaderValue) -> Option<ConnectionTrace> {
        lock(&self.0.sessions).get(id)
    }
}

debug_fields! { HttpServerTrace(self) { server = self.0.server } }

/// A socket of the server.
struct TracedSocket {
    server: HttpServerTrace,
    /// The connection of what belongs to no session so far.
    own: Option<ConnectionTrace>,
    /// Whether the first request asked for a WebSocket.
    is_websocket: bool,
    exchanges: BTreeMap<ExchangeId, TracedExchange>,
}

struct TracedExchange {
    connection: ConnectionTrace,
    method: Method,
    /// The session that the request names.
    session: Option<HeaderValue>,
    /// The session of HTTP+SSE of which this is the stream.
    endpoint: Option<HeaderValue>,
}

/// The query of a URL.
fn query(url: &[u8]) -> Option<HeaderValue> {
    let query = url.splitn(2, |byte| *byte == b'?').nth(1)?;
    HeaderValue::from_bytes(query).ok()
}

impl TracedSocket {
    fn handle_event(&mut self, event: WireEvent<'_>) {
        match event {
            WireEvent::Request { exchange, method, url, headers, .. } => {
                self.begin(exchange, method, url, headers).record_event(event);
            }
            WireEvent::Head { exchange, status, headers } => {
                self.connection(exchange).record_event(event);
                if status == StatusCode::SWITCHING_PROTOCOLS && !self.is_websocket {
                    self.own = None;
                }
                self.note_session(exchange, status, headers);
            }
            WireEvent::Body { exchange, bytes } => {
                self.connection(exchange).record_event(event);
                self.note_endpoint(exchange, bytes);
            }
            WireEvent::Aborted { exchange } | WireEvent::End { exchange, .. } => {
                self.connection(exchange).record_event(event);
                let ended = self.exchanges.remove(&exchange).and_then(|exchange| exchange.endpoint);
                // Its end is recorded without the lock.
                let _ended = ended.and_then(|endpoint| lock(&self.server.0.sessions).remove(&endpoint));
            }
            #[cfg(feature = "websocket")]
            WireEvent::MessageSent(_) | WireEvent::MessageReceived(_) => {
                let server = &self.server;
                self.own.get_or_insert_with(|| server.open("websocket")).record_event(event);
            }
        }
    }

    fn own(&mut self) -> ConnectionTrace {
        let server = &self.server;
        self.own.get_or_insert_with(|| server.open(&server.0.transport)).clone()
    }

    fn connection(&mut self, exchange: ExchangeId) -> ConnectionTrace {
        match self.exchanges.get(&exchange) {
            Some(exchange) => exchange.connection.clone(),
            None => self.own(),
        }
    }

    fn begin(
        &mut self,
        exchange: ExchangeId,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
    ) -> ConnectionTrace {
        // A request that names its method is modern, and has no session.
        let is_legacy = !headers.contains_key(header::METHOD);
        let names_session = is_legacy && [Method::GET, Method::POST, Method::DELETE].contains(method);
        let session = headers.get(header::SESSION_ID).filter(|_| names_session).cloned();
        let upgrade = headers.get(UPGRADE).filter(|_| method == Method::GET && self.own.is_none());
        if upgrade.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket")) {
            self.own = Some(self.server.open("websocket"));
            self.is_websocket = true;
        }
        let known = match &session {
            Some(session) => self.server.session(session),
            None => query(url.as_bytes()).and_then(|endpoint| self.server.session(&endpoint)),
        };
        let connection = known.unwrap_or_else(|| self.own());
        let (method, of_exchange) = (method.clone(), connection.clone());
        let begun = TracedExchange { connection: of_exchange, method, session, endpoint: None };
        self.exchanges.insert(exchange, begun);
        connection
    }

    /// Notes the endpoint that the stream of HTTP+SSE names first; its query identifies the session until the stream ends.
    fn note_endpoint(&mut self, exchange: ExchangeId, bytes: &[u8]) {
        if let Some(event) = bytes.strip_prefix(b"event: endpoint")
            && let Some(endpoint) = query(event.trim_ascii_end())
            && let Some(exchange) = self.exchanges.get_mut(&exchange)
            && exchange.endpoint.is_none()
            && exchange.method == Method::GET
        {
            exchange.endpoint = Some(endpoint.clone());
            let connection = exchange.connection.clone();
            self.own.take_if(|own| own.is_same(&connection));
            let _ended = lock(&self.server.0.sessions).insert(endpoint, connection);
        }
    }

    /// Notes the session that a response begins or ends, or that another instance has begun.
    fn note_session(&mut self, exchange: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        let Some(exchange) = self.exchanges.get(&exchange).filter(|_| status.is_success()) else { return };
        let Some(id) = headers.get(header::SESSION_ID).or(exchange.session.as_ref()) else { return };
        let (id, connection) = (id.clone(), exchange.connection.clone());
        let mut sessions = lock(&self.server.0.sessions);
        let ended = if exchange.method == Method::DELETE {
            sessions.remove(&id)
        } else if sessions.get(&id).is_none() {
            // The session has this connection alone.
            self.own.take_if(|own| own.is_same(&connection));
            sessions.insert(id, connection)
        } else {
            None
        };
        // Its end is recorded without the lock.
        drop(sessions);
        drop(ended);
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use std::io::{self, Write};

    use mcp_proto::front::Router;
    use mcp_proto::schema::{Json, Tool};
    use mcp_proto::trace_file::{RequestOutcome, Sender, Trace, TraceReport, TracedRequest};
    use mcp_proto::transport::http::ExchangeEnd;
    use serde_json::json;

    use super::*;

    /// What a trace has written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A server whose exchanges have numbers of their own on all sockets.
    struct Server {
        file: TraceFile,
        trace: HttpServerTrace,
        written: Written,
        exchanges: u64,
    }

    type Socket = Box<dyn FnMut(WireEvent<'_>) + Send>;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    impl Server {
        fn new(redactor: Redactor) -> Self {
            let written = Written::default();
            let file = TraceFile::to_sink(written.clone(), "test").unwrap();
            let trace = file.http_server("notes", "http", redactor);
            Self { file, trace, written, exchanges: 0 }
        }

        fn begin(&mut self, socket: &mut Socket, method: &Method, session: &str, body: &str) -> ExchangeId {
            self.exchanges += 1;
            let (exchange, url) = (ExchangeId::new(self.exchanges), "http://localhost/mcp");
            let session = (!session.is_empty()).then_some((header::SESSION_ID, session));
            let headers = &headers(session.as_slice());
            socket(WireEvent::Request { exchange, method, url, headers, body: body.as_bytes() });
            exchange
        }

        fn end(&self, socket: &mut Socket, exchange: ExchangeId, session: &str, body: &str) {
            let session = (!session.is_empty()).then_some((header::SESSION_ID, session));
            let headers = &headers(session.as_slice());
            socket(WireEvent::Head { exchange, status: StatusCode::OK, headers });
            if !body.is_empty() {
                socket(WireEvent::Body { exchange, bytes: body.as_bytes() });
            }
            socket(WireEvent::End { exchange, end: &ExchangeEnd::Complete });
        }

        fn post(&mut self, socket: &mut Socket, session: &str, body: &str, begun: &str, answer: &str) {
            let exchange = self.begin(socket, &Method::POST, session, body);
            self.end(socket, exchange, begun, answer);
        }

        fn initialize(&mut self, socket: &mut Socket, session: &str) {
            let params = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
            let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
            let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
            self.post(socket, "", &request, session, answer);
        }

        fn report(&self) -> (TraceReport, String) {
            self.file.flush().unwrap();
            let text = lock(&self.written.0).clone();
            (Trace::parse(&text).unwrap().report(), String::from_utf8(text).unwrap())
        }
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"unlock","arguments":{"pin":"1234"}}}"#;

    /// S1.1
    #[test]
    fn session_is_one_connection_on_all_sockets() {
        let mut server = Server::new(Redactor::new());
        let (mut first, mut second) = (server.trace.observer(), server.trace.observer());
        // A proxy has the requests of several clients on a socket.
        let modern = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        server.post(&mut first, "", modern, "", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        for session in ["one", "two"] {
            server.initialize(&mut first, session);
        }
        let call = server.begin(&mut first, &Method::POST, "one", CALL);
        let asked =
            r#"data: {"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?"}}"#;
        first(WireEvent::Head {
            exchange: call,
            status: StatusCode::OK,
            headers: &headers(&[("content-type", "text/event-stream")]),
        });
        first(WireEvent::Body { exchange: call, bytes: format!("{asked}\n\n").as_bytes() });
        // Neither id is taken: it is another session's.
        server.post(&mut second, "two", CALL, "", r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#);
        let declined = r#"{"jsonrpc":"2.0","id":"e","result":{"action":"decline"}}"#;
        server.post(&mut second, "one", declined, "", "");
        let result = r#"data: {"jsonrpc":"2.0","id":2,"result":{"content":[],"isError":true}}"#;
        first(WireEvent::Body { exchange: call, bytes: format!("{result}\n\n").as_bytes() });
        first(WireEvent::End { exchange: call, end: &ExchangeEnd::Complete });
        drop((first, second));

        let (report, text) = server.report();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let numbers: Vec<_> = report.connections.iter().map(|it| (it.number, it.is_closed)).collect();
        assert_eq!(numbers, [(1, false), (2, false)]);
        let requests = report.requests.iter().map(|it| (it.connection, &*it.method, &it.outcome));
        let (answered, failed) = (&RequestOutcome::Answered, &RequestOutcome::ToolFailed);
        assert_eq!(
            requests.collect::<Vec<_>>(),
            [
                (1, "ping", answered),
                (1, "initialize", answered),
                (2, "initialize", answered),
                (1, "tools/call", failed),
                (1, "elicitation/create", answered),
                (2, "tools/call", answered),
            ]
        );
        assert!(!text.contains("\"one\""), "sessions have pseudonyms: {text}");

        // A session ends with its client's request, another one with the server.
        let mut third = server.trace.observer();
        let ended = server.begin(&mut third, &Method::DELETE, "one", "");
        server.end(&mut third, ended, "", "");
        let is_closed = |report: &TraceReport| -> Vec<_> {
            report.connections.iter().map(|it| (it.number, it.is_closed)).collect()
        };
        assert_eq!(is_closed(&server.report().0), [(1, true), (2, false)]);
        drop(third);
        let Server { file, trace, written, .. } = server;
        drop(trace);
        file.flush().unwrap();
        let report = Trace::parse(&lock(&written.0)).unwrap().report();
        assert_eq!(is_closed(&report), [(1, true), (2, true)]);
    }

    #[test]
    fn request_without_a_session_belongs_to_its_socket_and_is_answered_in_its_exchange() {
        let mut server = Server::new(Redactor::new());
        let mut sockets = [server.trace.observer(), server.trace.observer()];
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name""#;
        let call = CALL.replacen("\"name\"", meta, 1);
        let begun: Vec<_> = sockets
            .iter_mut()
            .map(|socket| [(); 2].map(|()| server.begin(socket, &Method::POST, "", &call)))
            .collect();
        for (socket, exchanges) in sockets.iter_mut().zip(begun) {
            for (exchange, is_error) in exchanges.into_iter().zip([false, true]) {
                let answer =
                    format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"content":[],"isError":{is_error}}}}}"#);
                server.end(socket, exchange, "", &answer);
            }
        }
        drop(sockets);
        let (report, _) = server.report();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(report.connections.iter().all(|it| it.is_closed) && report.connections.len() == 2);
        let requests: Vec<_> =
            report.requests.iter().map(|it| (it.connection, it.sender, it.outcome.clone())).collect();
        let (answered, failed) = (RequestOutcome::Answered, RequestOutcome::ToolFailed);
        for (at, (connection, outcome)) in
            [(1, &answered), (1, &failed), (2, &answered), (2, &failed)].into_iter().enumerate()
        {
            assert_eq!(requests[at], (connection, Sender::Client, outcome.clone()));
        }
    }

    /// No piece is lost for another that came at the same time.
    #[test]
    fn session_may_be_served_by_several_threads() {
        let mut server = Server::new(Redactor::new());
        let mut first = server.trace.observer();
        server.initialize(&mut first, "one");
        let trace = server.trace.clone();
        std::thread::scope(|scope| {
            for thread in 1..=2 {
                let mut socket = trace.observer();
                scope.spawn(move || {
                    let named = &headers(&[("mcp-session-id", "one")]);
                    for id in (0..200).map(|number| thread * 1000 + number) {
                        let (exchange, method, url) =
                            (ExchangeId::new(id), &Method::POST, "http://localhost/mcp");
                        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
                        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
                        let (body, bytes) = (request.as_bytes(), answer.as_bytes());
                        socket(WireEvent::Request { exchange, method, url, headers: named, body });
                        let (status, headers) = (StatusCode::OK, &HeaderMap::new());
                        socket(WireEvent::Head { exchange, status, headers });
                        socket(WireEvent::Body { exchange, bytes });
                        socket(WireEvent::End { exchange, end: &ExchangeEnd::Complete });
                    }
                });
            }
        });
        let (report, _) = server.report();
        let is_answered = |it: &TracedRequest| it.outcome == RequestOutcome::Answered && it.connection == 1;
        assert!(report.requests.len() == 401 && report.requests.iter().all(is_answered));
    }

    #[test]
    fn modern_request_is_in_no_session() {
        let mut server = Server::new(Redactor::new());
        let mut sockets = [server.trace.observer(), server.trace.observer()];
        server.initialize(&mut sockets[0], "one");
        let named = &headers(&[("mcp-method", "tools/call"), ("mcp-session-id", "one")]);
        let (exchange, method, url) = (ExchangeId::new(9), &Method::POST, "http://localhost/mcp");
        sockets[1](WireEvent::Request { exchange, method, url, headers: named, body: CALL.as_bytes() });
        let (report, _) = server.report();
        assert_eq!(report.requests.iter().map(|it| it.connection).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn sessions_that_are_recognised_are_bounded() {
        let mut sessions = Sessions::new();
        let ids = (0..=MAX_SESSIONS).rev().map(HeaderValue::from);
        let (first, second) = (HeaderValue::from(MAX_SESSIONS), HeaderValue::from(MAX_SESSIONS - 1));
        for id in ids.clone() {
            sessions.insert(id, ());
            // It is always in use.
            sessions.get(&first);
        }
        let forgotten: Vec<_> = ids.filter(|id| !sessions.by_id.contains_key(id)).collect();
        assert_eq!((forgotten, sessions.by_use.len()), (vec![second], MAX_SESSIONS));
    }

    #[cfg(feature = "websocket")]
    #[test]
    fn websocket_is_a_connection_of_that_transport() {
        let server = Server::new(Redactor::new());
        let mut socket = server.trace.observer();
        let (exchange, method, url) = (ExchangeId::new(1), &Method::GET, "http://localhost/mcp");
        let upgrade = &headers(&[("upgrade", "WebSocket")]);
        socket(WireEvent::Request { exchange, method, url, headers: upgrade, body: b"" });
        let headers = &HeaderMap::new();
        socket(WireEvent::Head { exchange, status: StatusCode::SWITCHING_PROTOCOLS, headers });
        socket(WireEvent::End { exchange, end: &ExchangeEnd::Complete });
        socket(WireEvent::MessageReceived(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
        socket(WireEvent::MessageSent(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        drop(socket);
        let (report, _) = server.report();
        assert_eq!(report.connections.len(), 1);
        assert_eq!((&*report.connections[0].transport, report.connections[0].is_closed), ("websocket", true));
        assert_eq!(report.requests[0].outcome, RequestOutcome::Answered);
    }

    #[test]
    fn credentials_in_the_host_of_a_request_are_hidden() {
        let server = Server::new(Redactor::new());
        let mut socket = server.trace.observer();
        let named = &headers(&[("host", "user:hunter22@localhost")]);
        let (exchange, method, url) = (ExchangeId::new(1), &Method::GET, "http://localhost/mcp");
        socket(WireEvent::Request { exchange, method, url, headers: named, body: b"" });
        server.end(&mut socket, exchange, "", "no such host: user:hunter22@localhost");
        let (_, text) = server.report();
        assert!(!text.contains("hunter22") && text.contains("no such host"), "{text}");
    }

    /// The call may come on another socket than the list of the tools.
    #[test]
    fn redactor_of_the_router_hides_passwords_of_its_tools() {
        let schema = json!({ "type": "object", "properties": { "pin": { "format": "password" } } });
        let tool = Tool::new("unlock", "Opens the door", Json::encode(&schema).unwrap());
        let handler = async |_, _| Ok::<_, mcp_proto::front::HandlerError>("ok");
        let router = Router::new("notes", "1.0.0").tool_raw(tool, handler);
        for (redactor, is_hidden) in [(router.redactor(), true), (Redactor::new(), false)] {
            let mut server = Server::new(redactor);
            let mut socket = server.trace.observer();
            server.begin(&mut socket, &Method::POST, "", CALL);
            let (_, text) = server.report();
            assert_eq!(!text.contains("1234"), is_hidden, "{text}");
        }
    }
}
