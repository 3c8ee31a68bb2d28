//! The errors that a server answers with.

use super::Eras;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{ClientCapabilities, Era, MissingCapabilityData, Revision, UnsupportedVersionData};

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
