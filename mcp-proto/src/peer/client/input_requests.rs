//! Input that a server asks for in a result, gathered from the application.
//!
//! Each thing that is asked for becomes an [`Event::Request`], as if a legacy server had sent a request, and is answered
//! by [`Client::respond`]. Once all of it has been answered, or the first answer is an error, whoever asked on the
//! server's behalf has it [handed over](Client::send_update).
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::Instant;
use crate::peer::declared::undeclared;
use crate::peer::event_queue::Pressure;
use crate::peer::{AnyResult, InboundId, InputError, InvalidAnswerError, Outbox, Outcome, RequestId};
use crate::rpc::{ErrorObject, Raw, code, write};
use crate::schema::{Direction, Era, MethodInfo, Revision};

use super::{Client, Event};

/// One thing that is asked for.
#[derive(Clone, Debug)]
pub(super) struct RawInputRequest {
    /// The server's name for it.
    pub(super) key: String,
    pub(super) method: String,
    pub(super) params: Option<Raw>,
}

/// What a server asks for: the content of an `inputRequests`.
#[derive(Clone, Debug)]
pub(super) struct RawInputRequests(pub(super) Vec<RawInputRequest>);

/// Why an `inputRequests` is not asked of the application.
#[derive(Debug)]
pub(super) enum InputRequestsError {
    /// What is wrong with it, in words.
    Malformed(String),
    /// It has this many entries, more than the limit.
    TooMany { asked: usize },
}

impl From<InputRequestsError> for Outcome {
    fn from(error: InputRequestsError) -> Self {
        match error {
            InputRequestsError::Malformed(what) => Self::Invalid(InvalidAnswerError::Malformed(what)),
            InputRequestsError::TooMany { asked } => Self::Input(InputError::TooMany { count: asked }),
        }
    }
}

impl RawInputRequests {
    /// Reads an `inputRequests` of at most `most` entries. Entries beyond that are counted, and otherwise ignored.
    ///
    /// # Errors
    /// If it is malformed, names a key twice, or has too many entries.
    pub(super) fn read(raw: &Raw, most: usize) -> Result<Self, InputRequestsError> {
        let malformed = InputRequestsError::Malformed;
        let mut entries = EntriesVisitor {
            max_entries: most,
            entries: Vec::new(),
            keys: BTreeSet::new(),
            count: 0,
            duplicate_key: None,
        };
        serde_json::Deserializer::from_str(raw.as_str())
            .deserialize_map(&mut entries)
            .map_err(|error| malformed(error.to_string()))?;
        if let Some(key) = entries.duplicate_key {
            return Err(malformed(alloc::format!("the input {key:?} is asked for twice")));
        }
        if entries.count > most {
            return Err(InputRequestsError::TooMany { asked: entries.count });
        }
        let asked =
            entries.entries.into_iter().map(|(key, value)| RawInputRequest::read(key, &raw.part(value)));
        asked.collect::<Result<_, _>>().map(Self).map_err(malformed)
    }
}

/// Collects the first entries of an `inputRequests`, and counts the others.
struct EntriesVisitor<'a> {
    max_entries: usize,
    entries: Vec<(String, &'a RawValue)>,
    keys: BTreeSet<String>,
    count: usize,
    /// The first key that came twice.
    duplicate_key: Option<String>,
}

impl<'de> Visitor<'de> for &mut EntriesVisitor<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while self.count < self.max_entries && self.duplicate_key.is_none() {
            let Some(key) = map.next_key::<String>()? else { return Ok(()) };
            self.count = self.count.saturating_add(1);
            let value = map.next_value()?;
            if self.keys.insert(key.clone()) {
                self.entries.push((key, value));
            } else {
                self.duplicate_key = Some(key);
            }
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            self.count = self.count.saturating_add(1);
        }
        Ok(())
    }
}

impl RawInputRequest {
    /// Reads one request of an `inputRequests`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn read(key: String, raw: &Raw) -> Result<Self, String> {
        let request: Request<'_> =
            raw.decode().map_err(|error| alloc::format!("the input request {key:?}: {error}"))?;
        let params = request.params.map(|params| raw.part(params));
        Ok(Self { key, method: request.method, params })
    }
}

#[derive(Deserialize)]
struct Request<'a> {
    method: String,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// The members of an object, in order, each as it came.
pub(super) struct RawMembers<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// What has been answered, in the order in which it was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct RawInputResponses(Vec<(String, Raw)>);

impl RawInputResponses {
    /// Appends it as the content of an `inputResponses`.
    ///
    /// # Errors
    /// If an answer is not JSON throughout.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        out.push(b'{');
        for (number, (key, answer)) in self.0.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write::json(out, key)?;
            out.push(b':');
            write::raw(out, answer)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// Each key with its answer.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Raw)> {
        self.0.iter().map(|(key, answer)| (&**key, answer))
    }
}

/// Who is to be told what was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputOwner {
    /// The request of this number, which goes out once more with it.
    Round(i64),
    /// The request of this number, which has become a task.
    Task(i64),
}

/// A set of input requests that is being answered: never used twice on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InputSetId(u64);

/// A set of input requests, as far as it has been answered.
#[derive(Debug)]
struct InputSet {
    owner: InputOwner,
    on_behalf_of: RequestId,
    slots: Vec<InputSlot>,
    /// How many are still to be answered.
    unanswered: usize,
}

#[derive(Debug)]
struct InputSlot {
    key: String,
    request: InboundId,
    answer: Option<Raw>,
}

/// All that is being asked of the application in place of a server.
#[derive(Debug, Default)]
pub(super) struct PendingInputs {
    sets: BTreeMap<InputSetId, InputSet>,
    by_request: BTreeMap<InboundId, (InputSetId, usize)>,
    next: u64,
}

impl Client {
    /// Asks the application for each of `requests`, on behalf of the request `of`. There must be at least one; the owner
    /// is told by [`send_update`](Self::send_update) when all have been answered.
    ///
    /// # Errors
    /// If something of it can not be asked; then nothing was.
    pub(super) fn request_input(
        &mut self,
        owner: InputOwner,
        of: RequestId,
        requests: RawInputRequests,
    ) -> Result<InputSetId, InputError> {
        let RawInputRequests(requests) = requests;
        let mut bytes = 0_usize;
        let mut admitted = Vec::with_capacity(requests.len());
        for asked in &requests {
            admitted.push(self.admit_input(asked)?);
            bytes = bytes.saturating_add(bytes_of(asked));
        }
        let waiting = self.inputs.by_request.len().saturating_add(self.inbound.len());
        let full = waiting.saturating_add(requests.len()) > self.config.limits.requests_in;
        if full || self.events.pressure(bytes) >= Pressure::Requests {
            return Err(InputError::TooMany { count: requests.len() });
        }
        let gather = InputSetId(self.inputs.next);
        self.inputs.next = self.inputs.next.saturating_add(1);
        let open = requests.len();
        let mut slots = Vec::with_capacity(open);
        for (index, (asked, method)) in requests.into_iter().zip(admitted).enumerate() {
            let id = self.inbound.mint();
            let bytes = bytes_of(&asked);
            self.inputs.by_request.insert(id, (gather, index));
            slots.push(InputSlot { key: asked.key, request: id, answer: None });
            self.events.push(Event::Request { id, method, params: asked.params }, bytes);
        }
        self.inputs.sets.insert(gather, InputSet { owner, on_behalf_of: of, slots, unanswered: open });
        Ok(gather)
    }

    /// Nobody waits for these answers any more: what has not been answered is taken back.
    pub(super) fn withdraw_input(&mut self, gather: InputSetId) {
        let Some(gathering) = self.inputs.sets.remove(&gather) else { return };
        for InputSlot { request: asked, .. } in gathering.slots {
            if self.inputs.by_request.remove(&asked).is_some() {
                self.events.push(Event::RequestCancelled { id: asked, reason: None }, 0);
            }
        }
    }

    /// Takes everything back.
    pub(super) fn withdraw_all_input(&mut self) {
        while let Some((&gather, _)) = self.inputs.sets.first_key_value() {
            self.withdraw_input(gather);
        }
    }

    /// Takes an answer if it is one to an input request; returns whether it is.
    pub(super) fn take_input(
        &mut self,
        now: Instant,
        request: InboundId,
        answer: &Result<&dyn AnyResult, ErrorObject>,
        out: &mut dyn Outbox,
    ) -> bool {
        let Some((gather, index)) = self.inputs.by_request.remove(&request) else { return false };
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let answer = match answer {
            Ok(result) => encode_answer(*result, revision),
            Err(error) => Err(error.clone()),
        };
        let Some(gathering) = self.inputs.sets.get_mut(&gather) else { return true };
        let Some(slot) = gathering.slots.get_mut(index) else { return true };
        let owner = gathering.owner;
        match answer {
            Ok(answer) => {
                slot.answer = Some(answer);
                gathering.unanswered = gathering.unanswered.saturating_sub(1);
                if gathering.unanswered == 0
                    && let Some(InputSet { slots, .. }) = self.inputs.sets.remove(&gather)
                {
                    let answers = slots.into_iter().filter_map(|slot| Some((slot.key, slot.answer?)));
                    self.deliver_input(now, owner, Ok(RawInputResponses(answers.collect())), out);
                }
            }
            Err(error) => {
                let key = slot.key.clone();
                self.withdraw_input(gather);
                self.deliver_input(now, owner, Err(InputError::Failed { key, error }), out);
            }
        }
        true
    }

    /// Tells who asked.
    fn deliver_input(
        &mut self,
        now: Instant,
        owner: InputOwner,
        answers: Result<RawInputResponses, InputError>,
        out: &mut dyn Outbox,
    ) {
        match owner {
            InputOwner::Round(number) => self.handle_input_answers(now, number, answers, out),
            InputOwner::Task(number) => self.handle_task_input(now, number, answers, out),
        }
    }

    /// The request of this side on whose behalf the server asks, if it asks in a result: where the event
    /// [`Request`](Event::Request) comes from a server that needs input before it can finish.
    pub fn on_behalf_of(&self, request: InboundId) -> Option<RequestId> {
        let (gather, _) = self.inputs.by_request.get(&request)?;
        self.inputs.sets.get(gather).map(|gathering| gathering.on_behalf_of)
    }

    /// Whether this may be asked for in a result, and this client declared that it answers it.
    fn admit_input(&self, asked: &RawInputRequest) -> Result<&'static MethodInfo, InputError> {
        let revision = self.revision().unwrap_or(Revision::LATEST);
        let found = match revision.era() {
            Era::Modern => MethodInfo::all().find(|info| {
                info.name == asked.method && info.as_input.is_some_and(|since| since.contains(revision))
            }),
            // An error may ask for what a request may.
            Era::Legacy => MethodInfo::find(&asked.method, Direction::ServerToClient, revision),
        };
        let Some(info) = found else {
            return Err(InputError::NotAnInput { key: asked.key.clone(), method: asked.method.clone() });
        };
        let declared = &self.config.capabilities;
        let missing = info.client.filter(|&needed| !declared.has(needed));
        match missing.or_else(|| undeclared(declared, info, asked.params.as_ref())) {
            Some(needed) => Err(InputError::Undeclared { key: asked.key.clone(), method: info.name, needed }),
            None => Ok(info),
        }
    }
}

fn bytes_of(asked: &RawInputRequest) -> usize {
    asked.params.as_ref().map_or(0, |params| params.as_bytes().len())
}

/// The answer as it goes to the server.
fn encode_answer(result: &dyn AnyResult, revision: Revision) -> Result<Raw, ErrorObject> {
    let mut json = Vec::new();
    let written = result.write_result(&mut json, revision, None).and_then(|()| {
        let text = String::from_utf8(json).map_err(serde_json::Error::custom)?;
        Raw::new(text)
    });
    written.map_err(|error| {
        ErrorObject::new(code::INTERNAL_ERROR, alloc::format!("the result does not encode: {error}"))
    })
}
