//! Requests of a server to its client, in a legacy session.

use super::admit::admit_request;
use super::input_requests::check_content;
use super::{Eras, Phase, Server, Session};
use crate::Instant;
use crate::peer::encode::MetaEntries;
use crate::peer::undeclared_capability::undeclared;
use crate::peer::{
    InboundId, MessageKind, Outbox, OutgoingRequest, RequestError, RequestId, RequestRecord, RequestTimes,
    RequiredCapability, asks_for_progress, reserved_methods,
};
use crate::prelude::*;
use crate::rpc::{Id, Raw, decode_member, read_members, write};
use crate::schema::{
    ClientCapability, CreateMessage, CreateMessageParams, Direction, Elicit, ElicitParams, InputRequest,
    Method, MethodInfo, Ping, Revision,
};

/// A request of the server in flight.
#[derive(Debug)]
pub(super) struct ServerRequest {
    /// The method, where it is one of the protocol's.
    pub(super) info: Option<&'static MethodInfo>,
    times: RequestTimes,
    /// The client's request on whose behalf it is made.
    related: Option<InboundId>,
    /// Whether the request asks for progress.
    pub(super) progress: bool,
}

impl RequestRecord for ServerRequest {
    fn times(&self) -> &RequestTimes {
        &self.times
    }

    fn times_mut(&mut self) -> &mut RequestTimes {
        &mut self.times
    }
}

impl Server {
    /// Sends a request to the client of a legacy session, on the stream of `related` where that is unanswered.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        related: Option<InboundId>,
        mut request: OutgoingRequest<'_>,
        out: &mut dyn Outbox,
    ) -> Result<RequestId, RequestError> {
        if !matches!(self.phase, Phase::Open) {
            return Err(RequestError::Closed);
        }
        let limits = &self.config.limits;
        if self.connection.outbound.len() >= limits.requests_out {
            return Err(RequestError::InFlight { limit: limits.requests_out });
        }
        if out.is_full(limits.queued_bytes) {
            return Err(RequestError::Overloaded { limit: limits.queued_bytes });
        }
        //= S1.9 "Never send JSON-RPC requests"
        //= S2.2 "No requests on stdout"
        if self.config.eras == Eras::ModernOnly {
            return Err(RequestError::Revision { method: request.method.into(), revision: Revision::LATEST });
        }
        let session = self.session().ok_or(RequestError::NotReady)?;
        if session.stateless {
            // Its client declares nothing, and there is no stream for a reply.
            admit(session, &request)?;
            return Err(RequestError::NotReady);
        }
        // Before the client is ready, it may only be sent pings.
        if !(session.initialized || request.method == Ping::NAME) {
            return Err(RequestError::NotReady);
        }
        let revision = session.revision;
        if request.info.is_none() {
            reserved_methods::check_server_request(request.method)?;
            request.info = MethodInfo::find(request.method, Direction::ServerToClient, revision);
        }
        if let Some(input) = admit(session, &request)? {
            self.check_texts(&input)?;
        }
        admit_request(&self.config, request.method)?;

        let OutgoingRequest { info, options, .. } = &request;
        let (timeout, hard_timeout) = (self.config.request_timeout, self.config.request_hard_timeout);
        let times = RequestTimes::new(now, *info, options, timeout, hard_timeout);
        let progress = asks_for_progress(*info, options);
        let record = ServerRequest { info: *info, times, related, progress };
        let id = self.connection.outbound.mint();
        let number = id.number();
        let entries = MetaEntries {
            progress: record.progress.then_some(number),
            options: Some(&request.options.meta),
            ..MetaEntries::default()
        };
        let params = write::request(out.buffer(), &Id::Number(number), request.method, |buffer| {
            request.params.write_params(buffer, revision, entries)
        })
        .map_err(|error| RequestError::Encode(error.to_string()))?;
        let related = related.and_then(|related| self.inbound.get(related)).map(|(id, _)| id);
        out.commit(MessageKind::Request {
            id: number,
            method: request.method,
            info: request.info,
            params,
            name_param: None,
            related,
            revision,
        });
        self.connection.outbound.insert(id, record);
        Ok(id)
    }
}

#[cfg(feature = "std")]
impl Server {
    /// The requests of the client that wait for its answer to a request of the server.
    pub(crate) fn waiting_for_client(&self) -> alloc::collections::BTreeSet<InboundId> {
        self.connection.outbound.iter().filter_map(|(_, request)| request.related).collect()
    }
}

/// Checks that a request may be sent to the client of a session. Returns the input that it requests of users or models.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation>
fn admit(session: &Session, request: &OutgoingRequest<'_>) -> Result<Option<InputRequest>, RequestError> {
    let Some(info) = request.info else { return Ok(None) };
    if !info.revisions.contains(session.revision) || !info.direction.includes(Direction::ServerToClient) {
        return Err(RequestError::Revision { method: request.method.into(), revision: session.revision });
    }
    //= S1.19 "Only negotiated capabilities used"
    let mut input = None;
    let missing = match info.client_capability.filter(|&needed| !session.capabilities.has(needed)) {
        Some(needed) => Some(needed),
        None if [Elicit::NAME, CreateMessage::NAME].contains(&info.name) => {
            // Unprojected: the revision may lack the very field that the client has not declared.
            let params = request.params.to_raw().map_err(|error| RequestError::Encode(error.to_string()))?;
            let missing = undeclared(&session.capabilities, info, Some(&params))
                .or(undeclared_context(session, info, &params));
            if missing.is_none() {
                input = Some(check_params(info, &params)?);
            }
            missing
        }
        None => None,
    };
    match missing {
        Some(needed) => Err(RequestError::Capability {
            method: request.method.into(),
            needed: RequiredCapability::Client(needed),
        }),
        None => Ok(input),
    }
}

/// Checks the content of an elicitation or a sampling request.
fn check_params(info: &MethodInfo, params: &Raw) -> Result<InputRequest, RequestError> {
    let read = match info.name {
        Elicit::NAME => params.decode::<ElicitParams>().map(InputRequest::Elicit),
        _ => params.decode::<CreateMessageParams>().map(InputRequest::CreateMessage),
    };
    let input = read.map_err(|error| RequestError::Encode(error.to_string()))?;
    check_content(&input).map(|()| input)
}

/// The capability for context of servers that a request needs and the client lacks, where its revision can declare it.
fn undeclared_context(session: &Session, info: &MethodInfo, params: &Raw) -> Option<ClientCapability> {
    let needed = ClientCapability::SamplingContext;
    if info.name != CreateMessage::NAME
        || !session.revision.differences().context_capability
        || session.capabilities.has(needed)
    {
        return None;
    }
    //= S8.20 "includeContext thisServer/allServers not used"
    let [context] = read_members(params.as_str(), ["includeContext"]).ok()?;
    matches!(decode_member(context), Some("thisServer" | "allServers")).then_some(needed)
}

#[cfg(test)]
mod tests;
