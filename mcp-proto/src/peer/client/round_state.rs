//! The state of a request that a server answers by asking for input, as its record owns it.

use alloc::collections::BTreeSet;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, write};
use crate::schema::Revision;

use super::raw_inputs::{InputSetId, RawInputResponses, RawMembers};

/// The time given to the user for the pages before the request is sent again, if the server does not report their
/// completion. Each further time is twice as long.
const FIRST_PAGE_WAIT: Duration = Duration::from_secs(2);
/// The longest of these times.
const MAX_PAGE_WAIT: Duration = Duration::from_secs(60);

/// Pages that the user must visit.
#[derive(Debug)]
pub(super) struct RequiredPages {
    /// The outcome of the request if the user declines.
    pub(super) error: ErrorObject,
    /// The pages that the user was asked to visit.
    pub(super) requested: BTreeSet<Box<str>>,
    /// Those that the server has not reported as complete.
    pub(super) open: BTreeSet<Box<str>>,
}

/// The next step of a request that was answered by asking for input.
#[derive(Debug)]
pub(super) enum RoundStep {
    /// The application is asked for input.
    Input { set: InputSetId, state: Option<Raw> },
    /// The application is asked for consent to visit pages.
    Consent { set: InputSetId },
    /// The request is sent again after the pause: unchanged, if there is no addition.
    Pause { until: Instant, addition: Option<RoundParams> },
}

impl RoundStep {
    /// When the request is sent again, if it waits for that alone.
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Pause { until, .. } => Some(*until),
            Self::Input { .. } | Self::Consent { .. } => None,
        }
    }

    /// The input requests to the application.
    pub(super) fn input_set(&self) -> Option<InputSetId> {
        match self {
            Self::Input { set, .. } | Self::Consent { set } => Some(*set),
            Self::Pause { .. } => None,
        }
    }
}

/// The input rounds of a request so far.
#[derive(Debug, Default)]
pub(super) struct InputRound {
    /// The number of times that it was sent again.
    pub(super) count: u32,
    /// The number of consecutive answers that asked for no new input.
    pub(super) idle: u32,
    pub(super) pages: Option<RequiredPages>,
}

impl InputRound {
    /// The pages that the server has not reported as complete.
    pub(super) fn open_pages(&self) -> impl Iterator<Item = &Box<str>> {
        self.pages.iter().flat_map(|pages| &pages.open)
    }

    /// Pauses until the user has completed the pages, or a time has passed.
    pub(super) fn pause_for_pages(&mut self, now: Instant) -> RoundStep {
        let pause = match self.open_pages().next().is_some() || self.idle > 0 {
            true => doubled(FIRST_PAGE_WAIT, Some(self.idle), MAX_PAGE_WAIT),
            false => Duration::ZERO,
        };
        self.idle = self.idle.saturating_add(1);
        RoundStep::Pause { until: now + pause, addition: None }
    }
}

/// A duration that doubles with each of `times`, up to `longest`; zero before the first.
pub(super) fn doubled(first: Duration, times: Option<u32>, longest: Duration) -> Duration {
    match times {
        None => Duration::ZERO,
        Some(times) => first.saturating_mul(2_u32.saturating_pow(times)).min(longest),
    }
}

/// The stored parameters of a request, for sending it again with the input that the server has asked for.
#[derive(Debug)]
pub(super) struct StoredParams {
    /// The parameters, as they were sent.
    pub(super) params: Bytes,
    /// The revision that they are encoded for.
    pub(super) revision: Revision,
}

impl StoredParams {
    /// Whether the server may answer that the user must visit pages first.
    pub(super) fn can_require_pages(&self) -> bool {
        self.revision.differences().url_elicitation_error
    }

    /// Appends the parameters of another round: these, with the answers and state added.
    pub(super) fn write_with(
        &self,
        out: &mut Vec<u8>,
        addition: Option<&RoundParams>,
    ) -> Result<(), serde_json::Error> {
        const RESPONSES: &str = "inputResponses";
        const STATE: &str = "requestState";
        let Some(RoundParams { responses, state }) = addition else {
            out.extend_from_slice(&self.params);
            return Ok(());
        };
        let RawMembers(members) = serde_json::from_slice(&self.params)?;
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
}

/// The parameters that the next round adds to those of the first.
#[derive(Debug)]
pub(super) struct RoundParams {
    pub(super) responses: Option<RawInputResponses>,
    pub(super) state: Option<Raw>,
}

/// Starts a member of the object that starts at `start`; the first one opens the object.
fn begin_member(out: &mut Vec<u8>, start: usize, name: &str) -> Result<(), serde_json::Error> {
    out.push(if out.len() == start { b'{' } else { b',' });
    write::json(out, name)?;
    out.push(b':');
    Ok(())
}
