//! Names in a file that cannot be parsed.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::NAME_BYTES;

/// The texts in a damaged file that may be the names of servers: the keys of JSON, the keys and headers of TOML. Others
/// are among them, such as the names of members.
pub(super) fn possible_names(text: &[u8], is_toml: bool) -> BTreeSet<String> {
    let ends = if is_toml { b"=].".as_slice() } else { b":{" };
    let mut names = BTreeSet::new();
    for (end, _) in text.iter().enumerate().filter(|(_, byte)| ends.contains(byte)) {
        // A longer name is none.
        let start = end.saturating_sub(NAME_BYTES.saturating_add(8));
        let before = text.get(start..end).unwrap_or_default().trim_ascii_end();
        let before = before.strip_suffix(b":").unwrap_or(before).trim_ascii_end();
        names.extend(quoted(before).map(unescaped));
        names.extend(unquoted(before).map(|name| String::from_utf8_lossy(name).into_owned()));
    }
    names.retain(|name| !name.is_empty() && name.len() <= NAME_BYTES);
    names
}

/// The text in quotes that ends here.
fn quoted(before: &[u8]) -> Option<&[u8]> {
    let (quote, text) = before.split_last().filter(|(quote, _)| matches!(quote, b'"' | b'\''))?;
    let is_start = |place: &usize| {
        let escape = place.checked_sub(1).and_then(|before| text.get(before));
        text.get(*place) == Some(quote) && escape != Some(&b'\\')
    };
    let start = (0..text.len()).rev().find(is_start)?;
    text.get(start.saturating_add(1)..)
}

/// The last word, which may lack a quote.
fn unquoted(before: &[u8]) -> Option<&[u8]> {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'');
    let before = before.split_last().filter(|(last, _)| is_quote(last)).map_or(before, |(_, text)| text);
    let word = before.rsplit(|byte| is_quote(byte) || b"{}[],:=.\r\n".contains(byte)).next();
    word.map(<[u8]>::trim_ascii)
}

fn unescaped(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).into_owned();
    serde_json::from_str(&format!("\"{name}\"")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_is_damaged() {
        for text in [
            r#"{"mcpServers": {"my git": {"command": "x" "args": []}}}"#,
            r#"{"mcpServers": {"my git": "#,
            r#"{"mcpServers": {"my git" {"command": "x"}}}"#,
            r#"{"mcpServers": {"my git: {"command": "x"}}}"#,
            r#"{"mcpServers": {my git": {"command": "x"}}}"#,
            r#"{'mcpServers': {'my git': {'command': 'x'}}}"#,
            r#"{mcpServers: {my git: {command: x}}}"#,
            r#"{"mcpServers": {"my\u0020git": {"command": x}}}"#,
        ] {
            assert!(possible_names(text.as_bytes(), false).contains("my git"), "{text}");
        }
        for text in [
            "[mcp_servers.\"my git\"]\ncommand = x",
            "[mcp_servers.\"my git\".env]\nA = ",
            "[[mcp_servers.'my git']\n",
            "mcp_servers = { \"my git\" = { command = x } }",
            "mcp_servers.\"my git\".command = x",
        ] {
            assert!(possible_names(text.as_bytes(), true).contains("my git"), "{text}");
        }
        assert!(possible_names(b"{\"\xff\": 1,\n\"my git\": {}", false).contains("my git"));
        assert!(possible_names(b"[mcp_servers.git]\n=", true).contains("git"));
    }

    #[test]
    fn arbitrary_bytes_have_names_of_bounded_length() {
        let long = ["\"".repeat(1000), ":".repeat(1000), "a".repeat(1000), "\":".repeat(1000)].concat();
        for text in [long.as_bytes(), b"\xff\xfe{\x00:\x00", b"", b"::{{..==]]", b"\\\":"] {
            for is_toml in [false, true] {
                let names = possible_names(text, is_toml);
                assert!(names.iter().all(|name| name.len() <= NAME_BYTES), "{names:?}");
            }
        }
    }
}
