//! Watches of legacy servers.

use super::*;

fn answer(s: &mut ClientHarness, id: &Value) {
    s.answer(id, json!({}));
}

#[track_caller]
fn expect_about(s: &mut ClientHarness, method: &str, uri: &str) -> Value {
    let line = s.line();
    assert_eq!(line["method"], method, "{line}");
    assert_eq!(line["params"]["uri"], uri);
    line["id"].clone()
}

/// C6.7, S5.8: the client subscribes to a resource once, however many watches it has, and unsubscribes with the last.
#[test]
fn client_subscribes_once_to_each_legacy_resource() {
    let mut s = ClientHarness::legacy(config());
    let one = watch(&mut s, WatchFilter::new().tools().resource(FILE));
    let subscribe = expect_about(&mut s, "resources/subscribe", FILE);
    let two = watch(&mut s, WatchFilter::new().resource(FILE).resource(OTHER));
    let other = expect_about(&mut s, "resources/subscribe", OTHER);
    s.expect_silence();
    assert_eq!(watch_events(&mut s), []);
    answer(&mut s, &subscribe);
    assert_eq!(watch_events(&mut s), [(one, "on".into())]);
    answer(&mut s, &other);
    assert_eq!(watch_events(&mut s), [(two, "on".into())]);
    s.notify("notifications/resources/updated", json!({"uri": FILE}));
    let events = s.take_events();
    let watches: Vec<WatchId> = events
        .iter()
        .filter_map(|event| match event {
            Event::Changed { watch, change: Change::Resource(uri), evidence: ChangeEvidence::Notified }
                if uri == FILE =>
            {
                Some(*watch)
            }
            _ => None,
        })
        .collect();
    assert_eq!(watches, [one, two]);
    assert!(
        events.iter().any(|event| matches!(event, Event::Notification { .. })),
        "other watches report it too"
    );
    s.client.at(s.now).unwatch(one);
    s.expect_silence();
    s.client.at(s.now).unwatch(two);
    let mut given_up = [s.line(), s.line()];
    given_up.sort_by_key(|line| line["params"]["uri"].to_string());
    assert!(given_up.iter().all(|line| line["method"] == "resources/unsubscribe"));
    assert_eq!(given_up.map(|line| line["params"]["uri"].clone()), [json!(FILE), json!(OTHER)]);
}

/// C6.7: requests about one resource do not overtake each other.
#[test]
fn client_has_one_request_in_flight_for_each_legacy_resource() {
    let mut s = ClientHarness::legacy(config());
    let one = watch(&mut s, WatchFilter::new().resource(FILE));
    let subscribe = expect_about(&mut s, "resources/subscribe", FILE);
    s.client.at(s.now).unwatch(one);
    s.expect_silence();
    let two = watch(&mut s, WatchFilter::new().resource(FILE));
    s.client.at(s.now).unwatch(two);
    s.expect_silence();
    answer(&mut s, &subscribe);
    let give_up = expect_about(&mut s, "resources/unsubscribe", FILE);
    let three = watch(&mut s, WatchFilter::new().resource(FILE));
    s.expect_silence();
    answer(&mut s, &give_up);
    let subscribe = expect_about(&mut s, "resources/subscribe", FILE);
    answer(&mut s, &subscribe);
    assert_eq!(watch_events(&mut s), [(three, "on".into())]);
}

/// C6.7: the client does not request what the server does not declare, and reports it as missing.
#[test]
fn client_does_not_subscribe_to_undeclared_legacy_changes() {
    let mut config = config();
    config.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(config);
    let id = s.expect("initialize");
    let mut result = crate::common::messages::initialize_result("2025-06-18");
    result["capabilities"] = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {}});
    s.answer(&id, result);
    s.expect("notifications/initialized");
    s.take_events();
    watch(&mut s, WatchFilter::new().tools().prompts().resources().resource(FILE).task("t"));
    s.expect_silence();
    assert_eq!(words(watch_events(&mut s)), [format!("on without prompts, resources, {FILE}, t")]);
}

/// C6.7: a refused resource is missing; the client retries one whose response is lost.
#[test]
fn watch_reports_a_refused_legacy_resource_as_missing() {
    let mut s = ClientHarness::legacy(config());
    watch(&mut s, WatchFilter::new().resource(FILE).resource(OTHER));
    let file = expect_about(&mut s, "resources/subscribe", FILE);
    let other = expect_about(&mut s, "resources/subscribe", OTHER);
    s.answer_error(&file, -32602, None);
    assert_eq!(watch_events(&mut s), []);
    s.answer_error(&other, -32603, None);
    s.expect_silence();
    s.advance(Duration::from_millis(500));
    let other = expect_about(&mut s, "resources/subscribe", OTHER);
    answer(&mut s, &other);
    assert_eq!(words(watch_events(&mut s)), [format!("on without {FILE}")]);
}

/// C14: tasks of 2025-11-25 are reported with their state.
#[test]
fn client_watches_legacy_tasks() {
    let mut config = config();
    config.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(config);
    let id = s.expect("initialize");
    let mut result = crate::common::messages::initialize_result("2025-11-25");
    result["capabilities"] = json!({"tasks": {}});
    s.answer(&id, result);
    s.expect("notifications/initialized");
    s.take_events();
    let id = watch(&mut s, WatchFilter::new().task("t-1"));
    s.notify("notifications/tasks/status", json!({"taskId": "t-1", "status": "working"}));
    s.notify("notifications/tasks/status", json!({"taskId": "t-2", "status": "working"}));
    let mut events = s.take_events();
    events.retain(|event| !matches!(event, Event::Notification { .. }));
    let [
        Event::Watch { .. },
        Event::Changed { watch, change: Change::Task { id: task, update: Some(_) }, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((*watch, &**task), (id, "t-1"));
}

/// Contract 1: requests of the machine itself have no outcome that the application sees.
#[test]
fn requests_of_watches_report_no_outcome() {
    for cut in [false, true] {
        let mut s = ClientHarness::legacy(config());
        watch(&mut s, WatchFilter::new().resource(FILE));
        let id = s.expect("resources/subscribe");
        if cut {
            s.end("gone");
        } else {
            s.advance(Duration::from_secs(31));
            expect_cancelled(&mut s, &id);
        }
        let events = s.take_events();
        let outcome = |event: &Event| matches!(event, Event::Outcome { outcome, .. } if !matches!(outcome, Outcome::Result(_)));
        assert!(!events.iter().any(outcome), "{events:?}");
    }
}
