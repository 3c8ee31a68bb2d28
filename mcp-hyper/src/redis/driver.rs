//! The driver of a connection to Redis: it opens the connection, sends commands one after another, and matches replies.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use futures_lite::future::or;
use futures_lite::{AsyncRead as _, AsyncWrite as _};
use mcp_proto::HumanDuration;
use mcp_proto::adapter::Clock as _;

use super::connection::{Command, Shared};
use super::handshake::{greet, lost, malformed};
use super::options::{OnEvent, Settings};
use super::resp::{Decoder, Reply};
use super::{RedisError, RedisEvent};
use crate::runtime::Stream;
use crate::time::Alarm;

/// Bytes that are collected for one write.
const WRITE: usize = 64 * 1024;

/// Bytes of one read.
const READ: usize = 16 * 1024;

/// Reads, or writes, before other work of the same task gets a turn.
const TURNS: usize = 16;

/// The future that drives a connection to Redis. Spawn it on any executor, or poll it beside other work.
///
/// It ends when all [handles](super::Redis) are dropped. Dropping it closes the connection, and commands fail.
#[must_use = "commands wait until the driver is polled: spawn it on an executor"]
pub struct RedisDriver {
    shared: Arc<Shared>,
    driving: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl RedisDriver {
    pub(super) fn new(shared: Arc<Shared>, settings: Arc<Settings>, on_event: OnEvent) -> Self {
        let closing = shared.clone();
        let driving = drive(shared.clone(), settings, on_event);
        let closed = poll_fn(move |cx| closing.poll_closing(cx));
        Self { shared, driving: Box::pin(or(closed, driving)) }
    }
}

impl Future for RedisDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.driving.as_mut().poll(cx)
    }
}

impl Drop for RedisDriver {
    fn drop(&mut self) {
        self.shared.end();
    }
}

debug_fields! { RedisDriver => "RedisDriver" }

async fn drive(shared: Arc<Shared>, settings: Arc<Settings>, mut on_event: OnEvent) {
    let mut pause = Settings::backoff();
    loop {
        let mut unanswered = VecDeque::new();
        let error = match open(&shared, &settings, &mut on_event).await {
            Ok(mut link) => {
                let error = poll_fn(|cx| {
                    shared.take_events().into_iter().for_each(&mut on_event);
                    link.poll(&shared, cx)
                })
                .await;
                if link.has_answered {
                    pause.reset();
                }
                unanswered = link.sent;
                error
            }
            Err(error) => error,
        };
        shared.set_down(error.clone(), unanswered);
        on_event(RedisEvent::Disconnected(error));
        shared.take_events().into_iter().for_each(&mut on_event);
        pause.fail(shared.clock.now(), Duration::ZERO);
        if let Some(until) = pause.due().and_then(|due| shared.clock.at(due)) {
            shared.clock.timers().sleep_until(until).await;
        }
    }
}

/// Opens a connection, and checks what Redis says of itself.
async fn open(shared: &Shared, settings: &Settings, on_event: &mut OnEvent) -> Result<Link, RedisError> {
    let limit = settings.connect_timeout();
    let opening = async {
        let mut stream = settings.open_stream().await?;
        let mut decoder = Decoder::default();
        let greeting = greet(&mut stream, &mut decoder, settings).await?;
        Ok((stream, decoder, greeting))
    };
    let late = async {
        shared.clock.timers().sleep(limit).await;
        Err(RedisError::Unavailable(format!(
            "no answer to the first commands within {}",
            HumanDuration(limit)
        )))
    };
    let (stream, decoder, greeting) = or(opening, late).await?;
    shared.set_connected(greeting.lost_before);
    on_event(RedisEvent::Connected);
    greeting.not_durable.map(RedisEvent::NotDurable).into_iter().for_each(&mut *on_event);
    greeting.is_restarted.then_some(RedisEvent::Restarted).into_iter().for_each(&mut *on_event);
    Ok(Link {
        stream,
        decoder,
        output: BytesMut::new(),
        needs_flush: false,
        sent: VecDeque::new(),
        has_answered: false,
        alarm: Alarm::default(),
    })
}

/// An open connection.
struct Link {
    stream: Box<dyn Stream>,
    decoder: Decoder,
    /// Bytes of commands that are not written yet.
    output: BytesMut,
    needs_flush: bool,
    /// The commands without a reply, in order, of which those in `output` are the last.
    sent: VecDeque<Command>,
    has_answered: bool,
    alarm: Alarm,
}

impl Link {
    /// Moves commands and replies. Ready when the connection has ended.
    fn poll(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<RedisError> {
        for _ in 0..TURNS {
            let wrote = self.poll_write(shared, cx);
            match (wrote, self.poll_read(shared, cx)) {
                (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => return Poll::Ready(error),
                (Poll::Pending, Poll::Pending) => return self.poll_late(shared, cx),
                _ => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes commands. Pending if there are none, or the connection takes no more.
    fn poll_write(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<Result<(), RedisError>> {
        while self.output.len() < WRITE {
            let Some(command) = shared.next(cx.waker()) else { break };
            self.output.extend_from_slice(&command.bytes);
            self.sent.push_back(command);
        }
        if !self.output.is_empty() {
            self.needs_flush = true;
            return Pin::new(&mut self.stream).poll_write(cx, &self.output).map(|written| match written {
                Ok(0) => Err(lost(&io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.output.advance(count);
                    Ok(())
                }
                Err(error) => Err(lost(&error)),
            });
        }
        if self.needs_flush {
            return Pin::new(&mut self.stream).poll_flush(cx).map(|flushed| {
                self.needs_flush = false;
                flushed.map_err(|error| lost(&error))
            });
        }
        Poll::Pending
    }

    /// Reads replies.
    fn poll_read(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<Result<(), RedisError>> {
        let mut buffer = [0; READ];
        Pin::new(&mut self.stream).poll_read(cx, &mut buffer).map(|count| match count {
            Ok(0) => Err(RedisError::Unavailable("it closed the connection".to_owned())),
            Ok(count) => {
                self.decoder.feed(buffer.get(..count).unwrap_or_default());
                self.answer(shared)
            }
            Err(error) => Err(lost(&error)),
        })
    }

    /// Answers the commands whose replies have arrived.
    fn answer(&mut self, shared: &Shared) -> Result<(), RedisError> {
        while let Some(reply) = self.decoder.decode().map_err(malformed)? {
            if let Reply::Error(error) = &reply
                && ["READONLY ", "LOADING ", "MASTERDOWN "].iter().any(|code| error.starts_with(code))
            {
                // It has become a replica. The command is sent again, to the next primary.
                return Err(RedisError::Unavailable(error.clone()));
            }
            let Some(command) = self.sent.pop_front() else {
                return Err(RedisError::Unavailable("it sent a reply to no command".to_owned()));
            };
            self.has_answered = true;
            shared.resolve(command, Ok(reply));
        }
        Ok(())
    }

    /// Ready if the oldest command has waited too long: those after it would too.
    fn poll_late(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<RedisError> {
        let deadline = self.sent.front().map(|command| command.deadline);
        self.alarm.poll_until(deadline, shared.clock.timers(), cx).map(|()| {
            let limit = HumanDuration(shared.timeout);
            RedisError::Unavailable(format!("the connection was closed after no reply within {limit}"))
        })
    }
}
