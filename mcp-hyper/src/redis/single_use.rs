//! Used request states and proofs of possession in Redis.

use std::time::Duration;

use mcp_proto::front::{Claim, ClaimError, ClaimFuture, ClaimOutcome, SingleUse};

use super::resp::Reply;
use super::tasks::MOST_MILLIS;
use super::{Redis, RedisError, random_token};

/// How far the clocks of Redis and of the instances may differ.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

impl Redis {
    async fn record_use(&self, claim: &Claim) -> Result<ClaimOutcome, RedisError> {
        let key = self.key("", &claim.id.to_string());
        // The command may be sent as late as its time limit allows.
        let lifetime = claim.expires.saturating_since(claim.now) + CLOCK_TOLERANCE;
        let millis =
            lifetime.saturating_add(self.0.settings.timeout).as_millis().min(MOST_MILLIS).to_string();
        let token = random_token()?;
        let command =
            [&b"SET"[..], key.as_bytes(), token.as_bytes(), b"NX", b"GET", b"PX", millis.as_bytes()];
        let reply = self.run(command).await?;
        // Of the connection of the reply, or of a later one.
        let before = self.lost_before().ok_or(RedisError::UnexpectedReply)? + CLOCK_TOLERANCE;
        match reply {
            Reply::Nil | Reply::Text(_) if claim.since < before => Ok(ClaimOutcome::Forgotten { before }),
            Reply::Nil => Ok(ClaimOutcome::First),
            // The same command was sent twice.
            Reply::Text(stored) if stored == token.as_bytes() => Ok(ClaimOutcome::First),
            Reply::Text(_) => Ok(ClaimOutcome::Repeated),
            _ => Err(RedisError::UnexpectedReply),
        }
    }
}

/// Records expire by Redis's clock. Those of all owners are limited by its `maxmemory`.
///
/// After a restart or a failover of Redis, ids are refused that could be used before it, or less than a second after it:
/// the clocks of Redis and of the instances may differ by that.
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
