//! The streams of a session: event ids, stored events, and how a client resumes a broken stream.

use core::time::Duration;
use std::collections::BTreeSet;

use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{Answer, ListKind};
use mcp_proto::peer::{InboundId, OutgoingRequest, RequestOptions};
use mcp_proto::quota::{ByteBudget, ByteLimits, QuotaOwner};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{ListRoots, ListRootsParams, ProgressParams};
use mcp_proto::transport::http::server::Chunk;
use serde_json::{Value, json};

use crate::common::http_server::{NOW, ReceivedEvent, SessionClient, config, result};

fn report(client: &mut SessionClient, call: InboundId, done: u64) {
    assert!(client.session.at(client.now).progress(call, &ProgressParams::new(Id::from("x"), done)));
}

fn done(messages: &[Value]) -> Vec<u64> {
    messages.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect()
}

fn last_id(events: &[ReceivedEvent]) -> String {
    events.iter().rev().find_map(|event| event.id.clone()).unwrap()
}

/// S3.21, D2: only since 2025-11-25.
#[test]
fn stream_begins_with_an_event_that_has_only_an_id() {
    for (version, primed) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let mut client = SessionClient::at(version);
        let (stream, call) = client.call(1);
        report(&mut client, call, 1);
        let events = client.read(stream).events();
        assert_eq!(events.len(), if primed { 2 } else { 1 }, "{version}");
        assert_eq!(events[0].data.is_empty(), primed);
        assert!(events[0].id.is_some() && events[0].retry.is_none());
        let listening = client.listen(None);
        assert_eq!(client.read(listening).events().len(), usize::from(primed));
    }
}

/// S3.22
#[test]
fn event_ids_are_unique_in_a_session() {
    let mut client = SessionClient::at("2025-11-25");
    let listening = client.listen(None);
    let calls: Vec<_> = (0..3).map(|id| client.call(id)).collect();
    for number in 0..4 {
        for (_, call) in &calls {
            report(&mut client, *call, number);
        }
        client.session.at(NOW).list_changed(ListKind::Tools);
    }
    let mut events = client.read(listening).events();
    for (stream, call) in calls {
        client.session.at(NOW).respond(call, Answer::Result(&result()));
        events.extend(client.read(stream).events());
    }
    let ids: BTreeSet<String> = events.iter().filter_map(|event| event.id.clone()).collect();
    assert_eq!((events.len(), ids.len()), (5 + 3 * 6, events.len()));
}

/// S3.22: from each point at which a stream can break.
#[test]
fn client_resumes_a_stream_where_it_broke() {
    for broken_at in 0..=4 {
        let mut client = SessionClient::at("2025-11-25");
        let (stream, call) = client.call(1);
        let (other, another) = client.call(2);
        report(&mut client, another, 1);
        for number in 1..=3 {
            report(&mut client, call, number);
        }
        // The event with only an id, then the reports.
        let mut seen = Vec::new();
        assert!(client.session.poll_head(stream).is_some());
        for _ in 0..broken_at {
            let Chunk::Bytes(bytes) = client.session.poll_body(NOW, stream) else { panic!() };
            seen.extend_from_slice(&bytes);
        }
        client.session.handle_disconnect(NOW, stream);
        let Some(last) = crate::common::http_server::events(&seen).last().and_then(|event| event.id.clone())
        else {
            continue;
        };
        let had = crate::common::http_server::events(&seen);
        let had: Vec<Value> = had.into_iter().filter_map(|event| event.message).collect();
        let resumed = client.listen(Some(&last));
        report(&mut client, call, 4);
        client.session.at(NOW).respond(call, Answer::Result(&result()));
        let rest = client.read(resumed);
        assert!(rest.ended);
        let messages = [had, rest.messages()].concat();
        assert_eq!(done(&messages), [1, 2, 3, 4], "broken at {broken_at}");
        assert_eq!(messages.last().unwrap()["id"], 1);
        // And no event of another stream.
        assert_eq!(client.read(other).messages().len(), 1);
    }
}

#[test]
fn client_fetches_a_response_sent_while_it_was_disconnected() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    report(&mut client, call, 1);
    let last = last_id(&client.read(stream).events());
    client.session.handle_disconnect(NOW, stream);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    // More than once, if that connection breaks as well.
    for _ in 0..2 {
        let resumed = client.listen(Some(&last));
        let rest = client.read(resumed);
        assert_eq!((rest.messages().len(), &rest.messages()[0]["id"], rest.ended), (1, &json!(1), true));
    }
    let nothing = last_id(&{
        let resumed = client.listen(Some(&last));
        client.read(resumed).events()
    });
    let resumed = client.listen(Some(&nothing));
    let rest = client.read(resumed);
    assert_eq!((rest.messages().len(), rest.ended), (0, true));
}

#[test]
fn server_refuses_to_resume_from_unknown_events() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, call) = client.call(1);
    let (undecided, _) = client.call(2);
    report(&mut client, call, 1);
    let last = last_id(&client.read(stream).events());
    assert_eq!(last, "2-2");
    for wrong in
        ["", "x", "-", "2", "2-3", "2-x", "3-0", "99-1", "2-99999999999999999999999", "2-1-1", "🦀-1"]
    {
        let answer = client.session.listen(NOW, Some(wrong)).unwrap_err();
        assert_eq!(answer.status, 400, "{wrong}");
    }
    assert!(client.session.poll_head(undecided).is_none());
}

/// S3.24: a response is sent only where its request was made.
#[test]
fn unrelated_messages_wait_for_a_listening_stream() {
    let mut client = SessionClient::at("2025-11-25");
    client.session.at(NOW).list_changed(ListKind::Tools);
    let params = ListRootsParams::new();
    let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
    client.session.at(NOW).send(None, request).unwrap();
    let (call_stream, call) = client.call(5);
    client.session.handle_disconnect(NOW, call_stream);
    let first = client.listen(None);
    let told = client.read(first).messages();
    assert_eq!(
        (told.len(), &told[0]["method"], &told[1]["method"]),
        (2, &json!("roots/list"), &json!("notifications/tools/list_changed"))
    );
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    // The server does not repeat delivered messages.
    client.session.handle_disconnect(NOW, first);
    client.session.at(NOW).list_changed(ListKind::Prompts);
    let second = client.listen(None);
    assert_eq!(client.read(second).messages().len(), 1);
    // Unless the client reports that it does not have them.
    let third = client.listen(Some("0-1"));
    assert_eq!(client.read(third).messages().len(), 2);
    assert!(client.read(second).ended);
}

#[test]
fn second_listening_stream_replaces_the_first() {
    let mut client = SessionClient::at("2025-06-18");
    let first = client.listen(None);
    client.session.at(NOW).list_changed(ListKind::Tools);
    let second = client.listen(None);
    client.session.at(NOW).list_changed(ListKind::Prompts);
    let old = client.read(first);
    assert_eq!((old.body.len(), old.ended), (0, true));
    assert_eq!(client.read(second).messages().len(), 2);
    // The end of the first, noticed late, is not the end of the second.
    client.session.handle_disconnect(NOW, first);
    client.session.at(NOW).list_changed(ListKind::Tools);
    assert_eq!(client.read(second).messages().len(), 1);
}

#[test]
fn late_disconnect_of_a_resumed_connection_changes_nothing() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, call) = client.call(1);
    report(&mut client, call, 1);
    let last = last_id(&client.read(stream).events());
    let resumed = client.listen(Some(&last));
    client.session.handle_disconnect(NOW, stream);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.read(resumed).messages()[0]["id"], 1);
}

/// S3.21
#[test]
fn application_can_close_a_stream_for_later_resumption() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, call) = client.call(1);
    client.session.at(NOW).close_sse_stream(call);
    let released = client.read(stream);
    assert!(released.ended);
    let events = released.events();
    assert_eq!((events.len(), events[0].retry, events[0].data.as_str()), (1, Some(1000), ""));
    report(&mut client, call, 1);
    let resumed = client.listen(Some(&last_id(&events)));
    assert_eq!(done(&client.read(resumed).messages()), [1]);
    // Again, in the middle.
    client.session.at(NOW).close_sse_stream(call);
    let again = client.read(resumed);
    assert_eq!((again.ended, again.events()[0].retry), (true, Some(1000)));
    client.session.at(NOW).close_sse_stream(call);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    let resumed = client.listen(Some(&last_id(&again.events())));
    let rest = client.read(resumed);
    assert_eq!((&rest.messages()[0]["id"], rest.ended), (&json!(1), true));
}

#[test]
fn server_keeps_the_stream_of_a_client_that_cannot_resume() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut client = SessionClient::at(version);
        let (stream, call) = client.call(1);
        client.session.at(NOW).close_sse_stream(call);
        assert!(client.session.poll_head(stream).is_none());
        client.session.at(NOW).respond(call, Answer::Result(&result()));
        assert_eq!(client.read(stream).json()["id"], 1);
    }
}

#[test]
fn slow_request_gets_a_resumable_stream() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, call) = client.call(1);
    client.advance(Duration::from_secs(1));
    let events = client.read(stream).events();
    assert_eq!((events.len(), events[0].data.as_str()), (1, ""));
    client.session.handle_disconnect(client.now, stream);
    client.session.at(client.now).respond(call, Answer::Result(&result()));
    let resumed = client.listen(Some(&last_id(&events)));
    assert_eq!(client.read(resumed).messages()[0]["id"], 1);
}

/// S3.15
#[test]
fn server_sends_comments_on_quiet_streams() {
    let mut client = SessionClient::at("2025-06-18");
    let listening = client.listen(None);
    let (stream, _) = client.call(1);
    for _ in 0..3 {
        client.advance(Duration::from_secs(14));
        assert_eq!(client.session.poll_body(client.now, listening), Chunk::Pending);
        client.advance(Duration::from_secs(1));
        assert_eq!(client.session.poll_body(client.now, listening), Chunk::Bytes(":\n\n".into()));
        assert_eq!(client.read(stream).body, ":\n\n");
    }
}

#[test]
fn session_drops_the_oldest_events_first() {
    let mut config = config();
    config.stored_events = 4;
    let mut client = SessionClient::with(config, "2025-06-18");
    let (stream, call) = client.call(1);
    for number in 1..=6 {
        report(&mut client, call, number);
    }
    client.session.handle_disconnect(NOW, stream);
    let resumed = client.listen(Some("2-0"));
    assert_eq!(done(&client.read(resumed).messages()), [3, 4, 5, 6]);
    // Of all streams together.
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    let (_, other) = client.call(2);
    for number in 1..=4 {
        report(&mut client, other, number);
    }
    assert_eq!(client.session.listen(NOW, Some("2-6")).unwrap_err().status, 400);
    let resumed = client.listen(Some("3-0"));
    assert_eq!(done(&client.read(resumed).messages()), [1, 2, 3, 4]);
}

#[test]
fn stored_events_are_bounded_in_bytes_and_the_newest_stays() {
    let mut config = config();
    config.stored_bytes = 1000;
    let mut client = SessionClient::with(config, "2025-06-18");
    let (stream, call) = client.call(1);
    for number in 1..=20 {
        report(&mut client, call, number);
    }
    client.session.handle_disconnect(NOW, stream);
    let resumed = client.listen(Some("2-0"));
    let kept = client.read(resumed);
    assert!(kept.body.len() < 1000 && kept.messages().len() > 2, "{}", kept.body.len());
    let last = last_id(&kept.events());
    client.session.handle_disconnect(NOW, resumed);
    let large = mcp_proto::schema::CallToolResult::text("x".repeat(10_000));
    client.session.at(NOW).respond(call, Answer::Result(&large));
    let resumed = client.listen(Some(&last));
    assert_eq!(client.read(resumed).messages()[0]["id"], 1);
}

#[test]
fn polls_of_an_ended_stream_end_at_once() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, call) = client.call(1);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert!(client.read(stream).ended);
    assert_eq!(client.session.poll_body(NOW, stream), Chunk::End);
    assert_eq!(client.session.poll_head(stream).unwrap().status, 404);
    client.session.handle_disconnect(NOW, stream);
    assert_eq!(client.session.idle_since(), Some(NOW));
}

/// S5.7: a change without a reader is reported once, and takes no room from events stored for resumption.
#[test]
fn changes_wait_for_a_reader() {
    let mut config = config();
    config.stored_events = 4;
    let mut client = SessionClient::with(config, "2025-06-18");
    let (stream, call) = client.call(1);
    report(&mut client, call, 1);
    client.session.handle_disconnect(NOW, stream);
    let subscribed = client.ask(2, "resources/subscribe", json!({"uri": "note:///a"}));
    client.read(subscribed);
    for _ in 0..10_000 {
        client.session.at(NOW).list_changed(ListKind::Tools);
        client.session.at(NOW).resource_updated("note:///a");
    }
    let due = client.session.poll_timeout();
    assert!(
        due.is_none_or(|due| due.saturating_since(NOW) > Duration::from_secs(60)),
        "no attempt while there is no reader: {due:?}"
    );
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    let resumed = client.listen(Some("2-0"));
    let resumed = client.read(resumed).messages();
    assert_eq!(resumed.len(), 2, "the response and the events before it are stored: {resumed:?}");
    let listening = client.listen(None);
    let methods: Vec<Value> =
        client.read(listening).messages().iter().map(|message| message["method"].clone()).collect();
    assert_eq!(methods, ["notifications/tools/list_changed", "notifications/resources/updated"]);
    // The connection breaks, and the same happens again.
    client.session.handle_disconnect(NOW, listening);
    client.session.at(NOW).list_changed(ListKind::Tools);
    client.session.at(NOW).list_changed(ListKind::Tools);
    let listening = client.listen(None);
    assert_eq!(client.read(listening).messages().len(), 1);
    client.session.at(NOW).list_changed(ListKind::Tools);
    assert_eq!(client.read(listening).messages().len(), 1, "a client reads again");
}

/// Reads `calls` responses as streams of events, each to its end.
fn read_streams(client: &mut SessionClient, calls: u64) -> Vec<String> {
    (0..calls)
        .map(|id| {
            let (stream, call) = client.call(id);
            report(client, call, id);
            client.session.at(client.now).respond(call, Answer::Result(&result()));
            let whole = client.read(stream);
            assert!(whole.ended);
            whole.events().first().and_then(|event| event.id.clone()).unwrap()
        })
        .collect()
}

#[test]
fn session_drops_delivered_streams_after_the_grace_period() {
    let mut config = config();
    config.resume_grace = Duration::from_secs(5);
    let mut client = SessionClient::with(config, "2025-06-18");
    let streams = read_streams(&mut client, 3);
    for first in &streams {
        let resumed = client.listen(Some(first));
        assert_eq!(client.read(resumed).messages().len(), 1, "the response may have been lost on its way");
    }
    client.advance(Duration::from_secs(5));
    for first in &streams {
        assert_eq!(client.session.listen(client.now, Some(first)).unwrap_err().status, 400);
    }
}

#[test]
fn session_keeps_a_sixteenth_of_its_bytes_for_delivered_streams() {
    let mut config = config();
    config.stored_bytes = 64 * 1024;
    let mut client = SessionClient::with(config, "2025-06-18");
    let streams = read_streams(&mut client, 1_100);
    let kept = streams.iter().filter(|first| client.session.listen(NOW, Some(first)).is_ok()).count();
    assert!((1..64).contains(&kept), "{kept} streams are stored");
    assert!(client.session.listen(NOW, streams.last().map(String::as_str)).is_ok(), "the newest is kept");
}

#[test]
fn session_keeps_undelivered_events_when_delivered_ones_need_room() {
    let mut config = config();
    config.stored_events = 8;
    let mut client = SessionClient::with(config, "2025-06-18");
    let (broken, call) = client.call(100);
    report(&mut client, call, 1);
    let last = last_id(&client.read(broken).events());
    client.session.handle_disconnect(NOW, broken);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    read_streams(&mut client, 50);
    client.advance(Duration::from_secs(60));
    let resumed = client.listen(Some(&last));
    assert_eq!(client.read(resumed).messages()[0]["id"], 100);
}

#[test]
fn stream_that_ends_before_its_answer_is_not_delivered() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, call) = client.call(1);
    report(&mut client, call, 1);
    client.session.at(NOW).close_sse_stream(call);
    let released = client.read(stream);
    assert!(released.ended);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    client.advance(Duration::from_secs(60));
    let resumed = client.listen(Some(&last_id(&released.events())));
    assert_eq!(client.read(resumed).messages()[0]["id"], 1);
}

#[test]
fn stored_events_do_not_grow_while_the_byte_budget_is_full() {
    let limits = ByteLimits { total: 100_000, unauthenticated: 100_000, owner: 4_000 };
    let mut budget = ByteBudget::new(limits);
    let account = budget.account(&QuotaOwner::LOCAL);
    let mut client = SessionClient::at("2025-06-18");
    client.session.charge(&account);
    let (stream, call) = client.call(1);
    report(&mut client, call, 1);
    client.read(stream);
    client.session.handle_disconnect(NOW, stream);
    for number in 2..=5 {
        report(&mut client, call, number);
    }
    let stored = budget.used();
    assert!(stored > 500);
    let mut other = account.permit();
    other.set(2_000);
    for number in 6..=9 {
        report(&mut client, call, number);
    }
    assert_eq!(budget.used() - 2_000, stored, "each event replaces another");
    let resumed = client.listen(Some("2-0"));
    assert_eq!(done(&client.read(resumed).messages()), [5, 6, 7, 8, 9]);
    drop((client, other));
    assert_eq!(budget.used(), 0);
}
