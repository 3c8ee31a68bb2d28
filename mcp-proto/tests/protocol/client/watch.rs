//! Watching on a stream: filters, subscriptions of either era, losses and ends.
#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

mod legacy;

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{
    Change, ChangeEvidence, Event, LinkAction, OnServerEnd, State, WatchEnd, WatchFilter, WatchId,
    WatchStart, WatchState,
};
use mcp_proto::peer::{Outcome, RequestError};
use mcp_proto::schema::ClientCapability;
use serde_json::{Value, json};

const FILE: &str = "file:///project/config.json";
const OTHER: &str = "file:///project/notes/today.md";

fn watch(s: &mut ClientHarness, interest: WatchFilter) -> WatchId {
    s.client.at(s.now).watch(interest, WatchStart::Now).unwrap()
}

/// The next line must be a listen for this filter; returns its id.
#[track_caller]
fn expect_listen(s: &mut ClientHarness, filter: Value) -> Value {
    let line = s.line();
    assert_eq!(line["method"], "subscriptions/listen", "{line}");
    assert_eq!(line["params"]["notifications"], filter);
    line["id"].clone()
}

fn acknowledge(s: &mut ClientHarness, id: &Value, filter: Value) {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    s.notify("notifications/subscriptions/acknowledged", json!({"_meta": meta, "notifications": filter}));
}

fn notify(s: &mut ClientHarness, id: &Value, what: &str, mut params: Value) {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
    s.notify(&format!("notifications/{what}"), params);
}

#[track_caller]
fn expect_cancelled(s: &mut ClientHarness, id: &Value) {
    let line = s.line();
    assert_eq!(line["method"], "notifications/cancelled", "{line}");
    assert_eq!(&line["params"]["requestId"], id);
}

/// The events of each watch, in words; no other events may have come.
#[track_caller]
fn watch_events(s: &mut ClientHarness) -> Vec<(WatchId, String)> {
    let word = |event: Event| match event {
        Event::Changed { watch, change, evidence: why } => {
            let what = match change {
                Change::Resource(uri) => uri,
                Change::Task { id, update } => format!("{id}{}", if update.is_some() { "+" } else { "" }),
                other => format!("{other:?}").to_lowercase(),
            };
            (watch, if why == ChangeEvidence::MaybeMissed { format!("{what}?") } else { what })
        }
        Event::Watch { watch, state } => {
            let word = match state {
                WatchState::On { missing } if missing.is_empty() => "on".to_owned(),
                WatchState::On { missing } => {
                    let lists = [missing.has_tools(), missing.has_prompts(), missing.has_resources()];
                    let lists = ["tools", "prompts", "resources"].into_iter().zip(lists);
                    let lists = lists.filter_map(|(name, is)| is.then_some(name));
                    let rest = lists.chain(missing.resource_uris()).chain(missing.task_ids());
                    format!("on without {}", rest.collect::<Vec<_>>().join(", "))
                }
                WatchState::Interrupted => "interrupted".to_owned(),
                WatchState::Ended(WatchEnd::ByServer) => "ended".to_owned(),
                WatchState::Ended(WatchEnd::Refused(outcome)) => format!("refused: {outcome}"),
                other => panic!("{other:?}"),
            };
            (watch, word)
        }
        other => panic!("unexpected: {other:?}"),
    };
    s.take_events().into_iter().map(word).collect()
}

fn words(told: Vec<(WatchId, String)>) -> Vec<String> {
    told.into_iter().map(|(_, word)| word).collect()
}

/// C6.1, C6.2, C6.6: one listen request covers the filter; the watch reports its notifications; a notification ends it.
#[test]
fn client_watches_a_modern_server_by_a_listen_request() {
    let mut s = ClientHarness::modern(config());
    let id = watch(&mut s, WatchFilter::new().tools().resource(FILE));
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [FILE]});
    let listen = expect_listen(&mut s, filter.clone());
    assert_eq!(watch_events(&mut s), []);
    acknowledge(&mut s, &listen, filter);
    assert_eq!(watch_events(&mut s), [(id, "on".into())]);
    notify(&mut s, &listen, "tools/list_changed", json!({}));
    notify(&mut s, &listen, "resources/updated", json!({"uri": FILE}));
    assert_eq!(watch_events(&mut s), [(id, "tools".into()), (id, FILE.into())]);
    s.advance(Duration::from_secs(86_400));
    s.expect_silence();
    s.client.at(s.now).unwatch(id);
    expect_cancelled(&mut s, &listen);
    // The client ignores a response that crossed the cancellation.
    s.answer(&listen, json!({"resultType": "complete"}));
    assert_eq!(watch_events(&mut s), []);
    assert_eq!(s.client.poll_timeout(), None);
}

/// C6.1: several watches share one listen request; each reports only the changes of its own filter.
#[test]
fn watches_share_a_listen_request_and_report_their_own_changes() {
    let mut s = ClientHarness::modern(config());
    let tools = watch(&mut s, WatchFilter::new().tools());
    let first = expect_listen(&mut s, json!({"toolsListChanged": true}));
    // Watches opened meanwhile wait for the answer, and are sent together.
    let both = watch(&mut s, WatchFilter::new().tools().prompts());
    let file = watch(&mut s, WatchFilter::new().resource(FILE));
    s.expect_silence();
    acknowledge(&mut s, &first, json!({"toolsListChanged": true}));
    assert_eq!(watch_events(&mut s), [(tools, "on".into())]);
    let filter =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": [FILE]});
    let second = expect_listen(&mut s, filter.clone());
    acknowledge(&mut s, &second, filter);
    assert_eq!(watch_events(&mut s), [(both, "on".into()), (file, "on".into())]);
    expect_cancelled(&mut s, &first);
    notify(&mut s, &second, "tools/list_changed", json!({}));
    notify(&mut s, &second, "prompts/list_changed", json!({}));
    notify(&mut s, &second, "resources/updated", json!({"uri": FILE}));
    let expected: [(WatchId, String); 4] =
        [(tools, "tools".into()), (both, "tools".into()), (both, "prompts".into()), (file, FILE.into())];
    assert_eq!(watch_events(&mut s), expected);
    // A watch that the filter already covers sends nothing.
    let again = watch(&mut s, WatchFilter::new().prompts());
    s.expect_silence();
    assert_eq!(watch_events(&mut s), [(again, "on".into())]);
}

/// C6.1, C6.2: a notification that names another subscription, or none, is no change for a watch.
#[test]
fn watch_ignores_notifications_of_no_subscription_of_its_own() {
    let mut s = ClientHarness::modern(config());
    let tools = watch(&mut s, WatchFilter::new().tools());
    let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
    acknowledge(&mut s, &listen, json!({"toolsListChanged": true}));
    assert_eq!(watch_events(&mut s), [(tools, "on".into())]);
    notify(&mut s, &json!(99), "tools/list_changed", json!({}));
    s.notify("notifications/tools/list_changed", json!({}));
    let events = s.take_events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events.iter().all(|event| matches!(event, Event::Notification { subscription: None, .. })),
        "{events:?}"
    );
    notify(&mut s, &listen, "tools/list_changed", json!({}));
    assert_eq!(watch_events(&mut s), [(tools, "tools".into())]);
}

/// C3.2, C6.2, C6.6: a change during the replacement of the listen request is reported, by the old request or by the
/// new one.
#[test]
fn replacing_the_listen_request_loses_no_change() {
    let mut s = ClientHarness::modern(config());
    let id = watch(&mut s, WatchFilter::new().tools());
    let first = expect_listen(&mut s, json!({"toolsListChanged": true}));
    acknowledge(&mut s, &first, json!({"toolsListChanged": true}));
    watch_events(&mut s);
    s.client.at(s.now).set_watch_filter(id, WatchFilter::new().tools().resources());
    let filter = json!({"toolsListChanged": true, "resourcesListChanged": true});
    let second = expect_listen(&mut s, filter.clone());
    s.expect_silence();
    notify(&mut s, &first, "tools/list_changed", json!({}));
    assert_eq!(
        words(watch_events(&mut s)),
        ["tools"],
        "the first request is open until the second is acknowledged"
    );
    acknowledge(&mut s, &second, filter);
    expect_cancelled(&mut s, &first);
    s.expect_silence();
    assert_eq!(words(watch_events(&mut s)), ["on"]);
    // Late notifications of the first request belong to no open request.
    notify(&mut s, &first, "tools/list_changed", json!({}));
    assert!(matches!(s.take_events()[..], [Event::Notification { subscription: None, .. }]));
    notify(&mut s, &second, "resources/list_changed", json!({}));
    assert_eq!(words(watch_events(&mut s)), ["resources"]);
    // The filter shrinks, and the client tells the server so.
    s.client.at(s.now).set_watch_filter(id, WatchFilter::new().resources());
    assert_eq!(words(watch_events(&mut s)), ["on"]);
    let third = expect_listen(&mut s, json!({"resourcesListChanged": true}));
    acknowledge(&mut s, &third, json!({"resourcesListChanged": true}));
    expect_cancelled(&mut s, &second);
    notify(&mut s, &third, "tools/list_changed", json!({}));
    assert_eq!(words(watch_events(&mut s)), Vec::<String>::new(), "no watch covers the tools");
}

/// C6.3
#[test]
fn watch_reports_what_the_server_does_not_grant() {
    let mut s = ClientHarness::modern(config());
    let tools = watch(&mut s, WatchFilter::new().tools());
    let first = expect_listen(&mut s, json!({"toolsListChanged": true}));
    let rest = watch(&mut s, WatchFilter::new().tools().prompts().resource(FILE).resource(OTHER));
    acknowledge(&mut s, &first, json!({"toolsListChanged": true}));
    s.line();
    acknowledge(
        &mut s,
        &json!(3),
        json!({"toolsListChanged": true, "resourceSubscriptions": [OTHER, "file:///x"]}),
    );
    let expected = [(tools, "on".into()), (rest, format!("on without prompts, {FILE}"))];
    assert_eq!(watch_events(&mut s), expected);
    let interest = s.client.peer().watches().find(|(id, _)| *id == rest).unwrap().1.clone();
    assert_eq!(interest.resource_uris().collect::<Vec<_>>(), [FILE, OTHER]);
}

/// C6.4, C6.5, R4: either form of the end is one, whichever comes first, and it is not a loss.
#[test]
fn graceful_end_of_the_listen_request_ends_the_watches() {
    let result = |id: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta":
        {"io.modelcontextprotocol/subscriptionId": id}}})
    };
    let cancelled = |id: &Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params":
        {"requestId": id}})
    };
    for order in [["result", "cancelled"], ["cancelled", "result"], ["result", ""], ["cancelled", ""]] {
        let mut s = ClientHarness::modern(config());
        let one = watch(&mut s, WatchFilter::new().tools());
        let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
        let other = watch(&mut s, WatchFilter::new().tools());
        acknowledge(&mut s, &listen, json!({"toolsListChanged": true}));
        watch_events(&mut s);
        for form in order {
            match form {
                "result" => s.send(&result(&listen)),
                "cancelled" => s.send(&cancelled(&listen)),
                _ => {}
            }
        }
        assert_eq!(watch_events(&mut s), [(one, "ended".into()), (other, "ended".into())], "{order:?}");
        s.advance(Duration::from_secs(3600));
        s.expect_silence();
        assert_eq!(s.client.peer().watches().count(), 0);
        // A new watch may send a new listen request.
        let again = watch(&mut s, WatchFilter::new().tools());
        let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
        acknowledge(&mut s, &listen, json!({"toolsListChanged": true}));
        assert_eq!(watch_events(&mut s), [(again, "on".into())]);
    }
}

/// C6.4: if the application wishes, the client listens again after a graceful end, and reports everything as changed.
#[test]
fn client_listens_again_after_a_graceful_end_on_demand() {
    let mut config = config();
    config.watch.on_server_end = OnServerEnd::Listen;
    let mut s = ClientHarness::modern(config);
    watch(&mut s, WatchFilter::new().tools());
    let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
    acknowledge(&mut s, &listen, json!({"toolsListChanged": true}));
    s.answer(&listen, json!({"resultType": "complete"}));
    assert_eq!(words(watch_events(&mut s)), ["interrupted"], "the latest state replaces earlier ones");
    s.expect_silence();
    s.advance(Duration::from_millis(500));
    let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
    acknowledge(&mut s, &listen, json!({"toolsListChanged": true}));
    assert_eq!(words(watch_events(&mut s)), ["on", "tools?"]);
}

/// C6.4: a server that ends each listen request before it has acknowledged it sends no notifications.
#[test]
fn client_gives_up_listening_where_each_request_ends_before_it_is_open() {
    let mut config = config();
    config.watch.on_server_end = OnServerEnd::Listen;
    let mut s = ClientHarness::modern(config);
    watch(&mut s, WatchFilter::new().tools());
    for _ in 0..5 {
        let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
        s.answer(&listen, json!({"resultType": "complete"}));
        assert!(watch_events(&mut s).is_empty());
        let due = s.client.poll_timeout().unwrap();
        s.advance(due.saturating_since(s.now));
    }
    let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
    s.answer(&listen, json!({"resultType": "complete"}));
    assert_eq!(words(watch_events(&mut s)), ["ended"]);
    s.advance(Duration::from_secs(3600));
    s.expect_silence();
}

/// C6.4: an error ends a granted request as a loss does; the client retries with growing, randomized pauses.
#[test]
fn client_retries_a_broken_listen_request_with_backoff() {
    let mut s = ClientHarness::modern(config());
    watch(&mut s, WatchFilter::new().tools().resource(FILE));
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [FILE]});
    let mut listen = expect_listen(&mut s, filter.clone());
    acknowledge(&mut s, &listen, filter.clone());
    assert_eq!(words(watch_events(&mut s)), ["on"]);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        s.answer_error(&listen, -32603, None);
        assert_eq!(words(watch_events(&mut s)), ["interrupted"]);
        s.expect_silence();
        let before = s.now;
        let due = s.client.poll_timeout().unwrap();
        s.advance(due.saturating_since(before));
        pauses.push(s.now.saturating_since(before));
        listen = expect_listen(&mut s, filter.clone());
        acknowledge(&mut s, &listen, filter.clone());
        assert_eq!(words(watch_events(&mut s)), ["on", "tools?", &format!("{FILE}?")]);
    }
    let mut whole = 500;
    for pause in &pauses {
        let millis = pause.as_millis();
        assert!((whole / 2..=whole).contains(&millis), "{pauses:?}");
        whole = (whole * 2).min(30_000);
    }
    // A request that worked for a while resets the backoff.
    s.advance(Duration::from_secs(10));
    s.answer_error(&listen, -32603, None);
    assert!(s.client.poll_timeout().unwrap().saturating_since(s.now) <= Duration::from_millis(500));
}

/// C6.3: a server without subscriptions.
#[test]
fn refused_listen_request_ends_the_watches_with_the_server_error() {
    let mut s = ClientHarness::modern(config());
    let id = watch(&mut s, WatchFilter::new().tools());
    let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
    s.answer_error(&listen, -32601, None);
    let [(ended, word)] = &watch_events(&mut s)[..] else { panic!() };
    assert_eq!(*ended, id);
    assert!(word.starts_with("refused: the peer answered with an error"), "{word}");
    s.advance(Duration::from_secs(3600));
    s.expect_silence();
    assert_eq!(s.client.poll_timeout(), None);
}

/// C6.3: a refused extension of the filter does not affect what was granted.
#[test]
fn refusal_ends_only_the_watches_that_need_it() {
    let mut s = ClientHarness::modern(config());
    let tools = watch(&mut s, WatchFilter::new().tools());
    let first = expect_listen(&mut s, json!({"toolsListChanged": true}));
    acknowledge(&mut s, &first, json!({"toolsListChanged": true}));
    let file = watch(&mut s, WatchFilter::new().resource("nonsense"));
    let second = s.expect("subscriptions/listen");
    s.answer_error(&second, -32602, None);
    let told_now = watch_events(&mut s);
    assert_eq!(told_now[0], (tools, "on".into()));
    assert_eq!(told_now[1].0, file);
    s.advance(Duration::from_secs(60));
    s.expect_silence();
    notify(&mut s, &first, "tools/list_changed", json!({}));
    assert_eq!(watch_events(&mut s), [(tools, "tools".into())]);
}

/// C6.3: a transient error is final once it has repeated for a while.
#[test]
fn client_gives_up_on_a_listen_request_after_repeated_errors() {
    let mut s = ClientHarness::modern(config());
    watch(&mut s, WatchFilter::new().tools());
    let mut asked = 0;
    while let Some(line) = s.try_line() {
        asked += 1;
        s.answer_error(&line["id"], -32000, None);
        assert!(asked < 10, "the client asks for ever");
        if let Some(due) = s.client.poll_timeout() {
            s.advance(due.saturating_since(s.now));
        }
    }
    assert_eq!(asked, 6);
    assert!(words(watch_events(&mut s))[0].starts_with("refused"));
}

/// S5.2 of the other side: the client does not wait for ever for an acknowledgement; if it is missing, the
/// notifications that follow replace it.
#[test]
fn client_notices_a_missing_acknowledgement() {
    let mut s = ClientHarness::modern(config());
    watch(&mut s, WatchFilter::new().tools());
    let first = expect_listen(&mut s, json!({"toolsListChanged": true}));
    s.advance(Duration::from_secs(29));
    s.expect_silence();
    s.advance(Duration::from_secs(2));
    expect_cancelled(&mut s, &first);
    let second = expect_listen(&mut s, json!({"toolsListChanged": true}));
    acknowledge(&mut s, &first, json!({"toolsListChanged": true}));
    let events = s.take_events();
    assert!(!events.iter().any(|event| matches!(event, Event::Watch { .. })), "{events:?}");
    notify(&mut s, &second, "tools/list_changed", json!({}));
    assert_eq!(words(watch_events(&mut s)), ["on", "tools"]);
}

/// 2025-11-25 resources: the URI may be that of a sub-resource; C6.2.
#[test]
fn watch_reports_a_change_below_its_resource() {
    let mut s = ClientHarness::modern(config());
    let project = watch(&mut s, WatchFilter::new().resource("file:///project"));
    let listen = s.expect("subscriptions/listen");
    let notes = watch(&mut s, WatchFilter::new().resource("file:///project/notes/"));
    acknowledge(&mut s, &listen, json!({"resourceSubscriptions": ["file:///project"]}));
    let listen = s.expect("subscriptions/listen");
    let filter = json!({"resourceSubscriptions": ["file:///project", "file:///project/notes/"]});
    acknowledge(&mut s, &listen, filter);
    watch_events(&mut s);
    notify(&mut s, &listen, "resources/updated", json!({"uri": OTHER}));
    let mut both = watch_events(&mut s);
    both.sort();
    assert_eq!(both, [(project, OTHER.into()), (notes, OTHER.into())]);
    notify(&mut s, &listen, "resources/updated", json!({"uri": "file:///project-two/x"}));
    assert_eq!(watch_events(&mut s).len(), 2, "an unknown name may be another name for a watched resource");
}

/// C14.6: the watch reports tasks with their known state; without the extension it requests none.
#[test]
fn client_with_the_extension_watches_tasks() {
    let mut s = ClientHarness::modern(config());
    watch(&mut s, WatchFilter::new().task("t-1"));
    s.expect_silence();
    assert_eq!(words(watch_events(&mut s)), ["on without t-1"]);

    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::TasksExtension);
    let mut s = ClientHarness::modern(config);
    watch(&mut s, WatchFilter::new().task("t-1"));
    let listen = expect_listen(&mut s, json!({"taskIds": ["t-1"]}));
    acknowledge(&mut s, &listen, json!({"taskIds": ["t-1"]}));
    let status = |status: &str| json!({"taskId": "t-1", "status": status, "ttlMs": 1000});
    notify(&mut s, &listen, "tasks", status("working"));
    notify(&mut s, &listen, "tasks", status("cancelled"));
    let events = s.take_events();
    let [Event::Watch { .. }, Event::Changed { change: Change::Task { id, update: Some(update) }, .. }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(id, "t-1");
    assert!(update.as_str().contains("cancelled"), "the latest update replaces earlier ones");
}

/// C3.7: a watch opened before the server is known is requested once it is known, on any link; a watch of a lost
/// connection moves to the next one, and reports that changes may have been missed.
#[test]
fn client_requests_watches_once_the_server_is_known_and_on_each_new_connection() {
    let mut config = config();
    config.can_reopen = true;
    let mut s = ClientHarness::open(config.clone());
    let id = watch(&mut s, WatchFilter::new().tools());
    s.expect("server/discover");
    s.expect_silence();
    s.end("exit status 1");
    s.accept();
    let initialize = s.expect("initialize");
    s.answer(&initialize, crate::common::messages::initialize_result("2025-11-25"));
    s.expect("notifications/initialized");
    let events = s.take_events();
    assert!(events.iter().any(|event| matches!(event, Event::Watch { watch, .. } if *watch == id)));
    s.end("killed");
    assert_eq!(s.client.state(), State::Disconnected);
    assert!(matches!(
        s.client.at(s.now).watch(WatchFilter::new().tools(), WatchStart::Now),
        Err(RequestError::Closed)
    ));

    let mut next = ClientHarness::modern(config);
    for (_, interest) in s.client.peer().watches() {
        next.client.at(next.now).watch(interest.clone(), WatchStart::Before).unwrap();
    }
    let listen = expect_listen(&mut next, json!({"toolsListChanged": true}));
    acknowledge(&mut next, &listen, json!({"toolsListChanged": true}));
    assert_eq!(words(watch_events(&mut next)), ["on", "tools?"]);
}

/// Contract 8: an unread change is reported once, however often it happens.
#[test]
fn unread_changes_coalesce() {
    let mut s = ClientHarness::modern(config());
    let id = watch(&mut s, WatchFilter::new().tools().resource(FILE));
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [FILE]});
    let listen = expect_listen(&mut s, filter.clone());
    acknowledge(&mut s, &listen, filter);
    for _ in 0..10_000 {
        notify(&mut s, &listen, "tools/list_changed", json!({}));
        notify(&mut s, &listen, "resources/updated", json!({"uri": FILE}));
    }
    assert!(s.client.wants_read());
    assert_eq!(words(watch_events(&mut s)), ["on", "tools", FILE]);
    // A closed watch reports nothing, not even waiting changes.
    notify(&mut s, &listen, "tools/list_changed", json!({}));
    s.client.at(s.now).unwatch(id);
    assert_eq!(watch_events(&mut s), []);
}

/// Contract 8: a server can name any number of resources below a watched one; they are folded into the watched
/// resource.
#[test]
fn sub_resources_of_a_watch_are_bounded() {
    let mut config = config();
    config.limits.events = 64;
    let mut s = ClientHarness::modern(config);
    watch(&mut s, WatchFilter::new().resource("file:///d"));
    let listen = s.expect("subscriptions/listen");
    acknowledge(&mut s, &listen, json!({"resourceSubscriptions": ["file:///d"]}));
    for number in 0..10_000 {
        notify(&mut s, &listen, "resources/updated", json!({"uri": format!("file:///d/{number}")}));
    }
    let words = words(watch_events(&mut s));
    assert!(words.len() <= 64, "{}", words.len());
    assert_eq!(words.last().unwrap(), "file:///d?");
}

/// C6.6
#[test]
fn closing_client_ends_the_listen_request() {
    let mut s = ClientHarness::modern(config());
    watch(&mut s, WatchFilter::new().tools());
    let listen = expect_listen(&mut s, json!({"toolsListChanged": true}));
    s.client.at(s.now).close();
    expect_cancelled(&mut s, &listen);
    assert_eq!(s.client.poll_link(), Some(LinkAction::CloseWrite));
    s.expect_silence();
}
