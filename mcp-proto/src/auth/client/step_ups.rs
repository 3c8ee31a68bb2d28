//! The authorizations for scopes that the server requires and the token lacks.

use alloc::vec::Vec;

use crate::auth::Scopes;

/// The number of sets of scopes to remember: more than the operations of one server need.
const REMEMBERED: usize = 16;

/// How often each set of missing scopes was requested, until it is granted or the user logs in.
#[derive(Debug, Default)]
pub(super) struct StepUps(Vec<(Scopes, u32)>);

impl StepUps {
    /// How often these scopes were requested in vain.
    pub(super) fn count(&self, scopes: &Scopes) -> u32 {
        self.0.iter().find(|(known, _)| known == scopes).map_or(0, |(_, count)| *count)
    }

    /// Counts a request for these scopes; the set that was requested first is forgotten if there are too many.
    pub(super) fn note(&mut self, scopes: &Scopes) {
        match self.0.iter_mut().find(|(known, _)| known == scopes) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => {
                if self.0.len() >= REMEMBERED {
                    self.0.remove(0);
                }
                self.0.push((scopes.clone(), 1));
            }
        }
    }

    /// Forgets the sets that are granted now.
    pub(super) fn forget_granted(&mut self, is_granted: impl Fn(&Scopes) -> bool) {
        self.0.retain(|(scopes, _)| !is_granted(scopes));
    }

    /// Forgets all sets.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
