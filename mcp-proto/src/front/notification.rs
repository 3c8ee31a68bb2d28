//! Notifications, as they came.

use super::Error;
use crate::rpc::{Raw, Text};
use crate::schema;

/// A notification of the other side.
///
/// ```
/// use mcp_proto::front::Notification;
/// use mcp_proto::schema::{ResourceUpdated, ToolListChanged};
///
/// fn handle(notification: &Notification) {
///     if notification.is::<ToolListChanged>() {
///         println!("list the tools again");
///     } else if let Some(Ok(updated)) = notification.decode::<ResourceUpdated>() {
///         println!("read {} again", updated.uri);
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notification {
    /// Its method.
    pub method: Text,
    /// Its parameters, not decoded.
    pub params: Option<Raw>,
}

impl Notification {
    /// Whether it is an `N`.
    pub fn is<N: schema::Notification>(&self) -> bool {
        self.method == *N::NAME
    }

    /// Its parameters, if it is an `N`.
    ///
    /// # Errors
    /// If they are not what `N` promises.
    pub fn decode<N: schema::Notification>(&self) -> Option<Result<N::Params, Error>> {
        if !self.is::<N>() {
            return None;
        }
        let empty = || Raw::new("{}");
        let raw = match self.params.clone().map_or_else(empty, Ok) {
            Ok(raw) => raw,
            Err(_) => return None,
        };
        Some(raw.decode().map_err(|error| Error::Decode { method: N::NAME, error, raw: raw.clone() }))
    }

    /// About how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        let params = self.params.as_ref().map_or(0, |params| params.as_bytes().len());
        self.method.len().saturating_add(params)
    }

    /// Copies slices of the input into memory of their own.
    pub(crate) fn make_owned(&mut self) {
        self.method = self.method.detached();
        self.params = self.params.as_ref().map(Raw::detached);
    }
}
