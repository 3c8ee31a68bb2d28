//! The future that carries out the actions of the control plane, and takes in new configurations.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::future::Boxed;
use mcp_proto::Instant;
use mcp_proto::adapter::Repoll;
use mcp_proto::host::config::{Config, Fingerprint, Scope, ServerEntry, ServerId, TransportSpec};
use mcp_proto::host::consent::{Approval, ApprovalRequest};
use mcp_proto::host::control::{Action, CallId, Event, Failure, FailureKind, Generation, ServerPolicy};
use mcp_proto::host::tools::{CatalogueSnapshot, Freshness, ItemFilter, ItemKind, PinPolicy, ServerSettings};

use super::connection::{Attempt, filters};
use super::events::{HostEvent, StartSteps, StderrTail};
use super::settings::Settings;
use super::shared::{Connection, FirstPoll, Sent, Shared, State, Stop};
use super::storage::Loaded;
use crate::runtime::Runtime as _;
use crate::task_set::{TaskKey, TaskSet};
use crate::time::{Alarm, GrowingPause};

/// Maximum rounds of the driver before it lets other tasks run.
const ROUNDS: usize = 16;

/// How long the driver gathers new values before it writes them; longer and longer if servers change their lists without
/// end.
const SAVE_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_SAVE_PAUSE: Duration = Duration::from_secs(30);

/// The future that drives a host: its servers, their connections, timers and calls.
///
/// Spawn it on any executor, or poll it beside other work; nothing happens otherwise. It polls all connections itself,
/// each only when it was woken, and spawns nothing. It ends once the host is closed: by
/// [`close`](super::Host::close), or because the last [`Host`](super::Host) was dropped.
///
/// Dropping it ends every connection and process at once, and calls fail with
/// [`CallError::Closed`](super::CallError::Closed).
#[must_use = "no server is started until the driver is polled: spawn it on an executor"]
pub struct HostDriver {
    host: HostLoop,
    repoll: Repoll,
}

/// The parts of a host, and the loop over them.
struct HostLoop {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    tasks: TaskSet<Boxed<Done>>,
    /// The calls that are being sent.
    sending: BTreeMap<CallId, TaskKey>,
    alarm: Alarm,
    is_started: bool,
    /// Writes values; returns the errors.
    saving: Option<Boxed<Vec<String>>>,
    /// When new values are written.
    save_at: Option<Instant>,
    save_pause: GrowingPause,
    /// Whether all servers have ended.
    is_closing: bool,
}

/// The end of a task of the driver.
enum Done {
    Connection(ServerId, Generation, Option<Failure>),
    Call(CallId, ServerId, Generation, Sent),
    /// The user's answer, or none.
    Approval(Arc<ServerEntry>, Box<Approval>, bool),
    /// The request with what is shown beside the entry.
    Request(Arc<ServerEntry>, Fingerprint, Box<ApprovalRequest>),
    Loaded(Config, Loaded),
    /// Whether another process has stored tokens.
    Login(ServerId, Generation, bool),
}

/// Work of the driver for which no lock is held.
enum Work {
    Run(Boxed<Done>),
    Send(CallId, Boxed<Done>),
    Abort(CallId),
}

impl HostDriver {
    pub(super) fn new(shared: Arc<Shared>, settings: Arc<Settings>) -> Self {
        let host = HostLoop {
            shared,
            settings,
            tasks: TaskSet::default(),
            sending: BTreeMap::new(),
            alarm: Alarm::default(),
            is_started: false,
            saving: None,
            save_at: None,
            save_pause: GrowingPause::new(SAVE_PAUSE, LONGEST_SAVE_PAUSE),
            is_closing: false,
        };
        Self { host, repoll: Repoll::default() }
    }
}

impl HostLoop {
    /// Polls the tasks that were woken. Returns whether any has ended.
    fn poll_tasks(&mut self, cx: &mut Context<'_>) -> bool {
        let (mut any, mut ended) = (false, Vec::new());
        while let Poll::Ready(done) = self.tasks.poll_next(cx) {
            any = true;
            match done {
                Done::Connection(server, generation, failure) => ended.push((server, generation, failure)),
                Done::Call(call, server, generation, sent) => {
                    self.handle_sent(call, server, generation, sent)
                }
                Done::Approval(entry, approval, is_approved) => self.shared.with(|state, now| {
                    if is_approved {
                        state.approve(*approval);
                    }
                    state.plane.handle_approval(now, entry.id(), entry.meaning(), is_approved);
                }),
                Done::Request(entry, content, request) => {
                    let work = self.shared.with(|state, _| {
                        let is_wanted =
                            state.entries.get(&entry.id()).is_some_and(|known| known.meaning() == content)
                                && entry.permit(&state.approvals).is_err();
                        if !is_wanted {
                            return None;
                        }
                        state.requests.insert(entry.id(), (content, (*request).clone()));
                        self.settings.ask_approval(state, entry, *request)
                    });
                    work.into_iter().for_each(|work| self.perform(work));
                }
                Done::Login(server, generation, is_new) => self.shared.with(|state, now| {
                    state.plane.handle_login(now, server, generation, is_new);
                }),
                Done::Loaded(config, loaded) => {
                    configure(&self.shared, &self.settings, &config, loaded);
                    self.shared.with(|state, _| {
                        state.is_loading = false;
                        state.wake_waiting();
                    });
                }
            }
        }
        // Last, so that the calls of these connections have told what became of them.
        for (server, generation, failure) in ended {
            self.handle_ended(server, generation, failure);
        }
        any
    }

    fn handle_sent(&mut self, call: CallId, server: ServerId, generation: Generation, sent: Sent) {
        self.sending.remove(&call);
        let Sent { delivery, failure } = sent;
        self.shared.with(|state, now| {
            state.plane.handle_delivery(now, call, generation, delivery);
            match failure {
                // Only the credentials are wrong: other calls may still be answered.
                Some(failure) if failure.kind == FailureKind::NeedsAuthorization => {
                    state.plane.handle_unauthorized(now, server, generation, failure);
                }
                Some(failure) => {
                    if let Some(connection) = state.connection(server, generation) {
                        connection.stop.stop(Some(failure));
                    }
                }
                None => {}
            }
        });
    }

    fn handle_ended(&self, server: ServerId, generation: Generation, failure: Option<Failure>) {
        let name = self.shared.with(|state, now| {
            state.plane.handle_ended(now, server, generation, failure);
            let is_last = state.connection(server, generation).is_some();
            if is_last {
                state.connections.remove(&server);
            }
            state.name(server).filter(|_| is_last)
        });
        if let Some(name) = name {
            self.shared.catalogue(|catalogue| catalogue.mark_stale(&name));
        }
    }

    /// Takes the actions and events of the control plane. Returns whether there were any.
    fn advance(&mut self, cx: &Context<'_>) -> bool {
        let (shared, settings) = (&self.shared, &self.settings);
        let (any, is_over, work) = shared.with(|state, now| {
            state.driver = Some(cx.waker().clone());
            state.plane.handle_timeout(now);
            let (mut any, mut is_over, mut work) = (false, false, Vec::new());
            if !state.is_loading
                && let Some(config) = state.new_config.take()
            {
                any = true;
                state.is_loading = true;
                work.extend(settings.load(shared, state, config));
            }
            loop {
                let mut found = false;
                while let Some(action) = state.plane.poll_action() {
                    found = true;
                    work.extend(settings.prepare(shared, state, now, action));
                }
                while let Some(event) = state.plane.poll_event() {
                    found = true;
                    match event {
                        Event::Ready => state.pass_gate(),
                        Event::Status(server) => {
                            state.publish_status(server);
                            state.wake_waiting();
                        }
                        Event::Ended { call, outcome } => state.end_call(now, call, outcome),
                        Event::Closed => is_over = true,
                        _ => {}
                    }
                }
                if !found {
                    return (any, is_over, work);
                }
                any = true;
            }
        });
        work.into_iter().for_each(|work| self.perform(work));
        if is_over {
            self.is_closing = true;
            self.tasks = TaskSet::default();
        }
        any
    }

    /// Writes new values: not at once, as more may follow. Returns whether anything was written.
    fn poll_saving(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(saving) = &mut self.saving {
            let Poll::Ready(errors) = saving.as_mut().poll(cx) else { return false };
            self.saving = None;
            self.shared.with(|state, _| {
                //= F81 "Stored lists are best effort"
                for error in errors {
                    state.publish(HostEvent::StorageFailed { error: error.into() });
                }
            });
            return true;
        }
        let is_closing = self.is_closing;
        let (unsaved, save_at) = self.shared.with(|state, now| {
            if state.unsaved.is_empty() {
                return (None, None);
            }
            let mut save_at = self.save_at.unwrap_or_else(|| self.save_pause.begin(now));
            if state.unsaved.is_urgent {
                save_at = save_at.min(now + SAVE_PAUSE);
            }
            if save_at <= now || is_closing {
                (Some(std::mem::take(&mut state.unsaved)), None)
            } else {
                (None, Some(save_at))
            }
        });
        self.save_at = save_at;
        let Some(mut unsaved) = unsaved else { return false };
        if !self.settings.stores_approvals {
            unsaved.approvals.clear();
        }
        self.saving = self
            .settings
            .memory
            .as_ref()
            .map(|memory| memory.save(&self.shared, &self.settings.runtime, unsaved));
        true
    }

    fn perform(&mut self, work: Work) {
        match work {
            Work::Run(task) => _ = self.tasks.insert(task),
            Work::Send(call, task) => _ = self.sending.insert(call, self.tasks.insert(task)),
            Work::Abort(call) => {
                if let Some(task) = self.sending.remove(&call) {
                    self.tasks.remove(task);
                }
            }
        }
    }

    fn poll_once(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS {
            let ended = self.poll_tasks(cx);
            let advanced = self.advance(cx);
            let saved = self.poll_saving(cx);
            if ended || advanced || saved {
                continue;
            }
            if self.is_closing && self.saving.is_none() {
                self.shared.with(|state, _| state.set_closed());
                return Poll::Ready(());
            }
            let timeout = self.shared.with(|state, _| state.plane.poll_timeout());
            let deadline = [timeout, self.save_at].into_iter().flatten().min();
            let deadline = deadline.and_then(|deadline| self.shared.clock.at(deadline));
            if self.alarm.poll_until(deadline, self.shared.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Settings {
    /// Reads the stored values of the new servers of a configuration.
    fn load(&self, shared: &Arc<Shared>, state: &State, config: Config) -> Option<Work> {
        let is_new = |entry: &&Arc<ServerEntry>| {
            let known = state.entries.get(&entry.id());
            known.is_none_or(|known| known.connection() != entry.connection())
        };
        let entries = config.servers().iter().filter(is_new).cloned().collect();
        let (memory, shared, approvals) = (self.memory.clone()?, shared.clone(), self.stores_approvals);
        Some(Work::Run(Box::pin(async move {
            Done::Loaded(config, memory.load(shared, entries, approvals).await)
        })))
    }

    /// The work of an action. Nothing of it runs before the driver polls it.
    fn prepare(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        state: &mut State,
        now: Instant,
        action: Action,
    ) -> Option<Work> {
        match action {
            Action::Connect { server, generation } => {
                let attempt = Attempt {
                    shared: shared.clone(),
                    settings: self.clone(),
                    entry: state.entries.get(&server)?.clone(),
                    generation,
                    stop: Stop::default(),
                    stderr: StderrTail::default(),
                };
                state.count(server, |counters| counters.attempts = counters.attempts.saturating_add(1));
                let connection = Connection {
                    generation,
                    stop: attempt.stop.clone(),
                    stderr: attempt.stderr.clone(),
                    client: None,
                    steps: StartSteps::default(),
                    step_began: now,
                    diagnostics: 0,
                    is_listed: false,
                };
                state.connections.insert(server, connection);
                let run = async move { Done::Connection(server, generation, attempt.run().await) };
                Some(Work::Run(Box::pin(run)))
            }
            Action::Disconnect { server, generation } => {
                state.connection(server, generation)?.stop.stop(None);
                None
            }
            Action::Send { call, server, generation } => {
                // The host has run its layers around the call.
                let client = state.connections.get(&server)?.client.as_ref()?.outside_layers();
                let send = state.calls.get(&call)?.call.clone();
                let transport = state.entries.get(&server).map(|entry| &entry.spec().transport);
                let is_http = matches!(transport, Some(TransportSpec::Http(_)));
                let shared = shared.clone();
                let run = async move {
                    Done::Call(call, server, generation, send.send(shared, client, is_http).await)
                };
                Some(Work::Send(call, Box::pin(run)))
            }
            Action::Abort { call } => Some(Work::Abort(call)),
            Action::CheckLogin { server, generation } => {
                let check = state.check_login(server);
                Some(Work::Run(Box::pin(async move { Done::Login(server, generation, check.await) })))
            }
            Action::AskApproval { server, content } => {
                let entry = state.entries.get(&server).filter(|entry| entry.meaning() == content)?.clone();
                match state.request(&entry) {
                    None => {
                        state.plane.handle_approval(now, server, content, true);
                        None
                    }
                    Some((request, true)) => self.ask_approval(state, entry, request),
                    Some((request, false)) => {
                        let settings = self.clone();
                        Some(Work::Run(Box::pin(async move {
                            let request = settings.complete_request(&entry, request).await;
                            Done::Request(entry, content, Box::new(request))
                        })))
                    }
                }
            }
        }
    }

    /// Publishes a request, and asks the user about it if there is a way to ask.
    fn ask_approval(
        &self,
        state: &mut State,
        entry: Arc<ServerEntry>,
        request: ApprovalRequest,
    ) -> Option<Work> {
        let event =
            HostEvent::ApprovalNeeded { server: entry.name().into(), request: Arc::new(request.clone()) };
        state.publish(event);
        let ask = self.ask.clone()?;
        Some(Work::Run(Box::pin(async move {
            let approval = request.approve();
            let is_approved = ask(request).await;
            Done::Approval(entry, Box::new(approval), is_approved)
        })))
    }
}

impl State {
    //= F75 "The user learns of a lost connection"
    fn publish_status(&mut self, server: ServerId) {
        let Some(server_name) = self.name(server) else { return };
        let Some(state) = self.plane.server(server) else { return };
        let failure = state.failure.cloned().map(Arc::new);
        let status = Some(state.status);
        self.publish(HostEvent::Status { server: server_name, status, failure });
    }
}

impl Future for HostDriver {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { host, repoll } = &mut *self;
        if !host.is_started {
            // Otherwise the first timer or socket would start it, and panic if it cannot.
            host.settings.runtime.start()?;
            host.is_started = true;
            host.shared.with(|state, _| state.first_poll = FirstPoll::Done);
        }
        repoll.poll(cx, |cx| host.poll_once(cx)).map(Ok)
    }
}

impl Drop for HostLoop {
    fn drop(&mut self) {
        self.tasks = TaskSet::default();
        self.shared.with(|state, now| {
            state.plane.close_now(now);
            while let Some(event) = state.plane.poll_event() {
                if let Event::Ended { call, outcome } = event {
                    state.end_call(now, call, outcome);
                }
            }
            state.set_closed();
        });
    }
}

debug_fields! { HostDriver(self) { tasks = self.host.tasks.len() } }

/// Replaces the configuration; new servers start with their stored lists, pins and eras.
pub(super) fn configure(shared: &Shared, settings: &Settings, config: &Config, loaded: Loaded) {
    let entries: BTreeMap<ServerId, Arc<ServerEntry>> =
        config.servers().iter().map(|entry| (entry.id(), entry.clone())).collect();
    let Loaded { mut records, approvals, errors } = loaded;
    shared.command_both(|catalogue, state, now| {
        for error in errors {
            state.publish(HostEvent::StorageFailed { error: error.into() });
        }
        for approval in approvals {
            state.approvals.insert(approval);
        }
        let old = std::mem::replace(&mut state.entries, entries);
        state.requests.retain(|id, _| state.entries.contains_key(id));
        #[cfg(feature = "auth")]
        state.known_records.retain(|id, _| state.entries.contains_key(id));
        state.server_counters.retain(|id, _| state.entries.contains_key(id));
        for (id, entry) in &old {
            let new = state.entries.get(id);
            // Another program behind the name has other tools.
            if new.is_none_or(|new| new.connection() != entry.connection()) {
                catalogue.remove_server(entry.name());
                state.skills.remove_server(entry.name());
            }
            if new.is_none() {
                let server = entry.name().into();
                state.publish(HostEvent::Status { server, status: None, failure: None });
            }
        }
        for (id, entry) in state.entries.clone() {
            let known = old.get(&id);
            let name: Arc<str> = entry.name().into();
            let report = catalogue.add_server(&name, server_settings(&entry));
            if known.is_some_and(|known| known.meaning() != entry.meaning()) {
                state.publish_update(&name, ItemKind::Tool, report);
            }
            let is_new = known.is_none_or(|known| known.connection() != entry.connection());
            if let Some(record) = records.remove(&id).filter(|_| is_new) {
                if let Some(era) = record.era() {
                    state.eras.insert(entry.connection(), era);
                }
                // A model sees no tools of a server without approval.
                let is_permitted = entry.permit(&state.approvals).is_ok();
                let lists = if is_permitted { record.lists } else { CatalogueSnapshot::default() };
                if let Some(report) = catalogue.restore(&name, record.pins, lists) {
                    state.publish_update(&name, ItemKind::Tool, report);
                }
            }
        }
        let policies: Vec<_> = state
            .entries
            .iter()
            .map(|(id, entry)| {
                let mut policy = ServerPolicy::new(entry, &settings.overrides);
                policy.is_approved = entry.permit(&state.approvals).is_ok();
                #[cfg(feature = "auth")]
                {
                    policy.shares_logins = settings.shares_logins(entry);
                }
                policy.starts_to_list = catalogue.freshness(entry.name()) == Some(Freshness::Unlisted);
                (*id, policy)
            })
            .collect();
        state.plane.configure(now, policies);
    });
}

/// How the items of a server are shown: a filter that cannot be read shows none, and the server does not start.
fn server_settings(entry: &ServerEntry) -> ServerSettings {
    let pins = match entry.source().scope {
        Scope::User => PinPolicy::Report,
        Scope::Project => PinPolicy::Block,
    };
    let nothing = || ItemFilter { allow: Some(Vec::new()), deny: Vec::new() };
    let [tools, prompts, resources] =
        filters(entry.spec()).unwrap_or_else(|_| [nothing(), nothing(), nothing()]);
    ServerSettings { tools, prompts, resources, pins }
}
