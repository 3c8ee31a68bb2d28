//! Commands to paste that mend a server.

use mcp_proto::host::config::{HttpSpec, Lookup, ServerEntry, TransportSpec};
use mcp_proto::host::control::Status;

use super::files::quoted_options;
use super::options::ConfigOptions;
use crate::connect::quoted_word;

/// The command that asks for the approval of a server; without its names if they cannot be shown on one line.
pub(super) fn approve(options: &ConfigOptions, server: &str) -> String {
    match (quoted_options(options), quoted_word(server)) {
        (Some(files), Some(server)) if !server.starts_with('-') => format!("mcpio approve {files} {server}"),
        (Some(files), _) => format!("mcpio approve {files}"),
        _ => "mcpio approve --config FILE".to_owned(),
    }
}

/// The command that shows the changes of a server since its approval.
pub(super) fn approve_changes(options: &ConfigOptions, server: &str) -> String {
    approve(options, server).replacen("mcpio approve", "mcpio approve --changes", 1)
}

/// What to do about a file with an error.
pub(super) fn edit(path: &str) -> String {
    match quoted_word(path) {
        Some(path) => format!("edit {path}"),
        None => "edit the file".to_owned(),
    }
}

/// What to do about a server that does not connect.
pub(super) fn for_status(options: &ConfigOptions, entry: &ServerEntry, status: Status) -> Option<String> {
    match (status, &entry.spec().transport) {
        (Status::Unapproved, _) => Some(approve(options, entry.name())),
        (Status::NeedsAuthorization, TransportSpec::Http(http)) => Some(login(options, entry.name(), http)),
        _ => None,
    }
}

fn login(options: &ConfigOptions, server: &str, http: &HttpSpec) -> String {
    if http.headers.contains_key("authorization") {
        return "check the header \"authorization\" of the configuration: the server refuses it".to_owned();
    }
    // A URL with references may have a secret in it, once they are resolved.
    let is_plain = http.url.is_literal() && http.oauth.is_none();
    let command = match quoted_word(&http.url.text()).filter(|_| is_plain) {
        Some(url) => Some(format!("mcpio login {url}")),
        None => quoted_options(options)
            .zip(quoted_word(server).filter(|server| !server.starts_with('-')))
            .map(|(files, server)| format!("mcpio login {files} {server}")),
    };
    command.unwrap_or_else(|| "mcpio login --config FILE SERVER".to_owned())
}

/// What to do about a value that is missing.
pub(super) fn for_missing(lookup: &Lookup) -> String {
    match lookup {
        Lookup::Variable(name) => match quoted_word(name) {
            Some(name) => format!("export {name}=VALUE"),
            None => "set the variable".to_owned(),
        },
        Lookup::Input(_) => "run the command on a terminal, which asks for it".to_owned(),
        Lookup::EnvFile(_) => "create the file that \"envFile\" names".to_owned(),
        _ => "set it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use mcp_proto::host::config::{ConfigFile, Source};

    use super::*;

    fn entry(text: &str) -> ServerEntry {
        let text = format!(r#"{{ "mcpServers": {{ "a b": {text} }} }}"#);
        ConfigFile::parse(Source::project("/srv/project/.mcp.json"), text.as_bytes()).servers.remove(0)
    }

    #[test]
    fn hints_are_commands_with_quoted_words() {
        let files = vec![PathBuf::from("my servers.json")];
        let options = ConfigOptions { files, user_files: Vec::new(), state: None };
        let hint = |text: &str, status| for_status(&options, &entry(text), status).unwrap();
        let approval = "mcpio approve --config 'my servers.json' 'a b'";
        assert_eq!(hint(r#"{ "command": "x" }"#, Status::Unapproved), approval);
        let login = |text: &str| hint(text, Status::NeedsAuthorization);
        assert_eq!(login(r#"{ "url": "https://a.example/mcp" }"#), "mcpio login https://a.example/mcp");
        let by_name = "mcpio login --config 'my servers.json' 'a b'";
        for text in [
            r#"{ "url": "https://a.example/${KEY}" }"#,
            r#"{ "url": "https://a.example/mcp", "oauth": { "scopes": ["a", "b"] } }"#,
        ] {
            assert_eq!(login(text), by_name);
        }
        let refused = login(r#"{ "url": "https://a.example/mcp", "headers": { "Authorization": "x" } }"#);
        assert!(refused.contains("the server refuses it"), "{refused}");
        assert_eq!(for_missing(&Lookup::Variable("TOKEN".into())), "export TOKEN=VALUE");
    }

    #[test]
    fn hint_never_shows_a_name_that_the_user_could_not_judge() {
        let options = ConfigOptions { files: vec!["a\u{1b}[2J".into()], ..ConfigOptions::default() };
        assert_eq!(approve(&options, "x"), "mcpio approve --config FILE");
        let options = ConfigOptions { files: vec!["a".into()], ..ConfigOptions::default() };
        assert_eq!(approve(&options, "--revoke"), "mcpio approve --config a");
        assert_eq!(approve(&options, "\u{202e}"), "mcpio approve --config a");
        assert_eq!(edit("/srv/a b; reboot/.mcp.json"), "edit '/srv/a b; reboot/.mcp.json'");
        assert_eq!(edit("/srv/\u{202e}/.mcp.json"), "edit the file");
    }
}
