//! Calls: each waits for its server, is sent, and ends once.

use super::policy::Status;
use super::state::{
    Action, Call, CallId, CallOptions, CallOutcome, CallRefusal, Delivery, Generation, Phase, Repeat, Server,
};
use super::{ControlPlane, Timer};
use crate::Instant;
use crate::host::config::ServerId;

/// How often a call that did not reach its server is sent again.
const RESENDS: u32 = 2;

/// # Commands: calls
impl ControlPlane {
    //= F79 "A call of a tool from the last run waits for the connection"
    /// Makes a call, which waits for its server; where the user must log in, until it is known that [no other process has
    /// a login](super::ServerPolicy::shares_logins). Its end is [`Event::Ended`](super::Event::Ended).
    ///
    /// # Errors
    ///
    /// The server is unknown or unavailable, or there are too many calls.
    pub fn call(
        &mut self,
        now: Instant,
        server: ServerId,
        options: CallOptions,
    ) -> Result<CallId, CallRefusal> {
        if self.is_closing() {
            return Err(CallRefusal::Closed);
        }
        let Some(state) = self.servers.get_mut(&server).filter(|server| !server.is_removed()) else {
            return Err(CallRefusal::UnknownServer);
        };
        let awaits_login = matches!(state.phase, Phase::LoginRequired { .. });
        if !state.status.accepts_calls() && !awaits_login {
            return Err(CallRefusal::Unavailable(state.status));
        }
        if self.calls.len().saturating_add(self.ended.len()) >= self.config.calls {
            return Err(CallRefusal::TooMany);
        }
        let id = CallId(self.next_call);
        self.next_call = self.next_call.saturating_add(1);
        let deadline = now.after(options.timeout.unwrap_or(state.policy.call_timeout));
        let call = Call { server, repeat: options.repeat, resends_left: RESENDS, sent: None, action: None };
        self.calls.insert(id, call);
        if deadline.is_some() {
            self.timers.insert(Timer::Call(id), deadline, ());
        }
        state.waiting.insert(id);
        match state.phase {
            Phase::Connected { .. } => self.send_waiting(server),
            Phase::Idle => self.connect(now, server),
            Phase::LoginRequired { .. } => self.check_login(server),
            _ => {}
        }
        self.schedule(server);
        Ok(id)
    }

    /// Ends a call as cancelled. Does nothing if it has ended.
    pub fn cancel(&mut self, now: Instant, call: CallId) {
        self.end_call(now, call, CallOutcome::Cancelled);
    }
}

/// # Inputs: calls
impl ControlPlane {
    /// Tells what became of a call that [`Action::Send`] asked to send over this connection. Ignored if the call has
    /// ended, or was sent over another connection.
    pub fn handle_delivery(
        &mut self,
        now: Instant,
        call: CallId,
        generation: Generation,
        delivery: Delivery,
    ) {
        let Some(state) = self.calls.get_mut(&call) else { return };
        if state.sent != Some(generation) || self.actions.contains(state.action) {
            return;
        }
        match delivery {
            Delivery::Answered => self.end_call(now, call, CallOutcome::Answered),
            Delivery::Refused => self.end_call(now, call, CallOutcome::Refused),
            Delivery::Lost | Delivery::ExchangeLost if state.repeat == Repeat::IfNotSent => {
                self.end_call(now, call, CallOutcome::Lost)
            }
            Delivery::NotSent | Delivery::Lost => self.send_again(now, call, delivery),
            Delivery::ExchangeLost => {
                let server = state.server;
                self.send_again(now, call, Delivery::Lost);
                self.send_waiting(server);
            }
        }
    }
}

impl ControlPlane {
    /// The connection of the calls that were sent has ended.
    pub(super) fn lose_sent(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        for call in core::mem::take(&mut server.sent) {
            let Some(state) = self.calls.get_mut(&call) else { continue };
            let withdrawn = state.action.take().and_then(|action| self.actions.withdraw(action));
            if withdrawn.is_some() {
                self.wait_again(call);
            } else if state.repeat == Repeat::IfLost {
                self.send_again(now, call, Delivery::Lost);
            } else {
                self.end_call(now, call, CallOutcome::Lost);
            }
        }
    }

    //= F73 "is repeated once after a reconnection"
    /// Sends a call over the next connection, if it was not sent too often, and the server goes on.
    fn send_again(&mut self, now: Instant, id: CallId, delivery: Delivery) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let Some(finishing) = self.servers.get(&call.server).and_then(Server::finishing) {
            let is_lost = delivery == Delivery::Lost;
            self.end_call(now, id, if is_lost { CallOutcome::Lost } else { finishing.outcome });
        } else if let Some(resends_left) = call.resends_left.checked_sub(1) {
            call.resends_left = resends_left;
            self.wait_again(id);
        } else if delivery == Delivery::Lost {
            self.end_call(now, id, CallOutcome::Lost);
        } else {
            self.end_call(now, id, CallOutcome::Unavailable(Status::Reconnecting));
        }
    }

    fn wait_again(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        (call.sent, call.action) = (None, None);
        if let Some(server) = self.servers.get_mut(&call.server) {
            server.sent.remove(&id);
            server.waiting.insert(id);
        }
    }

    /// Sends the calls that wait for a server, if it is connected.
    pub(super) fn send_waiting(&mut self, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        if !matches!(server.phase, Phase::Connected { .. }) {
            return;
        }
        let generation = server.generation;
        while let Some(call) = server.waiting.pop_first() {
            server.sent.insert(call);
            if let Some(state) = self.calls.get_mut(&call) {
                state.sent = Some(generation);
                state.action = Some(self.actions.push(Action::Send { call, server: id, generation }));
            }
        }
    }

    /// Ends a call, aborting it if it was sent. Does nothing if it has ended.
    pub(super) fn end_call(&mut self, now: Instant, id: CallId, outcome: CallOutcome) {
        let Some(call) = self.calls.remove(&id) else { return };
        self.timers.remove(Timer::Call(id));
        let was_announced = call.action.is_some_and(|action| self.actions.withdraw(action).is_none());
        let is_over = matches!(outcome, CallOutcome::Answered | CallOutcome::Refused | CallOutcome::Lost);
        if was_announced && !is_over {
            self.actions.push(Action::Abort { call: id });
        }
        self.ended.push_back((id, outcome));
        if let Some(server) = self.servers.get_mut(&call.server) {
            server.waiting.remove(&id);
            server.sent.remove(&id);
            server.last_used = now;
            if server.sent.is_empty() {
                self.end_grace(now, call.server);
            }
            self.schedule(call.server);
        }
    }

    /// Ends the calls of a server that no driver has sent.
    pub(super) fn end_unsent(&mut self, now: Instant, id: ServerId, outcome: CallOutcome) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let mut calls = core::mem::take(&mut server.waiting);
        let is_unpolled =
            |call: &&CallId| self.calls.get(call).is_some_and(|call| self.actions.contains(call.action));
        calls.extend(server.sent.iter().filter(is_unpolled));
        for call in calls {
            self.end_call(now, call, outcome);
        }
    }

    /// Ends the calls that were sent to a server.
    pub(super) fn end_sent(&mut self, now: Instant, id: ServerId, outcome: CallOutcome) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        for call in core::mem::take(&mut server.sent) {
            self.end_call(now, call, outcome);
        }
    }
}
