//! Events that end a parked request.

use super::*;

#[test]
fn cancelled_parked_request_ends_without_a_notification() {
    legacy(parking_config(config()), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.client.at(wire.now).cancel(request, None);
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
        // The abort tells the authorizer that the request has ended.
        wire.expect_abort(&call);
        wire.expect_silence();
        wire.resume(&challenge);
        wire.expect_silence();
    });
}

#[test]
fn timeout_is_suspended_while_the_request_is_parked() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.advance(Duration::from_secs(29));
        let challenge = reject_unauthorized(wire, &call);
        wire.advance(minutes(2));
        wire.expect_pending(request);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        // Its timeout starts again.
        wire.advance(Duration::from_secs(29));
        wire.expect_pending(request);
        wire.advance(Duration::from_secs(1));
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { hard: false, .. }));
        wire.expect_abort(&call);
    });
}

#[test]
fn parked_request_ends_at_its_hard_timeout() {
    modern(parking_config(config()), |wire| {
        let request = call_with(wire, RequestOptions::default().hard_timeout(minutes(1)));
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.advance(minutes(1) - Duration::from_millis(1));
        wire.expect_pending(request);
        wire.advance(Duration::from_millis(1));
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { hard: true, .. }));
        wire.expect_abort(&call);
        wire.resume(&challenge);
        wire.expect_silence();
    });
}

#[test]
fn timeout_of_queued_requests_is_suspended_too() {
    let mut config = parking_config(config());
    config.client.limits.exchanges = 1;
    modern(config, |wire| {
        call_tool(wire);
        let behind = list_tools(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.advance(minutes(1) + Duration::from_secs(29));
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        let list = wire.expect("tools/list");
        wire.advance(Duration::from_secs(29));
        wire.expect_pending(behind);
        wire.answer(
            &list,
            json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}),
        );
        wire.result(behind);
    });
}

#[test]
fn timeout_of_other_requests_is_not_suspended() {
    modern(parking_config(config()), |wire| {
        let slow = list_tools(wire);
        let list = wire.expect("tools/list");
        let held = call_tool(wire);
        let call = wire.expect("tools/call");
        reject_unauthorized(wire, &call);
        wire.advance(Duration::from_secs(30));
        assert!(matches!(wire.outcome(slow), Outcome::TimedOut { .. }));
        wire.expect_abort(&list);
        wire.expect_pending(held);
    });
}

#[test]
fn closing_client_ends_parked_requests_after_its_timeout() {
    for at_once in [false, true] {
        modern(parking_config(config()), |wire| {
            let request = call_tool(wire);
            let call = wire.expect("tools/call");
            let challenge = reject_unauthorized(wire, &call);
            if at_once {
                wire.client.at(wire.now).abort(LostReason::DriverDropped);
            } else {
                wire.client.at(wire.now).close();
                wire.expect_pending(request);
                wire.advance(minutes(5));
            }
            assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
            assert!(wire.client.is_closed());
            wire.expect_abort(&call);
            wire.resume(&challenge);
            wire.expect_silence();
            assert_eq!(wire.client.poll_timeout(), None);
        });
    }
}

#[test]
fn closing_client_can_resume_a_parked_request() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.client.at(wire.now).close();
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
        assert_eq!(wire.closed(), Some(CloseReason::Done));
    });
}
