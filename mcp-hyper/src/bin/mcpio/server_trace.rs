//! The traces of this program's own servers: for the screen and for a file.

use std::sync::Arc;

use mcp_hyper::host::{ConnectionTrace, TraceFile, WireObserver};
use mcp_hyper::{ServerOptions, WireEvent};
use mcp_proto::redact::Redactor;
use mcp_proto::trace_file::MachineRecorder;
use mcp_smol::WireDirection;

use crate::options::CommonOptions;
use crate::reports;

/// Makes the traces of connections to a server.
pub(crate) struct ServerTrace {
    transport: &'static str,
    file: Option<TraceFile>,
    has_machines: bool,
    is_printed: bool,
}

impl ServerTrace {
    pub(crate) fn new(common: &CommonOptions, transport: &'static str) -> Self {
        let (file, has_machines) = (common.traced.clone(), common.trace_raw);
        Self { transport, file, has_machines, is_printed: common.trace }
    }

    /// A recorder of the server's machines, for `--trace-raw`.
    pub(crate) fn recorder(&self) -> Option<MachineRecorder> {
        self.has_machines.then(|| self.open()).flatten()?.recorder()
    }

    fn open(&self) -> Option<ConnectionTrace> {
        let file = self.file.as_ref()?;
        Some(file.connection_of_server("mcpio", self.transport, Redactor::new()))
    }

    /// A server on a stream with its trace.
    pub(crate) fn of_stream(self, options: mcp_smol::ServerOptions) -> mcp_smol::ServerOptions {
        let connection = self.open();
        let recorder = connection.as_ref().and_then(ConnectionTrace::recorder);
        let options = options.configure(|config| config.recorder = recorder);
        match self.observers(connection) {
            Some(mut observers) => {
                options.on_wire(move |direction, bytes| observers.handle_bytes(direction, bytes))
            }
            None => options,
        }
    }

    /// A server over HTTP with its trace. Each connection has its own; some machines are shared by all.
    pub(crate) fn of_http(self, options: ServerOptions) -> ServerOptions {
        let recorder = self.recorder();
        let options = options.configure(|config| Arc::make_mut(&mut config.server).recorder = recorder);
        options.on_wire(move |_| {
            let mut observers = self.observers(self.open())?;
            Some(Box::new(move |event| observers.handle_event(event)))
        })
    }

    fn observers(&self, connection: Option<ConnectionTrace>) -> Option<Observers> {
        let printed = self.is_printed.then(|| reports::trace(None, Redactor::new()));
        let written = connection.map(|connection| connection.observer());
        (printed.is_some() || written.is_some()).then_some(Observers { printed, written })
    }
}

/// The observers of a connection.
struct Observers {
    /// Prints what a client sends as sent, as the client does.
    printed: Option<WireObserver>,
    written: Option<WireObserver>,
}

impl Observers {
    fn handle_bytes(&mut self, direction: WireDirection, bytes: &[u8]) {
        if let Some(printed) = &mut self.printed {
            let of_client = match direction {
                WireDirection::Sent => WireDirection::Received,
                WireDirection::Received => WireDirection::Sent,
            };
            printed.handle_bytes(of_client, bytes);
        }
        if let Some(written) = &mut self.written {
            written.handle_bytes(direction, bytes);
        }
    }

    fn handle_event(&mut self, event: WireEvent<'_>) {
        if let Some(printed) = &mut self.printed {
            printed.handle_event(match event {
                WireEvent::MessageSent(text) => WireEvent::MessageReceived(text),
                WireEvent::MessageReceived(text) => WireEvent::MessageSent(text),
                event => event,
            });
        }
        if let Some(written) = &mut self.written {
            written.handle_event(event);
        }
    }
}
