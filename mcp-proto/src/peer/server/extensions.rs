//! The extensions that the server has registered.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>

use crate::peer::extensions::{self, undeclared};
use crate::peer::{RequestError, server::missing_capabilities};
use crate::rpc::{ErrorObject, code};
use crate::schema::{ClientCapabilities, Direction, Era, Extension, Json, Revision};

use super::{PendingRequest, ServerConfig};

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
    let found = extensions::find_method(&config.extensions, method, Direction::ClientToServer);
    let Some((extension, _)) = found else { return Ok(false) };
    if revision.era() == Era::Legacy {
        let message = alloc::format!("{method:?} belongs to an extension, which {revision} does not have");
        return Err(ErrorObject::new(code::METHOD_NOT_FOUND, message));
    }
    require(extension, declared)?;
    Ok(true)
}

/// Checks that the result of a request may have this `resultType`.
///
/// # Errors
/// The answer in its place.
pub(super) fn admit_result_type(
    config: &ServerConfig,
    served: &PendingRequest,
    name: &str,
) -> Result<(), ErrorObject> {
    match extensions::find_result_type(&config.extensions, name) {
        Some(extension) => require(extension, &served.capabilities),
        None => {
            let message = alloc::format!("no registered extension defines the result type {name:?}");
            Err(ErrorObject::new(code::INTERNAL_ERROR, message))
        }
    }
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
    let found = extensions::find_notification(&config.extensions, name, Direction::ServerToClient);
    match found.filter(|extension| !negotiated(extension, revision, declared)) {
        Some(extension) => Err(undeclared(name, extension)),
        None => Ok(()),
    }
}

/// Checks that a request may be sent to the client of a legacy session, which has no extensions.
///
/// # Errors
/// If the method belongs to an extension.
pub(super) fn admit_request(config: &ServerConfig, method: &str) -> Result<(), RequestError> {
    match extensions::find_method(&config.extensions, method, Direction::ServerToClient) {
        Some((extension, _)) => Err(undeclared(method, extension)),
        None => Ok(()),
    }
}

fn negotiated(extension: &Extension, revision: Revision, declared: &ClientCapabilities) -> bool {
    revision.era() == Era::Modern && declared.has_extension(extension.identifier())
}

/// Checks that a modern client declared an extension.
fn require(extension: &Extension, declared: &ClientCapabilities) -> Result<(), ErrorObject> {
    if declared.has_extension(extension.identifier()) {
        return Ok(());
    }
    let required = ClientCapabilities::new().with_extension(extension.identifier(), Json::empty_object());
    Err(missing_capabilities(required.unwrap_or_default()))
}
