//! What waits for I/O and time on behalf of a driver.

#[cfg(feature = "smol")]
mod smol;
mod timer;

use std::io;

#[cfg(feature = "smol")]
pub use smol::start_reactor;
pub(crate) use timer::{Timer, poll_at_intervals, sleep};

/// The runtime that a driver's pipes, sockets, processes and timers use, chosen by
/// [`ClientOptions::runtime`](crate::ClientOptions::runtime) and
/// [`ServerOptions::runtime`](crate::ServerOptions::runtime).
///
/// The default is [`Smol`](Self::Smol) if the feature `smol` is enabled, whether or not the code runs inside of tokio.
/// Functions without options use the default. The choice does not affect streams that the application brings: they use
/// the runtime that they were made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeKind {
    /// async-io: works under any executor.
    #[cfg(feature = "smol")]
    #[default]
    Smol,
    /// tokio: the calls and drivers must run inside of a tokio runtime, whose I/O and time drivers are enabled. tokio
    /// panics if they are not.
    #[cfg(feature = "tokio")]
    #[cfg_attr(not(feature = "smol"), default)]
    Tokio,
}

impl RuntimeKind {
    /// Checks that it is running, and starts it if it can be started.
    pub(crate) fn start(self) -> io::Result<()> {
        match self {
            #[cfg(feature = "smol")]
            Self::Smol => start_reactor(),
            #[cfg(feature = "tokio")]
            Self::Tokio => tokio::runtime::Handle::try_current().map(drop).map_err(io::Error::other),
        }
    }
}

/// The source of readiness and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reactor {
    Runtime(RuntimeKind),
    /// A thread that polls its future at intervals, by [`poll_at_intervals`].
    Thread,
}

impl From<RuntimeKind> for Reactor {
    fn from(runtime: RuntimeKind) -> Self {
        Self::Runtime(runtime)
    }
}
