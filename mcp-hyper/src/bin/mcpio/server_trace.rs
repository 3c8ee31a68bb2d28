//! The traces of this program's own servers: for the screen and for a file.

use std::sync::Arc;

use mcp_hyper::host::{ConnectionTrace, HttpServerTrace, TraceFile, WireObserver};
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
    /// Knows the fields of the server that are passwords.
    redactor: Redactor,
    has_machines: bool,
    is_printed: bool,
}

impl ServerTrace {
    pub(crate) fn new(common: &CommonOptions, transport: &'static str, redactor: Redactor) -> Self {
        let (file, has_machines) = (common.traced.clone(), common.trace_raw);
        Self { transport, file, redactor, has_machines, is_printed: common.trace }
    }

    /// A recorder of the machines of a server on a stream, for `--trace-raw`.
    pub(crate) fn recorder(&self) -> Option<MachineRecorder> {
        self.has_machines.then(|| self.open()).flatten()?.recorder()
    }

    fn open(&self) -> Option<ConnectionTrace> {
        let file = self.file.as_ref()?;
        Some(file.connection_of_server("mcpio", self.transport, self.redactor.clone()))
    }

    /// A server on a stream with its trace.
    pub(crate) fn of_stream(self, options: mcp_smol::ServerOptions) -> mcp_smol::ServerOptions {
        let connection = self.open();
        let recorder = connection.as_ref().and_then(ConnectionTrace::recorder);
        let options = options.configure(|config| config.recorder = recorder);
        let (mut printed, mut written) = (self.printer(), connection.map(|connection| connection.observer()));
        if printed.is_none() && written.is_none() {
            return options;
        }
        options.on_wire(move |direction, bytes| {
            if let Some(printed) = &mut printed {
                // What a client sends is printed as sent, as the client does.
                let of_client = match direction {
                    WireDirection::Sent => WireDirection::Received,
                    WireDirection::Received => WireDirection::Sent,
                };
                printed.handle_bytes(of_client, bytes);
            }
            if let Some(written) = &mut written {
                written.handle_bytes(direction, bytes);
            }
        })
    }

    /// A server over HTTP with its trace.
    pub(crate) fn of_http(self, options: ServerOptions) -> ServerOptions {
        let file = self.file.as_ref();
        let trace = file.map(|file| file.http_server("mcpio", self.transport, self.redactor.clone()));
        let recorder = trace.as_ref().and_then(HttpServerTrace::recorder);
        let options = options.configure(|config| Arc::make_mut(&mut config.server).recorder = recorder);
        if trace.is_none() && !self.is_printed {
            return options;
        }
        options.on_wire(move |_| {
            let (mut printed, mut written) = (self.printer(), trace.as_ref().map(HttpServerTrace::observer));
            Some(Box::new(move |event| {
                if let Some(printed) = &mut printed {
                    printed.handle_event(match event {
                        WireEvent::MessageSent(text) => WireEvent::MessageReceived(text),
                        WireEvent::MessageReceived(text) => WireEvent::MessageSent(text),
                        event => event,
                    });
                }
                if let Some(written) = &mut written {
                    written(event);
                }
            }))
        })
    }

    /// Prints what passes, without secrets.
    fn printer(&self) -> Option<WireObserver> {
        self.is_printed.then(|| reports::trace(None, self.redactor.clone()))
    }
}
