//! Sessions over a byte stream: all bytes of both sides.

use core::fmt::Write as _;
use core::time::Duration;

use mcp_proto::peer::client::{
    ClientConfig, EraPolicy, Event as ClientEvent, State, WatchFilter, WatchStart,
};
use mcp_proto::peer::server::{Answer, Eras, Event, ListKind, ServerConfig};
use mcp_proto::peer::{InboundId, RequestOptions};
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::{
    CallTool, CallToolParams, CallToolResult, ClientCapability, Elicit, ElicitParams, ElicitResult,
    ElicitSchema, ElicitValue, EmptyParams, Era, Implementation, InputRequests, InputRequiredResult,
    ListTools, ListToolsResult, LoggingLevel, LoggingMessageParams, Map, PaginatedParams, Ping,
    ProgressParams, ReadResource, ReadResourceParams, ServerCapability, StringSchema, Tool,
};
use mcp_proto::testing::Pair;
use serde_json::json;

use crate::fixtures::check;

const FILE: &str = "file:///project/config.json";

/// Two peers, and their output so far, in order.
struct TracedPeers {
    pair: Pair,
    seen: [usize; 2],
    out: String,
}

impl TracedPeers {
    fn new(mode: EraPolicy, eras: Eras) -> Self {
        let mut client = ClientConfig::new(Implementation::new("client", "1.0"));
        client.era_policy = mode;
        for capability in [ClientCapability::Roots, ClientCapability::ElicitationForm] {
            client.capabilities = client.capabilities.with(capability);
        }
        let mut server = ServerConfig::new(Implementation::new("server", "2.0"));
        server.eras = eras;
        server.instructions = Some("Be kind.".into());
        for capability in [
            ServerCapability::ToolsListChanged,
            ServerCapability::ResourcesSubscribe,
            ServerCapability::ResourcesListChanged,
            ServerCapability::Logging,
        ] {
            server.capabilities = server.capabilities.with(capability);
        }
        Self { pair: Pair::new(client, server), seen: [0, 0], out: String::new() }
    }

    /// Advances until both are idle, and records their output.
    fn run(&mut self, step: &str) {
        writeln!(self.out, "--- {step}").unwrap();
        let mut quiet = 0;
        while quiet < 4 {
            quiet += 1;
            self.pair.advance(Duration::from_millis(1));
            let (up, down) = self.pair.transcript();
            for (at, (mark, text)) in [('>', up), ('<', down)].into_iter().enumerate() {
                let new = &text[self.seen[at]..];
                self.seen[at] = text.len();
                if new.is_empty() {
                    continue;
                }
                quiet = 0;
                assert!(new.ends_with('\n') && !new.contains('\r'), "{new:?}");
                for line in new.lines() {
                    writeln!(self.out, "{mark} {line}").unwrap();
                }
            }
        }
    }

    /// The pending request of the server.
    #[track_caller]
    fn asked(&mut self) -> InboundId {
        let mut found = None;
        while let Some(event) = self.pair.server.poll_event() {
            if let Event::Request { id, .. } = event {
                assert!(found.replace(id).is_none(), "two requests");
            }
        }
        found.expect("no request has arrived")
    }

    fn respond(&mut self, request: InboundId, answer: Answer<'_>) {
        self.pair.server.at(self.pair.now()).respond(request, answer);
    }

    /// The client answers its pending request.
    #[track_caller]
    fn answer(&mut self, answer: &ElicitResult) {
        let now = self.pair.now();
        let mut answered = false;
        while let Some(event) = self.pair.client.poll_event() {
            if let ClientEvent::Request { id, method, .. } = event {
                assert_eq!(method.name, "elicitation/create");
                self.pair.client.at(now).respond(id, Ok(answer));
                answered = true;
            }
        }
        assert!(answered, "the client has no pending request");
    }
}

fn tools() -> ListToolsResult {
    let add = json!({"properties": {"a": {"type": "integer"}}, "required": ["a"], "type": "object"});
    ListToolsResult::new([
        Tool::new("add", "Adds \u{2211}", add),
        Tool::new("greet", "Greets", json!({"type": "object"})),
    ])
}

fn form() -> ElicitParams {
    ElicitParams::form("Your name?", ElicitSchema::new([("name", StringSchema::new().into())]))
}

/// The same session in either era.
fn session(mode: EraPolicy, eras: Eras, era: Era) -> String {
    let mut t = TracedPeers::new(mode, eras);
    t.run("connect");
    assert_eq!(t.pair.client.state(), State::Ready);
    assert_eq!(t.pair.client.peer().server().map(|server| server.era), Some(era));
    let options = RequestOptions::default;

    t.pair.client.at(t.pair.now()).request::<ListTools>(&PaginatedParams::default(), options()).unwrap();
    t.run("tools/list");
    let list = t.asked();
    t.respond(list, Answer::Result(&tools()));
    t.run("its result");

    let mut params = CallToolParams::new("add");
    params.arguments = Some(serde_json::from_value(json!({"a": 1, "text": "\u{e9}\u{2028}\"\\\n"})).unwrap());
    let mut logged = options();
    logged.log_level = (era == Era::Modern).then_some(LoggingLevel::Info);
    t.pair.client.at(t.pair.now()).request::<CallTool>(&params, logged).unwrap();
    t.run("tools/call");
    let call = t.asked();
    for done in 1..=2_u32 {
        let mut progress = ProgressParams::new(0, done);
        progress.message = Some(format!("step {done}"));
        assert!(t.pair.server.at(t.pair.now()).progress(call, &progress));
        t.run("progress");
        // The next report is sent at once only after a while.
        t.pair.advance(Duration::from_millis(20));
    }
    let message = LoggingMessageParams::new(LoggingLevel::Warning, "careful");
    t.pair.server.at(t.pair.now()).log(Some(call), &message);
    t.run("a log message");
    t.respond(call, Answer::Result(&CallToolResult::text("done")));
    t.run("its result");

    let call =
        t.pair.client.at(t.pair.now()).request::<CallTool>(&CallToolParams::new("add"), options()).unwrap();
    t.run("a call to be cancelled");
    t.pair.client.at(t.pair.now()).cancel(call, Some("not needed"));
    t.run("cancel");
    while t.pair.server.poll_event().is_some() {}

    let interest = WatchFilter::new().tools().resource(FILE);
    let watch = t.pair.client.at(t.pair.now()).watch(interest, WatchStart::Now).unwrap();
    t.run("watch");
    if era == Era::Legacy {
        while t.pair.server.poll_event().is_some() {}
    }
    t.pair.server.at(t.pair.now()).list_changed(ListKind::Tools);
    t.pair.server.at(t.pair.now()).resource_updated(FILE);
    t.run("changes");
    t.pair.client.at(t.pair.now()).unwatch(watch);
    t.run("unwatch");

    while t.pair.server.poll_event().is_some() {}
    while t.pair.client.poll_event().is_some() {}
    t.pair.client.at(t.pair.now()).request::<CallTool>(&CallToolParams::new("greet"), options()).unwrap();
    t.run("a call that needs input");
    let call = t.asked();
    let alice = [("name", ElicitValue::String("Alice".into()))];
    let alice = ElicitResult::accept(alice.into_iter().collect::<Map<_>>());
    let again = match era {
        Era::Modern => {
            let requests: InputRequests = [("name", form().into())].into_iter().collect();
            let mut needed = InputRequiredResult::requests(requests);
            needed.request_state = Some("state-1".into());
            t.respond(call, Answer::InputRequired(&needed));
            t.run("the server asks by its result");
            t.answer(&alice);
            t.run("the call with the answer");
            t.asked()
        }
        _ => {
            t.pair.server.at(t.pair.now()).request::<Elicit>(&form(), options()).unwrap();
            t.run("the server asks by a request");
            t.answer(&alice);
            t.run("the answer");
            call
        }
    };
    t.respond(again, Answer::Result(&CallToolResult::text("Hello, Alice!")));
    t.run("its result");

    let params = ReadResourceParams::new("file:///nonesuch");
    t.pair.client.at(t.pair.now()).request::<ReadResource>(&params, options()).unwrap();
    t.run("resources/read");
    while t.pair.client.poll_event().is_some() {}
    let read = t.asked();
    t.respond(read, Answer::Error(ErrorObject::new(-32603, "no such file")));
    t.run("its error");

    if era == Era::Legacy {
        t.pair.client.at(t.pair.now()).request::<Ping>(&EmptyParams::default(), options()).unwrap();
        t.run("ping");
    }
    t.pair.client.at(t.pair.now()).close();
    t.run("close");
    t.out
}

/// C9.14, C3.1
#[test]
fn peers_of_2026_07_28_send_the_recorded_lines() {
    check("stream_2026-07-28.txt", &session(EraPolicy::Auto, Eras::Both, Era::Modern));
}

/// C2.10, C3.1
#[test]
fn peers_of_2025_11_25_send_the_recorded_lines() {
    check("stream_2025-11-25.txt", &session(EraPolicy::LegacyOnly, Eras::Both, Era::Legacy));
}

/// The client probes for the modern era first.
#[test]
fn peers_fall_back_to_2025_11_25_by_the_recorded_lines() {
    check("stream_fallback.txt", &session(EraPolicy::Auto, Eras::LegacyOnly, Era::Legacy));
}
