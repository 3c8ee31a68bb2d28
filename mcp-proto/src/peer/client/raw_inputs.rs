//! Input requests and their answers as they travel, not decoded.

use alloc::collections::BTreeSet;
use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::peer::{InputError, InvalidAnswerError, Outcome};
use crate::prelude::*;
use crate::rpc::{Raw, decode_member, read_members, write};
use crate::schema::{Elicit, Method as _};

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
    keys: BTreeSet<String>,
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
    let mut known = BTreeSet::new();
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
