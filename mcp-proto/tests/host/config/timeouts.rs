use core::time::Duration;

use mcp_proto::host::config::{ServerSpec, TimeoutOverrides, TimeoutVariableError, Timeouts};

use super::{entry, user};

fn overrides(variables: &[(&str, &str)]) -> TimeoutOverrides {
    let get =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    TimeoutOverrides::from_variables(get).unwrap()
}

fn timeouts(spec: &ServerSpec, variables: &[(&str, &str)]) -> (Option<u64>, Option<u64>) {
    let Timeouts { start, call } = spec.timeouts(&overrides(variables));
    let millis =
        |timeout: Option<Duration>| timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap());
    (millis(start), millis(call))
}

/// F62
#[test]
fn environment_goes_before_the_file_and_the_file_before_the_default() {
    let plain = entry(r#"{ "command": "x" }"#);
    let one = entry(r#"{ "command": "x", "timeout": 7000 }"#);
    let both =
        entry(r#"{ "command": "x", "timeout": 7000, "startup_timeout_sec": 1, "tool_timeout_sec": 2.5 }"#);
    assert_eq!(timeouts(plain.spec(), &[]), (Some(30_000), Some(30_000)));
    assert_eq!(timeouts(one.spec(), &[]), (Some(7000), Some(7000)));
    assert_eq!(timeouts(both.spec(), &[]), (Some(1000), Some(2500)));
    assert_eq!(timeouts(both.spec(), &[("OMP_MCP_TIMEOUT_MS", "9")]), (Some(9), Some(9)));
    let apart = [("OMP_MCP_TIMEOUT_MS", "9"), ("MCP_TIMEOUT", "8"), ("MCP_TOOL_TIMEOUT", "")];
    assert_eq!(timeouts(both.spec(), &apart), (Some(8), Some(9)));
}

/// F67
#[test]
fn request_timeout_in_milliseconds_is_read_from_the_entry_or_else_from_the_file() {
    let file = user(
        "/servers.json",
        r#"{ "requestTimeoutMs": 5000, "mcpServers": {
            "plain": { "command": "x" },
            "own": { "command": "x", "timeout": 7000, "requestTimeoutMs": 1500 },
            "endless": { "url": "https://a.example", "requestTimeoutMs": 0 }
        } }"#,
    );
    let calls: Vec<_> = file.servers.iter().map(|server| timeouts(server.spec(), &[])).collect();
    assert_eq!(calls, [(Some(30_000), Some(5000)), (Some(7000), Some(1500)), (Some(30_000), None)]);
    let wrong = user("/servers.json", r#"{ "requestTimeoutMs": "5 s", "mcpServers": {} }"#);
    let text = r#"/servers.json: "requestTimeoutMs" must be a number of milliseconds, 0 for no limit"#;
    assert_eq!(wrong.errors[0].to_string(), text);
}

/// F53, F62
#[test]
fn zero_is_no_limit() {
    let zero = entry(r#"{ "command": "x", "timeout": 0, "tool_timeout_sec": 3 }"#);
    assert_eq!(timeouts(zero.spec(), &[]), (None, Some(3000)));
    assert_eq!(timeouts(zero.spec(), &[("MCP_TOOL_TIMEOUT", " 0 ")]), (None, None));
}

#[test]
fn variable_that_is_no_number_is_an_error() {
    for text in ["x", "-1", "1.5", "1s"] {
        let error = TimeoutOverrides::from_variables(|name| (name == "MCP_TIMEOUT").then(|| text.into()));
        assert_eq!(error, Err(TimeoutVariableError { variable: "MCP_TIMEOUT" }));
    }
}
