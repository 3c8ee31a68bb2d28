//! The state of a client's connection, and the actions that it asks of its link.

/// The state of a client's connection. The [module's documentation](super) has the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No link is open.
    Disconnected,
    /// The link is being opened.
    Connecting,
    /// The link is open, and the client is detecting the server's era.
    Connected,
    /// `initialize` is in flight.
    Initializing,
    /// The server has answered `initialize`.
    Initialized,
    /// Requests are sent.
    Ready,
}
/// An action for the driver to perform on the link that carries the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkAction {
    /// Open a link: start the process, connect the socket. A link that is still open is ended first. Report the result
    /// with `handle_open` or `handle_open_failed`.
    Open,
    /// Close the sending half, once all queued output has been written. The other side then ends.
    CloseWrite,
    /// End the link at once.
    Abort,
}
