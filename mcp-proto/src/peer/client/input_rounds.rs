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

mod wire;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::event_queue::MakeOwned;
use crate::peer::{
    InputError, InputMode, InvalidAnswerError, LostReason, MessageKind, OutboundEntry, Outbox, Outcome,
    RequestError, RequestId, Stage, StoredParams,
};
use crate::rpc::{ErrorObject, Id, Raw, code, write};
use crate::schema::{ClientCapability, Era, MethodInfo, Revision};

use super::Client;
use super::input_requests::{InputOwner, InputSetId, RawInputRequests, RawInputResponses};
use wire::{InputRequirement, RoundParams, is_accepted, read_pages, write_params};

/// The first pause before a request answered with only a state is sent again, if it happens twice in a row. Each
/// further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest of these pauses: more does not help a server that sheds load, and a user is waiting.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The time given to the user for the pages before the request is sent again, if the server does not report their
/// completion. Each further time is twice as long.
const FIRST_PAGE_WAIT: Duration = Duration::from_secs(2);
/// The longest of these times.
const MAX_PAGE_WAIT: Duration = Duration::from_secs(60);
/// The pause before a request is sent again if too much output is queued.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(100);

/// Pages that the user must visit.
#[derive(Debug)]
struct RequiredPages {
    /// The outcome of the request if the user declines.
    error: ErrorObject,
    /// The pages that the user was asked to visit.
    requested: BTreeSet<Box<str>>,
    /// Those that the server has not reported as complete.
    open: BTreeSet<Box<str>>,
}

#[derive(Debug, Default)]
enum RoundStep {
    /// The request is with the server.
    #[default]
    Answer,
    /// The application is asked for input.
    Input { set: InputSetId, state: Option<Raw> },
    /// The application is asked for consent to visit pages.
    Consent { set: InputSetId },
    /// The request is sent again after the pause: unchanged, if there is no addition.
    Pause { until: Instant, addition: Option<RoundParams> },
}

/// The round of a request that was answered by asking for input.
#[derive(Debug, Default)]
struct InputRound {
    /// The number of times that it was sent again.
    count: u32,
    /// The number of consecutive answers that asked for no new input.
    idle: u32,
    next: RoundStep,
    pages: Option<Box<RequiredPages>>,
}

/// The rounds of all requests.
#[derive(Debug, Default)]
pub(super) struct InputRounds {
    rounds: BTreeMap<i64, InputRound>,
    /// The requests that pause.
    due: BTreeSet<(Instant, i64)>,
    /// The open pages, each with a request that waits for it.
    pages: BTreeSet<(Box<str>, i64)>,
}

impl InputRounds {
    /// When the next paused request is sent.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|&(due, _)| due)
    }

    fn is_due(&self, now: Instant) -> Option<i64> {
        self.due.first().filter(|&&(due, _)| due <= now).map(|&(_, number)| number)
    }

    fn insert(&mut self, number: i64, round: InputRound) {
        if let RoundStep::Pause { until, .. } = round.next {
            self.due.insert((until, number));
        }
        let open = round.pages.iter().flat_map(|pages| &pages.open);
        self.pages.extend(open.map(|page| (page.clone(), number)));
        self.rounds.insert(number, round);
    }

    fn remove(&mut self, number: i64) -> Option<InputRound> {
        let round = self.rounds.remove(&number)?;
        if let RoundStep::Pause { until, .. } = round.next {
            self.due.remove(&(until, number));
        }
        for page in round.pages.iter().flat_map(|pages| &pages.open) {
            self.pages.remove(&(page.clone(), number));
        }
        Some(round)
    }

    fn is_paused(&self, number: i64) -> bool {
        self.rounds.get(&number).is_some_and(|round| matches!(round.next, RoundStep::Pause { .. }))
    }

    /// The requests that wait for a page to be completed.
    fn requests_for_page(&self, page: &str) -> Vec<i64> {
        let from = (Box::from(page), i64::MIN);
        let waiting = self.pages.range(from..).take_while(|(open, _)| **open == *page);
        waiting.map(|&(_, number)| number).collect()
    }
}

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

    /// Processes the answer of a request that was removed from the table: resolves it, or starts another round.
    pub(super) fn resolve_round(
        &mut self,
        now: Instant,
        number: i64,
        entry: OutboundEntry,
        answer: Result<Raw, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        let outcome = match answer.map(|result| self.tolerate_result(&entry, result)) {
            Ok(Ok(result)) => self.result_outcome(&entry, result),
            Ok(Err(invalid)) => Outcome::Invalid(invalid),
            Err(error) => Outcome::Error(error),
        };
        self.learn_task_tools(&entry, &outcome);
        self.store_answer(now, number, entry.info, &outcome);
        let ended = match outcome {
            Outcome::Task(report) => self.become_task(now, number, entry, report, out),
            Outcome::InputRequired(result) => self.require_input(now, number, entry, result, out),
            Outcome::Error(error)
                if error.code == code::URL_ELICITATION_REQUIRED
                    && entry.stored_params.as_ref().is_some_and(StoredParams::can_require_pages) =>
            {
                //= C10.9 "-32042 handled as "elicit then retry""
                self.require_pages(now, number, entry, error)
            }
            outcome => Err(outcome),
        };
        if let Err(outcome) = ended {
            self.rounds.remove(number);
            self.resolve(number, outcome);
        }
    }

    /// Removes the round of a request that is over.
    pub(super) fn forget_rounds(&mut self, number: i64) {
        match self.rounds.remove(number).map(|round| round.next) {
            Some(RoundStep::Input { set, .. } | RoundStep::Consent { set }) => self.withdraw_input(set),
            Some(RoundStep::Answer | RoundStep::Pause { .. }) | None => {}
        }
    }

    /// Handles an answer that asks for input.
    ///
    /// # Errors
    /// The outcome of the request, if it ends.
    fn require_input(
        &mut self,
        now: Instant,
        number: i64,
        entry: OutboundEntry,
        result: Raw,
        out: &mut dyn Outbox,
    ) -> Result<(), Outcome> {
        let malformed = |what| Outcome::Invalid(InvalidAnswerError::Malformed(what));
        let InputRequirement { requests, state } = InputRequirement::read(&result).map_err(malformed)?;
        if entry.stored_params.is_none() {
            return Err(Outcome::InputRequired(result));
        }
        let most = self.config.limits.requests_in;
        let asked = requests.as_ref().map(|requests| RawInputRequests::read(requests, most)).transpose()?;
        // It may be stored for as long as a person thinks.
        let state = state.map(|state| state.detached());
        let mut round = self.rounds.remove(number).unwrap_or_default();
        let limit = self.config.limits.input_rounds;
        if round.count >= limit {
            return Err(Outcome::Input(InputError::TooManyRounds { limit }));
        }
        match asked {
            Some(asked) if !asked.0.is_empty() => {
                let set = self
                    .request_input(InputOwner::Round(number), RequestId::new(number), asked)
                    .map_err(Outcome::Input)?;
                round.idle = 0;
                round.next = RoundStep::Input { set, state };
                self.suspend(number, entry, round);
            }
            nothing => {
                let pause = doubled(FIRST_PAUSE, round.idle.checked_sub(1), MAX_PAUSE);
                let responses = nothing.map(|_| RawInputResponses::default());
                round.idle = round.idle.saturating_add(1);
                round.next =
                    RoundStep::Pause { until: now + pause, addition: Some(RoundParams { responses, state }) };
                self.suspend(number, entry, round);
                if pause.is_zero() {
                    self.send_round(now, number, out);
                }
            }
        }
        Ok(())
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
        number: i64,
        entry: OutboundEntry,
        mut error: ErrorObject,
    ) -> Result<(), Outcome> {
        let most = self.config.limits.requests_in;
        let Some(asked) = read_pages(error.data.as_ref(), most) else { return Err(Outcome::Error(error)) };
        let mut asked = asked?;
        let mut round = self.rounds.remove(number).unwrap_or_default();
        if round.count >= self.config.limits.input_rounds {
            return Err(Outcome::Error(error));
        }
        error.make_owned();
        let (mut known, open) = match round.pages {
            Some(pages) => (pages.requested, pages.open),
            None => (BTreeSet::new(), BTreeSet::new()),
        };
        // A page that the user has completed is not opened again, even if the server takes time to notice.
        let pages = asked.iter().map(|page| &*page.key);
        let open =
            pages.filter(|&page| !known.contains(page) || open.contains(page)).map(Box::from).collect();
        asked.retain(|page| known.insert(Box::from(&*page.key)));
        round.pages = Some(Box::new(RequiredPages { error, requested: known, open }));
        if asked.is_empty() {
            round.pause_for_pages(now);
        } else {
            let asked = RawInputRequests(asked);
            let set = self
                .request_input(InputOwner::Round(number), RequestId::new(number), asked)
                .map_err(Outcome::Input)?;
            round.idle = 0;
            round.next = RoundStep::Consent { set };
        }
        self.suspend(number, entry, round);
        Ok(())
    }

    /// Puts a request back into the table while it waits for something other than the server.
    fn suspend(&mut self, number: i64, mut entry: OutboundEntry, round: InputRound) {
        entry.stage = Stage::AwaitingInput;
        self.outbound.insert(number, entry);
        self.rounds.insert(number, round);
    }

    /// Handles the application's answers to the input requests, or its failure to give them.
    pub(super) fn handle_input_answers(
        &mut self,
        now: Instant,
        number: i64,
        answers: Result<RawInputResponses, InputError>,
        out: &mut dyn Outbox,
    ) {
        let Some(mut round) = self.rounds.remove(number) else { return };
        let responses = match answers {
            Ok(responses) => responses,
            Err(fault) => return self.resolve_waiting(number, Outcome::Input(fault)),
        };
        match round.next {
            //= C5.5 "inputRequests/requestState used only for the retry of that request"
            RoundStep::Input { state, .. } => {
                let addition = RoundParams { responses: Some(responses), state };
                round.next = RoundStep::Pause { until: now, addition: Some(addition) };
            }
            _ => {
                if !responses.iter().all(|(_, answer)| is_accepted(answer))
                    && let Some(pages) = round.pages
                {
                    return self.resolve_waiting(number, Outcome::Error(pages.error));
                }
                round.pause_for_pages(now);
            }
        }
        let goes = round.is_due(now);
        self.rounds.insert(number, round);
        if goes {
            self.send_round(now, number, out);
        }
    }

    /// Handles the server's report that a page is complete. Ignores pages that no request waits for.
    pub(super) fn handle_page_done(&mut self, now: Instant, page: &str, out: &mut dyn Outbox) {
        //= C10.9 "notifications/elicitation/complete with unknown/finished id ignored"
        for number in self.rounds.requests_for_page(page) {
            let Some(mut round) = self.rounds.remove(number) else { continue };
            if let Some(pages) = &mut round.pages {
                pages.open.remove(page);
            }
            let pauses = matches!(round.next, RoundStep::Pause { .. });
            let goes = pauses && round.pages.as_ref().is_some_and(|pages| pages.open.is_empty());
            self.rounds.insert(number, round);
            if goes {
                self.send_round(now, number, out);
            }
        }
    }

    /// Sends a paused request again at once.
    pub(crate) fn retry(&mut self, now: Instant, request: RequestId, out: &mut dyn Outbox) {
        if self.rounds.is_paused(request.number()) {
            self.send_round(now, request.number(), out);
            self.advance_close(now);
        }
    }

    /// Sends the next request whose pause is over. Returns whether there was one.
    pub(super) fn send_due_round(&mut self, now: Instant, out: &mut dyn Outbox) -> bool {
        let Some(number) = self.rounds.is_due(now) else { return false };
        self.send_round(now, number, out);
        true
    }

    /// Sends a request again.
    fn send_round(&mut self, now: Instant, number: i64, out: &mut dyn Outbox) {
        let Some(mut round) = self.rounds.remove(number) else { return };
        let RoundStep::Pause { addition, .. } = round.next else { return };
        let limit = self.config.limits.queued_bytes;
        if out.queued().saturating_add(self.parked.bytes()) > limit {
            round.next = RoundStep::Pause { until: now + OVERLOAD_PAUSE, addition };
            return self.rounds.insert(number, round);
        }
        //= C5.4 "Retry uses a new JSON-RPC id"
        let wire = self.outbound.renumber(number);
        let Some(OutboundEntry { info: Some(info), stored_params: Some(kept), .. }) =
            self.outbound.get(number)
        else {
            return;
        };
        let revision = kept.revision;
        if self.era() != Some(revision.era()) {
            let why = "the server speaks another era than before";
            return self.resolve_waiting(number, Outcome::Lost(LostReason::Disconnected(why.into())));
        }
        let written = write::request(out.buffer(), &Id::Number(wire), info.name, |buffer| {
            write_params(buffer, kept, addition.as_ref())
        });
        let params = match written {
            Ok(params) => params,
            Err(error) => {
                let refused = Outcome::Refused(RequestError::Encode(error.to_string()));
                return self.resolve_waiting(number, refused);
            }
        };
        out.commit_retry(
            number,
            MessageKind::Request {
                id: wire,
                method: info.name,
                params,
                name_param: None,
                related: None,
                revision,
            },
        );
        self.outbound.resume(number, now);
        round.count = round.count.saturating_add(1);
        round.next = RoundStep::Answer;
        self.rounds.insert(number, round);
    }

    /// Resolves a request that waits for something other than the server.
    fn resolve_waiting(&mut self, number: i64, outcome: Outcome) {
        self.forget_rounds(number);
        if self.outbound.remove(number).is_some() {
            self.resolve(number, outcome);
        }
    }
}

impl StoredParams {
    fn can_require_pages(&self) -> bool {
        self.revision.differences().url_elicitation_error
    }
}

impl InputRound {
    /// Pauses until the user has completed the pages, or a time has passed.
    fn pause_for_pages(&mut self, now: Instant) {
        let open = self.pages.as_ref().is_some_and(|pages| !pages.open.is_empty());
        let pause = match open || self.idle > 0 {
            true => doubled(FIRST_PAGE_WAIT, Some(self.idle), MAX_PAGE_WAIT),
            false => Duration::ZERO,
        };
        self.idle = self.idle.saturating_add(1);
        self.next = RoundStep::Pause { until: now + pause, addition: None };
    }

    fn is_due(&self, now: Instant) -> bool {
        matches!(self.next, RoundStep::Pause { until, .. } if until <= now)
    }
}

/// A duration that doubles with each of `times`, up to `longest`; zero before the first.
fn doubled(first: Duration, times: Option<u32>, longest: Duration) -> Duration {
    match times {
        None => Duration::ZERO,
        Some(times) => first.saturating_mul(2_u32.saturating_pow(times)).min(longest),
    }
}
