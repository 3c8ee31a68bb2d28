//! What ends a request that is held.

use super::*;

#[test]
fn a_request_that_is_cancelled_is_held_no_longer_and_the_server_is_not_told() {
    legacy(parking_config(config()), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.client.at(wire.now).cancel(request, None);
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
        // Whoever saw to it is told.
        wire.expect_abort(&call);
        wire.expect_silence();
        wire.resume(&challenge);
        wire.expect_silence();
    });
}

#[test]
fn the_time_of_a_request_stands_still_while_it_is_held() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.advance(Duration::from_secs(29));
        let challenge = reject_unauthorized(wire, &call);
        wire.advance(minutes(2));
        wire.expect_pending(request);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        // It is given its time anew.
        wire.advance(Duration::from_secs(29));
        wire.expect_pending(request);
        wire.advance(Duration::from_secs(1));
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { hard: false, .. }));
        wire.expect_abort(&call);
    });
}

#[test]
fn a_request_that_is_held_ends_at_its_hard_maximum() {
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
fn the_time_of_what_waits_behind_it_stands_still_as_well() {
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
fn the_time_of_other_requests_goes_on() {
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
fn closing_ends_what_is_held_after_a_while() {
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
fn a_request_that_is_held_may_still_be_answered_while_closing() {
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
