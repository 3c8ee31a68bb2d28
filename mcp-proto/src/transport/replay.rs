//! Runs the machines of a trace with secrets again, bit for bit.

#[cfg(all(feature = "server", feature = "http"))]
mod http_server;
#[cfg(all(test, feature = "client", feature = "server"))]
mod tests;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};

#[cfg(all(feature = "server", feature = "http"))]
use http_server::Servers;
use serde::de::DeserializeOwned;

use super::Transport;
use super::framing::{Framing, MessageFraming, Newline};
#[cfg(all(feature = "client", feature = "http"))]
use super::http::ExchangeId;
#[cfg(all(feature = "client", feature = "http"))]
use super::http::client::{HttpClient, HttpClientConfig, UrlError};
#[cfg(feature = "client")]
use super::{ChannelClient, StreamClient};
#[cfg(feature = "server")]
use super::{ChannelServer, StreamServer};
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::Passage;
#[cfg(feature = "client")]
use crate::peer::client::{Client, ClientConfig};
#[cfg(feature = "client")]
use crate::peer::recorded::ClientCommand;
#[cfg(feature = "server")]
use crate::peer::recorded::ServerCommand;
#[cfg(feature = "server")]
use crate::peer::server::{Server, ServerConfig};
use crate::prelude::*;
use crate::trace_file::{MachineOrigin, MachineRecord, MachineRecorder, MachineStep, Trace, TraceEvent};
use crate::{Bytes, Instant};

/// What a replay has run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineReplayReport {
    /// The number of machines.
    pub machines: usize,
    /// The number of their steps that were the same.
    pub steps: usize,
    /// The machines that were not run to their end, by connection and number, and what they were given that the trace does
    /// not have.
    pub unfinished: Vec<(u64, usize, String)>,
}

/// Runs the machines of a trace again: each is given what it was given then, and must do the same, with the same bytes to
/// send, events and timeouts.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use mcp_proto::peer::client::ClientConfig;
/// use mcp_proto::schema::Implementation;
/// use mcp_proto::trace_file::{MachineRecorder, Trace, TraceEvent, TraceHeader, TraceRecord};
/// use mcp_proto::transport::{StreamClient, replay_machines};
/// use mcp_proto::{Instant, UnixTime};
///
/// let file = Arc::new(Mutex::new(TraceHeader::new("test", UnixTime::EPOCH, false).to_line()));
/// let sink = file.clone();
/// let mut config = ClientConfig::new(Implementation::new("host", "1.0"));
/// config.recorder = Some(MachineRecorder::new(move |record| {
///     let record = TraceRecord::new(Default::default(), 1, TraceEvent::Machine(record));
///     sink.lock().unwrap().extend(record.to_line());
/// }));
/// let mut client = StreamClient::new(config);
/// client.poll_link();
/// client.handle_open(Instant::ORIGIN);
///
/// let report = replay_machines(&Trace::parse(&file.lock().unwrap())?)?;
/// assert_eq!((report.machines, report.steps), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the trace has no machines, or one cannot be run here; at the first difference.
pub fn replay_machines(trace: &Trace) -> Result<MachineReplayReport, MachineReplayError> {
    let (mut report, mut machines) = (MachineReplayReport::default(), Machines::new(trace));
    for (record, index) in trace.records.iter().zip(0..) {
        let step = match &record.event {
            TraceEvent::Machine(step) => step,
            TraceEvent::Lost { records } => return Err(MachineReplayError::Lost { records: *records }),
            _ => continue,
        };
        let number = (record.connection, step.machine);
        if let MachineStep::Created(origin) = &step.step {
            machines.create(number, origin, step.now())?;
            report.machines = report.machines.saturating_add(1);
        }
        let place =
            machines.running.get_mut(&number).ok_or(MachineReplayError::NoOrigin { connection: number.0 })?;
        let Some(machine) = place else { continue };
        if let MachineStep::Unrecorded { what } = &step.step {
            report.unfinished.push((number.0, number.1, what.clone()));
            *place = None;
            continue;
        }
        machine.give(step)?;
        let replayed = machine.done();
        if replayed.as_ref() != Some(step) {
            let difference = MachineReplayDifference { record: index, recorded: step.clone(), replayed };
            return Err(MachineReplayError::Different(Box::new(difference)));
        }
        report.steps = report.steps.saturating_add(1);
    }
    if report.machines == 0 {
        return Err(MachineReplayError::NoMachines { redacted: trace.header.redacted });
    }
    Ok(report)
}

/// The number of a connection, and that of a machine of it.
type MachineNumber = (u64, usize);

/// The machines of a trace.
struct Machines {
    /// The machines so far; `None` from where one cannot be run on.
    running: OrderedMap<MachineNumber, Option<Replayed>>,
    /// The questions of each that were answered with no.
    denied: OrderedMap<MachineNumber, OrderedSet<usize>>,
    #[cfg(all(feature = "server", feature = "http"))]
    servers: OrderedMap<u64, Servers>,
}

impl Machines {
    fn new(trace: &Trace) -> Self {
        let mut denied: OrderedMap<_, OrderedSet<usize>> = OrderedMap::new();
        for record in &trace.records {
            if let TraceEvent::Machine(MachineRecord {
                machine,
                step: MachineStep::Denied { question },
                ..
            }) = &record.event
            {
                denied.entry((record.connection, *machine)).or_default().insert(*question);
            }
        }
        Self {
            running: OrderedMap::new(),
            denied,
            #[cfg(all(feature = "server", feature = "http"))]
            servers: OrderedMap::new(),
        }
    }

    fn create(
        &mut self,
        number: MachineNumber,
        origin: &MachineOrigin,
        now: Instant,
    ) -> Result<(), MachineReplayError> {
        let own = MachineOrigin::new(&origin.kind, &());
        if (&own.version, &own.features) != (&origin.version, &origin.features) {
            return Err(MachineReplayError::Version { recorded: describe(origin), own: describe(&own) });
        }
        if let Some(missing) = origin.missing.first() {
            return Err(MachineReplayError::Missing { what: missing.clone() });
        }
        let done = Arc::new(Mutex::new(VecDeque::new()));
        let sink = done.clone();
        let recorder = MachineRecorder::new(move |record| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).push_back(record);
        });
        let recorder = recorder.again(number.1, self.denied.remove(&number).unwrap_or_default());
        #[cfg(all(feature = "server", feature = "http"))]
        let machine = {
            let servers = self.servers.entry(number.0).or_default();
            match servers.machine(number.1, origin, &recorder, now)? {
                Some(machine) => machine,
                None => machine(origin, recorder, now)?,
            }
        };
        #[cfg(not(all(feature = "server", feature = "http")))]
        let machine = machine(origin, recorder, now)?;
        self.running.insert(number, Some(Replayed { machine, done }));
        Ok(())
    }
}

/// A machine that is run again, and the steps that it has done.
struct Replayed {
    machine: Box<dyn Replay>,
    done: Arc<Mutex<VecDeque<MachineRecord>>>,
}

/// A machine of any kind.
trait Replay {
    /// Gives the machine what it was given in a step, or takes what came out of it. Steps that the machine has done by
    /// itself, and those of machines of other kinds, are nothing to it.
    fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError>;

    /// What passes between the machine and its transport, if that can be held back for layers.
    fn passage(&mut self) -> Option<&mut dyn Passage> {
        None
    }
}

impl Replayed {
    /// Gives the machine what it was given in a step, or takes what came out of it.
    fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError> {
        let Some(passage) = self.machine.passage() else { return self.machine.give(record) };
        match &record.step {
            MachineStep::Hold => passage.hold(),
            MachineStep::StopHolding => _ = passage.stop_holding(),
            MachineStep::Held(_) => drop(passage.poll_held()),
            MachineStep::Release(piece) => passage.release(record.now(), read(piece)?),
            _ => return self.machine.give(record),
        }
        Ok(())
    }

    /// Takes the next step that the machine has done.
    fn done(&self) -> Option<MachineRecord> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Creates the machine that has this origin.
fn machine(
    origin: &MachineOrigin,
    recorder: MachineRecorder,
    now: Instant,
) -> Result<Box<dyn Replay>, MachineReplayError> {
    let json = &origin.config;
    Ok(match &*origin.kind {
        #[cfg(feature = "client")]
        Newline::CLIENT => Box::new(StreamClient::new(client(json, recorder)?)),
        #[cfg(feature = "client")]
        MessageFraming::CLIENT => Box::new(ChannelClient::new(client(json, recorder)?)),
        #[cfg(feature = "server")]
        Newline::SERVER => Box::new(StreamServer::new(server(json, recorder)?)),
        #[cfg(feature = "server")]
        MessageFraming::SERVER => Box::new(ChannelServer::new(server(json, recorder)?)),
        #[cfg(all(feature = "client", feature = "http"))]
        HttpClient::KIND => {
            let mut config: HttpClientConfig = read(json)?;
            config.client.recorder = Some(recorder);
            let unreadable = |error: UrlError| MachineReplayError::Unreadable { reason: error.to_string() };
            Box::new(HttpClient::new(config, now).map_err(unreadable)?)
        }
        kind => {
            drop((json, recorder, now));
            return Err(MachineReplayError::Kind { kind: kind.to_owned() });
        }
    })
}

#[cfg(feature = "client")]
fn client(json: &str, recorder: MachineRecorder) -> Result<ClientConfig, MachineReplayError> {
    let mut config: ClientConfig = read(json)?;
    config.recorder = Some(recorder);
    Ok(config)
}

#[cfg(feature = "server")]
fn server(json: &str, recorder: MachineRecorder) -> Result<ServerConfig, MachineReplayError> {
    let mut config: ServerConfig = read(json)?;
    config.recorder = Some(recorder);
    Ok(config)
}

/// The steps of each kind of machine on a stream or channel.
macro_rules! replay {
    ($($machine:ty: $give:ident, $handle:expr, $transmit:expr;)*) => { $(
        impl Replay for $machine {
            fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError> {
                let now = record.now();
                let handle: fn(&mut Self, Instant, Bytes) = $handle;
                let transmit: fn(&mut Self) = $transmit;
                match &record.step {
                    MachineStep::Input(bytes) | MachineStep::Message(bytes) => {
                        handle(self, now, Bytes::copy_from_slice(bytes.as_bytes()));
                    }
                    MachineStep::Eof(detail) => self.handle_eof(now, detail),
                    MachineStep::Written => self.handle_written(now),
                    MachineStep::Timeout => self.handle_timeout(now),
                    MachineStep::Transmit(_) => transmit(self),
                    MachineStep::Event(_) => drop(self.poll_event()),
                    _ => return $give(self, record),
                }
                Ok(())
            }

            fn passage(&mut self) -> Option<&mut dyn Passage> {
                Some(self)
            }
        }
    )* };
}

#[cfg(feature = "client")]
replay! {
    StreamClient: give_client, Self::handle_input, |client| _ = client.poll_transmit(&mut Vec::new());
    ChannelClient: give_client, |client, now, message| client.handle_message(now, &message),
        |client| _ = client.poll_transmit();
}

#[cfg(feature = "server")]
replay! {
    StreamServer: give_server, Self::handle_input, |server| _ = server.poll_transmit(&mut Vec::new());
    ChannelServer: give_server, |server, now, message| server.handle_message(now, &message),
        |server| _ = server.poll_transmit();
}

#[cfg(feature = "client")]
fn give_client<F: Framing>(
    client: &mut Transport<Client, F>,
    record: &MachineRecord,
) -> Result<(), MachineReplayError> {
    let now = record.now();
    match &record.step {
        MachineStep::Open => client.handle_open(now),
        MachineStep::OpenFailed(detail) => client.handle_open_failed(detail),
        MachineStep::Command(command) => read::<ClientCommand>(command)?.give(&mut client.at(now)),
        MachineStep::Link(_) => _ = client.poll_link(),
        _ => {}
    }
    Ok(())
}

#[cfg(feature = "server")]
fn give_server<F: Framing>(
    server: &mut Transport<Server, F>,
    record: &MachineRecord,
) -> Result<(), MachineReplayError> {
    if let MachineStep::Command(command) = &record.step {
        read::<ServerCommand>(command)?.give(&mut server.at(record.now()));
    }
    Ok(())
}

#[cfg(all(feature = "client", feature = "http"))]
impl Replay for HttpClient {
    fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError> {
        let (now, id) = (record.now(), |number: &u64| ExchangeId::new(*number));
        match &record.step {
            MachineStep::Head { exchange, status, headers } => {
                let headers: Vec<_> = headers.iter().map(|(name, value)| (name, value.as_bytes())).collect();
                self.handle_head(now, id(exchange), *status, &headers);
            }
            MachineStep::Body { exchange, piece } => {
                self.handle_body(now, id(exchange), Bytes::copy_from_slice(piece.as_bytes()));
            }
            MachineStep::End { exchange, end } => self.handle_end(now, id(exchange), read(end)?),
            MachineStep::Resume { exchange } => self.resume(now, id(exchange)),
            MachineStep::Refuse { exchange, detail } => self.refuse(now, id(exchange), detail),
            MachineStep::Timeout => self.handle_timeout(now),
            MachineStep::Command(command) => read::<ClientCommand>(command)?.give(&mut self.at(now)),
            MachineStep::Event(_) => drop(self.poll_event()),
            MachineStep::Action(_) => drop(self.poll_action()),
            _ => {}
        }
        Ok(())
    }

    fn passage(&mut self) -> Option<&mut dyn Passage> {
        Some(self)
    }
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, MachineReplayError> {
    serde_json::from_str(json).map_err(|error| MachineReplayError::Unreadable { reason: error.to_string() })
}

fn describe(origin: &MachineOrigin) -> String {
    format!("{} with {}", origin.version, origin.features.join(", "))
}

/// Reason why the machines of a trace do not do here what they did then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MachineReplayError {
    /// The trace has no machines: only one with secrets has.
    NoMachines {
        /// Whether secrets are hidden in the trace.
        redacted: bool,
    },
    /// Records were lost.
    Lost {
        /// How many.
        records: u64,
    },
    /// The first record of a machine is not in the trace, which began anew.
    NoOrigin {
        /// The number of the connection.
        connection: u64,
    },
    /// The machine had another version, or other features.
    Version {
        /// The version and features of the trace.
        recorded: String,
        /// The version and features here.
        own: String,
    },
    /// A machine of this kind cannot be run here.
    Kind {
        /// Its kind.
        kind: String,
    },
    /// The machine was configured with something that cannot be written.
    Missing {
        /// What is missing.
        what: String,
    },
    /// A configuration or a command cannot be read.
    Unreadable {
        /// Why.
        reason: String,
    },
    /// A machine did something else.
    Different(
        /// The first difference.
        Box<MachineReplayDifference>,
    ),
}

/// Where a machine did something else than it did then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineReplayDifference {
    /// The place in [`Trace::records`].
    pub record: usize,
    /// The step of the trace.
    pub recorded: MachineRecord,
    /// The step here; `None` if there was none.
    pub replayed: Option<MachineRecord>,
}

error_text! { MachineReplayError:
    NoMachines { redacted: true } => "the trace has no steps of machines: it was recorded without its secrets";
    NoMachines { redacted: false } => "the trace has no steps of machines";
    Lost { records } => "the trace has lost {records} records here";
    NoOrigin { connection } => "the trace lacks the beginning of connection {connection}";
    Version { recorded, own } => "the trace is of version {recorded}; this program has version {own}";
    Kind { kind } => "a {kind:?} cannot be run here";
    Missing { what } => "the machine was configured with {what}, which no trace has";
    Unreadable { reason } => "a record cannot be read: {reason}";
    Different(difference) => "{difference}";
}

display_text! { MachineReplayDifference { record, recorded, replayed } =>
    "record {record} of the trace is {recorded:?}; here it is {replayed:?}"
}
