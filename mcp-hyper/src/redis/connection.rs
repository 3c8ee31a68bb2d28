//! The queue of commands between the handles of a connection and its driver.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_channel::oneshot;
use mcp_proto::UnixTime;

use super::resp::Reply;
use super::{RedisError, RedisEvent};
use crate::time::RuntimeClock;

/// Maximum commands without a reply.
const MOST_COMMANDS: usize = 10_000;

/// Maximum bytes of the commands without a reply.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Maximum events of subscriptions that wait for the driver: as long as it is not polled, further ones are dropped.
const MOST_EVENTS: usize = 16;

/// The future of a reply. An `Err` outside says that the driver has ended.
pub(super) type ReplyReceiver = oneshot::Receiver<Result<Reply, RedisError>>;

/// A command without a reply.
pub(super) struct Command {
    pub(super) bytes: Bytes,
    /// When its connection counts as broken without a reply.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<Reply, RedisError>>,
}

pub(super) struct Shared {
    pub(super) clock: RuntimeClock,
    /// The time limit of a command.
    pub(super) timeout: Duration,
    state: Mutex<State>,
}

struct State {
    /// Commands to send, oldest first.
    queue: VecDeque<Command>,
    /// The number and the bytes of the commands without a reply, sent ones included.
    commands: usize,
    bytes: usize,
    link: LinkState,
    lost_before: Option<UnixTime>,
    /// The events of subscriptions, which the driver reports.
    events: Vec<RedisEvent>,
    driver: Waker,
    /// Whether all handles were dropped.
    is_closing: bool,
}

/// The state of the connection.
enum LinkState {
    Connecting,
    Connected,
    /// The last attempt failed. Commands wait for the next one, until it has lasted as long as a command may take.
    Down {
        since: Instant,
        error: RedisError,
    },
    /// The driver has ended.
    Ended,
}

impl Shared {
    pub(super) fn new(clock: RuntimeClock, timeout: Duration) -> Self {
        let state = State {
            queue: VecDeque::new(),
            commands: 0,
            bytes: 0,
            link: LinkState::Connecting,
            lost_before: None,
            events: Vec::new(),
            driver: Waker::noop().clone(),
            is_closing: false,
        };
        Self { clock, timeout, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.timers().now()
    }

    // --- The handles' side ---

    /// Queues a command.
    pub(super) fn enqueue(&self, bytes: Bytes) -> Result<ReplyReceiver, RedisError> {
        let now = self.now();
        let mut state = self.state();
        match &state.link {
            LinkState::Down { error: error @ RedisError::Unsuitable(_), .. } => return Err(error.clone()),
            LinkState::Down { since, error } if now.saturating_duration_since(*since) > self.timeout => {
                return Err(error.clone());
            }
            LinkState::Ended => return Err(driver_ended()),
            LinkState::Connecting | LinkState::Connected | LinkState::Down { .. } => {}
        }
        if !state.has_room(bytes.len()) {
            return Err(RedisError::Overloaded);
        }
        state.commands += 1;
        state.bytes += bytes.len();
        let (reply, receiver) = oneshot::channel();
        state.queue.push_back(Command { bytes, deadline: now + self.timeout, reply });
        let driver = state.driver.clone();
        drop(state);
        driver.wake();
        Ok(receiver)
    }

    /// Why the connection is down, if it is.
    pub(super) fn last_failure(&self) -> Option<String> {
        match &self.state().link {
            LinkState::Down { error: RedisError::Unavailable(why), .. } => Some(why.clone()),
            LinkState::Down { error, .. } => Some(error.to_string()),
            LinkState::Connecting => Some("there is no connection yet; is its driver polled?".to_owned()),
            LinkState::Connected | LinkState::Ended => None,
        }
    }

    pub(super) fn lost_before(&self) -> Option<UnixTime> {
        self.state().lost_before
    }

    /// Records that there are no handles any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        let driver = state.driver.clone();
        drop(state);
        driver.wake();
    }

    /// Has the driver report an event.
    pub(super) fn report(&self, event: RedisEvent) {
        let mut state = self.state();
        if state.events.len() < MOST_EVENTS {
            state.events.push(event);
        }
        let driver = state.driver.clone();
        drop(state);
        driver.wake();
    }

    // --- The driver's side ---

    pub(super) fn take_events(&self) -> Vec<RedisEvent> {
        std::mem::take(&mut self.state().events)
    }

    /// Ready once all handles were dropped.
    pub(super) fn poll_closing(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        state.set_driver(cx.waker());
        if state.is_closing { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes the next command to send. If there is none, wakes `driver` at the next one, or when all handles are dropped.
    pub(super) fn next(&self, driver: &Waker) -> Option<Command> {
        let now = self.now();
        let mut state = self.state();
        while let Some(mut command) = state.queue.pop_front() {
            if !command.reply.is_canceled() {
                command.deadline = now + self.timeout;
                return Some(command);
            }
            state.release(&command);
        }
        state.set_driver(driver);
        None
    }

    /// Hands a command's reply to its handle.
    pub(super) fn resolve(&self, command: Command, reply: Result<Reply, RedisError>) {
        self.state().release(&command);
        // Its handle may have given up.
        let _ = command.reply.send(reply);
    }

    pub(super) fn set_connected(&self, lost_before: UnixTime) {
        let mut state = self.state();
        state.link = LinkState::Connected;
        state.lost_before = Some(lost_before);
    }

    /// Records that the connection ended, or could not be opened, and takes back the commands that it was to answer.
    pub(super) fn set_down(&self, error: RedisError, unanswered: VecDeque<Command>) {
        let now = self.now();
        let mut state = self.state();
        let since = match &state.link {
            LinkState::Down { since, .. } => *since,
            _ => now,
        };
        for command in unanswered.into_iter().rev() {
            state.queue.push_front(command);
        }
        let mut refused = VecDeque::new();
        if matches!(error, RedisError::Unsuitable(_)) {
            refused = std::mem::take(&mut state.queue);
        }
        state.link = LinkState::Down { since, error: error.clone() };
        drop(state);
        for command in refused {
            self.resolve(command, Err(error.clone()));
        }
    }

    /// Records that the driver has ended: all commands fail.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.link = LinkState::Ended;
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        drop(queue);
    }
}

/// The error of a command whose driver has ended.
pub(super) fn driver_ended() -> RedisError {
    RedisError::Unavailable("the driver of the connection has ended".to_owned())
}

impl State {
    /// Whether there is room for a command; commands that were given up make some.
    fn has_room(&mut self, bytes: usize) -> bool {
        let has_room =
            |state: &Self| state.commands < MOST_COMMANDS && state.bytes.saturating_add(bytes) <= MOST_BYTES;
        while !has_room(self) {
            // Those that were given up are the oldest: all have the same time limit.
            let Some(command) = self.queue.pop_front_if(|command| command.reply.is_canceled()) else {
                return false;
            };
            self.release(&command);
        }
        true
    }

    fn set_driver(&mut self, driver: &Waker) {
        if !self.driver.will_wake(driver) {
            self.driver = driver.clone();
        }
    }

    fn release(&mut self, command: &Command) {
        self.commands = self.commands.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(command.bytes.len());
    }
}
