//! Redis as the store that the instances of a server share.
//!
//! A [`Redis`] is a [store of tasks](mcp_proto::front::tasks::TaskStore), and of [request states and proofs that count
//! once](mcp_proto::front::SingleUse), and it [relays change notifications](mcp_proto::front::http::ChangeRelay) between
//! instances. It needs Redis 7, or another engine with its
//! protocol and its scripts, such as Valkey.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use mcp_hyper::redis::Redis;
//! use mcp_hyper::mcp_proto::front::Router;
//! use mcp_hyper::mcp_proto::front::tasks::TaskConfig;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (redis, driver) = Redis::connect("redis://:password@redis.internal/0")?;
//! smol::spawn(driver).detach();
//! // Fails if Redis cannot be reached, or may evict tasks.
//! redis.ready().await?;
//!
//! let mut tasks = TaskConfig::default();
//! tasks.store = Arc::new(redis.clone());
//! let router = Router::new("parcels", "1.0.0").tasks(tasks).single_use(Arc::new(redis));
//! # drop(router);
//! # Ok(())
//! # }
//! ```
//!
//! # One connection
//!
//! All commands share one connection, on which they follow each other without waiting for replies. Its driver opens it
//! again whenever it is lost, to the addresses that the host's name has then, and sends the unanswered commands again:
//! each command is made so that it does no more the second time. A command without a reply within the [time
//! limit](RedisOptions::timeout) ends with [`RedisError::Unavailable`]; then it may have been executed or not.
//!
//! # What Redis must be
//!
//! Each new connection first asks what Redis is. A replica is not used, and neither is a Redis that evicts keys
//! (`maxmemory-policy` other than `noeviction`): [`RedisError::Unsuitable`] says what to set. A [`RedisEvent`] says when
//! Redis does not write each change to disk before it answers (`appendonly yes`, `appendfsync always`): it would lose the
//! last changes in a crash.
//!
//! A Redis that was restarted, or that took over from another, may lack the last changes. [`Redis::lost_before`] is the
//! time of that: request states and proofs of before are refused. The same holds once its database was emptied.
//!
//! Redis Cluster and Sentinel are not supported: the URL names the one primary, by a name or an address that moves to the
//! next one.

mod changes;
mod connection;
mod driver;
#[cfg(test)]
mod fuzzing;
mod handshake;
mod options;
mod resp;
mod single_use;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;
use mcp_proto::{HumanDuration, UnixTime};

use self::connection::{Shared, driver_ended};
use self::options::Settings;
use self::resp::{Reply, encode};

pub use driver::RedisDriver;
pub use options::{RedisEvent, RedisOptions};

/// A handle of a connection to Redis. Clones share the connection, which is closed when the last of them is dropped.
#[derive(Clone)]
pub struct Redis(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Why a command has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisError {
    /// The URL is invalid.
    Url(&'static str),
    /// The runtime cannot be started, or has no random numbers.
    Runtime(String),
    /// Redis cannot be reached, or has not answered within the time limit. The command may have been executed.
    Unavailable(String),
    /// Redis cannot be used as it is configured: the text says what to change.
    Unsuitable(String),
    /// Too many commands wait for replies. This one was not sent.
    Overloaded,
    /// Redis has no memory left for the command: it has reached its `maxmemory`.
    Full,
    /// Redis refused the command, with this error.
    Refused(String),
    /// Redis sent a reply that is not one to this command.
    UnexpectedReply,
}

error_text! { RedisError:
    Url(why) => "this is not the URL of a Redis server: {why}";
    Runtime(why) => "the runtime has failed: {why}";
    Unavailable(why) => "Redis is unavailable: {why}";
    Unsuitable(why) => "Redis is configured unsuitably: {why}";
    Overloaded => "too many commands wait for Redis";
    Full => "Redis has reached its maxmemory";
    Refused(error) => "Redis refused the command: {error}";
    UnexpectedReply => "Redis sent a reply that is not one to this command";
}

impl RedisError {
    /// The error of an error reply.
    fn from_reply(error: String) -> Self {
        match error.split(' ').next() {
            Some("OOM") => Self::Full,
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => {
                Self::Unsuitable(format!("check the user, its password and its permissions ({error})"))
            }
            _ => Self::Refused(error),
        }
    }
}

impl Redis {
    /// Connects to the Redis at this URL, with default [options](RedisOptions). Poll the driver: spawn it on any
    /// executor.
    ///
    /// # Errors
    /// If the URL is invalid, or the runtime cannot be started. Only the driver finds out whether Redis can be reached:
    /// [`ready`](Self::ready) tells.
    pub fn connect(url: &str) -> Result<(Self, RedisDriver), RedisError> {
        RedisOptions::new(url)?.connect()
    }

    /// Waits until Redis answers, for at most the [time limit](RedisOptions::timeout) of a command: before a server
    /// starts, and whenever its balancer asks whether it is ready.
    ///
    /// # Errors
    /// If Redis cannot be reached, or is unsuitable.
    pub async fn ready(&self) -> Result<(), RedisError> {
        self.run([&b"PING"[..]]).await.map(drop)
    }

    /// The time before which records may be lost: when this Redis was first seen to have been started, or to have taken
    /// over from another, by the clock of Redis and as of the last connection. `None` before the first one.
    pub fn lost_before(&self) -> Option<UnixTime> {
        self.0.shared.lost_before()
    }

    /// The key of this kind and name.
    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}{name}", self.0.settings.prefix)
    }

    /// Runs a script. Its text goes with each call: a few hundred bytes are cheaper than the case that Redis has
    /// forgotten it.
    async fn script(&self, script: &str, keys: &[&str], arguments: &[&[u8]]) -> Result<Reply, RedisError> {
        let count = keys.len().to_string();
        let mut command = vec![&b"EVAL"[..], script.as_bytes(), count.as_bytes()];
        command.extend(keys.iter().map(|key| key.as_bytes()));
        command.extend_from_slice(arguments);
        self.run(command).await
    }

    /// Sends a command, which must do no more if it is executed twice.
    async fn run<'a>(
        &self,
        command: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) -> Result<Reply, RedisError> {
        let shared = &self.0.shared;
        let reply = shared.enqueue(encode(command));
        let late = async {
            shared.clock.sleep_in_handle(shared.timeout).await;
            let why = shared.last_failure().unwrap_or_else(|| "there is no answer".to_owned());
            Err(RedisError::Unavailable(format!("{why}; gave up after {}", HumanDuration(shared.timeout))))
        };
        let reply = or(async { reply?.await.unwrap_or_else(|_| Err(driver_ended())) }, late).await?;
        match reply {
            Reply::Error(error) => Err(RedisError::from_reply(error)),
            reply => Ok(reply),
        }
    }
}

/// A random text, which identifies a write that may be sent twice.
fn random_token() -> Result<String, RedisError> {
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|error| RedisError::Runtime(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(token)))
}

/// The text of a reply.
fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Text(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// The time of a reply in milliseconds.
fn parse_millis(reply: &Reply) -> Option<UnixTime> {
    text(reply)?.parse().ok().map(|millis| UnixTime::from_epoch(Duration::from_millis(millis)))
}

debug_fields! { Redis(self) { prefix = self.0.settings.prefix } }
