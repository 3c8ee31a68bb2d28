//! Limits of a connection's memory and work.

const MIB: usize = 1024 * 1024;

config! {
    /// Limits of one connection: everything that a peer can grow has one.
    ///
    /// ```
    /// use mcp_proto::Limits;
    ///
    /// let limits = Limits { message_bytes: 1024 * 1024, ..Limits::default() };
    /// assert!(limits.depth > 0);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct Limits {
        /// The longest message accepted, in bytes. A longer one is skipped and reported; if its id can be read, that
        /// request ends at once.
        ///
        /// Default 64 MiB: a screenshot or a document in base64 fits with room to spare, a runaway peer does not.
        pub message_bytes: usize = 64 * MIB,

        /// How deep arrays and objects may nest in a message.
        ///
        /// Default 120, a little below the depth limit of the typed decoder; real messages stay below 30.
        pub depth: usize = 120,

        /// How many requests of this side may be in flight, queued ones included. Further ones are refused. A client's
        /// own requests about the tasks that it follows or cancels may be as many again.
        ///
        /// Default 100,000: far above the needs of an application, which alone decides how much memory its requests
        /// take.
        pub requests_out: usize = 100_000,

        /// How many requests of the peer may be unanswered. Further ones are answered with an error.
        ///
        /// Default 1,024: each may hold its parameters and a handler.
        pub requests_in: usize = 1024,

        /// How many input rounds a request may have: how often the client sends it again with the input that the server
        /// requested. If the server requests input once more, the request ends. On a server: how many requests for
        /// sampling with results of tools a handler may make for one request of its client.
        ///
        /// Default 10, as in every other client: a server that requests more will probably never finish.
        pub input_rounds: u32 = 10,

        /// How many bytes may wait to be sent before this side's own requests and notifications are refused. Beyond it,
        /// a server on a stream or a channel holds further requests undispatched, up to
        /// [`message_bytes`](Self::message_bytes) bytes of them, until its client has read enough.
        ///
        /// Default 64 MiB: one message of the greatest size always fits.
        pub queued_bytes: usize = 64 * MIB,

        /// How many further bytes are reserved for replies to the peer, for cancellations and pings. When they are used
        /// up too, the connection fails as overloaded.
        ///
        /// Default 64 MiB, for the same reason.
        pub reply_bytes: usize = 64 * MIB,

        /// How many bytes of events may wait for the application. Beyond it, notifications are dropped and counted,
        /// then requests of the peer refused, then results of this side's own requests lost.
        ///
        /// Default 128 MiB: two messages of the greatest size.
        pub event_bytes: usize = 128 * MIB,

        /// How many events of any size may wait for the application. Beyond it, the same happens as for
        /// [`event_bytes`](Self::event_bytes).
        ///
        /// Default 65,536.
        pub events: usize = 65_536,

        /// How many input requests one task of a server may make of this client in its lifetime.
        ///
        /// Default 1,024: a user or a model answers each, and the client remembers it so that it is not answered twice.
        pub task_inputs: usize = 1024,

        /// For how many tools of a server the client remembers whether they run as tasks (2025-11-25). For further ones
        /// the client does not know.
        ///
        /// Default 10,000: far more than a model can choose from.
        pub task_tools: usize = 10_000,

        /// How many subscriptions the peer may hold, resource subscriptions of a legacy session included.
        ///
        /// Default 1,024.
        pub subscriptions: usize = 1024,

        /// How many requests of this side may have an open HTTP exchange at once; further ones wait in order. Streams
        /// that stay open, such as subscriptions, are not counted; notifications and replies have a separate limit of
        /// the same size.
        ///
        /// Default 256: more than a server answers at once, and few enough for the sockets of one process.
        pub exchanges: usize = 256,

        /// How many progress reports a second are sent on one request, evenly spaced. The first is sent at once. Of
        /// those that follow too fast, the newest waits for its turn or for the answer, so that the last one is never
        /// lost. `u32::MAX`: every report is sent.
        ///
        /// Default 50: more than a display can show, and too few to flood the other side.
        ///
        /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress#implementation-notes>
        pub progress_out: u32 = 50,

        /// How many progress reports of the peer on one request are passed to the application in each second. Of those
        /// beyond, the newest is passed on at the end of the second, or right before the outcome if that comes first.
        /// The others are skipped and counted in the diagnostic `ProgressSkipped`. `u32::MAX`: every report is passed
        /// on.
        ///
        /// Default 100: twice what a server of this crate sends.
        pub progress_in: u32 = 100,

        /// The longest HTTP header value accepted or sent, in bytes: a session id, an event id, a name.
        ///
        /// Default 16 KiB: the limit of common servers for all headers together.
        pub header_bytes: usize = 16 * 1024,
    }
}
