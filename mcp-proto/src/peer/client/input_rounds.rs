//! Input rounds: requests that a server answers by asking for input, and that are sent again with it.
//!
//! | answer | reaction |
//! |---|---|
//! | asks for input (2026-07-28) | the application is asked; the request is sent again with all the answers |
//! | has a state and asks for no input (2026-07-28) | the request is sent again: at once, and after growing pauses if that repeats |
//! | requires visits to pages (2025-11-25) | the application is asked; the request is sent again once the user has finished with them, or after growing pauses without a report of that |
//! | anything else | the request ends |
//!
//! The handle stays the same, the id on the wire is new each time. The timeout without progress is paused between two
//! rounds, the hard timeout is not.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use core::time::Duration;

use crate::Instant;
use crate::ordered_set::OrderedSet;
use crate::peer::event_queue::MakeOwned;
use crate::peer::{
    InputError, InputMode, InvalidAnswerError, LostReason, MessageKind, Outbox, Outcome, RequestError,
    RequestId, WireId,
};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Id, Raw, code, write};
use crate::schema::{ClientCapability, Era, MethodInfo, Revision};

use super::Client;
use super::input_requests::{InputRequirement, RawInputRequests, RawInputResponses, is_accepted, read_pages};
use super::request_record::{Removed, RequiredPages, RoundParams, RoundStep, Stage, StoredParams, doubled};

/// The first pause before a request answered with only a state is sent again, if it happens twice in a row. Each
/// further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest of these pauses: more does not help a server that sheds load, and a user is waiting.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The pause before a request is sent again if too much output is queued.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// Whether a request is stored to be sent again if the server asks for input.
    pub(super) fn has_rounds(
        &self,
        info: Option<&'static MethodInfo>,
        input: InputMode,
        revision: Revision,
    ) -> bool {
        let asks = match revision.era() {
            Era::Modern => true,
            Era::Legacy => {
                revision.differences().url_elicitation_error
                    && self.config.capabilities.has(ClientCapability::ElicitationUrl)
            }
        };
        asks && input == InputMode::Automatic && info.is_some_and(|info| info.input_required)
    }

    /// Processes the answer to a request: resolves it, starts another round, or follows its task.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        mut removed: Removed,
        answer: Result<Raw, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        if removed.request.owner.is_own() {
            let outcome = answer.map_or_else(Outcome::Error, Outcome::Result);
            return self.resolve(removed, outcome);
        }
        let request = &mut removed.request;
        let outcome = match answer.map(|result| self.tolerate_result(request.info, result)) {
            Ok(Ok(result)) => self.result_outcome(request, result),
            Ok(Err(invalid)) => Outcome::Invalid(invalid),
            Err(error) => Outcome::Error(error),
        };
        self.learn_task_tools(request.info, &outcome);
        self.store_answer(now, request, &outcome);
        let step = match outcome {
            Outcome::Task(report) if request.awaits_task() => return self.follow(now, removed, report, out),
            Outcome::InputRequired(result) => self.require_input(now, &mut removed, result),
            Outcome::Error(error)
                if error.code == code::URL_ELICITATION_REQUIRED
                    && request.stored_params.as_ref().is_some_and(StoredParams::can_require_pages) =>
            {
                //= C10.9 "-32042 handled as "elicit then retry""
                self.require_pages(now, &mut removed, error)
            }
            outcome => Err(outcome),
        };
        match step {
            Ok(step) => self.suspend(now, removed, step, out),
            Err(outcome) => self.resolve(removed, outcome),
        }
    }

    /// Handles an answer that asks for input.
    ///
    /// # Errors
    /// The outcome of the request, if it ends.
    fn require_input(
        &mut self,
        now: Instant,
        Removed { id, request }: &mut Removed,
        result: Raw,
    ) -> Result<RoundStep, Outcome> {
        let malformed = |what| Outcome::Invalid(InvalidAnswerError::Malformed(what));
        let InputRequirement { requests, state } = InputRequirement::read(&result).map_err(malformed)?;
        if request.stored_params.is_none() {
            return Err(Outcome::InputRequired(result));
        }
        let most = self.config.limits.requests_in;
        let asked = requests.as_ref().map(|requests| RawInputRequests::read(requests, most)).transpose()?;
        // It may be stored for as long as a person thinks.
        let state = state.map(|state| state.detached());
        let round = request.round.get_or_insert_default();
        let limit = self.config.limits.input_rounds;
        if round.count >= limit {
            return Err(Outcome::Input(InputError::TooManyRounds { limit }));
        }
        match asked {
            Some(asked) if !asked.0.is_empty() => {
                let set = self.request_input(*id, asked).map_err(Outcome::Input)?;
                round.idle = 0;
                Ok(RoundStep::Input { set, state })
            }
            nothing => {
                let pause = doubled(FIRST_PAUSE, round.idle.checked_sub(1), MAX_PAUSE);
                let responses = nothing.map(|_| RawInputResponses::default());
                round.idle = round.idle.saturating_add(1);
                Ok(RoundStep::Pause { until: now + pause, addition: Some(RoundParams { responses, state }) })
            }
        }
    }

    /// Handles the error that the user must visit pages first.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error>
    ///
    /// # Errors
    /// The outcome of the request, if it ends.
    fn require_pages(
        &mut self,
        now: Instant,
        Removed { id, request }: &mut Removed,
        mut error: ErrorObject,
    ) -> Result<RoundStep, Outcome> {
        let most = self.config.limits.requests_in;
        let Some(asked) = read_pages(error.data.as_ref(), most) else { return Err(Outcome::Error(error)) };
        let mut asked = asked?;
        let round = request.round.get_or_insert_default();
        if round.count >= self.config.limits.input_rounds {
            return Err(Outcome::Error(error));
        }
        error.make_owned();
        let (mut known, open) = match round.pages.take() {
            Some(pages) => (pages.requested, pages.open),
            None => (OrderedSet::new(), OrderedSet::new()),
        };
        // A page that the user has completed is not opened again, even if the server takes time to notice.
        let pages = asked.iter().map(|page| &*page.key);
        let open =
            pages.filter(|&page| !known.contains(page) || open.contains(page)).map(Box::from).collect();
        asked.retain(|page| known.insert(Box::from(&*page.key)));
        round.pages = Some(RequiredPages { error, requested: known, open });
        if asked.is_empty() {
            return Ok(round.pause_for_pages(now));
        }
        let set = self.request_input(*id, RawInputRequests(asked)).map_err(Outcome::Input)?;
        round.idle = 0;
        Ok(RoundStep::Consent { set })
    }

    /// Puts a request back into the table while it waits for something other than the server; sends it again if that
    /// is over.
    fn suspend(&mut self, now: Instant, mut removed: Removed, step: RoundStep, out: &mut dyn Outbox) {
        let (id, is_due) = (removed.id, step.due().is_some_and(|due| due <= now));
        removed.request.stage = Stage::AwaitingInput(Box::new(step));
        self.restore(removed);
        if is_due {
            self.send_round(now, id, out);
        }
    }

    /// Delivers the answers: the request is sent again with them, or passes them to the task that it follows.
    pub(super) fn deliver_input(
        &mut self,
        now: Instant,
        of: RequestId,
        answers: Result<RawInputResponses, InputError>,
        out: &mut dyn Outbox,
    ) {
        match self.requests.get(of).map(|request| &request.stage) {
            Some(Stage::AwaitingInput(_)) => self.handle_input_answers(now, of, answers, out),
            Some(Stage::Following(_)) => self.handle_task_input(now, of, answers, out),
            _ => {}
        }
    }

    /// Handles the application's answers to the input requests, or its failure to give them.
    pub(super) fn handle_input_answers(
        &mut self,
        now: Instant,
        id: RequestId,
        answers: Result<RawInputResponses, InputError>,
        out: &mut dyn Outbox,
    ) {
        let Some(mut removed) = self.take(id) else { return };
        let responses = match answers {
            Ok(responses) => responses,
            Err(fault) => return self.resolve(removed, Outcome::Input(fault)),
        };
        let request = &mut removed.request;
        let round = request.round.get_or_insert_default();
        let step = match &mut request.stage {
            Stage::AwaitingInput(step) => Some(&mut **step),
            _ => None,
        };
        let step = if let Some(RoundStep::Input { state, .. }) = step {
            //= C5.5 "inputRequests/requestState used only for the retry of that request"
            let addition = RoundParams { responses: Some(responses), state: state.take() };
            RoundStep::Pause { until: now, addition: Some(addition) }
        } else if responses.iter().all(|(_, answer)| is_accepted(answer)) {
            round.pause_for_pages(now)
        } else {
            match round.pages.take() {
                Some(pages) => return self.resolve(removed, Outcome::Error(pages.error)),
                None => round.pause_for_pages(now),
            }
        };
        self.suspend(now, removed, step, out);
    }

    /// Handles the server's report that a page is complete. Ignores pages that no request waits for.
    pub(super) fn handle_page_done(&mut self, now: Instant, page: &str, out: &mut dyn Outbox) {
        let from = (Box::from(page), RequestId::new(i64::MIN));
        let waiting = self.open_pages.range(from..).take_while(|(open, _)| **open == *page);
        let waiting: Vec<RequestId> = waiting.map(|&(_, id)| id).collect();
        //= C10.9 "notifications/elicitation/complete with unknown/finished id ignored"
        for id in waiting {
            self.open_pages.remove(&(Box::from(page), id));
            let request = self.requests.get_mut(id);
            let Some(round) = request.and_then(|request| request.round.as_mut()) else { continue };
            if let Some(pages) = &mut round.pages {
                pages.open.remove(page);
            }
            if round.open_pages().next().is_none() {
                self.send_round(now, id, out);
            }
        }
    }

    /// Sends a paused request again at once.
    pub(crate) fn retry(&mut self, now: Instant, request: RequestId, out: &mut dyn Outbox) {
        self.send_round(now, request, out);
        self.advance_close(now);
    }

    /// Sends a request again, if it pauses.
    pub(super) fn send_round(&mut self, now: Instant, id: RequestId, out: &mut dyn Outbox) {
        let is_overloaded = self.is_overloaded(out);
        let Some(Some(())) = self.requests.update(id, |request| {
            let Stage::AwaitingInput(step) = &mut request.stage else { return None };
            let RoundStep::Pause { until, .. } = &mut **step else { return None };
            if is_overloaded {
                *until = now + OVERLOAD_PAUSE;
            }
            (!is_overloaded).then_some(())
        }) else {
            return;
        };
        //= C5.4 "Retry uses a new JSON-RPC id"
        let wire = WireId(self.requests.mint().number());
        let Some(mut removed) = self.take(id) else { return };
        removed.request.wire = Some(wire);
        match self.write_round(&removed, wire, out) {
            Ok(()) => {
                let request = &mut removed.request;
                request.carriage = out.take_carriage();
                request.stage = Stage::Sent;
                request.times.restart(now);
                let round = request.round.get_or_insert_default();
                round.count = round.count.saturating_add(1);
                self.restore(removed);
            }
            Err(outcome) => self.resolve(removed, outcome),
        }
    }

    /// Writes a request that is sent again.
    ///
    /// # Errors
    /// The outcome of the request, if it ends.
    fn write_round(
        &self,
        Removed { request, .. }: &Removed,
        WireId(wire): WireId,
        out: &mut dyn Outbox,
    ) -> Result<(), Outcome> {
        let Stage::AwaitingInput(step) = &request.stage else { return Ok(()) };
        let (RoundStep::Pause { addition, .. }, Some(info), Some(stored)) =
            (&**step, request.info, &request.stored_params)
        else {
            return Ok(());
        };
        let revision = stored.revision;
        if self.era() != Some(revision.era()) {
            let why = "the server speaks another era than before";
            return Err(Outcome::Lost(LostReason::Disconnected(why.into())));
        }
        let params = write::request(out.buffer(), &Id::Number(wire), info.name, |buffer| {
            stored.write_with(buffer, addition.as_ref())
        });
        let params = params.map_err(|error| Outcome::Refused(RequestError::Encode(error.to_string())))?;
        out.commit(MessageKind::Request {
            id: wire,
            method: info.name,
            info: Some(info),
            params,
            name_param: None,
            related: None,
            revision,
        });
        Ok(())
    }
}
