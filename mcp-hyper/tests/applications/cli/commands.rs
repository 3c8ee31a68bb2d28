//! The command-line client from its user's view: commands, output, and exit codes.

use std::time::Duration;

use crate::common::auth_testbed::{self, AuthTestbed};
use crate::common::cli::{CommandOutput, mcp, output, program, script};
use serde_json::{Value, json};
use smol::Timer;
use smol::future::{FutureExt as _, block_on};
use smol::io::{AsyncBufReadExt as _, BufReader};
use smol::process::{Command, Stdio};
use smol::stream::StreamExt as _;

/// Runs a command against the demo server, in an era.
fn ask(era: &str, args: &[&str]) -> CommandOutput {
    let program = program();
    let server = ["--", program.to_str().unwrap(), "serve"];
    mcp(&[args, &["--era", era], &server].concat())
}

/// Runs a command that succeeds in both eras and returns its results as JSON.
fn in_both_eras(args: &[&str]) -> [Value; 2] {
    ["modern", "legacy"].map(|era| {
        let ran = ask(era, &[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{era}: {}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    })
}

#[test]
fn demo_shows_every_feature_and_succeeds() {
    for args in [&["demo"][..], &[], &["--era", "legacy"]] {
        let ran = mcp(args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        for part in [
            "mcp-demo",
            "count",
            "{\"sum\":5}",
            "Counted to 20.",
            "Hello, Ada!",
            "pirate",
            "formal, friendly",
        ] {
            assert!(ran.out.contains(part), "{part:?} is missing in: {}", ran.out);
        }
        assert!(ran.err.contains("20/20"), "progress is missing in: {}", ran.err);
        assert!(!ran.out.contains('\x1b'), "output without a terminal has no colours");
    }
}

#[test]
fn info_prints_era_revision_and_capabilities() {
    let [modern, legacy] = in_both_eras(&["info"]);
    assert_eq!((&modern["era"], &modern["revision"]), (&json!("modern"), &json!("2026-07-28")));
    assert_eq!((&legacy["era"], &legacy["revision"]), (&json!("legacy"), &json!("2025-11-25")));
    for info in [modern, legacy] {
        assert_eq!(info["server"]["name"], "mcp-demo");
        assert!(info["capabilities"]["tools"].is_object());
        assert!(info["instructions"].is_string());
    }
    let ran = ask("auto", &["info"]);
    assert!(ran.out.contains("modern era"), "{}", ran.out);
}

/// Runs the client with this input on its terminal.
fn typed(args: &[&str], typed: &str) -> CommandOutput {
    let mut child = std::process::Command::new(program())
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), typed.as_bytes()).unwrap();
    // The server ends with its client, and the client's own timeouts end the client.
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// C5.2, C10.4, C1.6
#[test]
fn elicitation_reaches_the_terminal_in_both_eras() {
    let program = program();
    for era in ["modern", "legacy"] {
        let args =
            ["call", "introduce", "--era", era, "--timeout", "10", "--", program.to_str().unwrap(), "serve"];
        let ran = typed(&args, "y\nAda\ny\n");
        assert_eq!((ran.code, ran.out.trim()), (0, "Hello, Ada!"), "{era}: {}", ran.err);
        assert!(ran.err.contains("mcp-demo asks:") && ran.err.contains("Who are you?"), "{}", ran.err);
        let ran = typed(&args, "n\n");
        assert_eq!((ran.code, ran.out.trim()), (0, "A stranger, then."), "{era}: {}", ran.err);
    }
}

/// C14.3
#[test]
fn status_of_a_task_is_shown_until_it_ends() {
    for era in ["modern", "legacy"] {
        let ran = ask(era, &["call", "bake"]);
        assert_eq!((ran.code, ran.out.trim()), (0, "The bread is done."), "{era}: {}", ran.err);
        // A server of 2025-11-25 runs the call as a task only if the client requests one.
        assert_eq!(ran.err.contains("task working"), era == "modern", "{era}: {}", ran.err);
    }
}

#[test]
fn tools_are_listed_and_described() {
    for result in in_both_eras(&["tools"]) {
        let names: Vec<&str> =
            result["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["echo", "add", "count", "fail", "slow", "introduce", "bake"]);
    }
    let ran = ask("auto", &["tools"]);
    assert!(
        ran.out.lines().any(|line| line.starts_with("count ") && line.contains(" to [delay_ms]  ")),
        "{}",
        ran.out
    );
    let ran = ask("auto", &["tools", "add"]);
    assert!(ran.out.contains("required  The one number."), "{}", ran.out);
}

#[test]
fn call_converts_its_arguments_by_the_schema() {
    for result in in_both_eras(&["call", "add", "a=2", "b=3"]) {
        assert_eq!(result["structuredContent"], json!({ "sum": 5 }));
    }
    for result in in_both_eras(&["call", "echo", "text=5"]) {
        assert_eq!(result["content"][0]["text"], "5");
    }
    for result in in_both_eras(&["call", "add", "{\"a\":1,\"b\":0.5}"]) {
        assert_eq!(result["structuredContent"], json!({ "sum": 1.5 }));
    }
    assert_eq!(ask("auto", &["call", "echo", "text=two words"]).out, "two words\n");
}

#[test]
fn progress_and_logs_go_to_standard_error() {
    for era in ["modern", "legacy"] {
        let ran = ask(era, &["call", "count", "to=3", "--log", "info"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "Counted to 3.\n"), "{}", ran.err);
        assert!(ran.err.contains("3/3") && ran.err.contains("[info] counting to 3"), "{}", ran.err);
    }
}

#[test]
fn progress_in_a_log_adds_at_most_one_line_a_second() {
    let ran = ask("auto", &["call", "count", "to=50", "delay_ms=10"]);
    let lines: Vec<_> = ran.err.lines().filter(|line| line.contains("/50")).collect();
    assert!(lines.len() <= 5 && lines.last().is_some_and(|line| line.contains(" 50/50")), "{lines:?}");
}

#[test]
fn errors_are_json_objects_for_scripts() {
    let error = |ran: &CommandOutput| serde_json::from_str::<Value>(&ran.out).unwrap()["error"].take();
    let ran = ask("auto", &["read", "demo://nothing", "--json"]);
    let refused = error(&ran);
    assert_eq!((ran.code, &refused["kind"]), (3, &json!("refused")), "{}", ran.out);
    assert!(refused["code"].is_i64() && ran.err.contains("demo://nothing"), "{}", ran.err);
    for (code, kind, args) in [
        (2, "usage", &["tools", "--json"][..]),
        (2, "usage", &["login", "nowhere", "--json"]),
        (3, "connection", &["info", "--json", "--", "no-such-server"]),
    ] {
        let ran = mcp(args);
        assert_eq!((ran.code, &error(&ran)["kind"]), (code, &json!(kind)), "{args:?}: {}", ran.err);
    }
}

#[test]
fn client_gives_up_a_silent_server_and_explains_the_wait() {
    let start = std::time::Instant::now();
    let ran = mcp(&["info", "--json", "--timeout", "2.5", "--", "sh", "-c", "sleep 100"]);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let error = &serde_json::from_str::<Value>(&ran.out).unwrap()["error"];
    assert_eq!((ran.code, &error["kind"]), (3, &json!("timeout")), "{}", ran.err);
    assert!(ran.err.lines().any(|line| line.starts_with("waiting for the answer to ")), "{}", ran.err);
    assert!(ran.err.contains("2.5 s") && ran.err.contains("--timeout"), "{}", ran.err);
}

#[test]
fn client_secret_is_rejected_without_its_issuer() {
    let args = ["whoami", "https://example.com/mcp", "--client-id", "me", "--tokens", "/nonexistent"];
    let ran =
        CommandOutput::of(output(Command::new(program()).args(args).env("MCP_CLIENT_SECRET", "hidden")));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--issuer") && !ran.err.contains("hidden"), "{}", ran.err);
}

#[test]
fn arguments_come_from_standard_input() {
    let program = program();
    let args = ["call", "add", "-", "--", program.to_str().unwrap(), "serve"];
    assert_eq!(typed(&args, "{\"a\":2,\"b\":3}").out.trim(), "{\"sum\":5}");
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = mcp(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("whoami"), "{shell}: {}", ran.err);
    }
}

#[test]
fn failing_tool_is_exit_code_1() {
    for era in ["modern", "legacy"] {
        let ran = ask(era, &["call", "fail"]);
        assert_eq!(ran.code, 1);
        assert!(ran.out.contains("always fails") && ran.err.contains("reports a failure"), "{}", ran.err);
    }
}

#[test]
fn resources_are_listed_and_read_unchanged() {
    for result in in_both_eras(&["resources"]) {
        assert_eq!(result["resources"].as_array().unwrap().len(), 2);
        assert_eq!(result["resourceTemplates"][0]["uriTemplate"], "demo://greeting/{name}");
    }
    for result in in_both_eras(&["read", "demo://greeting/Ada"]) {
        assert_eq!(result["contents"][0]["text"], "Hello, Ada!");
    }
    assert!(ask("auto", &["read", "demo://logo"]).out.starts_with("[demo://logo, image/png, "));
    let program = program();
    let read = ["read", "--raw", "demo://logo", "--", program.to_str().unwrap(), "serve"];
    let logo = output(Command::new(&program).args(read));
    assert!(logo.stdout.starts_with(b"\x89PNG\r\n\x1a\n"), "`--raw` writes the bytes");
}

#[test]
fn contents_are_saved_in_a_file() {
    let folder = std::env::temp_dir().join(format!("mcpio-output-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (logo, greeting) = (folder.join("logo.png"), folder.join("greeting.txt"));
    let ran = ask("auto", &["read", "demo://logo", "--output", logo.to_str().unwrap()]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("image/png"), "{}{}", ran.out, ran.err);
    assert!(std::fs::read(&logo).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    let ran = ask("auto", &["read", "demo://greeting", "--output", greeting.to_str().unwrap()]);
    assert_eq!((ran.code, std::fs::read_to_string(&greeting).unwrap().as_str()), (0, "Hello, world!"));

    let image = r#"{"type":"image","mimeType":"image/png","data":"iVBORw=="}"#;
    let server = script(&format!(
        r#"
    ask; refuse no; ask
    answer '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}'
    ask; ask; answer '{{"tools":[{{"name":"draw","inputSchema":{{"type":"object"}}}}]}}'
    ask; answer '{{"content":[{image},{image}]}}'; ask
    "#
    ));
    let (one, two) = (folder.join("a.png"), folder.join("a-2.png"));
    let ran = mcp(&["call", "draw", "--output", one.to_str().unwrap(), "--", "sh", "-c", &server]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for file in [one, two] {
        assert_eq!(std::fs::read(file).unwrap(), b"\x89PNG");
    }
    let invalid = mcp(&[
        "call",
        "draw",
        "--output",
        folder.join("c").to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &server.replace("iVBORw==", "?"),
    ]);
    assert!(invalid.code == 3 && invalid.err.contains("not valid base64"), "{}", invalid.err);
    assert!(!folder.join("c").exists());
    let nothing = ask("auto", &["call", "echo", "text=a", "--output", folder.join("b").to_str().unwrap()]);
    assert!(nothing.code == 3 && nothing.err.contains("nothing to save"), "{}", nothing.err);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A server of 2025-11-25 that ends once it has subscribed a client.
const ENDS: &str = r#"
    ask; refuse no; ask
    answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}'
    ask
    "#;

#[test]
fn watch_reports_its_end_and_obeys_the_timeout() {
    let ended = mcp(&["watch", "--json", "--", "sh", "-c", &script(ENDS)]);
    assert_eq!(ended.code, 3, "{}{}", ended.out, ended.err);
    let error: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["kind"], "connection", "{}", ended.err);
    let server = script(&format!("{ENDS} while ask; do :; done"));
    let silent = mcp(&["watch", "--timeout", "1", "--", "sh", "-c", &server]);
    assert!(silent.code == 3 && silent.err.contains("nothing changed within 1 s"), "{}", silent.err);
}

#[test]
fn served_address_may_be_a_name_and_is_never_refused() {
    for (address, more, printed, refused) in [
        ("localhost:0", &[][..], "http://localhost:", None),
        ("0.0.0.0:0", &[], "http://localhost:", Some("mcp.lan")),
        ("127.0.0.1:0", &["--host", "mcp.lan"], "http://mcp.lan:", None),
    ] {
        let mut command = std::process::Command::new(program());
        command.args(["serve", "--http", address]).args(more).stderr(std::process::Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut line = String::new();
        let mut err = std::io::BufReader::new(server.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut err, &mut line).unwrap();
        let url = line.split_whitespace().nth(1).unwrap().trim_end_matches('.');
        assert!(url.starts_with(printed), "{line}");
        let host = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let port = host.rsplit_once(':').unwrap().1;
        let status = |host: &str| {
            let mut stream = std::net::TcpStream::connect(format!("localhost:{port}")).unwrap();
            let request = format!("DELETE /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
            let answer = std::io::read_to_string(stream).unwrap();
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        let statuses = (status(host), refused.map(status));
        server.kill().unwrap();
        server.wait().unwrap();
        assert_ne!(statuses.0, "403", "{line}");
        assert!(statuses.1.is_none_or(|status| status == "403"), "{line}");
    }
}

#[test]
fn wrong_words_have_tips_that_lead_on() {
    for (line, said) in [
        (&["tools", "--timeout", "-1", "--", "x"][..], "a number of seconds"),
        (&["tools", "--", "localhost:3720"], "http://localhost:3720/mcp"),
        (&["login", "localhost:3720"], "http://localhost:3720/mcp"),
        (&["info", "localhost:3720"], "http://localhost:3720/mcp"),
        (&["connect", "localhost:3720"], "http://localhost:3720/mcp"),
    ] {
        let ran = mcp(line);
        assert!(ran.code != 0 && ran.err.contains(said) && !ran.err.contains("tip:"), "{}", ran.err);
    }
    let ran = ask("auto", &["call", "add", "--a", "-1", "--b=3"]);
    assert_eq!(ran.out.trim(), "{\"sum\":2}", "{}", ran.err);
}

#[test]
fn prompts_are_listed_fetched_and_completed() {
    for result in in_both_eras(&["prompts"]) {
        assert_eq!(result["prompts"][0]["arguments"][0]["name"], "name");
    }
    for result in in_both_eras(&["get", "greet", "name=Ada", "style=formal"]) {
        assert_eq!(
            result["messages"][0]["content"]["text"],
            "Write a formal greeting for Ada, in one sentence."
        );
    }
    for result in in_both_eras(&["complete", "greet", "style", "f"]) {
        assert_eq!(result["completion"]["values"], json!(["formal", "friendly"]));
    }
    assert_eq!(ask("auto", &["complete", "demo://greeting/{name}", "name", "a"]).out, "Ada\nAlan\n");
}

#[test]
fn ping_measures_the_round_trip_in_both_eras() {
    assert!(ask("modern", &["ping"]).out.starts_with("server/discover answered in "));
    assert!(ask("legacy", &["ping"]).out.starts_with("ping answered in "));
}

#[test]
fn trace_prints_every_message() {
    let ran = ask("auto", &["call", "echo", "text=hi", "--trace"]);
    let sent = ran.err.lines().filter(|line| line.starts_with("→ {")).count();
    let received = ran.err.lines().filter(|line| line.starts_with("← {")).count();
    assert_eq!((ran.out.as_str(), sent, received), ("hi\n", 3, 3), "{}", ran.err);
}

/// F104
#[test]
fn trace_shows_no_password_and_no_secret_of_the_command_line() {
    let call = ["call", "echo", "text=the key hunter2-of-env", "password=hunter2", "--trace"];
    let ran = ask("auto", &[&call[..], &["--env", "API_KEY=hunter2-of-env"]].concat());
    assert!(ran.err.contains(r#""password":"[redacted]""#), "{}", ran.err);
    assert!(ran.err.contains("the key [redacted]") && !ran.err.contains("hunter2"), "{}", ran.err);
}

#[test]
fn unknown_name_is_a_usage_error_with_a_suggestion() {
    let ran = ask("auto", &["call", "ehco", "text=hi"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("did you mean echo?"), "{}", ran.err);
    let ran = ask("auto", &["call", "add", "a=two", "b=3"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("a: \"two\" is not a number"), "{}", ran.err);
}

#[test]
fn usage_errors_explain_the_syntax() {
    let ran = mcp(&["tools"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("mcpio tools -- npx"), "{}", ran.err);
    assert_eq!(mcp(&["tolls", "--", "x"]).code, 2);
    for help in [&["--help"][..], &["help"], &["help", "call"]] {
        let ran = mcp(help);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{help:?}");
        assert!(ran.out.contains("mcpio call get-sum a=2 b=3 -- npx"), "{}", ran.out);
    }
}

#[test]
fn protocol_errors_are_exit_code_3() {
    let ran = ask("auto", &["read", "demo://nothing"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("demo://nothing"), "{}", ran.err);
    let ran = ask("auto", &["call", "slow", "seconds=60", "--timeout", "0.3"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("--timeout"), "{}", ran.err);
}

#[test]
fn dead_servers_are_exit_code_3_with_their_standard_error() {
    let ran = mcp(&["tools", "--", "no-such-server", "--stdio"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("no-such-server --stdio") && ran.err.contains("PATH"), "{}", ran.err);
    let ran = mcp(&["tools", "--", "sh", "-c", "echo 'no database' >&2; exit 9"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("exit status: 9") && ran.err.contains("no database"), "{}", ran.err);
}

#[test]
fn server_gets_the_requested_environment_and_directory() {
    let script = "echo \"$COLOUR $PWD\" >&2; exit 1";
    let ran = mcp(&["info", "--env", "COLOUR=blue", "--cwd", "/", "--", "sh", "-c", script]);
    assert!(ran.err.contains("blue /"), "{}", ran.err);
}

#[test]
fn server_gets_variables_that_are_not_on_the_command_line() {
    let script = "echo \"$COLOUR $CARGO_PKG_NAME\" >&2; exit 1";
    let file = std::env::temp_dir().join(format!("mcpio-variables-{}", std::process::id()));
    std::fs::write(&file, "COLOUR=blue\n").unwrap();
    let path = file.to_str().unwrap();
    let ran = mcp(&["info", "--env-file", path, "--env", "CARGO_PKG_NAME", "--", "sh", "-c", script]);
    assert!(ran.err.contains("blue mcp-hyper"), "{}", ran.err);
    std::fs::remove_file(file).unwrap();
}

/// S2.4
#[test]
fn server_answers_requests_that_arrived_before_its_input_ended() {
    let program = program();
    let script = format!(
        "printf '%s\\n' '{}' | {} serve",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        program.display()
    );
    let output = output(Command::new("sh").args(["-c", &script]));
    assert!(output.status.success());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["id"], 1);
}

/// Logs in, gives consent as a user would, and returns the output.
fn log_in(words: &[&str]) -> CommandOutput {
    let late = async {
        Timer::after(Duration::from_secs(20)).await;
        panic!("still not done after twenty seconds")
    };
    let login = async {
        let mut command = Command::new(program());
        command.args(["login", "--no-browser"]).args(words);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut err = String::new();
        while let Some(line) = lines.next().await {
            let line = line.unwrap();
            err.push_str(&line);
            if let Some(page) = line.trim().strip_prefix("http://") {
                let shown = auth_testbed::agree(&format!("http://{page}")).await;
                assert_eq!(shown.status, 200, "{}", shown.body);
            }
        }
        let output = child.output().await.unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        CommandOutput { code: output.status.code().unwrap(), out, err }
    };
    block_on(login.or(late))
}

/// C12.25: a shell would cut the URL at its first `&`.
#[cfg(unix)]
#[test]
fn login_opens_the_page_in_the_browser_without_a_shell() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = std::env::temp_dir().join(format!("mcp-cli-browser-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (browser, opened) = (folder.join("browser"), folder.join("opened"));
    assert!(std::process::Command::new("mkfifo").arg(&opened).status().unwrap().success());
    std::fs::write(&browser, format!("#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > '{}'\n", opened.display()))
        .unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let town = block_on(AuthTestbed::new());
    let (url, tokens) = (town.url(), folder.join("tokens"));
    let late = async {
        Timer::after(Duration::from_secs(20)).await;
        panic!("no browser was opened after twenty seconds")
    };
    let login = async {
        let mut command = Command::new(program());
        command.args(["login", &url, "--tokens", tokens.to_str().unwrap()]).env("BROWSER", &browser);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        loop {
            let line = lines.next().await.expect("the page is printed").unwrap();
            if line.trim().starts_with("http://") {
                let pipe = opened.clone();
                let arguments = smol::unblock(move || std::fs::read_to_string(pipe).unwrap()).await;
                break (line.trim().to_owned(), arguments);
            }
        }
    };
    let (printed, arguments) = block_on(login.or(late));
    assert!(printed.contains('&'), "{printed}");
    assert_eq!(arguments, format!("1\n{printed}\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// C12.2, C12.24, C12.25
#[test]
fn login_authorizes_the_other_commands_until_logout() {
    let folder = std::env::temp_dir().join(format!("mcp-cli-tokens-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let tokens = folder.to_str().unwrap();
    let town = block_on(AuthTestbed::new());
    let url = town.url();
    // A URL needs no dashes.
    let tools = ["tools", "--tokens", tokens, &url];
    let hint = format!("To log in: mcpio login {url}");
    // The same server in a configuration file.
    let (file, state) = (folder.with_extension("json"), folder.with_extension("state"));
    std::fs::write(&file, json!({ "mcpServers": { "web": { "url": url } } }).to_string()).unwrap();
    let (file, state) = (file.to_str().unwrap(), state.to_str().unwrap());
    let doctor = ["doctor", "--tokens", tokens, "--state", state, "--user-config", file];

    let unwell = mcp(&doctor);
    assert!(unwell.code == 1 && unwell.out.contains(&format!("→ mcpio login {url}")), "{}", unwell.out);
    let before = mcp(&tools);
    assert_eq!(before.code, 3);
    assert!(before.err.contains("requires authorization") && before.err.contains(&hint), "{}", before.err);
    assert!(town.requests_to("/register").is_empty(), "client registered without a login");

    let login = log_in(&[&url, "--tokens", tokens]);
    assert_eq!(login.code, 0, "{}", login.err);
    assert!(login.out.contains("Logged in") && login.out.contains(town.base()), "{}", login.out);
    let whoami = mcp(&["whoami", &url, "--tokens", tokens, "--json"]);
    let known: Value = serde_json::from_str(&whoami.out).unwrap();
    assert_eq!((&known["clientId"], &known["scope"]), (&json!("client-1"), &json!("tools")));
    let after = mcp(&[&["--trace"], &tools[..]].concat());
    assert_eq!(after.code, 0, "{}", after.err);
    let healthy = mcp(&doctor);
    assert_eq!(healthy.code, 0, "{}{}", healthy.out, healthy.err);

    let logout = mcp(&["logout", &url, "--tokens", tokens]);
    assert_eq!(logout.code, 0, "{}", logout.err);
    assert_eq!(town.requests_to("/revoke").len(), 1);
    for ran in [mcp(&["whoami", &url, "--tokens", tokens]), mcp(&tools)] {
        assert_eq!(ran.code, 3);
        assert!(ran.err.contains(&hint), "{}", ran.err);
    }
    for ran in [unwell, before, login, whoami, after, healthy, logout] {
        let said = ran.out + &ran.err;
        assert!(!said.contains("token-1") && !said.contains("refresh-1"), "{said}");
    }
    for folder in [tokens, state] {
        std::fs::remove_dir_all(folder).unwrap();
    }
    std::fs::remove_file(file).unwrap();
}

/// C12.2
#[test]
fn login_at_a_server_of_a_file_has_the_settings_of_its_entry() {
    let folder = std::env::temp_dir().join(format!("mcp-cli-entry-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (file, state, tokens) = (path("servers.json"), path("state"), path("tokens"));
    let town = block_on(AuthTestbed::new());
    let oauth = json!({ "clientId": "entry-client", "scopes": ["tools"] });
    let servers = json!({
        "web": { "url": town.url(), "oauth": oauth }, "program": { "command": "true", "lazy": true },
    });
    std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
    let config = ["--user-config", &file, "--state", &state, "--tokens", &tokens];
    let with = |words: &[&str]| mcp(&[words, &config].concat());

    let unwell = with(&["doctor"]);
    let hint = format!("mcpio login --user-config {file} --state {state} web");
    assert!(unwell.code == 1 && unwell.out.contains(&hint), "{}{}", unwell.out, unwell.err);
    let login = log_in(&[&["web"], &config[..]].concat());
    assert_eq!(login.code, 0, "{}{}", login.out, login.err);
    assert!(login.out.contains("Logged in web") && login.out.contains("entry-client"), "{}", login.out);
    assert!(town.requests_to("/register").is_empty(), "the entry names the client");
    let called = with(&["call", "web", "tool"]);
    assert_eq!((called.code, called.out.trim()), (0, "done"), "{}", called.err);

    for (name, reason) in [("program", "takes no login"), ("wob", "did you mean web?")] {
        let refused = with(&["login", name]);
        assert!(refused.code == 2 && refused.err.contains(reason), "{}{}", refused.out, refused.err);
    }
    // A project's server is contacted only once the user has approved it.
    let project = ["login", "web", "--config", &file, "--state", &state, "--tokens", &tokens];
    let count = town.received().len();
    let refused = mcp(&project);
    assert!(refused.code == 3 && refused.err.contains("mcpio approve"), "{}{}", refused.out, refused.err);
    assert_eq!(town.received().len(), count);
    std::fs::remove_dir_all(&folder).unwrap();
}
