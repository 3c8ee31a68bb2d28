mod changes;
mod dotenv;
mod entries;
mod formats;
mod merging;
mod references;
mod timeouts;

use std::sync::Arc;

use mcp_proto::host::config::{
    Config, ConfigFile, HttpSpec, ServerEntry, Source, StdioSpec, Template, TransportSpec,
};

pub(crate) fn user(path: &str, text: &str) -> ConfigFile {
    ConfigFile::parse(Source::user(path), text.as_bytes())
}

pub(crate) fn project(path: &str, text: &str) -> ConfigFile {
    ConfigFile::parse(Source::project(path), text.as_bytes())
}

/// A file in no application's format, with one entry.
pub(crate) fn entry(json: &str) -> ServerEntry {
    let file = user("/servers.json", &format!(r#"{{ "mcpServers": {{ "one": {json} }} }}"#));
    assert_eq!(file.errors, []);
    file.servers.into_iter().next().unwrap()
}

/// The error of a file with one entry.
fn error(json: &str) -> String {
    let file = user("f.json", &format!(r#"{{ "mcpServers": {{ "one": {json} }} }}"#));
    assert!(file.servers.is_empty(), "{:?}", file.servers);
    file.errors[0].to_string()
}

fn named<'a>(file: &'a ConfigFile, name: &str) -> &'a ServerEntry {
    file.servers.iter().find(|server| server.name() == name).unwrap()
}

fn stdio(entry: &ServerEntry) -> &StdioSpec {
    match &entry.spec().transport {
        TransportSpec::Stdio(stdio) => stdio,
        TransportSpec::Http(_) => panic!("{} is no program", entry.name()),
    }
}

fn http(entry: &ServerEntry) -> &HttpSpec {
    match &entry.spec().transport {
        TransportSpec::Http(http) => http,
        TransportSpec::Stdio(_) => panic!("{} has no URL", entry.name()),
    }
}

fn texts(templates: &[Template]) -> Vec<String> {
    templates.iter().map(Template::text).collect()
}

fn names(config: &Config) -> Vec<&str> {
    config.servers().iter().map(Arc::as_ref).map(ServerEntry::name).collect()
}
