//! Input requests from a server's results, and their answers from the application.
//!
//! Each input request becomes an [`Event::Request`], as if a legacy server had sent a request, and is answered by
//! [`Client::respond`]. Once all are answered, or the first answer is an error, `deliver_input` passes the answers to
//! the owner of the set: an input round or a task.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::peer::admission::undeclared_capability;
use crate::peer::event_queue::Pressure;
use crate::peer::{AnyResult, InboundId, InputError, InvalidAnswerError, Outbox, Outcome, RequestId};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code, decode_member, read_members, write};
use crate::schema::{Direction, Elicit, Era, Method as _, MethodInfo, Revision};

use super::incoming_requests::bytes_of;
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
    sets: OrderedMap<InputSetId, InputSet>,
    by_request: OrderedMap<InboundId, (InputSetId, usize)>,
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
        match missing.or_else(|| undeclared_capability(declared, info, asked.params.as_ref())) {
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

// Input requests and their answers as they travel, not decoded.

/// The input requests and state of a result.
pub(super) struct InputRequirement {
    pub(super) requests: Option<Raw>,
    /// An opaque string.
    pub(super) state: Option<Raw>,
}

impl InputRequirement {
    /// Reads an `InputRequiredResult`.
    ///
    /// # Errors
    /// A message that says why it is malformed.
    pub(super) fn read(result: &Raw) -> Result<Self, String> {
        let [requests, state] = read_members(result.as_str(), ["inputRequests", "requestState"])
            .map_err(|error| error.to_string())?;
        if state.is_some_and(|state| !state.starts_with('"')) {
            return Err("its requestState is not a string".into());
        }
        if requests.is_some_and(|requests| !requests.starts_with('{')) {
            return Err("its inputRequests are not an object".into());
        }
        //= C5.1 "has inputRequests and/or requestState"
        if requests.is_none() && state.is_none() {
            return Err("it asks for input, and has neither inputRequests nor requestState".into());
        }
        let part = |value: Option<&str>| value.map(|value| result.part(value));
        Ok(Self { requests: part(requests), state: part(state) })
    }
}

/// An input request, not decoded.
#[derive(Clone, Debug)]
pub(super) struct RawInputRequest {
    /// The server's key for it.
    pub(super) key: String,
    pub(super) method: String,
    pub(super) params: Option<Raw>,
}

impl RawInputRequest {
    /// Reads one request of an `inputRequests`.
    ///
    /// # Errors
    /// A message that says why it is malformed.
    pub(super) fn read(key: String, raw: &Raw) -> Result<Self, String> {
        let request: Request<'_> =
            raw.decode().map_err(|error| alloc::format!("the input request {key:?}: {error}"))?;
        let params = request.params.map(|params| raw.part(params.get()));
        Ok(Self { key, method: request.method, params })
    }
}

#[derive(Deserialize)]
struct Request<'a> {
    method: String,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// The content of an `inputRequests`.
#[derive(Clone, Debug)]
pub(super) struct RawInputRequests(pub(super) Vec<RawInputRequest>);

impl RawInputRequests {
    /// Reads an `inputRequests` of at most `most` entries. Entries beyond that are counted, and otherwise ignored.
    ///
    /// # Errors
    /// The outcome of the request, if it is malformed, names a key twice, or has too many entries.
    pub(super) fn read(raw: &Raw, most: usize) -> Result<Self, Outcome> {
        let malformed = |what| Outcome::Invalid(InvalidAnswerError::Malformed(what));
        let mut entries = EntriesVisitor {
            max_entries: most,
            entries: Vec::new(),
            keys: OrderedSet::new(),
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
            return Err(Outcome::Input(InputError::TooMany { count: entries.count }));
        }
        let asked = entries
            .entries
            .into_iter()
            .map(|(key, value)| RawInputRequest::read(key, &raw.part(value.get())));
        asked.collect::<Result<_, _>>().map(Self).map_err(malformed)
    }
}

/// Collects the first entries of an `inputRequests`, and counts the others.
struct EntriesVisitor<'a> {
    max_entries: usize,
    entries: Vec<(String, &'a RawValue)>,
    keys: OrderedSet<String>,
    count: usize,
    /// The first duplicate key.
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

/// The members of an object in order, not decoded.
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

/// The answers so far, in the order of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct RawInputResponses(pub(super) Vec<(String, Raw)>);

impl RawInputResponses {
    /// Appends the answers as the content of an `inputResponses`.
    ///
    /// # Errors
    /// If an answer is not valid JSON.
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

/// The identifier of a set of input requests, never reused on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InputSetId(pub(super) u64);

/// The pages that an error requires the user to visit, each once; `None` unless each entry is readable and has an id.
///
/// More than `most` different pages are an error; the excess is counted, not stored.
pub(super) fn read_pages(data: Option<&Raw>, most: usize) -> Option<Result<Vec<RawInputRequest>, Outcome>> {
    let data = data?;
    let [elicitations] = read_members(data.as_str(), ["elicitations"]).ok()?;
    let mut known = OrderedSet::new();
    let mut asked: Vec<RawInputRequest> = Vec::new();
    for page in decode_member::<Vec<&RawValue>>(elicitations)? {
        let [mode, id] = read_members(page.get(), ["mode", "elicitationId"]).ok()?;
        let id: String = decode_member(id)?;
        if decode_member::<String>(mode)? != "url" {
            return None;
        }
        if known.insert(id.clone()) && asked.len() < most {
            asked.push(RawInputRequest {
                key: id,
                method: Elicit::NAME.into(),
                params: Some(data.part(page.get())),
            });
        }
    }
    match known.len() {
        0 => None,
        count if count > most => Some(Err(Outcome::Input(InputError::TooMany { count }))),
        _ => Some(Ok(asked)),
    }
}

/// Whether the user has agreed.
pub(super) fn is_accepted(answer: &Raw) -> bool {
    let action = read_members(answer.as_str(), ["action"]).ok().and_then(|[action]| decode_member(action));
    action.is_some_and(|action: String| action == "accept")
}
