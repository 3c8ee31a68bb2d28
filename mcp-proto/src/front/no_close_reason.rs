//! Stands in for `close_reason` without the feature `client`.

use core::fmt;

use crate::peer::TransportError;

/// Uninhabited, as there is no client.
#[derive(Clone, Debug)]
pub enum CloseReason {}

impl fmt::Display for CloseReason {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

pub(super) fn is_timeout(closed: &CloseReason) -> bool {
    match *closed {}
}

pub(super) fn transport_error(closed: &CloseReason) -> Option<&TransportError> {
    match *closed {}
}
