//! The first commands of a connection: credentials, and what Redis is.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use mcp_proto::UnixTime;

use super::options::Settings;
use super::resp::{Decoder, MalformedReply, Reply, encode};
use super::{RedisError, parse_millis, text};
use crate::runtime::Stream;

/// Stores which Redis has the records, and since when; returns that time in milliseconds. A Redis that has just been
/// started has another identity, and so has one that was a replica when they were written.
const IDENTIFY: &str = "
local known = redis.call('HGET', KEYS[1], 'identity')
if known == ARGV[1] then
  return {0, redis.call('HGET', KEYS[1], 'since')}
end
local time = redis.call('TIME')
local since = string.format('%.0f', time[1] * 1000 + math.ceil(time[2] / 1000))
redis.call('HSET', KEYS[1], 'identity', ARGV[1], 'since', since)
return {1, since}";

/// What Redis said at the start of a connection.
pub(super) struct Greeting {
    /// The time before which it may have lost records.
    pub(super) lost_before: UnixTime,
    /// Whether it has another identity than when an instance last asked.
    pub(super) is_restarted: bool,
    /// What to set so that it loses no confirmed change.
    pub(super) not_durable: Option<String>,
}

/// Logs in, and checks the configuration of Redis.
pub(super) async fn greet(
    stream: &mut dyn Stream,
    decoder: &mut Decoder,
    settings: &Settings,
) -> Result<Greeting, RedisError> {
    log_in(stream, decoder, settings).await?;
    let questions = [encode([&b"INFO"[..]]), encode([&b"CONFIG"[..], b"GET", b"appendfsync"])];
    let [info, appendfsync] = exchange(stream, decoder, questions).await?;
    let info = checked(info)?;
    let info = Info::parse(text(&info).ok_or(RedisError::UnexpectedReply)?);
    info.check()?;
    let (key, identity) = (format!("{}redis", settings.prefix), info.identity());
    let identify = ["EVAL", IDENTIFY, "1", &key, &identity].map(str::as_bytes);
    let [identified] = exchange(stream, decoder, [encode(identify)]).await?;
    let (is_restarted, since) = match &checked(identified)? {
        Reply::Array(values) => match &values[..] {
            [Reply::Integer(changed), since] => (*changed == 1, parse_millis(since)),
            _ => (false, None),
        },
        _ => (false, None),
    };
    Ok(Greeting {
        lost_before: since.ok_or(RedisError::UnexpectedReply)?,
        is_restarted,
        not_durable: info.describe_loss(&appendfsync),
    })
}

pub(super) async fn log_in(
    stream: &mut dyn Stream,
    decoder: &mut Decoder,
    settings: &Settings,
) -> Result<(), RedisError> {
    if let Some(password) = &settings.password {
        let mut command = vec![&b"AUTH"[..]];
        command.extend(settings.user.as_deref().map(str::as_bytes));
        command.push(password.expose().as_bytes());
        let [reply] = exchange(stream, decoder, [encode(command)]).await?;
        checked(match reply {
            // It may repeat the command, with the password.
            Reply::Error(error) if error.starts_with("ERR ") => {
                Reply::Error("ERR it does not accept AUTH".to_owned())
            }
            reply => reply,
        })?;
    }
    let database = settings.database.to_string();
    let [reply] = exchange(stream, decoder, [encode([&b"SELECT"[..], database.as_bytes()])]).await?;
    checked(reply).map(drop)
}

/// Sends commands, and reads their replies.
pub(super) async fn exchange<const N: usize>(
    stream: &mut dyn Stream,
    decoder: &mut Decoder,
    commands: [Bytes; N],
) -> Result<[Reply; N], RedisError> {
    for command in &commands {
        stream.write_all(command).await.map_err(|error| lost(&error))?;
    }
    stream.flush().await.map_err(|error| lost(&error))?;
    let mut replies = commands.map(|_| Reply::Nil);
    for reply in &mut replies {
        *reply = read_reply(stream, decoder).await?;
    }
    Ok(replies)
}

/// Reads the next reply. No byte is lost if the future is dropped.
pub(super) async fn read_reply(stream: &mut dyn Stream, decoder: &mut Decoder) -> Result<Reply, RedisError> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(reply) = decoder.decode().map_err(malformed)? {
            return Ok(reply);
        }
        let count = stream.read(&mut buffer).await.map_err(|error| lost(&error))?;
        if count == 0 {
            return Err(RedisError::Unavailable("it closed the connection".to_owned()));
        }
        decoder.feed(buffer.get(..count).unwrap_or_default());
    }
}

/// The error of a connection that was lost.
pub(super) fn lost(error: &io::Error) -> RedisError {
    RedisError::Unavailable(format!("the connection was lost: {error}"))
}

/// The error of a connection with bytes that are no replies.
pub(super) fn malformed(MalformedReply(why): MalformedReply) -> RedisError {
    RedisError::Unavailable(format!("the connection was closed, because its replies cannot be read: {why}"))
}

/// Turns an error reply into the error of the connection.
pub(super) fn checked(reply: Reply) -> Result<Reply, RedisError> {
    let Reply::Error(error) = reply else { return Ok(reply) };
    Err(match RedisError::from_reply(error) {
        RedisError::Refused(error) if error.starts_with("ERR ") => RedisError::Unsuitable(error),
        // It is loading its data, or has been made a replica.
        RedisError::Refused(error) => RedisError::Unavailable(error),
        RedisError::Full => RedisError::Unavailable("it has reached its maxmemory".to_owned()),
        other => other,
    })
}

/// The fields of `INFO`.
pub(super) struct Info<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.split_once(':')).collect())
    }

    fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub(super) fn check(&self) -> Result<(), RedisError> {
        if self.get("loading") == "1" {
            return Err(RedisError::Unavailable("it is loading its data".to_owned()));
        }
        if self.get("run_id").is_empty() || self.get("master_replid").is_empty() {
            return Err(RedisError::Unsuitable(
                "it does not say which process it is (run_id and master_replid in the output of INFO)"
                    .to_owned(),
            ));
        }
        match (self.get("role"), self.get("maxmemory_policy")) {
            ("master", "noeviction") => Ok(()),
            ("master", "") => Err(RedisError::Unsuitable(
                "it does not say whether it evicts keys (maxmemory_policy in the output of INFO)".to_owned(),
            )),
            ("master", policy) => Err(RedisError::Unsuitable(format!(
                "it evicts keys when its memory is full (maxmemory-policy {policy}): set maxmemory-policy noeviction"
            ))),
            _ => Err(RedisError::Unavailable("it is a replica: the URL must name the primary".to_owned())),
        }
    }

    /// The identity of a process in one of its roles: a restart changes the first part, a failover the second.
    fn identity(&self) -> String {
        format!("{} {}", self.get("run_id"), self.get("master_replid"))
    }

    /// What to set so that no confirmed change is lost, unless that is set. Some users may not read the configuration.
    fn describe_loss(&self, appendfsync: &Reply) -> Option<String> {
        if self.get("aof_enabled") == "0" {
            return Some("set appendonly yes and appendfsync always".to_owned());
        }
        let Reply::Array(values) = appendfsync else { return None };
        let policy = values.get(1).and_then(text)?;
        (policy != "always").then(|| format!("set appendfsync always (it is {policy})"))
    }
}
