//! The extensions that the client has registered.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation>

use crate::peer::extensions::{self, undeclared};
use crate::peer::{InvalidAnswerError, Outcome, RequestError};
use crate::rpc::Raw;
use crate::schema::{Direction, Era, Extension, ResultType, ServerCapability};

use super::{Client, ServerInfo};

impl Client {
    /// Registers more extensions, before the handshake.
    #[cfg(feature = "std")]
    pub(crate) fn add_extensions(&mut self, extensions: impl Iterator<Item = Extension>) {
        self.config.extensions.extend(extensions);
        self.config.capabilities.declare_extensions(&self.config.extensions);
    }

    /// Checks that the server, as far as it is known, declares the extension that defines a method.
    pub(super) fn admit_extension_method(&self, method: &str) -> Result<(), RequestError> {
        let direction = Direction::ClientToServer;
        let found = extensions::find_method(&self.config.extensions, method, direction);
        self.admit_extension(method, found.map(|(extension, _)| extension))
    }

    /// Checks that the server declares the extension that defines a notification.
    pub(super) fn admit_extension_notification(&self, name: &str) -> Result<(), RequestError> {
        let direction = Direction::ClientToServer;
        let found = extensions::find_notification(&self.config.extensions, name, direction);
        self.admit_extension(name, found)
    }

    fn admit_extension(&self, name: &str, extension: Option<&Extension>) -> Result<(), RequestError> {
        match (extension, &self.server) {
            //= C2.9 "only use an extension that both sides declare, else revert to core or reject with an error"
            (Some(extension), Some(server)) if !negotiated(server, extension) => {
                Err(undeclared(name, extension))
            }
            _ => Ok(()),
        }
    }

    /// The parameter of a method that the header `Mcp-Name` repeats, if an extension defines the method.
    pub(super) fn extension_name_param(&self, method: &str) -> Option<&str> {
        let direction = Direction::ClientToServer;
        extensions::find_method(&self.config.extensions, method, direction)?.1.name_param()
    }

    /// The outcome of a request whose result is of a type that the protocol itself does not define.
    pub(super) fn extension_outcome(&self, kind: ResultType, result: Raw) -> Outcome {
        let extension = extensions::find_result_type(&self.config.extensions, kind.as_str());
        match (kind, extension, &self.server) {
            //= C1.8 "known set = core (`complete`,`input_required`) + values of extensions negotiated through capabilities"
            (ResultType::Other(result_type), Some(extension), Some(server))
                if negotiated(server, extension) =>
            {
                Outcome::ExtensionResult { result_type, result }
            }
            //= C1.8 "An unknown `resultType` makes the result invalid"
            (kind, ..) => Outcome::Invalid(InvalidAnswerError::ResultType(kind.as_str().into())),
        }
    }

    /// Whether the server, as far as it is known, declares the tasks extension.
    pub(super) fn server_declares_tasks(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.allows(ServerCapability::TasksExtension))
    }
}

/// Whether the server declares an extension that the client has registered; `true` while the capabilities of a modern
/// server are unknown.
fn negotiated(server: &ServerInfo, extension: &Extension) -> bool {
    let declares = |extension: &Extension| {
        server.capabilities.as_ref().is_none_or(|declared| declared.has_extension(extension.identifier()))
    };
    server.era == Era::Modern && declares(extension)
}
