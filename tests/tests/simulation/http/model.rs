//! A minimal server over HTTP, independent of this workspace: it uses every freedom of the specification.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mcp_proto::testing::http::{HttpOutput, HttpPeer, SimulationRng};
use mcp_proto::transport::http::Verb;
use mcp_proto::transport::http::client::HttpRequest;
use mcp_proto::{Bytes, Instant};
use serde_json::{Value, json};

use super::Ledger;

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// 2026-07-28.
    Modern,
    /// A legacy revision, with a session.
    Session(&'static str),
    /// A legacy revision without one.
    Stateless(&'static str),
    /// HTTP+SSE of 2024-11-05.
    Events,
}

/// How a server reports an unknown session.
#[derive(Clone, Copy, Debug)]
enum UnknownSession {
    NotFound,
    BadRequest,
}

pub struct ModelServer {
    style: Style,
    ledger: Ledger,
    dice: SimulationRng,
    unknown_session: UnknownSession,
    /// Whether events have ids, so that streams can be resumed.
    resumable: bool,
    /// Whether it offers a stream for its own messages.
    listens: bool,
    outputs: VecDeque<(u64, HttpOutput)>,
    delayed: BTreeMap<(Instant, u64), DelayedMessage>,
    next: u64,
    sessions: BTreeMap<String, Session>,
    streams: BTreeMap<u64, Stream>,
    /// Its own requests that wait for the client's reply, and the requests that wait for them.
    pending_requests: BTreeMap<i64, (ReplyTarget, Value)>,
}

#[derive(Default)]
struct Session {
    /// The stream of its own messages; with HTTP+SSE, of all messages.
    stream: Option<u64>,
}

/// Events for one exchange, and for those that resume it.
struct Stream {
    exchange: Option<u64>,
    events: Vec<String>,
    over: bool,
}

/// Where to send the answer to a request.
#[derive(Clone, Copy, Debug)]
enum ReplyTarget {
    /// As the body of this exchange.
    Body(u64),
    /// As an event of this stream; `ends` closes the stream after it.
    Event { stream: u64, ends: bool },
}

enum DelayedMessage {
    Send { target: ReplyTarget, message: Value },
    Answer { target: ReplyTarget, message: Value },
}

impl ModelServer {
    pub fn new(style: Style, ledger: Ledger, seed: u64) -> Self {
        let mut dice = SimulationRng::new(seed);
        Self {
            style,
            ledger,
            unknown_session: *dice.choose(&[UnknownSession::NotFound, UnknownSession::BadRequest]).unwrap(),
            resumable: dice.chance(600),
            listens: dice.chance(600),
            outputs: VecDeque::new(),
            delayed: BTreeMap::new(),
            next: seed << 32,
            sessions: BTreeMap::new(),
            streams: BTreeMap::new(),
            pending_requests: BTreeMap::new(),
            dice,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn delay(&mut self, due: Instant, what: DelayedMessage) {
        let number = self.number();
        self.delayed.insert((due, number), what);
    }

    // --- Answers of HTTP ---

    fn head(&mut self, exchange: u64, status: u16, headers: &[(&str, &str)]) {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.outputs.push_back((exchange, HttpOutput::Head { status, headers }));
    }

    fn respond(&mut self, exchange: u64, status: u16, headers: &[(&str, &str)], body: &str) {
        self.head(exchange, status, headers);
        if !body.is_empty() {
            // In pieces, as from a socket.
            let (first, rest) = body.split_at(body.len() / 2);
            for part in [first, rest] {
                self.outputs.push_back((exchange, HttpOutput::Body(Bytes::copy_from_slice(part.as_bytes()))));
            }
        }
        self.outputs.push_back((exchange, HttpOutput::End));
    }

    fn refuse(&mut self, exchange: u64, status: u16, code: i64, message: &str) {
        let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
        self.respond(exchange, status, &[("content-type", "application/json")], &body.to_string());
    }

    // --- Streams ---

    fn open(&mut self, exchange: u64, headers: &[(&str, &str)]) -> u64 {
        let stream = self.number();
        let mut all = vec![("content-type", "text/event-stream; charset=utf-8")];
        all.extend(headers);
        self.head(exchange, 200, &all);
        self.streams.insert(stream, Stream { exchange: Some(exchange), events: Vec::new(), over: false });
        if self.resumable && self.style != Style::Modern && self.style != Style::Events {
            self.emit(stream, "");
        }
        stream
    }

    fn emit(&mut self, stream: u64, data: &str) {
        let resumable = self.resumable && matches!(self.style, Style::Session(_) | Style::Stateless(_));
        let Some(entry) = self.streams.get_mut(&stream) else { return };
        let id = format!("{stream}-{}", entry.events.len());
        let mut text = String::new();
        if resumable {
            text += &format!("id: {id}\n");
            if data.is_empty() {
                text += "retry: 50\n";
            }
        }
        text += &format!("data: {data}\n\n");
        if resumable {
            entry.events.push(text.clone());
        }
        if let Some(exchange) = entry.exchange {
            self.outputs.push_back((exchange, HttpOutput::Body(Bytes::from(text))));
        }
    }

    fn finish(&mut self, stream: u64) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.over = true;
            if let Some(exchange) = entry.exchange.take() {
                self.outputs.push_back((exchange, HttpOutput::End));
            }
        }
    }

    fn resume(&mut self, exchange: u64, last: &str) {
        let known = last.split_once('-').and_then(|(stream, event)| {
            let (stream, event) = (stream.parse().ok()?, event.parse::<usize>().ok()?);
            self.streams.contains_key(&stream).then_some((stream, event))
        });
        let Some((stream, event)) = known else { return self.refuse(exchange, 400, -32000, "no such event") };
        self.head(exchange, 200, &[("content-type", "text/event-stream")]);
        let entry = self.streams.get_mut(&stream).unwrap();
        for text in entry.events.iter().skip(event + 1) {
            self.outputs.push_back((exchange, HttpOutput::Body(Bytes::from(text.clone()))));
        }
        // A later exchange replaces the one that read the stream.
        let before = entry.exchange.take();
        if entry.over {
            self.outputs.push_back((exchange, HttpOutput::End));
        } else {
            entry.exchange = Some(exchange);
        }
        if let Some(before) = before {
            self.outputs.push_back((before, HttpOutput::End));
        }
    }

    // --- Messages ---

    fn send(&mut self, target: ReplyTarget, message: &Value) {
        if let ReplyTarget::Event { stream, .. } = target {
            self.emit(stream, &message.to_string());
        }
    }

    fn answer(&mut self, target: ReplyTarget, message: &Value) {
        let text = message.to_string();
        match target {
            ReplyTarget::Body(exchange) => {
                let unknown = message["error"]["code"] == -32601 && self.style == Style::Modern;
                let status = if unknown { 404 } else { 200 };
                self.respond(exchange, status, &[("content-type", "application/json")], &text);
            }
            ReplyTarget::Event { stream, ends } => {
                self.emit(stream, &text);
                if ends {
                    self.finish(stream);
                }
            }
        }
    }

    fn post(&mut self, now: Instant, exchange: u64, request: &HttpRequest) {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return self.refuse(exchange, 400, -32700, "not JSON");
        };
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let header = |wanted: &str| {
            request.headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| &**value)
        };
        let mut events = None;
        match self.style {
            Style::Modern => {
                if method == "initialize" || header("mcp-protocol-version") != Some("2026-07-28") {
                    let data = json!({"supported": ["2026-07-28"]});
                    let error = json!({"code": -32022, "message": "?", "data": data});
                    let body = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                    let headers = [("content-type", "application/json")];
                    return self.respond(exchange, 400, &headers, &body.to_string());
                }
            }
            Style::Stateless(_)
                if method != "initialize" && header("mcp-protocol-version") == Some("2026-07-28") =>
            {
                return self.refuse(exchange, 400, -32000, "Bad Request: Unsupported protocol version");
            }
            Style::Stateless(_) => {}
            Style::Session(_) => {
                let session = header("mcp-session-id");
                if method != "initialize"
                    && !session.is_some_and(|session| self.sessions.contains_key(session))
                {
                    return match (self.unknown_session, session) {
                        (UnknownSession::NotFound, Some(_)) => {
                            self.refuse(exchange, 404, -32001, "Session not found")
                        }
                        _ => self.refuse(exchange, 400, -32000, "Bad Request: No valid session ID provided"),
                    };
                }
            }
            Style::Events => {
                let session = request.url.split_once("session=").map(|(_, session)| session);
                let Some(session) = session else { return self.respond(exchange, 405, &[], "") };
                let Some(stream) = self.sessions.get(session).and_then(|session| session.stream) else {
                    return self.respond(
                        exchange,
                        404,
                        &[("content-type", "text/plain")],
                        "Session not found",
                    );
                };
                events = Some(ReplyTarget::Event { stream, ends: false });
            }
        }
        if events.is_some() {
            self.respond(exchange, 202, &[("content-type", "text/plain")], "Accepted");
        }
        if message.get("id").is_none() || method.is_empty() {
            if events.is_none() {
                self.respond(exchange, 202, &[], "");
            }
            if let Some((target, held)) =
                message["id"].as_i64().and_then(|id| self.pending_requests.remove(&id))
            {
                self.answer(target, &held);
            }
            return;
        }
        let mut headers = Vec::new();
        let session = self.number().to_string();
        if method == "initialize" && matches!(self.style, Style::Session(_)) {
            headers.push(("mcp-session-id", &*session));
            self.sessions.insert(session.clone(), Session::default());
        }
        let asks = message["params"]["name"] == "ask";
        let streams = asks || method == "subscriptions/listen" || self.dice.chance(500);
        let target = match events {
            Some(target) => target,
            None if streams => ReplyTarget::Event { stream: self.open(exchange, &headers), ends: true },
            None if !headers.is_empty() => {
                let body = self.result(&message, &method);
                headers.push(("content-type", "application/json"));
                return self.respond(exchange, 200, &headers, &body.to_string());
            }
            None => ReplyTarget::Body(exchange),
        };
        self.act(now, target, &message, &method);
    }

    fn act(&mut self, now: Instant, target: ReplyTarget, message: &Value, method: &str) {
        if method == "subscriptions/listen" && self.style == Style::Modern {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
            let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
            let acknowledged = "notifications/subscriptions/acknowledged";
            self.send(target, &json!({"jsonrpc": "2.0", "method": acknowledged, "params": params}));
            return;
        }
        let answer = self.result(message, method);
        let mut due = now;
        if method == "tools/call" {
            let token = &message["params"]["_meta"]["progressToken"];
            for progress in 1..=self.dice.below(4) {
                due = due + Duration::from_millis(self.dice.below(4000));
                let params = json!({"progressToken": token, "progress": progress});
                let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                if !token.is_null() {
                    self.delay(due, DelayedMessage::Send { target, message });
                }
            }
            due = due + Duration::from_millis(self.dice.below(3000));
            if message["params"]["name"] == "ask" && self.style != Style::Modern {
                let id = i64::try_from(self.number() & 0xffff_ffff).unwrap();
                self.send(target, &json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}));
                self.pending_requests.insert(id, (target, answer));
                return;
            }
        }
        if due == now {
            self.answer(target, &answer);
        } else {
            self.delay(due, DelayedMessage::Answer { target, message: answer });
        }
    }

    fn result(&mut self, message: &Value, method: &str) -> Value {
        let complete = "complete";
        let result = match (method, self.style) {
            ("server/discover", Style::Modern) => json!({
                "resultType": complete, "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "private",
            }),
            ("initialize", Style::Session(_) | Style::Stateless(_) | Style::Events) => {
                let version = match self.style {
                    Style::Session(version) | Style::Stateless(version) => version,
                    _ => "2024-11-05",
                };
                json!({
                    "protocolVersion": version, "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "model", "version": "1"},
                })
            }
            ("tools/list", _) => {
                let tool = |name, hints| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints});
                json!({"resultType": complete, "ttlMs": 0, "cacheScope": "private", "tools": [
                    tool("pay", json!({})), tool("look", json!({"readOnlyHint": true})),
                    tool("set", json!({"idempotentHint": true})), tool("ask", json!({})),
                ]})
            }
            ("tools/call", _) => {
                let n = message["params"]["arguments"]["n"].as_u64().unwrap();
                self.ledger.note_run(n);
                json!({"resultType": complete, "content": [{"type": "text", "text": format!("done {n}")}]})
            }
            ("ping", _) => json!({}),
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                return json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            }
        };
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
    }

    fn get(&mut self, exchange: u64, request: &HttpRequest) {
        let header = |wanted: &str| {
            request.headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone())
        };
        match self.style {
            Style::Modern => self.respond(exchange, 405, &[], ""),
            Style::Events => {
                let stream = self.open(exchange, &[]);
                let session = self.number().to_string();
                let text = format!("event: endpoint\ndata: /messages?session={session}\n\n");
                self.outputs.push_back((exchange, HttpOutput::Body(Bytes::from(text))));
                self.sessions.insert(session, Session { stream: Some(stream) });
            }
            Style::Session(_) => {
                let session =
                    header("mcp-session-id").filter(|session| self.sessions.contains_key(&**session));
                let Some(session) = session else {
                    return self.refuse(exchange, 404, -32001, "Session not found");
                };
                match header("last-event-id") {
                    Some(last) if self.resumable => self.resume(exchange, &last),
                    _ if self.listens => {
                        let stream = self.open(exchange, &[]);
                        self.sessions.get_mut(&*session).unwrap().stream = Some(stream);
                    }
                    _ => self.respond(exchange, 405, &[], ""),
                }
            }
            Style::Stateless(_) => match header("last-event-id") {
                Some(last) if self.resumable => self.resume(exchange, &last),
                _ => self.respond(exchange, 405, &[], ""),
            },
        }
    }
}

impl HttpPeer for ModelServer {
    fn handle_request(&mut self, now: Instant, exchange: u64, request: &HttpRequest) {
        match request.verb {
            Verb::Post => self.post(now, exchange, request),
            Verb::Get => self.get(exchange, request),
            Verb::Delete => {
                let session = request.headers.iter().find(|(name, _)| name == "mcp-session-id");
                let known = session.and_then(|(_, session)| self.sessions.remove(&**session)).is_some();
                self.respond(exchange, if known { 200 } else { 404 }, &[], "");
            }
        }
    }

    fn handle_disconnect(&mut self, _now: Instant, exchange: u64) {
        let resumable = self.resumable && matches!(self.style, Style::Session(_) | Style::Stateless(_));
        let gone: Vec<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.exchange == Some(exchange))
            .map(|(&stream, _)| stream)
            .collect();
        for stream in gone {
            if resumable {
                self.streams.get_mut(&stream).unwrap().exchange = None;
            } else {
                self.streams.remove(&stream);
            }
            if self.style == Style::Events {
                self.sessions.retain(|_, session| session.stream != Some(stream));
            }
        }
        self.delayed.retain(|_, later| {
            let (DelayedMessage::Send { target, .. } | DelayedMessage::Answer { target, .. }) = later;
            !matches!(target, ReplyTarget::Body(body) if *body == exchange)
        });
        self.outputs.retain(|(to, _)| *to != exchange);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                DelayedMessage::Send { target, message } => self.send(target, &message),
                DelayedMessage::Answer { target, message } => self.answer(target, &message),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|(&(due, _), _)| due)
    }

    fn poll_output(&mut self, _now: Instant) -> Option<(u64, HttpOutput)> {
        self.outputs.pop_front()
    }
}
