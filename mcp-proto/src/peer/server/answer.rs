//! Implementation of the server's commands to answer and to close. [`ServerCommands`](super::ServerCommands) has their
//! documentation.

use memchr::memchr_iter;

use crate::Instant;
use crate::peer::admission;
use crate::peer::{AnyResult, InboundId, LostReason, Outbox, RequestError, ResultDefaults};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Id, Raw, code, decode_member, read_members, write};
use crate::schema::{
    CallTool, ClientCapabilities, ClientCapability, Era, Extension, InputRequiredResult, Method as _,
    MissingCapabilityData, ResultType, Revision, ServerCapability, UnsupportedVersionData,
};

use super::outgoing_requests::{check_content, required_capabilities, required_capability};
use super::{CloseReason, Diagnostic, Eras, PendingRequest, Phase, Server, ServerConfig};

/// The answer to a request.
pub enum Answer<'a> {
    /// The method's result, or one of a type that a registered [extension](crate::schema::Extension) defines. Fields that the revision lacks are left out;
    /// fields that a modern result must have are added.
    Result(&'a dyn AnyResult),
    /// A request for the client's input: only for modern requests to call a tool, get a prompt or read a resource.
    InputRequired(&'a InputRequiredResult),
    /// An error. A code that the request's revision forbids is replaced by the nearest allowed one.
    Error(ErrorObject),
}

impl Server {
    /// Answers a request.
    pub(crate) fn respond(&mut self, request: InboundId, answer: Answer<'_>, out: &mut dyn Outbox) {
        if self.inbound.get(request).is_some_and(|(_, served)| served.listening.is_some()) {
            return;
        }
        self.send_last_progress(request, out);
        //= S1.1 "Answers carry the same id"
        let Some((id, served)) = self.take(request) else { return };
        let written = match answer {
            Answer::Result(result) => check_result_kind(&self.config, &served, result.result_type())
                .and_then(|()| self.write_result(&id, &served, result, None, out)),
            Answer::InputRequired(required) => self.check_input(&served, required).and_then(|()| {
                self.write_result(&id, &served, required, Some(&ResultType::InputRequired), out)
            }),
            Answer::Error(error) => {
                //= C1.12 "own (app) codes SHOULD lie outside -32768…-32000"
                //= S1.10 "own codes outside -32768…-32000"
                let reserved = error.code;
                let error = adapt_error(error, served.revision);
                let is_changed = error.code != reserved && (-32_099..=-32_020).contains(&reserved);
                if served.era == Era::Modern && (is_changed || code::is_undefined(reserved)) {
                    self.diagnose(Diagnostic::ReservedErrorCode { id: request, code: reserved });
                }
                self.reply_error(Some(&id), served.batch, &error, out);
                Ok(())
            }
        };
        if let Err(error) = written {
            self.diagnose(Diagnostic::AnswerReplaced { id: request, error: error.clone() });
            self.reply_error(Some(&id), served.batch, &error, out);
        }
        self.advance_close();
    }

    pub(super) fn write_result(
        &mut self,
        id: &Id,
        served: &PendingRequest,
        result: &dyn AnyResult,
        kind: Option<&ResultType>,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        let info = self.info.clone();
        let stamp = (served.era == Era::Modern).then(|| ResultDefaults {
            kind,
            server_info: info.as_deref(),
            //= S1.14 "ttlMs, cacheScope"
            hint: served.info.and_then(|info| self.config.cache_hint(info)),
            subscription: None,
        });
        let revision = served.revision;
        //= S8.10 "Embedded resources → `resources` capability"
        // <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#embedded-resources>
        let is_probed = served.info.is_some_and(|info| info.name == CallTool::NAME)
            && !self.config.capabilities.has(ServerCapability::Resources)
            && result.may_embed_resource();
        let mut embeds_undeclared_resource = false;
        self.reply(Some(id), served.batch, out, |buffer| {
            write::result(buffer, id, |buffer| {
                let start = buffer.len();
                result.write_result(buffer, revision, stamp)?;
                let written = buffer.get(start..).unwrap_or_default();
                embeds_undeclared_resource = is_probed && embeds_resource(written);
                Ok(())
            })
        })
        .map_err(|error| internal_error(format!("the result cannot be encoded: {error}")))?;
        if embeds_undeclared_resource {
            self.diagnose(Diagnostic::UndeclaredResources);
        }
        Ok(())
    }

    /// Starts to close. `serves_held` says whether requests that are held undispatched are served or refused.
    pub(super) fn begin_close(&mut self, now: Instant, serves_held: bool, out: &mut dyn Outbox) {
        if !matches!(self.phase, Phase::Open) {
            return;
        }
        self.phase = Phase::Finishing { until: now + self.config.close_timeout, serves_backlog: serves_held };
        let is_listen = |served: &PendingRequest| served.listening.is_some();
        for subscription in self.inbound.handles_of(is_listen) {
            self.end_subscription(subscription, out);
        }
        for (id, _) in self.connection.outbound.iter() {
            out.cancel(id.number(), None);
        }
        self.resolve_outbound(&LostReason::Closed);
        if !serves_held {
            self.refuse_queued(&internal_error("the server is closing"), out);
        }
        self.advance_close();
    }

    /// Ends the connection at once.
    pub(crate) fn abort(&mut self, closed: CloseReason) {
        if !self.is_closed() {
            self.finish(closed);
        }
    }
}

impl Server {
    /// Checks that a request may be answered by asking for this input.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#supported-requests>
    fn check_input(
        &mut self,
        served: &PendingRequest,
        required: &InputRequiredResult,
    ) -> Result<(), ErrorObject> {
        check_result_kind(&self.config, served, Some(&ResultType::InputRequired))?;
        let requests = || required.input_requests.iter().flatten().map(|(_, request)| request);
        //= S4.2 "≥1 of inputRequests, requestState"
        if requests().next().is_none() && required.request_state.is_none() {
            return Err(internal_error("the result requires input but has no input requests and no state"));
        }
        let mut missing: Option<ClientCapabilities> = None;
        for request in requests() {
            //= S4.3 "values ElicitRequest, CreateMessageRequest or ListRootsRequest"
            if required_capability(request).is_none() {
                return Err(internal_error("an input request of the result has an unknown method"));
            }
            //= S1.6 "Undeclared client capability needed → -32021 with requiredCapabilities"
            //= S4.3 "only if that capability is declared"
            for needed in required_capabilities(request).filter(|needed| !served.capabilities.has(*needed)) {
                missing = Some(missing.unwrap_or_default().with(needed));
            }
        }
        if let Some(missing) = missing {
            return Err(missing_capabilities(missing));
        }
        let invalid = |error: RequestError| internal_error(error.to_string());
        requests().try_for_each(check_content).map_err(invalid)?;
        requests().try_for_each(|request| self.check_texts(request)).map_err(invalid)
    }
}

/// Checks that a request may be answered by a result of this kind.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#result-types>
fn check_result_kind(
    config: &ServerConfig,
    served: &PendingRequest,
    kind: Option<&ResultType>,
) -> Result<(), ErrorObject> {
    let possible = match (kind, served.era) {
        (None | Some(ResultType::Complete), _) => true,
        (Some(_), Era::Legacy) => false,
        //= S4.1 "input_required only for tools/call, prompts/get, resources/read"
        (Some(ResultType::InputRequired), Era::Modern) => served.info.is_some_and(|info| info.input_required),
        (Some(ResultType::Task), Era::Modern) => {
            let needed = ClientCapability::TasksExtension;
            if !served.capabilities.has(needed) {
                return Err(missing_capabilities(ClientCapabilities::default().with(needed)));
            }
            //= S11.16 "CreateTaskResult only for requests that can become tasks"
            served.info.is_some_and(|info| info.can_be_task)
        }
        (Some(ResultType::Other(name)), Era::Modern) => {
            return admit_result_type(config, served, name);
        }
    };
    let refused = || internal_error("the method cannot have a result of this type");
    possible.then_some(()).ok_or_else(refused)
}

/// Checks that the result of a request may have this `resultType`.
///
/// # Errors
/// The answer in its place.
fn admit_result_type(config: &ServerConfig, served: &PendingRequest, name: &str) -> Result<(), ErrorObject> {
    match admission::find_result_type(&config.extensions, name) {
        Some(extension) => require_extension(extension, &served.capabilities),
        None => {
            let message = alloc::format!("no registered extension defines the result type {name:?}");
            Err(internal_error(message))
        }
    }
}

/// Checks that a modern client declared an extension, and what that needs.
pub(super) fn require_extension(
    extension: &Extension,
    declared: &ClientCapabilities,
) -> Result<(), ErrorObject> {
    extension.undeclared_by_client(declared).map_or(Ok(()), |required| Err(missing_capabilities(required)))
}

/// The text that every encoded embedded resource contains, before and from its colon on. Within a JSON string its
/// quotes would be escaped.
const MARK: (&[u8], &[u8]) = (br#""type""#, br#":"resource""#);

/// A content block, of which only the type is read.
#[derive(serde::Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a str>,
}

/// Whether an encoded result has a content block that embeds a resource.
fn embeds_resource(result: &[u8]) -> bool {
    has_mark(result)
        && content(result).is_some_and(|blocks| blocks.iter().any(|block| block.kind == Some("resource")))
}

fn has_mark(result: &[u8]) -> bool {
    memchr_iter(b':', result).any(|colon| {
        let (before, behind) = result.split_at_checked(colon).unwrap_or_default();
        before.ends_with(MARK.0) && behind.starts_with(MARK.1)
    })
}

fn content(result: &[u8]) -> Option<Vec<Block<'_>>> {
    let [content] = read_members(core::str::from_utf8(result).ok()?, ["content"]).ok()?;
    decode_member(content)
}

// The errors that a server answers with.

pub(super) fn internal_error(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, message)
}

pub(super) fn invalid_request(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(code::INVALID_REQUEST, message)
}

pub(super) fn invalid_params(what: impl Into<String>) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, what)
}

//= K12 "Errors about versions have the form of their era"
//= S1.5 "Version not supported → -32022 with `supported`,`requested`"
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#protocol-version-negotiation>
pub(crate) fn unsupported_version(eras: Eras, requested: String) -> ErrorObject {
    let message = format!("unsupported protocol version {requested:?}");
    let error = ErrorObject::new(code::UNSUPPORTED_PROTOCOL_VERSION, message);
    with_data(error, &UnsupportedVersionData::from_revisions(eras.modern(), requested))
}

/// The error for a modern client whose request needs capabilities that it did not declare.
///
/// ```
/// use mcp_proto::peer::server::missing_capabilities;
/// use mcp_proto::schema::{ClientCapabilities, ClientCapability};
///
/// let error = missing_capabilities(ClientCapabilities::default().with(ClientCapability::Sampling));
/// assert_eq!(error.code, -32021);
/// assert_eq!(error.data.unwrap().as_str(), r#"{"requiredCapabilities":{"sampling":{}}}"#);
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#missingrequiredclientcapabilityerror>
pub fn missing_capabilities(required: ClientCapabilities) -> ErrorObject {
    let message = "the request needs capabilities that the client did not declare with it";
    let error = ErrorObject::new(code::MISSING_REQUIRED_CLIENT_CAPABILITY, message);
    with_data(error, &MissingCapabilityData::new(required))
}

//= S8.11 "Unknown resource → -32602"
/// The error for a resource that does not exist, in the form of `revision`.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling>
pub fn resource_not_found(uri: &str, revision: Revision) -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    let error = ErrorObject::new(
        revision.differences().resource_not_found_code,
        format!("resource not found: {uri}"),
    );
    with_data(error, &Data { uri })
}

/// Adds data that always encodes.
fn with_data(error: ErrorObject, data: &impl serde::Serialize) -> ErrorObject {
    match Raw::encode(data) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

/// Replaces an error code that the revision forbids.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes>
pub(crate) fn adapt_error(mut error: ErrorObject, revision: Revision) -> ErrorObject {
    let differences = revision.differences();
    //= S1.10 "Emit only defined codes of -32020…-32099; not -32002/-32042"
    //= C1.12 "Never emit -32002 or -32042, nor any undefined code in -32020…-32099"
    error.code = match error.code {
        //= S8.12 "Unknown resource → -32002"
        code::RESOURCE_NOT_FOUND => differences.resource_not_found_code,
        code::URL_ELICITATION_REQUIRED if !differences.url_elicitation_error => code::INTERNAL_ERROR,
        //= S1.21 "-32020 to -32022 with their meaning alone: headers and versions are checked before a handler runs"
        code::MISSING_REQUIRED_CLIENT_CAPABILITY if names_capabilities(&error) => error.code,
        -32_099..=-32_020 if revision.era() == Era::Modern => code::INTERNAL_ERROR,
        other => other,
    };
    error
}

fn names_capabilities(error: &ErrorObject) -> bool {
    error.data.as_ref().is_some_and(|data| data.decode::<MissingCapabilityData>().is_ok())
}
