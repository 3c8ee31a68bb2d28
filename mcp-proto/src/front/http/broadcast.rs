//! Messages of the application to all legacy sessions of a server over HTTP.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use serde::Serialize;

use super::{HttpHandle, HttpServer};
use crate::Instant;
use crate::front::{Error, HandlerMode};
use crate::peer::reserved::check_server_notification;
use crate::peer::server::{ServerCommands, ServerTransport};
use crate::peer::{AnyParams, RequestError};
use crate::rpc::Raw;
use crate::schema::{CustomParams, Json, LoggingLevel, LoggingMessageParams, Notification};

/// The number of messages that wait for the driver in one session.
const MAX_MESSAGES: usize = 256;
/// Their size in bytes, unless it is one message alone.
const MAX_BYTES: usize = 1024 * 1024;

/// A message to all sessions.
pub(super) enum Broadcast {
    Log(LoggingMessageParams),
    Notification { method: String, params: CustomParams, bytes: usize },
}

impl Broadcast {
    /// The approximate size in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Log(params) => {
                params.data.as_str().len().saturating_add(params.logger.as_ref().map_or(0, String::len))
            }
            Self::Notification { method, bytes, .. } => method.len().saturating_add(*bytes),
        }
    }
}

/// The messages that wait for one session, until the driver polls it. All sessions share each message.
#[derive(Default)]
pub(super) struct BroadcastQueue {
    messages: VecDeque<Arc<Broadcast>>,
    bytes: usize,
}

impl BroadcastQueue {
    /// Queues a message, or drops it if the queue is full.
    pub(super) fn push(&mut self, message: Arc<Broadcast>) {
        let bytes = self.bytes.saturating_add(message.bytes());
        if self.messages.is_empty() || (self.messages.len() < MAX_MESSAGES && bytes <= MAX_BYTES) {
            self.bytes = bytes;
            self.messages.push_back(message);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Passes the messages to the session's machine, which drops what its client does not read.
    pub(super) fn deliver<M: ServerTransport>(self, machine: &mut M, now: Instant) {
        for message in self.messages {
            match &*message {
                Broadcast::Log(params) => {
                    let asked = machine.peer().session().is_some_and(|session| session.log_level.is_some());
                    if asked && machine.lend(now).outbox.has_reader() {
                        ServerCommands::new(machine, now).log(None, params);
                    }
                }
                Broadcast::Notification { method, params, .. } => {
                    // A session that cannot have it yet, or any more, is left out.
                    let _ = ServerCommands::new(machine, now).notify_custom(None, method, params);
                }
            }
        }
    }
}

/// Messages outside of requests.
impl HttpHandle {
    /// Logs to the clients of legacy sessions, independently of their requests: to each that has set a log level which
    /// includes `level`, and that has the stream for such messages open (GET). Other clients never receive the message.
    ///
    /// A client of 2026-07-28 receives none: its log messages belong to a request, for which the handler
    /// [logs](crate::front::Context::log). The capability must have been [declared](crate::front::Router::declare).
    ///
    /// The message goes to clients of all principals: it must contain no secrets, and nothing about one of them. A
    /// client that does not read loses messages and delays no other.
    ///
    /// ```
    /// # use mcp_proto::front::http::HttpHandle;
    /// # use mcp_proto::schema::LoggingLevel;
    /// # fn example(server: &HttpHandle) {
    /// server.log(LoggingLevel::Warning, Some("disk".into()), "almost full");
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging>
    pub fn log(&self, level: LoggingLevel, logger: Option<String>, data: impl Serialize) {
        // Data that does not serialize cannot be sent.
        let Ok(data) = Json::encode(&data) else { return };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger;
        //= S8.18 "only on that request's stream"
        self.service.hub.broadcast(Broadcast::Log(params));
    }

    /// Sends a notification that the protocol does not define to all legacy sessions.
    ///
    /// A session without an open stream for such messages (GET) receives it when the stream is opened; a client that
    /// does not read loses notifications and delays no other. A client of 2026-07-28 receives only the notifications
    /// that it subscribed to, so none of these.
    ///
    /// # Errors
    /// If the parameters do not serialize, or the name is one of the protocol's, which other methods send.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#opening-a-stream>
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.broadcast(N::NAME, params.to_raw())
    }

    /// Sends a notification by its name to all legacy sessions, like [`notify`](Self::notify). `params` is any value
    /// that serializes to a JSON object, or to `null` for none.
    ///
    /// ```
    /// # use mcp_proto::front::Error;
    /// # use mcp_proto::front::http::HttpHandle;
    /// # use serde_json::json;
    /// # fn example(server: &HttpHandle) -> Result<(), Error> {
    /// server.notify_custom("com.example/paperLow", json!({ "sheets": 12 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        self.broadcast(method, Raw::encode(&params))
    }

    fn broadcast(&self, method: &str, params: Result<Raw, serde_json::Error>) -> Result<(), Error> {
        let unencodable = |error: serde_json::Error| RequestError::Encode(error.to_string());
        check_server_notification(method)?;
        let raw = params.map_err(unencodable)?;
        let bytes = raw.as_bytes().len();
        let params = match raw.as_str() {
            "null" => CustomParams::new(),
            _ => raw.decode().map_err(unencodable)?,
        };
        self.service.hub.broadcast(Broadcast::Notification { method: method.into(), params, bytes });
        Ok(())
    }
}

impl<H: HandlerMode> HttpServer<H> {
    /// See [`HttpHandle::log`].
    pub fn log(&self, level: LoggingLevel, logger: Option<String>, data: impl Serialize) {
        self.handle.log(level, logger, data);
    }

    /// See [`HttpHandle::notify`].
    ///
    /// # Errors
    /// Those of [`HttpHandle::notify`].
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.handle.notify::<N>(params)
    }

    /// See [`HttpHandle::notify_custom`].
    ///
    /// # Errors
    /// Those of [`HttpHandle::notify`].
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        self.handle.notify_custom(method, params)
    }
}
