//! The command-line client with hostile servers: no terminal control sequence reaches the output.

use crate::common::cli::{CommandOutput, mcp, script};
use mcp_proto::consent::SafeText;
use serde_json::Value;

/// Characters that must not be shown: sequences, C0, DEL, C1, direction, zero width, line breaks.
const HOSTILE: &str =
    r"x\u001b]0;title\u0007\u001b[2J\r\b\u007f\u009b1A\u202e\u2066\u200b\ufeff\u2028y\nmcpio: forged";
/// Some of them as raw bytes, for standard error and lines that are not messages.
const RAW: &str = r"x\033]0;title\007\033[2J\r\b\177\302\2331A\342\200\256y";

/// A legacy server whose names, texts, results and errors are all hostile.
fn hostile(args: &[&str]) -> CommandOutput {
    let server = script(&format!(
        r#"
        say() {{ printf '%b\n' '{RAW}' >&2; }}
        tool='{{"name":"{HOSTILE}","title":"{HOSTILE}","description":"{HOSTILE}","inputSchema":{{"type":"object","properties":{{"{HOSTILE}":{{"type":"string","description":"{HOSTILE}","enum":["{HOSTILE}"]}}}},"additionalProperties":false}}}}'
        safe='{{"name":"safe","inputSchema":{{"type":"object"}}}}'
        while ask; do
            say
            case $line in
            *'"initialize"'*) answer '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}},"resources":{{}},"prompts":{{}},"completions":{{}},"logging":{{}}}},"serverInfo":{{"name":"{HOSTILE}","version":"{HOSTILE}"}},"instructions":"{HOSTILE}"}}' ;;
            *'"tools/list"'*) answer "{{\"tools\":[$tool,$safe]}}" ;;
            *'"tools/call"'*)
                note '{{"level":"info","logger":"{HOSTILE}","data":"{HOSTILE}"}}'
                answer '{{"content":[{{"type":"text","text":"{HOSTILE}"}},{{"type":"resource_link","uri":"{HOSTILE}","name":"{HOSTILE}"}},{{"type":"image","data":"","mimeType":"{HOSTILE}"}}],"structuredContent":{{"{HOSTILE}":"{HOSTILE}"}}}}' ;;
            *'"resources/list"'*) answer '{{"resources":[{{"uri":"{HOSTILE}","name":"{HOSTILE}","mimeType":"{HOSTILE}"}}]}}' ;;
            *'"resources/templates/list"'*) answer '{{"resourceTemplates":[{{"uriTemplate":"{HOSTILE}","name":"{HOSTILE}"}}]}}' ;;
            *'"resources/read"'*) answer '{{"contents":[{{"uri":"{HOSTILE}","text":"{HOSTILE}"}},{{"uri":"{HOSTILE}","mimeType":"{HOSTILE}","blob":"AA=="}}]}}' ;;
            *'"prompts/list"'*) answer '{{"prompts":[{{"name":"{HOSTILE}","arguments":[{{"name":"{HOSTILE}"}}]}}]}}' ;;
            *'"prompts/get"'*) answer '{{"description":"{HOSTILE}","messages":[{{"role":"user","content":{{"type":"text","text":"{HOSTILE}"}}}}]}}' ;;
            *'"completion/complete"'*) answer '{{"completion":{{"values":["{HOSTILE}"]}}}}' ;;
            *'"ping"'*) refuse '{HOSTILE}' ;;
            *'"notifications/'*) ;;
            *) refuse 'unknown' ;;
            esac
        done"#
    ));
    mcp(&[args, &["--timeout", "10", "--", "sh", "-c", &server]].concat())
}

/// Asserts that the output moves the cursor only by line breaks and tabs, and forges no line of this program.
fn assert_harmless(args: &[&str], ran: &CommandOutput) {
    for text in [&ran.out, &ran.err] {
        let shown = text.chars().find(|char| SafeText::is_unsafe(*char) && !matches!(char, '\n' | '\t'));
        assert_eq!(shown, None, "{args:?}: {text:?}");
    }
    assert!(!ran.err.lines().any(|line| line.starts_with("mcpio: forged")), "{args:?}: {}", ran.err);
}

#[test]
fn output_of_every_command_is_harmless_with_a_hostile_server() {
    for args in [
        &["info"][..],
        &["tools"],
        &["tools", "nothing"],
        &["call", "safe"],
        &["resources"],
        &["read", "x://y"],
        &["prompts"],
        &["get", "x"],
        &["complete", "x", "y"],
        &["ping"],
    ] {
        for mode in [&["--trace"][..], &["--trace", "--json"], &[]] {
            let ran = hostile(&[args, mode].concat());
            assert_harmless(args, &ran);
            assert!(
                mode.contains(&"--json") || (ran.out + &ran.err).contains("u{202e}"),
                "{args:?} {mode:?}"
            );
        }
    }
}

#[test]
fn json_output_escapes_unsafe_characters_and_keeps_the_value() {
    let ran = hostile(&["call", "safe", "--json"]);
    assert!(ran.out.contains("\\u202e") && ran.out.contains("\\u009b"), "{}", ran.out);
    let text: String = serde_json::from_str(&format!("\"{HOSTILE}\"")).unwrap();
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["content"][0]["text"], text);
    let ran = hostile(&["ping", "--json"]);
    let error = &serde_json::from_str::<Value>(&ran.out).unwrap()["error"];
    assert_eq!((ran.code, &error["kind"], &error["code"]), (3, &"refused".into(), &(-32000).into()));
    assert!(error["message"].as_str().unwrap().contains(&text), "{error}");
}

#[test]
fn raw_contents_are_written_unchanged_only_with_raw() {
    let ran = hostile(&["read", "x://y", "--raw"]);
    assert!(ran.out.contains("\x1b[2J") && ran.out.ends_with('\0'), "{:?}", ran.out);
}

#[test]
fn standard_error_and_noise_of_a_failed_server_are_harmless() {
    let server = format!("printf '%b\\nmcpio: forged\\n' '{RAW}' >&2; printf '%b\\nb\\n' '{RAW}'; exit 9");
    for mode in [&["--trace"][..], &["--json"], &[]] {
        let ran = mcp(&[&["tools"][..], mode, &["--", "sh", "-c", &server]].concat());
        assert_harmless(mode, &ran);
        assert_eq!(ran.code, 3);
        assert!(ran.err.contains("exit status: 9") && ran.err.contains("u{202e}"), "{}", ran.err);
        assert!(ran.err.contains("lines that are not MCP to its standard output"), "{}", ran.err);
    }
}
