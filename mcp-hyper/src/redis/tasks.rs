//! Tasks in Redis.
//!
//! A task is a hash of its record, its version, and the token of its last write; it expires by Redis's clock. The tasks of
//! an owner are in a sorted set, by the times of their creation. Another sorted set has the tasks that expire, so that
//! their ids can be removed from the former.

use mcp_proto::UnixTime;
use mcp_proto::front::tasks::{StoreError, StoreFuture, TaskPage, TaskRecord, TaskStore};
use mcp_proto::peer::Principal;

use super::resp::Reply;
use super::{Redis, RedisError, random_token, text};

/// Maximum bytes of a record, and of the records of a page with more than one.
const MOST_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// Maximum tasks of one owner. Those of all owners are limited by Redis's `maxmemory`.
const MOST_TASKS: usize = 10_000;

/// Maximum bytes of a task's id. Clients choose the ids that are looked up.
const MOST_ID_BYTES: usize = 256;

/// KEYS: task, tasks of its owner, expiring tasks. ARGV: record, version, token, creation, expiry or nothing, id, limit.
/// A second call with the same token changes nothing.
const CREATE: &str = "
local token = redis.call('HGET', KEYS[1], 'token')
if token then
  return token == ARGV[3] and 'stored' or 'conflict'
end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[7]) then
  return 'full'
end
redis.call('HSET', KEYS[1], 'record', ARGV[1], 'version', ARGV[2], 'token', ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[6])
if ARGV[5] ~= '' then
  redis.call('PEXPIREAT', KEYS[1], ARGV[5])
  redis.call('ZADD', KEYS[3], ARGV[5], ARGV[6] .. '\\n' .. KEYS[2])
end
return 'stored'";

/// KEYS: task, tasks of its owner, expiring tasks. ARGV: record, its new version, token, old version, expiry or nothing, id.
const UPDATE: &str = "
local stored = redis.call('HMGET', KEYS[1], 'version', 'token')
if stored[2] and stored[2] == ARGV[3] then
  return 'stored'
end
if stored[1] ~= ARGV[4] then
  return 'conflict'
end
redis.call('HSET', KEYS[1], 'record', ARGV[1], 'version', ARGV[2], 'token', ARGV[3])
local expiring = ARGV[6] .. '\\n' .. KEYS[2]
if ARGV[5] == '' then
  redis.call('PERSIST', KEYS[1])
  redis.call('ZREM', KEYS[3], expiring)
else
  redis.call('PEXPIREAT', KEYS[1], ARGV[5])
  redis.call('ZADD', KEYS[3], ARGV[5], expiring)
end
return 'stored'";

/// KEYS: tasks of an owner. ARGV: `after` or `first`, the cursor, the number of tasks, the start of the keys of tasks, the
/// number of bytes. Returns the next cursor, or nothing, and the records; nil for an unknown cursor.
const LIST: &str = "
local start = 0
if ARGV[1] == 'after' then
  local rank = redis.call('ZRANK', KEYS[1], ARGV[2])
  if not rank then
    return false
  end
  start = rank + 1
end
local most, bytes, last = tonumber(ARGV[3]), 0, ''
local page = {''}
for n, id in ipairs(redis.call('ZRANGE', KEYS[1], start, start + most)) do
  local record = redis.call('HGET', ARGV[4] .. id, 'record')
  if record then
    bytes = bytes + #record
  end
  if n > most or (#page > 1 and bytes > tonumber(ARGV[5])) then
    page[1] = last
    break
  end
  if record then
    page[#page + 1] = record
  end
  last = id
end
return page";

/// KEYS: expiring tasks. ARGV: the number of tasks. Returns how many have expired.
const EXPIRE: &str = "
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local expired = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, expiring in ipairs(expired) do
  local line = string.find(expiring, '\\n', 1, true)
  redis.call('ZREM', string.sub(expiring, line + 1), string.sub(expiring, 1, line - 1))
  redis.call('ZREM', KEYS[1], expiring)
end
return #expired";

/// The number of expired tasks that one call removes: Redis does nothing else meanwhile.
const EXPIRED_AT_ONCE: usize = 500;

impl Redis {
    /// The start of the keys of tasks.
    fn task_keys(&self) -> String {
        self.key("task:", "")
    }

    fn owner_key(&self, owner: Option<&Principal>) -> String {
        match owner {
            Some(owner) => self.key("tasks-of:", owner.as_str()),
            None => self.key("tasks", ""),
        }
    }

    /// Runs a script that changes a task; its first arguments are the record, its version, and a token.
    async fn write_task(
        &self,
        script: &str,
        record: &TaskRecord,
        arguments: &[&str],
    ) -> Result<(), StoreError> {
        if record.id.len() > MOST_ID_BYTES || record.id.contains('\n') {
            return Err(StoreError::Failed("the id of the task is no key".to_owned()));
        }
        let json = record.to_json().map_err(|error| StoreError::Failed(error.to_string()))?;
        if json.as_str().len() > MOST_RECORD_BYTES {
            return Err(StoreError::Full);
        }
        let version = record.version.to_string();
        let token = random_token()?;
        let mut all = vec![json.as_str().as_bytes(), version.as_bytes(), token.as_bytes()];
        all.extend(arguments.iter().map(|argument| argument.as_bytes()));
        let task = self.key("task:", &record.id);
        let keys = [&*task, &self.owner_key(record.owner.as_ref()), &self.key("expiring", "")];
        match text(&self.script(script, &keys, &all).await?) {
            Some("stored") => Ok(()),
            Some("conflict") => Err(StoreError::Conflict),
            Some("full") => Err(StoreError::Full),
            _ => Err(RedisError::UnexpectedReply.into()),
        }
    }
}

/// A time as Redis has it, in milliseconds; nothing for none.
fn millis(time: Option<UnixTime>) -> String {
    time.map_or(String::new(), |time| time.since_epoch().as_millis().min(MOST_MILLIS).to_string())
}

/// The latest time that Redis accepts as an expiry, roughly: some millions of years.
pub(super) const MOST_MILLIS: u128 = 1 << 53;

pub(super) fn parse(reply: &Reply) -> Result<TaskRecord, StoreError> {
    let json = text(reply).ok_or(RedisError::UnexpectedReply)?;
    TaskRecord::from_json(json).map_err(|error| StoreError::Failed(error.to_string()))
}

/// An expired task is unknown as soon as Redis's clock says so. One owner has at most 10,000 tasks, and a record at most
/// 8 MiB.
impl TaskStore for Redis {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (created, expires) = (millis(Some(record.created_at)), millis(record.expires_at()));
            let most = MOST_TASKS.to_string();
            self.write_task(CREATE, &record, &[&created, &expires, &record.id, &most]).await
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        Box::pin(async move {
            if id.len() > MOST_ID_BYTES {
                return Ok(None);
            }
            let key = self.key("task:", id);
            match self.run([&b"HGET"[..], key.as_bytes(), b"record"]).await? {
                Reply::Nil => Ok(None),
                reply => parse(&reply).map(Some),
            }
        })
    }

    fn update(&self, mut record: TaskRecord) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let (stored, expires) = (record.version.to_string(), millis(record.expires_at()));
            // After a failover, the next number may be that of another record, which was forgotten.
            record.version = getrandom::u64().map_err(|error| RedisError::Runtime(error.to_string()))?;
            self.write_task(UPDATE, &record, &[&stored, &expires, &record.id]).await?;
            Ok(record.version)
        })
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        Box::pin(async move {
            let cursor = after.unwrap_or_default();
            if cursor.len() > MOST_ID_BYTES {
                return Err(StoreError::Cursor);
            }
            let start = if after.is_some() { "after" } else { "first" };
            let (most, bytes) = (most.min(MOST_TASKS).to_string(), MOST_RECORD_BYTES.to_string());
            let tasks = self.task_keys();
            let arguments = [start, cursor, &most, &tasks, &bytes].map(str::as_bytes);
            match self.script(LIST, &[&self.owner_key(owner)], &arguments).await? {
                Reply::Array(page) => {
                    let (next, records) = page.split_first().ok_or(RedisError::UnexpectedReply)?;
                    let next = text(next).filter(|next| !next.is_empty()).map(str::to_owned);
                    Ok(TaskPage { tasks: records.iter().map(parse).collect::<Result<_, _>>()?, next })
                }
                Reply::Nil => Err(StoreError::Cursor),
                _ => Err(RedisError::UnexpectedReply.into()),
            }
        })
    }

    /// Removes the ids of expired tasks, by Redis's clock instead of `now`.
    fn expire(&self, _: UnixTime) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (key, most) = (self.key("expiring", ""), EXPIRED_AT_ONCE.to_string());
            loop {
                match self.script(EXPIRE, &[&key], &[most.as_bytes()]).await? {
                    Reply::Integer(count) if usize::try_from(count) == Ok(EXPIRED_AT_ONCE) => {}
                    Reply::Integer(_) => return Ok(()),
                    _ => return Err(RedisError::UnexpectedReply.into()),
                }
            }
        })
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        match error {
            RedisError::Full => Self::Full,
            error => Self::Failed(error.to_string()),
        }
    }
}
