//! Fuzzing of an HTTP server with arbitrary operations of the clients, the application, the transport and the clock.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use arbitrary::Arbitrary;
use serde::Deserialize;

use super::harness::{RunState, Target, choose, read_messages};
use super::model::{HttpServerKind, HttpServerModel};
use crate::codec::{Sse, SseItem};
use crate::front::tasks::{TaskChoice, TaskConfig};
use crate::front::{Context, HandlerError, Router, SendHandlers};
use crate::peer::server::{Eras, ListKind, SealKey, Sealer};
use crate::prelude::*;
use crate::quota::ByteLimits;
use crate::rpc::{Id, Message};
use crate::schema::{CallToolParams, ElicitParams, ElicitSchema, Era, ServerCapability, StringSchema, Tool};
use crate::testing::SimulatedClock;
use crate::testing::http::{FrontPeer, HttpOutput, HttpPeer};
use crate::transport::http::server::{HttpServerConfig, LegacyPaths, RequestHead};
use crate::{Instant, Limits};

/// One operation of a run.
#[derive(Arbitrary, Debug)]
pub(super) enum Operation {
    // A complete request.
    Send { head: RequestShape, message: ClientMessage },
    // A request that arrives in parts.
    Begin { head: RequestShape },
    Body { which: u8, bytes: Vec<u8> },
    BodyEnd { which: u8 },
    Disconnect { which: u8 },
    ListChanged(u8),
    Updated(u8),
    Advance { ms: u16 },
    Idle { minutes: u8 },
    Close,
}

#[derive(Arbitrary, Debug, Default)]
pub(super) struct RequestShape {
    verb: u8,
    path: u8,
    version: u8,
    session: Option<u8>,
    content: u8,
    accept: u8,
    host: u8,
    last_event: Option<u8>,
    /// Whether the headers match the body: if not, they are absent, or name something else.
    is_consistent: bool,
}

/// A message from a client.
#[derive(Arbitrary, Debug)]
pub(super) enum ClientMessage {
    Discover,
    Initialize(u8),
    Initialized,
    Tools,
    Call { id: u8, tool: u8 },
    Listen,
    Subscribe,
    Ping(u8),
    Cancel(u8),
    Reply(u8),
    Batch(u8),
    Raw(Vec<u8>),
    // A call of the tool that asks for input, with its own argument and a state issued for that argument, or for
    // another.
    CallWithInput { id: u8, n: u8, state: u8 },
    // A request about a task.
    Task { id: u8, method: u8, task: u8 },
}

/// The configuration of one run.
#[derive(Arbitrary, Debug)]
pub(super) struct Config {
    eras: u8,
    first_transport: bool,
    tight: bool,
}

/// The capabilities of clients of 2026-07-28.
const CAPABILITIES: &str = r#"{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
/// The answers of those clients to input requests.
const ANSWERS: &str = r#"{"form":{"action":"accept","content":{"answer":"fuzz"}}}"#;

#[derive(Deserialize)]
struct Arguments {
    n: u8,
}

const MODERN: &str = "2026-07-28";
const VERSIONS: [&str; 6] = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "1999-01-01"];

/// A server over HTTP behind a router, and its clients.
pub(super) struct Server {
    peer: FrontPeer,
    run: RunState,
    exchanges: Vec<Exchange>,
    /// How long clients may still be silent: a minute takes as long as a dozen operations.
    idle_minutes: u8,
    sessions: Vec<String>,
    events: Vec<String>,
    /// The request states issued to clients.
    states: Vec<String>,
    tasks: Vec<String>,
    /// Whether a handler received data that belongs to another request.
    mixed_up: Arc<AtomicBool>,
    model: Option<HttpServerModel>,
}

#[derive(Default)]
struct Exchange {
    /// Whether the request is complete, or the client no longer reads.
    whole: bool,
    gone: bool,
    status: Option<u16>,
    events: Option<Sse>,
    body: Vec<u8>,
    /// The number of answers to each request: at most one, unless the client itself reuses an id.
    answered: BTreeMap<Id, u32>,
    reused: bool,
    over: bool,
}

impl Target for Server {
    type Config = Config;
    type Operation = Operation;
    type Event = (u64, HttpOutput);

    fn new(config: &Config, run: RunState) -> Self {
        let clock = Arc::new(SimulatedClock::default());
        let mixed_up = Arc::new(AtomicBool::new(false));
        let router = router(&clock, &mixed_up);
        let mut server = router.config();
        server.recorder = run.recording.recorder();
        server.eras = choose([Eras::Both, Eras::ModernOnly, Eras::LegacyOnly], config.eras);
        if config.tight {
            server.limits = Limits {
                message_bytes: 512,
                header_bytes: 256,
                requests_in: 2,
                requests_out: 2,
                queued_bytes: 2048,
                reply_bytes: 2048,
                subscriptions: 2,
                ..server.limits
            };
        }
        let mut http = HttpServerConfig::new(server);
        http.path = Some("/mcp".into());
        http.legacy_sse = config.first_transport.then(LegacyPaths::default);
        if config.tight {
            http.max_sessions = 2;
            http.stored_events = 4;
            http.stored_bytes = 256;
            http.byte_limits = ByteLimits { total: 8192, unauthenticated: 8192, owner: 4096 };
        }
        Self {
            peer: FrontPeer::new(router, http, clock, 7),
            run,
            exchanges: Vec::new(),
            idle_minutes: 60,
            sessions: Vec::new(),
            events: Vec::new(),
            states: Vec::new(),
            tasks: Vec::new(),
            mixed_up,
            model: None,
        }
    }

    fn run(&mut self) -> &mut RunState {
        &mut self.run
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.run.now;
        self.tell_model(|model| model.set_now(now));
        match operation {
            Operation::Send { head, message: say } => {
                let (message, about) = self.build_message(say, head.version);
                let number = self.begin(head, Some((about.0, about.1.as_str())));
                self.exchanges[number].reused = matches!(say, ClientMessage::Raw(_));
                self.body(number, message.as_bytes());
                self.body_end(number);
            }
            Operation::Begin { head } => {
                let number = self.begin(head, None);
                self.exchanges[number].reused = true;
            }
            Operation::Body { which, bytes } => {
                if let Some(number) = self.pick_exchange(*which) {
                    self.body(number, bytes);
                }
            }
            Operation::BodyEnd { which } => {
                if let Some(number) = self.pick_exchange(*which) {
                    self.body_end(number);
                }
            }
            Operation::Disconnect { which } => {
                if let Some(number) = self.pick_exchange(*which) {
                    self.exchanges[number].gone = true;
                    self.tell_model(|model| model.disconnect(number));
                    self.peer.handle_disconnect(self.run.now, number as u64);
                }
            }
            Operation::ListChanged(which) => {
                let list = choose([ListKind::Tools, ListKind::Prompts, ListKind::Resources], *which);
                self.tell_model(|model| model.change(list.notification(), ""));
                self.peer.server.list_changed(list);
            }
            Operation::Updated(which) => {
                let uri = format!("note:///{}", which % 3);
                self.tell_model(|model| model.change("notifications/resources/updated", &uri));
                self.peer.server.resource_updated(uri);
            }
            Operation::Advance { ms } => self.advance(Duration::from_millis((*ms).into())),
            Operation::Idle { minutes } => {
                let minutes = (minutes % 40).min(self.idle_minutes);
                self.idle_minutes -= minutes;
                self.advance(Duration::from_secs(60 * u64::from(minutes)));
            }
            Operation::Close => {
                self.tell_model(HttpServerModel::end_coverage);
                self.peer.server.close();
            }
        }
        self.advance(Duration::ZERO);
    }

    fn handle_timeout(&mut self) {
        self.peer.handle_timeout(self.run.now);
        self.drain_events();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peer.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.peer.poll_output(self.run.now)
    }

    fn handle_event(&mut self, (number, output): Self::Event) {
        let now = self.run.now;
        self.tell_model(|model| model.handle_output(now, number as usize, &output));
        let exchange = &mut self.exchanges[number as usize];
        assert!(!exchange.over && !exchange.gone, "nothing follows the end");
        match output {
            HttpOutput::Head { status, headers } => {
                assert_eq!(exchange.status.replace(status), None, "an answer begins once");
                assert!((200..600).contains(&status));
                for (name, value) in headers {
                    match &*name {
                        "content-type" if value == "text/event-stream" => {
                            exchange.events = Some(Sse::new(1 << 20));
                        }
                        "mcp-session-id" => self.sessions.push(value),
                        _ => {}
                    }
                }
            }
            HttpOutput::Body(bytes) => {
                assert!(exchange.status.is_some(), "the head comes first");
                assert!(!bytes.is_empty());
                self.states.extend(text_member(&bytes, "requestState"));
                self.tasks.extend(text_member(&bytes, "taskId"));
                match &mut exchange.events {
                    None => exchange.body.extend_from_slice(&bytes),
                    Some(events) => {
                        events.handle_input(bytes);
                        while let Some(item) = events.poll_item() {
                            let SseItem::Event(event) = item else { panic!("an event is too long") };
                            if event.name == "endpoint" {
                                let endpoint = String::from_utf8_lossy(&event.data);
                                let (_, session) = endpoint.split_once('=').expect("a session");
                                self.sessions.push(session.into());
                                exchange.reused = true;
                            } else {
                                count_answers(&event.data, &mut exchange.answered);
                            }
                            self.events.extend(events.last_event_id().map(Into::into));
                        }
                    }
                }
            }
            HttpOutput::End => {
                assert!(exchange.status.is_some(), "the head comes first");
                exchange.over = true;
                assert!(exchange.status != Some(202) || exchange.body.is_empty());
                if let Some(events) = &mut exchange.events {
                    assert_eq!(events.handle_eof(), None, "a stream ends behind an event");
                } else if !exchange.body.is_empty() {
                    count_answers(&exchange.body, &mut exchange.answered);
                }
                let once = exchange.answered.values().all(|answers| *answers == 1);
                assert!(once || exchange.reused, "contract 1: {:?}", exchange.answered);
            }
        }
    }

    fn preludes() -> [Vec<Operation>; 2] {
        let send = |session, message| {
            let head = RequestShape { version: 1, session, is_consistent: true, ..RequestShape::default() };
            Operation::Send { head, message }
        };
        let session = [send(None, ClientMessage::Initialize(1)), send(Some(0), ClientMessage::Initialized)];
        [Vec::new(), session.into()]
    }

    fn is_end(operation: &Operation) -> bool {
        matches!(operation, Operation::Close)
    }

    fn tune(operation: &mut Operation) {
        // As `RequestShape::tune` reads it: in the newest session, at 2025-11-25.
        let in_session = RequestShape { version: 64, session: Some(0), ..RequestShape::default() };
        match operation {
            Operation::Begin { head } if head.host < 224 => {
                let message = ClientMessage::Call { id: head.content, tool: head.accept };
                *operation = Operation::Send { head: mem::take(head), message };
            }
            // A GET, for the general stream or to resume another one.
            Operation::BodyEnd { which } if *which < 192 => {
                let last_event = (*which < 128).then_some(*which / 2);
                let head = RequestShape { verb: 24, last_event, ..in_session };
                *operation = Operation::Send { head, message: ClientMessage::Tools };
            }
            Operation::Body { which, .. } if *which < 128 => {
                let message = ClientMessage::Cancel(*which);
                *operation = Operation::Send { head: in_session, message };
            }
            Operation::Updated(which) if *which < 128 => {
                let message = ClientMessage::Reply(*which);
                *operation = Operation::Send { head: in_session, message };
            }
            Operation::Idle { minutes } if *minutes < 128 => *operation = Operation::Advance { ms: 2500 },
            _ => {}
        }
        if let Operation::Send { head, message } = operation {
            head.tune();
            match message {
                ClientMessage::Call { id, tool } => (*id, *tool) = (*id / 2 % 8, *tool / 2),
                ClientMessage::CallWithInput { id, n, .. } => (*id, *n) = (*id / 2 % 8, *n / 2),
                ClientMessage::Ping(id) | ClientMessage::Cancel(id) | ClientMessage::Batch(id) => {
                    *id = *id / 2 % 8;
                }
                ClientMessage::Reply(id) => *id = 1 + *id / 2 % 3,
                ClientMessage::Task { method, .. } => *method /= 2,
                ClientMessage::Initialize(version) if *version < 192 => *version = 1 + *version / 2 % 3,
                _ => {}
            }
        }
    }

    fn attach_model(&mut self, config: &Config) -> bool {
        let eras = choose([Eras::Both, Eras::ModernOnly, Eras::LegacyOnly], config.eras);
        self.model = Some(HttpServerModel::new(HttpServerKind {
            speaks_legacy: eras != Eras::ModernOnly,
            speaks_modern: eras != Eras::LegacyOnly,
            has_first_transport: config.first_transport,
            is_tight: config.tight,
        }));
        true
    }

    fn settle_model(&mut self) -> bool {
        let now = self.run.now;
        self.model.as_mut().is_some_and(|model| model.settle(now))
    }

    fn end(&mut self) {
        self.peer.server.close();
        self.advance(Duration::from_secs(3600));
        self.run.closed = self.peer.is_done();
    }

    fn check_end(&self) {
        for (number, exchange) in self.exchanges.iter().enumerate() {
            let answered = exchange.gone || !exchange.whole || exchange.over;
            assert!(answered, "contract 1: exchange {number} has no end");
        }
        assert_eq!(self.peer.server.handle().bytes_used(), 0, "bytes remain reserved after the end");
        assert!(!self.mixed_up.load(Ordering::Relaxed), "a state was accepted for another request");
    }
}

impl RequestShape {
    /// Makes most requests valid.
    fn tune(&mut self) {
        // The lowest bit of most bytes is the same in the tests.
        let kind = self.verb / 2 % 16;
        (self.verb, self.path) = match kind {
            // GET, DELETE, and the two endpoints of 2024-11-05.
            12 => (4, 0),
            13 if self.path < 64 => (6, 0),
            14 => (4, 5),
            15 => (0, 6),
            _ if self.path < 240 => (0, 0),
            _ => (self.verb / 2, self.path / 2),
        };
        // The type of the body is correct, but for some; the other bits say how headers differ from the body.
        self.content = if self.content < 240 { self.content / 4 * 4 } else { self.content };
        if self.host < 240 {
            self.host = 0;
        }
        self.accept = if self.accept < 160 { 0 } else { self.accept / 2 };
        self.is_consistent = self.version < 224;
        (self.version, self.session) = match (self.version, self.session) {
            (0..64, _) => (0, None),
            (version @ 64..224, None) => (1 + version / 2 % 4, Some(0)),
            (version @ 64..224, Some(which)) => (1 + version / 2 % 4, Some(which / 2 % 4)),
            (version, session) => (version / 2, session),
        };
    }
}

impl Server {
    /// Passes something to the model, if one is attached.
    fn tell_model(&mut self, act: impl FnOnce(&mut HttpServerModel)) {
        if let Some(model) = &mut self.model {
            act(model);
        }
    }

    /// Picks an exchange, counted from the newest, ended ones included.
    fn pick_exchange(&self, which: u8) -> Option<usize> {
        self.exchanges.len().checked_sub(1 + usize::from(which))
    }

    // --- Requests ---

    fn begin(&mut self, head: &RequestShape, about: Option<(&str, &str)>) -> usize {
        let session = head.session.map(|which| pick_newest(&self.sessions, which, "unknown").to_owned());
        let last_event = head.last_event.map(|which| pick_newest(&self.events, which, "1").to_owned());
        let method = choose(["POST", "POST", "POST", "POST", "GET", "GET", "DELETE", "PUT"], head.verb);
        let path = match head.path % 8 {
            5 => String::from("/sse"),
            6 => format!("/messages?session={}", session.as_deref().unwrap_or_default()),
            7 => String::from("/elsewhere"),
            _ => String::from("/mcp"),
        };
        let content = ["application/json", "application/json; charset=utf-8", "text/plain", ""];
        let accept = [
            "application/json, text/event-stream",
            "*/*",
            "text/event-stream",
            "application/json",
            "a/b",
            "",
        ];
        let host = ["localhost", "localhost:80", "127.0.0.1", "[::1]:1", "elsewhere.test", ""];
        let mut fields = Vec::from([
            ("content-type", choose(content, head.content)),
            ("accept", choose(accept, head.accept)),
            ("host", choose(host, head.host)),
        ]);
        fields.retain(|(_, value)| !value.is_empty());
        fields.extend(
            VERSIONS.get(usize::from(head.version % 8)).map(|version| ("mcp-protocol-version", *version)),
        );
        fields.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
        fields.extend(last_event.as_deref().map(|event| ("last-event-id", event)));
        if let Some((method, name)) = about
            && (head.is_consistent || head.content >= 128)
        {
            fields.push(("mcp-method", method));
            if !name.is_empty() {
                fields.push(("mcp-name", if head.is_consistent { name } else { "other" }));
            }
        }
        let number = self.exchanges.len();
        self.exchanges.push(Exchange::default());
        self.tell_model(|model| model.begin(method, &path, &fields));
        let head = RequestHead { method, path: &path, fields: &fields.as_slice(), client: None };
        self.peer.begin(self.run.now, number as u64, &head);
        number
    }

    fn body(&mut self, number: usize, bytes: &[u8]) {
        self.tell_model(|model| model.handle_body(number, bytes));
        for chunk in self.run.split(bytes) {
            self.peer.handle_body(self.run.now, number as u64, chunk);
        }
    }

    fn body_end(&mut self, number: usize) {
        self.exchanges[number].whole = true;
        self.tell_model(|model| model.handle_body_end(number));
        self.peer.handle_body_end(self.run.now, number as u64);
    }

    /// A message, and the headers that describe it.
    fn build_message(&self, say: &ClientMessage, version: u8) -> (String, (&'static str, String)) {
        let version = choose(VERSIONS, version);
        let modern = format!(
            r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{CAPABILITIES},"progressToken":1}}"#
        );
        let meta = if version == MODERN { &*modern } else { r#""_meta":{"progressToken":1}"# };
        let call = |id: u8, method: &'static str, name: &str, params: &str| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{}{meta}}}}}"#,
                if params.is_empty() { "" } else { "," }
            );
            (text, (method, name.into()))
        };
        let request = |id: u8, method: &'static str, params: &str| call(id, method, "", params);
        match say {
            ClientMessage::Discover => request(1, "server/discover", ""),
            ClientMessage::Initialize(version) => {
                let version = choose(VERSIONS, *version);
                let params = format!(
                    r#""protocolVersion":"{version}","capabilities":{{"roots":{{}},"elicitation":{{}}}},"clientInfo":{{"name":"fuzz","version":"0"}}"#
                );
                request(0, "initialize", &params)
            }
            ClientMessage::Initialized => (
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into(),
                ("notifications/initialized", String::new()),
            ),
            ClientMessage::Tools => request(2, "tools/list", ""),
            ClientMessage::Call { id, tool } => {
                let name = choose(["quick", "slow", "ask", "stuck", "release", "none", "form", "job"], *tool);
                let params = format!(r#""name":"{name}","arguments":{{"n":{}}}"#, id % 4);
                call(*id, "tools/call", name, &params)
            }
            ClientMessage::CallWithInput { id, n, state } => {
                let state = pick_newest(&self.states, *state, "unknown");
                let params = format!(
                    r#""name":"form","arguments":{{"n":{}}},"requestState":"{state}","inputResponses":{ANSWERS}"#,
                    n % 4
                );
                call(*id, "tools/call", "form", &params)
            }
            ClientMessage::Task { id, method, task } => {
                let task = pick_newest(&self.tasks, *task, "unknown");
                let methods = ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"];
                let params = format!(r#""taskId":"{task}","inputResponses":{ANSWERS}"#);
                call(*id, choose(methods, *method), task, &params)
            }
            ClientMessage::Listen => request(
                3,
                "subscriptions/listen",
                r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["note:///1"]}"#,
            ),
            ClientMessage::Subscribe => request(4, "resources/subscribe", r#""uri":"note:///1""#),
            ClientMessage::Ping(id) => request(*id, "ping", ""),
            ClientMessage::Cancel(id) => (
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                ),
                ("notifications/cancelled", String::new()),
            ),
            ClientMessage::Reply(id) => (
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"roots":[],"action":"decline"}}}}"#),
                ("", String::new()),
            ),
            ClientMessage::Batch(id) => (
                format!(
                    r#"[{{"jsonrpc":"2.0","id":{id},"method":"ping"}},{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"slow"}}}}]"#
                ),
                ("", String::new()),
            ),
            ClientMessage::Raw(bytes) => (String::from_utf8_lossy(bytes).into_owned(), ("", String::new())),
        }
    }

    // --- Time and answers ---

    fn advance(&mut self, duration: Duration) {
        let end = self.run.now + duration;
        self.drain_events();
        let mut steps = 0;
        while let Some(due) = self.peer.poll_timeout().filter(|&due| due <= end) {
            steps += 1;
            assert!(steps < 100_000, "contract 5: no end of timeouts");
            self.run.now = self.run.now.max(due);
            self.check_timeout();
        }
        self.run.now = end;
    }
}

/// Counts the answers to each request in the server's output.
fn count_answers(text: &[u8], answered: &mut BTreeMap<Id, u32>) {
    for message in read_messages(text) {
        if let Message::Response(response) = message
            && let Some(id) = response.id
        {
            *answered.entry(id).or_default() += 1;
        }
    }
}

/// The string member of this name in the server's output.
fn text_member(text: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let (_, rest) = text.split_once(&format!(r#""{name}":""#))?;
    rest.split_once('"').map(|(value, _)| value.into())
}

/// Picks an element, counted from the newest.
fn pick_newest<'a>(from: &'a [String], which: u8, none: &'a str) -> &'a str {
    let at = from.len().checked_sub(1 + usize::from(which) % from.len().max(1));
    at.map_or(none, |at| &from[at])
}

/// Asks for input, and remembers its argument until the answer arrives.
async fn ask_by_form(n: u8, context: Context, mixed_up: Arc<AtomicBool>) -> Result<String, HandlerError> {
    let kept = context.run_once("n", async { n }).await;
    let schema = ElicitSchema::new([("answer", StringSchema::new().into())]);
    let answer = context.elicit("form", ElicitParams::form("What?", schema)).await?;
    mixed_up.fetch_or(kept != n, Ordering::Relaxed);
    Ok(format!("{n}: {}", answer.action.as_str()))
}

fn router(clock: &Arc<SimulatedClock>, mixed_up: &Arc<AtomicBool>) -> Router<SendHandlers> {
    let plain = |name: &str| Tool::new(name, "A tool", crate::schema::Json::empty_object());
    let (for_form, for_job, sleeps) = (mixed_up.clone(), mixed_up.clone(), clock.clone());
    let mut router = Router::new("fuzz", "0")
        .seal(Sealer::new(SealKey::new([7; 32]), []))
        .tasks(TaskConfig::default())
        .tool_with(plain("form"), move |Arguments { n }: Arguments, context: Context| {
            ask_by_form(n, context, for_form.clone())
        })
        .task_tool(plain("job"), TaskChoice::Optional, move |Arguments { n }: Arguments, context: Context| {
            let (mixed_up, clock) = (for_job.clone(), sleeps.clone());
            async move {
                context.status("asks");
                let answer = ask_by_form(n, context, mixed_up).await?;
                clock.sleep(Duration::from_secs(2)).await;
                Ok::<_, HandlerError>(answer)
            }
        })
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::ResourcesSubscribe);
    for name in ["quick", "slow", "ask", "stuck", "release"] {
        let tool = plain(name);
        let clock = clock.clone();
        router = router.tool_raw(tool, move |_: CallToolParams, context| {
            let clock = clock.clone();
            async move {
                match name {
                    "slow" => {
                        for progress in 0..3_u32 {
                            clock.sleep(Duration::from_millis(700)).await;
                            context.progress(progress);
                        }
                    }
                    "ask" if context.era() == Era::Legacy => drop(context.roots("roots").await),
                    "stuck" => core::future::pending().await,
                    "release" => {
                        context.close_sse_stream();
                        clock.sleep(Duration::from_secs(5)).await;
                    }
                    _ => {}
                }
                "done"
            }
        });
    }
    router
}
