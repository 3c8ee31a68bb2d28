//! Parked exchanges of detection and the handshake.

use super::*;

/// C12.2
#[test]
fn client_parks_the_probe_and_suspends_detection() {
    scenario(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let probe = wire.expect("server/discover");
        wire.advance(Duration::from_secs(3));
        let challenge = reject_unauthorized(wire, &probe);
        wire.advance(minutes(3));
        wire.expect_silence();
        assert_eq!(wire.closed(), None);
        wire.expect_pending(request);
        wire.resume(&challenge);
        let probe = wire.expect("server/discover");
        wire.answer(&probe, discover_result());
        assert_eq!(wire.client.state(), State::Ready);
        let call = wire.expect("tools/call");
        wire.advance(Duration::from_secs(29));
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
    });
}

#[test]
fn detection_resumes_with_its_remaining_time() {
    scenario(parking_config(config()), |wire| {
        let probe = wire.expect("server/discover");
        let due = wire.client.poll_timeout().unwrap();
        let challenge = reject_unauthorized(wire, &probe);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        assert_eq!(wire.client.poll_timeout(), Some(due + minutes(3)));
    });
}

#[test]
fn probe_given_up_fails_the_connection_with_the_reason() {
    scenario(parking_config(config()), |wire| {
        let probe = wire.expect("server/discover");
        let challenge = reject_unauthorized(wire, &probe);
        wire.give_up(&challenge);
        let Some(CloseReason::Connect(ConnectError::Transport { error, .. })) = wire.closed() else {
            panic!()
        };
        assert_eq!((error.status, error.unauthorized.as_deref()), (401, Some("nobody logged in")));
        assert_eq!(error.challenge.as_deref(), Some(CHALLENGE));
    });
}

/// C12.2
#[test]
fn client_parks_the_handshake_and_the_initialized_notification() {
    scenario(parking_config(legacy_config()), |wire| {
        let request = call_tool(wire);
        let initialize = wire.expect("initialize");
        let challenge = reject_unauthorized(wire, &initialize);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, SESSION);

        let initialized = wire.expect("notifications/initialized");
        let challenge = reject_unauthorized(wire, &initialized);
        // The client sends nothing before the server has accepted this.
        wire.advance(minutes(3));
        wire.expect_silence();
        wire.resume(&challenge);
        let initialized = wire.expect("notifications/initialized");
        assert_eq!(initialized.header("mcp-session-id"), Some(SESSION));
        wire.accept(&initialized);
        wire.expect_get();
        wire.expect("tools/call");
        wire.expect_pending(request);
    });
}

#[test]
fn client_reports_an_initialized_notification_given_up_and_uses_the_session() {
    scenario(parking_config(legacy_config()), |wire| {
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, SESSION);
        let initialized = wire.expect("notifications/initialized");
        let challenge = reject_unauthorized(wire, &initialized);
        wire.give_up(&challenge);
        assert!(wire.diagnostics().iter().any(
            |told| matches!(told, Diagnostic::MessageRejected { error, .. } if error.unauthorized.is_some())
        ));
        wire.expect_get();
    });
}

/// C12.2
#[test]
fn client_parks_the_event_stream_of_http_sse() {
    scenario(parking_config(legacy_config()), |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = wire.expect_get();
        let challenge = reject_unauthorized(wire, &events);
        wire.advance(minutes(3));
        assert_eq!(wire.closed(), None);
        wire.resume(&challenge);
        let events = wire.expect_get();
        wire.stream(&events);
        wire.body(&events, "event: endpoint\ndata: /post\n\n");
        let initialize = wire.expect("initialize");
        let challenge = reject_unauthorized(wire, &initialize);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        let initialize = wire.expect("initialize");
        assert_eq!(&*initialize.request.url, "http://localhost:3000/post");
        wire.accept(&initialize);
        wire.event_answer(
            &events,
            &initialize.id(),
            crate::common::messages::initialize_result("2024-11-05"),
        );
        assert_eq!(wire.client.state(), State::Ready);
    });
}

#[test]
fn resumed_event_stream_ends_by_its_own_timeout() {
    scenario(parking_config(legacy_config()), |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = wire.expect_get();
        let challenge = reject_unauthorized(wire, &events);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        let events = wire.expect_get();
        wire.advance(Duration::from_secs(5));
        wire.expect_abort(&events);
        assert!(wire.closed().is_some());
    });
}
