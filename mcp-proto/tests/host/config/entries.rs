use core::time::Duration;

use mcp_proto::host::config::{
    ConfigErrorKind, ConfigFile, DiagnosticKind, HttpTransport, INPUT_BYTES, MAX_INPUTS, MAX_SERVERS,
    PROJECT_FILE_BYTES, Source,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{entry, error, http, project, stdio, user};

/// F84
#[test]
fn wrong_entries_do_not_hide_the_others() {
    let file = user(
        "f.json",
        r#"{ "mcpServers": {
            "number": 1, "null": null, "empty": {}, "": { "command": "x" }, "good": { "command": "good" },
            "args": { "command": "x", "args": "y" }, "twice": { "command": "x", "command": "y" },
            "good": { "command": "other" }, "url": { "url": "not a url" }, "also": { "url": "http://localhost:1/" }
        } }"#,
    );
    let names: Vec<_> = file.servers.iter().map(|server| server.name()).collect();
    assert_eq!(names, ["good", "also"]);
    assert_eq!(stdio(&file.servers[0]).command.text(), "good");
    let errors: Vec<_> = file.errors.iter().map(|error| error.server.as_deref().unwrap()).collect();
    assert_eq!(errors, ["number", "null", "empty", "", "args", "twice", "good", "url"]);
}

#[test]
fn type_is_inferred_and_accepted_in_every_spelling() {
    assert_eq!(stdio(&entry(r#"{ "type": "stdio", "command": "x" }"#)).command.text(), "x");
    for name in ["http", "streamable-http", "streamableHttp", "streamable_http", "HTTP"] {
        let entry = entry(&format!(r#"{{ "type": "{name}", "url": "https://a.example" }}"#));
        assert_eq!(http(&entry).transport, HttpTransport::Http);
    }
    let sse = entry(r#"{ "transport": "sse", "url": "https://a.example" }"#);
    assert_eq!(http(&sse).transport, HttpTransport::Sse);
    for json in [
        r#"{ "type": "websocket", "url": "wss://a.example" }"#,
        r#"{ "type": "WS", "url": "ws://${HOST}/mcp" }"#,
        r#"{ "url": "wss://a.example/${ROOM}" }"#,
    ] {
        assert_eq!(http(&entry(json)).transport, HttpTransport::WebSocket, "{json}");
    }
    // The type decides where the members do not.
    assert!(entry(r#"{ "type": "http", "command": "x", "url": "https://a.example" }"#).spec().enabled);
}

/// F56, F67, F69, F72, F111
#[test]
fn members_that_say_how_a_server_is_reached_and_used_are_read() {
    let file = user(
        "/servers.json",
        r#"{ "mcpServers": { "one": {
            "url": "https://a.example", "chunkedResults": true, "requestTimeoutMs": 1500, "keepAliveMs": 0,
            "maxReconnectAttempts": 3, "includePrompts": ["a"], "excludePrompts": ["b"], "includeResources": [],
            "excludeResources": ["file:///*"], "oauth": { "allowedHosts": ["login.example", "[::1]"] }
        } } }"#,
    );
    assert_eq!((file.errors.as_slice(), file.diagnostics.as_slice()), (&[][..], &[][..]));
    let spec = file.servers[0].spec();
    assert!(http(&file.servers[0]).chunked_results);
    assert_eq!(spec.call_timeout, Some(Duration::from_millis(1500)));
    assert_eq!((spec.keepalive, spec.reconnect_attempts), (Some(Duration::ZERO), Some(3)));
    assert_eq!(
        (spec.prompts.allow.as_deref(), &*spec.prompts.deny),
        (Some(&["a".into()][..]), &["b".into()][..])
    );
    assert_eq!((spec.resources.allow.as_deref(), spec.resources.deny.len()), (Some(&[][..]), 1));
    let hosts = http(&file.servers[0]).oauth.as_ref().unwrap().allowed_hosts.as_ref().unwrap();
    assert_eq!(hosts.len(), 2);
}

#[test]
fn error_says_which_member_and_what_to_do() {
    for (json, expected) in [
        (
            r#"{ "command": "x", "url": "https://a.example" }"#,
            r#""command" and "url" contradict each other: remove one"#,
        ),
        (
            r#"{ "type": "carrier pigeon", "url": "https://a.example" }"#,
            r#"connections of the type "carrier pigeon" are not supported: use stdio, stdio-v2, http, sse or websocket"#,
        ),
        (
            r#"{ "type": "websocket", "url": "https://a.example" }"#,
            r#""url": a URL begins with ws: or wss: if the type is websocket, and only then"#,
        ),
        (
            r#"{ "type": "sse", "url": "wss://a.example" }"#,
            r#""url": a URL begins with ws: or wss: if the type is websocket, and only then"#,
        ),
        (r#"{ "type": "stdio", "url": "https://a.example" }"#, r#"the entry has no "command": add it"#),
        (r#"{ "type": "http", "command": "x" }"#, r#"the entry has no "url": add it"#),
        (r#"{ "command": "  " }"#, r#"the entry has no "command" or "url": add it"#),
        (r#"{ "command": "x", "args": ["a", ["b"]] }"#, r#""args[1]" must be a text"#),
        (r#"{ "command": "x", "env": { "A": {} } }"#, r#""env.A" must be a text"#),
        (
            r#"{ "command": "x", "env": { "A=B": "" } }"#,
            r#""env.A=B": this is not the name of an environment variable"#,
        ),
        (
            r#"{ "command": "x", "timeout": -1 }"#,
            r#""timeout" must be a number of milliseconds, 0 for no limit"#,
        ),
        (r#"{ "command": "x", "enabled": "yes" }"#, r#""enabled" must be true or false"#),
        (
            r#"{ "command": "x", "maxReconnectAttempts": -1 }"#,
            r#""maxReconnectAttempts" must be a whole number"#,
        ),
        (
            r#"{ "url": "https://a.example", "oauth": { "allowedHosts": ["https://a.example"] } }"#,
            r#""allowedHosts": a host is a name or an address, without scheme and port"#,
        ),
        (
            r#"{ "command": "x", "enabled": true, "disabled": true }"#,
            r#""enabled" and "disabled" contradict each other: remove one"#,
        ),
        (r#"{ "command": "x\u0000" }"#, r#""command": a text must not have the character U+0000"#),
        (
            r#"{ "url": "https://a.example", "headers": { "A B": "" } }"#,
            r#""headers.A B": this is not the name of a header"#,
        ),
        (
            r#"{ "url": "https://a.example", "headers": { "X-A": "1", "x-a": "2" } }"#,
            r#"the entry has "headers.x-a" twice: remove one"#,
        ),
        (
            r#"{ "url": "ftp://a.example" }"#,
            r#""url": the text is not the URL of an HTTP server, with special characters percent-encoded"#,
        ),
        (
            r#"{ "command": "x", "includeTools": ["a"], "enabled_tools": [] }"#,
            r#""includeTools" and "enabled_tools" contradict each other: remove one"#,
        ),
        (
            r#"{ "command": "x", "args": ["${A:-${B}}"] }"#,
            r#""args[0]": ${A:-${..}} is not supported: use ${NAME}, ${NAME:-default}, ${env:NAME} or ${input:id}"#,
        ),
    ] {
        assert_eq!(error(json), format!(r#"f.json: server "one": {expected}"#), "{json}");
    }
}

#[test]
fn texts_of_a_file_reach_no_terminal_as_they_are() {
    let file = project(
        "/w\u{202e}/.mcp.json",
        r#"{ "mcpServers": { "\u001b[2J": { "type": "\u0007\n" }, "x\n": { "command": "x", "\u001b]0;": 1 } } }"#,
    );
    let shown = format!("{}\u{20}{}", file.errors[0], file.diagnostics[0]);
    assert!(!shown.chars().any(mcp_proto::consent::SafeText::is_unsafe), "{shown:?}");
}

#[test]
fn unknown_members_are_diagnostics() {
    let file = user(
        "f.json",
        r#"{ "mcpServers": { "a": { "command": "x", "headersHelper": "get", "headers": {}, "name": "A" } } }"#,
    );
    assert_eq!(file.errors, []);
    let ignored: Vec<_> = file.diagnostics.iter().map(|diagnostic| diagnostic.kind.clone()).collect();
    assert_eq!(
        ignored,
        [
            DiagnosticKind::IgnoredMember("headers".into()),
            DiagnosticKind::IgnoredMember("headersHelper".into())
        ]
    );
}

#[test]
fn file_is_bounded_in_bytes_entries_and_diagnostics() {
    let large = " ".repeat(PROJECT_FILE_BYTES + 1);
    assert!(matches!(project("/p.json", &large).errors[0].kind, ConfigErrorKind::FileTooLarge(_)));
    assert!(matches!(user("/p.json", &large).errors[0].kind, ConfigErrorKind::Syntax { .. }));

    let entries: String = (0..MAX_SERVERS + 9).map(|n| format!(r#""{n}": {{ "command": "x" }},"#)).collect();
    let many = user("/p.json", &format!(r#"{{ "mcpServers": {{ {entries} }} }}"#));
    assert_eq!(many.servers.len(), MAX_SERVERS);
    assert_eq!(many.errors[0].kind, ConfigErrorKind::TooManyServers);

    let wrong = r#""":1,"#.repeat(MAX_SERVERS * 2);
    assert_eq!(user("/p.json", &format!(r#"{{ "servers": {{ {wrong} }} }}"#)).errors.len(), MAX_SERVERS + 1);

    let members: String = (0..MAX_SERVERS * 2).map(|n| format!(r#""{n}": 1,"#)).collect();
    let file = user("/p.json", &format!(r#"{{ "servers": {{ "a": {{ "command": "a", {members} }} }} }}"#));
    assert_eq!((file.servers.len(), file.diagnostics.len()), (1, MAX_SERVERS));
}

#[test]
fn inputs_are_bounded_in_number_and_bytes() {
    let servers = |input: usize| format!(r#""servers": {{ "a": {{ "command": "${{input:{input}}}" }} }}"#);
    let declare = |count: usize, text: &str| -> String {
        let inputs = (0..count).map(|n| format!(r#"{{ "id": "{n}", "description": "{text}" }},"#));
        format!(r#""inputs": [{}]"#, inputs.collect::<String>())
    };
    let read = |inputs: &str, input| user("/p.json", &format!("{{ {inputs}, {} }}", servers(input)));
    let file = read(&declare(MAX_INPUTS + 1, "x"), MAX_INPUTS - 1);
    assert_eq!((file.servers.len(), file.diagnostics.len()), (1, 1));
    let file = read(&declare(MAX_INPUTS + 1, "x"), MAX_INPUTS);
    assert_eq!(file.errors[0].kind, ConfigErrorKind::UndeclaredInput(MAX_INPUTS.to_string()));
    assert_eq!(read(&declare(1, &"x".repeat(INPUT_BYTES - 1)), 0).errors, []);
    assert_eq!(read(&declare(1, &"x".repeat(INPUT_BYTES)), 0).diagnostics.len(), 1);
}

#[test]
fn deep_nesting_is_an_error() {
    for (path, deep) in
        [("/a.json", "[".repeat(100_000)), ("/a.toml", format!("a = {}", "[".repeat(100_000)))]
    {
        assert!(matches!(user(path, &deep).errors[0].kind, ConfigErrorKind::Syntax { .. }));
    }
    let deep = format!(r#"{{ "x": {}1{} }}"#, "[".repeat(100), "]".repeat(100));
    assert_eq!(user("/a.json", &deep).errors, []);
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "x",
            "stdio",
            "http",
            "https://a.example/${X}",
            "${input:a}",
            "${command:a}"
        ])
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let member = prop::sample::select(vec![
        "type",
        "command",
        "args",
        "env",
        "url",
        "headers",
        "timeout",
        "enabled",
        "oauth",
        "scopes",
        "trust",
        "path",
        "env_vars",
        "env_http_headers",
        "bearer_token_env_var",
        "includeTools",
        "disabled",
        "envFile",
        "cwd",
    ]);
    leaf.prop_recursive(3, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((member.clone().prop_map(String::from), inner), 0..8)
                .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn entry_is_read_or_an_error_whatever_stands_beside_it(before in arbitrary_json(), after in arbitrary_json()) {
        let text = json!({ "mcpServers": { "a": before, "b": { "command": "b" }, "c": after } }).to_string();
        for path in ["/servers.json", "/.gemini/settings.json", "/zed/settings.json", "/.vscode/mcp.json"] {
            let file = project(path, &text);
            prop_assert!(file.servers.iter().any(|server| server.name() == "b"));
            prop_assert_eq!(file.servers.len() + file.errors.len(), 3);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for path in ["/servers.json", "/.codex/config.toml"] {
            let file = ConfigFile::parse(Source::user(path), &bytes);
            prop_assert!(file.servers.is_empty());
        }
    }

    #[test]
    fn arbitrary_toml_is_read_or_an_error(text in "(\\[mcp_servers\\.[a-c]\\]\n|command = |\"[a-z]*\"|url = |\n|[a-z]+ = |[0-9]+|\\{|\\}|\\[|\\]|,){0,20}") {
        let file = user("/.codex/config.toml", &text);
        for error in file.errors {
            prop_assert!(!error.to_string().chars().any(mcp_proto::consent::SafeText::is_unsafe));
        }
    }
}
