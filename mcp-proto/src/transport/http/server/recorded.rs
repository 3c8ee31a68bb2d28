//! What a trace has of exchanges and sessions beside the steps that all machines have.

use alloc::borrow::Cow;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{
    Chunk, ConnectionId, HttpResponse, HttpServerConfig, PostOutcome, RequestHead, RequestRoute, ResponseHead,
};
use crate::peer::Principal;
use crate::prelude::*;
use crate::trace_file::{MachineOrigin, MachineStep, TracedFrame};

/// The kinds of the machines of a server, in traces.
pub(crate) const SERVER: &str = "http server";
pub(crate) const EXCHANGE: &str = "http exchange";
pub(crate) const SESSION: &str = "http session";

/// The origin of what exchanges and sessions have in common.
pub(super) fn server_origin(config: &HttpServerConfig) -> MachineOrigin {
    let mut origin = MachineOrigin::new(SERVER, config);
    origin.missing.extend(config.server.unwritten());
    if config.cors.as_ref().is_some_and(|cors| !cors.is_list()) {
        origin.missing.push("a function for the origins of web pages".to_owned());
    }
    origin
}

/// The head of a request, which begins an exchange.
#[derive(Serialize, Deserialize)]
pub(crate) struct ExchangeOrigin {
    /// The number of the server's machine.
    pub(crate) server: usize,
    method: String,
    path: String,
    headers: Vec<(String, TracedFrame)>,
    client: Option<IpAddr>,
}

impl ExchangeOrigin {
    pub(super) fn new(server: usize, head: &RequestHead<'_>) -> Self {
        let mut headers = Vec::new();
        head.fields.each(&mut |name, value| headers.push((name.to_owned(), TracedFrame::whole(value))));
        let (method, path) = (head.method.to_owned(), head.path.to_owned());
        Self { server, method, path, headers, client: head.client }
    }

    /// Calls `act` with the head.
    pub(crate) fn with_head<R>(&self, act: impl FnOnce(&RequestHead<'_>) -> R) -> R {
        let fields: Vec<_> = self.headers.iter().map(|(name, value)| (name, value.as_bytes())).collect();
        let Self { method, path, client, .. } = self;
        act(&RequestHead { method, path, fields: &fields, client: *client })
    }
}

/// The beginning of a session.
#[derive(Serialize, Deserialize)]
pub(crate) struct SessionOrigin {
    /// The number of the server's machine.
    pub(crate) server: usize,
    /// The session id.
    pub(crate) id: String,
    /// The number of the exchange with the handshake; `None` of a client of 2024-11-05.
    pub(crate) post: Option<usize>,
}

/// An input of an exchange that other machines do not have.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ExchangeInput {
    /// The request, which is complete, is served on behalf of this principal.
    Open(Option<Principal>),
    Disconnect,
}

/// An input of a session that other machines do not have.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SessionInput {
    /// The message of an exchange, by the number of its machine.
    Post(usize),
    Listen(Option<String>),
    Delete,
    Disconnect(u64),
    Charge,
    /// The session was stored in a form that takes little memory, from which it goes on.
    Pack,
}

impl HttpResponse {
    /// All of it, with what may be secret.
    pub(super) fn whole_text(&self) -> String {
        let headers: Vec<_> = self.headers.iter().collect();
        format!("{} {headers:?} {:?}", self.status, self.body)
    }
}

impl RequestRoute {
    pub(super) fn whole_text(&self) -> String {
        match self {
            Self::Answer(answer) => answer.whole_text(),
            Self::Modern(request) => format!("request {}", request.method()),
            Self::Notification(posted) => format!("notification {}", posted.method()),
            Self::Stateless(_) => "requests without a session".to_owned(),
            Self::OpenSession(_) => "new session".to_owned(),
            Self::Session { id, .. } => format!("message of session {id}"),
            Self::Listen { id, last_event } => format!("stream of session {id} after {last_event:?}"),
            Self::Delete { id } => format!("end of session {id}"),
            Self::LegacyEvents => "new session of 2024-11-05".to_owned(),
            Self::LegacyPost { id, .. } => format!("message of session {id} of 2024-11-05"),
        }
    }
}

impl PostOutcome {
    pub(super) fn whole_text(&self) -> String {
        match self {
            Self::Answer(answer) => answer.whole_text(),
            Self::Connection(connection) => format!("{connection:?}"),
        }
    }
}

/// What opening a stream of a session returned.
pub(super) fn listen_text(opened: &Result<ConnectionId, HttpResponse>) -> String {
    match opened {
        Ok(connection) => format!("{connection:?}"),
        Err(answer) => answer.whole_text(),
    }
}

/// The step of the head of an answer. `connection` is 0 without a session.
pub(super) fn head_step(connection: u64, head: &ResponseHead) -> MachineStep {
    let pair =
        |(name, value): &(&str, Cow<'_, str>)| ((*name).to_owned(), TracedFrame::whole(value.as_bytes()));
    let headers = head.headers.iter().map(pair).collect();
    MachineStep::Head { exchange: connection, status: head.status, headers }
}

/// The step of a part of the body of an answer; an empty piece if there was none yet.
pub(super) fn chunk_step(connection: u64, chunk: &Chunk) -> MachineStep {
    match chunk {
        Chunk::Bytes(bytes) => MachineStep::body(connection, bytes),
        Chunk::Pending => MachineStep::body(connection, &[]),
        Chunk::End => MachineStep::End { exchange: connection, end: String::new() },
    }
}

/// The step of the whole body of an answer.
pub(super) fn whole_body_step(connection: u64, body: &[u8]) -> MachineStep {
    MachineStep::WholeBody { exchange: connection, body: TracedFrame::whole(body) }
}
