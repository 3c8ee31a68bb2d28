//! Requests of a server to its client, in a legacy session.

use crate::Instant;
use crate::consent::{UrlConsent, UrlWarning};
use crate::peer::admission::{undeclared, undeclared_capability};
use crate::peer::encode::MetaEntries;
use crate::peer::{
    InboundId, MessageKind, Outbox, OutgoingRequest, RequestError, RequestId, RequestProperties,
    RequestRecord, RequestTimes, RequiredCapability, Strictness, admission, asks_for_progress,
};
use crate::prelude::*;
use crate::rpc::{Id, Raw, decode_member, read_members, write};
use crate::schema::{
    ClientCapability, CreateMessage, CreateMessageParams, Direction, Elicit, ElicitParams, IncludeContext,
    InputRequest, Method, MethodInfo, Ping, Revision,
};

use super::{Diagnostic, Eras, Phase, Server, ServerConfig, Session};

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

    fn properties(&self) -> RequestProperties {
        RequestProperties { related: self.related, ..RequestProperties::default() }
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
            admission::check_server_request(request.method)?;
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
    /// Whether a request of the client waits for its answer to a request of the server.
    pub(crate) fn awaits_client(&self, id: InboundId) -> bool {
        self.connection.outbound.has_related(id)
    }

    /// Checks the indexes against the records of the requests.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn check(&self) {
        self.connection.outbound.check();
    }
}

/// Checks that a request may be sent to the client of a legacy session, which has no methods of extensions.
///
/// # Errors
/// If the method belongs to an extension.
fn admit_request(config: &ServerConfig, method: &str) -> Result<(), RequestError> {
    match admission::find_method(&config.extensions, method, Direction::ServerToClient) {
        Some((extension, _)) => Err(undeclared(method, extension)),
        None => Ok(()),
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
            let missing = undeclared_capability(&session.capabilities, info, Some(&params))
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

// Checks of the input that a server requests of users and models, in its answers or by requests of its own.

/// Checks the content of an input request, or of a server request to a legacy client.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#security-considerations>,
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#message-content-constraints>
pub(crate) fn check_content(request: &InputRequest) -> Result<(), RequestError> {
    match request {
        //= S9.1 "No secrets by form mode; URL mode for secrets"
        InputRequest::Elicit(ElicitParams::Form(form)) => {
            if let Some(field) = form.requested_schema.secret_field() {
                return Err(RequestError::Content(format!(
                    "the form requests a secret in the field {field:?}: use a page (`elicit_url`), which the client does not see"
                )));
            }
            //= S9.10 "Forms hold only the primitive definitions, multi-select included"
            match form.requested_schema.unsupported_field() {
                Some((field, why)) => Err(RequestError::Content(format!(
                    "the field {field:?} of the form is not one that clients know, because {why}: use `PrimitiveSchema`"
                ))),
                None => Ok(()),
            }
        }
        //= S9.2 "URL: valid"
        InputRequest::Elicit(ElicitParams::Url(page)) => {
            check_page_url(&page.url).map_err(RequestError::UnsafePage)
        }
        //= S9.8 "every toolUse answered by a tool result"
        InputRequest::CreateMessage(params) => {
            params.check().map_err(|error| RequestError::Content(error.to_string()))
        }
        InputRequest::ListRoots(_) | InputRequest::Unknown(_) => Ok(()),
    }
}

/// Checks that a client could open the URL of a page, that it contains no credentials, and that it is encrypted unless
/// it leads to this machine.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
//= S9.2 "SHOULD https"
pub(crate) fn check_page_url(url: &str) -> Result<(), String> {
    let page = UrlConsent::new(url).map_err(|error| error.to_string())?;
    if page.warnings().contains(&UrlWarning::UserInfo) {
        return Err("the URL of the page contains credentials".into());
    }
    if page.warnings().contains(&UrlWarning::Unencrypted) {
        return Err("the URL of the page is not https: plain http is only for pages of this machine".into());
    }
    Ok(())
}

impl Server {
    /// Reports a form whose texts contain a URL, which clients could make clickable; with [`Strictness::Strict`] it is
    /// an error.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
    pub(super) fn check_texts(&mut self, request: &InputRequest) -> Result<(), RequestError> {
        let InputRequest::Elicit(ElicitParams::Form(form)) = request else { return Ok(()) };
        let Some(text) = form.text_with_url() else { return Ok(()) };
        let diagnostic = Diagnostic::UrlInForm { text: text.into() };
        //= S9.11 "No clickable URL in a field of a form"
        match self.config.strictness {
            Strictness::Strict => Err(RequestError::Content(diagnostic.to_string())),
            Strictness::Lenient => {
                self.diagnose(diagnostic);
                Ok(())
            }
        }
    }
}

/// The client capability that an input request needs; `None` if the protocol does not define its method.
pub(super) fn required_capability(request: &InputRequest) -> Option<ClientCapability> {
    Some(match request {
        //= S9.1 "only declared modes"
        InputRequest::Elicit(ElicitParams::Url(_)) => ClientCapability::ElicitationUrl,
        InputRequest::Elicit(_) => ClientCapability::ElicitationForm,
        //= S9.8 "Tool-enabled sampling only if sampling.tools"
        InputRequest::CreateMessage(params) if params.tools.is_some() || params.tool_choice.is_some() => {
            ClientCapability::SamplingTools
        }
        InputRequest::CreateMessage(_) => ClientCapability::Sampling,
        InputRequest::ListRoots(_) => ClientCapability::Roots,
        InputRequest::Unknown(_) => return None,
    })
}

/// The client capabilities that an input request needs.
pub(crate) fn required_capabilities(request: &InputRequest) -> impl Iterator<Item = ClientCapability> {
    //= S8.20 "includeContext thisServer/allServers not used"
    let context = match request {
        InputRequest::CreateMessage(params) => match params.include_context {
            Some(IncludeContext::ThisServer | IncludeContext::AllServers) => {
                Some(ClientCapability::SamplingContext)
            }
            _ => None,
        },
        _ => None,
    };
    required_capability(request).into_iter().chain(context)
}

#[cfg(test)]
mod tests;
