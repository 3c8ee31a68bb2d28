//! Wire formats of input rounds: the server's answers, and the parameters of repeated requests.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::value::RawValue;

use crate::peer::client::input_requests::{
    InputRequestsError, RawInputRequest, RawInputResponses, RawMembers,
};
use crate::peer::client::request::StoredParams;
use crate::rpc::{Raw, decode_member, read_members, write};
use crate::schema::{Elicit, Method};

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

/// The parameters that the next round adds to those of the first.
#[derive(Debug)]
pub(in crate::peer::client) struct RoundParams {
    pub(super) responses: Option<RawInputResponses>,
    pub(super) state: Option<Raw>,
}

/// The pages that an error requires the user to visit, each once; `None` unless each entry is readable and has an id.
///
/// More than `most` different pages are an error; the excess is counted, not stored.
pub(super) fn read_pages(
    data: Option<&Raw>,
    most: usize,
) -> Option<Result<Vec<RawInputRequest>, InputRequestsError>> {
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
        count if count > most => Some(Err(InputRequestsError::TooMany { asked: count })),
        _ => Some(Ok(asked)),
    }
}

/// Whether the user has agreed.
pub(super) fn is_accepted(answer: &Raw) -> bool {
    let action = read_members(answer.as_str(), ["action"]).ok().and_then(|[action]| decode_member(action));
    action.is_some_and(|action: String| action == "accept")
}

/// Appends the parameters of another round: those of the first, with the answers and state added.
pub(super) fn write_params(
    out: &mut Vec<u8>,
    kept: &StoredParams,
    addition: Option<&RoundParams>,
) -> Result<(), serde_json::Error> {
    const RESPONSES: &str = "inputResponses";
    const STATE: &str = "requestState";
    let Some(RoundParams { responses, state }) = addition else {
        out.extend_from_slice(&kept.params);
        return Ok(());
    };
    let RawMembers(members) = serde_json::from_slice(&kept.params)?;
    let start = out.len();
    // The first round's own parameters may contain these members, if the application continues an earlier request.
    //= C5.2 "then retry the ORIGINAL request with `inputResponses`"
    for (name, value) in members.iter().filter(|(name, _)| name != RESPONSES && name != STATE) {
        begin_member(out, start, name)?;
        out.extend_from_slice(value.get().as_bytes());
    }
    if let Some(responses) = responses {
        begin_member(out, start, RESPONSES)?;
        //= C5.2 "Answer each inputRequest with the matching result under the same key"
        responses.write(out)?;
    }
    //= C5.3 "absent in → absent out"
    if let Some(state) = state {
        begin_member(out, start, STATE)?;
        //= C5.3 "`requestState` echoed byte-exact; never parsed or changed"
        out.extend_from_slice(state.as_bytes());
    }
    out.push(b'}');
    Ok(())
}

/// Starts a member of the object that starts at `start`; the first one opens the object.
fn begin_member(out: &mut Vec<u8>, start: usize, name: &str) -> Result<(), serde_json::Error> {
    out.push(if out.len() == start { b'{' } else { b',' });
    write::json(out, name)?;
    out.push(b':');
    Ok(())
}
