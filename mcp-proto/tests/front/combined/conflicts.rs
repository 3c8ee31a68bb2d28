//! What cannot be combined.

use super::*;

fn duplicate(kind: &'static str, name: &str) -> RouterError {
    RouterError::Duplicate { kind, name: name.into() }
}

/// A router that offers a little of everything.
fn full() -> Router {
    notes()
        .custom("com.example/print", async |_, _| mcp_proto::schema::EmptyResult::new())
        .on_notification("com.example/low", async |_: CustomParams, _: NotificationContext| {})
        .experimental("charts", json!({"svg": true}))
        .extension("com.example/a", json!({"a": 1}))
}

#[test]
fn router_refuses_what_both_parts_register() {
    let router = || Router::new("other", "1");
    let cases: Vec<(Router, RouterError)> = vec![
        (router().tool_with(tool("clear"), async |NoArguments {}, _| ""), duplicate("tool", "clear")),
        (router().prompt(Prompt::new("review"), async |NoArguments {}, _| ""), duplicate("prompt", "review")),
        (
            router().resource(Resource::new("note:///today", "t"), async |_, _| ""),
            duplicate("resource", "note:///today"),
        ),
        (
            router().template(ResourceTemplate::new("note:///by-id/{id}", "n"), async |Note { id }, _| id),
            duplicate("resource template", "note:///by-id/{id}"),
        ),
        (
            router().custom("com.example/print", async |_, _| mcp_proto::schema::EmptyResult::new()),
            duplicate("handler of the method", "com.example/print"),
        ),
        (
            router().on_notification("com.example/low", async |_: CustomParams, _: NotificationContext| {}),
            duplicate("handler of the notification", "com.example/low"),
        ),
        (router().experimental("charts", json!({})), duplicate("experimental capability", "charts")),
        (router().extension("com.example/a", json!({})), duplicate("extension", "com.example/a")),
        (
            router().with_extension(Extension::new("com.example/a").unwrap()),
            duplicate("extension", "com.example/a"),
        ),
    ];
    for (other, error) in cases {
        let other = other
            .instructions("Nothing of it is added.")
            .tool_with(tool("other"), async |NoArguments {}, _| "");
        let before = format!("{:?} {:?}", full(), full().capabilities());
        let merged = full().merge(other);
        assert_eq!(merged.check(), Err(error.clone()));
        assert!(!error.to_string().is_empty());
        // Nothing is half merged.
        assert_eq!(format!("{:?} {:?}", merged, merged.capabilities()), before, "{error:?}");
        assert_eq!(merged.config().instructions.as_deref(), Some("Call clear with care."));
    }
}

#[test]
fn router_refuses_two_fallbacks() {
    let proxy = || Router::new("proxy", "1").fallback(async |_, _| mcp_proto::schema::CustomResult::new());
    assert_eq!(proxy().merge(proxy()).check(), Err(duplicate("handler", "fallback")));
    assert_eq!(desk().mount("proxy", proxy()).check(), Ok(()));
    let listening = || Router::new("a", "1").notification_fallback(async |_, _: NotificationContext| {});
    assert_eq!(listening().merge(listening()).check(), Err(duplicate("handler", "notification_fallback")));
}

#[test]
fn equal_settings_are_no_conflict() {
    let one = || {
        Router::new("a", "1").experimental("charts", json!({"a": 1})).extension("com.example/a", json!({}))
    };
    assert_eq!(one().merge(one()).mount("p", one()).check(), Ok(()));
}

/// S8.4
#[test]
fn router_refuses_prefixes_that_names_or_schemes_cannot_have() {
    for prefix in ["", "Notes", "my_notes", "1a", "a.b", "a/b", "ä", "-a", "a b"] {
        let error = RouterError::Prefix { prefix: prefix.into() };
        assert_eq!(desk().mount(prefix, notes()).check(), Err(error));
    }
    for prefix in ["a", "my-notes", "v2"] {
        assert_eq!(desk().mount(prefix, notes()).check(), Ok(()));
    }
    let long = "a".repeat(122);
    assert_eq!(desk().mount(long.as_str(), notes()).check(), Ok(()));
    let name = format!("{long}a_clear");
    assert_eq!(desk().mount(format!("{long}a"), notes()).check(), Err(RouterError::ToolName { name }));
}

#[test]
fn errors_of_a_part_are_errors_of_the_whole() {
    let invalid = notes().tool_with(tool("not a name"), async |NoArguments {}, _| "");
    let error = RouterError::ToolName { name: "not a name".into() };
    assert_eq!(desk().merge(invalid.clone()).check(), Err(error.clone()));
    assert_eq!(desk().mount("notes", invalid).check(), Err(error));
}

#[test]
fn router_mounts_no_lists_of_hand_written_handlers() {
    let by_hand = || {
        Router::new("changing", "1")
            .handler::<ListTools, _, _>(async |_, _| {
                mcp_proto::schema::CachedPage::new(Duration::ZERO, ListToolsResult::new(vec![tool("x")]))
            })
            .handler::<CallTool, _, _>(async |call: CallToolParams, _| CallToolResult::text(call.name))
            .tool_rate(RateLimit::per_second(1).burst(1))
            .tool_timeout("x", Duration::from_secs(1))
    };
    let error = RouterError::Mount { prefix: "c".into(), method: "tools/list" };
    assert_eq!(desk().mount("c", by_hand()).check(), Err(error));
    let mut s = ServerHarness::modern(Router::new("desk", "1").merge(by_hand()));
    assert_eq!(members(&s.result("tools/list", json!({})), "tools", "name"), ["x"]);
    assert_eq!([text(&mut s, "x"), text(&mut s, "x")], ["x", "too many calls: try again in 1 s"]);
    let shadowed = desk().merge(by_hand()).check();
    assert!(matches!(shadowed, Err(RouterError::Shadowed { kind: "tool", .. })), "{shadowed:?}");
}

#[test]
fn router_refuses_the_layers_of_its_parts() {
    struct Through;

    impl mcp_proto::front::layer::Layer for Through {}

    assert_eq!(desk().merge(notes().layer(Through)).check(), Err(RouterError::Layered));
    assert_eq!(desk().mount("notes", notes()).layer(Through).check(), Ok(()));
}
