//! The registered extensions of a peer.

use super::RequestError;
use crate::prelude::*;
use crate::schema::{Direction, Extension, ExtensionMethod, MethodInfo};

/// The extension that defines a method of requests in `direction`, unless the protocol does.
pub(crate) fn find_method<'a>(
    extensions: &'a [Extension],
    name: &str,
    direction: Direction,
) -> Option<(&'a Extension, &'a ExtensionMethod)> {
    let found =
        extensions.iter().find_map(|extension| Some((extension, extension.method(name, direction)?)))?;
    let is_core = MethodInfo::all().any(|info| info.name == name && info.direction.includes(direction));
    (!is_core).then_some(found)
}

/// The extension that defines a notification in `direction`.
pub(crate) fn find_notification<'a>(
    extensions: &'a [Extension],
    name: &str,
    direction: Direction,
) -> Option<&'a Extension> {
    extensions.iter().find(|extension| extension.has_notification(name, direction))
}

/// The extension that defines a value of `resultType`.
pub(crate) fn find_result_type<'a>(extensions: &'a [Extension], name: &str) -> Option<&'a Extension> {
    extensions.iter().find(|extension| extension.has_result_type(name))
}

/// The error for a message of an extension that the other side does not declare.
pub(crate) fn undeclared(method: &str, extension: &Extension) -> RequestError {
    RequestError::Extension { method: method.to_string(), extension: extension.identifier().to_string() }
}
