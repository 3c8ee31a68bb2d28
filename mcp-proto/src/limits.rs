//! What a peer may make this side hold.

/// The bounds of one connection: whatever a peer can grow has one.
///
/// ```
/// use mcp_proto::Limits;
///
/// let limits = Limits { message_bytes: 1024 * 1024, ..Limits::default() };
/// assert!(limits.depth > 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message accepted, in bytes. A longer one is skipped and reported; if its id can be read, that
    /// request ends at once.
    ///
    /// Default 64 MiB: a screenshot or a document in base64 fits with room to spare, a runaway peer does not.
    pub message_bytes: usize,

    /// How deep arrays and objects may nest in a message.
    ///
    /// Default 120, a little below the depth at which the typed decoder would give up by itself; real messages stay
    /// below 30.
    pub depth: usize,

    /// How many requests of this side may be in flight, queued ones included. One more is refused.
    ///
    /// Default 100,000: far above what an application has use for, and what it costs is bounded by its own requests.
    pub requests_out: usize,

    /// How many requests of the other side may be unanswered. One more is answered with an error.
    ///
    /// Default 1,024: each may hold its parameters and a handler.
    pub requests_in: usize,

    /// How often a request of this side goes out again because the server asks for input before it finishes. If it asks
    /// once more, the request ends.
    ///
    /// Default 10, as in every other client: a server that is not content by then never will be.
    pub rounds: u32,

    /// How many bytes may wait to be sent before this side's own requests and notifications are refused. Over it a server
    /// on a stream or a channel holds further requests undispatched, up to [`message_bytes`](Self::message_bytes) of them,
    /// until its client has taken enough.
    ///
    /// Default 64 MiB: one message of the greatest size always fits.
    pub queued_bytes: usize,

    /// How many further bytes are kept free for replies to the other side, for cancellations and pings. When they are
    /// used up as well, the connection fails as overloaded.
    ///
    /// Default 64 MiB, for the same reason.
    pub reply_bytes: usize,

    /// How many bytes of events may wait for the application. Beyond it notifications are dropped and counted, then
    /// requests of the other side refused, then this side's own results lost.
    ///
    /// Default 128 MiB: two messages of the greatest size.
    pub event_bytes: usize,

    /// How many events may wait for the application, whatever their size; beyond it the same happens.
    ///
    /// Default 65,536.
    pub events: usize,

    /// How many things one task of a server may ask this client for, from its beginning to its end.
    ///
    /// Default 1,024: each is put before a person or a model, and remembered so that it is not put twice.
    pub task_inputs: usize,

    /// Of how many tools of a server it is known whether they run as tasks (2025-11-25). Of further ones it is not.
    ///
    /// Default 10,000: far more than a model can choose from.
    pub task_tools: usize,

    /// How many subscriptions the other side may hold, resource subscriptions of a legacy session included.
    ///
    /// Default 1,024.
    pub subscriptions: usize,

    /// How many requests of this side may be on their way over HTTP at once; further ones wait, in order. Streams that
    /// stay open, such as subscriptions, are not counted, and notifications and replies have as many for themselves.
    ///
    /// Default 256: more than a server answers at once, and few enough for the sockets of one process.
    pub exchanges: usize,

    /// The longest header accepted or sent over HTTP, in bytes: a session, an event's id, a name.
    ///
    /// Default 16 KiB: what common servers take for all headers together.
    pub header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            message_bytes: 64 * MIB,
            depth: 120,
            requests_out: 100_000,
            requests_in: 1024,
            rounds: 10,
            queued_bytes: 64 * MIB,
            reply_bytes: 64 * MIB,
            event_bytes: 128 * MIB,
            events: 65_536,
            task_inputs: 1024,
            task_tools: 10_000,
            subscriptions: 1024,
            exchanges: 256,
            header_bytes: 16 * 1024,
        }
    }
}
