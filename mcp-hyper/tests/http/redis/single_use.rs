//! Request states and proofs that count once, in Redis.

use std::time::Duration;

use mcp_hyper::mcp_proto::UnixTime;
use mcp_hyper::mcp_proto::front::{Claim, ClaimError, ClaimOutcome, SingleUse as _, UseId};
use mcp_hyper::mcp_proto::quota::QuotaOwner;

use super::peer::{Connection, Peer, PeerAction, bulk};
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

async fn claim_with(reply: &'static str, since: u64) -> (Result<ClaimOutcome, ClaimError>, Peer) {
    let peer = Peer::start(move |_, command| {
        (command[0] == "SET").then(|| match reply {
            "its own token" => PeerAction::send(bulk(&command[2])),
            reply => PeerAction::send(reply),
        })
    })
    .await;
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
        let (_, command) = received.iter().find(|(_, command)| command[0] == "SET").unwrap();
        assert_eq!(command[1], format!("mcp:state:{}", "ab".repeat(12)));
        // One second more than its lifetime, as the instances' clocks differ, and the time limit of the command.
        assert_eq!(command[3..], ["NX", "GET", "PX", "36000"]);
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

#[test]
fn claim_fails_if_redis_does_not_record_it() {
    run(async {
        let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        assert_eq!(claim_with(full, STARTED + 99).await.0, Err(ClaimError::Full));
        for reply in [":1\r\n", "*0\r\n", "-ERR syntax error\r\n"] {
            let (outcome, _) = claim_with(reply, STARTED + 99).await;
            assert!(matches!(outcome, Err(ClaimError::Failed(_))), "{reply}");
        }
    });
}
