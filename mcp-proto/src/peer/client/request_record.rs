//! The record of one request: it owns its stage, and all that is stored for it until it ends.

use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::ordered_set::OrderedSet;
use crate::peer::encode::Template;
use crate::peer::task::TaskCommand;
use crate::peer::{
    Carriage, CarriageEnd, CarriageState, InputMode, Outbox, ReissuePolicy, RequestId, RequestOptions,
    RequestProperties, RequestRecord, RequestTimes, TaskMode, WireId,
};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, write};
use crate::schema::{MethodInfo, Revision};

use super::cache::store::CacheFill;
use super::input_requests::{InputSetId, RawInputResponses, RawMembers};
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

// The state of a request that a server answers by asking for input, as its record owns it.

/// The time given to the user for the pages before the request is sent again, if the server does not report their
/// completion. Each further time is twice as long.
const FIRST_PAGE_WAIT: Duration = Duration::from_secs(2);
/// The longest of these times.
const MAX_PAGE_WAIT: Duration = Duration::from_secs(60);

/// Pages that the user must visit.
#[derive(Debug)]
pub(super) struct RequiredPages {
    /// The outcome of the request if the user declines.
    pub(super) error: ErrorObject,
    /// The pages that the user was asked to visit.
    pub(super) requested: OrderedSet<Box<str>>,
    /// Those that the server has not reported as complete.
    pub(super) open: OrderedSet<Box<str>>,
}

/// The next step of a request that was answered by asking for input.
#[derive(Debug)]
pub(super) enum RoundStep {
    /// The application is asked for input.
    Input { set: InputSetId, state: Option<Raw> },
    /// The application is asked for consent to visit pages.
    Consent { set: InputSetId },
    /// The request is sent again after the pause: unchanged, if there is no addition.
    Pause { until: Instant, addition: Option<RoundParams> },
}

impl RoundStep {
    /// When the request is sent again, if it waits for that alone.
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Pause { until, .. } => Some(*until),
            Self::Input { .. } | Self::Consent { .. } => None,
        }
    }

    /// The input requests to the application.
    pub(super) fn input_set(&self) -> Option<InputSetId> {
        match self {
            Self::Input { set, .. } | Self::Consent { set } => Some(*set),
            Self::Pause { .. } => None,
        }
    }
}

/// The input rounds of a request so far.
#[derive(Debug, Default)]
pub(super) struct InputRound {
    /// The number of times that it was sent again.
    pub(super) count: u32,
    /// The number of consecutive answers that asked for no new input.
    pub(super) idle: u32,
    pub(super) pages: Option<RequiredPages>,
}

impl InputRound {
    /// The pages that the server has not reported as complete.
    pub(super) fn open_pages(&self) -> impl Iterator<Item = &Box<str>> {
        self.pages.iter().flat_map(|pages| &pages.open)
    }

    /// Pauses until the user has completed the pages, or a time has passed.
    pub(super) fn pause_for_pages(&mut self, now: Instant) -> RoundStep {
        let pause = match self.open_pages().next().is_some() || self.idle > 0 {
            true => doubled(FIRST_PAGE_WAIT, Some(self.idle), MAX_PAGE_WAIT),
            false => Duration::ZERO,
        };
        self.idle = self.idle.saturating_add(1);
        RoundStep::Pause { until: now + pause, addition: None }
    }
}

/// A duration that doubles with each of `times`, up to `longest`; zero before the first.
pub(super) fn doubled(first: Duration, times: Option<u32>, longest: Duration) -> Duration {
    match times {
        None => Duration::ZERO,
        Some(times) => first.saturating_mul(2_u32.saturating_pow(times)).min(longest),
    }
}

/// The stored parameters of a request, for sending it again with the input that the server has asked for.
#[derive(Debug)]
pub(super) struct StoredParams {
    /// The parameters, as they were sent.
    pub(super) params: Bytes,
    /// The revision that they are encoded for.
    pub(super) revision: Revision,
}

impl StoredParams {
    /// Whether the server may answer that the user must visit pages first.
    pub(super) fn can_require_pages(&self) -> bool {
        self.revision.differences().url_elicitation_error
    }

    /// Appends the parameters of another round: these, with the answers and state added.
    pub(super) fn write_with(
        &self,
        out: &mut Vec<u8>,
        addition: Option<&RoundParams>,
    ) -> Result<(), serde_json::Error> {
        const RESPONSES: &str = "inputResponses";
        const STATE: &str = "requestState";
        let Some(RoundParams { responses, state }) = addition else {
            out.extend_from_slice(&self.params);
            return Ok(());
        };
        let RawMembers(members) = serde_json::from_slice(&self.params)?;
        let start = out.len();
        // The first round's own parameters may contain these members, if the application continues an earlier request.
        //= C5.2 "then retry the ORIGINAL request with `inputResponses`"
        for (name, value) in members.iter().filter(|(name, _)| name != RESPONSES && name != STATE) {
            begin_member(out, start, name)?;
            out.extend_from_slice(value.get().as_bytes());
        }
        if let Some(responses) = responses {
            begin_member(out, start, RESPONSES)?;
            //= C5.2 "Answer each inputRequest with the matching result under the same key"
            responses.write(out)?;
        }
        //= C5.3 "absent in → absent out"
        if let Some(state) = state {
            begin_member(out, start, STATE)?;
            //= C5.3 "`requestState` echoed byte-exact; never parsed or changed"
            out.extend_from_slice(state.as_bytes());
        }
        out.push(b'}');
        Ok(())
    }
}

/// The parameters that the next round adds to those of the first.
#[derive(Debug)]
pub(super) struct RoundParams {
    pub(super) responses: Option<RawInputResponses>,
    pub(super) state: Option<Raw>,
}

/// Starts a member of the object that starts at `start`; the first one opens the object.
fn begin_member(out: &mut Vec<u8>, start: usize, name: &str) -> Result<(), serde_json::Error> {
    out.push(if out.len() == start { b'{' } else { b',' });
    write::json(out, name)?;
    out.push(b':');
    Ok(())
}
