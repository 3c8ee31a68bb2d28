//! Parked streams and notifications of sessions.

use super::*;

/// C12.2
#[test]
fn client_parks_the_listening_stream_and_requests_it_again() {
    scenario(parking_config(legacy_config()), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        let challenge = reject_unauthorized(wire, &listener);
        wire.advance(minutes(1));
        wire.expect_silence();
        wire.resume(&challenge);
        let listener = wire.expect_get();
        assert_eq!(listener.header("mcp-session-id"), Some(SESSION));
        wire.stream(&listener);
        wire.client.at(wire.now).close();
        wire.expect_abort(&listener);
    });
}

#[test]
fn client_does_not_request_a_listening_stream_given_up_again() {
    scenario(parking_config(legacy_config()), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        let challenge = reject_unauthorized(wire, &listener);
        wire.give_up(&challenge);
        wire.advance(minutes(10));
        wire.expect_silence();
        assert!(
            wire.diagnostics().iter().any(|told| matches!(told, Diagnostic::EventStreamUnavailable { .. }))
        );
    });
}

/// C12.2
#[test]
fn client_parks_a_resumed_response_and_requests_it_again() {
    legacy(parking_config(config()), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: 7\ndata:\n\n");
        wire.truncate(&call);
        wire.advance(Duration::from_secs(1));
        let rest = wire.expect_get();
        let challenge = reject_unauthorized(wire, &rest);
        wire.advance(minutes(2));
        wire.expect_pending(request);
        wire.resume(&challenge);
        let rest = wire.expect_get();
        assert_eq!(rest.header("last-event-id"), Some("7"));
        wire.stream(&rest);
        wire.event_answer(&rest, &call.id(), json!({"content": []}));
        wire.result(request);
    });
}

#[test]
fn client_sends_a_parked_request_of_a_lost_session_in_the_next() {
    legacy(parking_config(config()), |wire, listener| {
        let held = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        let lost = list_tools(wire);
        let list = wire.expect("tools/list");
        wire.reply(&list, 404, &[], "gone");
        wire.expect_abort(&listener);
        wire.resume(&challenge);
        let initialize = wire.expect("initialize");
        wire.expect_silence();
        wire.answer_initialize(&initialize, LEGACY, "session-2");
        let initialized = wire.expect("notifications/initialized");
        wire.accept(&initialized);
        wire.expect_get();
        for (request, method, result) in
            [(held, "tools/call", json!({"content": []})), (lost, "tools/list", json!({"tools": []}))]
        {
            let exchange = wire.expect(method);
            assert_eq!(exchange.header("mcp-session-id"), Some("session-2"));
            wire.answer(&exchange, result);
            wire.result(request);
        }
    });
}

#[test]
fn parked_listening_stream_ends_with_its_session() {
    scenario(parking_config(legacy_config()), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        let challenge = reject_unauthorized(wire, &listener);
        list_tools(wire);
        let list = wire.expect("tools/list");
        wire.reply(&list, 404, &[], "gone");
        wire.expect_abort(&listener);
        wire.resume(&challenge);
        wire.expect("initialize");
        wire.expect_silence();
    });
}

/// C12.2, F106
#[test]
fn client_parks_a_notification_and_sends_it_again() {
    let mut config = parking_config(config());
    config.client.capabilities = ClientCapabilities::default().with(ClientCapability::RootsListChanged);
    config.listen = ListenPolicy::Never;
    config.client.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
    scenario(config, |wire| {
        wire.open_session(LEGACY, SESSION);
        wire.client.at(wire.now).notify::<RootsListChanged>(&EmptyParams::default()).unwrap();
        let said = wire.expect("notifications/roots/list_changed");
        let challenge = reject_unauthorized(wire, &said);
        // Its exchange has no timeout while it is parked.
        wire.advance(minutes(2));
        wire.expect_no_abort();
        wire.resume(&challenge);
        let said = wire.expect("notifications/roots/list_changed");
        wire.accept(&said);
        wire.client.at(wire.now).close();
        let delete = wire.next().unwrap();
        assert_eq!(delete.request.verb, Verb::Delete);
        let challenge = reject_unauthorized(wire, &delete);
        wire.resume(&challenge);
        let delete = wire.next().unwrap();
        assert_eq!(delete.request.verb, Verb::Delete);
        wire.reply(&delete, 204, &[], "");
        assert_eq!(wire.closed(), Some(CloseReason::Done));
    });
}

#[test]
fn parked_ping_does_not_count_as_missed() {
    let mut config = parking_config(config());
    config.client.keepalive = Some(Keepalive::PRESET);
    legacy(config, |wire, _| {
        wire.advance(Keepalive::PRESET.interval);
        let ping = wire.expect("ping");
        let challenge = reject_unauthorized(wire, &ping);
        wire.advance(minutes(5));
        assert_eq!(wire.take_events().len(), 0);
        wire.resume(&challenge);
        let ping = wire.expect("ping");
        wire.advance(Keepalive::PRESET.timeout - Duration::from_millis(1));
        wire.answer(&ping, json!({}));
        assert!(!wire.take_events().iter().any(|event| matches!(event, Event::Diagnostic(_))));
    });
}

/// The client lists the tools again for a call whose headers were wrong.
#[test]
fn client_parks_its_own_list_request_and_the_call_that_waits_for_it() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.refuse(&call, 400, -32020, None);
        let list = wire.expect("tools/list");
        let challenge = reject_unauthorized(wire, &list);
        wire.advance(minutes(2));
        wire.expect_pending(request);
        wire.resume(&challenge);
        let list = wire.expect("tools/list");
        wire.advance(Duration::from_secs(29));
        wire.answer(
            &list,
            json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}),
        );
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
    });
}
