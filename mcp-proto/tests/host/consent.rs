use mcp_proto::consent::SafeText;
use mcp_proto::host::config::{ConfigFile, ServerEntry, Source};
use mcp_proto::host::consent::{ApprovalWarning, Approvals, ApprovalsError};
use proptest::prelude::*;

use super::config::{entry, project};

const PATH: &str = "/work/app/.vscode/mcp.json";

fn server(path: &str, json: &str) -> ServerEntry {
    let inputs = r#"[{ "id": "key", "description": "API key", "password": true }]"#;
    let file = project(path, &format!(r#"{{ "inputs": {inputs}, "servers": {{ "one": {json} }} }}"#));
    assert_eq!(file.errors, []);
    file.servers.into_iter().next().unwrap()
}

fn approved(server: &ServerEntry) -> Approvals {
    let mut approvals = Approvals::new();
    approvals.insert(server.permit(&approvals).unwrap_err().approve());
    approvals
}

#[test]
fn project_server_is_refused_until_it_is_approved() {
    let server = server(PATH, r#"{ "command": "x" }"#);
    assert!(server.permit(&Approvals::new()).is_err());
    assert!(server.permit(&approved(&server)).is_ok());
    assert!(entry(r#"{ "command": "x" }"#).permit(&Approvals::new()).is_ok(), "a user's server needs none");
}

#[test]
fn request_shows_everything_that_the_approval_covers() {
    let server = server(
        PATH,
        r#"{
            "command": "npx", "args": ["-y", "two words", "${workspaceFolder}"], "cwd": "/tmp", "envFile": "${env:DIR}/.env",
            "env": { "API_KEY": "s3cret", "TOKEN": "${env:GITHUB_TOKEN}", "KEY": "${input:key}" },
            "trust": true, "includeTools": ["read"], "excludeTools": ["write"], "timeout": 0, "keepAliveMs": 5000,
            "maxReconnectAttempts": 2, "includePrompts": ["daily"], "excludeResources": ["file:///private/*"]
        }"#,
    );
    let request = server.permit(&Approvals::new()).unwrap_err();
    assert_eq!(
        request.to_string(),
        "a project asks to use a server:
  server: one
  file: /work/app/.vscode/mcp.json
  starts the program: npx
  with the argument: -y
  with the argument: two words
  with the argument: ${workspaceFolder}
  in the folder: /tmp
  sets the variable: API_KEY=s3cret
  sets the variable: KEY=${input:key}
  sets the variable: TOKEN=${env:GITHUB_TOKEN}
  sets the variables of the file: ${env:DIR}/.env
  reads the variable: DIR
  reads the variable: GITHUB_TOKEN
  asks you for: key (API key)
  reads the variable: workspaceFolder
  calls its tools: without asking you
  offers the tool: read
  does not offer the tool: write
  offers the prompt: daily
  does not offer the resource: file:///private/*
  may start for: any time
  may answer within: any time
  may be tried again: 2 times
  is pinged every: 5 s
  warning: the program decides what the variable API_KEY changes: read its value
  warning: the program decides what the variable KEY changes: read its value
  warning: the program decides what the variable TOKEN changes: read its value"
    );
    assert!(!format!("{request:?}").contains("two words"));
}

#[test]
fn request_shows_a_connection() {
    let server = server(
        PATH,
        r#"{ "type": "sse", "url": "http://user@xn--e-0ga.example/${env:TEAM}",
             "headers": { "Authorization": "Bearer ${env:GITHUB_TOKEN}" },
             "oauth": { "clientId": "app", "clientSecret": "s3cret", "scopes": ["mail"], "callbackPort": 8080,
                        "issuer": "https://login.example", "allowedHosts": ["login.example"] } }"#,
    );
    let shown = server.permit(&Approvals::new()).unwrap_err().to_string();
    for line in [
        "connects by HTTP+SSE to: http://user@xn--e-0ga.example/${env:TEAM}",
        "sends the header: authorization: Bearer ${env:GITHUB_TOKEN}",
        "logs in as the client: app",
        "logs in with: a secret of its own",
        "logs in at: https://login.example",
        "asks for the scope: mail",
        "receives the login on port: 8080",
        "logs in only at: its own host",
        "or at the host: login.example",
        "reads the variable: GITHUB_TOKEN",
        "warning: what starts, or where it connects, depends on values that are not shown",
    ] {
        assert!(shown.contains(&format!("\n  {line}")), "{line:?} is missing:\n{shown}");
    }
    assert!(!shown.contains("s3cret"));
}

fn warnings(json: &str) -> Vec<ApprovalWarning> {
    server(PATH, json).permit(&Approvals::new()).unwrap_err().warnings().to_vec()
}

#[test]
fn request_warns_of_shells_loaders_and_urls() {
    assert_eq!(warnings(r#"{ "command": "npx" }"#), []);
    assert_eq!(warnings(r#"{ "command": "/bin/SH", "args": ["-c", "x"] }"#), [ApprovalWarning::Shell]);
    assert_eq!(warnings(r#"{ "command": "C:\\Windows\\cmd.exe" }"#), [ApprovalWarning::Shell]);
    assert_eq!(
        warnings(r#"{ "command": "node", "env": { "NODE_OPTIONS": "--require ./evil", "LANG": "b" } }"#),
        [ApprovalWarning::LoadsCode("NODE_OPTIONS".into())]
    );
    assert_eq!(warnings(r#"{ "command": "${env:RUN}" }"#), [ApprovalWarning::Hidden]);
    assert_eq!(warnings(r#"{ "url": "http://a.example" }"#).len(), 1);
}

#[test]
fn request_warns_of_every_variable_that_is_not_known_to_be_harmless() {
    for name in [
        "npm_config_registry",
        "PIP_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "NODE_PATH",
        "JAVA_TOOL_OPTIONS",
        "DOTNET_STARTUP_HOOKS",
        "PYTHONHOME",
        "PERL5LIB",
        "RUBYLIB",
        "HOME",
        "HTTPS_PROXY",
        "NODE_EXTRA_CA_CERTS",
        "DOCKER_HOST",
        "NPM_CONFIG_LOG_LEVEL",
    ] {
        let json = serde_json::json!({ "command": "x", "env": { name: "y", "FASTMCP_LOG_LEVEL": "z" } });
        assert_eq!(warnings(&json.to_string()), [ApprovalWarning::LoadsCode(name.into())]);
    }
    let json =
        r#"{ "command": "x", "env": { "LOG_LEVEL": "debug", "PLUGINS": "./a", "lang": "b", "PATH": "/" } }"#;
    let unknown = |name: &str| ApprovalWarning::UnknownVariable(name.into());
    // Those that are known to choose code come first.
    let loads = ApprovalWarning::LoadsCode("PATH".into());
    assert_eq!(warnings(json), [loads, unknown("PLUGINS"), unknown("lang")]);
}

#[test]
fn interpreter_with_code_in_its_arguments_counts_as_a_shell() {
    for json in [
        r#"{ "command": "python3.12", "args": ["-W", "ignore", "-c", "x"] }"#,
        r#"{ "command": "node", "args": ["--import", "data:text/javascript,x", "server.js"] }"#,
        r#"{ "command": "env", "args": ["A=b", "server"] }"#,
        r#"{ "command": "busybox", "args": ["sh"] }"#,
        r#"{ "command": "uv", "args": ["run", "python", "-c", "x"] }"#,
        // Nothing sets the variable, so that the default counts.
        r#"{ "command": "node", "args": ["${env:NOT_SET:--e}", "x"] }"#,
    ] {
        assert_eq!(warnings(json), [ApprovalWarning::Shell], "{json}");
    }
    assert_eq!(warnings(r#"{ "command": "python3", "args": ["server.py", "-c", "x"] }"#), []);
    // So does the default of an input, for which it is enough to press Enter.
    let text = r#"{ "inputs": [{ "id": "x", "type": "promptString", "description": "x", "default": "-c" }],
        "servers": { "one": { "command": "python3", "args": ["${input:x}", "x"] } } }"#;
    let request = project(PATH, text).servers[0].permit(&Approvals::new()).unwrap_err();
    assert_eq!(request.warnings(), [ApprovalWarning::Shell]);
}

#[test]
fn padded_argument_does_not_imitate_a_line_of_the_request() {
    for padding in 0..200 {
        let argument =
            format!("{}  in the folder: /safe{}  server: other", "x".repeat(padding), " ".repeat(57));
        let json = serde_json::json!({ "command": "x", "args": [argument], "cwd": "/evil" });
        let request = server(PATH, &json.to_string()).permit(&Approvals::new()).unwrap_err();
        let shown = request.to_string();
        // As a terminal of 80 columns wraps it.
        let rows: Vec<String> = shown
            .split('\n')
            .flat_map(|line| line.as_bytes().chunks(80).map(|row| String::from_utf8_lossy(row).into_owned()))
            .collect();
        let folders = rows.iter().filter(|row| row.trim_start().starts_with("in the folder"));
        assert_eq!(folders.collect::<Vec<_>>(), ["  in the folder: /evil"]);
        assert!(shown.replace("\n    | ", "").contains(&argument), "{shown}");
    }
}

#[test]
fn request_shows_the_values_that_the_file_has_for_an_input() {
    let inputs = r#"[{ "id": "mode", "type": "pickString", "description": "Mode", "default": "-c", "options": ["-c", "-m"] }]"#;
    let text = format!(
        r#"{{ "inputs": {inputs}, "servers": {{ "one": {{ "command": "x", "args": ["${{input:mode}}"] }} }} }}"#
    );
    let shown = project(PATH, &text).servers[0].permit(&Approvals::new()).unwrap_err().to_string();
    assert!(shown.contains("asks you for: mode (Mode), by default -c, one of -c, -m"), "{shown}");
}

#[test]
fn any_change_asks_again() {
    let json = r#"{ "command": "x", "args": ["a"], "cwd": "/w", "env": { "A": "1", "B": "${env:B}" } }"#;
    let approvals = approved(&server(PATH, json));
    for changed in [
        r#"{ "command": "y", "args": ["a"], "cwd": "/w", "env": { "A": "1", "B": "${env:B}" } }"#,
        r#"{ "command": "x", "args": ["b"], "cwd": "/w", "env": { "A": "1", "B": "${env:B}" } }"#,
        r#"{ "command": "x", "args": ["a", ""], "cwd": "/w", "env": { "A": "1", "B": "${env:B}" } }"#,
        r#"{ "command": "x", "args": ["a"], "env": { "A": "1", "B": "${env:B}" } }"#,
        r#"{ "command": "x", "args": ["a"], "cwd": "/w", "env": { "A": "2", "B": "${env:B}" } }"#,
        r#"{ "command": "x", "args": ["a"], "cwd": "/w", "env": { "A": "1", "B": "${env:C}" } }"#,
        r#"{ "command": "x", "args": ["a"], "cwd": "/w", "env": { "A": "1", "C": "${env:B}" } }"#,
        r#"{ "command": "x", "args": ["a"], "cwd": "/w", "env": { "A": "1", "B": "${env:B}" }, "trust": true }"#,
        r#"{ "url": "https://x.example" }"#,
    ] {
        assert!(server(PATH, changed).permit(&approvals).is_err(), "{changed}");
    }
    assert!(server("/work/other/.vscode/mcp.json", json).permit(&approvals).is_err(), "another project");
    let renamed = ConfigFile::parse(
        Source::project(PATH),
        format!(r#"{{ "servers": {{ "two": {json} }} }}"#).as_bytes(),
    );
    assert!(renamed.servers[0].permit(&approvals).is_err(), "another name");
}

/// Its default and its options become arguments as the file's own text does.
#[test]
fn any_change_of_an_input_asks_again() {
    let with_input = |input: &str| {
        let servers = r#"{ "one": { "command": "x", "args": ["${input:mode}"] } }"#;
        let text = format!(r#"{{ "inputs": [{{ "id": "mode", {input} }}], "servers": {servers} }}"#);
        project(PATH, &text).servers.remove(0)
    };
    let input = r#""description": "Mode", "default": "-m", "options": ["-m", "-u"]"#;
    let approvals = approved(&with_input(input));
    assert!(with_input(input).permit(&approvals).is_ok());
    for changed in [
        r#""description": "Log", "default": "-m", "options": ["-m", "-u"]"#,
        r#""description": "Mode", "default": "-c", "options": ["-m", "-u"]"#,
        r#""description": "Mode", "default": "-m", "options": ["-m", "-c"]"#,
        r#""description": "Mode", "default": "-m", "options": ["-m", "-u"], "password": true"#,
    ] {
        assert!(with_input(changed).permit(&approvals).is_err(), "{changed}");
    }
}

#[test]
fn spelling_and_the_switch_do_not_ask_again() {
    let approvals = approved(&server(PATH, r#"{ "command": "x", "args": [], "disabled": true }"#));
    assert!(server(PATH, r#"{ /* on */ "enabled": true, "command": "x", }"#).permit(&approvals).is_ok());
}

#[test]
fn revoked_approval_refuses() {
    let server = server(PATH, r#"{ "url": "https://x.example" }"#);
    let mut approvals = approved(&server);
    assert!(approvals.revoke(PATH, "one"));
    assert!(!approvals.revoke(PATH, "one"));
    assert!(server.permit(&approvals).is_err());
}

#[test]
fn later_approval_replaces_the_earlier_one() {
    let (first, second) = (server(PATH, r#"{ "command": "a" }"#), server(PATH, r#"{ "command": "b" }"#));
    let mut approvals = approved(&first);
    approvals.insert(second.permit(&approvals).unwrap_err().approve());
    assert!(second.permit(&approvals).is_ok());
    assert!(first.permit(&approvals).is_err());
    assert_eq!(approvals.iter().count(), 1);
}

#[test]
fn stored_approvals_are_read_back_and_have_no_value_of_the_file() {
    let server = server(PATH, r#"{ "command": "x", "env": { "KEY": "s3cret" } }"#);
    let stored = approved(&server).to_json().unwrap();
    assert!(!stored.contains("s3cret"));
    let read = Approvals::from_json(stored.as_bytes()).unwrap();
    assert!(server.permit(&read).is_ok());
    assert_eq!(read.to_json().unwrap(), stored);
    let approval = read.iter().next().unwrap();
    assert_eq!((approval.path(), approval.server()), (PATH, "one"));
}

#[test]
fn approvals_that_could_not_be_read_back_are_not_stored() {
    let path = format!("/{}/mcp.json", "a".repeat(Approvals::STORED_BYTES));
    let mut approvals = approved(&server(&path, r#"{ "command": "x" }"#));
    assert_eq!(approvals.to_json(), Err(ApprovalsError::TooLarge));
    approvals.revoke(&path, "one");
    assert!(approvals.to_json().is_ok());
}

#[test]
fn stored_approval_of_one_server_is_none_of_another() {
    let json = r#"{ "command": "x" }"#;
    let stored = approved(&server(PATH, json)).to_json().unwrap();
    let elsewhere = "/work/evil/.vscode/mcp.json";
    let moved = Approvals::from_json(stored.replace(PATH, elsewhere).as_bytes()).unwrap();
    assert_eq!(moved.iter().next().unwrap().path(), elsewhere);
    assert!(server(elsewhere, json).permit(&moved).is_err());
    let renamed = Approvals::from_json(stored.replace("\"one\"", "\"two\"").as_bytes()).unwrap();
    let two = project(PATH, &format!(r#"{{ "servers": {{ "two": {json} }} }}"#));
    assert!(two.servers[0].permit(&renamed).is_err());
}

#[test]
fn damaged_approval_refuses_its_server_only() {
    let (one, two) =
        (server(PATH, r#"{ "command": "a" }"#), server("/p/.vscode/mcp.json", r#"{ "command": "b" }"#));
    let mut approvals = approved(&one);
    approvals.insert(two.permit(&approvals).unwrap_err().approve());
    let stored = approvals.to_json().unwrap();
    let binding = stored.split("\"binding\":\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(binding.len(), 64);
    for damaged in [&binding[1..], "", "zz", &format!("{binding}0"), &"0".repeat(64)] {
        let read = Approvals::from_json(stored.replacen(binding, damaged, 1).as_bytes()).unwrap();
        let permitted = [&one, &two].into_iter().filter(|server| server.permit(&read).is_ok());
        assert_eq!(permitted.count(), 1, "{damaged:?}");
    }
    for text in ["", "{}", "[]", "null", r#"{"version":2,"approvals":[]}"#, &stored[1..]] {
        assert!(Approvals::from_json(text.as_bytes()).is_err(), "{text:?}");
    }
    let nothing = Approvals::from_json(br#"{"version":1,"approvals":[1,null,{},{"path":"p"}]}"#).unwrap();
    assert_eq!(nothing, Approvals::new());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn request_reaches_a_terminal_without_control_characters(name in ".{1,20}", command in ".{0,20}[a-z]", argument in ".*", path in ".*") {
        let json = serde_json::json!({ "mcpServers": { &name: { "command": command, "args": [argument] } } });
        let file = ConfigFile::parse(Source::project(path), json.to_string().as_bytes());
        for server in &file.servers {
            let request = server.permit(&Approvals::new()).unwrap_err();
            for line in request.to_string().split('\n') {
                prop_assert!(!line.chars().any(|c| SafeText::is_unsafe(c) && !matches!(c, '\u{fe00}'..='\u{fe0f}')), "{:?}", line);
            }
            let shown = request.to_string();
            let lines = shown.split('\n').skip(1).filter(|row| !row.starts_with("    | "));
            prop_assert_eq!(lines.count(), request.lines().len() + request.warnings().len());
        }
    }

    #[test]
    fn arbitrary_stored_text_refuses(text in "(\\{|\\}|\\[|\\]|\"version\":1|\"approvals\":|,|\"path\":|\"[a-f0-9]*\"){0,12}") {
        let server = server(PATH, r#"{ "command": "x" }"#);
        let approvals = Approvals::from_json(text.as_bytes()).unwrap_or_default();
        prop_assert!(server.permit(&approvals).is_err());
    }
}
