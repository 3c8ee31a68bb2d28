use core::time::Duration;

use mcp_proto::host::config::{
    Application, Config, ConfigErrorKind, ConfigFile, DiagnosticKind, HttpTransport, Source,
};

use super::{http, named, project, stdio, texts, user};

/// F39
#[test]
fn claude_code_project_file_is_read() {
    let file = project(
        "/work/app/.mcp.json",
        r#"{
            "mcpServers": {
                "github": {
                    "type": "http",
                    "url": "https://api.example/${ORG:-mcp}",
                    "headers": { "Authorization": "Bearer ${GITHUB_TOKEN}" },
                    "timeout": 600000
                },
                "db": { "command": "npx", "args": ["-y", "db"], "env": { "PORT": 5432, "DEBUG": true } }
            }
        }"#,
    );
    assert_eq!((file.errors.len(), file.diagnostics.len()), (0, 0));
    assert_eq!(file.source.application, Application::ClaudeCode);
    let github = named(&file, "github");
    assert_eq!(http(github).headers["authorization"].text(), "Bearer ${GITHUB_TOKEN}");
    // The timeout is that of tool calls: starts have a variable of their own.
    assert_eq!(github.spec().call_timeout, Some(Duration::from_secs(600)));
    assert_eq!(github.spec().start_timeout, None);
    let db = stdio(named(&file, "db"));
    assert_eq!((db.command.text(), texts(&db.args)), ("npx".into(), vec!["-y".into(), "db".into()]));
    assert_eq!((db.env["PORT"].text(), db.env["DEBUG"].text()), ("5432".into(), "true".into()));
}

#[test]
fn vs_code_file_is_read_with_its_inputs() {
    let file = project(
        "/work/app/.vscode/mcp.json",
        r#"{
            "inputs": [
                { "type": "promptString", "id": "key", "description": "API key", "password": true },
                { "type": "pickString", "id": "zone", "options": ["a", { "label": "B", "value": "b" }], "default": "a" },
                { "type": "command", "id": "token", "command": "shell.run" },
            ],
            "servers": {
                "search": {
                    "type": "stdio",
                    "command": "${workspaceFolder}/bin/search",
                    "args": ["--zone", "${input:zone}", "${HOME}"],
                    "env": { "KEY": "${input:key}", "USER": "${env:USER}" },
                    "envFile": "${workspaceFolder}/.env", // a comment
                    "dev": { "watch": "**" },
                },
                "remote": { "type": "sse", "url": "https://remote.example/sse" },
                "secret": { "command": "x", "args": ["${input:token}"] },
                "runs": { "command": "${command:pickProgram}" },
            },
        }"#,
    );
    let search = named(&file, "search");
    let ids: Vec<_> =
        search.spec().inputs.iter().map(|input| (input.id.as_str(), input.is_password)).collect();
    assert_eq!(ids, [("key", true), ("zone", false)]);
    assert_eq!(search.spec().inputs[1].options, ["a", "b"]);
    // The output of a command is no input that the user types.
    assert_eq!(file.diagnostics[0].kind, DiagnosticKind::IgnoredInput);
    // A name alone is no reference in this application.
    assert!(stdio(search).args[2].is_literal());
    assert_eq!(http(named(&file, "remote")).transport, HttpTransport::Sse);
    let errors: Vec<_> = file.errors.iter().map(|error| error.kind.clone()).collect();
    assert_eq!(
        errors,
        [
            ConfigErrorKind::UndeclaredInput("token".into()),
            ConfigErrorKind::UnsupportedReference {
                member: "command".into(),
                reference: "${command:pickProgram}".into()
            },
        ]
    );
}

#[test]
fn vs_code_settings_have_their_servers_in_a_table_of_their_own() {
    let file = user(
        "/home/ann/.config/Code/User/settings.json",
        r#"{ "editor.fontSize": 12, "mcp": { "servers": { "a": { "command": "a" } }, "other": 1 } }"#,
    );
    assert_eq!(file.servers[0].name(), "a");
    assert_eq!(file.diagnostics, []);
}

#[test]
fn windsurf_file_is_read() {
    let file = user(
        "/home/ann/.codeium/windsurf/mcp_config.json",
        r#"{ "mcpServers": {
            "remote": { "serverUrl": "https://remote.example/mcp", "headers": { "X-Key": "${env:KEY}" } },
            "local": { "command": "local", "disabled": true, "disabledTools": ["drop"] }
        } }"#,
    );
    assert_eq!(http(named(&file, "remote")).url.text(), "https://remote.example/mcp");
    let local = named(&file, "local").spec();
    assert!(!local.enabled);
    assert_eq!(local.tools.deny, ["drop"]);
}

#[test]
fn gemini_file_is_read() {
    let file = user(
        "/home/ann/.gemini/settings.json",
        r#"{
            "selectedAuthType": "key",
            "mcp": { "allowed": ["python"] },
            "mcpServers": {
                "python": {
                    "command": "python", "args": ["-m", "server"], "cwd": "./servers", "timeout": 5000, "trust": true,
                    "env": { "KEY": "$MY_KEY", "PRICE": "5$" },
                    "includeTools": ["safe"], "excludeTools": ["unsafe"]
                },
                "remote": { "httpUrl": "https://remote.example/mcp", "oauth": { "enabled": true, "scopes": ["read"] } }
            }
        }"#,
    );
    assert_eq!(file.errors, []);
    let python = named(&file, "python");
    assert!(python.spec().trusted);
    assert_eq!(python.spec().start_timeout, Some(Duration::from_secs(5)));
    assert_eq!(python.spec().call_timeout, Some(Duration::from_secs(5)));
    assert_eq!(python.spec().tools.allow.as_deref(), Some(&["safe".to_owned()][..]));
    assert_eq!(python.spec().tools.deny, ["unsafe"]);
    assert!(!stdio(python).env["KEY"].is_literal());
    assert!(stdio(python).env["PRICE"].is_literal());
    let remote = named(&file, "remote");
    assert_eq!(http(remote).oauth.as_ref().unwrap().scopes, ["read"]);
    assert!(python.spec().enabled && !remote.spec().enabled, "only python is allowed");
}

#[test]
fn gemini_file_names_the_servers_that_are_used() {
    let enabled = |lists: &str| {
        let servers = r#"{ "a": { "command": "a" }, "b": { "command": "b" }, "c": { "command": "c", "disabled": true } }"#;
        let text = format!(r#"{{ "mcpServers": {servers}, "mcp": {lists} }}"#);
        let file = user("/home/ann/.gemini/settings.json", &text);
        let enabled = file.servers.iter().filter(|server| server.spec().enabled);
        let names: Vec<String> = enabled.map(|server| server.name().to_owned()).collect();
        (names.concat(), file.errors.iter().map(ToString::to_string).collect::<String>())
    };
    for (lists, names) in [
        ("{}", "ab"),
        (r#"{ "allowed": ["a", "c"] }"#, "a"),
        (r#"{ "excluded": ["a"] }"#, "b"),
        (r#"{ "allowed": ["a", "b"], "excluded": ["b", "d"] }"#, "a"),
        (r#"{ "allowed": [] }"#, ""),
    ] {
        assert_eq!(enabled(lists), (names.to_owned(), String::new()), "{lists}");
    }
    // A wrong list could be the one that matters.
    for (lists, member) in
        [(r#"{ "excluded": "a" }"#, "mcp.excluded"), (r#"{ "allowed": [1] }"#, "mcp.allowed")]
    {
        let (names, errors) = enabled(lists);
        assert!(names.is_empty() && errors.contains(member), "{names} {errors}");
    }
}

#[test]
fn claude_file_has_servers_for_single_projects() {
    let text = r#"{
        "mcpServers": { "both": { "command": "user" }, "user": { "command": "user" } },
        "projects": {
            "/work/other": { "mcpServers": { "other": { "command": "other" } } },
            "/work/app": {
                "history": [{ "display": "hello" }],
                "mcpServers": { "both": { "command": "app" }, "broken": {} } // a comment
            },
            "C:\\work\\app": { "mcpServers": { "windows": { "command": "x" } } },
            "/work/empty": {}
        }
    }"#;
    let source = Source::user("/home/ann/.claude.json");
    let read = |folder: &str| ConfigFile::parse_of_project(source.clone(), text.as_bytes(), folder);
    let names = |file: &ConfigFile| -> Vec<String> {
        file.servers.iter().map(|server| server.name().to_owned()).collect()
    };
    let app = read("/work/app/");
    assert_eq!(names(&app), ["both"]);
    assert_eq!(app.errors[0].server.as_deref(), Some("broken"));
    assert_eq!(names(&read(r"C:\work\app")), ["windows"]);
    for folder in ["/work/empty", "/work", "/work/app/src", ""] {
        let file = read(folder);
        assert!(file.servers.is_empty() && file.errors.is_empty() && file.diagnostics.is_empty(), "{folder}");
    }
    let config = Config::merge([app, ConfigFile::parse(source.clone(), text.as_bytes())]);
    assert_eq!(stdio(config.find("both").unwrap()).command.text(), "app");
    assert!(config.find("user").is_some() && config.find("other").is_none());
    let broken = ConfigFile::parse_of_project(source, b"{\n  \"projects\": [] }", "/work/app");
    assert!(broken.errors[0].to_string().contains("line 2"), "{:?}", broken.errors);
}

#[test]
fn zed_file_is_read_with_either_form_of_the_command() {
    let file = user(
        "/home/ann/.config/zed/settings.json",
        r#"{
            // Zed settings
            "context_server_timeout": 20,
            "context_servers": {
                "old": { "source": "custom", "command": { "path": "npx", "args": ["old"], "env": { "A": "${B}" } } },
                "new": { "command": "npx", "args": ["new"], "timeout": 5 },
                "remote": { "url": "https://remote.example/mcp", "enabled": false },
                "extension": { "source": "extension", "settings": {} },
            },
        }"#,
    );
    let old = named(&file, "old");
    assert_eq!((stdio(old).command.text(), texts(&stdio(old).args)), ("npx".into(), vec!["old".into()]));
    assert!(stdio(old).env["A"].is_literal(), "Zed replaces no references");
    assert_eq!(old.spec().call_timeout, Some(Duration::from_secs(20)));
    assert_eq!(named(&file, "new").spec().call_timeout, Some(Duration::from_secs(5)));
    assert!(!named(&file, "remote").spec().enabled);
    let [extension] = &file.errors[..] else { panic!("{:?}", file.errors) };
    assert_eq!(extension.server.as_deref(), Some("extension"));
}

#[test]
fn codex_file_is_read() {
    let file = user(
        "/home/ann/.codex/config.toml",
        r#"
            model = "m"

            [mcp_servers.files]
            command = "mcp-files"
            args = ["--root", "${HOME}"]
            env_vars = ["LANG", { name = "TOKEN", source = "local" }, { name = "FAR", source = "remote" }]
            startup_timeout_sec = 10.5
            tool_timeout_sec = 0
            enabled_tools = ["read"]
            disabled_tools = ["write"]
            required = true
            [mcp_servers.files.env]
            LEVEL = "info"

            [mcp_servers.remote]
            url = "https://remote.example/mcp"
            bearer_token_env_var = "REMOTE_TOKEN"
            http_headers = { X-Region = "eu" }
            env_http_headers = { X-Key = "REMOTE_KEY" }
            scopes = ["read"]
            enabled = false

            [mcp_servers.broken]
            command = 1
        "#,
    );
    let files = named(&file, "files");
    assert!(stdio(files).args[1].is_literal(), "Codex replaces no references");
    assert_eq!(stdio(files).forwarded, ["LANG", "TOKEN"]);
    assert_eq!(files.spec().start_timeout, Some(Duration::from_millis(10_500)));
    assert_eq!(files.spec().call_timeout, Some(Duration::ZERO));
    assert!(files.spec().required);
    let remote = named(&file, "remote");
    let headers: Vec<_> =
        http(remote).headers.iter().map(|(name, value)| (name.as_str(), value.text())).collect();
    assert_eq!(
        headers,
        [
            ("authorization", "Bearer ${REMOTE_TOKEN}".into()),
            ("x-key", "${REMOTE_KEY}".into()),
            ("x-region", "eu".into())
        ]
    );
    assert!(!remote.spec().enabled);
    assert_eq!(
        file.errors[0].to_string(),
        r#"/home/ann/.codex/config.toml: server "broken": "command" must be a text"#
    );
}

/// F86
#[test]
fn application_is_recognised_by_the_path() {
    for (path, application) in [
        ("C:\\Users\\ann\\AppData\\Roaming\\Claude\\claude_desktop_config.json", Application::ClaudeDesktop),
        (".mcp.json", Application::ClaudeCode),
        ("/work/x.mcp.json", Application::Other),
        ("/work/.zed/settings.json", Application::Zed),
        ("/home/ann/settings.json", Application::Other),
    ] {
        assert_eq!(Application::from_path(path), application, "{path}");
    }
}

#[test]
fn file_that_is_no_json_is_one_error_with_its_position() {
    let file = user("/a.json", "{ // the user's\n  \"mcpServers\": {\n    \"a\": { \"command\" \"a\" }\n} }");
    assert!(file.servers.is_empty());
    let [error] = &file.errors[..] else { panic!("{:?}", file.errors) };
    assert_eq!(error.to_string(), "/a.json: line 3, column 22: expected `:`");
}

#[test]
fn file_that_is_no_toml_is_one_error_with_its_position_and_without_its_text() {
    let file = user("/config.toml", "[mcp_servers.a]\ncommand = \"x\"\nkey = s3cret\n");
    let [error] = &file.errors[..] else { panic!("{:?}", file.errors) };
    assert!(matches!(error.kind, ConfigErrorKind::Syntax { line: 3, column: 7, .. }), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[test]
fn file_with_bytes_that_are_no_text_has_their_position() {
    let file = ConfigFile::parse(Source::user("/a.json"), b"{\n  \"\xff\": 1 }");
    assert!(matches!(file.errors[0].kind, ConfigErrorKind::Syntax { line: 2, column: 4, .. }));
}

#[test]
fn file_without_servers_is_told() {
    let file = user("/a.json", "\u{feff}{ \"mcpservers\": {} }");
    assert_eq!(file.errors, []);
    assert_eq!(file.diagnostics[0].kind, DiagnosticKind::NoServers);
    assert!(user("/a.json", r#"{ "mcpServers": {} }"#).diagnostics.is_empty());
}

/// F87
#[test]
fn file_that_cannot_be_read_is_an_error_beside_the_others() {
    let file = ConfigFile::unreadable(Source::project("/work/.mcp.json"), "permission denied\u{1b}[2J");
    assert_eq!(
        file.errors[0].to_string(),
        "/work/.mcp.json: the file cannot be read: permission denied\\u{1b}[2J"
    );
}

/// F105
#[test]
fn entry_knows_the_line_of_its_name() {
    let lines = |file: &ConfigFile| -> Vec<_> {
        file.servers.iter().map(|entry| (entry.name().to_owned(), entry.line())).collect()
    };
    let named = |names: &[(&str, usize)]| -> Vec<_> {
        names.iter().map(|(name, line)| ((*name).to_owned(), Some(*line))).collect()
    };
    let json = "\u{feff}{ /* \"a\": {} in\n a comment */\n\"x\": [{\"a\": 1}], \"mcpServers\": {\n\n  \"a\": { \"command\": \"a\",\n\"env\": {\"b\": \"c\"} },\n\"b\\u0063\"\n: { \"command\": \"b\" }, } }";
    let file = user("/home/ann/.cursor/mcp.json", json);
    assert_eq!(lines(&file), named(&[("a", 5), ("bc", 7)]));
    let settings = "{\n\"mcp\": {\n\"servers\": {\n\"a\": {\"command\": \"a\"} } } }";
    assert_eq!(lines(&user("/home/ann/.config/Code/User/settings.json", settings)), named(&[("a", 4)]));
    // Only `servers` counts within `mcp`.
    let both = "{\"mcp\": {\"mcpServers\": {\"a\": {}}},\n\"mcpServers\": {\"a\": {\"command\": \"a\"}}}";
    assert_eq!(lines(&user("/a.json", both)), named(&[("a", 2)]));
    assert_eq!(lines(&user("/a.toml", "\n[mcp.servers.a]\ncommand = \"a\"\n")), named(&[("a", 2)]));
    let toml = "# mine\n[mcp_servers.a]\ncommand = \"a\"\n\n[mcp_servers.\"b c\"]\ncommand = \"b\"\n";
    assert_eq!(lines(&user("/home/ann/.codex/config.toml", toml)), named(&[("a", 2), ("b c", 5)]));
    let claude = "{\"mcpServers\": {\"a\": {\"command\": \"a\"}},\n\"projects\": {\n\"/work/app\": {\"mcpServers\":\n{\"a\": {\"command\": \"b\"}}}}}";
    let source = Source::user("/home/ann/.claude.json");
    let file = ConfigFile::parse_of_project(source, claude.as_bytes(), "/work/app");
    assert_eq!(lines(&file), named(&[("a", 4)]));
    assert_eq!(
        mcp_proto::host::config::ServerEntry::user(
            "a",
            mcp_proto::host::config::ServerSpec::http("http://a")
        )
        .line(),
        None
    );
}
