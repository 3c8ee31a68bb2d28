//! Input requests from a server's results, and their answers from the application.
//!
//! Each input request becomes an [`Event::Request`], as if a legacy server had sent a request, and is answered by
//! [`Client::respond`]. Once all are answered, or the first answer is an error, `deliver_input` passes the answers to
//! the owner of the set: an input round or a task.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use alloc::collections::BTreeMap;

use serde::de::Error as _;

use crate::Instant;
use crate::peer::event_queue::Pressure;
use crate::peer::undeclared_capability::undeclared;
use crate::peer::{AnyResult, InboundId, InputError, Outbox, RequestId};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{Direction, Era, MethodInfo, Revision};

use super::incoming_requests::bytes_of;
use super::raw_inputs::{InputSetId, RawInputRequest, RawInputRequests, RawInputResponses};
use super::request_record::Stage;
use super::{Client, Event};

/// A set of input requests with the answers so far.
#[derive(Debug)]
struct InputSet {
    /// The request whose result contains them, which receives the answers.
    on_behalf_of: RequestId,
    slots: Vec<InputSlot>,
    /// The number of unanswered requests.
    unanswered: usize,
}

#[derive(Debug)]
struct InputSlot {
    key: String,
    request: InboundId,
    answer: Option<Raw>,
}

/// All input requests that the application has not answered yet.
#[derive(Debug, Default)]
pub(super) struct PendingInputs {
    sets: BTreeMap<InputSetId, InputSet>,
    by_request: BTreeMap<InboundId, (InputSetId, usize)>,
    next: u64,
}

impl Client {
    /// Asks the application for each of `requests`, on behalf of the request `of`. There must be at least one;
    /// `deliver_input` passes the answers to the owner when all are there.
    ///
    /// # Errors
    /// If one of the inputs cannot be requested; then none was.
    pub(super) fn request_input(
        &mut self,
        of: RequestId,
        requests: RawInputRequests,
    ) -> Result<InputSetId, InputError> {
        let RawInputRequests(requests) = requests;
        let mut bytes = 0_usize;
        let mut admitted = Vec::with_capacity(requests.len());
        for asked in &requests {
            admitted.push(self.admit_input(asked)?);
            bytes = bytes.saturating_add(bytes_of(asked.params.as_ref()));
        }
        let waiting = self.inputs.by_request.len().saturating_add(self.inbound.len());
        let full = waiting.saturating_add(requests.len()) > self.config.limits.requests_in;
        if full || self.events.pressure(bytes) >= Pressure::Requests {
            return Err(InputError::TooMany { count: requests.len() });
        }
        let set = InputSetId(self.inputs.next);
        self.inputs.next = self.inputs.next.saturating_add(1);
        let open = requests.len();
        let mut slots = Vec::with_capacity(open);
        for (index, (asked, method)) in requests.into_iter().zip(admitted).enumerate() {
            let id = self.inbound.mint();
            let bytes = bytes_of(asked.params.as_ref());
            self.inputs.by_request.insert(id, (set, index));
            slots.push(InputSlot { key: asked.key, request: id, answer: None });
            self.events.push(Event::Request { id, method, params: asked.params }, bytes);
        }
        self.inputs.sets.insert(set, InputSet { on_behalf_of: of, slots, unanswered: open });
        Ok(set)
    }

    /// Withdraws the unanswered requests of a set.
    pub(super) fn withdraw_input(&mut self, set: InputSetId) {
        let Some(pending) = self.inputs.sets.remove(&set) else { return };
        for InputSlot { request: asked, .. } in pending.slots {
            if self.inputs.by_request.remove(&asked).is_some() {
                self.events.push(Event::RequestCancelled { id: asked, reason: None }, 0);
            }
        }
    }

    /// Withdraws all unanswered input requests.
    pub(super) fn withdraw_all_input(&mut self) {
        while let Some((&set, _)) = self.inputs.sets.first_key_value() {
            self.withdraw_input(set);
        }
    }

    /// Takes an answer if it belongs to an input request; returns whether it does.
    pub(super) fn take_input(
        &mut self,
        now: Instant,
        request: InboundId,
        answer: &Result<&dyn AnyResult, ErrorObject>,
        out: &mut dyn Outbox,
    ) -> bool {
        let Some((set, index)) = self.inputs.by_request.remove(&request) else { return false };
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let answer = match answer {
            Ok(result) => encode_answer(*result, revision),
            Err(error) => Err(error.clone()),
        };
        let Some(pending) = self.inputs.sets.get_mut(&set) else { return true };
        let Some(slot) = pending.slots.get_mut(index) else { return true };
        let owner = pending.on_behalf_of;
        match answer {
            Ok(answer) => {
                slot.answer = Some(answer);
                pending.unanswered = pending.unanswered.saturating_sub(1);
                if pending.unanswered == 0
                    && let Some(InputSet { slots, .. }) = self.inputs.sets.remove(&set)
                {
                    let answers = slots.into_iter().filter_map(|slot| Some((slot.key, slot.answer?)));
                    self.deliver_input(now, owner, Ok(RawInputResponses(answers.collect())), out);
                }
            }
            Err(error) => {
                let key = slot.key.clone();
                self.withdraw_input(set);
                self.deliver_input(now, owner, Err(InputError::Failed { key, error }), out);
            }
        }
        true
    }

    /// Delivers the answers: the request is sent again with them, or passes them to the task that it follows.
    fn deliver_input(
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

    /// The client request whose result contains the input request: for events [`Request`](Event::Request) from a server
    /// that needs input before it can finish.
    pub fn on_behalf_of(&self, request: InboundId) -> Option<RequestId> {
        let (set, _) = self.inputs.by_request.get(&request)?;
        self.inputs.sets.get(set).map(|pending| pending.on_behalf_of)
    }

    /// Checks that this method is allowed as an input request, and that this client has declared its capability.
    fn admit_input(&self, asked: &RawInputRequest) -> Result<&'static MethodInfo, InputError> {
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let found = match revision.era() {
            Era::Modern => MethodInfo::all().find(|info| {
                info.name == asked.method
                    && info.as_input_request.is_some_and(|since| since.contains(revision))
            }),
            // An error may ask for the same inputs as a request.
            Era::Legacy => MethodInfo::find(&asked.method, Direction::ServerToClient, revision),
        };
        let Some(info) = found else {
            return Err(InputError::NotAnInput { key: asked.key.clone(), method: asked.method.clone() });
        };
        let declared = &self.config.capabilities;
        let missing = info.client_capability.filter(|&needed| !declared.has(needed));
        match missing.or_else(|| undeclared(declared, info, asked.params.as_ref())) {
            Some(needed) => Err(InputError::Undeclared { key: asked.key.clone(), method: info.name, needed }),
            None => Ok(info),
        }
    }
}

/// Encodes an answer for the server.
fn encode_answer(result: &dyn AnyResult, revision: Revision) -> Result<Raw, ErrorObject> {
    let mut json = Vec::new();
    let written = result.write_result(&mut json, revision, None).and_then(|()| {
        let text = String::from_utf8(json).map_err(serde_json::Error::custom)?;
        Raw::new(text)
    });
    written.map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, alloc::format!("the result cannot be encoded: {error}"))
    })
}
