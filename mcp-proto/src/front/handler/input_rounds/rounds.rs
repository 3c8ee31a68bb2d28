//! One attempt of a client at its request: what it has answered so far, and what it is asked for next.
//!
//! | phase | how it ends |
//! |---|---|
//! | `Untouched` | the handler asks, or wants to know what it has kept: the state that came with the request is opened |
//! | `Checking` | it is known whether that state was used before |
//! | `Open` | the handler is done, or waits for nothing but answers that are not there |
//! | `Over` | it does not |
//!
//! Whatever is wrong with a state or an answer ends the request: the handler is dropped, and cannot go on as if it had
//! not been asked for it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, pending, poll_fn};
use core::task::{Context as TaskContext, Poll, Waker};
use std::sync::Mutex;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::round_reply::RoundReply;
use super::sealing::Sealing;
use super::single_use::{StateId, StateUse};
use super::state_binding::state_binding;
use crate::UnixTime;
use crate::front::handler::error::HandlerError;
use crate::front::handler::inbound_request::InboundRequest;
use crate::front::running_handlers::SendFuture;
use crate::front::signal::{Waiters, Wakers, lock};
use crate::front::{Entropy, Error};
use crate::peer::server::{NONCE_BYTES, missing_capabilities, required_capability};
use crate::peer::{Outcome, Principal, RequestError};
use crate::rpc::{ErrorObject, Raw, Text, code};
use crate::schema::{
    ClientCapabilities, Direction, FormError, InputRequest, InputRequiredResult, Map, Method, MethodInfo,
};

/// The attempt that a handler of 2026-07-28 is part of.
pub(in crate::front) struct InputRounds {
    method: Text,
    params: Option<Raw>,
    sealing: Arc<Sealing>,
    entropy: Arc<dyn Entropy>,
    inner: Mutex<RoundsState>,
}

#[derive(Default)]
struct RoundsState {
    phase: Phase,
    /// What the request is answered by instead of what the handler says.
    override_reply: Option<RoundReply>,
    /// Finds out whether the state was used before.
    claim: Option<SendFuture<Result<StateUse, HandlerError>>>,
    /// Whether the handler is being polled: whoever else comes has to have that done again.
    polled: bool,
    waiters: Waiters,
}

#[derive(Default)]
enum Phase {
    #[default]
    Untouched,
    Checking(Round),
    Open(Round),
    Over,
}

#[derive(Default)]
struct Round {
    /// What was answered and kept in earlier attempts, and what is in this one.
    sealed: SealedAnswers,
    /// What this attempt has brought, not yet asked for again.
    fresh: BTreeMap<String, Raw>,
    /// What is asked for now, in the order in which it was asked for, each by so many.
    wanted: Vec<(String, InputRequest, usize)>,
    /// How many are at work on something to be kept.
    running_once: usize,
}

/// An attempt as it begins.
#[derive(Default)]
struct AttemptStart {
    round: Round,
    /// By what its state is told from others, and when that lapses.
    state: Option<(StateId, UnixTime)>,
}

/// What a state says.
#[derive(Default, Serialize, Deserialize)]
struct SealedAnswers {
    #[serde(rename = "a")]
    answers: BTreeMap<String, Raw>,
    #[serde(rename = "k")]
    kept: BTreeMap<String, Raw>,
}

/// What an attempt brings that the first does not.
#[derive(Deserialize)]
struct AttemptParams {
    #[serde(rename = "inputResponses")]
    answers: Option<BTreeMap<String, Raw>>,
    #[serde(rename = "requestState")]
    state: Option<String>,
}

fn invalid(what: impl Into<String>) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, what)
}

impl InputRounds {
    pub(in crate::front) fn new(
        method: Text,
        params: Option<Raw>,
        sealing: Arc<Sealing>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self { method, params, sealing, entropy, inner: Mutex::default() }
    }

    // --- Of the handler ---

    /// The client's answer to a question.
    pub(in crate::front) async fn request_input<M: Method>(
        &self,
        request: &InboundRequest,
        key: String,
        input: InputRequest,
        take: impl FnOnce(M::Result) -> Result<M::Result, FormError>,
    ) -> Result<M::Result, Error> {
        let (name, revision) = (&*self.method, request.revision());
        let asked_in = MethodInfo::find(name, Direction::ClientToServer, revision);
        if !asked_in.is_some_and(|info| info.input_required) {
            return Err(RequestError::Revision { method: M::NAME.into(), revision }.into());
        }
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
        self.fail_request(request, invalid(format!("this is no answer to {key:?}: {what}")));
        drop(waiting);
        pending().await
    }

    /// What was kept under `key` in an earlier attempt, or what `work` makes, which is kept from now on.
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
                Err(error) => format!("what was kept as {key:?} is not what is kept now: {error}"),
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
                    Err(error) => format!("what is to be kept as {key:?} does not serialize: {error}"),
                }
            }
        };
        self.fail_request(request, ErrorObject::new(code::INTERNAL_ERROR, what));
        drop(waiting);
        pending().await
    }

    // --- Of the driver ---

    /// The handler is about to be polled.
    pub(in crate::front) fn start_poll(&self) {
        lock(&self.inner).polled = true;
    }

    /// The handler was polled. Returns how the request is answered if it cannot go on.
    pub(in crate::front) fn end_poll(&self, cx: &mut TaskContext<'_>) -> Option<RoundReply> {
        let claim = {
            let mut inner = lock(&self.inner);
            inner.polled = false;
            if inner.override_reply.is_some() {
                drop(inner);
                return self.finish();
            }
            inner.claim.take()
        };
        if let Some(mut claim) = claim {
            match claim.as_mut().poll(cx) {
                Poll::Pending => lock(&self.inner).claim = Some(claim),
                Poll::Ready(claimed) => self.handle_claim(claimed),
            }
        }
        None
    }

    /// The handler waits, and not for itself. Returns what the client is asked for, if nothing else can help.
    pub(in crate::front) fn suspend_if_stalled(&self, request: &InboundRequest) -> Option<RoundReply> {
        let mut wakers = Wakers::default();
        let round = {
            let mut inner = lock(&self.inner);
            match &mut inner.phase {
                Phase::Open(round) if !round.wanted.is_empty() && round.running_once == 0 => {
                    let round = core::mem::take(round);
                    inner.phase = Phase::Over;
                    wakers.wake_all(&mut inner.waiters);
                    Some(round)
                }
                _ => None,
            }
        };
        wakers.release();
        Some(self.suspend(round?, request.unix_time(), request))
    }

    /// Nothing is answered any more. Returns what the request is answered by instead of what the handler says.
    pub(in crate::front) fn finish(&self) -> Option<RoundReply> {
        let mut wakers = Wakers::default();
        let (refused, phase) = {
            let mut inner = lock(&self.inner);
            wakers.wake_all(&mut inner.waiters);
            (inner.override_reply.take(), core::mem::replace(&mut inner.phase, Phase::Over))
        };
        drop(phase);
        wakers.release();
        refused
    }

    // --- States ---

    /// Opens the state that came with the request, if nobody has.
    fn open(&self, request: &InboundRequest) {
        let now = request.unix_time();
        {
            let mut inner = lock(&self.inner);
            let Phase::Untouched = inner.phase else { return };
            // Whoever comes meanwhile waits.
            inner.phase = Phase::Checking(Round::default());
        }
        let opened = self.read_attempt(now, request.principal());
        let claim = match (&opened, &self.sealing.single_use) {
            (Ok(AttemptStart { state: Some((state, expires)), .. }), Some(store)) => {
                Some(store.claim(*state, &request.owner(), now, *expires))
            }
            _ => None,
        };
        let mut wakers = Wakers::default();
        {
            let mut inner = lock(&self.inner);
            match opened {
                Ok(AttemptStart { round, .. }) if claim.is_some() => {
                    inner.phase = Phase::Checking(round);
                    inner.claim = claim;
                }
                Ok(AttemptStart { round, .. }) => inner.phase = Phase::Open(round),
                Err(error) => inner.override_reply = Some(RoundReply::Error(error)),
            }
            wakers.wake_all(&mut inner.waiters);
        }
        wakers.release();
    }

    /// What the request brings, and by what its state is told from others.
    fn read_attempt(
        &self,
        now: UnixTime,
        principal: Option<&Principal>,
    ) -> Result<AttemptStart, ErrorObject> {
        let brought = self.params.as_ref().map(Raw::decode::<AttemptParams>).transpose();
        let brought = brought.map_err(|error| invalid(format!("the answers cannot be read: {error}")))?;
        let Some(AttemptParams { answers, state }) = brought else { return Ok(AttemptStart::default()) };
        let mut begun = AttemptStart::default();
        begun.round.fresh = answers.unwrap_or_default();
        if let Some(text) = state {
            let bound_to = self.state_binding(principal)?;
            let sealer = self.sealing.sealer(&*self.entropy);
            let opened = sealer.open(now, &bound_to, &text).map_err(|error| invalid(error.to_string()))?;
            // What this server has sealed reads, unless it was another version of it.
            begun.round.sealed = serde_json::from_slice(&opened.payload)
                .map_err(|_| invalid("the request state is of another version of this server"))?;
            begun.state = Some((StateId::new(opened.nonce), opened.expires));
        }
        Ok(begun)
    }

    fn state_binding(&self, principal: Option<&Principal>) -> Result<Vec<u8>, ErrorObject> {
        state_binding(&self.sealing.server, principal, &self.method, self.params.as_ref())
            .map_err(|error| invalid(format!("the parameters of {} cannot be read: {error}", &*self.method)))
    }

    /// It is known whether the state was used before.
    fn handle_claim(&self, claimed: Result<StateUse, HandlerError>) {
        let mut wakers = Wakers::default();
        {
            let mut inner = lock(&self.inner);
            match claimed {
                Ok(StateUse::First) => {
                    if let Phase::Checking(round) = &mut inner.phase {
                        let round = core::mem::take(round);
                        inner.phase = Phase::Open(round);
                    }
                }
                Ok(StateUse::Repeated) => {
                    inner.override_reply =
                        Some(RoundReply::Error(invalid("the request state was used before")));
                }
                Err(refused) => {
                    let denied = refused.into_denial();
                    let what = "the request state cannot be checked now";
                    let error = ErrorObject::new(code::INTERNAL_ERROR, what);
                    inner.override_reply = Some(match denied {
                        Some(denial) => RoundReply::Denied(error, denial),
                        None => RoundReply::Error(error),
                    });
                }
            }
            wakers.wake_all(&mut inner.waiters);
        }
        wakers.release();
    }

    /// Asks the client for what is wanted, and gives it the rest to keep.
    fn suspend(&self, round: Round, now: UnixTime, request: &InboundRequest) -> RoundReply {
        let mut missing: Option<ClientCapabilities> = None;
        for needed in round.wanted.iter().filter_map(|(_, input, _)| required_capability(input)) {
            if !request.client_capabilities().has(needed) {
                missing = Some(missing.unwrap_or_default().with(needed));
            }
        }
        if let Some(missing) = missing {
            return RoundReply::Error(missing_capabilities(missing));
        }
        let sealed = serde_json::to_vec(&round.sealed)
            .map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, error.to_string()))
            .and_then(|payload| Ok((payload, self.state_binding(request.principal())?)));
        let (payload, bound_to) = match sealed {
            Ok(sealed) => sealed,
            Err(error) => return RoundReply::Error(error),
        };
        let mut nonce = [0; NONCE_BYTES];
        self.entropy.fill(&mut nonce);
        let sealer = self.sealing.sealer(&*self.entropy);
        let state = sealer.seal(nonce, &bound_to, now + self.sealing.lifetime, &payload);
        let requests: Map<InputRequest> =
            round.wanted.into_iter().map(|(key, input, _)| (key, input)).collect();
        RoundReply::InputRequired(InputRequiredResult {
            request_state: Some(state),
            ..InputRequiredResult::requests(requests)
        })
    }

    /// The request is answered by an error, whatever the handler does.
    fn fail_request(&self, request: &InboundRequest, error: ErrorObject) {
        let polled = {
            let mut inner = lock(&self.inner);
            inner.override_reply.get_or_insert(RoundReply::Error(error));
            inner.polled
        };
        if !polled {
            request.wake_handler();
        }
    }
}

/// Somebody who waits for the client's answer, or for what was kept.
struct RoundWaiter<'a> {
    rounds: &'a InputRounds,
    request: &'a InboundRequest,
    waiter_key: Option<u64>,
    /// What is asked for.
    key: Option<String>,
    role: WaiterRole,
}

/// What somebody has to do with a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterRole {
    None,
    /// What they ask for is wanted.
    AwaitsInput,
    /// They make something that is to be kept.
    RunsOnce,
}

impl<'a> RoundWaiter<'a> {
    fn new(rounds: &'a InputRounds, request: &'a InboundRequest, key: Option<String>) -> Self {
        Self { rounds, request, waiter_key: None, key, role: WaiterRole::None }
    }

    fn poll_answer(&mut self, cx: &TaskContext<'_>, input: &InputRequest) -> Poll<Result<Raw, Error>> {
        let key = self.key.clone().unwrap_or_default();
        let mut conflict = false;
        let polled = self.poll(cx.waker(), |round, stake| {
            if let Some(answer) = round.answer(&key) {
                return Some(answer);
            }
            if *stake == WaiterRole::None {
                *stake = WaiterRole::AwaitsInput;
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
            let what = format!("the server asks for two things as {key:?}");
            self.rounds.fail_request(self.request, ErrorObject::new(code::INTERNAL_ERROR, what));
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
        // Once it is over nothing is kept any more.
        polled.map(Result::unwrap_or_default)
    }

    /// Looks into the round once it is open, and waits if there is nothing yet.
    fn poll<R>(
        &mut self,
        waker: &Waker,
        look: impl FnOnce(&mut Round, &mut WaiterRole) -> Option<R>,
    ) -> Poll<Result<R, Error>> {
        self.rounds.open(self.request);
        let left = waker.clone();
        let mut wakers = Wakers::default();
        let (polled, outside) = {
            let mut inner = lock(&self.rounds.inner);
            let before = self.role;
            let found = match &mut inner.phase {
                Phase::Open(round) => look(round, &mut self.role).map(Ok),
                Phase::Over => Some(Err(Error::Cancelled)),
                Phase::Untouched | Phase::Checking(_) => None,
            };
            let changed = self.role != before || inner.claim.is_some() || inner.override_reply.is_some();
            let polled = match found {
                Some(found) => {
                    wakers.discard(Some(left));
                    Poll::Ready(found)
                }
                None => {
                    inner.waiters.wait(&mut self.waiter_key, left, &mut wakers);
                    Poll::Pending
                }
            };
            (polled, changed && !inner.polled)
        };
        wakers.release();
        // By another task, on its own: the handler waits for that, and would not be looked at.
        if outside {
            self.request.wake_handler();
        }
        polled
    }
}

impl Drop for RoundWaiter<'_> {
    fn drop(&mut self) {
        let mut wakers = Wakers::default();
        let outside = {
            let mut inner = lock(&self.rounds.inner);
            inner.waiters.leave(self.waiter_key, &mut wakers);
            if let Phase::Open(round) = &mut inner.phase {
                match self.role {
                    WaiterRole::None => {}
                    WaiterRole::RunsOnce => round.running_once = round.running_once.saturating_sub(1),
                    WaiterRole::AwaitsInput => round.withdraw(self.key.as_deref().unwrap_or_default()),
                }
            }
            self.role == WaiterRole::RunsOnce && !inner.polled
        };
        wakers.release();
        if outside {
            self.request.wake_handler();
        }
    }
}

impl Round {
    /// What the client has answered, now or before. It may answer before it is asked, and cannot take back what it has
    /// said: other answers have followed from that.
    fn answer(&mut self, key: &str) -> Option<Raw> {
        if let Some((key, answer)) = self.fresh.remove_entry(key) {
            self.sealed.answers.entry(key).or_insert(answer);
        }
        self.sealed.answers.get(key).cloned()
    }

    /// Somebody does not ask for it any more.
    fn withdraw(&mut self, key: &str) {
        for (wanted, _, by) in &mut self.wanted {
            if wanted == key {
                *by = by.saturating_sub(1);
            }
        }
        self.wanted.retain(|(_, _, by)| *by > 0);
    }
}
