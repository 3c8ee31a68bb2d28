//! The keys of `_meta` that the protocol defines. [`Meta`](crate::schema::Meta) has their values.

/// Key: the revision of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Key: identity of the client that makes a request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Key: capabilities of the client that makes a request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key: level of the log messages that the client wants during a request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key: id of the `subscriptions/listen` request that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Key: identity of the server that answers a request.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key: the task that a message belongs to (2025-11-25 only).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Key: the token for progress notifications of a request.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Key: position of a request in a trace, as in W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";
/// Key: data of the tracing systems involved, as in W3C Trace Context.
pub const TRACESTATE: &str = "tracestate";
/// Key: values that applications propagate along a trace, as in W3C Baggage.
pub const BAGGAGE: &str = "baggage";
