//! Used request states and proofs of possession in Redis.

use std::time::Duration;

use mcp_proto::front::{Claim, ClaimError, ClaimFuture, ClaimOutcome, SingleUse};

use super::resp::Reply;
use super::tasks::MOST_MILLIS;
use super::{Redis, RedisError, parse_millis, random_token};

/// How far the clocks of Redis and of the instances may differ.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// KEYS: id, what Redis is. ARGV: token, lifetime in milliseconds. Returns the time before which records may be lost, and
/// the token that was stored before. A database that has no such time was emptied since its instances connected.
const CLAIM: &str = "
local since = redis.call('HGET', KEYS[2], 'since')
if not since then
  local time = redis.call('TIME')
  since = string.format('%.0f', time[1] * 1000 + math.ceil(time[2] / 1000))
  redis.call('HSET', KEYS[2], 'since', since)
end
return {since, redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])}";

impl Redis {
    async fn record_use(&self, claim: &Claim) -> Result<ClaimOutcome, RedisError> {
        let key = self.key("", &claim.id.to_string());
        // The command may be sent as late as its time limit allows.
        let lifetime = claim.expires.saturating_since(claim.now) + CLOCK_TOLERANCE;
        let millis =
            lifetime.saturating_add(self.0.settings.timeout).as_millis().min(MOST_MILLIS).to_string();
        let token = random_token()?;
        let arguments = [token.as_bytes(), millis.as_bytes()];
        let reply = self.script(CLAIM, &[&key, &self.key("redis", "")], &arguments).await?;
        let Reply::Array(values) = &reply else { return Err(RedisError::UnexpectedReply) };
        let [since, stored] = &values[..] else { return Err(RedisError::UnexpectedReply) };
        let before = parse_millis(since).ok_or(RedisError::UnexpectedReply)? + CLOCK_TOLERANCE;
        match stored {
            Reply::Nil | Reply::Text(_) if claim.since < before => Ok(ClaimOutcome::Forgotten { before }),
            Reply::Nil => Ok(ClaimOutcome::First),
            // The same command was sent twice.
            Reply::Text(stored) if *stored == token.as_bytes() => Ok(ClaimOutcome::First),
            Reply::Text(_) => Ok(ClaimOutcome::Repeated),
            _ => Err(RedisError::UnexpectedReply),
        }
    }
}

/// Records expire by Redis's clock. Those of all owners are limited by its `maxmemory`.
///
/// After a restart or a failover of Redis, or after its database was emptied, ids are refused that could be used before
/// it, or less than a second after it: the clocks of Redis and of the instances may differ by that.
impl SingleUse for Redis {
    fn claim(&self, claim: Claim) -> ClaimFuture {
        let redis = self.clone();
        Box::pin(async move {
            redis.record_use(&claim).await.map_err(|error| match error {
                RedisError::Full => ClaimError::Full,
                error => ClaimError::Failed(error.to_string()),
            })
        })
    }
}
