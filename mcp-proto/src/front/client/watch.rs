//! Watches: change notifications from servers of either era, and their queues.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};

use futures_core::Stream;

use super::Client;
use super::subscription::StreamState;
use super::watch_queues::{WatchItem, WatchUpdate};
use crate::front::Error;
use crate::peer::client::{WatchFilter, WatchId, WatchStart};

impl Client {
    /// Creates a watch for changes on the server, of either era.
    ///
    /// ```
    /// use mcp_proto::front::{Client, Error, WatchUpdate};
    /// use mcp_proto::peer::client::Change;
    ///
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let mut watch = client.watch().tools().resource("file:///project/config.json").open()?;
    /// while let Some(update) = watch.next().await {
    ///     match update {
    ///         WatchUpdate::Changed { change: Change::Tools, .. } => println!("list the tools again"),
    ///         WatchUpdate::Changed { change: Change::Resource(uri), .. } => println!("read {uri} again"),
    ///         WatchUpdate::Active { missing } if !missing.is_empty() => println!("poll the rest"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// All watches of a connection share one subscription of 2026-07-28; at earlier revisions they use one
    /// `resources/subscribe` per resource. Do not mix them with [`subscribe`](Self::subscribe) and
    /// [`unsubscribe`](Self::unsubscribe) of the same resources. For a separate subscription, see
    /// [`listen`](Self::listen).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    pub fn watch(&self) -> WatchRequest {
        WatchRequest { client: self.clone(), filter: WatchFilter::new(), since: WatchStart::Now }
    }
}

/// A builder of a watch.
#[derive(Debug)]
#[must_use = "nothing is watched before `open`"]
pub struct WatchRequest {
    client: Client,
    filter: WatchFilter,
    since: WatchStart,
}

impl WatchRequest {
    /// Watches the list of tools.
    pub fn tools(self) -> Self {
        self.with(WatchFilter::tools)
    }

    /// Watches the list of prompts.
    pub fn prompts(self) -> Self {
        self.with(WatchFilter::prompts)
    }

    /// Watches the lists of resources and templates.
    pub fn resources(self) -> Self {
        self.with(WatchFilter::resources)
    }

    /// Watches the resource `uri` and the resources below it.
    pub fn resource(self, uri: impl AsRef<str>) -> Self {
        self.with(|filter| filter.resource(uri))
    }

    /// Watches the task `id`. The client must declare the tasks extension.
    pub fn task(self, id: impl AsRef<str>) -> Self {
        self.with(|filter| filter.task(id))
    }

    /// Watches what `filter` selects, in place of all earlier selections.
    pub fn filter(self, filter: WatchFilter) -> Self {
        self.with(|_| filter)
    }

    /// Sets which state the application knows already.
    pub fn since(mut self, since: WatchStart) -> Self {
        self.since = since;
        self
    }

    /// Opens the watch. The handshake need not be complete yet.
    ///
    /// # Errors
    /// If the connection has ended or is closing.
    pub fn open(self) -> Result<Watch, Error> {
        let Self { client, filter, since } = self;
        let requested = filter.clone();
        let id = client.inner.checked(|core, mut client| {
            let id = client.watch(requested, since)?;
            core.watch_queues.open(id);
            Ok(id)
        })?;
        Ok(Watch { client, id, filter, state: StreamState::Open })
    }

    fn with(mut self, change: impl FnOnce(WatchFilter) -> WatchFilter) -> Self {
        self.filter = change(self.filter);
        self
    }
}

/// A watch: a stream of changes.
///
/// Each change is queued once, however often it happens before it is taken; at most 1,024 updates and 16 MiB are
/// queued, and then [`Missed`](WatchUpdate::Missed) counts the oldest, which were dropped. The stream ends when the
/// server ends it gracefully or rejects it, or with the connection; [`outcome`](Self::outcome) then returns the reason.
/// The watch recovers from lost subscriptions by itself. Dropping it ends it; it keeps the connection open.
#[derive(Debug)]
#[must_use = "dropping a watch ends it"]
pub struct Watch {
    client: Client,
    id: WatchId,
    filter: WatchFilter,
    state: StreamState,
}

impl Watch {
    /// The next update; `None` once the watch has ended.
    pub async fn next(&mut self) -> Option<WatchUpdate> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The changes that are watched.
    pub fn filter(&self) -> &WatchFilter {
        &self.filter
    }

    /// Replaces the filter. Changes that both filters select are reported without a gap; an
    /// [`Active`](WatchUpdate::Active) tells when the others are reported too.
    pub fn set_filter(&mut self, filter: WatchFilter) {
        self.filter = filter.clone();
        let id = self.id;
        self.client.command(|mut client| client.set_watch_filter(id, filter));
    }

    /// Opens the same watch on another connection to the same server.
    ///
    /// Everything in its filter that the server reports counts as possibly changed.
    ///
    /// # Errors
    /// If that connection has ended or is closing.
    pub fn reopen(&self, client: &Client) -> Result<Self, Error> {
        //= C3.7 "stdio: re-send `subscriptions/listen` after the connection is re-established"
        client.watch().filter(self.filter.clone()).since(WatchStart::Before).open()
    }

    /// How the watch ended: `Ok` if the server ended it gracefully; `None` while it is active. It can be taken once.
    pub fn outcome(&mut self) -> Option<Result<(), Error>> {
        self.state.take_outcome()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        if !self.state.is_open() {
            return Poll::Ready(None);
        }
        let (id, waker) = (self.id, cx.waker().clone());
        let connection = &self.client.inner.connection;
        let polled = connection.with(|core, _, _, wakers| core.watch_queues.poll(id, waker, wakers));
        polled.map(|item| match item? {
            WatchItem::Update(update) => Some(update),
            WatchItem::End(end) => {
                self.state = StreamState::Ended(end);
                None
            }
        })
    }
}

impl Stream for Watch {
    type Item = WatchUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        self.poll(cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let id = self.id;
        self.client.inner.connection.command(|core, machine, now, wakers| {
            core.watch_queues.close(id, wakers);
            machine.at(now).unwatch(id);
        });
    }
}
