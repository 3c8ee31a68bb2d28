//! Runs the machines of a trace with secrets again, bit for bit.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};

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
    let (mut report, mut machines) = (MachineReplayReport::default(), BTreeMap::new());
    for (record, index) in trace.records.iter().zip(0..) {
        let step = match &record.event {
            TraceEvent::Machine(step) => step,
            TraceEvent::Lost { records } => return Err(MachineReplayError::Lost { records: *records }),
            _ => continue,
        };
        let number = (record.connection, step.machine);
        if let MachineStep::Created(origin) = &step.step {
            machines.insert(number, Some(Replayed::new(origin, step.now())?));
            report.machines = report.machines.saturating_add(1);
        }
        let place = machines.get_mut(&number).ok_or(MachineReplayError::NoOrigin { connection: number.0 })?;
        let Some(machine) = place else { continue };
        if let MachineStep::Unrecorded { what } = &step.step {
            report.unfinished.push((number.0, number.1, what.clone()));
            *place = None;
            continue;
        }
        machine.give(step)?;
        let replayed = machine.done(step.machine);
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

/// A machine that is run again, and the steps that it has done.
struct Replayed {
    machine: Box<dyn Replay>,
    done: Arc<Mutex<VecDeque<MachineRecord>>>,
}

/// A machine of any kind.
trait Replay: Passage {
    /// The same for what depends on the kind. Steps that the machine has done by itself, and those of machines of other
    /// kinds, are nothing to it.
    fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError>;
}

impl Replayed {
    fn new(origin: &MachineOrigin, now: Instant) -> Result<Self, MachineReplayError> {
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
        Ok(Self { machine: machine(origin, recorder, now)?, done })
    }

    /// Gives the machine what it was given in a step, or takes what came out of it.
    fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError> {
        let machine = &mut self.machine;
        match &record.step {
            MachineStep::Hold => machine.hold(),
            MachineStep::StopHolding => _ = machine.stop_holding(),
            MachineStep::Held(_) => drop(machine.poll_held()),
            MachineStep::Release(piece) => machine.release(record.now(), read(piece)?),
            _ => return machine.give(record),
        }
        Ok(())
    }

    /// Takes the next step that the machine has done.
    fn done(&self, machine: usize) -> Option<MachineRecord> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        done.map(|record| MachineRecord { machine, ..record })
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

#[cfg(all(test, feature = "client", feature = "server"))]
mod tests {
    use super::*;
    use crate::UnixTime;
    use crate::peer::HeldPiece;
    use crate::peer::client::CacheContext;
    use crate::peer::server::SubscriptionAccess;
    use crate::peer::{LostReason, RequestOptions};
    use crate::schema::{CallTool, CallToolParams, Extension, Implementation, Meta, RootsListChanged};
    use crate::trace_file::{TraceHeader, TraceRecord, TracedFrame};

    fn info() -> Implementation {
        Implementation::new("test", "1")
    }

    /// The trace of what machines with this recorder do.
    fn traced(act: impl FnOnce(MachineRecorder)) -> Trace {
        let file = Arc::new(Mutex::new(TraceHeader::new("test", UnixTime::EPOCH, false).to_line()));
        let sink = file.clone();
        act(MachineRecorder::new(move |record| {
            let record = TraceRecord::new(Default::default(), 7, TraceEvent::Machine(record));
            sink.lock().unwrap().extend(record.to_line());
        }));
        let file = file.lock().unwrap();
        Trace::parse(&file).unwrap()
    }

    /// The trace of a client that is given every command.
    fn client() -> Trace {
        traced(|recorder| {
            let mut config = ClientConfig::new(info());
            config.recorder = Some(recorder);
            config.extensions.push(Extension::new("com.example/a").unwrap());
            let mut client = StreamClient::new(config);
            let mut now = Instant::ORIGIN;
            let mut params = CallToolParams::new("t");
            params.meta.insert("com.example/k", 1);
            let options = RequestOptions::default().meta(Meta::new());
            let first = client.at(now).request::<CallTool>(&params, options.clone()).unwrap();
            client.at(now).set_cache_context(CacheContext::new("a"));
            assert!(client.poll_link().is_some());
            client.handle_open(now);
            let mut out = Vec::new();
            assert!(client.poll_transmit(&mut out));
            now = now + core::time::Duration::from_millis(3);
            for chunk in [
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"supportedVersions\":",
                "[\"2026-07-28\"],\"capabilities\":{\"tools\":{}}}}\n\u{1}no\n",
            ] {
                client.handle_input(now, Bytes::from_static(chunk.as_bytes()));
            }
            while client.poll_event().is_some() {}
            assert!(client.poll_transmit(&mut out));
            client.handle_written(now);
            client.at(now).cancel(first, Some("enough"));
            _ = client.at(now).notify::<RootsListChanged>(&Default::default());
            client.handle_timeout(client.poll_timeout().unwrap());
            client.at(now).abort(LostReason::Failed("x".into()));
            while client.poll_event().is_some() {}
            client.handle_eof(now, "over");
        })
    }

    #[test]
    fn client_does_the_same_again() {
        let trace = client();
        let report = replay_machines(&trace).unwrap();
        assert_eq!((report.machines, report.steps), (1, trace.records.len()));
        assert!(report.steps > 20);
    }

    /// What layers hold back and change comes back as they left it.
    #[test]
    fn layers_leave_the_same_again() {
        let trace = traced(|recorder| {
            let now = Instant::ORIGIN;
            let mut config = ClientConfig::new(info());
            config.recorder = Some(recorder.clone());
            let mut client = StreamClient::new(config.clone());
            client.hold();
            assert!(client.poll_link().is_some());
            client.handle_open(now);
            client.handle_input(now, Bytes::from_static(b"\xff\n{}\n"));
            client.handle_eof(now, "over");
            while let Some(mut piece) = client.poll_held() {
                if let HeldPiece::Block(block) = &mut piece {
                    block.extend(b"{}\n");
                }
                client.release(now, piece);
                _ = client.poll_transmit(&mut Vec::new());
            }
            client.stop_holding();
            while client.poll_event().is_some() {}
            #[cfg(feature = "http")]
            {
                let mut client =
                    HttpClient::new(HttpClientConfig::new(config, "http://localhost"), now).unwrap();
                client.hold();
                let events =
                    b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}\n\n";
                for _ in 0..20 {
                    while let Some(piece) = client.poll_held() {
                        client.release(now, piece);
                    }
                    if let Some(super::super::http::client::Action::Open(request)) = client.poll_action() {
                        let id = request.exchange;
                        client.handle_head(now, id, 200, &[("Content-Type", "text/event-stream")]);
                        client.handle_body(now, id, Bytes::from_static(events));
                        client.handle_end(now, id, super::super::http::ExchangeEnd::Complete);
                    }
                }
            }
        });
        let report = replay_machines(&trace).unwrap();
        assert_eq!(report.steps, trace.records.len());
        assert!(report.steps > 40 && report.unfinished.is_empty(), "{report:?}");
    }

    /// Any other step at any place is the first difference.
    #[test]
    fn first_difference_is_shown_from_both_sides() {
        let original = client();
        for index in 1..original.records.len() {
            let mut trace = original.clone();
            let TraceEvent::Machine(step) = &mut trace.records[index].event else { panic!() };
            match &mut step.step {
                MachineStep::Event(text) | MachineStep::Link(text) | MachineStep::Returned(text) => {
                    text.push('x');
                }
                MachineStep::Transmit(sent) => *sent = Some(TracedFrame::whole(b"x")),
                // The timeout before it was another one.
                _ => step.due = Some(1),
            }
            let recorded = step.clone();
            let Err(MachineReplayError::Different(difference)) = replay_machines(&trace) else {
                panic!("{recorded:?}")
            };
            assert_eq!((difference.record, &difference.recorded), (index, &recorded));
            assert_ne!(difference.replayed, Some(recorded));
        }
        let mut trace = original;
        let count = trace.records.len();
        trace.records.push(trace.records[count - 2].clone());
        let error = replay_machines(&trace).unwrap_err();
        let MachineReplayError::Different(difference) = &error else { panic!("{error}") };
        assert_eq!(difference.replayed, None);
    }

    /// The first step of the trace after a change.
    fn changed(change: impl FnOnce(&mut MachineOrigin)) -> Result<MachineReplayReport, MachineReplayError> {
        let mut trace = client();
        let TraceEvent::Machine(step) = &mut trace.records[0].event else { panic!() };
        let MachineStep::Created(origin) = &mut step.step else { panic!() };
        change(origin);
        replay_machines(&trace)
    }

    #[test]
    fn what_cannot_run_here_is_a_typed_error() {
        assert!(matches!(
            changed(|origin| origin.version.push('1')),
            Err(MachineReplayError::Version { .. })
        ));
        assert!(matches!(changed(|origin| origin.features.clear()), Err(MachineReplayError::Version { .. })));
        assert!(matches!(changed(|origin| origin.kind.push('1')), Err(MachineReplayError::Kind { .. })));
        assert!(matches!(
            changed(|origin| origin.config.clear()),
            Err(MachineReplayError::Unreadable { .. })
        ));
        let mut trace = client();
        trace.records.remove(0);
        assert_eq!(replay_machines(&trace), Err(MachineReplayError::NoOrigin { connection: 7 }));
        trace.records.clear();
        assert_eq!(replay_machines(&trace), Err(MachineReplayError::NoMachines { redacted: false }));
        trace.records.push(TraceRecord::new(Default::default(), 0, TraceEvent::Lost { records: 3 }));
        assert_eq!(replay_machines(&trace), Err(MachineReplayError::Lost { records: 3 }));
        let trace = traced(|recorder| {
            let mut config = ServerConfig::new(info());
            config.subscription_access = Some(SubscriptionAccess::new(|_, _| true));
            config.recorder = Some(recorder);
            StreamServer::new(config);
        });
        let what = "access control for subscriptions".into();
        assert_eq!(replay_machines(&trace), Err(MachineReplayError::Missing { what }));
    }
}
