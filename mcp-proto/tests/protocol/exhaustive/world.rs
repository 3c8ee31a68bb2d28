//! A client with its driver and its application, the same for all models of clients.

use core::fmt::{Debug, Write as _};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mcp_proto::fuzzing::{Application, ChunkMode, RunState};
use mcp_proto::peer::client::{ClientCommands, ClientConfig, ClientTransport, Event, LinkAction, State};
use mcp_proto::peer::{AnyResult, InboundId, LostReason, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::Method;
use mcp_proto::trace_file::MachineRecorder;
use mcp_proto::transport::StreamClient;
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig};
use mcp_proto::{Bytes, Instant};
use serde_json::Value;

use crate::common::exhaustive::{Drive, Model, exhaust};
use crate::common::messages::{answer, parse_lines};

/// The time in which everything ends once the peer is silent.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Few messages are shorter, and each has several chunks.
const CHUNK: usize = 61;

/// A client on its transport.
pub(super) trait Machine: ClientTransport {
    type Config;
    type Output: Debug;

    fn new(config: Self::Config, now: Instant, recorder: Option<MachineRecorder>) -> Self;
    fn queued(&self) -> usize;
    fn take_output(&mut self) -> Vec<Self::Output>;
}

/// Output of a client on a byte stream.
#[derive(Debug)]
pub(super) enum StreamOutput {
    Message(Value),
    Link(LinkAction),
}

impl Machine for StreamClient {
    type Config = ClientConfig;
    type Output = StreamOutput;

    fn new(mut config: ClientConfig, _: Instant, recorder: Option<MachineRecorder>) -> Self {
        config.recorder = recorder;
        Self::new(config)
    }

    fn queued(&self) -> usize {
        self.queued()
    }

    fn take_output(&mut self) -> Vec<StreamOutput> {
        let mut out = Vec::new();
        let _ = self.poll_transmit(&mut out);
        let mut taken: Vec<_> = parse_lines(&out).map(StreamOutput::Message).collect();
        while let Some(action) = self.poll_link() {
            taken.push(StreamOutput::Link(action));
        }
        taken
    }
}

impl Machine for HttpClient {
    type Config = HttpClientConfig;
    type Output = Action;

    fn new(mut config: HttpClientConfig, now: Instant, recorder: Option<MachineRecorder>) -> Self {
        config.client.recorder = recorder;
        Self::new(config, now).expect("the URL is valid")
    }

    fn queued(&self) -> usize {
        self.queued()
    }

    fn take_output(&mut self) -> Vec<Action> {
        core::iter::from_fn(|| self.poll_action()).collect()
    }
}

/// A client, and everything that its driver and its application know.
pub(super) struct World<T: Machine> {
    pub(super) app: Application<T>,
    drive: Drive,
    /// The texts of the events and of the output, each in their order.
    observed: [String; 2],
    /// The output that the peer has not taken yet.
    pub(super) output: VecDeque<T::Output>,
    pub(super) ended: BTreeMap<RequestId, Outcome>,
    /// The requests to the application that are not answered, and on whose behalf they are made.
    pub(super) inputs: BTreeMap<InboundId, Option<RequestId>>,
    /// The reports of progress on each request.
    pub(super) progress: BTreeMap<RequestId, Vec<String>>,
    /// The notifications without progress, by method.
    pub(super) notifications: Vec<String>,
    seen_inputs: BTreeSet<InboundId>,
}

impl<T: Machine> World<T> {
    pub(super) fn new(config: T::Config, drive: Drive) -> Self {
        let run = RunState::new(match drive {
            Drive::Whole | Drive::Recorded => ChunkMode::Whole,
            Drive::Chunked => ChunkMode::Chunks(CHUNK),
        });
        let recorder = if drive == Drive::Recorded { run.recording.recorder() } else { None };
        let client = T::new(config, run.now, recorder);
        let mut world = Self {
            app: Application::new(client, run),
            drive,
            observed: Default::default(),
            output: VecDeque::new(),
            ended: BTreeMap::new(),
            inputs: BTreeMap::new(),
            progress: BTreeMap::new(),
            notifications: Vec::new(),
            seen_inputs: BTreeSet::new(),
        };
        // A client on a stream does not know the time before.
        world.take_output();
        world.tick();
        world.drain();
        world
    }

    pub(super) fn now(&self) -> Instant {
        self.app.run.now
    }

    pub(super) fn is_closed(&self) -> bool {
        self.app.run.closed
    }

    pub(super) fn is_ready(&self) -> bool {
        self.app.client.peer().state() == State::Ready
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.app.client.poll_timeout()
    }

    pub(super) fn split(&self, text: &str) -> Vec<Bytes> {
        self.app.run.split(text.as_bytes())
    }

    // --- Commands ---

    pub(super) fn commands(&mut self) -> ClientCommands<'_> {
        ClientCommands::new(&mut self.app.client, self.app.run.now)
    }

    /// Makes a request. `None` if it is refused.
    pub(super) fn request<M: Method>(
        &mut self,
        params: &M::Params,
        options: RequestOptions,
    ) -> Option<RequestId> {
        let accepted = self.commands().request::<M>(params, options);
        let request = accepted.as_ref().ok().copied();
        self.app.run.accept(accepted);
        request
    }

    pub(super) fn respond(
        &mut self,
        id: InboundId,
        answer: Result<&dyn AnyResult, mcp_proto::rpc::ErrorObject>,
    ) {
        assert!(self.inputs.remove(&id).is_some(), "{id:?} is not open");
        self.commands().respond(id, answer);
    }

    /// Advances the clock to the next deadline.
    pub(super) fn pass(&mut self) {
        let due = self.deadline().expect("a deadline");
        self.app.run.now = self.now().max(due);
        self.tick();
    }

    fn tick(&mut self) {
        let now = self.now();
        self.app.client.handle_timeout(now);
        let next = self.deadline();
        assert!(next.is_none_or(|next| next > now), "contract 5: {next:?} at {now:?}");
    }

    // --- Outputs ---

    /// Takes all events and all output.
    pub(super) fn drain(&mut self) {
        exhaust(|| match self.drive {
            Drive::Whole | Drive::Recorded => self.take_events() | self.take_output(),
            Drive::Chunked => self.take_output() | self.take_events(),
        });
    }

    /// Checks the contracts, once all events and all output are taken.
    fn check(&mut self) {
        self.app.check(self.app.client.queued());
        let in_flight = self.app.client.peer().in_flight();
        assert!(
            self.app.run.unresolved() <= in_flight,
            "contract 1: a request without outcome is not in flight"
        );
        for (input, owner) in &self.inputs {
            let is_over = owner.is_some_and(|owner| self.ended.contains_key(&owner));
            assert!(!is_over, "{input:?} is open although its request has ended:\n{}", self.observed[0]);
        }
        let due = self.deadline();
        assert!(!self.is_closed() || due.is_none(), "a deadline follows the end");
        if due.is_none_or(|due| due > self.now()) {
            self.tick();
            assert_eq!(self.deadline(), due, "contract 5: a spurious timeout changes the deadline");
            assert!(!(self.take_events() | self.take_output()), "contract 5: a spurious timeout has output");
        }
    }

    fn take_output(&mut self) -> bool {
        let taken = self.app.client.take_output();
        for output in &taken {
            let _ = writeln!(self.observed[1], "{output:?}");
        }
        let any = !taken.is_empty();
        self.output.extend(taken);
        any
    }

    fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.app.client.poll_event() {
            any = true;
            assert!(!self.is_closed(), "an event follows the end: {event:?}");
            let _ = writeln!(self.observed[0], "{event:?}");
            match event {
                Event::Outcome { request, outcome } => {
                    self.app.run.resolve(request);
                    self.ended.insert(request, outcome);
                    continue;
                }
                Event::Request { id, .. } => {
                    assert!(self.seen_inputs.insert(id), "{id:?} is used twice");
                    let owner = self.app.client.peer().on_behalf_of(id);
                    self.inputs.insert(id, owner);
                }
                Event::RequestCancelled { id, .. } => {
                    assert!(self.inputs.remove(&id).is_some(), "{id:?} is cancelled, but not open");
                }
                Event::Progress { request, ref params } => {
                    self.progress.entry(request).or_default().push(params.progress.to_string());
                }
                Event::Notification { ref method, .. } => self.notifications.push(method.to_string()),
                _ => {}
            }
            self.app.handle_event(event);
        }
        any
    }
}

impl World<StreamClient> {
    /// The server sends a message.
    pub(super) fn send(&mut self, message: &Value) {
        let now = self.now();
        for piece in self.split(&format!("{message}\n")) {
            self.app.client.handle_input(now, piece);
        }
    }

    /// The link ends.
    pub(super) fn end_link(&mut self) {
        let now = self.now();
        self.app.client.handle_eof(now, "it ended");
    }

    /// Opens the link, and answers the first request by `result`.
    pub(super) fn connect(&mut self, result: Value) {
        assert!(matches!(self.output.pop_front(), Some(StreamOutput::Link(LinkAction::Open))));
        let now = self.now();
        self.app.client.handle_open(now);
        self.answer_next(result);
        assert!(self.is_ready());
    }

    /// Answers the next request by `result`.
    pub(super) fn answer_next(&mut self, result: Value) {
        self.drain();
        let Some(StreamOutput::Message(next)) = self.output.pop_front() else { panic!("nothing is sent") };
        self.send(&answer(&next["id"], result));
        self.drain();
    }
}

/// A client and its scripted peer.
pub(super) trait Script: Sized {
    type Client: Machine;
    type Choice: Copy + Debug;

    fn new(case: usize, drive: Drive) -> Self;
    fn world(&mut self) -> &mut World<Self::Client>;
    fn view(&self) -> &World<Self::Client>;
    fn choices(&self) -> Vec<Self::Choice>;
    fn apply(&mut self, choice: Self::Choice);
    /// Lets the peer handle the output.
    fn receive(&mut self);
    /// The next action of a peer without faults, and of an application that answers. Returns whether there was one.
    fn serve(&mut self) -> bool;
    /// Serves once, and lets the peer handle the output.
    fn serve_once(&mut self) -> bool {
        let any = self.serve();
        self.world().drain();
        self.receive();
        any
    }
    /// Checks the state after each step.
    fn check(&self) {}
    /// Checks the state once the peer without faults has nothing to do.
    fn check_recovered(&mut self) {}
}

/// A script as a model.
pub(super) struct Scripted<S>(S);

impl<S: Script> Scripted<S> {
    fn step(&mut self, act: impl FnOnce(&mut S)) {
        act(&mut self.0);
        self.0.world().drain();
        self.0.receive();
        self.0.world().drain();
        self.0.world().check();
        self.0.check();
    }
}

impl<S: Script> Model for Scripted<S> {
    type Choice = S::Choice;
    const IS_OBSERVED_WHOLE: bool = true;

    fn start(case: usize, drive: Drive) -> Self {
        let mut model = Self(S::new(case, drive));
        model.step(|_| {});
        model
    }

    fn choices(&self) -> Vec<S::Choice> {
        self.0.choices()
    }

    fn apply(&mut self, choice: S::Choice) {
        self.step(|script| script.apply(choice));
    }

    fn observations(&self) -> String {
        let world = self.0.view();
        format!("{}{}{:?}", world.observed[0], world.observed[1], world.deadline())
    }

    fn finish(mut self, recovers: bool) {
        let end = self.0.world().now() + PATIENCE;
        loop {
            exhaust(|| {
                let mut any = false;
                self.step(|script| any = recovers && script.serve());
                any
            });
            let world = self.0.world();
            if world.app.run.unresolved() == 0 && (!recovers || world.is_closed() || world.is_ready()) {
                break;
            }
            let due = world.deadline();
            assert!(due.is_some_and(|due| due <= end), "nothing ends the requests: {due:?}");
            self.step(|script| script.world().pass());
        }
        if recovers {
            self.0.check_recovered();
        }
        let world = self.0.world();
        world.app.abort(LostReason::DriverDropped);
        world.drain();
        world.check();
        assert!(world.is_closed(), "the end of the connection is reported");
        assert_eq!(world.app.run.unresolved(), 0, "contract 1: a request has no outcome");
        assert_eq!(world.app.client.peer().in_flight(), 0, "requests are in flight after the end");
        assert_eq!(world.deadline(), None, "a timeout remains after the end");
        assert_eq!(world.inputs.len(), 0, "requests to the application are open after the end");
        world.app.run.recording.check();
    }
}
