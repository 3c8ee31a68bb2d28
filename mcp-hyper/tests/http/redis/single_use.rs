//! Request states and proofs that count once, in Redis.

use std::time::Duration;

use mcp_hyper::mcp_proto::UnixTime;
use mcp_hyper::mcp_proto::front::{Claim, ClaimError, ClaimOutcome, SingleUse as _, UseId};
use mcp_hyper::mcp_proto::quota::QuotaOwner;

use super::peer::{Command, Connection, Peer, PeerAction, bulk, is_identification};
use crate::common::client::run;

/// When the peer was started, in seconds: as its usual greeting says.
const STARTED: u64 = 1_700_000_000;

fn claim(since: u64) -> Claim {
    let at = |seconds| UnixTime::from_epoch(Duration::from_secs(seconds));
    Claim {
        id: UseId::State([0xab; 12]),
        owner: QuotaOwner::LOCAL,
        now: at(STARTED + 100),
        since: at(since),
        expires: at(STARTED + 130),
    }
}

fn is_claim(command: &Command) -> bool {
    command[0] == "EVAL" && !is_identification(command)
}

/// Claims a state with a peer that replies with the time at which it was started, and this.
async fn claim_with(stored: &'static str, since: u64) -> (Result<ClaimOutcome, ClaimError>, Peer) {
    claim_with_reply(
        move |command| {
            let stored = if stored == "its own token" { bulk(&command[5]) } else { stored.into() };
            [&b"*2\r\n"[..], &bulk(&format!("{STARTED}000")), &stored].concat()
        },
        since,
    )
    .await
}

async fn claim_with_reply(
    reply: impl Fn(&Command) -> Vec<u8> + Send + Sync + 'static,
    since: u64,
) -> (Result<ClaimOutcome, ClaimError>, Peer) {
    let peer =
        Peer::start(move |_, command| is_claim(command).then(|| PeerAction::send(reply(command)))).await;
    let outcome = Connection::open(&peer.url).redis.claim(claim(since)).await;
    (outcome, peer)
}

/// S4.6
#[test]
fn redis_records_a_state_until_it_expires() {
    run(async {
        let (outcome, peer) = claim_with("$-1\r\n", STARTED + 99).await;
        assert_eq!(outcome, Ok(ClaimOutcome::First));
        let received = peer.received();
        let (_, command) = received.iter().find(|(_, command)| is_claim(command)).unwrap();
        assert_eq!(command[2..5], ["2", &format!("mcp:state:{}", "ab".repeat(12)), "mcp:redis"]);
        // One second more than its lifetime, as the instances' clocks differ, and the time limit of the command.
        assert_eq!(command[6..], ["36000"]);
    });
}

/// S4.6
#[test]
fn redis_refuses_a_state_that_another_request_used() {
    run(async {
        let other = "$5\r\nother\r\n";
        assert_eq!(claim_with(other, STARTED + 99).await.0, Ok(ClaimOutcome::Repeated));
    });
}

#[test]
fn claim_that_is_sent_twice_is_still_the_first() {
    run(async {
        assert_eq!(claim_with("its own token", STARTED + 99).await.0, Ok(ClaimOutcome::First));
    });
}

#[test]
fn states_of_before_a_restart_of_redis_are_refused() {
    run(async {
        let before = UnixTime::from_epoch(Duration::from_secs(STARTED + 1));
        for reply in ["$-1\r\n", "$5\r\nother\r\n"] {
            let (outcome, _) = claim_with(reply, STARTED).await;
            assert_eq!(outcome, Ok(ClaimOutcome::Forgotten { before }));
        }
        assert_eq!(claim_with("$-1\r\n", STARTED + 1).await.0, Ok(ClaimOutcome::First));
    });
}

/// The time may be later than at the start of the connection: the database was emptied.
#[test]
fn states_of_before_the_database_was_emptied_are_refused() {
    run(async {
        let emptied =
            |_: &Command| [&b"*2\r\n"[..], &bulk(&format!("{}000", STARTED + 50)), b"$-1\r\n"].concat();
        let before = UnixTime::from_epoch(Duration::from_secs(STARTED + 51));
        let (outcome, _) = claim_with_reply(emptied, STARTED + 40).await;
        assert_eq!(outcome, Ok(ClaimOutcome::Forgotten { before }));
        assert_eq!(claim_with_reply(emptied, STARTED + 51).await.0, Ok(ClaimOutcome::First));
    });
}

#[test]
fn claim_fails_if_redis_does_not_record_it() {
    run(async {
        let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        let claim_with = |reply: &'static str| claim_with_reply(move |_| reply.into(), STARTED + 99);
        assert_eq!(claim_with(full).await.0, Err(ClaimError::Full));
        for reply in
            [":1\r\n", "*0\r\n", "*2\r\n$-1\r\n$-1\r\n", "*2\r\n$1\r\n7\r\n:1\r\n", "-ERR syntax error\r\n"]
        {
            let (outcome, _) = claim_with(reply).await;
            assert!(matches!(outcome, Err(ClaimError::Failed(_))), "{reply}");
        }
    });
}
