//! Watches as a client has them: its commands, what the server says, what is asked of it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use crate::Instant;
use crate::peer::client::{Client, Diagnostic, Event, Phase};
use crate::peer::events::EventQueue;
use crate::peer::{Outbox, Outcome, Outgoing, Refusal, Reissue, RequestId, RequestOptions};
use crate::rpc::{Raw, Text};
use crate::schema::tasks::legacy::TaskStatusChanged;
use crate::schema::tasks::{TaskIdParams, TaskUpdated};
use crate::schema::{
    ClientCapability, Era, Method, Notification, PromptListChanged, ResourceListChanged, ResourceUpdated,
    ResourceUpdatedParams, SubscribeResource, SubscribeResourceParams, SubscriptionsAcknowledged,
    SubscriptionsAcknowledgedParams, SubscriptionsListen, SubscriptionsListenParams, ToolListChanged,
    UnsubscribeResource, UnsubscribeResourceParams,
};

use super::listening::News;
use super::pace::Fate;
use super::{Interest, Since, Topic, WatchId, Watching, Way, keeping, listening};

/// Who has a notification in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peer::client) enum Heard {
    /// It was for the watches alone.
    ByWatches,
    /// It is for others as well.
    ByAll,
}

/// What is to be asked of the server.
enum Ask {
    Listen(Interest),
    Subscribe(Arc<str>),
    Unsubscribe(Arc<str>),
    End(i64),
}

impl Client {
    // --- Commands ---

    /// Asks to be told of changes, from any server: how that is done is the machine's business. The watch lasts until
    /// [`unwatch`](Self::unwatch), until it has [ended](super::WatchState::Ended), or until the connection is over.
    ///
    /// Watch first, and fetch once the watch is [on](super::WatchState::On): then nothing is missed between. A change
    /// may be told more than once.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    ///
    /// # Errors
    /// If the connection is closed, or closing.
    pub fn watch(
        &mut self,
        now: Instant,
        interest: Interest,
        since: Since,
        out: &mut dyn Outbox,
    ) -> Result<WatchId, Refusal> {
        if matches!(self.phase, Phase::Finishing { .. } | Phase::Ending { .. } | Phase::Closed) {
            return Err(Refusal::Closed);
        }
        let ready = matches!(self.phase, Phase::Ready);
        let (config, channel) = (&self.config, self.channel);
        let watching = self.watching.get_or_insert_with(|| {
            let asks_tasks = config.capabilities.has(ClientCapability::TasksExtension);
            let mut watching = Box::new(Watching::new(config.watch, asks_tasks));
            if let (true, Some(server)) = (ready, &self.server) {
                watching.begin(server, channel, &mut self.events);
                watching.deaf = self.unheard;
            }
            watching
        });
        let id = watching.add(interest, since);
        watching.settle(id, &mut self.events);
        self.advance_watches(now, out);
        Ok(id)
    }

    /// Changes what a watch is interested in. What is of interest before and after is told without a gap. The watch is
    /// [on](super::WatchState::On) again, and said to be so, once the server has taken note.
    pub fn set_interest(&mut self, now: Instant, watch: WatchId, interest: Interest, out: &mut dyn Outbox) {
        if self.is_closed() {
            return;
        }
        if let Some(watching) = &mut self.watching {
            watching.change(watch, interest);
            watching.settle(watch, &mut self.events);
            self.advance_watches(now, out);
        }
    }

    /// Ends a watch: it is told nothing more, not even what waits among the events.
    pub fn unwatch(&mut self, now: Instant, watch: WatchId, out: &mut dyn Outbox) {
        if let Some(watching) = &mut self.watching {
            watching.remove(watch);
            self.advance_watches(now, out);
        }
    }

    // --- Getters ---

    /// The watches, with what they are interested in: what is to be asked again when the application connects anew. The
    /// connection may be over.
    pub fn watches(&self) -> impl Iterator<Item = (WatchId, &Interest)> {
        let watches = self.watching.iter().flat_map(|watching| &watching.watches);
        watches.map(|(&id, watch)| (id, &watch.interest))
    }

    // --- What the other files share ---

    /// The server is known.
    pub(in crate::peer::client) fn begin_watches(&mut self, now: Instant, out: &mut dyn Outbox) {
        self.unheard = false;
        if self.is_closed() {
            return;
        }
        if let (Some(watching), Some(server)) = (&mut self.watching, &self.server) {
            watching.begin(server, self.channel, &mut self.events);
            watching.settle_all(&mut self.events);
            self.advance_watches(now, out);
        }
    }

    /// Takes what a server says about changes.
    pub(in crate::peer::client) fn watches_hear(
        &mut self,
        now: Instant,
        method: &Text,
        params: Option<&Raw>,
        subscription: Option<RequestId>,
    ) -> Heard {
        let modern = self.era() == Some(Era::Modern);
        let Some(watching) = &mut self.watching else { return Heard::ByAll };
        let number = subscription.map(RequestId::number).filter(|&number| watching.owns(number));
        if modern && number.is_none() {
            return Heard::ByAll;
        }
        let heard = match number {
            Some(number) if &**method == SubscriptionsAcknowledged::NAME => {
                watching.acknowledged(now, number, params, &mut self.events)
            }
            number => watching.hear(now, number, method, params, modern, &mut self.events),
        };
        match heard {
            Ok(heard) => heard,
            Err(error) => {
                self.diagnose(Diagnostic::InvalidNotification { method: method.clone(), error });
                Heard::ByWatches
            }
        }
    }

    /// Does what the watches want done now.
    pub(crate) fn advance_watches(&mut self, now: Instant, out: &mut dyn Outbox) {
        if !matches!(self.phase, Phase::Ready) {
            return;
        }
        let Some(mut watching) = self.watching.take_if(|watching| watching.is_due(now)) else { return };
        watching.dirty = false;
        while let Some(ask) = watching.next(now, &mut self.events) {
            match ask {
                Ask::End(number) => {
                    if self.take(number).is_some() {
                        out.cancel(number, None);
                    }
                }
                Ask::Listen(interest) => {
                    let params = SubscriptionsListenParams::new(interest.filter());
                    let sent = self.ask::<SubscriptionsListen>(now, &params, Reissue::Never, out);
                    let until = now + self.config.request_timeout;
                    if let Way::Modern(listening) = &mut watching.way {
                        match sent {
                            Ok(number) => listening.sent(number, interest, until),
                            Err(_) => listening.not_sent(now),
                        }
                    }
                }
                Ask::Subscribe(uri) => {
                    let params = SubscribeResourceParams::new(&*uri);
                    let sent = self.ask::<SubscribeResource>(now, &params, Reissue::WhereSafe, out);
                    watching.asked(now, uri, sent, &mut self.events);
                }
                Ask::Unsubscribe(uri) => {
                    let params = UnsubscribeResourceParams::new(&*uri);
                    let sent = self.ask::<UnsubscribeResource>(now, &params, Reissue::WhereSafe, out);
                    watching.asked(now, uri, sent, &mut self.events);
                }
            }
        }
        self.watching = Some(watching);
    }

    /// Sends a request of the machine's own, which ends among the watches.
    fn ask<M: Method>(
        &mut self,
        now: Instant,
        params: &M::Params,
        reissue: Reissue,
        out: &mut dyn Outbox,
    ) -> Result<i64, Refusal> {
        let options = RequestOptions::default().reissue(reissue);
        self.send(now, Outgoing::new::<M>(params, options), out).map(RequestId::number)
    }
}

/// For a transport whose streams come and go (legacy revisions over HTTP).
#[cfg(feature = "http")]
impl Client {
    /// Messages travel in exchanges of their own; `seed` tells this client's chance from that of others.
    pub(crate) fn separate(&mut self, seed: u64) {
        self.channel = super::Channel::Separate;
        self.config.watch.seed = seed;
    }

    /// What the server says of its own accord is heard from now on; what it said before may have been missed.
    pub(crate) fn note_listening(&mut self) {
        self.unheard = false;
        if self.is_closed() {
            return;
        }
        if let Some(watching) = &mut self.watching {
            watching.deaf = false;
            watching.miss();
            watching.settle_all(&mut self.events);
        }
    }

    /// What the server says of its own accord is not heard any more.
    pub(crate) fn note_not_listening(&mut self) {
        self.unheard = true;
        if self.is_closed() {
            return;
        }
        if let Some(watching) = &mut self.watching {
            watching.deaf = true;
            watching.interrupt(&mut self.events);
        }
    }

    /// A legacy server has forgotten the session.
    pub(in crate::peer::client) fn interrupt_watches(&mut self) {
        if let Some(watching) =
            self.watching.as_mut().filter(|watching| matches!(watching.way, Way::Legacy(_)))
        {
            watching.interrupt(&mut self.events);
        }
    }

    /// Whether the watches want something done.
    pub(crate) fn watches_wait(&self) -> bool {
        matches!(self.phase, Phase::Ready) && self.watching.as_ref().is_some_and(|watching| watching.dirty)
    }
}

impl Watching {
    /// What is to be asked next, after what has come of what was asked before.
    fn next(&mut self, now: Instant, events: &mut EventQueue<Event>) -> Option<Ask> {
        for (number, outcome) in core::mem::take(&mut self.ended) {
            self.conclude(now, number, outcome, events);
        }
        if let Some(number) = self.dropped.pop_last() {
            return Some(Ask::End(number));
        }
        let wanted = matches!(self.way, Way::Modern(_)).then(|| self.wanted()).unwrap_or_default();
        match &mut self.way {
            Way::Unknown => None,
            Way::Modern(listening) => match listening.next(now, &wanted) {
                listening::Act::Rest => None,
                listening::Act::Listen => Some(Ask::Listen(wanted)),
                listening::Act::End(number) => Some(Ask::End(number)),
            },
            Way::Legacy(legacy) => Some(match legacy.keeping.next(now)? {
                keeping::Act::Subscribe(uri) => Ask::Subscribe(uri),
                keeping::Act::Unsubscribe(uri) => Ask::Unsubscribe(uri),
            }),
        }
    }

    /// A request of a watch has ended.
    fn conclude(&mut self, now: Instant, number: i64, outcome: Outcome, events: &mut EventQueue<Event>) {
        self.dropped.remove(&number);
        let fate = Fate::from(outcome);
        match &mut self.way {
            Way::Unknown => {}
            Way::Modern(listening) => {
                let news = listening.ended(now, number, fate);
                self.take_news(news, events);
            }
            Way::Legacy(legacy) => {
                if let Some(uri) = legacy.keeping.ended(now, number, fate) {
                    self.settle_interested(&Topic::Resource(uri), events);
                }
            }
        }
    }

    /// A resource was subscribed to, or given up, if that could be sent.
    fn asked(
        &mut self,
        now: Instant,
        uri: Arc<str>,
        sent: Result<i64, Refusal>,
        events: &mut EventQueue<Event>,
    ) {
        let Way::Legacy(legacy) = &mut self.way else { return };
        match sent {
            Ok(number) => legacy.keeping.sent(number, uri),
            Err(refusal) => {
                let fate = Fate::from(Outcome::Refused(refusal));
                if let Some(uri) = legacy.keeping.conclude(now, uri, fate) {
                    self.settle_interested(&Topic::Resource(uri), events);
                }
            }
        }
    }

    fn acknowledged(
        &mut self,
        now: Instant,
        number: i64,
        params: Option<&Raw>,
        events: &mut EventQueue<Event>,
    ) -> Result<Heard, String> {
        let Way::Modern(listening) = &mut self.way else { return Ok(Heard::ByWatches) };
        let params: SubscriptionsAcknowledgedParams = decode(params)?;
        if let Some(asked) = listening.opening(number) {
            let granted = asked.granted(&params.notifications);
            let news = listening.acknowledged(now, number, granted);
            self.dirty = true;
            self.take_news(news, events);
        }
        Ok(Heard::ByWatches)
    }

    /// Takes what the server says, on the subscription `number` if it is a modern one.
    fn hear(
        &mut self,
        now: Instant,
        number: Option<i64>,
        method: &str,
        params: Option<&Raw>,
        modern: bool,
        events: &mut EventQueue<Event>,
    ) -> Result<Heard, String> {
        let told = number.is_some();
        if let (Some(number), Way::Modern(listening)) = (number, &mut self.way)
            && let news = listening.heard(now, number)
            && !matches!(news, News::None)
        {
            self.dirty = true;
            self.take_news(news, events);
        }
        let task = if modern { TaskUpdated::NAME } else { TaskStatusChanged::NAME };
        match method {
            ToolListChanged::NAME => _ = self.tell(&Topic::Tools, None, events),
            PromptListChanged::NAME => _ = self.tell(&Topic::Prompts, None, events),
            ResourceListChanged::NAME => _ = self.tell(&Topic::Resources, None, events),
            ResourceUpdated::NAME => {
                let params: ResourceUpdatedParams = decode(params)?;
                self.tell_resource(&params.uri, events);
            }
            method if method == task => {
                let id: TaskIdParams = decode(params)?;
                self.tell(&Topic::Task(id.task_id.as_str().into()), params, events);
            }
            // It has no business here, and is passed on as it is.
            _ => return Ok(Heard::ByAll),
        }
        Ok(if told { Heard::ByWatches } else { Heard::ByAll })
    }
}

/// Decodes a notification's parameters, or says what is wrong with them.
fn decode<'a, T: serde::Deserialize<'a>>(params: Option<&'a Raw>) -> Result<T, String> {
    match params {
        Some(params) => params.decode().map_err(|error| error.to_string()),
        None => Err("it has no parameters".into()),
    }
}
