//! A router behind HTTP without sockets: the test makes the exchanges and polls them one step at a time.

use core::future::Future;
use core::net::IpAddr;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use mcp_proto::Bytes;
use mcp_proto::codec::{Sse, SseItem};
use mcp_proto::front::http::{HttpChannel, HttpExchange, HttpServer, HttpServerDriver, http_server};
use mcp_proto::front::{self, HandlerMode, NoArguments, Router, SendHandlers, ServedRouter};
use mcp_proto::peer::Principal;
use mcp_proto::schema::ServerCapability;
use mcp_proto::schema::tasks::{CancelTask, GetTask, UpdateTask};
use mcp_proto::transport::http::server::{BodyKind, HttpServerConfig, RequestHead, ResponseHead};
use serde_json::{Value, json};

use super::messages::{LEGACY, MODERN, notification, request};
use super::polling::{CountingEntropy, TestClock, WakeCounter};
use super::tools::tool;

pub struct HttpHarness<H: HandlerMode = SendHandlers> {
    pub server: HttpServer<H>,
    /// The address of the clients.
    pub client: Option<IpAddr>,
    /// The principal of the clients.
    pub principal: Option<Principal>,
    /// The guard of the server, and the token that clients send.
    #[cfg(feature = "auth")]
    pub guard: Option<front::guard::Guard>,
    pub token: Option<String>,
    /// Runs legacy sessions, until a test drops it.
    pub driver: Option<HttpServerDriver<H>>,
    pub clock: Arc<TestClock>,
    /// How often the driver was woken.
    pub wakes: Arc<WakeCounter>,
    waker: Waker,
    /// Whether the driver has said that it is done.
    pub done: bool,
    next: i64,
}

impl<H: HandlerMode> HttpHarness<H> {
    pub fn new(router: impl Into<ServedRouter<H>>) -> Self {
        Self::configured(router, |_| {})
    }

    pub fn configured(
        router: impl Into<ServedRouter<H>>,
        change: impl FnOnce(&mut HttpServerConfig),
    ) -> Self {
        let router = router.into();
        router.router().check().unwrap();
        let mut config = HttpServerConfig::new(router.router().config());
        change(&mut config);
        Self::of(router, config)
    }

    /// One of several servers of a router.
    pub fn of(router: impl Into<ServedRouter<H>>, config: HttpServerConfig) -> Self {
        let mut web = Self::unpolled(router, config);
        web.poll_driver();
        web
    }

    /// A server whose driver has not been polled.
    pub fn unpolled(router: impl Into<ServedRouter<H>>, config: HttpServerConfig) -> Self {
        let clock = Arc::new(TestClock::default());
        let (server, driver) =
            http_server(router, config, clock.clone(), Arc::new(CountingEntropy::default()));
        let (wakes, waker) = WakeCounter::new();
        Self {
            server,
            client: None,
            principal: None,
            #[cfg(feature = "auth")]
            guard: None,
            token: None,
            driver: Some(driver),
            clock,
            wakes,
            waker,
            done: false,
            next: 1,
        }
    }

    /// Polls the driver until it makes no progress, as an executor does when its task is woken.
    pub fn poll_driver(&mut self) {
        let Some(driver) = &mut self.driver else { return };
        let mut cx = Context::from_waker(&self.waker);
        loop {
            self.done |= driver.poll(&mut cx).is_ready();
            if self.done || self.wakes.take() == 0 {
                break;
            }
        }
    }

    /// Lets time pass, and the driver act on it if it wants to.
    pub fn advance(&mut self, duration: Duration) {
        self.clock.advance(duration);
        self.poll_driver();
    }

    /// A request to the endpoint, its body included.
    pub fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> TestExchange<H> {
        self.send_to("/mcp", method, headers, body)
    }

    pub fn send_to(&self, path: &str, method: &str, headers: &[(&str, &str)], body: &str) -> TestExchange<H> {
        let mut all = vec![
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.retain(|(name, _)| !headers.iter().any(|(given, _)| given == name));
        all.extend_from_slice(headers);
        let token = self.token.as_ref().map(|token| format!("Bearer {token}"));
        all.extend(token.as_ref().map(|token| ("authorization", token.as_str())));
        let head = RequestHead { method, path, fields: &all, client: self.client };
        let mut exchange = self.admit(&head);
        if exchange.wants_body() && !body.is_empty() {
            exchange.handle_body(Bytes::copy_from_slice(body.as_bytes()));
        }
        if exchange.wants_body() {
            exchange.handle_body_end();
        }
        TestExchange::from_exchange(exchange)
    }

    fn admit(&self, head: &RequestHead<'_>) -> HttpExchange<H> {
        #[cfg(feature = "auth")]
        if let Some(guard) = self.guard.as_ref().filter(|_| !self.server.is_preflight(head)) {
            use front::guard::GuardDecision;
            use mcp_proto::adapter::Clock as _;

            let now = mcp_proto::auth::Now { instant: self.clock.now(), unix: self.clock.unix_time() };
            let mut verifying = match guard.check(head, now) {
                GuardDecision::Answer(answer) => return self.server.answered_exchange(head, answer),
                GuardDecision::Verifying(verifying) => verifying,
            };
            let mut cx = Context::from_waker(Waker::noop());
            return match core::pin::Pin::new(&mut verifying).poll(&mut cx) {
                Poll::Ready(Ok(authorized)) => self.server.exchange_for(head, authorized),
                Poll::Ready(Err(answer)) => self.server.answered_exchange(head, answer),
                Poll::Pending => panic!("the token is still being verified"),
            };
        }
        self.server.exchange(head, self.principal.clone())
    }

    /// A request of 2026-07-28, with the headers that mirror its body.
    pub fn ask(&mut self, method: &str, params: Value) -> TestExchange<H> {
        self.ask_with(method, params, json!({}))
    }

    /// As [`ask`](Self::ask), of a client that declares `capabilities`.
    pub fn ask_with(&mut self, method: &str, mut params: Value, capabilities: Value) -> TestExchange<H> {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "tester", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let name =
            ["name", "uri", "taskId"].into_iter().find_map(|key| params[key].as_str()).map(str::to_owned);
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        let body = request(&self.id(), method, params);
        self.send("POST", &headers, &body.to_string())
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> TestExchange<H> {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn id(&mut self) -> Value {
        self.next += 1;
        self.next.into()
    }

    /// Opens a session of a client that declares `capabilities`; returns its id.
    #[track_caller]
    pub fn open_with(&mut self, version: &str, capabilities: Value) -> String {
        let info = json!({"name": "tester", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": info});
        let body = request(&json!(0), "initialize", params);
        let mut caller = self.send("POST", &[], &body.to_string());
        self.poll_driver();
        let head = caller.head();
        assert_eq!(head.status, 200, "{head:?}");
        let session = field(&head, "mcp-session-id").expect("a session").to_owned();
        let answer = caller.message();
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        let mut caller = self.post(&session, &notification("notifications/initialized", json!({})));
        assert_eq!(caller.head().status, 202);
        session
    }

    #[track_caller]
    pub fn open(&mut self) -> String {
        self.open_with(LEGACY, json!({}))
    }

    /// A message in a session.
    pub fn post(&mut self, session: &str, message: &Value) -> TestExchange<H> {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
        let caller = self.send("POST", &headers, &message.to_string());
        self.poll_driver();
        caller
    }

    /// A request in a session.
    pub fn post_request(&mut self, session: &str, method: &str, params: Value) -> TestExchange<H> {
        let message = request(&self.id(), method, params);
        self.post(session, &message)
    }

    pub fn get(&mut self, session: &str, last_event: Option<&str>) -> TestExchange<H> {
        let mut headers = vec![("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
        headers.extend(last_event.map(|id| ("last-event-id", id)));
        self.send("GET", &headers, "")
    }

    pub fn delete(&mut self, session: &str) -> ResponseHead {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
        let mut caller = self.send("DELETE", &headers, "");
        self.poll_driver();
        caller.head()
    }
}

pub fn field<'a>(head: &'a ResponseHead, name: &str) -> Option<&'a str> {
    head.headers.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| &**value)
}

/// A client that waits for the answer to one request. Dropped, it has gone.
pub struct TestExchange<H: HandlerMode = SendHandlers> {
    pub exchange: HttpExchange<H>,
    /// How often the task of the exchange was woken.
    pub wakes: Arc<WakeCounter>,
    waker: Waker,
    head: Option<ResponseHead>,
    sse: Sse,
    whole: Vec<u8>,
    /// An event that is no message.
    raw: Option<(String, Vec<u8>)>,
    events: VecDeque<(Option<String>, Value)>,
    /// Comments and events without data are not counted.
    pub bytes: usize,
    pub ended: bool,
}

impl<H: HandlerMode> TestExchange<H> {
    pub fn from_exchange(exchange: HttpExchange<H>) -> Self {
        let (wakes, waker) = WakeCounter::new();
        Self {
            exchange,
            wakes,
            waker,
            head: None,
            sse: Sse::new(1 << 20),
            whole: Vec::new(),
            raw: None,
            events: VecDeque::new(),
            bytes: 0,
            ended: false,
        }
    }

    /// Takes whatever there is.
    pub fn poll_exchange(&mut self) {
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        loop {
            if self.head.is_none() {
                match self.exchange.poll_head(&mut cx) {
                    Poll::Ready(head) => self.head = Some(head),
                    Poll::Pending if self.wakes.take() > 0 => continue,
                    Poll::Pending => return,
                }
            }
            if self.ended {
                return;
            }
            match self.exchange.poll_body(&mut cx) {
                Poll::Ready(Some(bytes)) => self.take(bytes),
                Poll::Ready(None) => self.ended = true,
                Poll::Pending if self.wakes.take() > 0 => {}
                Poll::Pending => return,
            }
        }
    }

    fn take(&mut self, bytes: Bytes) {
        self.bytes += bytes.len();
        if !matches!(self.head.as_ref().unwrap().body, BodyKind::Stream) {
            self.whole.extend_from_slice(&bytes);
            return;
        }
        self.sse.handle_input(bytes);
        while let Some(item) = self.sse.poll_item() {
            let SseItem::Event(event) = item else { panic!("{item:?}") };
            if event.name == "endpoint" {
                self.raw = Some((event.name.to_string(), event.data.to_vec()));
                continue;
            }
            let data = serde_json::from_slice(&event.data).expect("JSON in the event");
            self.events.push_back((self.sse.last_event_id().map(str::to_owned), data));
        }
    }

    pub fn has_head(&mut self) -> bool {
        self.poll_exchange();
        self.head.is_some()
    }

    #[track_caller]
    pub fn head(&mut self) -> ResponseHead {
        self.poll_exchange();
        self.head.clone().expect("the answer has not begun")
    }

    /// The body of an answer that is not a stream.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        self.poll_exchange();
        assert!(self.ended, "the answer has not ended");
        match self.head().body {
            BodyKind::Sized(bytes) => assert_eq!(bytes, self.whole.len()),
            other => panic!("the answer is {other:?}"),
        }
        serde_json::from_slice(&self.whole).expect("JSON")
    }

    /// The next message, whichever way it comes.
    pub fn try_message(&mut self) -> Option<Value> {
        self.poll_exchange();
        if let Some((_, message)) = self.events.pop_front() {
            return Some(message);
        }
        let whole = core::mem::take(&mut self.whole);
        (!whole.is_empty()).then(|| serde_json::from_slice(&whole).expect("JSON"))
    }

    #[track_caller]
    pub fn message(&mut self) -> Value {
        self.try_message().expect("nothing was sent")
    }

    /// The event that was no message.
    #[track_caller]
    pub fn raw_event(&mut self) -> (String, Vec<u8>) {
        self.poll_exchange();
        self.raw.take().expect("no such event")
    }

    /// The id of the last event that came.
    pub fn last_event(&self) -> Option<String> {
        self.sse.last_event_id().map(str::to_owned)
    }

    #[track_caller]
    pub fn expect_silence(&mut self) {
        if let Some(message) = self.try_message() {
            panic!("{message}");
        }
    }

    /// Lets the exchange act on the time.
    pub fn advance_to_timeout(&mut self) {
        self.exchange.handle_timeout();
        self.poll_exchange();
    }
}

/// Polls an exchange and the server's driver until neither makes progress.
pub fn settle<H: HandlerMode>(web: &mut HttpHarness<H>, caller: &mut TestExchange<H>) {
    for _ in 0..4 {
        caller.poll_exchange();
        web.poll_driver();
    }
    caller.poll_exchange();
}

/// The state that parked handlers share with the test.
#[derive(Clone, Default)]
pub struct ParkedHandlers(Arc<Mutex<ParkedState>>);

#[derive(Default)]
struct ParkedState {
    contexts: Vec<front::Context>,
    answer: Option<String>,
    wakers: Vec<Waker>,
    begun: usize,
    dropped: usize,
}

impl ParkedHandlers {
    /// A handler that hands its context over and waits.
    pub fn park(&self, cx: front::Context) -> impl Future<Output = String> + Send + use<> {
        {
            let mut state = self.0.lock().unwrap();
            state.begun += 1;
            state.contexts.push(cx);
        }
        let holding = CountDrop(self.clone());
        async move { core::future::poll_fn(|cx| holding.poll(cx)).await }
    }

    /// How many handlers have begun.
    pub fn started(&self) -> usize {
        self.0.lock().unwrap().begun
    }

    /// The context of the handler that began last.
    #[track_caller]
    pub fn context(&self) -> front::Context {
        self.0.lock().unwrap().contexts.pop().expect("the handler has not begun")
    }

    /// Lets every handler end, with this.
    pub fn release(&self, answer: &str) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            state.answer = Some(answer.to_owned());
            core::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many handlers are gone.
    pub fn dropped_count(&self) -> usize {
        self.0.lock().unwrap().dropped
    }
}

/// A server that offers:
/// - `add`, which adds `a` and `b`;
/// - `hold`, which hands its context to the test and ends when the test releases it;
/// - `work`, which reports progress twice;
/// - resources, lists and tasks to subscribe to.
pub fn router() -> (Router, ParkedHandlers) {
    let held = ParkedHandlers::default();
    let holding = held.clone();
    let router = Router::new("web", "1.0.0")
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::ResourcesSubscribe)
        .declare(ServerCapability::ResourcesListChanged)
        .declare(ServerCapability::Logging)
        .declare(ServerCapability::TasksExtension)
        .handler::<GetTask, _, _>(async |_, _| Err(no_task()))
        .handler::<UpdateTask, _, _>(async |_, _| Err(no_task()))
        .handler::<CancelTask, _, _>(async |_, _| Err(no_task()))
        .tool_with(tool("add"), async |Add { a, b }, _| (a + b).to_string())
        .tool_with(tool("work"), async |NoArguments {}, cx: front::Context| {
            cx.progress(1);
            cx.progress(2);
            "done"
        })
        .tool_with(tool("hold"), move |NoArguments {}, cx: front::Context| holding.park(cx));
    (router, held)
}

fn no_task() -> front::HandlerError {
    front::HandlerError::invalid_params("there is no such task")
}

#[derive(serde::Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

struct CountDrop(ParkedHandlers);

impl CountDrop {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<String> {
        let mut state = self.0.0.lock().unwrap();
        match state.answer.clone() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().dropped += 1;
    }
}

/// Polls a channel until it has nothing to send; returns what it sent.
pub fn sent(channel: &mut HttpChannel) -> Vec<Value> {
    let mut messages = Vec::new();
    loop {
        channel.poll(&mut Context::from_waker(Waker::noop()));
        let Some(message) = channel.poll_transmit() else { return messages };
        messages.push(serde_json::from_slice(&message).unwrap());
    }
}
