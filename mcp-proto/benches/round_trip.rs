//! Cost of a whole `tools/call` in memory, both sides on one thread.
//!
//! It compares the bare state machines, the async front, and serde_json with `&RawValue` envelopes and typed
//! parameters, without a protocol.
//!
//! `cargo bench -p mcp-proto --bench round_trip`. With `--repeat N` and a row's name it runs that row N times, for a
//! profiler: the difference between runs of 2 N and N, divided by N, is the number of instructions per round trip.

mod measure;
mod pair;

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mcp_proto::adapter::{self, ClientDriver, Entropy, ServerDriver, SystemClock};
use mcp_proto::front::{Client, ClientHandlers, Router};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, LinkAction, State};
use mcp_proto::schema::{Era, Implementation, Tool};
use mcp_proto::transport::{StreamClient, StreamServer};
use measure::measure;
use pair::{MESSAGE, Pair, Wire};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

fn main() {
    let mut lean = Lean::default();
    let mut modern = Pair::ready(Era::Modern, 16);
    let mut legacy = Pair::ready(Era::Legacy, 16);
    let mut front_modern = Front::ready(EraPolicy::ModernOnly);
    let mut front_legacy = Front::ready(EraPolicy::LegacyOnly);
    let mut rows: [(&str, &mut dyn FnMut()); 5] = [
        ("lean", &mut || lean.round_trip()),
        ("bare, modern", &mut || modern.round_trip()),
        ("bare, legacy", &mut || legacy.round_trip()),
        ("front, modern", &mut || front_modern.round_trip()),
        ("front, legacy", &mut || front_legacy.round_trip()),
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--repeat") {
        let times: usize = arguments[at + 1].parse().expect("a number of times");
        let (_, run) =
            rows.iter_mut().find(|(name, _)| arguments.iter().any(|a| a == name)).expect("a row's name");
        (0..times).for_each(|_| run());
        return;
    }
    let names = rows.each_ref().map(|(name, _)| *name);
    let costs = measure(rows.map(|(_, run)| run));
    println!("{:16} {:>8} {:>12} {:>12}", "round trip", "ns", "allocations", "× of lean");
    for (name, cost) in names.into_iter().zip(costs) {
        let ratio = cost.nanoseconds / costs[0].nanoseconds;
        println!("{name:16} {:>8.0} {:>12} {ratio:>12.2}", cost.nanoseconds, cost.allocations);
    }
}

/// A client handle and its driver, a router and its driver, joined in memory.
struct Front {
    client: Client,
    driver: ClientDriver<StreamClient>,
    server: ServerDriver<StreamServer>,
    up: Wire,
    down: Wire,
}

/// Entropy that is not random: this benchmark needs none.
struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(4);
    }
}

#[derive(Deserialize)]
struct Echo {
    message: String,
}

impl Front {
    fn ready(mode: EraPolicy) -> Self {
        let tool = Tool::new("echo", "Returns its message", serde_json::json!({ "type": "object" }));
        let router = Router::new("echo", "1.0.0").tool_with(tool, async |Echo { message }, _| message);
        let clock = Arc::new(SystemClock::new());
        let machine = StreamServer::new(router.config());
        let (_, server) = adapter::server(machine, clock.clone(), Arc::new(NoEntropy), router);
        let mut config = ClientConfig::new(Implementation::new("benchmark", "1.0.0"));
        config.era_policy = mode;
        let (client, driver) = adapter::client(StreamClient::new(config), clock, ClientHandlers::new());
        let (up, down) = Default::default();
        let mut front = Self { client, driver, server, up, down };
        while front.carry() {}
        assert_eq!(front.client.state(), State::Ready);
        front
    }

    fn carry(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut moved = false;
        let sent = self.driver.poll(&mut cx, |machine, now| {
            if machine.poll_link() == Some(LinkAction::Open) {
                machine.handle_open(now);
            }
            self.up.carry(|out| machine.poll_transmit(out)).map_or(Poll::Pending, Poll::Ready)
        });
        if let Poll::Ready(bytes) = sent {
            self.server.lock(|machine, now| machine.handle_input(now, bytes));
            moved = true;
        }
        let sent = self.server.poll(&mut cx, |machine, _| {
            self.down.carry(|out| machine.poll_transmit(out)).map_or(Poll::Pending, Poll::Ready)
        });
        if let Poll::Ready(bytes) = sent {
            self.driver.lock(|machine, now| machine.handle_input(now, bytes));
            moved = true;
        }
        moved
    }

    fn round_trip(&mut self) {
        let mut call = self.client.call_tool("echo", EchoArguments { message: MESSAGE });
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(result) = Pin::new(&mut call).poll(&mut cx) {
                black_box(result.unwrap());
                return;
            }
            self.carry();
        }
    }
}

#[derive(Serialize)]
struct EchoArguments {
    message: &'static str,
}

/// The same call with serde_json only, in the wire format of 2025-11-25: a lower bound.
#[derive(Default)]
struct Lean {
    id: i64,
    up: Vec<u8>,
    down: Vec<u8>,
}

#[derive(Serialize)]
struct LeanRequest<'a> {
    jsonrpc: &'a str,
    id: i64,
    method: &'a str,
    params: LeanCall<EchoArguments>,
}

#[derive(Serialize, Deserialize)]
struct LeanCall<A> {
    name: String,
    arguments: A,
}

#[derive(Serialize)]
struct LeanResponse<'a> {
    jsonrpc: &'a str,
    id: i64,
    result: LeanResult,
}

#[derive(Serialize, Deserialize)]
struct LeanResult {
    content: Vec<LeanContent>,
}

#[derive(Serialize, Deserialize)]
struct LeanContent {
    r#type: String,
    text: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "reading an envelope finds all its members")]
struct LeanEnvelope<'a> {
    jsonrpc: &'a str,
    id: Option<i64>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl Lean {
    fn round_trip(&mut self) {
        self.id += 1;
        let params = LeanCall { name: "echo".into(), arguments: EchoArguments { message: MESSAGE } };
        let request = LeanRequest { jsonrpc: "2.0", id: self.id, method: "tools/call", params };
        self.up.clear();
        serde_json::to_writer(&mut self.up, &request).unwrap();

        let envelope: LeanEnvelope<'_> = serde_json::from_slice(&self.up).unwrap();
        assert_eq!(envelope.method, Some("tools/call"));
        let call: LeanCall<Echo> = serde_json::from_str(envelope.params.unwrap().get()).unwrap();
        assert_eq!(call.name, "echo");
        let content = vec![LeanContent { r#type: "text".into(), text: call.arguments.message }];
        let response =
            LeanResponse { jsonrpc: "2.0", id: envelope.id.unwrap(), result: LeanResult { content } };
        self.down.clear();
        serde_json::to_writer(&mut self.down, &response).unwrap();

        let envelope: LeanEnvelope<'_> = serde_json::from_slice(&self.down).unwrap();
        assert_eq!(envelope.id, Some(self.id));
        let result: LeanResult = serde_json::from_str(envelope.result.unwrap().get()).unwrap();
        black_box(result);
    }
}
