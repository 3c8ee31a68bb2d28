//! Watching over HTTP: streams that break, end and are replaced, and lost sessions.
#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

use crate::common::http_client::{ClientWire, Exchange, SESSION, config, legacy, modern, scenario};
use crate::common::messages::LEGACY;
use mcp_proto::peer::client::{
    Change, ChangeEvidence, Diagnostic, EraPolicy, Event, WatchEnd, WatchFilter, WatchId, WatchStart,
    WatchState,
};
use mcp_proto::transport::http::SentState;
use mcp_proto::transport::http::client::HttpClientConfig;
use serde_json::{Value, json};
use std::time::Duration;

const FILE: &str = "file:///project/config.json";

fn watch(wire: &mut ClientWire, interest: WatchFilter) -> WatchId {
    let id = wire.client.at(wire.now).watch(interest, WatchStart::Now).unwrap();
    wire.drain();
    id
}

fn tagged_notification(exchange: &Exchange, what: &str, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": exchange.id()});
    json!({"jsonrpc": "2.0", "method": format!("notifications/{what}"), "params": params})
}

/// The next request must be a listen request, which is acknowledged.
#[track_caller]
fn acknowledge(wire: &mut ClientWire) -> Exchange {
    let listen = wire.expect("subscriptions/listen");
    grant(wire, &listen);
    listen
}

fn grant(wire: &mut ClientWire, listen: &Exchange) {
    wire.stream(listen);
    let filter = listen.body["params"]["notifications"].clone();
    wire.event(
        listen,
        &tagged_notification(listen, "subscriptions/acknowledged", json!({"notifications": filter})),
    );
}

/// The events of the watches, in words.
#[track_caller]
fn take_changes(wire: &mut ClientWire) -> Vec<String> {
    let word = |event: Event| match event {
        Event::Changed { change, evidence: why, .. } => {
            let what = match change {
                Change::Resource(uri) => uri,
                other => format!("{other:?}").to_lowercase(),
            };
            Some(if why == ChangeEvidence::MaybeMissed { format!("{what}?") } else { what })
        }
        Event::Watch { state: WatchState::On { missing }, .. } if missing.is_empty() => Some("on".into()),
        Event::Watch { state: WatchState::Interrupted, .. } => Some("interrupted".into()),
        Event::Watch { state: WatchState::Ended(WatchEnd::ByServer), .. } => Some("ended".into()),
        Event::Watch { state: WatchState::Ended(WatchEnd::Refused(why)), .. } => {
            Some(format!("refused: {why}"))
        }
        Event::Outcome { outcome, .. } => panic!("a watch has no outcome: {outcome:?}"),
        _ => None,
    };
    wire.take_events().into_iter().filter_map(word).collect()
}

/// C6.4, C6.5: each way to lose a stream leads to another listen request, after which everything counts as changed.
#[test]
fn client_listens_again_after_a_lost_stream() {
    let cut = |wire: &mut ClientWire, listen: &Exchange| wire.truncate(listen);
    let end = |wire: &mut ClientWire, listen: &Exchange| wire.end(listen);
    let fail = |wire: &mut ClientWire, listen: &Exchange| wire.fail(listen, SentState::MaybeSent);
    let ways: [fn(&mut ClientWire, &Exchange); 3] = [cut, end, fail];
    for lose in ways {
        modern(config(), |wire| {
            watch(wire, WatchFilter::new().tools().resource(FILE));
            let listen = acknowledge(wire);
            wire.event(&listen, &tagged_notification(&listen, "tools/list_changed", json!({})));
            assert_eq!(take_changes(wire), ["on", "tools"]);
            lose(wire, &listen);
            assert_eq!(take_changes(wire), ["interrupted"]);
            wire.expect_silence();
            let pause = wire.advance_to_timeout();
            assert!(pause >= Duration::from_millis(250) && pause <= Duration::from_millis(500), "{pause:?}");
            let again = acknowledge(wire);
            assert_ne!(again.id(), listen.id(), "C5.5: a new request has an id of its own");
            assert_eq!(take_changes(wire), ["on", "tools?", &format!("{FILE}?")]);
        });
    }
}

/// C6.4, S5.4, D9: the result before the end of the stream is a clean end.
#[test]
fn client_does_not_treat_a_graceful_end_as_a_loss() {
    modern(config(), |wire| {
        watch(wire, WatchFilter::new().tools());
        let listen = acknowledge(wire);
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.id()});
        wire.event_answer(&listen, &listen.id(), json!({"resultType": "complete", "_meta": meta}));
        wire.end(&listen);
        assert_eq!(take_changes(wire), ["on", "ended"]);
        wire.advance(Duration::from_secs(3600));
        wire.expect_silence();
    });
}

/// C6.4: a server that cannot be reached, or that is overloaded, is asked until it can.
#[test]
fn client_retries_the_listen_request_until_the_server_is_back() {
    modern(config(), |wire| {
        watch(wire, WatchFilter::new().tools());
        let listen = acknowledge(wire);
        wire.truncate(&listen);
        for round in 0..20 {
            wire.advance(Duration::from_secs(30));
            let listen = wire.next().expect("the client retries for ever");
            match round % 3 {
                0 => wire.reply(&listen, 503, &[("retry-after", "20")], ""),
                1 => wire.fail(&listen, SentState::MaybeSent),
                _ => {
                    wire.stream(&listen);
                    wire.end(&listen);
                }
            }
        }
        take_changes(wire);
        wire.advance(Duration::from_secs(30));
        acknowledge(wire);
        assert_eq!(take_changes(wire), ["on", "tools?"]);
    });
}

/// C6.4: the server names the pause.
#[test]
fn client_honours_the_retry_time_of_the_server() {
    modern(config(), |wire| {
        watch(wire, WatchFilter::new().tools());
        let listen = wire.expect("subscriptions/listen");
        wire.reply(&listen, 503, &[("retry-after", "7")], "");
        assert_eq!(wire.advance_to_timeout(), Duration::from_secs(7));
        acknowledge(wire);
    });
}

/// C6.3: a refusal by status ends the watch.
#[test]
fn permanent_error_status_ends_the_watch() {
    for status in [400, 403, 501] {
        modern(config(), |wire| {
            watch(wire, WatchFilter::new().tools());
            let listen = wire.expect("subscriptions/listen");
            wire.refuse(&listen, status, -32601, None);
            let told = take_changes(wire);
            assert!(told[0].starts_with("refused"), "{told:?}");
        });
    }
}

/// C6.6: the streams of two listen requests are not ordered with each other, so the client keeps the old one for a
/// while, and reports changes that were in transit on it.
#[test]
fn client_reads_a_replaced_stream_to_its_end() {
    modern(config(), |wire| {
        let tools = watch(wire, WatchFilter::new().tools());
        let first = acknowledge(wire);
        watch(wire, WatchFilter::new().prompts());
        let second = wire.expect("subscriptions/listen");
        grant(wire, &second);
        assert_eq!(take_changes(wire), ["on", "on"]);
        wire.expect_no_abort();
        wire.event(&first, &tagged_notification(&first, "tools/list_changed", json!({})));
        assert_eq!(
            take_changes(wire),
            ["tools"],
            "the server sent it before the second listen request arrived"
        );
        wire.advance(Duration::from_secs(2));
        wire.expect_abort(&first);
        wire.event(&second, &tagged_notification(&second, "tools/list_changed", json!({})));
        assert_eq!(take_changes(wire), ["tools"]);
        wire.client.at(wire.now).unwatch(tools);
        acknowledge(wire);
        wire.advance(Duration::from_secs(2));
        wire.expect_abort(&second);
    });
}

/// C6.5: if the old stream breaks while it is read to its end, a change may be missing.
#[test]
fn broken_replaced_stream_counts_as_missed_changes() {
    modern(config(), |wire| {
        watch(wire, WatchFilter::new().tools());
        let first = acknowledge(wire);
        watch(wire, WatchFilter::new().prompts());
        acknowledge(wire);
        take_changes(wire);
        wire.truncate(&first);
        assert_eq!(take_changes(wire), ["tools?", "prompts?"]);
        wire.advance(Duration::from_secs(60));
        wire.expect_silence();
    });
}

/// C6.5, C6.6: the old stream is lost while the new request is in flight.
#[test]
fn client_reports_missed_changes_of_a_stream_that_breaks_while_replaced() {
    modern(config(), |wire| {
        watch(wire, WatchFilter::new().tools());
        let first = acknowledge(wire);
        watch(wire, WatchFilter::new().prompts());
        let second = wire.expect("subscriptions/listen");
        take_changes(wire);
        wire.truncate(&first);
        assert_eq!(take_changes(wire), ["interrupted"]);
        grant(wire, &second);
        assert_eq!(take_changes(wire), ["on", "tools?", "on"]);
        wire.advance(Duration::from_secs(60));
        wire.expect_silence();
    });
}

/// C6.6: ending a watch closes its stream, without a notification.
#[test]
fn client_closes_the_stream_with_the_last_watch() {
    modern(config(), |wire| {
        let id = watch(wire, WatchFilter::new().tools());
        let listen = acknowledge(wire);
        wire.client.at(wire.now).unwatch(id);
        wire.expect_abort(&listen);
        wire.expect_silence();
        assert_eq!(wire.client.poll_timeout(), None);
    });
}

/// C6.4: different seeds retry at different times.
#[test]
fn clients_do_not_all_retry_at_once() {
    let mut pauses = std::collections::BTreeSet::new();
    for seed in 1..=20 {
        let mut config: HttpClientConfig = config();
        config.seed = seed;
        let mut wire = ClientWire::new(config, crate::common::http_client::Pieces::Whole);
        let probe = wire.expect("server/discover");
        wire.answer(&probe, crate::common::messages::discover_result());
        watch(&mut wire, WatchFilter::new().tools());
        let listen = acknowledge(&mut wire);
        wire.truncate(&listen);
        pauses.insert(wire.advance_to_timeout());
    }
    assert!(pauses.len() > 15, "{pauses:?}");
}

// --- Legacy ---

/// C6.7: the client replaces a lost session and subscribes again to the same resources.
#[test]
fn client_subscribes_again_after_a_lost_session() {
    legacy(config(), |wire, _| {
        watch(wire, WatchFilter::new().tools().resource(FILE));
        let subscribe = wire.expect("resources/subscribe");
        wire.answer(&subscribe, json!({}));
        assert_eq!(take_changes(wire), ["on"]);
        let late = watch(wire, WatchFilter::new().resource("file:///late"));
        let lost = wire.expect("resources/subscribe");
        wire.reply(&lost, 404, &[], "");
        let words = take_changes(wire);
        assert!(words.contains(&"interrupted".to_owned()), "{words:?}");
        wire.open_session(LEGACY, "session-2");
        let mut uris = Vec::new();
        let mut get = None;
        while let Some(exchange) = wire.next() {
            if exchange.body.is_null() {
                get = Some(exchange);
                continue;
            }
            assert_eq!(exchange.header("mcp-session-id"), Some("session-2"));
            assert_eq!(exchange.body["method"], "resources/subscribe");
            uris.push(exchange.body["params"]["uri"].as_str().unwrap().to_owned());
            wire.answer(&exchange, json!({}));
        }
        uris.sort();
        uris.dedup();
        assert_eq!(uris, ["file:///late", FILE]);
        wire.stream(&get.unwrap());
        let words = take_changes(wire);
        assert!(words.contains(&"tools?".to_owned()) && words.contains(&format!("{FILE}?")), "{words:?}");
        assert!(words.iter().filter(|word| *word == "on").count() == 2, "{words:?}");
        wire.client.at(wire.now).unwatch(late);
        assert_eq!(wire.expect("resources/unsubscribe").body["params"]["uri"], "file:///late");
    });
}

/// C6.5 for legacy streams: notifications on a stream without event ids are lost while it is down.
#[test]
fn reopened_legacy_stream_without_event_ids_counts_as_missed_changes() {
    legacy(config(), |wire, listener| {
        watch(wire, WatchFilter::new().tools());
        assert_eq!(take_changes(wire), ["on"]);
        wire.event(&listener, &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        assert_eq!(take_changes(wire), ["tools"]);
        wire.truncate(&listener);
        wire.advance_to_timeout();
        let listener = wire.expect_get();
        wire.stream(&listener);
        assert_eq!(take_changes(wire), ["tools?"]);
        // From the last event id on, the server repeats every missed event.
        wire.body(
            &listener,
            "id: e-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
        );
        wire.truncate(&listener);
        wire.advance_to_timeout();
        let listener = wire.expect_get();
        assert_eq!(listener.header("last-event-id"), Some("e-1"));
        wire.stream(&listener);
        assert_eq!(take_changes(wire), ["tools"]);
    });
}

/// 2025-11-25 transports: a server need not offer the stream; then no changes arrive, and the watch reports so.
#[test]
fn watch_of_a_server_without_the_listening_stream_is_interrupted() {
    let mut config = config();
    config.client.era_policy = EraPolicy::LegacyOnly;
    scenario(config, |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        watch(wire, WatchFilter::new().tools());
        assert_eq!(take_changes(wire), ["on"], "the stream will most likely open in a moment");
        wire.reply(&listener, 405, &[], "");
        assert_eq!(take_changes(wire), ["interrupted"]);
        watch(wire, WatchFilter::new().prompts());
        assert_eq!(take_changes(wire), Vec::<String>::new());
    });
}

/// Contract 1 with a lost session: the machine's own requests do not reach the application.
#[test]
fn closing_client_reports_no_outcome_of_its_own_requests() {
    legacy(config(), |wire, _| {
        watch(wire, WatchFilter::new().resource(FILE));
        let subscribe = wire.expect("resources/subscribe");
        wire.answer(&subscribe, json!({}));
        wire.client.at(wire.now).close();
        let events = wire.take_events();
        assert!(!events.iter().any(|event| matches!(event, Event::Outcome { .. })), "{events:?}");
        let lost = |event: &Event| matches!(event, Event::Diagnostic(Diagnostic::SessionLost));
        assert!(!events.iter().any(lost));
    });
}
