//! What a client asks of its link.

/// What is to be done with the link that carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkAction {
    /// Open a link: start the process, connect the socket. One that is still open is ended first. Answer with
    /// `handle_open` or `handle_open_failed`.
    Open,
    /// Close the sending half, once everything that was to be sent has been written. The other side then ends.
    CloseWrite,
    /// End the link at once.
    Abort,
}
