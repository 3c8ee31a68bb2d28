//! One connection of a server: its state machine and its streams, polled by a driver or by a thread of its own.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::Instant;
use mcp_proto::adapter::{self, Clock as _, SystemClock};
use mcp_proto::front::{HandlerMode, ServerHandle};
use mcp_proto::peer::server::CloseReason;
use mcp_proto::transport::StreamServer;

use super::entropy::SystemEntropy;
use super::options::ServerOptions;
use crate::pump::{Pump, ReadEnd};

/// Rounds per poll before the driver yields to other tasks. Each round reads at most one block of 64 KiB.
const ROUNDS: usize = 4;
/// How long the driver waits for a client that does not read the last answers.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Connection<R, W, H: HandlerMode> {
    pub(super) front: adapter::ServerDriver<StreamServer, H>,
    pump: Pump<R, W>,
    clock: SystemClock,
    /// Why reading has ended.
    end: Option<ReadEnd>,
    /// Whether the machine accepts more input.
    wants_read: bool,
    /// Unwritten bytes of output at the last poll.
    unwritten: usize,
    final_writes: Option<FinalWrites>,
}

/// Progress of writing the last answers.
struct FinalWrites {
    unwritten: usize,
    /// Moves whenever the client has read some of them.
    deadline: Instant,
}

impl<R, W, H: HandlerMode> Connection<R, W, H> {
    pub(super) fn new(
        options: ServerOptions<H>,
        clock: SystemClock,
        reader: R,
        writer: W,
    ) -> (ServerHandle, Self) {
        let ServerOptions { router, config, principal, attachments, .. } = options;
        let mut machine = StreamServer::new(config);
        machine.at(clock.now()).set_principal(principal);
        let (handle, mut front) = adapter::server(machine, Arc::new(clock), Arc::new(SystemEntropy), router);
        front.attach(attachments);
        let connection = Self {
            front,
            pump: Pump::new(reader, writer),
            clock,
            end: None,
            wants_read: true,
            unwritten: 0,
            final_writes: None,
        };
        (handle, connection)
    }

    /// The reader and the writer.
    pub(super) fn streams(&mut self) -> (&mut R, &mut W) {
        self.pump.streams()
    }

    /// When to poll again, whatever else happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Some(last) = &self.final_writes {
            return Some(last.deadline);
        }
        let of_pump = self.end.is_none().then(|| self.pump.deadline()).flatten();
        [self.front.next_timeout(), of_pump].into_iter().flatten().min()
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, H: HandlerMode> Connection<R, W, H> {
    /// Does the work that can be done now. Ready once the connection is over and everything is written. Wakes `task`
    /// instead of its own waker if there is more to do than fits into one poll.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, task: &Waker) -> Poll<io::Result<()>> {
        for _ in 0..ROUNDS {
            // All three in every round, so that reading waits neither for writing nor for the machine.
            self.pump.poll_write(cx, &self.clock);
            let acted = self.poll_machine(cx);
            let happened = self.poll_client(cx);
            if acted.is_ready() || happened.is_ready() {
                continue;
            }
            return match self.front.closed() {
                Some(closed) => self.poll_final_writes(closed, cx),
                None => Poll::Pending,
            };
        }
        task.wake_by_ref();
        Poll::Pending
    }

    /// Moves output from the machine to the stream. Ready if there was any.
    fn poll_machine(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, pump, wants_read, unwritten, .. } = self;
        front.poll(cx, |machine, now| {
            let left = pump.unwritten();
            if std::mem::replace(unwritten, left) > left {
                machine.handle_written(now);
            }
            machine.handle_timeout(now);
            *wants_read = machine.wants_read();
            let transmitted = pump.outgoing().is_some_and(|outgoing| machine.poll_transmit(outgoing));
            if transmitted {
                *unwritten = pump.unwritten();
            }
            if transmitted { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    /// Hands the client's input to the machine. Ready if there was any.
    fn poll_client(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.end.is_some() || self.final_writes.is_some() {
            return Poll::Pending;
        }
        // The window of held requests is full. A later read reports a failed write.
        if !self.wants_read && !self.pump.has_closed() {
            return Poll::Pending;
        }
        match ready!(self.pump.poll_read(cx, &self.clock)) {
            Ok(bytes) => self.front.lock(|machine, now| machine.handle_input(now, bytes)),
            Err(end) => {
                let detail = end.to_string();
                self.front.lock(|machine, now| machine.handle_eof(now, &detail));
                self.end = Some(end);
            }
        }
        Poll::Ready(())
    }

    /// The connection is over: writes the remaining output for as long as the client reads it, then closes.
    fn poll_final_writes(&mut self, closed: CloseReason, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (unwritten, now) = (self.pump.unwritten(), self.clock.now());
        let deadline = now + FINAL_WRITE_TIMEOUT;
        let last = self.final_writes.get_or_insert(FinalWrites { unwritten, deadline });
        if last.unwritten != unwritten {
            *last = FinalWrites { unwritten, deadline };
        }
        if unwritten == 0 {
            self.pump.close_write();
            self.pump.poll_write(cx, &self.clock);
        }
        if !self.pump.has_closed() {
            if now < last.deadline {
                return Poll::Pending;
            }
            let error = io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers");
            return Poll::Ready(Err(error));
        }
        Poll::Ready(match (self.end.take(), closed) {
            (Some(ReadEnd::Read(error)), _) => Err(error),
            (Some(ReadEnd::Write(_)), _) => Ok(()),
            (_, CloseReason::Lost(lost)) => Err(io::Error::other(lost)),
            (_, _) => Ok(()),
        })
    }
}
