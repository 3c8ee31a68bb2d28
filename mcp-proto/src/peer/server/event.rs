//! Events from a server to its application.

use alloc::sync::Arc;

use super::text_bytes;
use crate::consent::SafeText;
use crate::peer::event_queue::MakeOwned;
use crate::peer::{InboundId, Leniency, LostReason, Outcome, Principal, RequestId};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Id, Malformed, Raw, Text};
use crate::schema::{ClientCapabilities, Era, Implementation, LoggingLevel, ProgressParams, Revision};

/// An event of a server's connection; events are in the order of the wire.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request of the client: answer with [`respond`](super::ServerCommands::respond).
    Request {
        /// The handle to answer it with.
        id: InboundId,
        /// The method; a capability that this server declares covers it.
        method: Text,
        /// Its parameters, not decoded.
        params: Option<Raw>,
        /// The client, revision and principal of the request.
        context: RequestContext,
    },
    /// A request was cancelled, or its answer can no longer be delivered. A later answer is dropped.
    Cancelled {
        /// The request.
        id: InboundId,
        /// By whom, and why.
        cancellation: Cancellation,
    },
    /// A legacy client has finished its handshake.
    Initialized,
    /// A legacy client has set the log level.
    LogLevelSet(LoggingLevel),
    /// A client has subscribed to a resource, as the first subscription to it on this connection.
    Subscribed {
        /// The resource.
        uri: String,
    },
    /// The last subscription to a resource on this connection has ended.
    Unsubscribed {
        /// The resource.
        uri: String,
    },
    /// The client sent a notification that the peer does not handle itself.
    Notification {
        /// Its method.
        method: Text,
        /// Its parameters, not decoded.
        params: Option<Raw>,
    },
    /// The client reports progress on a request of this server.
    Progress {
        /// The request.
        request: RequestId,
        /// The progress.
        params: ProgressParams,
    },
    /// A request of this server has ended.
    Outcome {
        /// The request.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
    /// A problem that ended no request.
    Diagnostic(Diagnostic),
    /// The connection is over; no event follows.
    Closed(CloseReason),
}

impl MakeOwned for Event {
    fn make_owned(&mut self) {
        match self {
            Self::Request { method, params, .. } | Self::Notification { method, params } => {
                *method = Text::from(&**method);
                *params = params.as_ref().map(Raw::detached);
            }
            Self::Outcome { outcome, .. } => outcome.make_owned(),
            Self::Diagnostic(diagnostic) => diagnostic.make_owned(),
            _ => {}
        }
    }
}

/// The context of a request: client, revision and principal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestContext {
    /// The era of the request.
    pub era: Era,
    /// The revision to answer in.
    pub revision: Revision,
    /// The client's self-reported name and version. For display and logs only: unverified.
    pub client_info: Option<Arc<Implementation>>,
    /// The client's capabilities: the kinds of input that the answer can ask for.
    pub client_capabilities: Arc<ClientCapabilities>,
    /// The principal of the request, if the transport has verified one.
    pub principal: Option<Principal>,
    /// The progress token, if the client wants progress notifications.
    pub progress_token: Option<Id>,
    /// The lowest severity of log messages wanted with this request; legacy clients set it for all requests.
    pub log_level: Option<LoggingLevel>,
}

/// A problem to log that ended no request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Diagnostic {
    /// Input that is not a message; it was answered with an error.
    Malformed(Box<Malformed>),
    /// A tolerated deviation of the client from the specification: see
    /// [`ServerConfig::strictness`](super::ServerConfig::strictness).
    Tolerated(Leniency),
    /// A request whose id is that of another one that has not been answered yet. The client would take an answer to it
    /// for the answer to the other one, so on a stream it gets none. Over HTTP it is rejected in its own exchange.
    DuplicateRequest {
        /// Its id.
        id: Id,
        /// Its method.
        method: Text,
    },
    /// An answer to a request that was never made.
    UnknownAnswer(Option<Id>),
    /// An error without an id, which answers no request in particular. Requests that time out later quote it.
    Error(ErrorObject),
    /// A request that the peer answered with an error before it reached the application.
    Refused {
        /// Its method.
        method: Text,
        /// The error.
        error: ErrorObject,
    },
    /// An answer of the application could not be sent; the client received this error instead.
    AnswerReplaced {
        /// The request.
        id: InboundId,
        /// The error.
        error: ErrorObject,
    },
    /// An error of the application has a code between -32768 and -32000 that no specification defines, or defines with
    /// another meaning: choose a code outside that range. In -32020 to -32099 the client received `INTERNAL_ERROR`
    /// instead.
    ReservedErrorCode {
        /// The request.
        id: InboundId,
        /// The code.
        code: i64,
    },
    /// The result of a tool embeds a resource, and the server does not declare `resources`. It was sent nevertheless:
    /// declare the capability, so that clients can expect such content.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#embedded-resources>
    UndeclaredResources,
    /// A text of a form that was sent contains a URL, which clients should not make clickable: send the user to the
    /// page by a request in URL mode. With [`Strictness::Strict`](crate::peer::Strictness::Strict) the form is not sent.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
    UrlInForm {
        /// The text.
        text: String,
    },
    /// A layer wanted to drop a message that is no notification, or one on which others depend. It was not dropped.
    LayerDropIgnored {
        /// Its method, or a note that it is an answer.
        message: String,
    },
    /// A handler logged, and the server does not declare `logging`: the message was dropped. Reported once for each
    /// connection; over HTTP the machine of each request of 2026-07-28 reports it once, and the front once for the whole
    /// server (`HttpServerEvent::UndeclaredLogging`). Declare the capability (`Router::declare`).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    UndeclaredLogging,
    /// A notification whose parameters could not be read.
    InvalidNotification {
        /// Its method.
        method: Text,
        /// Why they could not be read.
        error: String,
    },
    /// A notification of the application that failed to encode was not sent.
    Unencodable {
        /// Its method.
        method: String,
        /// The error of the encoder.
        error: String,
    },
    /// More progress reports on a request arrived than [`Limits::progress_in`](crate::Limits::progress_in) allows, and
    /// newer ones replaced some of them. Reported once, before the outcome of the request.
    ProgressSkipped {
        /// The request.
        request: RequestId,
        /// How many.
        count: u64,
    },
    /// Notifications were dropped: from the client, because the application does not take its events, or to the client,
    /// because it does not read.
    NotificationsDropped {
        /// How many.
        count: u64,
    },
}

impl Diagnostic {
    /// Copies slices of the input into memory of its own.
    pub(crate) fn make_owned(&mut self) {
        match self {
            Self::Refused { method, error } => {
                *method = Text::from(&**method);
                error.make_owned();
            }
            Self::InvalidNotification { method, .. } | Self::DuplicateRequest { method, .. } => {
                *method = Text::from(&**method);
            }
            Self::Tolerated(leniency) => leniency.make_owned(),
            Self::Malformed(malformed) => malformed.make_owned(),
            Self::Error(error) => error.make_owned(),
            _ => {}
        }
    }

    /// The approximate size in bytes of its client-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        let of_id = |id: &Option<Id>| id.as_ref().map_or(0, text_bytes);
        match self {
            Self::Malformed(malformed) => {
                let recovered = &malformed.recovered;
                of_id(&recovered.id)
                    .saturating_add(recovered.method.as_ref().map_or(0, |method| method.len()))
            }
            Self::Tolerated(leniency) => leniency.bytes(),
            Self::DuplicateRequest { id, method } => text_bytes(id).saturating_add(method.len()),
            Self::UnknownAnswer(id) => of_id(id),
            Self::Error(error) | Self::AnswerReplaced { error, .. } => error.bytes(),
            Self::Refused { method, error } => method.len().saturating_add(error.bytes()),
            Self::InvalidNotification { method, error } => method.len().saturating_add(error.len()),
            Self::Unencodable { method, error } => method.len().saturating_add(error.len()),
            Self::UrlInForm { text } => text.len(),
            Self::LayerDropIgnored { message } => message.len(),
            _ => 0,
        }
    }
}

display_text! { Diagnostic:
    Malformed(malformed) => "not a message: {malformed}";
    LayerDropIgnored { message } => "a layer wanted to drop {message}, which only notifications that nothing depends on can be";
    Tolerated(leniency) => "{leniency}";
    DuplicateRequest { id, method } =>
        "the request {id} ({}) has the id of an unanswered request: not answered", &**method;
    UnknownAnswer(Some(id)) => "an answer to request {id}, which was never made";
    UnknownAnswer(None) => "an answer without an id";
    Error(error) => "an error that answers no request: {error}";
    Refused { method, error } => "the request {} was refused: {error}", &**method;
    AnswerReplaced { id, error } => "the answer to {id:?} was replaced by an error: {error}";
    ReservedErrorCode { id, code } =>
        "the error of {id:?} has the reserved code {code}: choose one outside -32768 to -32000";
    UndeclaredResources =>
        "the result of a tool embeds a resource, but the server does not declare `resources`";
    UrlInForm { text } =>
        "the form shows a URL in {text:?}, which clients must not make clickable: use a page (`elicit_url`)";
    UndeclaredLogging =>
        "a log message was dropped, because the server does not declare `logging`: declare it \
                 (`Router::declare`)";
    InvalidNotification { method, error } => "the notification {} could not be read: {error}", &**method;
    Unencodable { method, error } => "{method} was not sent: it cannot be encoded: {error}";
    ProgressSkipped { request, count } =>
        "{count} progress reports on {request:?} came too fast: newer ones replaced them";
    NotificationsDropped { count } => "{count} notifications were dropped";
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The client ended the connection, or this side closed it.
    Done,
    /// The connection failed.
    Lost(LostReason),
}

display_text! { CloseReason:
    Done => "the connection was closed";
    Lost(lost) => "{lost}";
}

/// The number of characters that are kept of a client's reason.
const REASON_CHARACTERS: usize = 1000;

/// Why the answer to a request is no longer awaited.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancellation {
    /// The client cancelled the request, or the task that it became.
    Client {
        /// The client's reason, for logs and displays: one line of at most 1,000 characters, in which unsafe characters
        /// are [escaped](crate::consent::SafeText::line). Clients of tasks give none.
        reason: Option<String>,
    },
    /// The client has disconnected. A client of 2026-07-28 over HTTP cancels a request in this way, without a reason.
    Disconnected,
    /// The connection or the session was closed, or failed.
    Closed(CloseReason),
    /// The request was answered, or its task has ended without being cancelled. Only
    /// the contexts of handlers report this.
    Answered,
}

impl Cancellation {
    /// A cancellation by the client, with its reason as received.
    pub(super) fn by_client(reason: Option<&str>) -> Self {
        let escape = |reason: &str| {
            let end = reason.char_indices().nth(REASON_CHARACTERS).map_or(reason.len(), |(end, _)| end);
            SafeText::line(reason.get(..end).unwrap_or_default()).to_string()
        };
        Self::Client { reason: reason.map(escape) }
    }

    /// The cancellation of all requests of a connection that has ended.
    pub(crate) fn by_close(closed: &CloseReason) -> Self {
        match closed {
            CloseReason::Lost(LostReason::Disconnected(_)) => Self::Disconnected,
            _ => Self::Closed(closed.clone()),
        }
    }

    /// The client's reason, if it gave one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Client { reason } => reason.as_deref(),
            _ => None,
        }
    }
}

display_text! { Cancellation:
    Client { reason: Some(reason) } => "the client cancelled the request: {reason}";
    Client { reason: None } => "the client cancelled the request";
    Disconnected => "the client has disconnected";
    Closed(closed) => "{closed}";
    Answered => "the request was answered";
}
