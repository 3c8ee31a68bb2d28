//! What a client is told: by its link, by the server, by the clock.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use crate::Instant;
use crate::peer::declared::undeclared;
use crate::peer::encode::MetaEntries;
use crate::peer::events::Pressure;
use crate::peer::{About, AnyParams, InvalidAnswer, Lost, Outbox, Outcome, Refused, RequestId, Stage};
use crate::rpc::{
    ErrorId, ErrorObject, Frame, Id, Kind, Malformed, MalformedKind, Message, Raw, Recovered, Response, Text,
    code, write,
};
use crate::schema::{
    Cancelled, CancelledParams, Direction, Discover, EmptyParams, Era, Initialize, InitializeParams,
    Initialized, Method, MethodInfo, Notification, Ping, Progress, ProgressParams, ResultType, Revision,
    SetLoggingLevel, SetLoggingLevelParams, result_type,
};

use super::detect::Act;
use super::{
    Client, Closed, ConnectError, Diagnostic, Event, Held, LinkAction, Phase, Pings, ServerInfo, State,
    handshake,
};

impl Client {
    // --- The link ---

    /// The link that was asked for is open.
    pub fn handle_open(&mut self, now: Instant, out: &mut dyn Outbox) {
        if matches!(self.phase, Phase::Connecting) {
            self.phase = Phase::Detecting;
            self.detect.begin(now);
            self.set_state(State::Connected);
            let act = self.detect.handle_open(now);
            self.perform(now, act, out);
        }
    }

    /// The link that was asked for could not be opened; `detail` says why.
    pub fn handle_open_failed(&mut self, detail: &str) {
        if matches!(self.phase, Phase::Connecting) {
            self.finish(Closed::Connect(ConnectError::Open(detail.to_string())));
        }
    }

    /// The link has ended; `detail` is what the transport knows about it: an exit status, an error, the last lines of
    /// standard error.
    pub fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox) {
        match self.phase {
            Phase::Disconnected | Phase::Connecting | Phase::Closed => {}
            Phase::Detecting => {
                let act = self.detect.handle_end(now, detail);
                self.perform(now, act, out);
            }
            Phase::Ready => self.finish(Closed::Lost(Lost::Disconnected(detail.to_string()))),
            Phase::Finishing { .. } | Phase::Ending { .. } => self.finish(Closed::Done),
        }
    }

    // --- The server ---

    /// A message, or a batch of them, has come.
    pub fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox) {
        match frame {
            Frame::Single(message) => self.handle_message(now, message, out),
            Frame::Batch(batch) => {
                if !self.revision().is_some_and(|revision| revision.differences().batches) {
                    self.diagnose(Diagnostic::ForbiddenBatch);
                }
                for message in batch {
                    match message {
                        Ok(message) => self.handle_message(now, message, out),
                        Err(malformed) => self.handle_malformed(now, malformed, out),
                    }
                }
            }
        }
    }

    /// One message has come.
    pub fn handle_message(&mut self, now: Instant, message: Message, out: &mut dyn Outbox) {
        if !matches!(
            self.phase,
            Phase::Detecting | Phase::Ready | Phase::Finishing { .. } | Phase::Ending { .. }
        ) {
            return;
        }
        match message {
            Message::Response(response) => self.handle_response(now, response, out),
            Message::Notification(notification) => {
                self.handle_notification(now, notification.method, notification.params);
            }
            Message::Request(request) => self.handle_request(request.id, request.method, request.params, out),
        }
        self.advance_close(now);
    }

    /// Something came that is no message. If it was to be the answer to a request, that request ends.
    pub fn handle_malformed(&mut self, now: Instant, malformed: Malformed, out: &mut dyn Outbox) {
        let invalid = match malformed.kind {
            MalformedKind::TooLong { bytes } => InvalidAnswer::TooLong { bytes },
            _ => InvalidAnswer::Malformed(malformed.to_string()),
        };
        let error = ErrorObject::new(malformed.code(), malformed.to_string());
        if !self.settle_unreadable(now, &malformed.recovered, invalid, &error, out) {
            self.diagnose(Diagnostic::Malformed(Box::new(malformed)));
        }
    }

    /// Does for a message that could not be read what its legible part allows; returns whether that was anything.
    fn settle_unreadable(
        &mut self,
        now: Instant,
        recovered: &Recovered,
        invalid: InvalidAnswer,
        error: &ErrorObject,
        out: &mut dyn Outbox,
    ) -> bool {
        let Some(id) = &recovered.id else { return false };
        let may_be = |kind| recovered.kind.is_none_or(|recovered| recovered == kind);
        match id {
            Id::Number(number) if may_be(Kind::Response) && recovered.method.is_none() => {
                if matches!(self.phase, Phase::Detecting)
                    && [self.probe, self.initialize].contains(&Some(*number))
                {
                    let unreadable = Raw::new("null").map_err(|error| ErrorObject::new(0, error.to_string()));
                    let act = if self.probe == Some(*number) {
                        self.detect.handle_probe(now, unreadable)
                    } else {
                        self.detect.handle_initialize(now, unreadable)
                    };
                    self.perform(now, act, out);
                    return true;
                }
                if self.take(*number).is_none() {
                    return false;
                }
                self.end(*number, Outcome::Invalid(invalid));
                self.advance_close(now);
                true
            }
            _ if recovered.kind == Some(Kind::Request) && self.era() == Some(Era::Legacy) => {
                self.reply_error(Some(id), error, out);
                true
            }
            _ => false,
        }
    }

    fn handle_response(&mut self, now: Instant, response: Response, out: &mut dyn Outbox) {
        let number = match response.id {
            Some(Id::Number(number)) => number,
            Some(id) => return self.diagnose(Diagnostic::UnknownAnswer(id)),
            None => return self.handle_error_without_id(now, response.outcome, out),
        };
        if self.probe == Some(number) {
            return self.handle_probe_answer(now, response.outcome, out);
        }
        if self.initialize == Some(number) {
            self.initialize = None;
            let act = self.detect.handle_initialize(now, response.outcome);
            return self.perform(now, act, out);
        }
        if let Some(pings) =
            self.pings.as_mut().filter(|pings| pings.waiting.is_some_and(|(ping, _)| ping == number))
        {
            pings.waiting = None;
            pings.misses = 0;
            return;
        }
        match self.take(number) {
            Some(entry) => {
                let outcome = match response.outcome {
                    Err(error) => Outcome::Error(error),
                    Ok(result) => self.classify(entry.info, result),
                };
                self.end(number, outcome);
            }
            // The answer to a request that was given up is dropped; it crossed the cancellation on the way.
            None if self.outbound.is_ours(number) => {}
            None => self.diagnose(Diagnostic::UnknownAnswer(Id::Number(number))),
        }
    }

    fn handle_probe_answer(&mut self, now: Instant, answer: Result<Raw, ErrorObject>, out: &mut dyn Outbox) {
        self.probe = None;
        if matches!(self.phase, Phase::Detecting) {
            let act = self.detect.handle_probe(now, answer);
            return self.perform(now, act, out);
        }
        // Both were answered: this connection stays legacy, and the next one begins modern.
        let Some(discovered) = answer.ok().as_ref().and_then(handshake::discovered) else { return };
        if let (Some(version), Some(verdict)) = (handshake::choose(&discovered.versions), &mut self.verdict) {
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
        if matches!(self.phase, Phase::Detecting)
            && let Some(act) = self.detect.handle_error_without_id(now, &error)
        {
            return self.perform(now, act, out);
        }
        self.diagnose(Diagnostic::Error(error));
    }

    /// What kind of result a result is, by the method that was asked and the result's own word.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic#resulttype>
    fn classify(&self, info: Option<&'static MethodInfo>, result: Raw) -> Outcome {
        if self.era() != Some(Era::Modern) {
            return Outcome::Result(result);
        }
        match result_type(result.as_str()) {
            Ok(ResultType::Complete) => Outcome::Result(result),
            Ok(ResultType::InputRequired) if info.is_none_or(|info| info.input_required) => {
                Outcome::InputRequired(result)
            }
            Ok(other) => Outcome::Invalid(InvalidAnswer::ResultType(other.as_str().into())),
            Err(error) => Outcome::Invalid(InvalidAnswer::Malformed(error.to_string())),
        }
    }

    fn handle_notification(&mut self, now: Instant, method: Text, params: Option<Raw>) {
        match &*method {
            Progress::NAME => self.handle_progress(now, method, params),
            Cancelled::NAME => self.handle_cancelled(method, params),
            _ => {
                let subscription = self.subscription_of(params.as_ref());
                let bytes = params.as_ref().map_or(0, |params| params.as_bytes().len());
                self.events.push_or_drop(Event::Notification { method, params, subscription }, bytes);
            }
        }
    }

    fn handle_progress(&mut self, now: Instant, method: Text, params: Option<Raw>) {
        let params: ProgressParams = match decode(params.as_ref()) {
            Ok(params) => params,
            Err(error) => return self.diagnose(Diagnostic::InvalidNotification { method, error }),
        };
        // Progress of a request that is unknown or over is not an error: it may have crossed on the way.
        let Id::Number(number) = params.progress_token else { return };
        if self.outbound.get(number).is_some_and(|entry| entry.progress && entry.stage == Stage::Sent) {
            self.outbound.extend(number, now);
            self.events.push_or_drop(Event::Progress { request: RequestId::new(number), params }, 0);
        }
    }

    fn handle_cancelled(&mut self, method: Text, params: Option<Raw>) {
        let params: CancelledParams = match decode(params.as_ref()) {
            Ok(params) => params,
            Err(error) => return self.diagnose(Diagnostic::InvalidNotification { method, error }),
        };
        let Some(id) = params.request_id else { return };
        if self.era() == Some(Era::Modern) {
            // A server cancels only to end a subscription; one that ended by its result is gone already.
            if let Id::Number(number) = id
                && self.is_subscription(number)
            {
                self.take(number);
                self.end(number, Outcome::Lost(Lost::Ended));
            }
        } else if let Some(request) = self.inbound.find(&id) {
            self.inbound.remove(request);
            self.events.push(Event::RequestCancelled { id: request, reason: params.reason }, 0);
        }
    }

    /// The subscription that a notification names.
    fn subscription_of(&self, params: Option<&Raw>) -> Option<RequestId> {
        if self.era() != Some(Era::Modern) {
            return None;
        }
        let params: EmptyParams = params?.decode().ok()?;
        match params.meta.subscription_id()? {
            Id::Number(number) if self.is_subscription(number) => Some(RequestId::new(number)),
            _ => None,
        }
    }

    fn handle_request(&mut self, id: Id, method: Text, params: Option<Raw>, out: &mut dyn Outbox) {
        match self.era() {
            Some(Era::Modern) => self.diagnose(Diagnostic::ForbiddenRequest { id, method }),
            _ if &*method == Ping::NAME => {
                // An empty object can not fail to encode.
                if write::result(out.buffer(), &id, |buffer| {
                    buffer.extend_from_slice(b"{}");
                    Ok(())
                })
                .is_ok()
                {
                    self.commit_reply(Some(&id), out);
                }
            }
            None if self.held.len() < self.config.limits.requests_in => {
                self.held.push_back(Held { id, method, params })
            }
            None => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, "too many requests before the handshake");
                self.reply_error(Some(&id), &error, out);
            }
            Some(Era::Legacy) => self.take_request(id, &method, params, out),
        }
    }

    /// Hands a legacy server's request to the application, or answers it with an error.
    fn take_request(&mut self, id: Id, method: &Text, params: Option<Raw>, out: &mut dyn Outbox) {
        let info = match self.admit_request(method, params.as_ref()) {
            Ok(info) => info,
            Err(error) => return self.reply_error(Some(&id), &error, out),
        };
        let bytes = params.as_ref().map_or(0, |params| params.as_bytes().len());
        let refused = if self.events.pressure(bytes) >= Pressure::Requests {
            Refused::Full
        } else {
            match self.inbound.insert(id.clone(), ()) {
                Ok(request) => {
                    return self.events.push(Event::Request { id: request, method: info, params }, bytes);
                }
                Err(refused) => refused,
            }
        };
        let error = match refused {
            Refused::Duplicate => {
                ErrorObject::new(code::INVALID_REQUEST, "a request with this id is still unanswered")
            }
            Refused::Full => ErrorObject::new(code::INTERNAL_ERROR, "too many requests are unanswered"),
        };
        self.reply_error(Some(&id), &error, out);
    }

    /// Whether this client declared that it answers such a request.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation>
    fn admit_request(&self, method: &Text, params: Option<&Raw>) -> Result<&'static MethodInfo, ErrorObject> {
        let revision = self.revision().unwrap_or(Revision::LATEST_LEGACY);
        let unknown =
            || ErrorObject::new(code::METHOD_NOT_FOUND, alloc::format!("unknown method {:?}", &**method));
        let info = MethodInfo::find(method, Direction::ServerToClient, revision).ok_or_else(unknown)?;
        if !info.client_allows(&self.config.capabilities) {
            return Err(unknown());
        }
        match undeclared(&self.config.capabilities, info, params) {
            Some(needed) => {
                let what = alloc::format!("this client does not declare {:?}", needed.path());
                Err(ErrorObject::new(code::INVALID_PARAMS, what))
            }
            None => Ok(info),
        }
    }

    pub(super) fn reply_error(&mut self, id: Option<&Id>, error: &ErrorObject, out: &mut dyn Outbox) {
        // Data of our own making always encodes; data that does not is left out.
        let name = id.map_or(ErrorId::Null, ErrorId::Known);
        let written = write::error(out.buffer(), name, error).or_else(|_| {
            write::error(out.buffer(), name, &ErrorObject::new(error.code, error.message.clone()))
        });
        if written.is_ok() {
            self.commit_reply(id, out);
        }
    }

    /// Ends a reply, unless so many wait already that the connection is of no use.
    pub(super) fn commit_reply(&mut self, id: Option<&Id>, out: &mut dyn Outbox) {
        out.commit(About::Reply(id));
        let limits = &self.config.limits;
        if out.queued() > limits.queued_bytes.saturating_add(limits.reply_bytes) {
            self.abort(Closed::Lost(Lost::Failed("overloaded: the server does not read its answers".into())));
        }
    }

    // --- The clock ---

    /// Time has passed. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        if self.detect.deadline().is_some_and(|deadline| deadline <= now) && !self.is_closed() {
            let act = self.detect.handle_timeout(now);
            self.perform(now, act, out);
        }
        while let Some(expired) = self.outbound.pop_expired(now) {
            if let Some(template) = self.queued.remove(&expired.number) {
                self.queued_bytes = self.queued_bytes.saturating_sub(template.bytes());
            }
            if expired.entry.stage == Stage::Sent {
                out.cancel(expired.number, Some("timed out"));
            }
            self.end(expired.number, Outcome::TimedOut { after: expired.after, maximum: expired.maximum });
        }
        self.handle_pings(now, out);
        match self.phase {
            Phase::Finishing { until } if until <= now => {
                while let Some((number, entry)) = self.outbound.pop() {
                    if entry.stage == Stage::Sent {
                        out.cancel(number, None);
                    }
                    self.end(number, Outcome::Lost(Lost::Closed));
                }
            }
            Phase::Ending { until } if until <= now => return self.abort(Closed::Done),
            _ => {}
        }
        self.advance_close(now);
    }

    fn handle_pings(&mut self, now: Instant, out: &mut dyn Outbox) {
        let (Some(keepalive), Some(pings)) = (self.config.keepalive, self.pings.as_mut()) else { return };
        match pings.waiting {
            Some((_, until)) if until <= now => {
                pings.waiting = None;
                pings.misses = pings.misses.saturating_add(1);
                pings.next = now + keepalive.interval;
                let misses = pings.misses;
                self.diagnose(Diagnostic::PingMissed { misses });
                if misses >= keepalive.misses {
                    self.abort(Closed::Lost(Lost::KeepaliveFailed));
                }
            }
            None if pings.next <= now => {
                let number = self.outbound.mint();
                pings.waiting = Some((number, now + keepalive.timeout));
                pings.next = now + keepalive.interval;
                self.write(
                    number,
                    Ping::NAME,
                    &EmptyParams::default(),
                    Revision::LATEST_LEGACY,
                    MetaEntries::default(),
                    out,
                );
            }
            _ => {}
        }
    }

    // --- Detection ---

    fn perform(&mut self, now: Instant, act: Act, out: &mut dyn Outbox) {
        if self.detect.verdict_dropped {
            self.detect.verdict_dropped = false;
            self.diagnose(Diagnostic::VerdictDropped);
        }
        match act {
            Act::Wait => {}
            Act::Probe(version) => {
                let number = self.outbound.mint();
                self.probe = Some(number);
                let protocol = self.protocol_meta(version);
                let entries = MetaEntries { protocol: Some(&protocol), ..MetaEntries::default() };
                self.write(number, Discover::NAME, &EmptyParams::default(), version, entries, out);
            }
            Act::Initialize(version) => {
                let number = self.outbound.mint();
                self.initialize = Some(number);
                let params = InitializeParams::new(
                    version.as_str(),
                    self.config.capabilities.clone(),
                    self.config.info.clone(),
                );
                self.write(number, Initialize::NAME, &params, version, MetaEntries::default(), out);
                self.set_state(State::Initializing);
            }
            Act::Reopen => {
                self.probe = None;
                self.initialize = None;
                self.held.clear();
                self.phase = Phase::Connecting;
                self.set_state(State::Disconnected);
                self.link.push_back(LinkAction::Open);
            }
            Act::Settle { era, revision, server } => {
                let info = match server {
                    Some(server) => server.into_info(era, revision),
                    None => ServerInfo {
                        era,
                        revision,
                        implementation: None,
                        capabilities: None,
                        instructions: None,
                    },
                };
                self.become_ready(now, info, out);
            }
            Act::Fail(error) => self.fail_connect(error),
        }
    }

    fn become_ready(&mut self, now: Instant, info: ServerInfo, out: &mut dyn Outbox) {
        let (era, revision) = (info.era, info.revision);
        self.settle(info);
        if era == Era::Legacy {
            self.set_state(State::Initialized);
            let written = write::notification(out.buffer(), Initialized::NAME, |buffer| {
                EmptyParams::default().write_params(buffer, revision, MetaEntries::default())
            });
            if written.is_ok() {
                out.commit(About::Notification { method: Initialized::NAME, request: None });
            }
            self.pings = self.config.keepalive.map(|keepalive| Pings {
                next: now + keepalive.interval,
                waiting: None,
                misses: 0,
            });
        }
        self.phase = Phase::Ready;
        self.set_state(State::Ready);
        self.ask_for_logs(out);
        while let Some(Held { id, method, params }) = self.held.pop_front() {
            self.handle_request(id, method, params, out);
        }
        self.flush_queued(out);
    }

    /// Tells a legacy server what to log. Its answer changes nothing.
    fn ask_for_logs(&mut self, out: &mut dyn Outbox) {
        let (Some(level), Some(Era::Legacy)) = (self.config.log_level, self.era()) else { return };
        if self.admit(SetLoggingLevel::NAME, Some(SetLoggingLevel::INFO)).is_ok() {
            let revision = self.revision().unwrap_or(Revision::LATEST_LEGACY);
            let number = self.outbound.mint();
            let params = SetLoggingLevelParams::new(level);
            self.write(number, SetLoggingLevel::NAME, &params, revision, MetaEntries::default(), out);
        }
    }

    /// Writes a request of the machine's own.
    fn write(
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
            Ok(()) => out.commit(About::Request { id: number, method }),
            Err(error) => {
                self.fail_connect(ConnectError::Unexpected { during: method, what: error.to_string() })
            }
        }
    }
}

/// Decodes a notification's parameters, or says what is wrong with them.
fn decode<'a, T: serde::Deserialize<'a>>(params: Option<&'a Raw>) -> Result<T, String> {
    match params {
        Some(params) => params.decode().map_err(|error| error.to_string()),
        None => Err("it has no parameters".into()),
    }
}
