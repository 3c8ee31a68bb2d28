//! Actions that a client asks of its link.

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
