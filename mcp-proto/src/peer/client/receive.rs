//! Inputs and outputs of a client: the link, the server's messages, time and events.

use core::time::Duration;

use crate::peer::encode::{MetaEntries, write_notification};
use crate::peer::inbound::BatchId;
use crate::peer::{
    AnyParams, InvalidAnswerError, Leniency, LostReason, Machine, MessageKind, Outbox, Outcome, RequestError,
    RequestId, TaskMode, TransportError, WireId,
};
use crate::prelude::*;
use crate::rpc::{
    Batch, EnvelopeKind, ErrorObject, Frame, Id, Malformed, Message, Raw, Request, Response, Text, code,
    write,
};
use crate::schema::tasks::GetTask;
use crate::schema::{
    Cancelled, CancelledParams, Discover, ElicitationComplete, ElicitationCompleteParams, EmptyParams, Era,
    Initialize, InitializeParams, Initialized, Method, Notification, Progress, ResultType, Revision,
    SetLoggingLevel, SetLoggingLevelParams, remove_modern_extensions,
};
use crate::{Instant, Limits};

use super::era_judge::DetectAction;
use super::incoming_requests::{ServerRequest, bytes_of, decode};
use super::outgoing_messages::protocol_meta;
use super::request_record::{ClientRequest, Removed, RequestOwner, Stage};
use super::tasks::Tasks;
use super::watch::NotificationScope;
use super::{
    Client, CloseReason, ConnectError, ConnectStep, Diagnostic, Event, KnownEra, LinkAction, Phase,
    ServerInfo, State, WatchState, handshake,
};

impl Machine for Client {
    type Event = Event;

    fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox) {
        match frame {
            Frame::Single(message) => self.take_message(now, message, None, out),
            Frame::Batch(batch) => self.handle_batch(now, batch, out),
        }
        self.advance_tasks(now, out);
        // At the end only: the answers to a batch are sent with its last message.
        self.advance_close(now);
        self.advance_watches(now, out);
    }

    fn handle_malformed(&mut self, now: Instant, malformed: Malformed, out: &mut dyn Outbox) {
        if self.connection.phase.is_receiving() {
            self.take_malformed(now, malformed, out);
            self.advance_tasks(now, out);
            self.advance_close(now);
            self.advance_watches(now, out);
        }
    }

    fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox) {
        match self.connection.phase {
            Phase::Disconnected | Phase::Connecting | Phase::Closed => {}
            Phase::Detecting => {
                let act = self.detect.handle_end(now, detail);
                self.perform_detect(now, act, out);
            }
            Phase::Ready => self.finish(CloseReason::Lost(LostReason::Disconnected(detail.to_string()))),
            Phase::Finishing { .. } | Phase::Ending { .. } => self.finish(CloseReason::Done),
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        self.note_time(now);
        // One step may lead to the next, which has expired as well if its timeout is zero.
        while self.detect.deadline().is_some_and(|deadline| deadline <= now) && !self.is_closed() {
            let act = self.detect.handle_timeout(now);
            self.perform_detect(now, act, out);
        }
        self.handle_due_requests(now, out);
        self.deliver_due_progress(now);
        self.advance_tasks(now, out);
        self.handle_due_requests(now, out);
        self.send_due_ping(now, out);
        if matches!(self.connection.phase, Phase::Finishing { until } if until <= now) {
            while let Some(mut removed) = self.requests.first().and_then(|id| self.take(id)) {
                let outcome = match removed.request.is_unsent() {
                    true => Outcome::Refused(RequestError::Closed),
                    false => Outcome::Lost(LostReason::Closed),
                };
                // The task continues on the server: the application can follow it again.
                removed.notify_cancelled(None, out);
                self.resolve(removed, outcome);
            }
            self.tasks = Tasks::default();
        }
        self.advance_watches(now, out);
        self.advance_close(now);
        if matches!(self.connection.phase, Phase::Ending { until } if until <= now) {
            self.abort(CloseReason::Done);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let phase = self.connection.phase;
        if self.is_closed() {
            return None;
        }
        let watches = self.watches.deadline().filter(|_| matches!(phase, Phase::Ready));
        let deadlines = [
            phase.deadline(),
            self.requests.next_deadline(),
            self.detect.deadline(),
            self.pings.deadline(),
            self.progress.deadline(),
            watches,
        ];
        deadlines.into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<Event> {
        // The front asks after each input and command, mostly in vain.
        if self.events.is_idle() { None } else { self.next_event() }
    }

    fn wants_read(&self) -> bool {
        Self::wants_read(self)
    }

    fn fail(&mut self, why: String) {
        self.abort(CloseReason::Lost(LostReason::Failed(why)));
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn limits(&self) -> &Limits {
        &self.config.limits
    }

    fn write_timeout(&self) -> Duration {
        self.config.write_timeout
    }
}

impl Client {
    #[inline(never)]
    fn next_event(&mut self) -> Option<Event> {
        loop {
            if self.events.is_empty() {
                self.report_dropped();
            }
            let mut next = self.events.pop();
            let Some(event) = &mut next else { return next };
            if self.watches.complete_event(event) {
                if let Event::Watch { watch, state: WatchState::On { missing } } = event {
                    self.invalidate_unwatched(*watch, missing);
                }
                return next;
            }
        }
    }

    // --- The link ---

    /// Handles the opening of the requested link.
    pub(crate) fn handle_open(&mut self, now: Instant, out: &mut dyn Outbox) {
        if matches!(self.connection.phase, Phase::Connecting) {
            self.connection.phase = Phase::Detecting;
            self.detect.begin(now);
            self.connection.set_state(State::Connected, &mut self.events);
            let act = self.detect.handle_open(now);
            self.perform_detect(now, act, out);
        }
    }

    /// Handles the failure to open the requested link; `detail` gives the reason.
    pub fn handle_open_failed(&mut self, detail: &str) {
        if matches!(self.connection.phase, Phase::Connecting) {
            self.finish(CloseReason::Connect(ConnectError::Open(detail.to_string())));
        }
    }

    /// Handles the refusal of the exchange that opens the requested link, called `during`.
    pub(crate) fn handle_open_refused(&mut self, during: &'static str, error: TransportError) {
        if matches!(self.connection.phase, Phase::Connecting) {
            self.finish(CloseReason::Connect(ConnectError::Transport { during, error: Box::new(error) }));
        }
    }

    // --- The server ---

    fn take_message(&mut self, now: Instant, message: Message, batch: Option<BatchId>, out: &mut dyn Outbox) {
        if !self.connection.phase.is_receiving() {
            return;
        }
        match message {
            Message::Response(response) => self.handle_response(now, response, out),
            Message::Notification(notification) => {
                if let Some(deviation) = notification.deviation
                    && !self.tolerate(Leniency::Notification(deviation.clone()))
                {
                    return self.take_malformed(now, *deviation, out);
                }
                self.handle_notification(now, notification.method, notification.params, out);
            }
            Message::Request(Request { id, method, params }) => {
                self.handle_request(ServerRequest { id, method, params, batch }, out);
            }
        }
    }

    //= F28 "A malformed line is dropped, and reading goes on"
    //= K9 "A bad line is dropped, and reported"
    fn take_malformed(&mut self, now: Instant, malformed: Malformed, out: &mut dyn Outbox) {
        let recovered = &malformed.recovered;
        if self.resolve_unreadable(now, &malformed, out) {
            return;
        }
        if let (Some(id), Some(EnvelopeKind::Request), Some(Era::Legacy)) =
            (&recovered.id, recovered.kind, self.era())
        {
            let error = ErrorObject::new(malformed.code(), malformed.to_string());
            return self.reply_error(Some(id), None, &error, out);
        }
        self.report(Diagnostic::Malformed(Box::new(malformed)));
    }

    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>
    fn handle_batch(&mut self, now: Instant, batch: Batch, out: &mut dyn Outbox) {
        if !self.connection.phase.is_receiving() {
            return;
        }
        let allowed = self.revision().is_some_and(|revision| revision.differences().batches);
        let legacy = self.era() == Some(Era::Legacy);
        if !allowed {
            self.report(Diagnostic::ForbiddenBatch);
        }
        let mut refused = batch.is_empty();
        let answers =
            (allowed && !matches!(self.connection.phase, Phase::Ending { .. })).then(|| self.batches.open());
        for message in batch {
            match (message, answers) {
                // In revisions without batches its requests are refused; its responses count.
                (Ok(Message::Request(_)), None) if legacy => refused = true,
                (Ok(message), _) => {
                    if let (Message::Request(_), Some(answers)) = (&message, answers) {
                        self.batches.expect(answers);
                    }
                    self.take_message(now, message, answers, out);
                }
                (Err(malformed), Some(answers)) => self.refuse_element(now, malformed, answers, out),
                (Err(malformed), None) => self.take_malformed(now, malformed, out),
            }
            // An element may have ended the connection.
            if !self.connection.phase.is_receiving() {
                return;
            }
        }
        if let Some(answers) = answers {
            self.close_batch(answers, out);
        }
        if refused && legacy {
            let what = if allowed { "an empty batch" } else { "batches are not part of this revision" };
            self.reply_error(None, None, &ErrorObject::new(code::INVALID_REQUEST, what), out);
        }
    }

    /// Answers an element of a batch that is not a message, unless it is one that is never answered.
    fn refuse_element(&mut self, now: Instant, malformed: Malformed, batch: BatchId, out: &mut dyn Outbox) {
        if self.resolve_unreadable(now, &malformed, out) {
            return;
        }
        if !matches!(malformed.recovered.kind, Some(EnvelopeKind::Response | EnvelopeKind::Notification)) {
            self.batches.expect(batch);
            let error = ErrorObject::new(malformed.code(), malformed.to_string());
            self.reply_error(malformed.recovered.id.as_ref(), Some(batch), &error, out);
        }
        if self.connection.phase.is_receiving() {
            self.report(Diagnostic::Malformed(Box::new(malformed)));
        }
    }

    /// Resolves the request that an unreadable message was to answer; returns whether there is one.
    fn resolve_unreadable(&mut self, now: Instant, malformed: &Malformed, out: &mut dyn Outbox) -> bool {
        let wire = malformed.recovered.id.as_ref().and_then(|id| self.config.strictness.number_of(id));
        let (Some(wire), true) = (wire, malformed.may_be_answer()) else { return false };
        if matches!(self.connection.phase, Phase::Detecting)
            && let Some((request, is_repeated)) = self.detect.take_request(wire)
        {
            if is_repeated {
                return true;
            }
            let unreadable = Raw::new("null").map_err(|error| ErrorObject::new(0, error.to_string()));
            let act = self.detect.handle_answer(now, request, unreadable);
            self.perform_detect(now, act, out);
            return true;
        }
        // The answers to the machine's own requests are of no use: one that cannot be read is reported, as any message.
        let request = self.requests.get(self.requests.find(WireId(wire)));
        if request.is_some_and(|request| request.owner.is_own()) {
            return false;
        }
        let Some(removed) = self.take_awaiting(WireId(wire), out) else { return false };
        self.resolve(removed, Outcome::Invalid(malformed.into()));
        true
    }

    fn handle_response(&mut self, now: Instant, mut response: Response, out: &mut dyn Outbox) {
        if let Some(deviation) = response.deviation.take()
            && !self.tolerate(Leniency::Response(deviation.clone()))
        {
            return self.take_malformed(now, *deviation, out);
        }
        let Some(id) = response.id else { return self.handle_error_without_id(now, response.outcome, out) };
        let Some(wire) = self.config.strictness.number_of(&id) else {
            return self.report(Diagnostic::UnknownAnswer(id));
        };
        if self.requests.is_ours(WireId(wire)) {
            self.note_number_as_string(&id);
        }
        if let Some((request, is_repeated)) = self.detect.take_request(wire) {
            if is_repeated && response.outcome.is_err() {
                return;
            }
            return self.handle_handshake_answer(now, request, response.outcome, out);
        }
        let wire = WireId(wire);
        let request = self.requests.get(self.requests.find(wire));
        if request.is_some_and(|request| matches!(request.stage, Stage::Queued(_))) {
            return self.report(Diagnostic::UnknownAnswer(id));
        }
        //= C3.2 "demultiplex answers by id"
        match self.take_awaiting(wire, out) {
            Some(removed) => self.answer(now, removed, response.outcome, out),
            // The answer to a cancelled request is dropped; it crossed the cancellation on the way. So is a second
            // answer to a request that was sent again in another input round.
            //= C7.6 "race handled gracefully"
            None if self.requests.is_ours(wire) => {
                if let Ok(result) = &response.outcome {
                    self.abandon_late_task(now, result, out);
                }
            }
            //= F20 "A response with an unknown id ends no request"
            None => self.report(Diagnostic::UnknownAnswer(id)),
        }
    }

    /// Takes the request that currently has this id on the wire.
    fn take_awaiting(&mut self, wire: WireId, out: &mut dyn Outbox) -> Option<Removed> {
        let id = self.requests.find(wire);
        self.requests.get(id).filter(|request| request.is_sent() && request.wire_id(id) == wire)?;
        let mut removed = self.take(id);
        removed.iter_mut().for_each(|removed| removed.release_answered(out));
        removed
    }

    fn handle_handshake_answer(
        &mut self,
        now: Instant,
        request: ConnectStep,
        answer: Result<Raw, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        if matches!(self.connection.phase, Phase::Detecting) || request == ConnectStep::Initialize {
            let act = self.detect.handle_answer(now, request, answer);
            return self.perform_detect(now, act, out);
        }
        // The server answered both: this connection stays legacy, and the next one starts modern.
        let Some((versions, _)) = answer.ok().as_ref().and_then(handshake::read_discover) else { return };
        if let (Some(version), Some(verdict)) =
            (self.config.era_policy.choose_version(&versions), &mut self.known_era)
        {
            verdict.era = version.era();
            verdict.version = version;
        }
    }

    fn handle_error_without_id(
        &mut self,
        now: Instant,
        answer: Result<Raw, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        let Err(error) = answer else { return };
        if matches!(self.connection.phase, Phase::Detecting)
            && let Some(act) = self.detect.handle_error_without_id(now, &error)
        {
            return self.perform_detect(now, act, out);
        }
        self.requests.note_error_without_id(now, &error);
        self.report(Diagnostic::Error(error));
    }

    /// Classifies a result by the request's method and the result's own `resultType`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#resulttype>
    pub(super) fn result_outcome(&self, request: &ClientRequest, result: Raw) -> Outcome {
        if let Some(outcome) = self.created_task(request, &result) {
            return outcome;
        }
        if self.era() != Some(Era::Modern) {
            return Outcome::Result(result);
        }
        let info = request.info;
        match ResultType::from_result(&result) {
            //= C1.7 "A result without `resultType` is treated as `"complete"`"
            Ok(ResultType::Complete) => Outcome::Result(result),
            // Some servers mark the answer to `tasks/get` with the type of a task instead of `complete`.
            Ok(ResultType::Task) if info.is_some_and(|info| info.name == GetTask::NAME) => {
                Outcome::Result(result)
            }
            //= C5.1 "`input_required` accepted only for tools/call, prompts/get, resources/read"
            Ok(ResultType::InputRequired) if info.is_some_and(|info| info.input_required) => {
                Outcome::InputRequired(result)
            }
            Ok(other) => self.extension_outcome(other, result),
            Err(error) => Outcome::Invalid(InvalidAnswerError::Malformed(error.to_string())),
        }
    }

    //= C1.4 "the receiver never answers a notification"
    fn handle_notification(&mut self, now: Instant, method: Text, params: Option<Raw>, out: &mut dyn Outbox) {
        match &*method {
            Progress::NAME => self.handle_progress(now, method, params),
            Cancelled::NAME => self.handle_cancelled(method, params, out),
            _ => {
                // Without a request that waits for the page, the application receives the notification only.
                if *method == *ElicitationComplete::NAME
                    && let Ok(page) = decode::<ElicitationCompleteParams>(params.as_ref())
                {
                    self.handle_page_done(now, &page.elicitation_id, out);
                }
                self.invalidate_changed(&method, params.as_ref());
                self.handle_task_notification(now, &method, params.as_ref(), out);
                let subscription = self.subscription_of(params.as_ref());
                if self.handle_watch_notification(now, &method, params.as_ref(), subscription)
                    == NotificationScope::WatchesOnly
                {
                    return;
                }
                let bytes = method.len().saturating_add(bytes_of(params.as_ref()));
                self.events.push_or_drop(Event::Notification { method, params, subscription }, bytes);
            }
        }
    }

    fn handle_cancelled(&mut self, method: Text, params: Option<Raw>, out: &mut dyn Outbox) {
        let params: CancelledParams = match decode(params.as_ref()) {
            Ok(params) => params,
            Err(error) => return self.report(Diagnostic::InvalidNotification { method, error }),
        };
        let Some(id) = params.request_id else { return };
        if self.era() == Some(Era::Modern) {
            // A server cancels only to end a subscription; one that ended by its result is already removed.
            //= R4 "the client reads either, in any order"
            if let Some(wire) = self.config.strictness.number_of(&id)
                && let subscription = self.requests.find(WireId(wire))
                && self.is_subscription(subscription)
                && let Some(mut removed) = self.take(subscription)
            {
                removed.release_answered(out);
                self.resolve(removed, Outcome::Lost(LostReason::Ended));
            }
        } else {
            self.withdraw(&id, params.reason, out);
        }
    }

    /// The subscription that a notification names.
    fn subscription_of(&self, params: Option<&Raw>) -> Option<RequestId> {
        if self.era() != Some(Era::Modern) {
            return None;
        }
        let params: EmptyParams = params?.decode().ok()?;
        //= C3.2 "listen notifications by subscriptionId"
        //= C6.2 "Correlate on shared channels by `_meta["io.modelcontextprotocol/subscriptionId"]`"
        let wire = self.config.strictness.number_of(&params.meta.subscription_id()?)?;
        Some(self.requests.find(WireId(wire))).filter(|&id| self.is_subscription(id))
    }

    // --- Detection ---

    pub(super) fn perform_detect(&mut self, now: Instant, act: DetectAction, out: &mut dyn Outbox) {
        for diagnostic in self.detect.era.take_diagnostics() {
            self.report(diagnostic);
        }
        match act {
            DetectAction::Wait => {}
            DetectAction::Probe(version) => {
                let number = self.probe(version, out);
                self.detect.note_sent(ConnectStep::Probe, number);
            }
            DetectAction::Initialize(version) => {
                let number = self.initialize(version, out);
                self.detect.note_sent(ConnectStep::Initialize, number);
            }
            DetectAction::Open => {
                self.early.clear();
                self.connection.phase = Phase::Connecting;
                self.connection.set_state(State::Disconnected, &mut self.events);
                self.connection.request(LinkAction::Open);
            }
            DetectAction::Finish { server, known_era } => self.start(now, *server, known_era, out),
            DetectAction::Fail(error) => self.fail_connect(error),
        }
        if let Some(progress) = self.detect.progress(now) {
            self.connection.report_progress(progress, &mut self.events);
        }
    }

    /// Makes the connection ready and sends the queued requests.
    pub(super) fn start(&mut self, now: Instant, info: ServerInfo, verdict: KnownEra, out: &mut dyn Outbox) {
        let (era, revision) = (info.era, info.revision);
        self.meta.set_server(&self.config, era, revision);
        self.tasks.support.note(revision, info.capabilities.as_ref());
        self.known_era = Some(verdict);
        self.server = Some(info);
        if era == Era::Legacy {
            self.connection.set_state(State::Initialized, &mut self.events);
            //= F7 "`notifications/initialized`, ready"
            //= C2.11 "After the result send `notifications/initialized`"
            // It has no content that could fail to encode.
            let _ = write_notification(Initialized::NAME, None, &EmptyParams::new(), revision, None, out);
            //= K2 "for legacy servers only"
            self.pings.start(now);
        }
        self.connection.phase = Phase::Ready;
        self.connection.set_state(State::Ready, &mut self.events);
        self.request_log_level(now, out);
        while let Some(request) = self.early.pop() {
            self.handle_request(request, out);
        }
        self.flush_queued(now, out);
        self.begin_watches(now, out);
    }

    //= F101 "set the log level"
    /// Sets the log level of a legacy server. The answer is ignored.
    fn request_log_level(&mut self, now: Instant, out: &mut dyn Outbox) {
        let (Some(level), Some(Era::Legacy)) = (self.config.log_level, self.era()) else { return };
        //= C9.15 "logging/setLevel only if `logging` capability"
        if self.admit(SetLoggingLevel::NAME, Some(SetLoggingLevel::INFO)).is_ok() {
            // One that the previous session has left unanswered is void.
            let is_void = |request: &ClientRequest| request.owner == RequestOwner::LogLevel;
            let void = self.requests.iter().find(|(_, request)| is_void(request)).map(|(id, _)| id);
            if let Some(id) = void {
                self.cancel_own(id, out);
            }
            let params = SetLoggingLevelParams::new(level);
            let timeout = self.config.request_timeout;
            self.own_request(now, RequestOwner::LogLevel, SetLoggingLevel::INFO, &params, timeout, out);
        }
    }

    //= F7 "2026-07-28: `server/discover`"
    /// Writes the era probe, and returns its id.
    pub(crate) fn probe(&mut self, version: Revision, out: &mut dyn Outbox) -> i64 {
        let number = self.requests.mint().number();
        let protocol = protocol_meta(&self.config, version, self.config.tasks != TaskMode::Never);
        let entries = MetaEntries { protocol: Some(&protocol), ..MetaEntries::default() };
        self.write_own_request(number, Discover::NAME, &EmptyParams::default(), version, entries, out);
        number
    }

    /// Writes the legacy handshake's request, and returns its id.
    pub(crate) fn initialize(&mut self, version: Revision, out: &mut dyn Outbox) -> i64 {
        let number = self.requests.mint().number();
        //= C2.10 "First interaction is `initialize` with a supported version (SHOULD be latest), capabilities, clientInfo"
        let mut capabilities = self.config.capabilities.clone();
        remove_modern_extensions(&mut capabilities.extensions, &self.config.extensions);
        let params = InitializeParams::new(version.as_str(), capabilities, self.config.info.clone());
        self.write_own_request(number, Initialize::NAME, &params, version, MetaEntries::default(), out);
        self.connection.set_state(State::Initializing, &mut self.events);
        number
    }

    /// Writes one of the machine's own requests.
    pub(super) fn write_own_request(
        &mut self,
        number: i64,
        method: &'static str,
        params: &dyn AnyParams,
        revision: Revision,
        entries: MetaEntries<'_>,
        out: &mut dyn Outbox,
    ) {
        let written = write::request(out.buffer(), &Id::Number(number), method, |buffer| {
            params.write_params(buffer, revision, entries)
        });
        match written {
            Ok(params) => out.commit(MessageKind::Request {
                id: number,
                method,
                info: None,
                params,
                name_param: None,
                related: None,
                revision,
            }),
            Err(error) => {
                self.fail_connect(ConnectError::Unexpected { during: method, reason: error.to_string() })
            }
        }
    }
}
