//! Watches of a server's changes that outlive its connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_lite::Stream;
use futures_lite::future::or;
use mcp_proto::front::{Client, Error, Watch, WatchUpdate};
use mcp_proto::host::config::ServerId;
use mcp_proto::host::control::{Generation, UnknownServer};
use mcp_proto::peer::client::{WatchFilter, WatchStart};

use super::Host;
use super::connection::is_unauthorized;
use super::events::CallError;
use super::handle::ServerHold;
use super::shared::{Shared, State, Waiter};

impl Host {
    /// Watches for changes on the server of this name: of its lists, of resources, of tasks. The watch lives on when the
    /// server is connected again, also in another era, when its entry is changed by [`reload`](Self::reload), and while the
    /// server is switched off. It [holds](Self::hold) the server.
    ///
    /// It is for what the host does not keep: resources and tasks. For the tools that a model sees, follow
    /// [`HostEvent::CatalogueChanged`](super::HostEvent::CatalogueChanged): at the change of a list that a watch reports,
    /// [`tools`](Self::tools) still has the list before.
    ///
    /// ```no_run
    /// use mcp_hyper::host::Host;
    /// use mcp_hyper::mcp_proto::front::WatchUpdate;
    /// use mcp_hyper::mcp_proto::peer::client::{Change, WatchFilter};
    ///
    /// # async fn example(host: Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut watch = host.watch("files", WatchFilter::new().resource("file:///srv/notes.md"))?;
    /// while let Some(update) = watch.next().await {
    ///     match update {
    ///         WatchUpdate::Changed { change: Change::Resource(uri), .. } => println!("read {uri} again"),
    ///         WatchUpdate::Active { missing } if !missing.is_empty() => println!("poll the rest"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If no such server is configured, or the host is closed.
    pub fn watch(&self, server: &str, filter: WatchFilter) -> Result<HostWatch, UnknownServer> {
        let hold = self.hold(server)?;
        let waiter = Waiter::new(self.shared().clone());
        Ok(HostWatch {
            hold,
            waiter,
            filter,
            state: WatchState::Waiting { after: None },
            is_interrupted: true,
        })
    }
}

/// A watch of a server of a host: a stream of changes. See [`Host::watch`].
///
/// When the server is lost, [`Interrupted`](WatchUpdate::Interrupted) follows. Once it is connected again,
/// [`Active`](WatchUpdate::Active) does: fetch again what it names as missing; everything else of the filter follows as
/// [`Changed`](WatchUpdate::Changed). Updates are
/// queued as by a client's [`Watch`]. The stream ends with the host, when the server is removed from the configuration, and
/// when the server refuses the watch; [`outcome`](Self::outcome) then returns the reason. If the server no longer accepts
/// the credentials of an active watch, it waits for the user
/// ([`NeedsAuthorization`](mcp_proto::host::control::Status::NeedsAuthorization)), and the watch for the next connection.
#[must_use = "dropping a watch ends it"]
pub struct HostWatch {
    hold: ServerHold,
    waiter: Waiter<Arc<Shared>>,
    filter: WatchFilter,
    state: WatchState,
    /// Whether the application knows that nothing is reported at the moment.
    is_interrupted: bool,
}

enum WatchState {
    /// It waits for a connection, other than the last one.
    Waiting {
        after: Option<Generation>,
    },
    Open {
        generation: Generation,
        watch: Watch,
        /// Whether changes were reported on this connection.
        was_active: bool,
    },
    Ended {
        outcome: Option<Result<(), CallError>>,
    },
}

impl HostWatch {
    /// The next update; `None` once the watch has ended.
    pub async fn next(&mut self) -> Option<WatchUpdate> {
        let shared = self.hold.shared().clone();
        or(poll_fn(|cx| self.poll(cx)), shared.report_unpolled_driver()).await
    }

    /// The changes that are watched.
    pub fn filter(&self) -> &WatchFilter {
        &self.filter
    }

    /// Replaces the filter. See [`Watch::set_filter`].
    pub fn set_filter(&mut self, filter: WatchFilter) {
        if let WatchState::Open { watch, .. } = &mut self.state {
            watch.set_filter(filter.clone());
        }
        self.filter = filter;
    }

    /// How the watch ended: `Ok` if the server ended it gracefully; `None` while it is active. It can be taken once.
    pub fn outcome(&mut self) -> Option<Result<(), CallError>> {
        match &mut self.state {
            WatchState::Ended { outcome } => outcome.take(),
            _ => None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        loop {
            match &mut self.state {
                WatchState::Ended { .. } => return Poll::Ready(None),
                WatchState::Waiting { after } => {
                    let (id, after) = (self.hold.server(), *after);
                    match ready!(self.waiter.poll(cx, |state| state.next_client(id, after))) {
                        Ok((generation, client)) => self.open(generation, &client, after.is_some()),
                        Err(error) => self.state = WatchState::Ended { outcome: Some(Err(error)) },
                    }
                }
                WatchState::Open { generation, watch, was_active } => {
                    let update = match ready!(Pin::new(&mut *watch).poll_next(cx)) {
                        Some(update) => update,
                        None => match watch.outcome() {
                            // Credentials that no longer count end the connection too.
                            Some(Err(error))
                                if error.is_disconnect()
                                    || matches!(error, Error::Cancelled)
                                    || *was_active && is_unauthorized(&error) =>
                            {
                                self.state = WatchState::Waiting { after: Some(*generation) };
                                WatchUpdate::Interrupted
                            }
                            ended => {
                                let outcome = ended.map(|ended| ended.map_err(CallError::Call));
                                self.state = WatchState::Ended { outcome };
                                continue;
                            }
                        },
                    };
                    let was_interrupted = self.is_interrupted;
                    match update {
                        WatchUpdate::Interrupted => self.is_interrupted = true,
                        WatchUpdate::Active { .. } => self.is_interrupted = false,
                        _ => {}
                    }
                    // Only a watch that was active is interrupted.
                    if let WatchState::Open { was_active, .. } = &mut self.state {
                        *was_active |=
                            matches!(update, WatchUpdate::Active { .. } | WatchUpdate::Interrupted);
                    }
                    if !(was_interrupted && matches!(update, WatchUpdate::Interrupted)) {
                        return Poll::Ready(Some(update));
                    }
                }
            }
        }
    }

    /// Opens the watch on a new connection. One that is closing already has a successor.
    fn open(&mut self, generation: Generation, client: &Client, is_again: bool) {
        //= F74 "subscribe again, report what may have changed"
        //= C3.7 "stdio: re-send `subscriptions/listen` after the connection is re-established"
        let since = if is_again { WatchStart::Before } else { WatchStart::Now };
        self.state = match client.watch().filter(self.filter.clone()).since(since).open() {
            Ok(watch) => WatchState::Open { generation, watch, was_active: false },
            Err(_) => WatchState::Waiting { after: Some(generation) },
        };
    }
}

impl State {
    /// The client of a server on a later connection than `after`, once there is one; an error once there will be none.
    fn next_client(
        &self,
        server: ServerId,
        after: Option<Generation>,
    ) -> Option<Result<(Generation, Client), CallError>> {
        if self.is_closed() {
            return Some(Err(CallError::Closed));
        }
        if !self.entries.contains_key(&server) {
            return Some(Err(CallError::Removed));
        }
        let connection = self.connections.get(&server)?;
        let client = connection.client.clone().filter(|_| Some(connection.generation) > after)?;
        Some(Ok((connection.generation, client)))
    }
}

impl Stream for HostWatch {
    type Item = WatchUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        self.poll(cx)
    }
}

debug_fields! { HostWatch(self) { server = self.hold.server() } }
