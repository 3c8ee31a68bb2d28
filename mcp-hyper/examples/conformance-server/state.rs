//! What the server hands to a client to be handed back.

use std::hash::{BuildHasher as _, RandomState};

use mcp_proto::front::HandlerError;

/// Marks request states as this server's own.
///
/// A keyed hash whose key this process alone has: a state that another has made up or changed does not fit it. What a
/// state says is no secret.
#[derive(Default)]
pub(crate) struct States {
    key: RandomState,
}

impl States {
    /// The state to send, which says `what`.
    pub(crate) fn seal(&self, what: &str) -> String {
        format!("{what}.{:016x}", self.key.hash_one(what))
    }

    /// What a state says that has come back.
    ///
    /// # Errors
    /// If it is not as it was sent.
    pub(crate) fn open<'a>(&self, state: &'a str) -> Result<&'a str, HandlerError> {
        match state.rsplit_once('.') {
            Some((what, _)) if self.seal(what) == state => Ok(what),
            _ => Err(HandlerError::invalid_params("the request state is not one that this server has given")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_as_it_was_sent() {
        let states = States::default();
        assert_eq!(states.open(&states.seal("round.1")).unwrap(), "round.1");
    }

    #[test]
    fn what_was_changed_or_made_up_is_refused() {
        let states = States::default();
        let state = states.seal("round 1");
        for bad in [&state.replace('1', "2"), &format!("{state}-TAMPERED"), "round 1", ""] {
            assert!(states.open(bad).is_err(), "{bad}");
        }
        assert!(States::default().open(&state).is_err(), "another server's");
    }
}
