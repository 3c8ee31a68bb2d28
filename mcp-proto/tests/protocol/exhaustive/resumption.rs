//! Streams of events that break and are resumed: the response to a call, and the stream of the server's own messages.

use mcp_proto::peer::Outcome;
use mcp_proto::transport::http::ExchangeEnd;
use mcp_proto::transport::http::Verb;
use mcp_proto::transport::http::client::HttpClient;
use serde_json::{Value, json};

use super::http::{Exchange, FAULTS, Fault, HttpWorld};
use super::world::{Script, Scripted, World};
use crate::common::exhaustive::{Drive, Search, explore};
use crate::common::http_client::{SESSION, legacy_config};
use crate::common::messages::{LEGACY, answer, initialize_result, notification, progress, text};

#[derive(Clone, Copy, Debug)]
enum Choice {
    /// The server begins its response to an exchange.
    Begin(usize),
    /// The server sends the next event of a stream.
    Send(usize),
    /// A stream ends, as a server may end it at any time; the second breaks.
    End(usize),
    Timeout,
    Cancel,
    Close,
    Fault(usize, Fault),
}

/// Streams of a server that keeps all events.
struct ResumptionModel {
    http: HttpWorld,
    /// The events of the call: two reports of progress and the result. Their ids are `c-1` and so on.
    of_call: Vec<Value>,
    /// The server's own messages, with the ids `l-1` and so on.
    own: Vec<Value>,
    /// The number of events of each that the client has received.
    received: [usize; 2],
    ends: usize,
    has_failed: bool,
    is_closing: bool,
    timeouts: usize,
}

impl ResumptionModel {
    /// Whether an exchange carries the events of the call.
    fn is_call(exchange: &Exchange) -> bool {
        exchange.verb == Verb::Post
            || exchange.header("last-event-id").is_some_and(|last| last.starts_with("c-"))
    }

    fn begin(&mut self, at: usize) {
        let exchange = self.http.open[at].clone();
        match exchange.method() {
            "initialize" => {
                let result = answer(&exchange.body["id"], initialize_result(LEGACY));
                self.http.reply(&exchange, 200, SESSION, &result);
            }
            "tools/call" => {
                self.http.stream(at);
                let id = &exchange.body["id"];
                let token = &exchange.body["params"]["_meta"]["progressToken"];
                self.of_call = vec![progress(token, 1), progress(token, 2), answer(id, text("done"))];
                // The client can resume the stream from its beginning.
                self.http.body(&exchange, "id: c-0\nretry: 500\ndata:\n\n");
            }
            "GET" => self.http.stream(at),
            "DELETE" => self.http.reply(&exchange, 200, "", &Value::Null),
            _ => self.http.reply(&exchange, 202, "", &Value::Null),
        }
    }

    /// The next event of a stream, with its number.
    fn next(&self, exchange: &Exchange) -> Option<(usize, &Value)> {
        let events = if Self::is_call(exchange) { &self.of_call } else { &self.own };
        let event = events.get(exchange.position).filter(|_| exchange.is_streaming)?;
        Some((exchange.position + 1, event))
    }

    fn send(&mut self, at: usize) {
        let exchange = self.http.open[at].clone();
        let (number, event) = self.next(&exchange).expect("there is an event");
        let is_call = Self::is_call(&exchange);
        let text = format!("id: {}-{number}\ndata: {event}\n\n", if is_call { "c" } else { "l" });
        let is_last = is_call && number == self.of_call.len();
        self.received[usize::from(is_call)] = number;
        self.http.open[at].position = number;
        self.http.body(&exchange, &text);
        if is_last {
            self.http.end(&exchange, ExchangeEnd::Complete);
        }
    }

    fn each(&self, is_listed: impl Fn(&Exchange) -> bool) -> Vec<usize> {
        let open = self.http.open.iter().enumerate().filter(|(_, exchange)| is_listed(exchange));
        open.map(|(at, _)| at).collect()
    }
}

impl Script for ResumptionModel {
    type Client = HttpClient;
    type Choice = Choice;

    fn new(_case: usize, drive: Drive) -> Self {
        let changed = |list: &str| notification(&format!("notifications/{list}/list_changed"), json!({}));
        let mut model = Self {
            http: HttpWorld::new(legacy_config(), drive),
            of_call: Vec::new(),
            own: vec![changed("tools"), changed("prompts")],
            received: [0; 2],
            ends: 0,
            has_failed: false,
            is_closing: false,
            timeouts: 0,
        };
        model.receive();
        for _ in 0..3 {
            model.begin(0);
            model.http.world.drain();
            model.receive();
        }
        assert!(model.http.world.is_ready());
        model.http.call();
        model
    }

    fn world(&mut self) -> &mut World<HttpClient> {
        &mut self.http.world
    }

    fn view(&self) -> &World<HttpClient> {
        &self.http.world
    }

    fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        if self.http.world.is_closed() {
            return choices;
        }
        let silent = self.each(|exchange| !exchange.is_streaming);
        choices.extend(silent.into_iter().map(Choice::Begin));
        choices.extend(self.each(|exchange| self.next(exchange).is_some()).into_iter().map(Choice::Send));
        if self.ends < 2 {
            let streams = self.each(|exchange| exchange.is_streaming);
            choices.extend(streams.into_iter().map(Choice::End));
        }
        if self.timeouts < 3 && self.http.world.deadline().is_some() {
            choices.push(Choice::Timeout);
        }
        if !self.http.has_ended(0) {
            choices.push(Choice::Cancel);
        }
        if !self.is_closing {
            choices.push(Choice::Close);
        }
        if !self.has_failed {
            let silent = self.each(|exchange| !exchange.is_streaming && exchange.verb == Verb::Get);
            choices.extend(silent.into_iter().flat_map(|at| FAULTS.map(|fault| Choice::Fault(at, fault))));
        }
        choices
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Begin(at) => self.begin(at),
            Choice::Send(at) => self.send(at),
            Choice::End(at) => {
                self.ends += 1;
                let exchange = self.http.open[at].clone();
                let breaks = || ExchangeEnd::Truncated("reset".into());
                self.http.end(&exchange, if self.ends == 1 { ExchangeEnd::Complete } else { breaks() });
            }
            Choice::Timeout => {
                self.timeouts += 1;
                self.http.world.pass();
            }
            Choice::Cancel => self.http.cancel(0),
            Choice::Close => {
                self.is_closing = true;
                self.http.world.commands().close();
            }
            Choice::Fault(at, fault) => {
                self.has_failed = true;
                self.http.fail(at, fault);
            }
        }
    }

    fn receive(&mut self) {
        for exchange in self.http.receive() {
            if exchange.verb != Verb::Get {
                continue;
            }
            let last = exchange.header("last-event-id").and_then(|last| last.split_once('-'));
            let (of, number) = last.map_or(("l", 0), |(of, number)| (of, number.parse().unwrap()));
            let received = self.received[usize::from(of == "c")];
            assert_eq!(number, received, "the stream is resumed after another event than the last");
            let opened = self.http.open.iter_mut().find(|open| open.id == exchange.id);
            opened.expect("it is open").position = number;
        }
    }

    fn serve(&mut self) -> bool {
        if let Some(&at) = self.each(|exchange| !exchange.is_streaming).first() {
            self.begin(at);
            return true;
        }
        let next = self.each(|exchange| self.next(exchange).is_some()).first().copied();
        if let Some(at) = next {
            self.send(at);
        }
        next.is_some()
    }

    fn check(&self) {
        let reports = self.http.world.progress.get(&self.http.calls[0]).cloned().unwrap_or_default();
        assert!(["1", "2"].starts_with(&reports.iter().map(|one| &**one).collect::<Vec<_>>()), "{reports:?}");
        let expected = ["notifications/tools/list_changed", "notifications/prompts/list_changed"];
        let heard: Vec<&str> = self.http.world.notifications.iter().map(|one| &**one).collect();
        assert!(expected.starts_with(&heard), "{heard:?}");
    }

    fn check_recovered(&mut self) {
        if self.is_closing {
            return;
        }
        assert!(self.http.world.is_ready(), "the client has lost the server");
        let outcome = &self.http.world.ended[&self.http.calls[0]];
        match outcome {
            Outcome::Result(_) => {
                let reports = self.http.world.progress.get(&self.http.calls[0]).map_or(0, Vec::len);
                assert_eq!(reports, 2, "progress is lost");
            }
            Outcome::Cancelled => {}
            Outcome::TimedOut { .. } => assert!(self.timeouts > 0),
            // The one fault of a stream is not the end of the call.
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn client_resumes_its_streams_in_every_order() {
    explore::<Scripted<ResumptionModel>>(Search {
        name: "resumption of streams",
        cases: 1,
        depth: 4,
        least_paths: 480,
        least_states: 400,
    });
}
