//! The record of one request: it owns its stage, and all that is stored for it until it ends.

use core::time::Duration;

use crate::Instant;
use crate::peer::encode::Template;
use crate::peer::task::TaskCommand;
use crate::peer::{
    Carriage, CarriageEnd, CarriageState, InputMode, Outbox, ReissuePolicy, RequestId, RequestOptions,
    RequestProperties, RequestRecord, RequestTimes, TaskMode, WireId,
};
use crate::prelude::*;
use crate::schema::MethodInfo;

use super::cache::store::CacheFill;
use super::input_rounds::{InputRound, RoundStep, StoredParams};
use super::tasks::follower::FollowedTask;

/// The stage of a request.
#[derive(Debug)]
pub(super) enum Stage {
    /// Waiting for the connection to be ready.
    Queued(Box<QueuedRequest>),
    /// Handed to the transport.
    Sent,
    /// The server has asked for input; the request is sent again with it.
    AwaitingInput(Box<RoundStep>),
    /// The request has become a task that the client follows, or follows an existing one.
    Following(Box<FollowedTask>),
}

/// A request that is sent once the server is known.
#[derive(Debug)]
pub(super) enum QueuedRequest {
    Request(Template),
    Task { id: String, command: TaskCommand, options: RequestOptions },
}

/// The part of the client that made a request, and takes its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOwner {
    Application,
    /// No part: the outcome is ignored.
    Ignored,
    /// No part any more: the request was cancelled before the task that it becomes was known (2025-11-25).
    Orphan,
    /// The watches.
    Watch,
    /// The task that the request `of` follows.
    Task {
        of: RequestId,
        part: TaskPart,
    },
    /// The pings.
    Ping,
    /// The machine, which sets the log level.
    LogLevel,
    /// The transport, which lists the tools.
    ToolListing,
}

impl RequestOwner {
    /// Whether the request is about a task, or is to become one that is cancelled.
    pub(super) fn is_for_task(self) -> bool {
        matches!(self, Self::Ignored | Self::Orphan | Self::Task { .. })
    }

    /// Whether no limit counts the request, which is sent once and never cancelled.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::Ping | Self::LogLevel | Self::ToolListing)
    }
}

/// The purpose of a request about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskPart {
    /// To get its status.
    Get,
    /// To get its result.
    Result,
    /// To send input to it.
    Update,
}

/// The task options of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskOptions {
    pub(super) mode: TaskMode,
    /// Whether its parameters ask for a task (2025-11-25).
    pub(super) requested: bool,
    /// The hard timeout as a task, if one was set.
    pub(super) hard_timeout: Option<Duration>,
    /// How the client proceeds when the task asks for input.
    pub(super) input: InputMode,
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    /// The method, where it is one of the protocol's.
    pub(crate) info: Option<&'static MethodInfo>,
    pub(crate) owner: RequestOwner,
    pub(super) stage: Stage,
    pub(super) times: RequestTimes,
    /// The id on the wire, if it differs from the number.
    pub(super) wire: Option<WireId>,
    /// Whether the request asks for progress.
    pub(super) progress: bool,
    /// Whether the request may be sent again if its answer is lost on the way.
    pub(crate) reissue: ReissuePolicy,
    pub(super) task: TaskOptions,
    /// The parameters of a request that the server may answer by asking for input, in automatic mode.
    pub(super) stored_params: Option<StoredParams>,
    /// The input rounds so far.
    pub(super) round: Option<Box<InputRound>>,
    /// The place of the answer in the cache.
    pub(super) fill: Option<Box<CacheFill>>,
    /// What the transport knows of it while it is sent, if each request has an exchange of its own.
    pub(crate) carriage: Option<Box<Carriage>>,
}

impl ClientRequest {
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::Sent)
    }

    /// Whether no server has received it: it was never sent before, and the transport has not sent it yet.
    pub(super) fn is_unsent(&self) -> bool {
        match self.stage {
            Stage::Queued(_) => true,
            Stage::Sent => {
                self.is_first_attempt() && self.carriage.as_deref().is_some_and(Carriage::is_unsent)
            }
            Stage::AwaitingInput(_) | Stage::Following(_) => false,
        }
    }

    /// Whether it has had no attempt or input round before, which had another id, and is no poll of a task, whose call was
    /// sent.
    pub(super) fn is_first_attempt(&self) -> bool {
        self.wire.is_none() && !self.owner.is_for_task()
    }

    /// Whether the client follows a task that the server makes of it.
    pub(super) fn awaits_task(&self) -> bool {
        self.task.mode == TaskMode::Await && !self.owner.is_for_task()
    }

    /// Whether the application receives reports on its progress.
    pub(super) fn reports_progress(&self) -> bool {
        self.progress
            && self.owner != RequestOwner::Orphan
            && matches!(self.stage, Stage::Sent | Stage::Following(_))
    }

    /// The pages that its user must visit first.
    pub(super) fn open_pages(&self) -> impl Iterator<Item = &Box<str>> {
        self.round.iter().flat_map(|round| round.open_pages())
    }

    /// The id on the wire of this request, whose handle is `id`.
    pub(super) fn wire_id(&self, id: RequestId) -> WireId {
        self.wire.unwrap_or(WireId(id.number()))
    }
}

impl RequestRecord for ClientRequest {
    fn times(&self) -> &RequestTimes {
        &self.times
    }

    fn times_mut(&mut self) -> &mut RequestTimes {
        &mut self.times
    }

    fn is_paused(&self) -> bool {
        matches!(self.stage, Stage::AwaitingInput(_))
    }

    fn due(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Queued(_) => None,
            Stage::Sent => self.carriage.as_ref()?.due(),
            Stage::AwaitingInput(step) => step.due(),
            Stage::Following(followed) => followed.follower.deadline(),
        }
    }

    fn properties(&self) -> RequestProperties {
        let mut properties = RequestProperties {
            wire: self.wire,
            is_own: self.owner.is_own(),
            is_working: self.is_sent() && !self.owner.is_own(),
            ..RequestProperties::default()
        };
        if let Some(carriage) = &self.carriage {
            let waits = carriage.state == CarriageState::Queued;
            properties.waits_for_slot = waits.then_some(!carriage.is_long_lived);
            properties.has_slot = carriage.has_slot;
            properties.queued_bytes = carriage.queued_bytes();
        } else if let Stage::Queued(queued) = &self.stage
            && let QueuedRequest::Request(template) = &**queued
        {
            properties.queued_bytes = template.bytes();
        }
        properties
    }
}

/// A request that was taken from the table: it is resolved, put back in another stage, or discarded.
#[derive(Debug)]
#[must_use]
pub(super) struct Removed {
    pub(super) id: RequestId,
    pub(super) request: ClientRequest,
}

impl Removed {
    /// Ends the request without an outcome: its owner no longer wants one.
    pub(super) fn discard(self) {}

    /// Hands the transport its part of a request whose answer has arrived elsewhere than in its own exchange.
    pub(super) fn release_answered(&mut self, out: &mut dyn Outbox) {
        if let Some(carriage) = self.request.carriage.take() {
            out.release(carriage, CarriageEnd::Answered);
        }
    }

    /// Notifies the server that the request is cancelled, if the server has it.
    pub(super) fn notify_cancelled(&mut self, reason: Option<&str>, out: &mut dyn Outbox) {
        let Self { id, request } = self;
        // The cancellation of a task would have to name it, which is not known.
        let is_silent = request.task.requested || request.owner.is_own();
        let wire = request.wire_id(*id).0;
        match request.carriage.take() {
            Some(carriage) if is_silent => out.release(carriage, CarriageEnd::Forgotten),
            Some(carriage) => {
                out.release(carriage, CarriageEnd::Cancelled { wire, reason: reason.map(Into::into) });
            }
            None if request.is_sent() && !is_silent => out.cancel(wire, reason),
            None => {}
        }
    }
}
