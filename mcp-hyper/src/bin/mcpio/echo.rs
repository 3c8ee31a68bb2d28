//! Typing that the terminal does not show, for passwords.

use std::io;

/// The echo of the terminal is off until this is dropped.
pub(crate) struct EchoOff {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl EchoOff {
    /// Switches off the echo of the terminal that is standard input.
    ///
    /// # Errors
    /// If standard input is no terminal, or this system's terminals cannot hide it.
    #[cfg(unix)]
    pub(crate) fn begin() -> io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &hidden)?;
        Ok(Self { before })
    }

    #[cfg(not(unix))]
    pub(crate) fn begin() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(unix)]
impl Drop for EchoOff {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // If this fails, nothing can be done about it.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
