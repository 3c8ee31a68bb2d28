//! Notifications of the peer.

use super::Error;
use crate::rpc::{Raw, Text};
use crate::schema::{self, Params as _};

/// A notification of the peer, with undecoded parameters.
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
    /// Whether its method is that of `N`.
    pub fn is<N: schema::Notification>(&self) -> bool {
        self.method == *N::NAME
    }

    /// Decodes its parameters, if its method is that of `N`.
    ///
    /// # Errors
    /// If the parameters do not match `N`.
    pub fn decode<N: schema::Notification>(&self) -> Option<Result<N::Params, Error>> {
        if !self.is::<N>() {
            return None;
        }
        let empty = || Raw::new("{}");
        let raw = match self.params.clone().map_or_else(empty, Ok) {
            Ok(raw) => raw,
            Err(_) => return None,
        };
        Some(N::Params::from_json(raw.as_str()).map_err(|error| Error::Decode {
            method: N::NAME,
            error,
            raw: raw.clone(),
        }))
    }

    /// The approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let params = self.params.as_ref().map_or(0, |params| params.as_bytes().len());
        self.method.len().saturating_add(params)
    }

    /// Copies slices of the input into separate memory.
    pub(crate) fn make_owned(&mut self) {
        self.method = self.method.detached();
        self.params = self.params.as_ref().map(Raw::detached);
    }
}
