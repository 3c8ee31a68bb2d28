use mcp_proto::host::config::{Config, ServerEntry};
use proptest::prelude::*;

use super::{entry, project, user};

fn config(text: &str) -> Config {
    Config::merge([user("/u.json", text)])
}

#[test]
fn spelling_of_a_file_changes_nothing() {
    let before = config(
        r#"{ "mcpServers": {
            "a": { "command": "a", "args": ["x"], "env": { "A": "1", "B": "${B}" }, "excludeTools": ["p", "q"] },
            "b": { "url": "https://b.example/", "startup_timeout_ms": 5000 }
        } }"#,
    );
    let after = config(
        r#"{ // reordered
            "servers": {
                "b": { "startup_timeout_sec": 5.0, "type": "http", "url": "https://B.example:443", "enabled": true, },
                "a": { "disabled_tools": ["q", "p", "p"], "env": { "B": "${env:B}", "A": 1 }, "args": ["x"],
                       "command": "a", "description": "new", "required": false },
            } }"#,
    );
    let changes = before.changes_to(&after);
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(changes.unchanged.len(), 2);
}

#[test]
fn change_of_use_needs_no_reconnection() {
    let before = config(r#"{ "mcpServers": { "a": { "command": "a" } } }"#);
    for (text, needs_reconnect) in [
        (r#"{ "command": "a", "excludeTools": ["x"] }"#, false),
        (r#"{ "command": "a", "timeout": 1 }"#, false),
        (r#"{ "command": "a", "disabled": true }"#, false),
        (r#"{ "command": "b" }"#, true),
        (r#"{ "command": "a", "args": [""] }"#, true),
        (r#"{ "url": "https://a.example" }"#, true),
    ] {
        let after = config(&format!(r#"{{ "mcpServers": {{ "a": {text} }} }}"#));
        let changes = before.changes_to(&after);
        assert_eq!(changes.changed[0].needs_reconnect, needs_reconnect, "{text}");
        assert!(changes.added.is_empty() && changes.removed.is_empty() && changes.unchanged.is_empty());
    }
}

/// Names with a common beginning are different servers.
#[test]
fn removal_is_by_id() {
    let before = config(r#"{ "mcpServers": { "git": { "command": "a" }, "git_hub": { "command": "b" } } }"#);
    let after = config(r#"{ "mcpServers": { "git_hub": { "command": "b" } } }"#);
    let changes = before.changes_to(&after);
    assert_eq!(changes.removed, [before.find("git").unwrap().id()]);
    assert_eq!(changes.unchanged, [before.find("git_hub").unwrap().id()]);
}

#[test]
fn change_of_project_keeps_the_users_servers() {
    let of_user = || user("/u.json", r#"{ "mcpServers": { "mine": { "command": "mine" } } }"#);
    let of_project = r#"{ "mcpServers": { "theirs": { "command": "theirs" } } }"#;
    let before = Config::merge([of_user(), project("/work/a/.mcp.json", of_project)]);
    let after = Config::merge([of_user(), project("/work/b/.mcp.json", of_project)]);
    let changes = before.changes_to(&after);
    assert_eq!(changes.unchanged, [before.find("mine").unwrap().id()]);
    // The other project's server is another server, which needs an approval of its own.
    assert_eq!(changes.removed, [before.find("theirs").unwrap().id()]);
    assert_eq!(changes.added[0].id(), after.find("theirs").unwrap().id());
}

#[test]
fn every_change_of_a_member_changes_the_meaning() {
    let program = [
        r#"{ "command": "a" }"#,
        r#"{ "command": "ab" }"#,
        r#"{ "command": "a", "args": ["b", "c"] }"#,
        r#"{ "command": "a", "args": ["bc"] }"#,
        r#"{ "command": "a", "args": ["b", "c", ""] }"#,
        r#"{ "command": "a", "args": ["${b}"] }"#,
        r#"{ "command": "a", "args": ["${b:-}"] }"#,
        r#"{ "command": "a", "args": ["${b:-c}"] }"#,
        r#"{ "command": "a", "args": ["$b"] }"#,
        r#"{ "command": "a", "args": ["${workspaceFolder}"] }"#,
        r#"{ "command": "a", "env": { "b": "c" } }"#,
        r#"{ "command": "a", "env": { "b": "d" } }"#,
        r#"{ "command": "a", "env": { "c": "b" } }"#,
        r#"{ "command": "a", "env_vars": ["b"] }"#,
        r#"{ "command": "a", "envFile": "b" }"#,
        r#"{ "command": "a", "cwd": "b" }"#,
        r#"{ "command": "a", "enabled": false }"#,
        r#"{ "command": "a", "required": true }"#,
        r#"{ "command": "a", "lazy": true }"#,
        r#"{ "command": "a", "trust": true }"#,
        r#"{ "command": "a", "includeTools": [] }"#,
        r#"{ "command": "a", "includeTools": ["b"] }"#,
        r#"{ "command": "a", "excludeTools": ["b"] }"#,
        r#"{ "command": "a", "startup_timeout_sec": 1 }"#,
        r#"{ "command": "a", "tool_timeout_sec": 1 }"#,
        r#"{ "command": "a", "tool_timeout_sec": 0 }"#,
        r#"{ "command": "a", "includePrompts": [] }"#,
        r#"{ "command": "a", "excludePrompts": ["b"] }"#,
        r#"{ "command": "a", "includeResources": ["b"] }"#,
        r#"{ "command": "a", "excludeResources": ["b"] }"#,
        r#"{ "command": "a", "keepAliveMs": 0 }"#,
        r#"{ "command": "a", "keepAliveMs": 1 }"#,
        r#"{ "command": "a", "maxReconnectAttempts": 1 }"#,
        r#"{ "url": "https://a.example" }"#,
        r#"{ "url": "http://a.example" }"#,
        r#"{ "url": "https://a.example/b" }"#,
        r#"{ "url": "https://a.example/B" }"#,
        r#"{ "url": "https://a.example?b" }"#,
        r#"{ "url": "https://u@a.example" }"#,
        r#"{ "type": "sse", "url": "https://a.example" }"#,
        r#"{ "url": "https://a.example", "headers": { "b": "c" } }"#,
        r#"{ "url": "https://a.example", "chunkedResults": true }"#,
        r#"{ "url": "https://a.example", "oauth": {} }"#,
        r#"{ "url": "https://a.example", "oauth": { "client_id": "b" } }"#,
        r#"{ "url": "https://a.example", "oauth": { "client_secret": "b" } }"#,
        r#"{ "url": "https://a.example", "oauth": { "scope": "b" } }"#,
        r#"{ "url": "https://a.example", "oauth": { "resource": "b" } }"#,
        r#"{ "url": "https://a.example", "oauth": { "callbackPort": 1 } }"#,
        r#"{ "url": "https://a.example", "oauth": { "allowedHosts": [] } }"#,
        r#"{ "url": "https://a.example", "oauth": { "allowedHosts": ["b"] } }"#,
        r#"{ "url": "https://a.example", "oauth": { "issuer": "https://a.example" } }"#,
    ];
    let entries: Vec<ServerEntry> = program.into_iter().map(entry).collect();
    for (index, first) in entries.iter().enumerate() {
        for (other, second) in entries.iter().enumerate().skip(index + 1) {
            assert_ne!(first.meaning(), second.meaning(), "{} {}", program[index], program[other]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Applying the difference to the old configuration gives the new one.
    #[test]
    fn difference_is_complete(
        before in prop::collection::btree_map("[a-e]", 0..3, 0..5),
        after in prop::collection::btree_map("[a-e]", 0..3, 0..5),
    ) {
        let read = |servers: &std::collections::BTreeMap<String, i32>| {
            let entries: Vec<_> =
                servers.iter().map(|(name, n)| format!(r#""{name}": {{ "command": "{name}{n}" }}"#)).collect();
            config(&format!(r#"{{ "mcpServers": {{ {} }} }}"#, entries.join(",")))
        };
        let (old, new) = (read(&before), read(&after));
        let changes = old.changes_to(&new);
        let mut ids: Vec<_> = changes.unchanged.clone();
        ids.extend(changes.added.iter().map(|server| server.id()));
        ids.extend(changes.changed.iter().map(|change| change.server.id()));
        ids.sort_unstable();
        let mut expected: Vec<_> = new.servers().iter().map(|server| server.id()).collect();
        expected.sort_unstable();
        prop_assert_eq!(ids, expected);
        prop_assert_eq!(changes.removed.len(), before.keys().filter(|name| !after.contains_key(*name)).count());
        for id in &changes.unchanged {
            prop_assert_eq!(old.get(*id).unwrap().meaning(), new.get(*id).unwrap().meaning());
        }
    }
}
