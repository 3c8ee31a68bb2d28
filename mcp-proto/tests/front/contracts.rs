//! A client's handle and a router, joined in memory, with random orders of commands, polls, drops and time.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::common::front::config;
use crate::common::polling::{CountingEntropy, TestClock};
use mcp_proto::Bytes;
use mcp_proto::adapter::{self, ClientDriver, ServerDriver};
use mcp_proto::front::{Call, Client, ClientHandlers, Context, Error, Progress, Router};
use mcp_proto::peer::client::{EraPolicy, LinkAction};
use mcp_proto::schema::{CallTool, Elicit, ElicitParams, ElicitResult, ElicitSchema, Map, Tool};
use mcp_proto::transport::{StreamClient, StreamServer};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Answers at once.
    Quick,
    /// Yields, and reports progress each time.
    Busy,
    /// Never answers.
    Never,
    /// Sends a request to the client.
    Asking,
}

#[derive(Clone, Debug)]
enum Op {
    Call(Kind),
    Poll(usize),
    Follow(usize),
    Drop(usize),
    CancelWithReason(usize),
    DriveClient,
    DriveServer,
    /// Delivers the output of one side to the other, or its first bytes.
    ToServer(usize),
    ToClient(usize),
    Advance(u16),
    Close,
    Abort,
    EndServer,
    DropServerDriver,
    DropClientDriver,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let kind = prop_oneof![
        4 => Just(Kind::Quick), 2 => Just(Kind::Busy), 1 => Just(Kind::Never), 1 => Just(Kind::Asking),
    ];
    let op = prop_oneof![
        6 => kind.prop_map(Op::Call),
        6 => any::<usize>().prop_map(Op::Poll),
        2 => any::<usize>().prop_map(Op::Follow),
        2 => any::<usize>().prop_map(Op::Drop),
        1 => any::<usize>().prop_map(Op::CancelWithReason),
        8 => Just(Op::DriveClient),
        8 => Just(Op::DriveServer),
        8 => (1_usize..2000).prop_map(Op::ToServer),
        8 => (1_usize..2000).prop_map(Op::ToClient),
        2 => any::<u16>().prop_map(Op::Advance),
    ];
    let end = prop_oneof![
        Just(Op::Close),
        Just(Op::Abort),
        Just(Op::EndServer),
        Just(Op::DropServerDriver),
        Just(Op::DropClientDriver),
    ];
    (proptest::collection::vec(op.clone(), 0..120), end, proptest::collection::vec(op, 0..30)).prop_map(
        |(mut all, end, after)| {
            all.push(end);
            all.extend(after);
            all
        },
    )
}

#[derive(Deserialize)]
struct SayArguments {
    say: String,
}

fn router(contexts: Arc<Mutex<Vec<Context>>>) -> Router {
    let tool = |name: &str| Tool::new(name, "", json!({"type": "object"}));
    Router::new("echo", "1")
        .tool_with(tool("quick"), async |SayArguments { say }, _| say)
        .tool_with(tool("busy"), async |SayArguments { say }, cx: Context| {
            for step in 1..4_u64 {
                cx.progress(Progress::new(step).total(3_u64));
                let mut yielded = false;
                poll_fn(|cx| {
                    if core::mem::replace(&mut yielded, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
            say
        })
        .tool_with(tool("never"), move |SayArguments { .. }, cx| {
            contexts.lock().unwrap().push(cx);
            core::future::pending::<String>()
        })
        .tool_with(tool("asking"), async |SayArguments { say }, cx: Context| {
            match cx.request::<Elicit>(ElicitParams::form("?", ElicitSchema::new(Map::new()))).await {
                Ok(_) | Err(_) => say,
            }
        })
}

struct Pending {
    call: Call<CallTool>,
    say: String,
    progress: u64,
}

struct Simulation {
    client: Client,
    client_driver: Option<ClientDriver<StreamClient>>,
    server_driver: Option<ServerDriver<StreamServer>>,
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    clock: Arc<TestClock>,
    contexts: Arc<Mutex<Vec<Context>>>,
    calls: Vec<Pending>,
    made: usize,
}

impl Simulation {
    fn new(mode: EraPolicy) -> Self {
        let clock = Arc::new(TestClock::default());
        let contexts = Arc::new(Mutex::new(Vec::new()));
        let router = router(contexts.clone());
        let entropy = Arc::new(CountingEntropy::default());
        let machine = StreamServer::new(router.config());
        let (_, server_driver) = adapter::server(machine, clock.clone(), entropy, router);
        let handlers = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
        let mut config = config();
        config.era_policy = mode;
        config.capabilities = handlers.capabilities().clone();
        let (client, client_driver) = adapter::client(StreamClient::new(config), clock.clone(), handlers);
        Self {
            client,
            client_driver: Some(client_driver),
            server_driver: Some(server_driver),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            clock,
            contexts,
            calls: Vec::new(),
            made: 0,
        }
    }

    fn drive_client(&mut self) {
        let Some(driver) = &mut self.client_driver else { return };
        let mut cx = TaskContext::from_waker(Waker::noop());
        let mut out = Vec::new();
        let mut ended = false;
        while driver
            .poll(&mut cx, |machine, now| match machine.poll_link() {
                Some(LinkAction::Open) => {
                    machine.handle_open(now);
                    Poll::Ready(())
                }
                Some(_) => {
                    ended = true;
                    machine.handle_eof(now, "");
                    Poll::Ready(())
                }
                None if machine.poll_transmit(&mut out) => Poll::Ready(()),
                None => Poll::Pending,
            })
            .is_ready()
        {}
        self.to_server.extend(out);
        if ended && let Some(driver) = &mut self.server_driver {
            driver.lock(|machine, now| machine.handle_eof(now, ""));
        }
    }

    fn drive_server(&mut self) {
        let Some(driver) = &mut self.server_driver else { return };
        let mut cx = TaskContext::from_waker(Waker::noop());
        let mut out = Vec::new();
        while driver
            .poll(&mut cx, |machine, _| match machine.poll_transmit(&mut out) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .is_ready()
        {}
        self.to_client.extend(out);
    }

    fn carry_to_server(&mut self, bytes: usize) {
        let bytes: Vec<u8> = self.to_server.drain(..bytes.min(self.to_server.len())).collect();
        if let Some(driver) = &mut self.server_driver {
            driver.lock(|machine, now| machine.handle_input(now, Bytes::from(bytes)));
        }
    }

    fn carry_to_client(&mut self, bytes: usize) {
        let bytes: Vec<u8> = self.to_client.drain(..bytes.min(self.to_client.len())).collect();
        if let Some(driver) = &mut self.client_driver {
            driver.lock(|machine, now| machine.handle_input(now, Bytes::from(bytes)));
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Call(kind) => {
                self.made += 1;
                let say = format!("call {}", self.made);
                let tool = match kind {
                    Kind::Quick => "quick",
                    Kind::Busy => "busy",
                    Kind::Never => "never",
                    Kind::Asking => "asking",
                };
                if let Ok(call) = self.client.call_tool(tool, json!({ "say": say })).start() {
                    self.calls.push(Pending { call, say, progress: 0 });
                }
            }
            Op::Poll(index) => self.poll(index),
            Op::Follow(index) => self.follow(index),
            Op::Drop(index) => drop(self.pick(index).map(|index| self.calls.swap_remove(index))),
            Op::CancelWithReason(index) => {
                if let Some(index) = self.pick(index) {
                    self.calls.swap_remove(index).call.cancel("enough");
                }
            }
            Op::DriveClient => self.drive_client(),
            Op::DriveServer => self.drive_server(),
            Op::ToServer(bytes) => self.carry_to_server(bytes),
            Op::ToClient(bytes) => self.carry_to_client(bytes),
            Op::Advance(ms) => {
                self.clock.advance(Duration::from_millis(ms.into()));
                if let Some(driver) = &mut self.client_driver {
                    driver.lock(|machine, now| machine.handle_timeout(now));
                }
                if let Some(driver) = &mut self.server_driver {
                    driver.lock(|machine, now| machine.handle_timeout(now));
                }
            }
            Op::Close => {
                let mut closing = Box::pin(self.client.close());
                let _ = closing.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
            }
            Op::Abort => self.client.abort(),
            Op::EndServer => {
                self.server_driver = None;
                if let Some(driver) = &mut self.client_driver {
                    driver.lock(|machine, now| machine.handle_eof(now, "the server crashed"));
                }
            }
            Op::DropServerDriver => self.server_driver = None,
            Op::DropClientDriver => self.client_driver = None,
        }
    }

    fn pick(&self, index: usize) -> Option<usize> {
        index.checked_rem(self.calls.len())
    }

    fn follow(&mut self, index: usize) {
        let Some(index) = self.pick(index) else { return };
        let pending = &mut self.calls[index];
        let mut next = Box::pin(pending.call.progress());
        if let Poll::Ready(Some(progress)) = next.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            let value = progress.progress.as_i64().unwrap() as u64;
            assert!(value > pending.progress, "progress goes forward");
            pending.progress = value;
        }
    }

    /// Each call has one result, and it is its own.
    fn poll(&mut self, index: usize) {
        let Some(index) = self.pick(index) else { return };
        let pending = &mut self.calls[index];
        let mut cx = TaskContext::from_waker(Waker::noop());
        if let Poll::Ready(answer) = Pin::new(&mut pending.call).poll(&mut cx) {
            if let Ok(result) = answer {
                assert_eq!(result.text_content(), pending.say);
            }
            assert!(matches!(Pin::new(&mut pending.call).poll(&mut cx), Poll::Ready(Err(Error::Finished))));
            self.calls.swap_remove(index);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Contract 1, contract 2, contract 12: in any order of operations, each call ends exactly once.
    #[test]
    fn every_call_ends_once_and_with_its_own_answer(legacy: bool, ops in ops()) {
        let mut world = Simulation::new(if legacy { EraPolicy::LegacyOnly } else { EraPolicy::Auto });
        for op in ops {
            world.apply(op);
        }
        world.client_driver = None;
        while !world.calls.is_empty() {
            let before = world.calls.len();
            world.poll(0);
            prop_assert!(world.calls.len() < before, "a call that never ends");
        }
        world.server_driver = None;
        for context in world.contexts.lock().unwrap().iter() {
            prop_assert!(context.is_cancelled());
        }
    }

    /// Contract 1: while both sides are driven and no call is cancelled, every answerable call is answered.
    #[test]
    fn driven_conversation_ends(
        legacy: bool,
        kinds in proptest::collection::vec(prop_oneof![Just(Kind::Quick), Just(Kind::Busy), Just(Kind::Asking)], 1..20),
        chunk in 1_usize..200,
    ) {
        let mut world = Simulation::new(if legacy { EraPolicy::LegacyOnly } else { EraPolicy::Auto });
        for kind in kinds {
            world.apply(Op::Call(kind));
        }
        let mut rounds = 0;
        while !world.calls.is_empty() {
            world.drive_client();
            while !world.to_server.is_empty() {
                world.carry_to_server(chunk);
            }
            world.drive_server();
            while !world.to_client.is_empty() {
                world.carry_to_client(chunk);
            }
            for index in (0..world.calls.len()).rev() {
                let pending = &mut world.calls[index];
                let mut cx = TaskContext::from_waker(Waker::noop());
                if let Poll::Ready(answer) = Pin::new(&mut pending.call).poll(&mut cx) {
                    prop_assert_eq!(answer.unwrap().text_content(), pending.say.clone());
                    world.calls.remove(index);
                }
            }
            rounds += 1;
            prop_assert!(rounds < 100, "the conversation makes no progress");
        }
    }
}
