//! The declared capabilities that handlers answer for.

use super::ClientHandlers;
use crate::front::HandlerMode;
use crate::schema::{CreateMessage, Elicit, ListRoots, Method};

impl<M: HandlerMode> ClientHandlers<M> {
    /// Computes the capabilities that the client declares: without those whose requests would find no handler.
    pub(super) fn note_handled(&mut self) {
        let mut handled = self.declared.clone();
        //= C1.17 "declare only what the client really handles"
        //= C11.1 "Declare `sampling` (and `sampling.tools`, `sampling.context`) only if handled"
        if !self.has_handler(CreateMessage::NAME) {
            handled.sampling = None;
        }
        if !self.has_handler(Elicit::NAME) {
            handled.elicitation = None;
        }
        if !self.has_handler(ListRoots::NAME) {
            handled.roots = None;
        }
        if !self.tasks {
            handled.tasks = None;
        }
        self.capabilities = handled;
    }
}
