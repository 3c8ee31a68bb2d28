//! The driver of every fuzzed machine: it applies the operations and checks the contracts that all machines keep.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt::{Debug, Write as _};
use core::iter;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;

use crate::peer::client::{
    ClientCommands, ClientConfig, ClientTransport, EraPolicy, Event, Keepalive, TaskCommand, WatchFilter,
    WatchId, WatchStart, WatchState,
};
use crate::peer::{AnyResult, InboundId, LostReason, RequestError, RequestId, RequestOptions};
use crate::prelude::*;
use crate::rpc::{self, ErrorObject, Frame, Message};
use crate::schema::{
    Implementation, Method, SubscriptionFilter, SubscriptionsListen, SubscriptionsListenParams,
};
use crate::trace_file::{MachineRecorder, Trace, TraceEvent, TraceHeader, TraceRecord};
use crate::transport::{MachineReplayError, replay_machines};
use crate::{Instant, Limits, UnixTime};

/// A machine in its simulated environment.
pub(super) trait Target: Sized {
    type Config: for<'a> Arbitrary<'a> + Debug;
    type Operation: for<'a> Arbitrary<'a> + Debug;
    type Event: Debug;

    fn new(config: &Self::Config, run: RunState) -> Self;
    fn run(&mut self) -> &mut RunState;
    fn apply(&mut self, operation: &Self::Operation);
    fn handle_timeout(&mut self);
    fn poll_timeout(&self) -> Option<Instant>;
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// The number of this side's requests in the machine's tables.
    fn in_flight(&self) -> usize {
        0
    }
    /// Checks an event, and the machine's right to emit it.
    fn handle_event(&mut self, event: Self::Event);
    /// Checks the invariants after an operation.
    fn check(&self) {}
    /// Takes the output that the machine has queued.
    fn drain_output(&mut self) {}
    /// Operations that make the machine ready: for the modern era, and for the legacy one.
    fn preludes() -> [Vec<Self::Operation>; 2] {
        [Vec::new(), Vec::new()]
    }
    /// Whether an operation ends the machine.
    fn is_end(_operation: &Self::Operation) -> bool {
        false
    }
    /// Changes an operation that a machine would most likely refuse into one that reaches more of it.
    fn tune(_operation: &mut Self::Operation) {}
    /// Attaches a reference model to a new machine, if there is one.
    fn attach_model(&mut self, config: &Self::Config) -> bool {
        let _ = config;
        false
    }
    /// Lets the model judge what the machine did in an operation, once its output and events were taken. Returns whether the
    /// model covers it.
    fn settle_model(&mut self) -> bool {
        false
    }
    /// Ends the machine; its last events follow.
    fn end(&mut self);
    /// Checks the invariants after the end.
    fn check_end(&self) {}

    fn take_event(&mut self) -> bool {
        let Some(event) = self.poll_event() else { return false };
        assert!(!self.run().closed, "an event follows the end: {event:?}");
        self.run().note(&event);
        self.handle_event(event);
        true
    }

    fn drain_events(&mut self) {
        while self.take_event() {}
        let in_flight = self.in_flight();
        assert!(
            self.run().unresolved() <= in_flight,
            "contract 1: a request without outcome is not in flight"
        );
    }

    fn check_timeout(&mut self) {
        self.handle_timeout();
        let (next, now) = (self.poll_timeout(), self.run().now);
        assert!(next.is_none_or(|next| next > now), "contract 5: {next:?} at {now:?}");
    }
}

/// The configuration and the operations of one run.
#[derive(Arbitrary)]
struct Run<C, O> {
    config: C,
    operations: Vec<O>,
}

/// Runs the operations that a fuzzer's bytes encode twice, with whole and with split input, and checks the contracts.
pub(super) fn fuzz<T: Target>(data: &[u8]) {
    let Ok(run) = Run::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let [whole, split] = [ChunkMode::Whole, ChunkMode::Chunks(1)].map(|chunk_mode| {
        let mut state = RunState::new(chunk_mode);
        // To record each byte and run that again takes most of the time, so only some inputs are.
        state.recording.is_on = chunk_mode == ChunkMode::Whole || data.len().is_multiple_of(8);
        execute::<T>(&run, state, |target, operation| target.apply(operation))
    });
    assert_eq!(whole, split, "contract 4: chunk invariance");
    // The model of the HTTP server takes as long again.
    if data.len().is_multiple_of(2) {
        compare_with_model::<T>(data);
    }
}

/// Compares a machine with its reference model after each operation: of a new machine, and of one that is made ready first, for
/// each era, with [tuned](Target::tune) operations of which none ends it. Returns the number of operations that the model has covered, and of all.
pub(super) fn compare_with_model<T: Target>(data: &[u8]) -> (usize, usize) {
    let (mut covered, mut all) = (0, 0);
    let no_prelude = iter::once(Vec::new());
    for (n, prelude) in no_prelude.chain(T::preludes()).enumerate() {
        let run = Run::<T::Config, T::Operation>::arbitrary_take_rest(Unstructured::new(data));
        let Ok(mut run) = run else { break };
        let mut state = RunState::new(ChunkMode::Whole);
        state.recording.is_on = false;
        let mut target = T::new(&run.config, state);
        if !target.attach_model(&run.config) {
            break;
        }
        if n > 0 {
            run.operations.retain(|operation| !T::is_end(operation));
            run.operations.iter_mut().for_each(T::tune);
        }
        for operation in prelude.iter().chain(&run.operations) {
            target.apply(operation);
            target.drain_events();
            target.drain_output();
            target.drain_events();
            covered += usize::from(target.settle_model());
            all += 1;
        }
    }
    (covered, all)
}

/// What a machine does with the operations that a fuzzer's bytes encode: its events, the bytes to send and the deadline
/// after each operation. They run twice; the second time the driver takes all output after each. Lines that begin with
/// `#` name the operations.
pub(super) fn transcript<T: Target>(data: &[u8]) -> String {
    let Ok(run) = Run::arbitrary_take_rest(Unstructured::new(data)) else { return String::new() };
    [false, true].map(|drains| trace::<T>(&run, drains)).concat()
}

/// The transcript of a machine that is made ready first, for each era, and that no operation ends.
pub(super) fn ready_transcript<T: Target>(data: &[u8]) -> String {
    let transcripts = T::preludes().map(|prelude| {
        let run = Run::<T::Config, T::Operation>::arbitrary_take_rest(Unstructured::new(data));
        let Ok(mut run) = run else { return String::new() };
        run.operations.retain(|operation| !T::is_end(operation));
        run.operations.splice(..0, prelude);
        trace::<T>(&run, true)
    });
    transcripts.concat()
}

fn trace<T: Target>(run: &Run<T::Config, T::Operation>, drains: bool) -> String {
    let text = execute::<T>(run, RunState::new(ChunkMode::Whole), |target, operation| {
        let _ = writeln!(target.run().transcript, "# {operation:?}");
        target.apply(operation);
        if drains {
            target.drain_events();
            target.drain_output();
        }
        let deadline = target.poll_timeout();
        target.run().note(&format_args!("deadline {deadline:?}"));
    });
    format!("# drains: {drains}, {:?}\n{text}", run.config)
}

/// Runs operations, checks the contracts, and returns what the machine did.
fn execute<T: Target>(
    run: &Run<T::Config, T::Operation>,
    state: RunState,
    apply: impl Fn(&mut T, &T::Operation),
) -> String {
    let mut target = T::new(&run.config, state);
    for operation in &run.operations {
        apply(&mut target, operation);
        target.check();
        assert!(!target.run().closed || target.poll_timeout().is_none(), "a timeout follows the end");
    }
    target.end();
    target.drain_events();
    target.check();
    target.check_end();
    assert_eq!(target.in_flight(), 0, "requests are in flight after the end");
    assert_eq!(target.poll_timeout(), None, "a timeout remains after the end");
    target.run().recording.check();
    target.run().finish()
}

/// How input is split before the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChunkMode {
    Whole,
    /// Into chunks of this number of bytes at most.
    Chunks(usize),
}

/// The clock, the requests and the transcript of a run.
pub struct RunState {
    pub now: Instant,
    /// Whether the machine has reported its end.
    pub closed: bool,
    /// The accepted requests, and whether each has its outcome.
    requests: BTreeMap<RequestId, bool>,
    transcript: String,
    chunk_mode: ChunkMode,
    pub recording: Recording,
}

/// A trace of machines, with their secrets.
pub struct Recording {
    file: Arc<Mutex<Vec<u8>>>,
    recorders: AtomicU64,
    is_on: bool,
}

impl Default for Recording {
    fn default() -> Self {
        let header = TraceHeader::new("fuzz", UnixTime::EPOCH, false);
        Self { file: Arc::new(Mutex::new(header.to_line())), recorders: AtomicU64::new(0), is_on: true }
    }
}

impl Recording {
    /// A recorder that writes it. Each has its own connection, because each numbers its machines.
    pub fn recorder(&self) -> Option<MachineRecorder> {
        if !self.is_on {
            return None;
        }
        let file = self.file.clone();
        let connection = self.recorders.fetch_add(1, Ordering::Relaxed);
        Some(MachineRecorder::new(move |record| {
            let record = TraceRecord::new(Duration::ZERO, connection, TraceEvent::Machine(record));
            file.lock().unwrap().extend(record.to_line());
        }))
    }

    /// Runs its machines again. Returns the number of steps, and of the bytes of the trace.
    pub fn check(&self) -> (usize, usize) {
        let file = self.file.lock().unwrap();
        let trace = Trace::parse(&file).unwrap();
        assert_eq!(trace.unread, []);
        match replay_machines(&trace) {
            Err(MachineReplayError::NoMachines { .. }) => {}
            Err(error) => panic!("contract 13: {error}"),
            Ok(report) => assert_eq!((report.steps, report.unfinished.len()), (trace.records.len(), 0)),
        }
        (trace.records.len(), file.len())
    }
}

debug_fields! { Recording {} }

impl RunState {
    pub fn new(chunk_mode: ChunkMode) -> Self {
        Self {
            now: Instant::ORIGIN,
            closed: false,
            requests: BTreeMap::new(),
            transcript: String::new(),
            chunk_mode,
            recording: Recording::default(),
        }
    }

    fn finish(&mut self) -> String {
        for (request, resolved) in &self.requests {
            assert!(resolved, "contract 1: {request:?} has no outcome");
        }
        assert!(self.closed, "the end of a connection is reported");
        mem::take(&mut self.transcript)
    }

    /// Adds a line to the transcript.
    pub(super) fn note(&mut self, output: &impl Debug) {
        let _ = writeln!(self.transcript, "{:?} {output:?}", self.now);
    }

    /// Splits input.
    pub fn split(&self, bytes: &[u8]) -> Vec<Bytes> {
        match self.chunk_mode {
            ChunkMode::Whole => Vec::from([Bytes::copy_from_slice(bytes)]),
            ChunkMode::Chunks(size) => bytes.chunks(size).map(Bytes::copy_from_slice).collect(),
        }
    }

    pub(super) fn advance(&mut self, ms: u16) {
        self.now = self.now + Duration::from_millis(u64::from(ms) * 4);
    }

    /// Sets the clock back: a driver's readings need not be monotonic.
    pub(super) fn set_back(&mut self, ms: u16) {
        let since_origin = self.now.since_origin().saturating_sub(Duration::from_millis(ms.into()));
        self.now = Instant::from_origin(since_origin);
    }

    /// Notes a request that the machine has accepted or refused. Returns it, if it was accepted.
    pub fn accept(&mut self, accepted: Result<RequestId, RequestError>) -> Option<RequestId> {
        self.note(&accepted);
        let request = accepted.ok()?;
        assert!(self.requests.insert(request, false).is_none(), "a handle is used twice");
        Some(request)
    }

    pub fn resolve(&mut self, request: RequestId) {
        let before = self.requests.insert(request, true);
        assert_eq!(before, Some(false), "contract 1: {request:?} is unknown or ended twice");
    }

    /// The number of accepted requests without an outcome.
    pub fn unresolved(&self) -> usize {
        self.requests.values().filter(|&&resolved| !resolved).count()
    }

    fn check_pending(&self, request: RequestId) {
        assert_eq!(self.requests.get(&request), Some(&false), "an event of a request follows its outcome");
    }

    pub(super) fn request(&self, index: u8) -> Option<RequestId> {
        self.requests.keys().nth(index.into()).copied()
    }

    pub(super) fn pick_request(&self, which: u8) -> Option<RequestId> {
        pick_key(&self.requests, which)
    }
}

pub(super) fn check_limits(
    limits: &Limits,
    queued: usize,
    overhead: usize,
    (in_flight, most_in_flight): (usize, usize),
) {
    let most = limits.queued_bytes + limits.reply_bytes + limits.message_bytes + overhead;
    assert!(queued <= most, "contract 8: {queued} bytes are queued");
    assert!(in_flight <= most_in_flight, "contract 8: {in_flight} requests are in flight");
}

/// Reads a message or a batch that the machine sent.
pub(super) fn read_messages(text: &[u8]) -> Vec<Message> {
    match rpc::read(&Bytes::copy_from_slice(text), 128) {
        Ok(Frame::Single(message)) => Vec::from([message]),
        Ok(Frame::Batch(batch)) => {
            assert!(!batch.is_empty(), "an empty batch is sent");
            let mut messages = Vec::new();
            batch.for_each(|message| messages.push(message.expect("a batch consists of messages")));
            messages
        }
        Err(malformed) => panic!("output is malformed: {malformed:?}"),
    }
}

/// Options of a request with this timeout.
pub(super) fn timeout(ms: Option<u16>) -> RequestOptions {
    let timeout = ms.map(|ms| Duration::from_millis(ms.into()));
    RequestOptions { timeout, ..RequestOptions::default() }
}

/// One of a few values.
pub(super) fn choose<T: Copy, const N: usize>(from: [T; N], which: u8) -> T {
    from[usize::from(which) % N]
}

/// Picks an element, unless the slice is empty.
pub(super) fn pick<T: Copy>(from: &[T], which: u8) -> Option<T> {
    from.get(usize::from(which) % from.len().max(1)).copied()
}

pub(super) fn pick_key<K: Copy, V>(from: &BTreeMap<K, V>, which: u8) -> Option<K> {
    from.keys().nth(usize::from(which) % from.len().max(1)).copied()
}

pub(super) fn config(mode: u8, keepalive: bool, tight: bool) -> ClientConfig {
    let mut config = ClientConfig::new(Implementation::new("fuzz", "0"));
    config.era_policy = choose([EraPolicy::Auto, EraPolicy::ModernOnly, EraPolicy::LegacyOnly], mode);
    config.keepalive = keepalive.then_some(Keepalive::PRESET);
    if tight {
        config.limits = Limits {
            message_bytes: 256,
            events: 16,
            requests_out: 4,
            requests_in: 2,
            queued_bytes: 1024,
            reply_bytes: 1024,
            ..config.limits
        };
        config.cache.entries = 1;
        config.cache.bytes = 1500;
        config.cache.stale_if_error = Duration::from_secs(1);
    }
    config
}

/// A client with the requests and watches of its application.
pub struct Application<T> {
    pub client: T,
    pub run: RunState,
    inbound: Vec<InboundId>,
    /// The watches, and whether the end of each was reported.
    watches: BTreeMap<WatchId, bool>,
}

impl<T: ClientTransport> Application<T> {
    pub fn new(client: T, run: RunState) -> Self {
        Self { client, run, inbound: Vec::new(), watches: BTreeMap::new() }
    }

    fn commands(&mut self) -> ClientCommands<'_> {
        ClientCommands::new(&mut self.client, self.run.now)
    }

    pub(super) fn request<M: Method>(
        &mut self,
        params: &M::Params,
        options: RequestOptions,
    ) -> Option<RequestId> {
        let accepted = self.commands().request::<M>(params, options);
        self.run.accept(accepted)
    }

    pub(super) fn listen(&mut self) {
        let params = SubscriptionsListenParams::new(SubscriptionFilter::default());
        self.request::<SubscriptionsListen>(&params, RequestOptions::default());
    }

    /// Sends a command for the one task that all servers have.
    pub(super) fn task(&mut self, command: u8, timeout_ms: Option<u16>) {
        let command = choose([TaskCommand::Follow, TaskCommand::Status, TaskCommand::Cancel], command);
        let accepted = self.commands().task("t", command, timeout(timeout_ms));
        self.run.accept(accepted);
    }

    pub(super) fn cancel(&mut self, which: u8) -> Option<RequestId> {
        let request = self.run.pick_request(which)?;
        self.commands().cancel(request, None);
        Some(request)
    }

    /// Answers a request of the server twice.
    pub(super) fn respond(&mut self, which: u8, result: &dyn AnyResult) -> Option<InboundId> {
        let request = pick(&self.inbound, which)?;
        self.commands().respond(request, Ok(result));
        self.commands().respond(request, Err(ErrorObject::new(1, "twice")));
        Some(request)
    }

    pub(super) fn watch(&mut self, filter: u8, before: bool) {
        let start = if before { WatchStart::Before } else { WatchStart::Now };
        let watch = self.commands().watch(watch_filter(filter), start);
        self.run.note(&watch);
        if let Ok(watch) = watch {
            assert!(self.watches.insert(watch, false).is_none(), "a handle is used twice");
        }
    }

    pub(super) fn set_watch_filter(&mut self, which: u8, filter: u8) {
        if let Some(watch) = pick_key(&self.watches, which) {
            self.commands().set_watch_filter(watch, watch_filter(filter));
        }
    }

    pub(super) fn unwatch(&mut self, which: u8) {
        if let Some(watch) = pick_key(&self.watches, which) {
            self.commands().unwatch(watch);
        }
    }

    pub(super) fn close(&mut self) {
        self.commands().close();
    }

    pub fn abort(&mut self, reason: LostReason) {
        self.commands().abort(reason);
    }

    pub fn handle_event(&mut self, event: Event) {
        match event {
            Event::Outcome { request, .. } => self.run.resolve(request),
            Event::Progress { request, .. }
            | Event::PartialResult { request, .. }
            | Event::TaskStatus { request, .. } => self.run.check_pending(request),
            Event::Changed { watch, .. } => {
                assert_eq!(self.watches.get(&watch), Some(&false), "a change follows the end of its watch");
            }
            Event::Watch { watch, state } => {
                let over = matches!(state, WatchState::Ended(_));
                let before = self.watches.insert(watch, over);
                assert_eq!(before, Some(false), "a state follows the end of its watch: {state:?}");
            }
            Event::Request { id, .. } => self.inbound.push(id),
            Event::Closed(_) => self.run.closed = true,
            _ => {}
        }
    }

    pub fn check(&self, queued: usize) {
        let peer = self.client.peer();
        peer.check();
        // The machine polls tasks by itself, and drops the polls of requests that have their outcome.
        // Requests about tasks may be as many again.
        let limits = &peer.config().limits;
        check_limits(limits, queued, 4096, (peer.in_flight(), 2 * limits.requests_out));
        let (usage, most) = (peer.cache_usage(), &peer.config().cache);
        assert!(
            usage.entries <= most.entries && usage.bytes <= most.bytes,
            "contract 8: {usage:?} of {most:?}"
        );
    }
}

/// A watch filter from the bits of a number.
fn watch_filter(bits: u8) -> WatchFilter {
    let parts: [fn(WatchFilter) -> WatchFilter; 5] = [
        WatchFilter::tools,
        WatchFilter::prompts,
        WatchFilter::resources,
        |filter| filter.resource("fuzz:r"),
        |filter| filter.task("t"),
    ];
    let parts = parts.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    parts.fold(WatchFilter::new(), |filter, (_, add)| add(filter))
}

/// What all targets have in common whose field `app` is an [`Application`].
macro_rules! application_methods {
    () => {
        fn run(&mut self) -> &mut RunState {
            &mut self.app.run
        }

        fn handle_timeout(&mut self) {
            self.app.client.handle_timeout(self.app.run.now);
        }

        fn poll_timeout(&self) -> Option<Instant> {
            self.app.client.poll_timeout()
        }

        fn poll_event(&mut self) -> Option<Event> {
            self.app.client.poll_event()
        }

        fn in_flight(&self) -> usize {
            self.app.client.peer().in_flight()
        }

        fn check(&self) {
            self.app.check(self.app.client.queued());
        }
    };
}
pub(super) use application_methods;
