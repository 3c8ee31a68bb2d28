//! One connection of a server: how it is opened, keeps the lists of the server current, and ends.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_lite::Stream as _;
use futures_lite::future::{or, poll_once, zip};
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::{Client, Error, Event, ListError, Watch, WatchUpdate};
use mcp_proto::host::config::{Answers, ItemLists, Scope, ServerEntry, ServerSpec};
use mcp_proto::host::control::{Failure, FailureKind, Generation, Status};
use mcp_proto::host::tools::{
    Catalogue, CatalogueItem, InvalidGlobError, ItemFilter, ItemKind, UpdateReport,
};
use mcp_proto::peer::client::{Change, CloseReason, ConnectError, ServerInfo};
use mcp_proto::peer::{CacheMode, LostReason};
use mcp_proto::schema::{List, ServerCapabilities};

use crate::time::GrowingPause;

use super::events::{HostEvent, StartSteps, StderrTail};
use super::settings::{Driver, FreshHeaders, Settings, permanent_failure};
use super::shared::{Shared, Stop};

/// The pauses before changed lists are read again: a burst of changes is read once, and a server that changes its lists
/// without end is read every ten seconds.
const FIRST_REREAD: Duration = Duration::from_millis(50);
const LONGEST_REREAD: Duration = Duration::from_secs(10);

/// A connection that is made, used and ended.
pub(super) struct Attempt {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Arc<Settings>,
    pub(super) entry: Arc<ServerEntry>,
    pub(super) generation: Generation,
    pub(super) stop: Stop,
    pub(super) stderr: StderrTail,
}

impl Attempt {
    /// Runs until the connection is over and its process has ended. Returns why; `None` if the host ordered it.
    pub(super) async fn run(self) -> Option<Failure> {
        let (client, mut driver) = match self.stop.or(self.open()).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(failure)) => return Some(failure),
            Err(ordered) => return ordered,
        };
        let mut events = client.events();
        let end = {
            let serving = async { self.serve(&client).await.map_or_else(|error| error, Error::Closed) };
            let mut work = pin!(self.stop.or(serving));
            poll_fn(|cx| {
                let end = match Pin::new(&mut driver).poll(cx) {
                    Poll::Ready(ended) => Poll::Ready(End::Driver(ended)),
                    Poll::Pending => work.as_mut().poll(cx).map(End::Work),
                };
                while let Poll::Ready(Some(event)) = Pin::new(&mut events).poll_next(cx) {
                    self.report(event);
                }
                end
            })
            .await
        };
        let failure = match end {
            End::Driver(ended) => ended.err().map(|error| failure_of(&error)),
            End::Work(ended) => {
                let _ = zip(&mut driver, client.close()).await;
                match ended {
                    Ok(error) => Some(failure_of(&error)),
                    Err(ordered) => ordered,
                }
            }
        };
        events.drain().into_iter().for_each(|event| self.report(event));
        let failure = failure.map(|failure| driver.spawn_failure().unwrap_or(failure));
        // Also if the end was ordered: the server may wait for a login all the same.
        #[cfg(feature = "auth")]
        self.shared.with(|state, _| state.set_known_record(self.entry.id(), driver.known_record()));
        let stderr = self.stderr.text();
        match failure {
            // Its standard error may explain why it had to be ended.
            None if !stderr.is_empty() => Some(ended(stderr)),
            failure => failure.map(|failure| failure.with_stderr(stderr)),
        }
    }

    /// Reports what the client noticed.
    fn report(&self, event: Event) {
        let Event::Diagnostic(diagnostic) = event else { return };
        let (server, diagnostic) = (self.entry.name().into(), Arc::new(diagnostic));
        self.shared.with(|state, _| {
            if let Some(connection) = state.connection(self.entry.id(), self.generation) {
                connection.diagnostics = connection.diagnostics.saturating_add(1);
            }
            state.publish(HostEvent::Diagnostic { server, diagnostic });
        });
    }

    //= F71 "look up credentials and configuration again"
    /// Resolves the entry, with fresh values of its variables and secrets, and makes a client.
    async fn open(&self) -> Result<(Client, Driver), Failure> {
        filters(self.entry.spec()).map_err(|error| {
            permanent_failure(format!("the lists of tools, prompts or resources: {error}"))
        })?;
        let mut answers = Answers::new();
        let resolved = self.settings.resolve(&self.shared, &self.entry, &mut answers).await?;
        self.end_step(|steps| &mut steps.look_up);
        let (shared, settings, entry) = (self.shared.clone(), self.settings.clone(), self.entry.clone());
        let headers = FreshHeaders { shared, settings, entry, answers };
        let fingerprint = self.entry.connection();
        let era = self.shared.with(|state, _| state.eras.get(&fingerprint).copied());
        self.settings.connect(resolved, headers, era, &self.stderr)
    }

    async fn serve(&self, client: &Client) -> Result<CloseReason, Error> {
        let info = client.ready().await?;
        self.end_step(|steps| &mut steps.handshake);
        if let Some(era) = client.known_era() {
            let fingerprint = self.entry.connection();
            self.shared.with(|state, _| _ = state.eras.insert(fingerprint, era));
        }
        let own = client.outside_layers();
        let lists = Lists { attempt: self, client: &own, info: &info };
        let mut watch = client.watch().tools().prompts().resources().open()?;
        // Lists that are read after the watch is active need not be read again for its sake.
        let is_active = matches!(poll_once(watch.next()).await, Some(Some(WatchUpdate::Active { .. })));
        lists.read_instructions();
        // Without its tools the server cannot be used.
        lists.update(lists.read(|it| it.tools.is_some(), own.list_tools()).await?);
        self.end_step(|steps| &mut steps.tools);
        self.shared.command(|state, now| {
            if let Some(connection) = state.connection(self.entry.id(), self.generation) {
                connection.client = Some(client.clone());
                state.plane.handle_connected(now, self.entry.id(), self.generation);
            }
        });
        //= F88 "follow after the tools, best effort"
        lists.read_changed(ChangedLists { tools: false, ..ChangedLists::ALL }).await?;
        self.end_step(|steps| &mut steps.lists);
        self.shared.with(|state, _| {
            if let Some(connection) = state.connection(self.entry.id(), self.generation) {
                connection.is_listed = true;
            }
            state.wake_waiting();
        });
        self.publish_record();
        if is_active || self.await_active(&mut watch, &lists).await? {
            self.follow(&mut watch, &lists).await?;
            if let Some(Err(error)) = watch.outcome()
                && is_unauthorized(&error)
            {
                // Without it, no list would be read again, and nothing would say so before the next call.
                let (server, failure) = (self.entry.id(), failure_of(&error));
                self.shared.command(|state, now| {
                    state.plane.handle_unauthorized(now, server, self.generation, failure);
                });
            }
        }
        Ok(client.closed().await)
    }

    /// Notes how long a step of the start took.
    fn end_step(&self, step: fn(&mut StartSteps) -> &mut Option<Duration>) {
        self.shared.with(|state, now| {
            if let Some(connection) = state.connection(self.entry.id(), self.generation) {
                *step(&mut connection.steps) = Some(now.saturating_since(connection.step_began));
                connection.step_began = now;
            }
        });
    }

    //= F105 "connected with transport, server and tool count"
    /// Reports the connection, which is complete now.
    fn publish_record(&self) {
        let report = self.shared.reports(Some(self.entry.id())).pop();
        let Some(report) = report.filter(|report| report.status == Status::Connected) else { return };
        let (server, report) = (report.name.clone(), Arc::new(report));
        self.shared.with(|state, _| state.publish(HostEvent::Connected { server, report }));
    }

    /// Waits until the watch reports changes, and reads the lists again, which may have changed before. Returns whether it
    /// does: some servers refuse watches, and are used all the same.
    async fn await_active(&self, watch: &mut Watch, lists: &Lists<'_>) -> Result<bool, Error> {
        while let Some(update) = watch.next().await {
            if let WatchUpdate::Active { .. } = update {
                lists.read_changed(ChangedLists::ALL).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    //= F100 "read again when the server says so"
    /// Reads lists again when they change, until the watch ends.
    async fn follow(&self, watch: &mut Watch, lists: &Lists<'_>) -> Result<(), Error> {
        let clock = &self.shared.clock;
        let mut pause = GrowingPause::new(FIRST_REREAD, LONGEST_REREAD);
        while let Some(update) = watch.next().await {
            let mut changed = ChangedLists::default();
            note(update, &mut changed, lists).await?;
            if !changed.any() {
                continue;
            }
            let end = pause.begin(clock.now());
            let mut timer = clock.timers().sleep(end.saturating_since(clock.now()));
            let mut pausing = async || {
                (&mut timer).await;
                None
            };
            while let Some(update) = or(pausing(), watch.next()).await {
                note(update, &mut changed, lists).await?;
            }
            lists.read_changed(changed).await?;
        }
        Ok(())
    }
}

/// Notes which lists an update of the watch concerns.
async fn note(update: WatchUpdate, changed: &mut ChangedLists, lists: &Lists<'_>) -> Result<(), Error> {
    match update {
        WatchUpdate::Changed { change: Change::Tools, .. } => changed.tools = true,
        WatchUpdate::Changed { change: Change::Prompts, .. } => changed.prompts = true,
        WatchUpdate::Changed { change: Change::Resources, .. } => changed.resources = true,
        WatchUpdate::Missed { .. } => *changed = ChangedLists::ALL,
        WatchUpdate::Interrupted => check_connection(lists.client).await?,
        _ => {}
    }
    Ok(())
}

/// How a connection ended.
enum End {
    /// By itself.
    Driver(Result<(), Error>),
    /// By an error, or because the end was ordered.
    Work(Result<Error, Option<Failure>>),
}

/// The end of a program that the host ended.
fn ended(stderr: String) -> Failure {
    Failure::new(mcp_proto::host::control::FailureKind::Transient, "the connection was ended")
        .with_stderr(stderr)
}

/// The lists of a server that have changed.
#[derive(Clone, Copy, Debug, Default)]
struct ChangedLists {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl ChangedLists {
    const ALL: Self = Self { tools: true, prompts: true, resources: true };

    fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }
}

/// Reads the lists of one server.
struct Lists<'a> {
    attempt: &'a Attempt,
    client: &'a Client,
    info: &'a ServerInfo,
}

impl Lists<'_> {
    /// Whether the server has such lists; it may if it declares no capabilities.
    fn has(&self, capability: impl FnOnce(&ServerCapabilities) -> bool) -> bool {
        self.info.capabilities.as_ref().is_none_or(capability)
    }

    fn read_instructions(&self) {
        let text = self.info.instructions.as_deref();
        self.change(ItemKind::Instructions, |catalogue, server| {
            let before = catalogue.instructions_of(server).map(str::to_owned);
            let report = catalogue.set_instructions(server, text)?;
            Some((report, before.as_deref() != catalogue.instructions_of(server)))
        });
    }

    /// Reads a list; it is empty without the capability.
    async fn read<T>(
        &self,
        capability: impl FnOnce(&ServerCapabilities) -> bool,
        list: impl IntoFuture<Output = Result<List<T>, ListError<T>>>,
    ) -> Result<List<T>, ListError<T>> {
        if self.has(capability) { list.await } else { Ok(List::new()) }
    }

    async fn read_changed(&self, changed: ChangedLists) -> Result<(), Error> {
        let client = self.client;
        if changed.tools {
            self.update_if_read(self.read(|it| it.tools.is_some(), client.list_tools()).await)?;
        }
        if changed.prompts {
            self.update_if_read(self.read(|it| it.prompts.is_some(), client.list_prompts()).await)?;
        }
        if changed.resources {
            let has = |it: &ServerCapabilities| it.resources.is_some();
            self.update_if_read(self.read(has, client.list_resources()).await)?;
            self.update_if_read(self.read(has, client.list_resource_templates()).await)?;
        }
        Ok(())
    }

    /// A list that cannot be read stays as it was; the server is used all the same, unless it is gone.
    fn update_if_read<T: CatalogueItem + Clone + PartialEq>(
        &self,
        read: Result<List<T>, ListError<T>>,
    ) -> Result<(), Error> {
        match read {
            Ok(list) => self.update(list),
            Err(ListError { error, .. }) if error.is_disconnect() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    fn update<T: CatalogueItem + Clone + PartialEq>(&self, list: List<T>) {
        self.change(T::KIND, |catalogue, server| {
            let visible = |catalogue: &Catalogue| -> Vec<T> {
                catalogue
                    .items::<T>()
                    .filter(|entry| entry.server == server)
                    .map(|entry| entry.item.clone())
                    .collect()
            };
            let before = visible(catalogue);
            let report = catalogue.update(server, list)?;
            Some((report, before != visible(catalogue)))
        });
    }

    /// Changes the catalogue, unless the server was reconfigured meanwhile, and reports it. `act` returns whether
    /// the visible items are others.
    fn change(&self, kind: ItemKind, act: impl FnOnce(&mut Catalogue, &str) -> Option<(UpdateReport, bool)>) {
        let entry = &self.attempt.entry;
        let name: Arc<str> = entry.name().into();
        let shared = &self.attempt.shared;
        shared.command_both(|catalogue, state, _| {
            let current = state.entries.get(&entry.id());
            let Some(current) = current.filter(|now| now.connection() == entry.connection()) else { return };
            catalogue.set_withdrawn(&name, state.is_withdrawn(current));
            let Some((report, is_visible)) = act(catalogue, &name) else { return };
            if is_visible || report.pins_changed {
                // Approved definitions must not be lost; lists can be read again.
                let is_urgent = report.pins_changed && entry.source().scope == Scope::Project;
                //= F80 "A slow server's list replaces that of the last run and is stored"
                state.unsaved.add(entry.id(), is_urgent);
            }
            if is_visible || !report.changes.is_empty() || !report.collisions.is_empty() {
                state.publish_update(&name, kind, report);
            }
        });
    }
}

// The headers of a server at a URL, whose variables are looked up again after status 401.

/// The failure that an error of a client means.
pub(super) fn failure_of(error: &Error) -> Failure {
    let kind = match error {
        _ if error.unauthorized().is_some() => FailureKind::NeedsAuthorization,
        Error::Closed(CloseReason::Connect(error)) if is_permanent(error) => FailureKind::Permanent,
        Error::Closed(CloseReason::Lost(LostReason::WrongTransport(_))) => FailureKind::Permanent,
        _ => FailureKind::Transient,
    };
    Failure::new(kind, error.to_string())
}

/// Whether the server refuses the client's credentials, for any request.
pub(super) fn is_unauthorized(error: &Error) -> bool {
    error.unauthorized().is_some_and(|http| http.status == 401)
}

/// Whether the server would refuse the client again.
fn is_permanent(error: &ConnectError) -> bool {
    match error {
        ConnectError::NoCommonVersion { .. }
        | ConnectError::MissingCapabilities { .. }
        | ConnectError::LegacyServer { .. }
        | ConnectError::HeadersChanged { .. }
        | ConnectError::Extensions(_) => true,
        ConnectError::AllFailed(errors) => errors.last().is_some_and(is_permanent),
        _ => false,
    }
}

/// Finds out whether the server still answers.
///
/// # Errors
/// If it does not.
pub(super) async fn check_connection(client: &Client) -> Result<(), Error> {
    match client.list_tools_page(None).cache(CacheMode::Bypass).await {
        Err(error) if error.is_disconnect() || error.is_timeout() => Err(error),
        _ => Ok(()),
    }
}

/// The filters of tools, prompts and resources.
pub(super) fn filters(spec: &ServerSpec) -> Result<[ItemFilter; 3], InvalidGlobError> {
    let filter = |lists: &ItemLists| ItemFilter::new(lists.allow.as_deref(), &lists.deny);
    Ok([filter(&spec.tools)?, filter(&spec.prompts)?, filter(&spec.resources)?])
}
