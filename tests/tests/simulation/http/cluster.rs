//! Instances of one server behind a balancer that ignores sealed states, and an attacker who reads requests and replays
//! them as another principal.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::peer::Principal;
use mcp_proto::testing::http::{FrontPeer, HttpOutput, HttpPeer, SimulationRng};
use mcp_proto::transport::http::client::HttpRequest;
use serde_json::{Value, json};

use super::Ledger;

/// Ids of forged exchanges begin here.
const FORGED: u64 = 1 << 62;
/// The header that names the session of a request (2025-11-25).
const SESSION: &str = "mcp-session-id";
/// How a request with a state is described that is sent once more.
const REPLAY: &str = "the same state again";
/// The error of a request whose instance cannot reach the engine.
const STORE_FAILED: &str = "\"code\":-32603,\"message\":\"the task store failed: try again later\"";
/// Added to the argument of a call that is sent with another call's state.
const OTHER_CALL: u64 = 1 << 40;

pub struct Cluster {
    instances: Vec<FrontPeer>,
    ledger: Ledger,
    dice: SimulationRng,
    /// The instance that serves each exchange.
    instance_of: BTreeMap<u64, usize>,
    /// The instance that opened each session.
    sessions: BTreeMap<String, usize>,
    /// Each forgery, and its answer so far.
    forged: BTreeMap<u64, (String, String)>,
    next_forged: u64,
    /// Requests with a state, which the attacker sends once more at these times.
    replays: BTreeMap<(Instant, u64), HttpRequest>,
}

impl Cluster {
    pub fn new(instances: Vec<FrontPeer>, ledger: Ledger, seed: u64) -> Self {
        Self {
            instances,
            ledger,
            dice: SimulationRng::new(seed),
            instance_of: BTreeMap::new(),
            sessions: BTreeMap::new(),
            forged: BTreeMap::new(),
            next_forged: FORGED,
            replays: BTreeMap::new(),
        }
    }

    /// Chooses the instance for a request: that of its session, or else any.
    fn route(&mut self, request: &HttpRequest) -> usize {
        let header =
            |wanted: &str| request.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| &**value);
        match header(SESSION).and_then(|session| self.sessions.get(session)) {
            Some(&place) => place,
            None => usize::try_from(self.dice.below(self.instances.len() as u64)).unwrap(),
        }
    }

    fn send(&mut self, now: Instant, exchange: u64, request: &HttpRequest, principal: &str) {
        let place = self.route(request);
        self.instance_of.insert(exchange, place);
        let instance = &mut self.instances[place];
        instance.principal = Some(Principal::new(principal));
        instance.handle_request(now, exchange, request);
    }

    fn forge(&mut self, now: Instant, request: &HttpRequest, principal: &str, description: &str) {
        let exchange = self.next_forged;
        self.next_forged += 1;
        self.forged.insert(exchange, (format!("{description}, {principal}: {request:?}"), String::new()));
        self.send(now, exchange, request, principal);
    }

    /// Replays a request's task or state as another principal, and its state in another call.
    fn replay_elsewhere(&mut self, now: Instant, request: &HttpRequest) {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else { return };
        let modern = request.headers.iter().any(|(name, _)| name == "mcp-method");
        let method = message["method"].as_str().unwrap_or_default();
        if modern && method.starts_with("tasks/") {
            self.forge(now, request, "mallory", "another's task");
        }
        let sealed = message["params"]["name"] == "form" && message["params"]["requestState"].is_string();
        if !modern || method != "tools/call" || !sealed {
            return;
        }
        if self.ledger.engine.is_used() {
            let due = now + Duration::from_millis(self.dice.below(20_000));
            self.replays.insert((due, self.next_forged), request.clone());
        }
        self.forge(now, request, "mallory", "another's state");
        let mut other = message;
        let n = other["params"]["arguments"]["n"].as_u64().unwrap();
        other["params"]["arguments"]["n"] = json!(n + OTHER_CALL);
        let mut forged = request.clone();
        forged.body = other.to_string().into();
        self.forge(now, &forged, "alice", "a state of another request");
    }

    /// Collects the answer to a forgery; at its end it must be a rejection.
    fn check_forgery(&mut self, exchange: u64, output: &HttpOutput) {
        match output {
            HttpOutput::Head { .. } => {}
            HttpOutput::Body(bytes) => {
                if let Some((_, answer)) = self.forged.get_mut(&exchange) {
                    answer.push_str(&String::from_utf8_lossy(bytes));
                }
            }
            HttpOutput::End => {
                self.instance_of.remove(&exchange);
                match self.forged.remove(&exchange) {
                    Some((_, answer)) if answer.contains("\"code\":-32602") => self.ledger.note_refusal(),
                    // The store has to be asked whose the task is.
                    Some((_, answer)) if self.ledger.engine.is_used() && answer.contains(STORE_FAILED) => {}
                    // It may be the first that reaches the engine. Then that of the host is refused: the call runs once.
                    Some((description, _)) if description.starts_with(REPLAY) => {}
                    Some((description, answer)) => {
                        self.ledger.report_violation(format!("{description} was not rejected: {answer}"))
                    }
                    None => {}
                }
            }
        }
    }

    /// Records the instance of a session: the first that names it.
    fn note_session(&mut self, place: usize, output: &HttpOutput) {
        let HttpOutput::Head { headers, .. } = output else { return };
        if let Some((_, id)) = headers.iter().find(|(name, _)| name == SESSION) {
            self.sessions.entry(id.clone()).or_insert(place);
        }
    }
}

impl HttpPeer for Cluster {
    fn handle_request(&mut self, now: Instant, exchange: u64, request: &HttpRequest) {
        // Before the request itself, which would use its state up.
        self.replay_elsewhere(now, request);
        self.send(now, exchange, request, "alice");
    }

    fn handle_disconnect(&mut self, now: Instant, exchange: u64) {
        if let Some(place) = self.instance_of.remove(&exchange) {
            self.instances[place].handle_disconnect(now, exchange);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(entry) = self.replays.first_entry().filter(|entry| entry.key().0 <= now) {
            let request = entry.remove();
            self.forge(now, &request, "alice", REPLAY);
        }
        for instance in &mut self.instances {
            instance.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let replay = self.replays.first_key_value().map(|(&(due, _), _)| due);
        self.instances.iter().filter_map(HttpPeer::poll_timeout).chain(replay).min()
    }

    fn poll_output(&mut self, now: Instant) -> Option<(u64, HttpOutput)> {
        // Twice, as one instance may wake another.
        for place in (0..self.instances.len()).chain(0..self.instances.len()) {
            while let Some((exchange, output)) = self.instances[place].poll_output(now) {
                if exchange >= FORGED {
                    self.check_forgery(exchange, &output);
                    continue;
                }
                self.note_session(place, &output);
                if matches!(output, HttpOutput::End) {
                    self.instance_of.remove(&exchange);
                }
                return Some((exchange, output));
            }
        }
        None
    }
}
