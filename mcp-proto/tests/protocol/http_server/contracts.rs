//! Properties of HTTP sessions and exchanges in any sequence of events of client, network and application.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::Bytes;
use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{Answer, Event, ListKind};
use mcp_proto::peer::{InboundId, OutgoingRequest, RequestOptions};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{ListRoots, ListRootsParams, ProgressParams};
use mcp_proto::transport::http::server::{
    Chunk, ConnectionId, PostOutcome, RequestHead, RequestIntake, RequestRoute,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::http_server::{SessionClient, config_with, events, post, result, setup};

#[derive(Clone, Debug)]
enum Step {
    Call,
    Listen,
    Disconnect(usize),
    Resume(usize),
    Take(usize),
    Respond(usize),
    Progress(usize),
    Release(usize),
    Cancel(usize),
    Ask(usize),
    Change,
    Wait(u64),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let of = || 0..8usize;
    let step = prop_oneof![
        4 => Just(Step::Call),
        1 => Just(Step::Listen),
        2 => of().prop_map(Step::Disconnect),
        2 => of().prop_map(Step::Resume),
        6 => of().prop_map(Step::Take),
        3 => of().prop_map(Step::Respond),
        4 => of().prop_map(Step::Progress),
        1 => of().prop_map(Step::Release),
        1 => of().prop_map(Step::Cancel),
        1 => of().prop_map(Step::Ask),
        2 => Just(Step::Change),
        2 => (0..20_000u64).prop_map(Step::Wait),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 0..80)
}

/// A client that resumes each stream from its last event.
struct SessionHarness {
    client: SessionClient,
    number: u64,
    /// The bytes read from each open connection, and the request that it answers.
    open: Vec<(ConnectionId, Vec<u8>)>,
    calls: Vec<(u64, InboundId)>,
    /// The requests that must end with one outcome.
    owed: BTreeSet<InboundId>,
    last: BTreeMap<String, String>,
    answers: BTreeMap<u64, u32>,
    seen: BTreeSet<String>,
    may_repeat: bool,
}

impl SessionHarness {
    fn pick<T: Clone>(list: &[T], place: usize) -> Option<T> {
        list.get(place % list.len().max(1)).cloned()
    }

    fn step(&mut self, step: &Step) {
        let now = self.client.now;
        match step {
            Step::Call => {
                self.number += 1;
                let call = json!({"jsonrpc": "2.0", "id": self.number, "method": "tools/call",
                    "params": {"name": "t", "_meta": {"progressToken": self.number}}});
                if let PostOutcome::Connection(stream) = self.client.post(&call) {
                    self.open.push((stream, Vec::new()));
                }
            }
            Step::Listen => {
                if let Ok(stream) = self.client.session.listen(now, None) {
                    self.open.push((stream, Vec::new()));
                }
            }
            Step::Disconnect(place) => {
                if let Some((stream, _)) = Self::pick(&self.open, *place) {
                    self.client.session.handle_disconnect(now, stream);
                    self.open.retain(|(this, _)| *this != stream);
                }
            }
            Step::Resume(place) => {
                let lanes: Vec<String> = self.last.values().cloned().collect();
                if let Some(last) = Self::pick(&lanes, *place)
                    && let Ok(stream) = self.client.session.listen(now, Some(&last))
                {
                    // Another connection may carry the stream, and have unread events.
                    self.may_repeat = true;
                    self.open.push((stream, Vec::new()));
                }
            }
            Step::Take(place) => {
                if let Some((stream, _)) = Self::pick(&self.open, *place) {
                    self.take(stream);
                }
            }
            Step::Respond(place) => {
                if let Some((_, call)) = Self::pick(&self.calls, *place) {
                    self.client.session.at(now).respond(call, Answer::Result(&result()));
                    self.owed.remove(&call);
                    self.calls.retain(|(_, this)| *this != call);
                }
            }
            Step::Progress(place) => {
                if let Some((_, call)) = Self::pick(&self.calls, *place) {
                    self.number += 1;
                    let params = ProgressParams::new(Id::from("x"), self.number);
                    self.client.session.at(now).progress(call, &params);
                }
            }
            Step::Release(place) => {
                if let Some((_, call)) = Self::pick(&self.calls, *place) {
                    self.client.session.at(now).close_sse_stream(call);
                }
            }
            Step::Cancel(place) => {
                if let Some((id, _)) = Self::pick(&self.calls, *place) {
                    let params = json!({"requestId": id});
                    self.client.post(
                        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
                    );
                }
            }
            Step::Ask(place) => {
                let of = Self::pick(&self.calls, *place).map(|(_, call)| call);
                let params = ListRootsParams::new();
                let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
                let _ = self.client.session.at(now).send(of, request);
            }
            Step::Change => self.client.session.at(now).list_changed(ListKind::Tools),
            Step::Wait(milliseconds) => self.client.advance(Duration::from_millis(*milliseconds)),
            Step::Close => self.client.session.at(now).close(),
        }
        self.drain_events();
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.client.session.poll_event() {
            match event {
                Event::Request { id, params, .. } => {
                    let params: Value = params.unwrap().decode().unwrap();
                    self.calls.push((params["_meta"]["progressToken"].as_u64().unwrap(), id));
                    assert!(self.owed.insert(id));
                }
                Event::Cancelled { id, .. } => {
                    assert!(self.owed.remove(&id), "cancelled twice, or after its response");
                    self.calls.retain(|(_, this)| *this != id);
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, stream: ConnectionId) {
        let now = self.client.now;
        let Some(head) = self.client.session.poll_head(stream) else { return };
        let streamed = head.headers.contains(&("content-type", "text/event-stream".into()));
        match self.client.session.poll_body(now, stream) {
            Chunk::Bytes(bytes) if streamed => {
                for event in events(&bytes) {
                    if let Some(id) = &event.id {
                        let lane = id.split_once('-').unwrap().0.to_owned();
                        self.last.insert(lane, id.clone());
                        assert!(self.seen.insert(id.clone()) || self.may_repeat, "{id} came twice");
                    }
                    self.count_answers(event.message.as_ref());
                }
            }
            Chunk::Bytes(bytes) => self.count_answers(serde_json::from_slice(&bytes).ok().as_ref()),
            Chunk::Pending => {}
            Chunk::End => self.open.retain(|(this, _)| *this != stream),
        }
    }

    fn count_answers(&mut self, message: Option<&Value>) {
        let Some(message) = message else { return };
        if message["result"].is_object() || message["error"]["code"] == -32603 {
            *self.answers.entry(message["id"].as_u64().unwrap()).or_default() += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_request_ends_once_and_no_message_is_sent_twice(
        steps in steps(),
        version in 0..3usize,
        progress_out in prop_oneof![Just(1), Just(50), Just(u32::MAX)],
    ) {
        let version = ["2025-03-26", "2025-06-18", "2025-11-25"][version];
        let mut config = config_with(|server| server.limits.progress_out = progress_out);
        config.stored_events = 20;
        let mut walk = SessionHarness {
            client: SessionClient::with(config, version),
            number: 0,
            open: Vec::new(),
            calls: Vec::new(),
            owed: BTreeSet::new(),
            last: BTreeMap::new(),
            answers: BTreeMap::new(),
            seen: BTreeSet::new(),
            may_repeat: false,
        };
        for step in &steps {
            walk.step(step);
        }
        walk.step(&Step::Close);
        walk.step(&Step::Wait(3000));
        prop_assert!(walk.client.session.is_closed());
        // The requests that closing answered were cancelled for the application.
        prop_assert!(walk.owed.is_empty(), "{:?}", walk.owed);
        for (stream, _) in walk.open.clone() {
            while walk.open.iter().any(|(this, _)| *this == stream) {
                walk.take(stream);
            }
        }
        prop_assert!(walk.may_repeat || walk.answers.values().all(|times| *times == 1), "{:?}", walk.answers);
        prop_assert_eq!(walk.client.session.poll_timeout(), None);
    }

    /// However a body is cut, the server gives the same answer, and one.
    #[test]
    fn server_routes_a_body_the_same_however_it_is_cut(
        body in prop_oneof![
            "\\PC{0,80}",
            r#"\{"jsonrpc":"2\.0",("id":[0-9"null]{1,4},)?"method":"(ping|initialize|tools/call)"(,"params":(\{\}|\[1\]|\{"_meta":\{\}\}|5))?\}"#,
            r#"\[?\{"jsonrpc":"2\.0","id":1,"(result|error)":\{\}\}\]?"#,
        ],
        cuts in proptest::collection::vec(0..100usize, 0..5),
        version in prop::option::of(prop::sample::select(vec!["2025-11-25", "2026-07-28", "2025-03-26", "x"])),
        session in prop::option::of(prop::sample::select(vec!["00000000000000000000000000000000", "x"])),
    ) {
        let setup = setup();
        let mut fields = vec![("host", "localhost"), ("content-type", "application/json")];
        fields.extend(version.map(|version| ("mcp-protocol-version", version)));
        fields.extend(session.map(|session| ("mcp-session-id", session)));
        let give = |pieces: Vec<Bytes>| {
            let mut intake = RequestIntake::new(&setup, &RequestHead { method: "POST", path: "/", fields: &fields, client: None }).unwrap();
            for piece in pieces {
                intake.handle_body(piece).unwrap();
            }
            intake.finish()
        };
        let whole = Bytes::from(body.into_bytes());
        let mut places: Vec<usize> = cuts.into_iter().filter(|cut| *cut < whole.len()).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for place in places {
            pieces.push(whole.slice(from..place));
            from = place;
        }
        pieces.push(whole.slice(from..));
        let (first, second) = (give(vec![whole]), give(pieces));
        prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
        if let RequestRoute::Answer(answer) = first {
            prop_assert!(answer.status == 202 || (400..500).contains(&answer.status));
            prop_assert_eq!(answer.body.is_empty(), answer.status == 202);
        }
    }
}

/// A client that cannot be told apart from one that reads slowly, on a stream of which much is kept.
#[test]
fn session_bounds_its_output_for_clients_that_do_not_read() {
    let mut config = config_with(|server| {
        server.limits.queued_bytes = 10_000;
        server.limits.reply_bytes = 10_000;
    });
    config.stored_bytes = 10_000;
    let mut client = SessionClient::with(config, "2025-11-25");
    let (stream, call) = client.call(1);
    let sent = (1..10_000u64).filter(|done| {
        client.session.at(client.now).progress(call, &ProgressParams::new(Id::from("x"), *done))
    });
    assert!(sent.count() < 200);
    assert!(client.read(stream).body.len() < 12_000);
    let answer = mcp_proto::schema::CallToolResult::text("x".repeat(5_000));
    for id in 2..10 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
        if let PostOutcome::Connection(_) =
            client.post_request(&post(&call).header("Mcp-Session-Id", client.id.to_string()))
            && let Some(Event::Request { id, .. }) = client.session.poll_event()
        {
            client.session.at(client.now).respond(id, Answer::Result(&answer));
        }
    }
    assert!(client.session.is_closed());
}
