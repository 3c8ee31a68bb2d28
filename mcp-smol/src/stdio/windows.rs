//! The standard streams through threads. **Untested**, and without redirection, for which there is no safe
//! function.

use std::io;

use crate::RuntimeKind;
use crate::threaded::{ThreadReader, ThreadWriter};

pub(super) type Source = ThreadReader<io::Stdin>;
pub(super) type Sink = ThreadWriter<io::Stdout>;

pub(crate) type Descriptors = ();

pub(super) fn open() -> io::Result<Descriptors> {
    Ok(())
}

pub(super) fn streams((): Descriptors, _: RuntimeKind) -> io::Result<(Source, Sink)> {
    Ok((ThreadReader::new(io::stdin()), ThreadWriter::new(io::stdout())))
}

pub(super) fn redirect() -> io::Result<()> {
    Ok(())
}
