//! Change notifications between instances, published in Redis.
//!
//! A subscription is a connection of its own, which its stream opens again whenever it is lost. Whatever was published in
//! between is lost, and the stream says so.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;
use futures_lite::stream;
use mcp_proto::adapter::{BackoffTimer, Clock as _};
use mcp_proto::front::http::{Change, ChangeRelay, ChangeStream, PublishFuture};
use mcp_proto::peer::server::ListKind;

use super::connection::Shared;
use super::handshake::{checked, exchange, log_in, read_reply};
use super::options::Settings;
use super::resp::{Decoder, Reply, encode};
use super::{Redis, RedisError, RedisEvent, text};
use crate::runtime::Stream;

/// The time without a message after which a subscription checks that its connection still works.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Each list by its name in a message.
const LISTS: [(&str, ListKind); 3] =
    [("tools", ListKind::Tools), ("prompts", ListKind::Prompts), ("resources", ListKind::Resources)];

/// The start of a resource's URI in a message.
const RESOURCE: &str = "resource ";

/// Encodes changes as a message: the names of lists and the URIs of resources, with zero bytes in between.
pub(super) fn encode_changes(changes: &[Change]) -> String {
    let names = changes.iter().map(|change| match change {
        Change::List(list) => {
            LISTS.iter().find(|(_, known)| known == list).map(|(name, _)| (*name).to_owned())
        }
        Change::Resource(uri) if !uri.contains('\0') => Some(format!("{RESOURCE}{uri}")),
        _ => None,
    });
    // What has no name may be anything.
    names.map(|name| name.unwrap_or_else(|| "any".to_owned())).collect::<Vec<_>>().join("\0")
}

/// The most changes of a message; an instance publishes fewer.
const MOST_CHANGES: usize = 1024;

/// Decodes a message; what a later version of this crate has published may be anything.
pub(super) fn decode_changes(message: &str) -> Vec<Change> {
    let names = message.split('\0').take(MOST_CHANGES + 1);
    let changes: Vec<Change> = names.map(decode_change).collect();
    match changes.len() > MOST_CHANGES || changes.contains(&Change::Any) {
        true => vec![Change::Any],
        false => changes,
    }
}

fn decode_change(name: &str) -> Change {
    match (name.strip_prefix(RESOURCE), LISTS.iter().find(|(list, _)| *list == name)) {
        (Some(uri), _) => Change::Resource(uri.to_owned()),
        (None, Some((_, list))) => Change::List(*list),
        (None, None) => Change::Any,
    }
}

impl Redis {
    /// The channel of the instances. Unlike keys, channels are those of all databases.
    fn channel(&self) -> String {
        self.key("changes", &format!("@{}", self.0.settings.database))
    }
}

/// Instances publish in the channel `changes@DATABASE`, after the prefix of the keys.
impl ChangeRelay for Redis {
    fn publish(&self, changes: Vec<Change>) -> PublishFuture {
        let redis = self.clone();
        Box::pin(async move {
            let (channel, message) = (redis.channel(), encode_changes(&changes));
            let command = ["PUBLISH", &channel, &message].map(str::as_bytes);
            redis.run(command).await.map(drop).map_err(|error| error.to_string())
        })
    }

    fn subscribe(&self) -> ChangeStream {
        let subscription = Subscription {
            channel: self.channel(),
            shared: self.0.shared.clone(),
            settings: self.0.settings.clone(),
            link: None,
            pause: Settings::backoff(),
            last_error: None,
            // Changes may be published before the first connection is open.
            has_failed: true,
            received: VecDeque::new(),
        };
        Box::pin(stream::unfold(subscription, |mut subscription| async move {
            let change = subscription.next().await;
            Some((change, subscription))
        }))
    }
}

/// A subscription to the changes that instances publish.
struct Subscription {
    channel: String,
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    link: Option<(Box<dyn Stream>, Decoder)>,
    pause: BackoffTimer,
    /// The reason for which it failed since it last worked.
    last_error: Option<RedisError>,
    /// Whether changes may have been lost since the last one.
    has_failed: bool,
    received: VecDeque<Change>,
}

impl Subscription {
    async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.received.pop_front() {
                return change;
            }
            let Err(error) = self.advance().await else {
                self.pause.reset();
                self.last_error = None;
                continue;
            };
            self.link = None;
            self.has_failed = true;
            if self.last_error.as_ref() != Some(&error) {
                self.shared.report(RedisEvent::NotSubscribed(error.clone()));
                self.last_error = Some(error);
            }
            self.pause.fail(self.shared.clock.now(), Duration::ZERO);
            if let Some(until) = self.pause.due().and_then(|due| self.shared.clock.at(due)) {
                self.shared.clock.timers().sleep_until(until).await;
            }
        }
    }

    /// Opens the connection, or waits for the next message.
    async fn advance(&mut self) -> Result<(), RedisError> {
        let Some((mut stream, mut decoder)) = self.link.take() else {
            let opening = subscribe(&self.settings, &self.channel);
            self.link = Some(
                limited(&self.shared, self.settings.connect_timeout(), opening).await.ok_or_else(late)??,
            );
            if std::mem::take(&mut self.has_failed) {
                self.received.push_back(Change::Any);
            }
            return Ok(());
        };
        let message = match limited(&self.shared, KEEPALIVE, read_reply(&mut *stream, &mut decoder)).await {
            Some(message) => message?,
            None => {
                let checking = exchange(&mut *stream, &mut decoder, [encode([&b"PING"[..]])]);
                let [message] =
                    limited(&self.shared, self.settings.timeout, checking).await.ok_or_else(late)??;
                message
            }
        };
        self.link = Some((stream, decoder));
        self.received.extend(published(&message).into_iter().flat_map(decode_changes));
        Ok(())
    }
}

/// The output of a future, unless it takes longer.
async fn limited<T>(shared: &Shared, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        shared.clock.timers().sleep(limit).await;
        None
    };
    or(async { Some(future.await) }, late).await
}

/// Opens a connection, and subscribes to the channel.
async fn subscribe(settings: &Settings, channel: &str) -> Result<(Box<dyn Stream>, Decoder), RedisError> {
    let (mut stream, mut decoder) = (settings.open_stream().await?, Decoder::default());
    log_in(&mut stream, &mut decoder, settings).await?;
    let command = encode([&b"SUBSCRIBE"[..], channel.as_bytes()]);
    let [reply] = exchange(&mut *stream, &mut decoder, [command]).await?;
    match checked(reply)? {
        Reply::Array(_) => Ok((stream, decoder)),
        _ => Err(RedisError::UnexpectedReply),
    }
}

fn late() -> RedisError {
    RedisError::Unavailable("there is no answer".to_owned())
}

/// The text that was published, if the message has one: replies to PING have none.
pub(super) fn published(message: &Reply) -> Option<&str> {
    let Reply::Array(values) = message else { return None };
    match &values[..] {
        [kind, _, published] if text(kind) == Some("message") => text(published),
        _ => None,
    }
}
