//! What a machine was given and what came out of it, so that it can be run again bit for bit.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::TracedFrame;
use crate::Instant;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;

/// The event `machine` of a trace with secrets: one step of a machine.
///
/// The records of a machine are in the order of its steps. An input stands before what it causes, so that the last record
/// of a machine that panicked is the input that it panicked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MachineRecord {
    /// The number of the machine among those of the connection, from 1.
    pub machine: usize,
    /// What happened.
    pub step: MachineStep,
    /// The reading of the machine's clock, in nanoseconds since its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<u64>,
    /// When the machine's next timeout was due after the steps before, in nanoseconds since the origin of its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
}

impl MachineRecord {
    /// The reading of the machine's clock.
    pub fn now(&self) -> Instant {
        Instant::from_origin(core::time::Duration::from_nanos(self.now.unwrap_or_default()))
    }
}

/// A step of a machine.
///
/// Texts that begin with the name of a type are its [`Debug`](core::fmt::Debug) form: they are compared, and not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names of the members say it")]
pub enum MachineStep {
    /// The machine was created.
    Created(Box<MachineOrigin>),
    /// A stream delivered bytes, or the body of a request did.
    Input(TracedFrame),
    /// A channel delivered a message; or the whole body of a request, as layers have left it.
    Message(TracedFrame),
    /// The end of a stream, of a channel, or of the body of a request.
    Eof(String),
    /// The link was opened.
    Open,
    /// The link could not be opened.
    OpenFailed(String),
    /// A part of the output was written.
    Written,
    /// The time of a timeout has come.
    Timeout,
    /// A command of the application, as JSON.
    Command(String),
    /// What the command returned.
    Returned(String),
    /// Output for the transport; `None` if there was none.
    Transmit(Option<TracedFrame>),
    /// An event for the application.
    Event(String),
    /// An action for the link.
    Link(String),
    /// The head of a response, which a client was given, or which came out of a server. There `exchange` is the
    /// connection of the session; 0 without a session.
    Head { exchange: u64, status: u16, headers: Vec<(String, TracedFrame)> },
    /// A piece of the body of a response.
    Body { exchange: u64, piece: TracedFrame },
    /// The end of an exchange, as JSON.
    End { exchange: u64, end: String },
    /// The body of a response that came out of a server as a whole.
    WholeBody { exchange: u64, body: TracedFrame },
    /// What an exchange or a session of a server was given besides, as JSON.
    Http(String),
    /// The client was authorized to send the request of an exchange again.
    Resume { exchange: u64 },
    /// The client was not authorized, and why.
    Refuse { exchange: u64, detail: String },
    /// An action for exchanges, or a connection of a session that has output.
    Action(String),
    /// From here on input and output are held back, for layers.
    Hold,
    /// Nothing is held back any more.
    StopHolding,
    /// A piece that was held back; `None` if there was none.
    Held(Option<String>),
    /// A piece, as layers have left it, as JSON.
    Release(String),
    /// The answer was no to the machine's question of this number, from 1, to what it shares with others: whether a byte
    /// budget has room, or whether a client may subscribe. The answers that no record has were yes.
    Denied { question: usize },
    /// The machine was given what no record has: it cannot be run again from here on.
    Unrecorded { what: String },
}

impl MachineStep {
    /// A command, or one that no record can have.
    #[cfg(any(feature = "client", feature = "server"))]
    pub(crate) fn command(command: Option<impl Serialize>, what: &str) -> Self {
        match command {
            Some(command) => Self::Command(json(&command)),
            None => Self::Unrecorded { what: what.to_owned() },
        }
    }

    /// A piece that is held back.
    pub(crate) fn held(piece: Option<&impl core::fmt::Debug>) -> Self {
        Self::Held(piece.map(|piece| format!("{piece:?}")))
    }

    /// A piece of the body of a response.
    #[cfg(feature = "http")]
    pub(crate) fn body(exchange: u64, piece: &[u8]) -> Self {
        Self::Body { exchange, piece: TracedFrame::whole(piece) }
    }
}

/// What a machine was created from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MachineOrigin {
    /// Its kind, such as `stream client`. An `http exchange` and an `http session` belong to an `http server`, whose number is in
    /// their configuration.
    pub kind: String,
    /// The version of this crate.
    pub version: String,
    /// The features of this crate that the behaviour of machines may depend on.
    pub features: Vec<String>,
    /// Its configuration, as JSON.
    pub config: String,
    /// The parts of the configuration that cannot be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl MachineOrigin {
    /// The origin of a machine of this version and these features.
    pub(crate) fn new(kind: &str, config: &impl Serialize) -> Self {
        let features = [
            ("std", cfg!(feature = "std")),
            ("client", cfg!(feature = "client")),
            ("server", cfg!(feature = "server")),
            ("http", cfg!(feature = "http")),
            ("seal", cfg!(feature = "seal")),
            ("auth", cfg!(feature = "auth")),
            ("skills", cfg!(feature = "skills")),
            ("schema-validate", cfg!(feature = "schema-validate")),
        ];
        Self {
            kind: kind.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            features: features.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()).collect(),
            config: json(config),
            missing: Vec::new(),
        }
    }
}

/// The JSON of a configuration or a command. Its own types have no errors; a value of the application may.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("\"{error}\""))
}

/// Takes the records of the machines that are created with it, for a trace with secrets.
///
/// A configuration carries it, such as `ClientConfig::recorder`. Records have everything in them that a machine was given
/// and sent: credentials, and the texts of the user.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use mcp_proto::trace_file::MachineRecorder;
///
/// let records = Arc::new(Mutex::new(Vec::new()));
/// let sink = records.clone();
/// let recorder = MachineRecorder::new(move |record| sink.lock().unwrap().push(record));
/// ```
#[derive(Clone)]
pub struct MachineRecorder(Arc<RecordedMachine>);

struct RecordedMachine {
    shared: Arc<SharedRecorder>,
    /// The number of the machine.
    number: usize,
    /// The number of its questions so far.
    questions: AtomicUsize,
    /// The questions that are denied, if the machine runs again.
    denied: Option<OrderedSet<usize>>,
}

struct SharedRecorder {
    machines: AtomicUsize,
    sink: Box<dyn Fn(MachineRecord) + Send + Sync>,
}

impl MachineRecorder {
    /// A recorder that passes each record to `sink`, in the middle of the machine's work: it must not use the machine, and
    /// should not block.
    pub fn new(sink: impl Fn(MachineRecord) + Send + Sync + 'static) -> Self {
        let shared = Arc::new(SharedRecorder { machines: AtomicUsize::new(0), sink: Box::new(sink) });
        Self(Arc::new(RecordedMachine { shared, number: 0, questions: AtomicUsize::new(0), denied: None }))
    }

    /// The recorder of a machine that runs again with this number, and gets the answer no to these questions only.
    #[cfg(feature = "std")]
    pub(crate) fn again(self, machine: usize, denied: OrderedSet<usize>) -> Self {
        let (shared, questions) = (self.0.shared.clone(), AtomicUsize::new(0));
        shared.machines.store(machine.wrapping_sub(1), Ordering::Relaxed);
        Self(Arc::new(RecordedMachine { shared, number: 0, questions, denied: Some(denied) }))
    }

    /// This recorder for what the machine of this number creates.
    #[cfg(all(feature = "std", feature = "http", feature = "server"))]
    pub(crate) fn of_machine(&self, number: usize) -> Self {
        let RecordedMachine { shared, denied, .. } = &*self.0;
        let (shared, denied) = (shared.clone(), denied.clone());
        Self(Arc::new(RecordedMachine { shared, number, questions: AtomicUsize::new(0), denied }))
    }

    /// The recorder of a new machine, whose first record is its origin.
    pub(crate) fn begin(&self, now: Option<Instant>, origin: MachineOrigin) -> Self {
        let RecordedMachine { shared, denied, .. } = &*self.0;
        let number = shared.machines.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (shared, denied) = (shared.clone(), denied.clone());
        let machine = RecordedMachine { shared, number, questions: AtomicUsize::new(0), denied };
        let recorder = Self(Arc::new(machine));
        recorder.record(now, MachineStep::Created(Box::new(origin)), None);
        recorder
    }

    pub(crate) fn record(&self, now: Option<Instant>, step: MachineStep, due: Option<Instant>) {
        let nanos = |at: Instant| u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX);
        let (now, due) = (now.map(nanos), due.map(nanos));
        (self.0.shared.sink)(MachineRecord { machine: self.machine(), step, now, due });
    }

    /// The number of the machine.
    pub(crate) fn machine(&self) -> usize {
        self.0.number
    }

    /// Asks what the machine shares with others. A machine that runs again gets the answer that it got then.
    pub(crate) fn ask(&self, ask: impl FnOnce() -> bool) -> bool {
        let question = self.0.questions.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let answer = match &self.0.denied {
            Some(denied) => !denied.contains(&question),
            None => ask(),
        };
        if !answer {
            self.record(None, MachineStep::Denied { question }, None);
        }
        answer
    }
}

debug_fields! { MachineRecorder(self) { machine = self.machine() } }
