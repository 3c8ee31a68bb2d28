//! Commands of the application, and reports of the driver.

use core::time::Duration;

use crate::Instant;
use crate::host::config::{Fingerprint, ServerId};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

use super::state::{
    Action, Call, CallId, CallOptions, CallOutcome, CallRefusal, Delivery, Finishing, Generation, Phase,
    Repeat, Server, Then,
};
use super::{ControlPlane, Lifecycle, Timer};
use super::{Failure, FailureKind, ServerPolicy, Status};

/// How long a connection must live until the attempts before it are forgiven.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// No server with this id is configured, or the host was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownServer;

error_text! { UnknownServer => "no such server is configured" }

/// # Commands
impl ControlPlane {
    /// Sets which servers there are. Starts new ones, ends those that are left out, restarts those whose connection,
    /// approval or location is another one; the others run on, with their new times. The first configuration begins the
    /// startup.
    ///
    /// Calls of a server that ends or restarts end as [`CallOutcome::Removed`], those that were sent only after
    /// [`ControlConfig::grace`](super::ControlConfig::grace). Does nothing after [`close`](Self::close).
    pub fn configure(&mut self, now: Instant, servers: impl IntoIterator<Item = (ServerId, ServerPolicy)>) {
        match self.lifecycle {
            Lifecycle::Closing | Lifecycle::Closed => return,
            Lifecycle::New => {
                self.lifecycle = Lifecycle::Starting { gate_passed: false };
                //= F78 "Startup waits 250 ms"
                let gate = now + self.config.startup_gate;
                self.timers.insert(Timer::Gate, Some(gate), ());
            }
            Lifecycle::Starting { .. } | Lifecycle::Running => {}
        }
        let mut servers: OrderedMap<ServerId, ServerPolicy> = servers.into_iter().collect();
        let present: Vec<ServerId> = self.servers.keys().copied().collect();
        for id in present {
            match servers.remove(&id) {
                Some(policy) => self.reconfigure(now, id, policy),
                None => self.remove(now, id),
            }
        }
        //= F77 "Servers connect and list their tools in parallel"
        // All are known before the first starts, so that the startup waits for each.
        for (&id, &policy) in &servers {
            self.servers.insert(id, Server::new(now, policy, self.holds.contains_key(&id)));
            self.starting.insert(id);
            self.changed.insert(id);
        }
        for &id in servers.keys() {
            self.begin(now, id);
            self.schedule(id);
        }
        self.check_ready();
    }

    //= F83 "Servers that are connected or starting are not started twice"
    fn reconfigure(&mut self, now: Instant, id: ServerId, policy: ServerPolicy) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let old = core::mem::replace(&mut server.policy, policy);
        if old.approval == policy.approval && !server.is_removed() {
            server.policy.is_approved = old.is_approved;
        }
        let same = |policy: &ServerPolicy| {
            (policy.connection, policy.approval, policy.location, policy.enabled, policy.lazy.is_some())
        };
        if server.is_removed() || same(&old) != same(&policy) {
            self.restart(now, id, self.config.grace, CallOutcome::Removed);
        }
        self.schedule(id);
    }

    fn remove(&mut self, now: Instant, id: ServerId) {
        self.changed.insert(id);
        self.starting.remove(&id);
        self.finish(now, id, self.config.grace, Then::Remove, CallOutcome::Removed);
        self.check_ready();
    }

    /// Ends the server's calls, those that were sent after `grace`, and starts it as if it were new.
    fn restart(&mut self, now: Instant, id: ServerId, grace: Duration, outcome: CallOutcome) {
        if let Some(server) = self.servers.get_mut(&id) {
            server.failure = None;
            let status = server.first_status();
            self.set_status(now, id, status);
            self.finish(now, id, grace, Then::Begin, outcome);
        }
    }

    /// Switches a server on or off, until its configuration changes. Calls that were sent may finish within
    /// [`ControlConfig::grace`](super::ControlConfig::grace).
    ///
    /// # Errors
    ///
    /// No such server is configured.
    pub fn set_enabled(
        &mut self,
        now: Instant,
        server: ServerId,
        enabled: bool,
    ) -> Result<(), UnknownServer> {
        let state = self.open_server(server)?;
        if state.policy.enabled != enabled {
            state.policy.enabled = enabled;
            let outcome = CallOutcome::Unavailable(Status::Disabled);
            self.restart(now, server, self.config.grace, outcome);
        }
        Ok(())
    }

    /// Reconnects a server at once, in any status, and forgives its attempts. Asks again for an approval that was not
    /// given. A server that is switched off stays so.
    ///
    /// Calls that wait go on to wait; calls that were sent are [lost](CallOutcome::Lost) unless they may be repeated. A
    /// server that lets its calls finish ends them.
    ///
    /// # Errors
    ///
    /// No such server is configured.
    pub fn reconnect(&mut self, now: Instant, server: ServerId) -> Result<(), UnknownServer> {
        let state = self.open_server(server)?;
        state.attempts = 0;
        match state.phase {
            _ if state.status == Status::Disabled => {}
            Phase::Resting if state.status == Status::Unapproved => self.end(now, server, Then::Begin),
            Phase::Resting | Phase::Idle => self.connect(now, server),
            Phase::LoginRequired { .. } => self.end(now, server, Then::Connect),
            Phase::Due { at, queued } => {
                if queued {
                    self.attempts.remove(at, server);
                }
                self.connect(now, server);
            }
            Phase::Connecting { .. } | Phase::Connected { .. } => {
                self.lose_sent(now, server);
                self.set_status(now, server, Status::Reconnecting);
                self.end(now, server, Then::Connect);
            }
            Phase::Finishing(finishing) => {
                if finishing.then == Then::Retry {
                    state.phase = Phase::Finishing(Finishing { then: Then::Connect, ..finishing });
                }
                self.end_grace(now, server);
            }
            Phase::Ending(Then::Retry | Then::Idle) => self.end(now, server, Then::Connect),
            Phase::Ending(Then::Begin | Then::Connect | Then::Remove) => {}
        }
        self.schedule(server);
        Ok(())
    }

    /// Takes the approval of a server back: it ends at once, and asks again. Does nothing for a server that needs none.
    ///
    /// # Errors
    ///
    /// No such server is configured.
    pub fn revoke_approval(&mut self, now: Instant, server: ServerId) -> Result<(), UnknownServer> {
        // Also one that finishes because it is removed or changed, or because the host closes.
        let state = self.servers.get_mut(&server).ok_or(UnknownServer)?;
        if state.policy.approval.is_some() && (state.is_removed() || !state.policy.is_approved) {
            state.policy.is_approved = false;
            self.end_grace(now, server);
        }
        let state = self.open_server(server)?;
        if state.policy.approval.is_some() && state.policy.is_approved {
            state.policy.is_approved = false;
            let outcome = CallOutcome::Unavailable(Status::Unapproved);
            self.restart(now, server, Duration::ZERO, outcome);
        }
        Ok(())
    }

    /// Ends the calls of a server that lets them finish, and its connection, also if it was removed. Does nothing for a
    /// server that does not end.
    pub fn end_grace(&mut self, now: Instant, server: ServerId) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        let Some(Finishing { then, outcome, .. }) = state.finishing() else { return };
        // The end of the last call must not come here again: all are aborted before the disconnection.
        state.phase = Phase::Connected { stable: None };
        // Its grace is over; a removed one is no longer shown.
        self.changed.insert(server);
        self.end_sent(now, server, outcome);
        self.end(now, server, then);
    }

    /// Keeps a server running for something other than a call: a task, a subscription, a question to the user. A lazy
    /// server starts, and is not stopped until [`release`](Self::release) was called as often, also if it is removed and added
    /// again.
    ///
    /// # Errors
    ///
    /// No such server is configured.
    pub fn hold(&mut self, now: Instant, server: ServerId) -> Result<(), UnknownServer> {
        let state = self.open_server(server)?;
        state.is_held = true;
        if state.phase == Phase::Idle {
            self.connect(now, server);
        }
        let holds = self.holds.entry(server).or_default();
        *holds = holds.saturating_add(1);
        self.schedule(server);
        Ok(())
    }

    /// Ends one [`hold`](Self::hold) of a server.
    pub fn release(&mut self, now: Instant, server: ServerId) {
        let Some(holds) = self.holds.get_mut(&server) else { return };
        *holds = holds.saturating_sub(1);
        let is_held = *holds > 0;
        if !is_held {
            self.holds.remove(&server);
        }
        if let Some(state) = self.servers.get_mut(&server) {
            state.is_held = is_held;
            state.last_used = now;
            self.schedule(server);
        }
    }

    /// Takes no more calls, lets those that were sent finish within [`ControlConfig::grace`], and ends all servers.
    /// [`Event::Closed`](super::Event::Closed) follows, [`ControlConfig::shutdown`] after the grace at the latest.
    ///
    /// [`ControlConfig::grace`]: super::ControlConfig::grace
    /// [`ControlConfig::shutdown`]: super::ControlConfig::shutdown
    pub fn close(&mut self, now: Instant) {
        self.close_within(now, self.config.grace);
    }

    /// Ends all calls and all servers, also while [`close`](Self::close) lets calls finish.
    /// [`Event::Closed`](super::Event::Closed) follows, after
    /// [`ControlConfig::shutdown`](super::ControlConfig::shutdown) at the latest.
    pub fn close_now(&mut self, now: Instant) {
        self.close_within(now, Duration::ZERO);
    }

    fn close_within(&mut self, now: Instant, grace: Duration) {
        if self.lifecycle == Lifecycle::Closed || (self.is_closing() && !grace.is_zero()) {
            return;
        }
        self.lifecycle = Lifecycle::Closing;
        self.announcement = None;
        self.timers.remove(Timer::Gate);
        let servers: Vec<ServerId> = self.servers.keys().copied().collect();
        for server in servers {
            self.starting.remove(&server);
            self.finish(now, server, grace, Then::Remove, CallOutcome::Closed);
        }
        let is_finishing = self.servers.values().any(|server| server.finishing().is_some());
        let grace = if is_finishing { grace } else { Duration::ZERO };
        let until = now + grace + self.config.shutdown;
        let until = self.timers.deadline(Timer::Close).map_or(until, |earlier| earlier.min(until));
        // The last server may have ended already.
        if self.lifecycle == Lifecycle::Closing {
            self.timers.insert(Timer::Close, Some(until), ());
            self.check_closed();
        }
    }

    /// The shutdown took too long: the driver drops the remaining connections.
    fn abandon(&mut self, now: Instant) {
        // Without time for the shutdown, the graces end now as well.
        let calls: Vec<_> = self.calls.keys().copied().collect();
        for call in calls {
            self.end_call(now, call, CallOutcome::Closed);
        }
        for server in core::mem::take(&mut self.servers).into_keys() {
            self.timers.remove(Timer::Server(server));
        }
        while self.actions.pop().is_some() {}
        self.check_closed();
    }

    fn open_server(&mut self, server: ServerId) -> Result<&mut Server, UnknownServer> {
        if self.is_closing() {
            return Err(UnknownServer);
        }
        self.servers.get_mut(&server).filter(|server| !server.is_removed()).ok_or(UnknownServer)
    }
}

/// # Inputs
impl ControlPlane {
    /// The server can be used over this connection.
    pub fn handle_connected(&mut self, now: Instant, server: ServerId, generation: Generation) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        let is_connecting = matches!(state.phase, Phase::Connecting { .. });
        if state.generation != generation || !is_connecting || self.actions.contains(state.action) {
            return;
        }
        state.phase = Phase::Connected { stable: Some(now + STABLE_AFTER) };
        state.last_used = now;
        self.set_status(now, server, Status::Connected);
        self.send_waiting(server);
        self.schedule(server);
    }

    /// The server has refused a call of this connection because its credentials no longer count. The server takes no more
    /// calls, those that were sent may finish within [`ControlConfig::grace`](super::ControlConfig::grace), and then it
    /// waits for the user.
    pub fn handle_unauthorized(
        &mut self,
        now: Instant,
        server: ServerId,
        generation: Generation,
        failure: Failure,
    ) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        if state.generation != generation || !matches!(state.phase, Phase::Connected { .. }) {
            return;
        }
        state.failure = Some(Failure { kind: FailureKind::NeedsAuthorization, ..failure });
        let status = Status::NeedsAuthorization;
        self.set_status(now, server, status);
        self.finish(now, server, self.config.grace, Then::Retry, CallOutcome::Unavailable(status));
    }

    /// A connection, or its attempt, is over: it failed, was lost, or ended as asked. Report what became of its calls
    /// before: those left over are [lost](super::Delivery::Lost).
    pub fn handle_ended(
        &mut self,
        now: Instant,
        server: ServerId,
        generation: Generation,
        failure: Option<Failure>,
    ) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        let is_announced = |phase| {
            matches!(
                phase,
                Phase::Connecting { .. } | Phase::Connected { .. } | Phase::Finishing(_) | Phase::Ending(_)
            )
        };
        //= F90 "ignores its late events"
        if state.generation != generation || !is_announced(state.phase) {
            return;
        }
        // Either an unpolled disconnection, which is done, or an unpolled connection, which no driver can have ended.
        if self.actions.contains(state.action) {
            if matches!(state.phase, Phase::Connecting { .. }) {
                return;
            }
            state.action.take().map(|action| self.actions.withdraw(action));
        }
        if let Phase::Finishing(Finishing { then, .. }) = state.phase {
            state.phase = Phase::Ending(then);
            self.end_sent(now, server, CallOutcome::Lost);
            return self.follow(now, server, then);
        }
        if let Phase::Ending(then) = state.phase {
            // The reason is known; standard error may explain it.
            if let (Then::Retry, Some(kept), Some(failure)) = (then, &mut state.failure, failure) {
                kept.stderr = failure.stderr;
            }
            self.lose_sent(now, server);
            return self.follow(now, server, then);
        }
        let failure = failure.unwrap_or_else(|| Failure::new(FailureKind::Transient, "the connection ended"));
        //= F70 "the end of a connection is the event that starts a reconnection"
        state.failure = Some(failure);
        self.lose_sent(now, server);
        self.retry(now, server);
    }

    /// Whether the user approves the content that [`Action::AskApproval`] named. Ignored if
    /// the server has another content by now, or was removed.
    pub fn handle_approval(
        &mut self,
        now: Instant,
        server: ServerId,
        content: Fingerprint,
        is_approved: bool,
    ) {
        // A removed one would start again.
        let state = self.servers.get_mut(&server).filter(|state| !state.is_removed());
        let Some(state) = state else { return };
        if state.policy.approval == Some(content) && state.status == Status::Unapproved && is_approved {
            state.policy.is_approved = true;
            // What runs until then was approved.
            if state.finishing().is_none() {
                self.end(now, server, Then::Begin);
            } else {
                let status = state.first_status();
                self.set_status(now, server, status);
            }
        }
    }

    /// Whether another process has stored tokens, as [`Action::CheckLogin`] asked. Ignored if the
    /// server no longer waits for them.
    pub fn handle_login(&mut self, now: Instant, server: ServerId, generation: Generation, is_new: bool) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        let Phase::LoginRequired { check: None, checks } = state.phase else { return };
        if state.generation != generation || self.actions.contains(state.action) {
            return;
        }
        if is_new {
            state.attempts = 0;
            self.connect(now, server);
        } else {
            self.await_login(now, server, checks.saturating_add(1));
        }
        self.schedule(server);
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come. Does nothing if it has not.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((timer, ())) = self.timers.pop_expired(now) {
            match timer {
                Timer::Gate => {
                    if let Lifecycle::Starting { gate_passed } = &mut self.lifecycle {
                        *gate_passed = true;
                    }
                    self.check_ready();
                }
                Timer::Close => self.abandon(now),
                Timer::Call(call) => self.end_call(now, call, CallOutcome::TimedOut),
                Timer::Attempts => {
                    while let Some(server) = self.attempts.pop(now) {
                        self.connect(now, server);
                        self.schedule(server);
                    }
                }
                Timer::Server(server) => self.server_timeout(now, server),
            }
        }
    }

    fn server_timeout(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        match &mut server.phase {
            Phase::Due { at, queued } => {
                if self.attempts.admit(now, *at, id) {
                    self.connect(now, id);
                } else {
                    *queued = true;
                }
            }
            Phase::Connecting { .. } => self.time_out_start(now, id),
            Phase::Finishing(_) => self.end_grace(now, id),
            Phase::LoginRequired { .. } => self.check_login(id),
            Phase::Connected { stable } => {
                if stable.is_some_and(|stable| stable <= now) {
                    *stable = None;
                    server.attempts = 0;
                } else {
                    // It worked until it was no longer needed.
                    server.attempts = 0;
                    self.set_status(now, id, Status::Idle);
                    self.end(now, id, Then::Idle);
                }
            }
            _ => {}
        }
        self.schedule(id);
    }
}

// Calls: each waits for its server, is sent, and ends once.

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
        calls.extend(server.sent.iter().filter(is_unpolled).copied());
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
