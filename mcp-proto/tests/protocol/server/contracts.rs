//! Contract 1 from the client's side: in any sequence of events, the server answers each request exactly once, unless
//! the client has cancelled it, and reports each to the application at most once.

use std::collections::BTreeMap;

use core::time::Duration;

use mcp_proto::peer::InboundId;
use mcp_proto::peer::server::{Answer, Event, ListKind};
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::ProgressParams;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::messages::request_meta;
use crate::common::server::{ServerHarness, config, initialize, tools};

#[derive(Clone, Debug)]
enum Step {
    Ask { method: usize, modern: bool },
    Batch { methods: Vec<usize> },
    Malformed { with_id: bool },
    CancelNewest,
    Respond { which: usize, error: bool },
    Progress { which: usize },
    Changed,
    Read,
    Wait { ms: u64 },
}

const METHODS: &[&str] = &[
    "tools/list",
    "tools/call",
    "ping",
    "server/discover",
    "resources/subscribe",
    "logging/setLevel",
    "completion/complete",
    "initialize",
    "nonsense",
];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..METHODS.len(), any::<bool>()).prop_map(|(method, modern)| Step::Ask { method, modern }),
        1 => proptest::collection::vec(0..METHODS.len(), 1..5).prop_map(|methods| Step::Batch { methods }),
        1 => any::<bool>().prop_map(|with_id| Step::Malformed { with_id }),
        1 => Just(Step::CancelNewest),
        3 => (0..8usize, any::<bool>()).prop_map(|(which, error)| Step::Respond { which, error }),
        1 => (0..8usize).prop_map(|which| Step::Progress { which }),
        1 => Just(Step::Changed),
        2 => Just(Step::Read),
        1 => (0..500u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

fn params(method: usize, modern: bool) -> Value {
    let mut params = match METHODS[method] {
        "initialize" => initialize("2025-03-26"),
        "resources/subscribe" => json!({"uri": "x://y"}),
        "logging/setLevel" => json!({"level": "info"}),
        _ => json!({"name": "t"}),
    };
    if modern {
        params["_meta"] = request_meta();
        params["_meta"]["progressToken"] = json!(1);
    }
    params
}

/// The client's record of what it sent and received.
#[derive(Default)]
struct Ledger {
    /// How often each id was answered; each is sent once.
    answers: BTreeMap<i64, u32>,
    cancelled: Vec<i64>,
    next: i64,
}

impl Ledger {
    fn ask(&mut self) -> i64 {
        self.next += 1;
        self.answers.insert(self.next, 0);
        self.next
    }

    fn read(&mut self, line: &Value) {
        if let Some(batch) = line.as_array() {
            assert!(!batch.is_empty(), "an empty array answers nothing");
            return batch.iter().for_each(|message| self.read(message));
        }
        if line.get("method").is_some() {
            return;
        }
        assert_ne!(line.get("result").is_some(), line.get("error").is_some(), "{line}");
        let Some(id) = line["id"].as_i64() else { return };
        let answers = self.answers.get_mut(&id).expect("a response to an unknown request");
        *answers += 1;
        assert_eq!(*answers, 1, "{id} is answered twice");
    }
}

fn events(s: &mut ServerHarness, asked: &mut Vec<InboundId>) {
    for event in s.events() {
        if let Event::Request { id, .. } = event {
            assert!(!asked.contains(&id), "{id:?} is reported twice");
            asked.push(id);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// S1.1, R1
    #[test]
    fn every_request_is_answered_exactly_once(
        steps in proptest::collection::vec(step(), 0..60),
        eof: bool,
        unread in prop_oneof![Just(usize::MAX), 0..2000_usize],
    ) {
        let mut config = config();
        // A small limit makes the server hold requests.
        config.limits.queued_bytes = config.limits.queued_bytes.min(unread);
        let mut s = ServerHarness::new(config);
        let mut ledger = Ledger::default();
        let mut asked = Vec::new();
        let id = ledger.ask();
        s.request_with_id(id, "initialize", initialize("2025-03-26"));
        s.notify("notifications/initialized", json!({}));
        for step in steps {
            match step {
                Step::Ask { method, modern } => {
                    let id = ledger.ask();
                    s.request_with_id(id, METHODS[method], params(method, modern));
                }
                Step::Batch { methods } => {
                    let messages: Vec<Value> = methods
                        .into_iter()
                        .map(|method| {
                            let (name, params) = (METHODS[method], params(method, false));
                            json!({"jsonrpc": "2.0", "id": ledger.ask(), "method": name, "params": params})
                        })
                        .collect();
                    s.send(&Value::from(messages).to_string());
                }
                Step::Malformed { with_id: true } => {
                    let id = ledger.ask();
                    s.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":7}}"#));
                }
                Step::Malformed { with_id: false } => s.send(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#),
                Step::CancelNewest => {
                    s.notify("notifications/cancelled", json!({"requestId": ledger.next}));
                    ledger.cancelled.push(ledger.next);
                }
                Step::Respond { which, error } => {
                    events(&mut s, &mut asked);
                    if let Some(&id) = asked.iter().rev().nth(which) {
                        let result = tools();
                        let answer =
                            if error { Answer::Error(ErrorObject::new(1, "no")) } else { Answer::Result(&result) };
                        s.server.at(s.now).respond(id, answer);
                    }
                }
                Step::Progress { which } => {
                    if let Some(&id) = asked.iter().rev().nth(which) {
                        s.server.at(s.now).progress(id, &ProgressParams::new(0, 1));
                    }
                }
                Step::Changed => s.server.at(s.now).list_changed(ListKind::Tools),
                Step::Read => s.lines().iter().for_each(|line| ledger.read(line)),
                Step::Wait { ms } => s.advance(Duration::from_millis(ms)),
            }
        }
        if eof {
            s.server.handle_eof(s.now, "");
        } else {
            s.server.at(s.now).close();
        }
        // A client that goes on reading.
        for _ in 0..60 {
            s.lines().iter().for_each(|line| ledger.read(line));
            s.advance(Duration::from_secs(1));
        }
        s.lines().iter().for_each(|line| ledger.read(line));
        prop_assert!(s.server.is_closed());
        prop_assert_eq!(s.server.peer().backlog_len(), 0);
        for (id, answers) in &ledger.answers {
            let expected = *answers == 1 || (*answers == 0 && ledger.cancelled.contains(id));
            prop_assert!(expected, "{id} is answered {answers} times");
        }
    }
}
