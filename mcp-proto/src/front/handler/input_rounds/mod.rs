//! Input rounds of 2026-07-28: the client answers input requests by sending its request again.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
//!
//! [`InputRounds`] is one attempt of a client at its request: the answers so far, and the next input requests.
//!
//! | phase | how it ends |
//! |---|---|
//! | `Untouched` | the handler requests input or uses `run_once`: the state that came with the request is opened |
//! | `Checking` | the store reports whether that state was used before |
//! | `Open` | the handler returns, or waits only for answers that are missing |
//! | `Over` | final |
//!
//! Any invalid state or answer ends the request: the handler is dropped, and cannot continue without the input that it
//! requested.

mod sealing;

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::future::{Future, pending, poll_fn};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(in crate::front) use self::sealing::Sealing;
use self::sealing::state_binding;
use super::connection::InboundRequest;
use crate::UnixTime;
use crate::front::Error;
use crate::front::handler_error::HandlerError;
use crate::front::wakers::{WaitPoint, Waiters, WaitingTask, Wakers, lock, update};
use crate::ordered_map::OrderedMap;
use crate::peer::server::{NONCE_BYTES, check_content, missing_capabilities, required_capabilities};
use crate::peer::{Outcome, Principal, RequestError};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, Text, code, each_member, write};
use crate::schema::{
    ClientCapabilities, Direction, Era, FormError, InputRequest, InputRequiredResult, Map, Method, MethodInfo,
};
use crate::single_use::{Claim, ClaimError, ClaimFuture, ClaimOutcome, UseId};
use crate::sync::Mutex;

/// The input rounds of a 2026-07-28 request, as the current attempt of the client sees them.
pub(in crate::front) struct InputRounds {
    /// The method and the parameters.
    message: Mutex<(Text, Option<Text>)>,
    sealing: Arc<Sealing>,
    inner: Mutex<RoundsState>,
}

#[derive(Default)]
pub(in crate::front) struct RoundsState {
    phase: Phase,
    /// The reply that replaces the handler's.
    failure: Option<Box<HandlerError>>,
    /// The pending check whether the state was used before.
    claim: Option<ClaimFuture>,
    /// Whether the handler is being polled: a change from any other task must have it polled again.
    polled: bool,
    /// The number of tasks other than the driver's that are polling the handler, or have ended it.
    polling_tasks: usize,
    waiters: Waiters,
}

#[derive(Default)]
enum Phase {
    #[default]
    Untouched,
    Checking(Box<Round>),
    Open(Box<Round>),
    Over,
}

#[derive(Default)]
struct Round {
    /// The answers and `run_once` values of earlier attempts, extended by this one.
    sealed: SealedAnswers,
    /// The answers that this attempt brought and the handler has not requested yet.
    fresh: OrderedMap<String, Raw>,
    /// The pending input requests, in the order in which they were made, each with the number of its waiters.
    wanted: Vec<(String, InputRequest, usize)>,
    /// The number of `run_once` calls whose work is in progress.
    running_once: usize,
}

/// The parsed start of an attempt.
#[derive(Default)]
struct AttemptStart {
    round: Round,
    /// The id of the attempt's state, and when that expires.
    state: Option<([u8; NONCE_BYTES], UnixTime)>,
}

/// The sealed content of a request state.
#[derive(Default, Serialize, Deserialize)]
struct SealedAnswers {
    #[serde(rename = "a")]
    answers: OrderedMap<String, Raw>,
    #[serde(rename = "k")]
    kept: OrderedMap<String, Raw>,
    /// The number of attempts so far; 0 in a state of a version that did not count them.
    #[serde(rename = "n", default)]
    attempts: u32,
}

/// The parameters that only a repeated attempt has.
#[derive(Deserialize)]
struct AttemptParams {
    #[serde(rename = "inputResponses")]
    answers: Option<OrderedMap<String, Raw>>,
    #[serde(rename = "requestState")]
    state: Option<String>,
}

/// How long a request may take from the opening of its state to the end of the claim: a state that has just been valid
/// must not be accepted again.
const CLAIM_TIME: Duration = Duration::from_secs(30);

fn invalid(what: impl Into<String>) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, what)
}

/// Copies parameters without their `_meta`; `None` if that is not much shorter.
fn without_meta(params: &str) -> Option<Text> {
    let (mut rest, most, mut fits) = (Vec::new(), params.len() / 2, true);
    let each = |name: Cow<'_, str>, value: &str| {
        if name == "_meta" {
            return true;
        }
        fits = rest.len().saturating_add(value.len()) <= most;
        if fits {
            rest.push(if rest.is_empty() { b'{' } else { b',' });
            _ = write::json(&mut rest, &name);
            rest.push(b':');
            rest.extend_from_slice(value.as_bytes());
        }
        fits
    };
    each_member(params, each).ok()?;
    rest.extend_from_slice(if rest.is_empty() { b"{}" } else { b"}" });
    rest.shrink_to_fit();
    Text::try_from(rest).ok().filter(|rest| fits && rest.len() <= most)
}

impl InputRounds {
    /// The input rounds of a request, at revisions that have them.
    pub(in crate::front) fn of(
        method: &Text,
        params: Option<&Raw>,
        era: Era,
        sealing: &Arc<Sealing>,
    ) -> Option<Self> {
        (era == Era::Modern).then(|| Self {
            message: Mutex::new((method.clone(), params.cloned().map(Raw::into_text))),
            sealing: sealing.clone(),
            inner: Mutex::default(),
        })
    }

    /// Lets go of the message that the request arrived in, which a handler that waits must not keep in memory for its
    /// `_meta`.
    pub(in crate::front) fn release_message(&self) {
        let (method, params) = &mut *lock(&self.message);
        *method = Text::from(&**method);
        if let Some(rest) = params.as_deref().and_then(without_meta) {
            *params = Some(rest);
        }
    }

    /// The method and the parameters. These have no `_meta` if the handler has waited.
    fn message(&self) -> (Text, Option<Text>) {
        lock(&self.message).clone()
    }

    /// Returns the number of this attempt, from 1, as the state that the client returned counts. `None` if it returned an
    /// answer without a state of this server.
    pub(in crate::front) fn attempt(&self, request: &InboundRequest) -> Option<u32> {
        let AttemptStart { round, state } =
            self.read_attempt(request.connection.unix_time(), request).ok()?;
        let (before, is_first) = (round.sealed.attempts, state.is_none() && round.fresh.is_empty());
        if is_first || before > 0 { before.checked_add(1) } else { None }
    }

    // --- Used by the handler ---

    /// Returns the client's answer to an input request.
    pub(in crate::front) async fn request_input<M: Method>(
        &self,
        request: &InboundRequest,
        key: String,
        input: InputRequest,
        take: impl FnOnce(M::Result) -> Result<M::Result, FormError>,
    ) -> Result<M::Result, Error> {
        let revision = request.state.context.revision;
        let asked_in = MethodInfo::find(&self.message().0, Direction::ClientToServer, revision);
        //= S4.1 "input_required only for tools/call, prompts/get, resources/read"
        if !asked_in.is_some_and(|info| info.input_required) {
            return Err(RequestError::Revision { method: M::NAME.into(), revision }.into());
        }
        check_content(&input)?;
        let mut waiting = RoundWaiter::new(self, request, Some(key));
        let raw = poll_fn(|cx| waiting.poll_answer(cx, &input)).await?;
        let what = match Outcome::Result(raw)
            .decode::<M>()
            .map_err(Error::from)
            .and_then(|answer| take(answer).map_err(Error::Form))
        {
            Ok(answer) => return Ok(answer),
            Err(error) => error.to_string(),
        };
        let key = waiting.key.as_deref().unwrap_or_default();
        self.fail_request(request, invalid(format!("the answer to {key:?} is not valid: {what}")));
        drop(waiting);
        pending().await
    }

    /// Returns the value stored under `key` by an earlier attempt, or runs `work` and stores its value.
    pub(in crate::front) async fn run_once<T, F>(&self, request: &InboundRequest, key: &str, work: F) -> T
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = T>,
    {
        let mut waiting = RoundWaiter::new(self, request, None);
        let kept = poll_fn(|cx| waiting.poll_stored(cx, key)).await;
        let what = match kept {
            Some(kept) => match kept.decode() {
                Ok(value) => return value,
                Err(error) => format!("the stored value of {key:?} has another type: {error}"),
            },
            None => {
                let value = work.await;
                match Raw::encode(&value) {
                    Ok(raw) => {
                        if let Phase::Open(round) = &mut lock(&self.inner).phase {
                            round.sealed.kept.entry(key.into()).or_insert(raw);
                        }
                        return value;
                    }
                    Err(error) => format!("the value of {key:?} cannot be serialized: {error}"),
                }
            }
        };
        self.fail_request(request, ErrorObject::new(code::INTERNAL_ERROR, what));
        drop(waiting);
        pending().await
    }

    // --- Used by the driver ---

    /// Polls the handler. An error is the reply to a request that cannot continue.
    pub(in crate::front) fn poll<F: Future>(
        &self,
        handler: Pin<&mut F>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Result<F::Output, HandlerError>> {
        lock(&self.inner).polled = true;
        if let Poll::Ready(output) = handler.poll(cx) {
            return Poll::Ready(self.finish().map_or(Ok(output), Err));
        }
        let (has_failed, claim) = self.visit(|inner, _| {
            inner.polled = false;
            (inner.failure.is_some(), inner.claim.take())
        });
        match (has_failed, claim) {
            (true, _) => return self.finish().map_or(Poll::Pending, |error| Poll::Ready(Err(error))),
            (false, None) => {}
            (false, Some(mut claim)) => match claim.as_mut().poll(cx) {
                Poll::Pending => lock(&self.inner).claim = Some(claim),
                Poll::Ready(claimed) => self.handle_claim(claimed),
            },
        }
        Poll::Pending
    }

    /// Polls the handler by `poll` in a task other than the driver's, and wakes the driver if it must look after the
    /// rounds.
    pub(in crate::front) fn poll_in_task<T, E>(
        &self,
        request: &InboundRequest,
        poll: impl FnOnce() -> Result<Poll<T>, E>,
    ) -> Result<Poll<T>, E> {
        self.visit(|inner, _| inner.polling_tasks = inner.polling_tasks.saturating_add(1));
        let polled = poll();
        let concerns_driver = self.visit(|inner, _| {
            if matches!(polled, Ok(Poll::Pending)) {
                inner.polling_tasks = inner.polling_tasks.saturating_sub(1);
            }
            let is_waiting = matches!(&inner.phase, Phase::Open(round) if !round.wanted.is_empty());
            is_waiting || inner.claim.is_some() || inner.failure.is_some()
        });
        // A handler that is done wants no more input.
        if concerns_driver && matches!(polled, Ok(Poll::Pending)) {
            request.connection.wake_handler(request.id);
        }
        polled
    }

    /// Returns the input requests for the client, if the handler waits for nothing but its answers.
    pub(in crate::front) fn suspend_if_stalled(
        &self,
        request: &InboundRequest,
    ) -> Option<Result<InputRequiredResult, HandlerError>> {
        let round = self.visit(|inner, wakers| match &mut inner.phase {
            Phase::Open(round)
                if !round.wanted.is_empty() && round.running_once == 0 && inner.polling_tasks == 0 =>
            {
                let round = core::mem::take(&mut **round);
                inner.phase = Phase::Over;
                wakers.wake_all(&mut inner.waiters);
                Some(round)
            }
            _ => None,
        });
        Some(self.suspend(round?, request))
    }

    /// Ends the rounds. Returns the reply that replaces the handler's, if any.
    fn finish(&self) -> Option<HandlerError> {
        let (refused, phase) = self.visit(|inner, wakers| {
            wakers.wake_all(&mut inner.waiters);
            (inner.failure.take(), core::mem::replace(&mut inner.phase, Phase::Over))
        });
        drop(phase);
        refused.map(|refused| *refused)
    }

    // --- States ---

    /// Opens the state that came with the request, unless it is open already.
    fn open(&self, request: &InboundRequest) {
        let now = request.connection.unix_time();
        {
            let mut inner = lock(&self.inner);
            let Phase::Untouched = inner.phase else { return };
            // Other waiters wait until the state is open.
            inner.phase = Phase::Checking(Box::default());
        }
        let opened = self.read_attempt(now, request);
        let claim = match (&opened, &self.sealing.single_use) {
            (Ok(AttemptStart { state: Some((nonce, expires)), .. }), Some(store)) => {
                let since = expires.since_epoch().saturating_sub(self.sealing.lifetime);
                //= S4.6 "One-time state enforced by a server-side store"
                Some(store.claim(Claim {
                    id: UseId::State(*nonce),
                    owner: request.owner(),
                    now,
                    since: UnixTime::from_epoch(since),
                    expires: *expires + CLAIM_TIME,
                }))
            }
            _ => None,
        };
        self.visit(|inner, wakers| {
            match opened {
                Ok(AttemptStart { round, .. }) if claim.is_some() => {
                    inner.phase = Phase::Checking(Box::new(round));
                    inner.claim = claim;
                }
                Ok(AttemptStart { round, .. }) => inner.phase = Phase::Open(Box::new(round)),
                Err(error) => inner.failure = Some(Box::new(HandlerError::protocol(error))),
            }
            wakers.wake_all(&mut inner.waiters);
        });
    }

    /// Reads the answers and the state that the request brought.
    fn read_attempt(&self, now: UnixTime, request: &InboundRequest) -> Result<AttemptStart, ErrorObject> {
        let brought = self.message().1.as_deref().map(serde_json::from_str::<AttemptParams>).transpose();
        let brought = brought.map_err(|error| invalid(format!("the answers cannot be read: {error}")))?;
        let Some(AttemptParams { answers, state }) = brought else { return Ok(AttemptStart::default()) };
        let mut begun = AttemptStart::default();
        begun.round.fresh = answers.unwrap_or_default();
        if let Some(text) = state {
            //= S1.7 "state by explicit handles"
            let bound_to = self.state_binding(request.principal())?;
            let sealer = self.sealing.sealer(&*request.entropy);
            //= S4.4 "requestState is attacker-controlled: integrity (HMAC/AEAD) when it matters; reject what fails"
            let opened = sealer.open(now, &bound_to, &text).map_err(|error| invalid(error.to_string()))?;
            // A state of this server decodes unless another version of the server sealed it.
            begun.round.sealed = serde_json::from_slice(&opened.payload)
                .map_err(|_| invalid("the request state is from another version of this server"))?;
            begun.state = Some((opened.nonce, opened.expires));
        }
        Ok(begun)
    }

    fn state_binding(&self, principal: Option<&Principal>) -> Result<Vec<u8>, ErrorObject> {
        let (method, params) = self.message();
        state_binding(&self.sealing.server, principal, &method, params.as_deref())
            .map_err(|error| invalid(format!("the parameters of {method} cannot be read: {error}")))
    }

    /// Handles the store's report whether the state was used before.
    fn handle_claim(&self, claimed: Result<ClaimOutcome, ClaimError>) {
        let failure = match claimed {
            Ok(ClaimOutcome::First) => None,
            Ok(ClaimOutcome::Repeated) => {
                Some(HandlerError::protocol(invalid("the request state was used before")))
            }
            Ok(ClaimOutcome::Forgotten { .. }) => Some(HandlerError::protocol(invalid(
                "the request state has lapsed: send the request without it",
            ))),
            Err(ClaimError::Full | ClaimError::Failed(_)) => {
                Some(HandlerError::unavailable("the request state cannot be checked now: try again later"))
            }
        };
        self.visit(|inner, wakers| {
            match (failure, &mut inner.phase) {
                (Some(failure), _) => inner.failure = Some(Box::new(failure)),
                (None, Phase::Checking(round)) => inner.phase = Phase::Open(core::mem::take(round)),
                (None, _) => {}
            }
            wakers.wake_all(&mut inner.waiters);
        });
    }

    /// Replies with the pending input requests and the sealed answers, which the client returns.
    fn suspend(
        &self,
        mut round: Round,
        request: &InboundRequest,
    ) -> Result<InputRequiredResult, HandlerError> {
        let mut missing: Option<ClientCapabilities> = None;
        for needed in round.wanted.iter().flat_map(|(_, input, _)| required_capabilities(input)) {
            if !request.state.context.client_capabilities.has(needed) {
                missing = Some(missing.unwrap_or_default().with(needed));
            }
        }
        if let Some(missing) = missing {
            return Err(HandlerError::protocol(missing_capabilities(missing)));
        }
        round.sealed.attempts = round.sealed.attempts.saturating_add(1);
        let payload = serde_json::to_vec(&round.sealed).map_err(|error| {
            HandlerError::protocol(ErrorObject::new(code::INTERNAL_ERROR, error.to_string()))
        })?;
        let bound_to = self.state_binding(request.principal()).map_err(HandlerError::protocol)?;
        let mut nonce = [0; NONCE_BYTES];
        request.entropy.fill(&mut nonce);
        let sealer = self.sealing.sealer(&*request.entropy);
        let state =
            sealer.seal(nonce, &bound_to, request.connection.unix_time() + self.sealing.lifetime, &payload);
        let requests: Map<InputRequest> =
            round.wanted.into_iter().map(|(key, input, _)| (key, input)).collect();
        //= S4.7 "Do not assume that the client answers"
        Ok(InputRequiredResult { request_state: Some(state), ..InputRequiredResult::requests(requests) })
    }

    /// Answers the request with an error, whatever the handler returns.
    fn fail_request(&self, request: &InboundRequest, error: ErrorObject) {
        let polled = {
            let mut inner = lock(&self.inner);
            inner.failure.get_or_insert_with(|| Box::new(HandlerError::protocol(error)));
            inner.polled
        };
        if !polled {
            request.connection.wake_handler(request.id);
        }
    }
}

impl WaitPoint for InputRounds {
    type State = RoundsState;

    fn visit<R>(&self, act: impl FnOnce(&mut RoundsState, &mut Wakers) -> R) -> R {
        update(&self.inner, act)
    }

    fn waiters<'s>(&self, state: &'s mut RoundsState) -> Option<&'s mut Waiters> {
        Some(&mut state.waiters)
    }
}

/// A future that waits for the client's answer, or for a stored value.
struct RoundWaiter<'a> {
    request: &'a InboundRequest,
    waiting: WaitingTask<'a, InputRounds>,
    /// The key of its input request.
    key: Option<String>,
    role: WaiterRole,
}

/// The part of a waiter in its round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterRole {
    None,
    /// Its input request is pending.
    AwaitsInput,
    /// It runs the work of `run_once`.
    RunsOnce,
}

impl<'a> RoundWaiter<'a> {
    fn new(rounds: &'a InputRounds, request: &'a InboundRequest, key: Option<String>) -> Self {
        Self { request, waiting: WaitingTask::new(rounds), key, role: WaiterRole::None }
    }

    fn poll_answer(&mut self, cx: &TaskContext<'_>, input: &InputRequest) -> Poll<Result<Raw, Error>> {
        let key = self.key.clone().unwrap_or_default();
        let mut conflict = false;
        let polled = self.poll(cx.waker(), |round, stake| {
            //= S9.4 "Show outcome only by the retry"
            if let Some(answer) = round.answer(&key) {
                return Some(answer);
            }
            if *stake == WaiterRole::None {
                *stake = WaiterRole::AwaitsInput;
                //= S4.3 "Keys unique"
                match round.wanted.iter_mut().find(|(wanted, ..)| *wanted == key) {
                    None => round.wanted.push((key.clone(), input.clone(), 1)),
                    Some((_, wanted, by)) => {
                        conflict = wanted != input;
                        *by = by.saturating_add(1);
                    }
                }
            }
            None
        });
        if conflict {
            let what = format!("the handler makes two different input requests with the key {key:?}");
            self.waiting.point.fail_request(self.request, ErrorObject::new(code::INTERNAL_ERROR, what));
        }
        polled
    }

    fn poll_stored(&mut self, cx: &TaskContext<'_>, key: &str) -> Poll<Option<Raw>> {
        let polled = self.poll(cx.waker(), |round, stake| match round.sealed.kept.get(key) {
            Some(kept) => Some(Some(kept.clone())),
            None => {
                *stake = WaiterRole::RunsOnce;
                round.running_once = round.running_once.saturating_add(1);
                Some(None)
            }
        });
        // Once the rounds are over, no value is stored any more.
        polled.map(Result::unwrap_or_default)
    }

    /// Looks into the round once it is open, and waits if `look` finds no value yet.
    fn poll<R>(
        &mut self,
        waker: &Waker,
        look: impl FnOnce(&mut Round, &mut WaiterRole) -> Option<R>,
    ) -> Poll<Result<R, Error>> {
        self.waiting.point.open(self.request);
        let Self { waiting, role, .. } = self;
        let mut outside = false;
        let polled = waiting.poll(waker, |inner| {
            let before = *role;
            let found = match &mut inner.phase {
                Phase::Open(round) => look(round, role).map(Ok),
                Phase::Over => Some(Err(Error::Cancelled)),
                Phase::Untouched | Phase::Checking(_) => None,
            };
            let changed = *role != before || inner.claim.is_some() || inner.failure.is_some();
            outside = changed && !inner.polled;
            found
        });
        // Another task polls this waiter: the driver would not poll the handler on its own, so wake it.
        if outside {
            self.request.connection.wake_handler(self.request.id);
        }
        polled
    }
}

impl Drop for RoundWaiter<'_> {
    fn drop(&mut self) {
        let outside = self.waiting.point.visit(|inner, _| {
            if let Phase::Open(round) = &mut inner.phase {
                match self.role {
                    WaiterRole::None => {}
                    WaiterRole::RunsOnce => round.running_once = round.running_once.saturating_sub(1),
                    WaiterRole::AwaitsInput => round.withdraw(self.key.as_deref().unwrap_or_default()),
                }
            }
            self.role == WaiterRole::RunsOnce && !inner.polled
        });
        if outside {
            self.request.connection.wake_handler(self.request.id);
        }
    }
}

impl Round {
    /// Returns the client's answer from this or an earlier attempt. A client may answer before the request and cannot
    /// change an earlier answer: other answers may have followed from it.
    fn answer(&mut self, key: &str) -> Option<Raw> {
        if let Some((key, answer)) = self.fresh.remove_entry(key) {
            self.sealed.answers.entry(key).or_insert(answer);
        }
        self.sealed.answers.get(key).cloned()
    }

    /// Removes one waiter from an input request.
    fn withdraw(&mut self, key: &str) {
        for (wanted, _, by) in &mut self.wanted {
            if wanted == key {
                *by = by.saturating_sub(1);
            }
        }
        self.wanted.retain(|(_, _, by)| *by > 0);
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use core::task::Poll;

    use super::*;
    use crate::front::handler::connection::ServerCore;
    use crate::front::handler::inbound_request::{Caller, RequestState};
    use crate::front::shared::Shared;
    use crate::peer::InboundId;
    use crate::peer::server::{RequestContext, ServerConfig};
    use crate::schema::{ElicitParams, ElicitSchema, Implementation, Revision};
    use crate::testing::{CountingEntropy, SimulatedClock};
    use crate::transport::StreamServer;

    #[test]
    fn handler_that_is_done_is_not_suspended() {
        let machine = StreamServer::new(ServerConfig::new(Implementation::new("a", "1")));
        let clock = Arc::new(SimulatedClock::default());
        let context = RequestContext {
            era: Era::Modern,
            revision: Revision::LATEST,
            client_info: None,
            client_capabilities: Arc::default(),
            principal: None,
            progress_token: None,
            log_level: None,
        };
        let request = InboundRequest {
            connection: Arc::new(Shared::new(ServerCore::default(), machine, clock)),
            id: InboundId::NO_REQUEST,
            caller: Caller::default(),
            entropy: Arc::new(CountingEntropy::default()),
            state: Arc::new(RequestState::new(context, None)),
        };
        let sealing = Arc::new(Sealing::new("a".into()));
        let rounds = InputRounds::of(&Text::from("tools/call"), None, Era::Modern, &sealing).unwrap();
        let input = ElicitParams::form("?", ElicitSchema::empty()).into();
        let round = Round { wanted: Vec::from([(String::from("k"), input, 1)]), ..Round::default() };
        lock(&rounds.inner).phase = Phase::Open(Box::new(round));
        // The handler has returned in its own task, which has yet to tell the driver.
        let polled = rounds.poll_in_task(&request, || Ok::<_, ()>(Poll::Ready(())));
        assert!(matches!(polled, Ok(Poll::Ready(()))));
        assert!(rounds.suspend_if_stalled(&request).is_none());
    }
}
