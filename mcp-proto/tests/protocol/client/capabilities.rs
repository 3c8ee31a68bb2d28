//! A client uses only what its server declares, and sends only what the protocol allows.

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use crate::common::messages::{LEGACY, discover_result, initialize_result};
use mcp_proto::peer::client::{
    ClientConfig, ConnectError, Diagnostic, EraPolicy, Event, Keepalive, LinkAction, State,
};
use mcp_proto::peer::{Outcome, RequestError, RequestOptions, RequiredCapability};
use mcp_proto::schema::{
    ClientCapability, Complete, CompleteParams, Era, GetPrompt, GetPromptParams, ListPrompts,
    ListResourceTemplates, ListResources, ListTools, LoggingLevel, Meta, Method, ReadResource,
    ReadResourceParams, RootsListChanged, ServerCapability, SetLoggingLevel, SetLoggingLevelParams,
    SubscribeResource, SubscribeResourceParams, UnsubscribeResource, UnsubscribeResourceParams,
};
use serde_json::{Value, json};

const EVERYTHING: [ServerCapability; 5] = [
    ServerCapability::Tools,
    ServerCapability::Prompts,
    ServerCapability::Resources,
    ServerCapability::Completions,
    ServerCapability::Logging,
];

/// A client of a server that declares these capabilities.
fn connected(era: Era, mut config: ClientConfig, capabilities: Value) -> ClientHarness {
    if era == Era::Legacy {
        config.era_policy = EraPolicy::LegacyOnly;
    }
    let mut s = ClientHarness::open(config);
    let first = s.line();
    let mut result = match era {
        Era::Modern => discover_result(),
        Era::Legacy => initialize_result(LEGACY),
    };
    result["capabilities"] = capabilities;
    s.answer(&first["id"], result);
    assert_eq!(s.client.state(), State::Ready);
    if era == Era::Legacy {
        assert_eq!(s.line()["method"], "notifications/initialized");
    }
    s.take_events();
    s
}

/// The capability for lack of which a request is refused; `None` if it is sent.
fn refused<M: Method>(s: &mut ClientHarness, params: &M::Params) -> Option<ServerCapability> {
    match s.client.at(s.now).request::<M>(params, RequestOptions::default()) {
        Ok(_) => {
            s.expect(M::NAME);
            None
        }
        Err(RequestError::Capability { needed: RequiredCapability::Server(needed), method }) => {
            assert_eq!(method, M::NAME);
            s.expect_silence();
            Some(needed)
        }
        Err(other) => panic!("{}: {other}", M::NAME),
    }
}

/// C9.12, C2.14, C6.7, C9.15
#[test]
fn client_sends_only_requests_whose_capability_the_server_declares() {
    let complete: CompleteParams = serde_json::from_str(
        r#"{"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}"#,
    )
    .unwrap();
    let read = ReadResourceParams::new("file:///a");
    // A legacy server that declares nothing at all is another matter: see `lenient`.
    let other = json!({"experimental": {"com.example/x": {}}});
    for era in [Era::Modern, Era::Legacy] {
        let all = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}, "completions": {}, "logging": {}});
        for (capabilities, declared) in [(other.clone(), false), (all, true)] {
            let mut s = connected(era, config(), capabilities);
            let [tools, prompts, resources, completions, logging] =
                EVERYTHING.map(|needed| (!declared).then_some(needed));
            assert_eq!(refused::<ListTools>(&mut s, &Default::default()), tools);
            assert_eq!(refused::<ListPrompts>(&mut s, &Default::default()), prompts);
            assert_eq!(refused::<GetPrompt>(&mut s, &GetPromptParams::new("p")), prompts);
            assert_eq!(refused::<ListResources>(&mut s, &Default::default()), resources);
            assert_eq!(refused::<ListResourceTemplates>(&mut s, &Default::default()), resources);
            assert_eq!(refused::<ReadResource>(&mut s, &read), resources);
            assert_eq!(refused::<Complete>(&mut s, &complete), completions);
            if era == Era::Legacy {
                let subscribe = SubscribeResourceParams::new("file:///a");
                let subscription = (!declared).then_some(ServerCapability::ResourcesSubscribe);
                assert_eq!(refused::<SubscribeResource>(&mut s, &subscribe), subscription);
                let level = SetLoggingLevelParams::new(LoggingLevel::Debug);
                assert_eq!(refused::<SetLoggingLevel>(&mut s, &level), logging);
            }
        }
    }
}

/// C6.7: resources without `subscribe`.
#[test]
fn client_does_not_subscribe_without_the_subscribe_capability() {
    let mut s = connected(Era::Legacy, config(), json!({"resources": {}}));
    let subscribe = SubscribeResourceParams::new("file:///a");
    let unsubscribe = UnsubscribeResourceParams::new("file:///a");
    let needed = Some(ServerCapability::ResourcesSubscribe);
    assert_eq!(refused::<SubscribeResource>(&mut s, &subscribe), needed);
    assert_eq!(refused::<UnsubscribeResource>(&mut s, &unsubscribe), needed);
    let mut s = connected(Era::Legacy, config(), json!({"resources": {"subscribe": true}}));
    assert_eq!(refused::<SubscribeResource>(&mut s, &subscribe), None);
    assert_eq!(refused::<UnsubscribeResource>(&mut s, &unsubscribe), None);
}

/// C9.15
#[test]
fn client_sets_no_log_level_at_a_server_without_logging() {
    let mut config = config();
    config.log_level = Some(LoggingLevel::Warning);
    let mut without = connected(Era::Legacy, config.clone(), json!({"tools": {}}));
    without.expect_silence();
    let mut with = connected(Era::Legacy, config, json!({"logging": {}}));
    assert_eq!(with.line()["method"], "logging/setLevel");
}

/// C9.14
#[test]
fn client_requests_log_messages_only_where_the_application_asks_for_them() {
    const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    let mut s = ClientHarness::modern(config());
    let debug = RequestOptions::default().log_level(LoggingLevel::Debug);
    for (options, level) in
        [(RequestOptions::default(), None), (debug, Some("debug")), (RequestOptions::default(), None)]
    {
        s.client.at(s.now).request::<ListTools>(&Default::default(), options).unwrap();
        assert_eq!(s.line()["params"]["_meta"].get(LEVEL).and_then(Value::as_str), level);
    }
}

/// C1.4, C3.4
#[test]
fn written_notifications_have_no_id_and_received_ones_get_no_answer() {
    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::RootsListChanged);
    for era in [Era::Modern, Era::Legacy] {
        let mut s = connected(era, config.clone(), json!({"tools": {"listChanged": true}}));
        let request =
            s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
        let id = s.expect("tools/list");
        s.client.at(s.now).cancel(request, None);
        let mut written = vec![s.line()];
        assert_eq!(written[0]["params"]["requestId"], id);
        if era == Era::Legacy {
            s.client.at(s.now).notify::<RootsListChanged>(&Default::default()).unwrap();
            written.push(s.line());
        }
        for line in written {
            assert!(line["method"].is_string() && line.get("id").is_none(), "{line}");
        }
        for (method, params) in [
            ("notifications/tools/list_changed", json!({})),
            ("notifications/unknown", json!({"a": 1})),
            ("notifications/progress", json!({"progressToken": []})),
            ("notifications/cancelled", json!({"requestId": {}})),
            // Names of requests, without an id.
            ("ping", json!({})),
            ("sampling/createMessage", json!({})),
        ] {
            s.notify(method, params);
            s.expect_silence();
        }
    }
}

/// C1.19
#[test]
fn client_does_not_send_metadata_under_an_invalid_key() {
    let bad = |key: &str| RequestOptions::default().meta([(key, 1.into())].into_iter().collect());
    for key in ["a b", "-a", "a.", "/a", "com.example//a", "9x/a", "com..x/a", "ü"] {
        let mut s = ClientHarness::modern(config());
        let sent = s.client.at(s.now).request::<ListTools>(&Default::default(), bad(key));
        assert!(
            matches!(&sent, Err(RequestError::Encode(text)) if text.contains(&format!("{key:?}"))),
            "{sent:?}"
        );
        let mut params = mcp_proto::schema::ListToolsParams::new();
        params.meta = [(key, 1.into())].into_iter().collect::<Meta>();
        let sent = s.client.at(s.now).request::<ListTools>(&params, RequestOptions::default());
        assert!(matches!(sent, Err(RequestError::Encode(_))), "{key}");
        s.expect_silence();

        // A request that waits for the server to be known ends in the same way.
        let mut early = ClientHarness::open(config());
        let id = early.expect("server/discover");
        let request = early.client.at(early.now).request::<ListTools>(&Default::default(), bad(key)).unwrap();
        early.answer(&id, discover_result());
        assert!(matches!(early.outcome(request), Outcome::Refused(RequestError::Encode(_))), "{key}");
        early.expect_silence();
    }
    let mut s = ClientHarness::modern(config());
    for key in ["a", "com.example/a", "com.example/a.b_c-d9", "com.ex-ample/", "x/1"] {
        s.client.at(s.now).request::<ListTools>(&Default::default(), bad(key)).unwrap();
        assert_eq!(s.line()["params"]["_meta"][key], 1);
    }
}

/// C1.19, C1.14: what the protocol says under its own keys is not the application's to say.
#[test]
fn application_cannot_replace_the_metadata_of_the_protocol() {
    let keys = ["protocolVersion", "clientCapabilities", "clientInfo", "logLevel"]
        .map(|name| format!("io.modelcontextprotocol/{name}"));
    let own: Meta = keys.iter().map(|key| (key.as_str(), "own".into())).collect();
    let mut by_params = mcp_proto::schema::ListToolsParams::new();
    by_params.meta = own.clone();
    let by_options = RequestOptions::default().meta(own);
    for (params, options) in [(by_params, RequestOptions::default()), (Default::default(), by_options)] {
        let mut s = ClientHarness::legacy(config());
        s.client.at(s.now).request::<ListTools>(&params, options.clone()).unwrap();
        let line = s.line();
        assert_eq!(line["params"].get("_meta"), None, "{line}");
        let mut s = ClientHarness::modern(config());
        s.client.at(s.now).request::<ListTools>(&params, options).unwrap();
        let line = s.line();
        let meta = &line["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{line}");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object(), "{line}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test-client", "{line}");
        assert_eq!(meta.get("io.modelcontextprotocol/logLevel"), None, "{line}");
    }
}

/// C2.15
#[test]
fn client_does_not_cancel_an_initialize_that_times_out() {
    let mut legacy = config();
    legacy.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(legacy);
    s.expect("initialize");
    let queued =
        s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
    s.advance(Duration::from_secs(600));
    s.expect_silence();
    assert!(matches!(
        s.outcome(queued),
        Outcome::Refused(RequestError::Connect(_)) | Outcome::TimedOut { .. }
    ));
    let error = s.connect_error();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
    assert_eq!(s.client.poll_link(), Some(LinkAction::Abort));
}

/// C2.15
#[test]
fn closing_client_does_not_cancel_its_initialize() {
    let mut legacy = config();
    legacy.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(legacy);
    s.expect("initialize");
    s.client.at(s.now).close();
    s.expect_silence();
    assert_eq!(s.client.poll_link(), Some(LinkAction::Abort));
    s.advance(Duration::from_secs(600));
    s.expect_silence();
}

/// C7.11, K2
#[test]
fn keepalive_follows_the_configuration_and_reports_each_missed_ping() {
    let mut config = config();
    config.keepalive = Some(Keepalive {
        interval: Duration::from_secs(7),
        timeout: Duration::from_secs(2),
        misses: 2,
        ..Keepalive::PRESET
    });
    let mut s = ClientHarness::legacy(config);
    s.advance(Duration::from_millis(6_999));
    s.expect_silence();
    s.advance(Duration::from_millis(1));
    s.expect("ping");
    s.advance(Duration::from_secs(2));
    let missed = |s: &mut ClientHarness| {
        let events = s.take_events();
        events.into_iter().find_map(|event| match event {
            Event::Diagnostic(Diagnostic::PingMissed { misses }) => Some(misses),
            _ => None,
        })
    };
    assert_eq!(missed(&mut s), Some(1));
    // An answer resets the count.
    s.advance(Duration::from_secs(7));
    let id = s.expect("ping");
    s.answer(&id, json!({}));
    assert_eq!((missed(&mut s), s.client.state()), (None, State::Ready));
    for misses in [1, 2] {
        s.advance(Duration::from_secs(9));
        s.expect("ping");
        s.advance(Duration::from_secs(2));
        assert_eq!(missed(&mut s), Some(misses));
    }
    assert_eq!(s.client.state(), State::Disconnected);
}

/// C7.11, F70, K2: without a keepalive there are no pings.
#[test]
fn client_sends_no_pings_by_default() {
    let mut s = ClientHarness::legacy(config());
    s.advance(Duration::from_secs(3600));
    s.expect_silence();
}
