//! Admission of requests: the era of each, and whether it is answered. Decided by the request, the configuration and
//! the session alone, on every transport.
//!
//! | request | answer |
//! |---|---|
//! | names a modern version in `_meta` | served statelessly, also after a handshake |
//! | names any other version | -32022 with the versions spoken |
//! | names a version and no capabilities | -32602 |
//! | names a method that its revision lacks, or whose capability is not declared | -32601 |
//! | names a method of the tasks extension, or of a registered one, that the client does not declare | -32021 |
//! | `initialize` without modern metadata | the handshake |
//! | bare, after the handshake | served at the negotiated revision |
//! | bare, before it | `ping` is answered, anything else is -32602 and names the missing keys |
//! | bare `server/discover` | -32602 |
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>

use alloc::sync::Arc;

use super::answer::{invalid_request, missing_capabilities, require_extension, unsupported_version};
use super::event::RequestContext;
use super::known_meta::{FoundMeta, KnownMeta, find_meta};
use super::sender::{MetaKeys, SenderInfo, missing_key_error};
use super::session::Session;
use super::{Eras, ServerConfig};
use crate::peer::RequestError;
use crate::peer::admission::{self, undeclared};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Id, Raw, code, decode_member, read_members};
use crate::schema::{
    ClientCapabilities, ClientCapability, Direction, Discover, Era, Extension, Initialize, Method,
    MethodInfo, Ping, Revision, ServerCapability,
};

/// A request that was admitted.
#[derive(Debug)]
pub(super) enum AdmittedRequest {
    /// A request that opens a legacy session.
    Initialize,
    /// A ping.
    Ping,
    /// Any other request.
    Request(RequestDetails),
}

/// The method and context of an admitted request.
#[derive(Debug)]
pub(super) struct RequestDetails {
    /// The method, if it is one of the protocol's.
    pub(super) info: Option<&'static MethodInfo>,
    pub(super) context: RequestContext,
    /// The approximate size in bytes of the state stored until it is answered, without its id and parameters.
    pub(super) stored_bytes: usize,
}

/// The `_meta` of a request, of which the protocol's keys are read.
#[derive(Default)]
struct RequestMeta<'a> {
    /// Its text.
    text: Option<&'a str>,
    keys: MetaKeys<'a>,
    progress_token: Option<Id>,
    /// The length of the keys' values.
    stored_bytes: usize,
}

impl<'a> RequestMeta<'a> {
    fn new(text: &'a str, keys: MetaKeys<'a>) -> Self {
        Self {
            text: Some(text),
            progress_token: decode_member(keys.progress),
            stored_bytes: keys.bytes(),
            keys,
        }
    }
}

impl SenderInfo {
    /// Admits a request of this sender.
    fn admit(
        &self,
        config: &ServerConfig,
        method: &str,
        progress_token: Option<Id>,
        stored_bytes: usize,
    ) -> Result<AdmittedRequest, ErrorObject> {
        let context = RequestContext { progress_token, ..self.context.clone() };
        let info = find_method(config, method, context.revision, &context.client_capabilities)?;
        Ok(AdmittedRequest::Request(RequestDetails { info, stored_bytes, context }))
    }
}

/// Decides whether and how a request is answered.
pub(super) fn admit(
    config: &ServerConfig,
    session: Option<&Session>,
    mut last: Option<&mut Option<Arc<KnownMeta>>>,
    method: &str,
    params: Option<&Raw>,
    in_batch: bool,
) -> Result<AdmittedRequest, ErrorObject> {
    let known = last.as_deref().and_then(Option::as_deref);
    let request = match find_meta(known, params)? {
        FoundMeta::Known { progress_token, token_bytes } => {
            let stored_bytes = token_bytes.saturating_add(known.map_or(0, |known| known.bytes));
            match known.and_then(|known| known.sender.as_ref()) {
                Some(_) if in_batch => return Err(modern_in_batch()),
                Some(sender) => return sender.admit(config, method, progress_token, stored_bytes),
                None => RequestMeta { progress_token, stored_bytes, ..RequestMeta::default() },
            }
        }
        FoundMeta::Absent => RequestMeta::default(),
        FoundMeta::Other(meta) => RequestMeta::new(meta, MetaKeys::read(meta)?),
    };
    let keys = &request.keys;
    let modern = keys.version.is_some() || (keys.capabilities.is_some() && session.is_none());
    if modern && config.eras != Eras::LegacyOnly {
        return if in_batch { Err(modern_in_batch()) } else { admit_modern(config, last, method, request) };
    }
    if let (Some(last), Some(text)) = (&mut last, request.text)
        && keys.names_no_sender()
    {
        **last = KnownMeta::new(text, 0, None).map(Arc::new);
    }
    if method == Initialize::NAME {
        return match config.eras {
            Eras::ModernOnly => {
                let requested = params.and_then(version_of).unwrap_or_default();
                Err(unsupported_version(config.eras, requested))
            }
            //= R1 "`initialize` never in one"
            _ if in_batch => Err(invalid_request("initialize must not be part of a batch")),
            Eras::Both | Eras::LegacyOnly => Ok(AdmittedRequest::Initialize),
        };
    }
    if method == Ping::NAME && config.eras != Eras::ModernOnly {
        return Ok(AdmittedRequest::Ping);
    }
    match session {
        Some(session) if method != Discover::NAME || config.eras == Eras::LegacyOnly => {
            admit_legacy(config, session, method, request)
        }
        None if config.eras == Eras::LegacyOnly => {
            find_method(config, method, Revision::LATEST_LEGACY, &ClientCapabilities::default())
                .and(Err(invalid_request("the first request must be initialize")))
        }
        _ => Err(missing_key_error(keys)),
    }
}

fn modern_in_batch() -> ErrorObject {
    invalid_request("the revision of this request has no batches")
}

fn version_of(params: &Raw) -> Option<String> {
    let [version] = read_members(params.as_str(), ["protocolVersion"]).ok()?;
    decode_member(version)
}

//= S1.7 "No reliance on earlier requests of the same connection"
fn admit_modern(
    config: &ServerConfig,
    mut last: Option<&mut Option<Arc<KnownMeta>>>,
    method: &str,
    request: RequestMeta<'_>,
) -> Result<AdmittedRequest, ErrorObject> {
    let RequestMeta { text, keys, progress_token, stored_bytes } = request;
    let remembered = last.as_deref_mut().and_then(Option::take).and_then(|known| known.sender.clone());
    let (admitted, sender) = match remembered.filter(|last| last.matches_keys(&keys)) {
        Some(sender) => (sender.admit(config, method, progress_token, stored_bytes), Some(sender)),
        None => {
            let sender = SenderInfo::decode(config, &keys)?;
            let admitted = sender.admit(config, method, progress_token, stored_bytes);
            let cached = if last.is_some() { sender.into_cached(&keys) } else { None };
            (admitted, cached.map(Arc::new))
        }
    };
    if let (Some(last), Some(text), Some(sender)) = (last, text, sender) {
        let bytes = stored_bytes.saturating_sub(keys.progress_bytes());
        *last = KnownMeta::new(text, bytes, Some(sender)).map(Arc::new);
    }
    admitted
}

fn admit_legacy(
    config: &ServerConfig,
    session: &Session,
    method: &str,
    request: RequestMeta<'_>,
) -> Result<AdmittedRequest, ErrorObject> {
    let info = find_method(config, method, session.revision, &session.capabilities)?;
    Ok(AdmittedRequest::Request(RequestDetails {
        info,
        stored_bytes: request.stored_bytes,
        context: RequestContext {
            era: Era::Legacy,
            revision: session.revision,
            client_info: (!session.stateless).then(|| session.info.clone()),
            client_capabilities: session.capabilities.clone(),
            principal: None,
            progress_token: request.progress_token,
            log_level: session.log_level,
        },
    }))
}

/// The method, if the revision has it and the server offers it; `None` for one of the application's own.
fn find_method(
    config: &ServerConfig,
    method: &str,
    revision: Revision,
    declared: &ClientCapabilities,
) -> Result<Option<&'static MethodInfo>, ErrorObject> {
    match MethodInfo::find(method, Direction::ClientToServer, revision) {
        Some(info) if info.server_allows(&config.capabilities, revision) => {
            let needed = ClientCapability::TasksExtension;
            //= S11.7 "undeclared client → -32021"
            if info.server_capability == Some(ServerCapability::TasksExtension) && !declared.has(needed) {
                return Err(missing_capabilities(ClientCapabilities::default().with(needed)));
            }
            Ok(Some(info))
        }
        None if admit_method(config, method, revision, declared)? || config.answers(method) => Ok(None),
        //= S1.11 "-32601 method"
        _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, format!("unknown method {method:?}"))),
    }
}

/// Checks that the client may call a method, if an extension defines it. Returns whether one does.
///
/// # Errors
/// The answer to a client that did not declare the extension.
pub(super) fn admit_method(
    config: &ServerConfig,
    method: &str,
    revision: Revision,
    declared: &ClientCapabilities,
) -> Result<bool, ErrorObject> {
    let found = admission::find_method(&config.extensions, method, Direction::ClientToServer);
    let Some((extension, _)) = found else { return Ok(false) };
    if revision.era() == Era::Legacy {
        let message =
            alloc::format!("{method:?} belongs to an extension, and {revision} has no methods of these");
        return Err(ErrorObject::new(code::METHOD_NOT_FOUND, message));
    }
    require_extension(extension, declared)?;
    Ok(true)
}

/// Checks that a client with these capabilities may be sent a notification.
///
/// # Errors
/// If the notification belongs to an extension that the client did not declare.
pub(super) fn admit_notification(
    config: &ServerConfig,
    name: &str,
    revision: Revision,
    declared: &ClientCapabilities,
) -> Result<(), RequestError> {
    let found = admission::find_notification(&config.extensions, name, Direction::ServerToClient);
    match found.filter(|extension| !negotiated(extension, revision, declared)) {
        Some(extension) => Err(undeclared(name, extension)),
        None => Ok(()),
    }
}

fn negotiated(extension: &Extension, revision: Revision, declared: &ClientCapabilities) -> bool {
    revision.era() == Era::Modern && extension.undeclared_by_client(declared).is_none()
}
