//! The standard streams through threads. **Untested**, and without redirection, for which there is no safe
//! function.

use std::io;

use blocking::Unblock;

pub(super) type Source = Unblock<io::Stdin>;
pub(super) type Sink = Unblock<io::Stdout>;

pub(super) fn open() -> io::Result<(Source, Sink)> {
    Ok((Unblock::new(io::stdin()), Unblock::new(io::stdout())))
}

pub(super) fn redirect() -> io::Result<()> {
    Ok(())
}
