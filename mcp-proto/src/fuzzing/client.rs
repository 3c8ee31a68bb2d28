//! Fuzzing of a client with arbitrary operations of the server, the application, the driver and the clock.

use alloc::collections::VecDeque;

use arbitrary::Arbitrary;
use bytes::Bytes;

use super::harness::{self, Application, RunState, Target, choose, read_messages, timeout};
use super::model::ClientModel;
use crate::Instant;
use crate::peer::client::{EraPolicy, Event};
use crate::peer::{AnyResult, LostReason, RequestOptions};
use crate::prelude::*;
use crate::rpc::{Id, Message};
use crate::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitAction, ElicitResult, EmptyParams, ListRootsResult,
    ListTools, PaginatedParams, Ping,
};
use crate::transport::StreamClient;

/// One operation of a run.
#[derive(Arbitrary, Debug)]
pub(super) enum Operation {
    Call { timeout_ms: Option<u16> },
    List,
    Listen,
    Ping,
    Cancel(u8),
    Respond(u8),
    Close,
    Abort,
    Open,
    OpenFailed,
    Input(Vec<u8>),
    Line(Vec<u8>),
    Answer { which: u8, with: Answer },
    Progress(u8),
    ServerRequest { id: u8, method: u8 },
    ServerCancels(u8),
    Eof,
    Advance { ms: u16 },
    Backwards { ms: u16 },
    Timeout,
    PollEvents,
    PollTransmit,
    PollLink,
    Watch { interest: u8, before: bool },
    SetInterest { which: u8, interest: u8 },
    Unwatch(u8),
    Task { command: u8, timeout_ms: Option<u16> },
    ServerNotifies { which: u8, what: u8 },
}

/// How the server answers.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Answer {
    Discovered,
    Initialized,
    Complete,
    InputRequired,
    Strange,
    Error,
    Unsupported,
    Broken,
    WithoutId,
}

/// The configuration of one run.
#[derive(Arbitrary, Debug)]
pub(super) struct Config {
    mode: u8,
    reopen: bool,
    keepalive: bool,
    tight: bool,
}

/// A client on a byte stream, its application and its server.
pub(super) struct Client {
    app: Application<StreamClient>,
    /// The ids of the client's requests that are not answered.
    unanswered: VecDeque<Id>,
    /// The ids of the subscriptions.
    listens: Vec<String>,
    model: Option<ClientModel>,
}

impl Target for Client {
    type Config = Config;
    type Operation = Operation;
    type Event = Event;

    fn new(config: &Config, run: RunState) -> Self {
        let mut client = harness::config(config.mode, config.keepalive, config.tight);
        client.can_reopen = config.reopen;
        client.recorder = run.recording.recorder();
        client.capabilities.roots = Some(Default::default());
        client.capabilities = client.capabilities.with(ClientCapability::ElicitationUrl);
        let app = Application::new(StreamClient::new(client), run);
        Self { app, unanswered: VecDeque::new(), listens: Vec::new(), model: None }
    }

    harness::application_methods!();

    fn handle_event(&mut self, event: Event) {
        let now = self.app.run.now;
        self.tell_model(|model| model.handle_event(now, &event));
        self.app.handle_event(event);
    }

    fn attach_model(&mut self, config: &Config) -> bool {
        let policy = harness::config(config.mode, false, false).era_policy;
        let (modern, legacy) = (policy != EraPolicy::LegacyOnly, policy != EraPolicy::ModernOnly);
        self.model = Some(ClientModel::new(modern, legacy, config.tight));
        true
    }

    fn settle_model(&mut self) -> bool {
        self.model.as_mut().is_some_and(ClientModel::settle)
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.app.run.now;
        match operation {
            Operation::Call { timeout_ms } => {
                let options = timeout(*timeout_ms);
                let limit = options.timeout;
                if let Some(call) = self.app.request::<CallTool>(&CallToolParams::new("fuzz"), options) {
                    self.tell_model(|model| model.call(now, call, limit));
                }
            }
            Operation::List => {
                self.app.request::<ListTools>(&PaginatedParams::default(), RequestOptions::default());
            }
            Operation::Listen => self.app.listen(),
            Operation::Ping => {
                self.app.request::<Ping>(&EmptyParams::default(), RequestOptions::default());
            }
            Operation::Cancel(which) => {
                if let Some(request) = self.app.cancel(*which) {
                    self.tell_model(|model| model.cancel(request));
                }
            }
            Operation::Respond(which) => {
                let result: &dyn AnyResult = match which % 2 {
                    0 => &ListRootsResult::new(Vec::new()),
                    _ => &ElicitResult::new(ElicitAction::Accept),
                };
                if let Some(request) = self.app.respond(*which, result) {
                    self.tell_model(|model| model.respond(request));
                }
            }
            Operation::Close => {
                self.tell_model(ClientModel::end_coverage);
                self.app.close();
            }
            Operation::Abort => {
                self.tell_model(ClientModel::end_coverage);
                self.app.abort(LostReason::Closed);
            }
            Operation::Open => self.app.client.handle_open(now),
            Operation::OpenFailed => {
                self.tell_model(ClientModel::end_coverage);
                self.app.client.handle_open_failed("fuzz");
            }
            Operation::Input(bytes) => {
                self.tell_model(ClientModel::expect_any_bytes);
                self.input(bytes);
            }
            Operation::Line(bytes) => {
                self.tell_model(ClientModel::expect_any_bytes);
                self.input(bytes);
                self.input(b"\n");
            }
            Operation::Answer { which, with } => self.answer(*which, *with),
            Operation::Progress(which) => {
                let token = self.app.run.request(*which).map_or(0, |request| request.number());
                self.send_line(&progress(token));
            }
            Operation::ServerRequest { id, method } => {
                self.send_line(&request((*id).into(), *method));
            }
            Operation::ServerCancels(id) => self.send_line(&cancelled(*id)),
            Operation::Eof => {
                self.tell_model(ClientModel::end_coverage);
                self.app.client.handle_eof(now, "fuzz");
            }
            Operation::Advance { ms } => self.app.run.advance(*ms),
            Operation::Backwards { ms } => {
                self.tell_model(ClientModel::set_clock_back);
                self.app.run.set_back(*ms);
            }
            Operation::Timeout => {
                self.tell_model(|model| model.handle_timeout(now));
                self.check_timeout();
            }
            Operation::PollEvents => self.drain_events(),
            Operation::PollTransmit => self.transmit(),
            Operation::PollLink => {
                let action = self.app.client.poll_link();
                self.app.run.note(&action);
            }
            Operation::Watch { interest, before } => self.app.watch(*interest, *before),
            Operation::SetInterest { which, interest } => self.app.set_watch_filter(*which, *interest),
            Operation::Unwatch(which) => self.app.unwatch(*which),
            Operation::Task { command, timeout_ms } => self.app.task(*command, *timeout_ms),
            Operation::ServerNotifies { which, what } => {
                self.transmit();
                let at = usize::from(*which) % self.listens.len().max(1);
                let subscription = self.listens.get(at).map_or("0", String::as_str);
                self.send_line(&subscription_message(*what, subscription));
            }
        }
    }

    fn drain_output(&mut self) {
        self.transmit();
        while let Some(action) = self.app.client.poll_link() {
            self.app.run.note(&action);
        }
    }

    fn preludes() -> [Vec<Operation>; 2] {
        let answer = |with| Operation::Answer { which: 0, with };
        let open = || [Operation::PollLink, Operation::Open];
        let modern = open().into_iter().chain([answer(Answer::Discovered)]);
        let legacy = open().into_iter().chain([answer(Answer::Error), answer(Answer::Initialized)]);
        [modern.collect(), legacy.collect()]
    }

    fn is_end(operation: &Operation) -> bool {
        use Operation::{Abort, Close, Eof, OpenFailed};
        matches!(operation, Close | Abort | Eof | OpenFailed)
    }

    fn end(&mut self) {
        self.app.abort(LostReason::DriverDropped);
    }
}

impl Client {
    /// Passes something to the model, if one is attached.
    fn tell_model(&mut self, act: impl FnOnce(&mut ClientModel)) {
        if let Some(model) = &mut self.model {
            act(model);
        }
    }

    fn input(&mut self, bytes: &[u8]) {
        self.tell_model(|model| model.handle_input(bytes));
        for chunk in self.app.run.split(bytes) {
            self.app.client.handle_input(self.app.run.now, chunk);
        }
    }

    fn send_line(&mut self, text: &str) {
        self.input(format!("{text}\n").as_bytes());
    }

    fn answer(&mut self, which: u8, with: Answer) {
        self.transmit();
        let index = usize::from(which) % self.unanswered.len().max(1);
        let Some(id) = self.unanswered.remove(index) else { return };
        let is_even = matches!(id, Id::Number(id) if id % 2 == 0);
        let task_text;
        let outcome = match with {
            Answer::Discovered => DISCOVERED,
            Answer::Initialized => {
                r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}"#
            }
            Answer::Complete if is_even => {
                task_text = task_answer(&id);
                &task_text
            }
            Answer::Complete => {
                r#""result":{"content":[],"tools":[{"name":"fuzz","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}],"ttlMs":300,"cacheScope":"private"}"#
            }
            Answer::InputRequired if is_even => {
                r#""result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}}"#
            }
            Answer::InputRequired => r#""result":{"resultType":"input_required","requestState":"s"}"#,
            Answer::Strange => r#""result":[{"resultType":7}]"#,
            Answer::Error if is_even => {
                r#""error":{"code":-32042,"message":"no","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.b","message":"m"}]}}"#
            }
            Answer::Error => r#""error":{"code":-32601,"message":"no"}"#,
            Answer::Unsupported => UNSUPPORTED,
            Answer::Broken => BROKEN,
            Answer::WithoutId => {
                return self
                    .send_line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#);
            }
        };
        self.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        let any = self.app.client.poll_transmit(&mut out);
        assert_eq!(any, !out.is_empty());
        assert!(out.is_empty() || out.ends_with(b"\n"), "only whole lines go out");
        for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            assert!(!line.starts_with(b"["), "a client sends no batches");
            self.tell_model(|model| model.handle_output(line));
            for message in read_messages(line) {
                let Message::Request(request) = message else { continue };
                if &*request.method == "subscriptions/listen" {
                    self.listens.push(format!("{}", request.id));
                }
                self.unanswered.push_back(request.id);
            }
        }
        self.app.run.note(&Bytes::from(out));
    }
}

// --- Messages that a fuzzed client receives ---

/// The result of `server/discover`.
pub(super) const DISCOVERED: &str =
    r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
/// The error of a server that does not support the requested revision.
pub(super) const UNSUPPORTED: &str =
    r#""error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28","2025-06-18"]}}"#;
/// A result that ends too early.
pub(super) const BROKEN: &str = r#""result":{"content":["#;

pub(super) fn request(id: i64, method: u8) -> String {
    let method = choose(["ping", "roots/list", "sampling/createMessage", "x"], method);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(super) fn progress(token: i64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    )
}

pub(super) fn cancelled(id: u8) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

/// A notification for the subscription with the id `subscription`.
pub(super) fn subscription_message(what: u8, subscription: &str) -> String {
    let (method, params) = match what % 7 {
        0 => (
            "subscriptions/acknowledged",
            r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["fuzz:r"],"taskIds":["t"]},"#,
        ),
        1 => ("tools/list_changed", ""),
        2 => ("prompts/list_changed", ""),
        3 => ("resources/updated", r#""uri":"fuzz:r","#),
        4 => ("tasks", r#""taskId":"t","status":"working","#),
        5 => ("tasks", r#""taskId":"t","status":"completed","result":{"content":[]},"#),
        _ => ("tasks/status", r#""taskId":"t","status":"completed","#),
    };
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{params}"_meta":{{"io.modelcontextprotocol/subscriptionId":{subscription}}}}}}}"#
    )
}

/// An answer about a task, by the id of the request: the result that creates one, of either revision, or its status.
pub(super) fn task_answer(id: &Id) -> String {
    let number = match id {
        Id::Number(number) => *number,
        Id::String(_) => 0,
    };
    let status = match number.rem_euclid(14) / 2 {
        0 => r#""input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}"#,
        1 => r#""completed","result":{"content":[]}"#,
        2 => r#""failed","error":{"code":1,"message":"no"}"#,
        3 => r#""cancelled""#,
        _ => r#""working""#,
    };
    let kind = if number % 3 == 0 { "complete" } else { "task" };
    format!(
        r#""result":{{"resultType":"{kind}","taskId":"t","status":{status},"task":{{"taskId":"t","status":"working"}}}}"#
    )
}
